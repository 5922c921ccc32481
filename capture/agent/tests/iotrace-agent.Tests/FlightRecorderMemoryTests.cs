using System.Globalization;
using Iotrace.Agent.FlightRecorder;
using Iotrace.Agent.Tests.Fakes;
using Xunit;

namespace Iotrace.Agent.Tests;

/// <summary>Alone in the process: it measures the heap.</summary>
[CollectionDefinition(nameof(Alone), DisableParallelization = true)]
public sealed class Alone;

[Collection(nameof(Alone))]
public class FlightRecorderMemoryTests
{
    [Fact]
    public void Ten_hours_of_even_load_take_no_more_memory_and_room_than_two()
    {
        using var scratch = new Scratch();
        const long bytesMax = 1 << 20; // less than half an hour of it
        var (heap, disk) = (new List<long>(), new List<long>());
        var host = new PlayedHost(recorder =>
        {
            for (var second = 1L; second <= 36_000; second++)
            {
                for (var io = 0; io < 100; io++)
                {
                    recorder.Read(second * PlayedHost.Hertz + io * 1000, response: 2000 + io, key: 0xA0 + (ulong)(io & 63), offset: io * second * 4096);
                }
                if (second % 3600 == 0)
                {
                    heap.Add(GC.GetTotalMemory(forceFullCollection: true));
                    disk.Add(Directory.GetFiles(scratch.In("kept/.ring"), "*.piece").Sum(LengthOf));
                }
            }
        });
        var keep = new FlightRecording(
            new(scratch.In("kept"), new(TimeSpan.FromMinutes(30), TimeSpan.FromMinutes(2), bytesMax, 10), ["p99 > 50ms for 10s"]), host, scratch.Output);
        Assert.Equal(0, keep.Run(CancellationToken.None));
        Assert.Empty(keep.Made);
        Assert.Equal(10, heap.Count);
        Assert.All(heap.Skip(2), bytes => Assert.InRange(bytes, 0, heap[1] + (4 << 20)));
        // A batch that was just written may lie above it until the oldest piece is dropped.
        Assert.All(disk, bytes => Assert.InRange(bytes, 1, bytesMax + bytesMax / 2));
        TestContext.Current.SendDiagnosticMessage(string.Create(
            CultureInfo.InvariantCulture,
            $"heap, MiB: {string.Join(' ', heap.Select(bytes => bytes >> 20))}; kept, KiB: {string.Join(' ', disk.Select(bytes => bytes >> 10))}"));
    }

    /// <summary>The writer may just have dropped it.</summary>
    private static long LengthOf(string file)
    {
        try
        {
            return new FileInfo(file).Length;
        }
        catch (FileNotFoundException)
        {
            return 0;
        }
    }
}
