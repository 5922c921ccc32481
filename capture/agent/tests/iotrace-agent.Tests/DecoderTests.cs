using CsCheck;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tests.Fakes;
using Iotrace.Agent.Tracing;
using Xunit;

namespace Iotrace.Agent.Tests;

public class DecoderTests
{
    /// <summary>The first write of a public trace of Windows 8, with the figures that another reader prints of it.</summary>
    [Fact]
    public void A_write_of_a_real_trace_is_what_other_readers_say()
    {
        var payload = Convert.FromHexString(
            "0000000043000200001000000000000000b02c6c0100000050fc5f04a0f8fffff0e8470083faffff44240000000000002c000000");
        Assert.True(DiskEventDecoder.TryTransfer(payload, 3, 8, 1955107211, DiskEventDecoder.Unknown, Op.Write, out var io));
        Assert.Equal((0u, 0x20043u, 4096u, 6109835264L), (io.Disk, io.IrpFlags, io.Size, io.Offset));
        Assert.Equal((0xfffff8a0045ffc50UL, 0xfffffa830047e8f0UL, 9284L, 44u), (io.Key, io.Irp, io.Response, io.Thread));
    }

    /// <summary>TraceEvent takes the thread of a flush from offset 8 and says 786839; it is 960.</summary>
    [Fact]
    public void A_flush_has_its_thread_behind_its_irp()
    {
        var payload = Convert.FromHexString("000000000000060097010c000000000080fb7f0183faffffc0030000");
        Assert.True(DiskEventDecoder.TryFlush(payload, 3, 8, 0, DiskEventDecoder.Unknown, out var io));
        Assert.Equal((786839L, 960u), (io.Response, io.Thread));
    }

    [Theory]
    [InlineData(2, 8, 48, true)]
    [InlineData(2, 8, 47, false)]
    [InlineData(3, 8, 52, true)]
    [InlineData(3, 8, 51, false)]
    [InlineData(2, 4, 40, true)]
    [InlineData(3, 4, 44, true)]
    [InlineData(3, 4, 43, false)]
    [InlineData(3, 8, 60, true)]
    [InlineData(1, 8, 60, false)]
    public void A_transfer_is_as_long_as_its_version_and_pointers_make_it(int version, int pointer, int bytes, bool isTaken) =>
        Assert.Equal(isTaken, DiskEventDecoder.TryTransfer(new byte[bytes], version, pointer, 0, 0, Op.Read, out _));

    [Fact]
    public void Before_version_3_the_thread_is_that_of_the_header()
    {
        Assert.True(DiskEventDecoder.TryTransfer(new byte[48], 2, 8, 0, 3416, Op.Read, out var io));
        Assert.Equal(3416u, io.Thread);
    }

    /// <summary>At 48 bytes a version 2 read and a version 3 read with one more word are of one length: the version tells.</summary>
    [Fact]
    public void The_version_tells_two_file_reads_of_one_length_apart()
    {
        var payload = new byte[48];
        payload[16] = 0x2A; // version 2: the thread; version 3: the open file
        Assert.True(FileEventDecoder.TryStart(payload, FileEventDecoder.Read, 2, 8, 0, 0, out var early, out _));
        Assert.True(FileEventDecoder.TryStart(payload, FileEventDecoder.Read, 3, 8, 0, 0, out var late, out _));
        Assert.Equal((0x2Au, 0UL), (early.Thread, early.Object));
        Assert.Equal((0u, 0x2AUL), (late.Thread, late.Object));
    }

    [Fact]
    public void Any_bytes_make_no_exception_and_no_more_rows_than_events() =>
        Gen.Select(Gen.Byte.Array[0, 700], Gen.Int[0, 6], Gen.Bool.Select(isWide => isWide ? 8 : 4), Gen.Int[0, 13]).Array[1, 20].Sample(events =>
        {
            var rows = 0;
            var recorder = new TraceRecorder(new(0, PlayedHost.Hertz), (in _) => rows++);
            foreach (var (bytes, version, pointer, kind) in events)
            {
                switch (kind)
                {
                    case 0: recorder.Transfer(bytes, version, pointer, 5, 1, Op.Read); break;
                    case 1: recorder.Flush(bytes, version, pointer, 5, 1); break;
                    case 2: recorder.Start(bytes, version, pointer, 5, 1, Op.Write); break;
                    case 3: recorder.FileName(bytes, pointer, 5, Valid.From); break;
                    case 4: recorder.FileName(bytes, pointer, 5, Valid.Until); break;
                    case 5: recorder.Thread(bytes, version, 5, Valid.From); break;
                    case 6: recorder.Process(bytes, version, pointer, 5, Valid.From, isReal: true); break;
                    case 7: recorder.PhysicalDisk(bytes); break;
                    case 8: recorder.Partition(bytes); break;
                    case 9: recorder.VolumeMapping(bytes); break;
                    case 10: recorder.FileOperation(bytes, FileEventDecoder.Create + version * 2, version, pointer, 5, 1); break;
                    case 11: recorder.FileOperationEnd(bytes, version, pointer, 5); break;
                    case 12: recorder.PortRequest(bytes, 201, 2, pointer, 5); break;
                    default: recorder.Flush(bytes, 3, pointer, long.MaxValue, 1); break;
                }
            }
            recorder.Finish();
            _ = recorder.Names.FileRows().Count();
            _ = recorder.Names.ProcessRows().Count();
            return rows <= events.Length;
        });

    [Theory]
    [InlineData(1_818_300, 1, 549)]
    [InlineData(1_818_300, -1, -550)]
    [InlineData(10_000_000, 6_048_000_000_000L, 604_800_000_000_000L)]
    public void Ticks_become_nanoseconds_rounded_down(long hertz, long ticks, long nanoseconds)
    {
        Assert.True(new TickClock(1000, hertz).TryNanoseconds(1000 + ticks, out var found));
        Assert.Equal(nanoseconds, found);
    }

    [Fact]
    public void Ticks_are_scaled_as_exact_arithmetic_says() =>
        Gen.Select(Gen.Long[-(1L << 61), 1L << 61], Gen.Long[1, 10_000_000_000]).Sample((ticks, hertz) =>
        {
            var exact = new System.Numerics.BigInteger(ticks) * 1_000_000_000;
            var floor = System.Numerics.BigInteger.DivRem(exact, hertz, out var rest);
            floor -= rest < 0 ? 1 : 0;
            var fits = new TickClock(0, hertz).TryScale(ticks, out var found);
            return fits ? floor == found : floor > long.MaxValue || floor < long.MinValue;
        });
}
