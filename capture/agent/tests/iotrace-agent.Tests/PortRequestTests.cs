using System.Buffers.Binary;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tests.Fakes;
using Iotrace.Agent.Tracing;
using Xunit;

namespace Iotrace.Agent.Tests;

public class PortRequestTests
{
    private const ulong Irp = 7;

    /// <summary>A read of 8 KiB that was completed, as the manifest of Windows lists the fields, of 64 bits.</summary>
    private static byte[] Request(ulong tenths, ulong of)
    {
        var payload = new byte[51];
        BinaryPrimitives.WriteUInt64LittleEndian(payload, tenths);
        payload[16] = 0x28;
        payload[17] = 1;
        BinaryPrimitives.WriteUInt64LittleEndian(payload.AsSpan(18), of);
        BinaryPrimitives.WriteUInt32LittleEndian(payload.AsSpan(31), 8192);
        return payload;
    }

    /// <summary>Lengths, in 100 ns, of the rows of the device layer.</summary>
    private static List<long> Played(Action<TraceRecorder> play)
    {
        List<long> lengths = [];
        var recorder = new TraceRecorder(new(0, PlayedHost.Hertz), (in row) =>
        {
            if (row.Layer == Layer.Device)
            {
                lengths.Add((row.CompletedNs - row.IssuedNs) / 100);
            }
        });
        play(recorder);
        recorder.Finish();
        Assert.Equal(0, recorder.Counts.Rejected);
        return lengths;
    }

    [Fact]
    public void Every_request_is_a_row_once()
    {
        var lengths = Played(recorder =>
        {
            for (var number = 1; number <= 201; number++)
            {
                recorder.PortRequest(Request(1000, Irp), PortEventDecoder.TimedInStack, 2, 8, number * 10_000);
                recorder.Read(number * 10_000 + 10);
            }
        });
        Assert.Equal(201, lengths.Count);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Of_a_host_that_tells_both_times_those_of_the_stack_are_the_rows_from_the_first_on(bool isDeviceFirst)
    {
        var lengths = Played(recorder =>
        {
            for (var number = 1; number <= 201; number++)
            {
                var (first, second) = isDeviceFirst ? (200, 201) : (201, 200);
                recorder.PortRequest(Request(first == 200 ? 900u : 1000u, Irp), first, 2, 8, number * 10_000);
                recorder.PortRequest(Request(second == 200 ? 900u : 1000u, Irp), second, 2, 8, number * 10_000 + 1);
                recorder.Read(number * 10_000 + 10);
            }
        });
        Assert.Equal(Enumerable.Repeat(1000L, 201), lengths);
    }
}
