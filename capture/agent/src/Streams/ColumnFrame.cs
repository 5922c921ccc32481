using System.Buffers.Binary;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Iotrace.Agent.Streams;

/// <summary>
/// Columns of numbers as Zstandard frames, without a search for matches: of the values of a column the high bytes are
/// mostly those of the value before. A frame says so directly, with one sequence a value that repeats them (the repeated
/// offset, in modes that take no bits), and holds the rest as literals, which get a Huffman code where few of them differ.
/// A fifth of the time of a general compressor, and no more bytes, on times, offsets and numbers; any reader takes it.
/// Form: RFC 8878, sections 3.1 and 4.2.
/// </summary>
internal sealed class ColumnFrame
{
    private const int StepRows = 64;
    private const int BlockBytesMax = 128 << 10;
    private const int MatchMin = 3;

    /// <summary>What two blocks cost beside their literals, about.</summary>
    private const int ChunkBytes = 30;

    private byte[] _literals = new byte[BlockBytesMax];
    private byte[] _frame = [];
    private readonly HuffmanLiterals _huffman = new();
    private int _length;

    /// <summary>Whether values of this many bytes have high bytes to repeat.</summary>
    public static bool Takes(int width) => width is 4 or 8;

    /// <summary>
    /// A frame of <paramref name="values"/>, each of <paramref name="width"/> bytes, little-endian; valid until the next call.
    /// </summary>
    public ReadOnlySpan<byte> Of(ReadOnlySpan<byte> values, int width)
    {
        var room = values.Length + values.Length / 64 + 1024;
        if (_frame.Length < room)
        {
            _frame = new byte[room];
        }
        _length = 0;
        Put32(0xFD2FB528);
        Put8(0xA0); // one segment, its length in four bytes
        Put32((uint)values.Length);
        var at = 0;
        var rows = values.Length / width;
        while (at < rows)
        {
            var (count, mask) = Chunk(values[(at * width)..], width, rows - at);
            var isLast = at + count == rows;
            Write(values.Slice(at * width, count * width), width, count, mask, isLast);
            at += count;
        }
        if (rows == 0)
        {
            BlockHeader(0, 0, isLast: true);
        }
        return _frame.AsSpan(0, _length);
    }

    private static ulong At(ReadOnlySpan<byte> values, int width, int row) => width == 8
        ? MemoryMarshal.Cast<byte, ulong>(values)[row]
        : MemoryMarshal.Cast<byte, uint>(values)[row];

    /// <summary>Bytes that differ, from the first to the last of them: how many a value takes as literals.</summary>
    private static (int Low, int High) Varying(ulong mask) => mask == 0
        ? (0, 1)
        : (BitOperations.TrailingZeroCount(mask) / 8, 8 - BitOperations.LeadingZeroCount(mask) / 8);

    private static int LiteralsOf(ulong mask, int width)
    {
        var (low, high) = Varying(mask);
        return width - (high - low) >= MatchMin ? high - low : width;
    }

    /// <summary>As many values as are cheaper together than apart, and which of their bits differ.</summary>
    private static (int Count, ulong Mask) Chunk(ReadOnlySpan<byte> values, int width, int rows)
    {
        var most = BlockBytesMax / width;
        var count = Math.Min(StepRows, rows);
        var first = At(values, width, 0);
        var mask = Differences(values, width, 0, count, first);
        while (count < rows)
        {
            var step = Math.Min(StepRows, rows - count);
            if (count + step > most)
            {
                break;
            }
            var next = At(values, width, count);
            var own = Differences(values, width, count, step, next);
            var joint = mask | own | (first ^ next);
            var together = (count + step) * LiteralsOf(joint, width);
            var apart = count * LiteralsOf(mask, width) + step * LiteralsOf(own, width) + ChunkBytes;
            if (together > apart)
            {
                break;
            }
            (mask, count) = (joint, count + step);
        }
        return (count, mask);
    }

    private static ulong Differences(ReadOnlySpan<byte> values, int width, int from, int count, ulong first)
    {
        var mask = 0UL;
        if (width == 8)
        {
            foreach (var value in MemoryMarshal.Cast<byte, ulong>(values).Slice(from, count))
            {
                mask |= value ^ first;
            }
        }
        else
        {
            foreach (var value in MemoryMarshal.Cast<byte, uint>(values).Slice(from, count))
            {
                mask |= value ^ first;
            }
        }
        return mask;
    }

