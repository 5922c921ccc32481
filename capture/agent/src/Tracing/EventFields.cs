using System.Buffers.Binary;
using System.Text;

namespace Iotrace.Agent.Tracing;

/// <summary>
/// The bytes of an event's payload, packed and little-endian. Loads do not check one by one: ask <see cref="Has"/> for the
/// length of a form first. Nothing in a payload is trusted to be there.
/// </summary>
internal readonly ref struct EventFields(ReadOnlySpan<byte> bytes)
{
    private readonly ReadOnlySpan<byte> _bytes = bytes;

    public int Length => _bytes.Length;

    public bool Has(int bytes) => _bytes.Length >= bytes;

    public byte U8(int at) => _bytes[at];

    public uint U32(int at) => BinaryPrimitives.ReadUInt32LittleEndian(_bytes[at..]);

    public ulong U64(int at) => BinaryPrimitives.ReadUInt64LittleEndian(_bytes[at..]);

    public long I64(int at) => BinaryPrimitives.ReadInt64LittleEndian(_bytes[at..]);

    /// <summary>A pointer of 4 or 8 bytes.</summary>
    public ulong Pointer(int at, int bytes) => bytes == 4 ? U32(at) : U64(at);

    /// <summary>UTF-16 up to its zero, or to the end where it is cut off; <paramref name="next"/> is where the next field starts.</summary>
    public string Wide(int at, out int next)
    {
        if (at > _bytes.Length)
        {
            next = at;
            return "";
        }
        var rest = _bytes[at..];
        var units = rest.Length / 2;
        var length = 0;
        while (length < units && (rest[2 * length] | rest[2 * length + 1]) != 0)
        {
            length++;
        }
        next = at + 2 * length + 2;
        return Encoding.Unicode.GetString(rest[..(2 * length)]);
    }

    /// <summary>UTF-16 in a field of <paramref name="units"/> code units, up to the first zero.</summary>
    public string WideFixed(int at, int units) => new EventFields(_bytes.Slice(at, 2 * units)).Wide(0, out _);

    /// <summary>Single bytes up to their zero: UTF-8, else taken as Latin-1.</summary>
    public string Narrow(int at, out int next)
    {
        var rest = _bytes[at..];
        var length = rest.IndexOf((byte)0);
        length = length < 0 ? rest.Length : length;
        next = at + length + 1;
        var text = rest[..length];
        return System.Text.Unicode.Utf8.IsValid(text) ? Encoding.UTF8.GetString(text) : Encoding.Latin1.GetString(text);
    }
}
