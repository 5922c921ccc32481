using System.Runtime.InteropServices;
using Apache.Arrow.Compression;
using Apache.Arrow.Ipc;
using CsCheck;
using Iotrace.Agent.Streams;
using Xunit;

namespace Iotrace.Agent.Tests;

/// <summary>What Zstandard's own reader makes of the frames.</summary>
public class ColumnFrameTests
{
    /// <summary>Columns as they are: few bits that differ, at any place, for a while; a step now and then; noise.</summary>
    private static readonly Gen<ulong[]> Columns =
        Gen.Select(Gen.ULong, Gen.Int[0, 63], Gen.Int[0, 40], Gen.Int[1, 900], Gen.Int[0, 40_000], Gen.Int)
            .Select((first, shift, bits, every, rows, seed) =>
            {
                var random = new Random(seed);
                var values = new ulong[rows];
                for (var row = 0; row < rows; row++)
                {
                    first = row % every == 0 && seed % 3 == 0 ? unchecked(first + (1UL << shift)) : first;
                    values[row] = first ^ (ulong)random.NextInt64(1L << bits) << shift;
                }
                return values;
            });

    [Fact]
    public void Any_column_of_eight_bytes_comes_back() =>
        Columns.Sample(values => ComesBack(MemoryMarshal.AsBytes(values.AsSpan()), 8), iter: 300);

    [Fact]
    public void Any_column_of_four_bytes_comes_back() =>
        Columns.Sample(values => ComesBack(MemoryMarshal.AsBytes(values.Select(value => unchecked((uint)value)).ToArray().AsSpan()), 4), iter: 300);

    [Fact]
    public void Any_bytes_come_back() =>
        Gen.Select(Gen.Byte.Array[0, 5000], Gen.Bool).Sample((bytes, isWide) => ComesBack(bytes.AsSpan(0, bytes.Length / 8 * 8), isWide ? 8 : 4));

    [Fact]
    public void Times_and_numbers_take_the_bytes_that_differ_and_no_more()
    {
        var random = new Random(1);
        var times = new long[65_536];
        var numbers = new int[65_536];
        for (var row = 0; row < times.Length; row++)
        {
            times[row] = 1_000_000_000_000 + row * 20_000L + random.Next(15_000);
            numbers[row] = random.Next(64);
        }
        // 2^24 ns are 840 rows: three bytes of each differ, and six bits of a number of 64.
        Assert.InRange(new ColumnFrame().Of(MemoryMarshal.AsBytes(times.AsSpan()), 8).Length / 65_536.0, 3, 3.2);
        Assert.InRange(new ColumnFrame().Of(MemoryMarshal.AsBytes(numbers.AsSpan()), 4).Length / 65_536.0, 0.75, 0.77);
    }

    private static bool ComesBack(ReadOnlySpan<byte> values, int width)
    {
        var frame = new ColumnFrame().Of(values, width).ToArray();
        var back = new byte[values.Length];
        using var zstandard = new CompressionCodecFactory().CreateCodec(CompressionCodecType.Zstd);
        return values.Length == 0 || (zstandard.Decompress(frame, back) == back.Length && values.SequenceEqual(back));
    }
}