    private void Write(ReadOnlySpan<byte> values, int width, int rows, ulong mask, bool isLast)
    {
        var (low, high) = Varying(mask);
        var repeated = width - (high - low);
        if (rows < 4 || repeated < MatchMin)
        {
            BlockHeader(0, values.Length, isLast);
            values.CopyTo(_frame.AsSpan(_length));
            _length += values.Length;
            return;
        }
        WriteFirst(values, width, low, high);
        // From the third value on: what differs of each, and at the end what the last has above it.
        var kept = high - low;
        var length = Gather(values, width, low, kept, rows);
        values[^(width - high)..].CopyTo(_literals.AsSpan(length));
        length += width - high;
        var start = _length;
        _length += 3;
        WriteLiterals(_literals.AsSpan(0, length));
        PutCount(rows - 3);
        Put8(0x54); // each code is the same for all
        Put8(kept);
        Put8(0); // the repeated offset
        Put8(repeated - MatchMin);
        Put8(1); // no bits
        EndBlock(start, isLast);
    }

    /// <summary>The first two values and the low bytes of the third, so that a distance of one value is the repeated one.</summary>
    private void WriteFirst(ReadOnlySpan<byte> values, int width, int low, int high)
    {
        var start = _length;
        _length += 3;
        var count = width + high;
        Put8(count << 3); // literals as they are
        values[..count].CopyTo(_frame.AsSpan(_length));
        _length += count;
        PutCount(1);
        Put8(0x54);
        Put8(count); // up to 15 a length is its own code, and 16 has one bit more
        Put8(width == 8 ? 3 : 2);
        Put8(width - (high - low) - MatchMin);
        // From the last bit on: the offset above its power of two, 11 - 8 or 7 - 4, then the length's bit.
        var (bits, used) = width == 8 ? (3, 3) : (3, 2);
        if (count == 16)
        {
            (bits, used) = (bits << 1, used + 1);
        }
        Put8(bits | 1 << used);
        EndBlock(start, isLast: false);
    }

    private int Gather(ReadOnlySpan<byte> values, int width, int low, int kept, int rows)
    {
        ref var to = ref MemoryMarshal.GetArrayDataReference(_literals);
        var at = 0;
        if (width == 8)
        {
            var shift = 8 * low;
            foreach (var value in MemoryMarshal.Cast<byte, ulong>(values)[2..rows])
            {
                // Eight bytes are written of which the next value takes back what is not its own: there is room.
                Unsafe.WriteUnaligned(ref Unsafe.Add(ref to, at), value >> shift);
                at += kept;
            }
        }
        else
        {
            for (var place = 2 * width + low; place < values.Length; place += width)
            {
                Unsafe.Add(ref to, at++) = values[place];
            }
        }
        return at;
    }

    private void WriteLiterals(ReadOnlySpan<byte> literals)
    {
        if (literals.Length >= 1024 && _huffman.TryWrite(literals, _frame.AsSpan(_length), out var written))
        {
            _length += written;
            return;
        }
        // As they are; their length in 20 bits.
        Put8(0x0C | literals.Length << 4 & 0xF0);
        Put8(literals.Length >> 4);
        Put8(literals.Length >> 12);
        literals.CopyTo(_frame.AsSpan(_length));
        _length += literals.Length;
    }

    private void PutCount(int sequences)
    {
        switch (sequences)
        {
            case < 128:
                Put8(sequences);
                break;
            case < 0x7F00:
                Put8(sequences >> 8 | 0x80);
                Put8(sequences);
                break;
            default:
                Put8(255);
                Put8(sequences - 0x7F00);
                Put8(sequences - 0x7F00 >> 8);
                break;
        }
    }

    private void EndBlock(int start, bool isLast)
    {
        var length = _length - start - 3;
        _length = start;
        BlockHeader(2, length, isLast);
        _length += length;
    }

    private void BlockHeader(int type, int length, bool isLast)
    {
        var header = length << 3 | type << 1 | (isLast ? 1 : 0);
        Put8(header);
        Put8(header >> 8);
        Put8(header >> 16);
    }

    private void Put8(int value) => _frame[_length++] = unchecked((byte)value);

    private void Put32(uint value)
    {
        BinaryPrimitives.WriteUInt32LittleEndian(_frame.AsSpan(_length), value);
        _length += 4;
    }
}

/// <summary>Literals of a Zstandard block under a Huffman code (RFC 8878, section 3.1.1.3.1 and 4.2): up to 129 low byte values.</summary>
internal sealed class HuffmanLiterals
{
    /// <summary>The plain form of the code's description takes no higher one.</summary>
    private const int SymbolMax = 128;

    private const int BitsMax = 11;
    private const int Streams = 4;
    private const int HeaderBytes = 5;

    private readonly int[] _counts = new int[256];
    private readonly int[] _lengths = new int[SymbolMax + 1];
    private readonly uint[] _codes = new uint[SymbolMax + 1];

