using System.Buffers;
using System.Buffers.Binary;
using System.Text;

namespace Iotrace.StandIns.SqlServer;

/// <summary>What a server answers: rows, an error, both, or neither.</summary>
public sealed record Answer
{
    public static Answer Nothing { get; } = new();

    /// <summary>Names of columns; their types follow from the values: int, long, bool, string, byte[], DateTime. Null: no result.</summary>
    public IReadOnlyList<string>? Columns { get; init; }

    public IReadOnlyList<object?[]> Rows { get; init; } = [];

    /// <summary>Number and text of an error after the rows.</summary>
    public (int Number, string Text)? Error { get; init; }

    /// <summary>After the rows nothing comes, until the client cancels or goes.</summary>
    public bool Hangs { get; init; }

    /// <summary>After the rows the connection is cut.</summary>
    public bool Cuts { get; init; }

    public static Answer Value(string column, object? value) => new() { Columns = [column], Rows = [[value]] };

    public static Answer Failure(int number, string text) => new() { Error = (number, text) };
}

/// <summary>Tokens of the Tabular Data Stream 7.4 ([MS-TDS]), as many as an answer of ours needs.</summary>
internal sealed class TdsTokens
{
    public const ushort Final = 0;
    public const ushort More = 1;
    public const ushort HasError = 2;
    public const ushort HasCount = 0x10;
    public const ushort AttentionAcknowledged = 0x20;

    private static readonly byte[] Collation = [0x09, 0x04, 0xD0, 0x00, 0x34];
    private readonly ArrayBufferWriter<byte> _bytes = new();

    public byte[] ToArray() => _bytes.WrittenSpan.ToArray();

    public TdsTokens Login(string database)
    {
        Change(1, database, "master");
        Change(4, "4096", "4096");
        // Without a collation the client's first text parameter fails.
        Token(0xE3, body =>
        {
            Byte(body, 7);
            Byte(body, Collation.Length);
            body.Write(Collation);
            Byte(body, 0);
        });
        Token(0xAD, body =>
        {
            Byte(body, 1);
            body.Write<byte>([0x74, 0x00, 0x00, 0x04]);
            ShortText(body, "Microsoft SQL Server");
            body.Write<byte>([16, 0, 0x10, 0x00]);
        });
        return this;
    }

    public TdsTokens Error(int number, string text, byte severity)
    {
        Token(0xAA, body =>
        {
            Int(body, number);
            Byte(body, 1);
            Byte(body, severity);
            Short(body, text.Length);
            body.Write(Encoding.Unicode.GetBytes(text));
            ShortText(body, "stand-in");
            ShortText(body, "");
            Int(body, 1);
        });
        return this;
    }

    public TdsTokens Columns(IReadOnlyList<string> names, IReadOnlyList<object?[]> rows)
    {
        Byte(_bytes, 0x81);
        Short(_bytes, names.Count);
        for (var column = 0; column < names.Count; column++)
        {
            Int(_bytes, 0);
            Short(_bytes, 1);
            var place = column;
            Type(rows.Select(row => row[place]).FirstOrDefault(value => value is not null));
            ShortText(_bytes, names[column]);
        }
        return this;
    }

    public TdsTokens Row(object?[] values, IReadOnlyList<object?[]> rows)
    {
        Byte(_bytes, 0xD1);
        for (var column = 0; column < values.Length; column++)
        {
            var place = column;
            Value(values[column], rows.Select(row => row[place]).FirstOrDefault(value => value is not null));
        }
        return this;
    }

    public TdsTokens Done(byte token, ushort status, long count = 0)
    {
        Byte(_bytes, token);
        Short(_bytes, status);
        Short(_bytes, 0xC1);
        Span<byte> rows = stackalloc byte[8];
        BinaryPrimitives.WriteInt64LittleEndian(rows, count);
        _bytes.Write(rows);
        return this;
    }

    public TdsTokens ReturnStatus(int status)
    {
        Byte(_bytes, 0x79);
        Int(_bytes, status);
        return this;
    }

    private void Type(object? value)
    {
        switch (value)
        {
            case int:
                _bytes.Write<byte>([0x26, 4]);
                break;
            case long:
                _bytes.Write<byte>([0x26, 8]);
                break;
            case bool:
                _bytes.Write<byte>([0x68, 1]);
                break;
            case DateTime:
                _bytes.Write<byte>([0x2A, 7]);
                break;
            case byte[]:
                _bytes.Write<byte>([0xA5, 0xFF, 0xFF]);
                break;
            default:
                _bytes.Write<byte>([0xE7, 0xFF, 0xFF]);
                _bytes.Write(Collation);
                break;
        }
    }

    private void Value(object? value, object? like)
    {
        Span<byte> number = stackalloc byte[8];
        switch (value ?? like)
        {
            case int or long or bool or DateTime when value is null:
                Byte(_bytes, 0);
                break;
            case int whole:
                BinaryPrimitives.WriteInt32LittleEndian(number, whole);
                Byte(_bytes, 4);
                _bytes.Write(number[..4]);
                break;
            case long whole:
                BinaryPrimitives.WriteInt64LittleEndian(number, whole);
                Byte(_bytes, 8);
                _bytes.Write(number);
                break;
            case bool flag:
                _bytes.Write<byte>([1, flag ? (byte)1 : (byte)0]);
                break;
            case DateTime moment:
                Byte(_bytes, 8);
                BinaryPrimitives.WriteInt64LittleEndian(number, moment.TimeOfDay.Ticks);
                _bytes.Write(number[..5]);
                BinaryPrimitives.WriteInt32LittleEndian(number, (moment.Date - DateTime.MinValue).Days);
                _bytes.Write(number[..3]);
                break;
            default:
                Long(value switch
                {
                    null => null,
                    byte[] bytes => bytes,
                    _ => Encoding.Unicode.GetBytes(value.ToString() ?? ""),
                });
                break;
        }
    }

    /// <summary>A value of no stated length: pieces, each with its own.</summary>
    private void Long(byte[]? value)
    {
        Span<byte> length = stackalloc byte[8];
        BinaryPrimitives.WriteUInt64LittleEndian(length, value is null ? ulong.MaxValue : (ulong)value.Length);
        _bytes.Write(length);
        if (value is null)
        {
            return;
        }
        if (value.Length > 0)
        {
            Int(_bytes, value.Length);
            _bytes.Write(value);
        }
        Int(_bytes, 0);
    }

    private void Change(byte kind, string now, string before) => Token(0xE3, body =>
    {
        Byte(body, kind);
        ShortText(body, now);
        ShortText(body, before);
    });

    private void Token(byte token, Action<ArrayBufferWriter<byte>> write)
    {
        var body = new ArrayBufferWriter<byte>();
        write(body);
        Byte(_bytes, token);
        Short(_bytes, body.WrittenCount);
        _bytes.Write(body.WrittenSpan);
    }

    private static void Byte(ArrayBufferWriter<byte> to, int value) => to.Write<byte>([unchecked((byte)value)]);

    private static void Short(ArrayBufferWriter<byte> to, int value) => to.Write<byte>([unchecked((byte)value), unchecked((byte)(value >> 8))]);

    private static void Int(ArrayBufferWriter<byte> to, int value)
    {
        Span<byte> bytes = stackalloc byte[4];
        BinaryPrimitives.WriteInt32LittleEndian(bytes, value);
        to.Write(bytes);
    }

    private static void ShortText(ArrayBufferWriter<byte> to, string text)
    {
        Byte(to, text.Length);
        to.Write(Encoding.Unicode.GetBytes(text));
    }
}