    /// <summary>False where a code would not pay, or there are too many different bytes.</summary>
    public bool TryWrite(ReadOnlySpan<byte> literals, Span<byte> to, out int written)
    {
        written = 0;
        if (literals[..256].ContainsAnyExceptInRange((byte)0, (byte)SymbolMax))
        {
            return false;
        }
        Array.Clear(_counts);
        foreach (var literal in literals)
        {
            _counts[literal]++;
        }
        var last = Array.FindLastIndex(_counts, count => count > 0);
        if (last is 0 or > SymbolMax || _counts[last] == literals.Length)
        {
            return false;
        }
        var longest = Lengths(last);
        var bits = 0L;
        for (var symbol = 0; symbol <= last; symbol++)
        {
            bits += (long)_counts[symbol] * _lengths[symbol];
        }
        var size = bits / 8 + HeaderBytes + 1 + last / 2 + 6 + 2 * Streams;
        if (size >= literals.Length - literals.Length / 16 || size + 8 > to.Length)
        {
            return false;
        }
        Codes(last, longest);
        var at = HeaderBytes;
        to[at++] = (byte)(127 + last);
        for (var symbol = 0; symbol < last; symbol += 2)
        {
            to[at++] = (byte)(Weight(symbol, longest) << 4 | (symbol + 1 < last ? Weight(symbol + 1, longest) : 0));
        }
        var jumps = at;
        at += 6;
        var part = (literals.Length + Streams - 1) / Streams;
        for (var stream = 0; stream < Streams; stream++)
        {
            var from = Math.Min(stream * part, literals.Length);
            var length = Encode(literals[from..Math.Min(from + part, literals.Length)], to[at..]);
            if (stream < Streams - 1)
            {
                BinaryPrimitives.WriteUInt16LittleEndian(to[(jumps + 2 * stream)..], (ushort)length);
            }
            at += length;
        }
        // Compressed, four streams, both sizes in 18 bits.
        var header = 2UL | 3UL << 2 | (ulong)literals.Length << 4 | (ulong)(at - HeaderBytes) << 22;
        for (var index = 0; index < HeaderBytes; index++)
        {
            to[index] = unchecked((byte)(header >> 8 * index));
        }
        written = at;
        return true;
    }

    private int Weight(int symbol, int longest) => _lengths[symbol] == 0 ? 0 : longest + 1 - _lengths[symbol];

    /// <summary>Lengths of the codes; the longest of them. Counts that would need longer ones are evened out.</summary>
    private int Lengths(int last)
    {
        Span<long> counts = stackalloc long[SymbolMax + 1];
        for (var symbol = 0; symbol <= last; symbol++)
        {
            counts[symbol] = _counts[symbol];
        }
        while (true)
        {
            var longest = Tree(counts[..(last + 1)]);
            if (longest <= BitsMax)
            {
                return longest;
            }
            for (var symbol = 0; symbol <= last; symbol++)
            {
                counts[symbol] = counts[symbol] == 0 ? 0 : counts[symbol] / 4 + 1;
            }
        }
    }

    private int Tree(ReadOnlySpan<long> counts)
    {
        var queue = new PriorityQueue<int, (long, int)>();
        Span<int> parents = stackalloc int[2 * (SymbolMax + 1)];
        for (var symbol = 0; symbol < counts.Length; symbol++)
        {
            _lengths[symbol] = 0;
            if (counts[symbol] > 0)
            {
                queue.Enqueue(symbol, (counts[symbol], symbol));
            }
        }
        var node = counts.Length;
        while (queue.Count > 1)
        {
            queue.TryDequeue(out var one, out var first);
            queue.TryDequeue(out var other, out var second);
            parents[one] = parents[other] = node;
            queue.Enqueue(node, (first.Item1 + second.Item1, node));
            node++;
        }
        var root = queue.Dequeue();
        var longest = 0;
        for (var symbol = 0; symbol < counts.Length; symbol++)
        {
            for (var up = symbol; counts[symbol] > 0 && up != root; up = parents[up])
            {
                _lengths[symbol]++;
            }
            longest = Math.Max(longest, _lengths[symbol]);
        }
        return longest;
    }

    /// <summary>From the longest codes on, in the order of the symbols, counted up from 0.</summary>
    private void Codes(int last, int longest)
    {
        var code = 0U;
        for (var length = longest; length > 0; length--)
        {
            for (var symbol = 0; symbol <= last; symbol++)
            {
                if (_lengths[symbol] == length)
                {
                    _codes[symbol] = code++;
                }
            }
            code >>= 1;
        }
    }

    /// <summary>From the last literal to the first: readers begin at the end.</summary>
    private int Encode(ReadOnlySpan<byte> literals, Span<byte> to)
    {
        var (bits, used, at) = (0UL, 0, 0);
        for (var index = literals.Length - 1; index >= 0; index--)
        {
            var literal = literals[index];
            bits |= (ulong)_codes[literal] << used;
            used += _lengths[literal];
            if (used >= 32)
            {
                BinaryPrimitives.WriteUInt32LittleEndian(to[at..], unchecked((uint)bits));
                (bits, used, at) = (bits >> 32, used - 32, at + 4);
            }
        }
        bits |= 1UL << used;
        used++;
        for (; used > 0; used -= 8)
        {
            to[at++] = unchecked((byte)bits);
            bits >>= 8;
        }
        return at;
    }
}
