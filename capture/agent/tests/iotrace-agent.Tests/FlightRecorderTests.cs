using System.Text.Json.Nodes;
using CsCheck;
using Iotrace.Agent.FlightRecorder;
using Iotrace.Agent.Tests.Fakes;
using Xunit;

namespace Iotrace.Agent.Tests;

public class FlightRecorderTests
{
    private const long Second = PlayedHost.Hertz;

    [Fact]
    public void A_hang_of_half_a_minute_in_ten_hours_makes_one_recording_that_holds_it_whole()
    {
        using var scratch = new Scratch();
        const long hangs = 5 * 3600;
        var host = new PlayedHost(recorder =>
        {
            recorder.FileName(Payloads.FileName(0xA0, @"\Device\HarddiskVolume7\sales.mdf"), 8, 1, Tracing.Valid.From);
            for (var second = 1L; second <= 36_000; second++)
            {
                if (second is > hangs and <= hangs + 30)
                {
                    continue; // nothing is completed
                }
                for (var io = 0; io < 5; io++)
                {
                    recorder.Read(second * Second + io * 1000, response: second == hangs + 31 ? 30 * Second : 20_000);
                }
            }
        });
        var args = new KeepArgs(
            scratch.In("kept"), new(TimeSpan.FromMinutes(10), TimeSpan.FromMinutes(2), 1 << 30, 10), ["p99 > 50ms for 10s"]);
        var keep = new FlightRecording(args, host, scratch.Output);
        Assert.Equal(0, keep.Run(CancellationToken.None));
        var folder = Assert.Single(keep.Made);
        var issued = Fakes.Streams.Longs(Path.Combine(folder, "io.arrows"), "issued_ns");
        var completed = Fakes.Streams.Longs(Path.Combine(folder, "io.arrows"), "completed_ns");
        Assert.Equal(5, issued.Zip(completed).Count(io => io.Second - io.First > 20_000_000_000));
        // The ten minutes before, by a piece at most more, and the two after.
        Assert.InRange(completed.Min()!.Value, (hangs + 31 - 11 * 60 - 62) * 1_000_000_000, (hangs + 32 - 600) * 1_000_000_000);
        Assert.InRange(completed.Max()!.Value, (hangs + 31 + 118) * 1_000_000_000, (hangs + 31 + 125) * 1_000_000_000);
        Assert.Equal([@"E:\sales.mdf"], Fakes.Streams.Texts(Path.Combine(folder, "files.arrows"), "path"));
        Assert.Contains("p99 > 50ms", Fakes.Streams.Texts(Path.Combine(folder, "markers.arrows"), "text")[0], StringComparison.Ordinal);
        var manifest = JsonNode.Parse(File.ReadAllText(Path.Combine(folder, "manifest.json")))!;
        Assert.Equal("normally", (string)manifest["quality"]!["ended"]!);
        Assert.Equal([folder], Directory.GetFileSystemEntries(scratch.In("kept")));
        // For the test of what iotrace incident makes of it.
        if (Environment.GetEnvironmentVariable("IOTRACE_KEPT") is { } kept)
        {
            Directory.CreateDirectory(kept);
            foreach (var file in Directory.GetFiles(folder))
            {
                File.Copy(file, Path.Combine(kept, Path.GetFileName(file)));
            }
        }
    }

    [Fact]
    public void An_event_of_sql_server_that_was_named_makes_a_recording_and_is_a_marker_in_it()
    {
        using var scratch = new Scratch();
        const long utcNs = 1_772_000_000_000_000_000; // the played host's at its tick 0
        FlightRecording? keep = null;
        var host = new PlayedHost(recorder =>
        {
            for (var second = 1L; second <= 60; second++)
            {
                recorder.Read(second * Second);
                if (second is 20 or 30)
                {
                    var at = DateTimeOffset.UnixEpoch.AddTicks((utcNs + second * 1_000_000_000) / 100);
                    var name = second == 20 ? "checkpoint_begin" : "long_io_detected";
                    keep!.Mark(new(name, at, new Dictionary<string, object> { ["database_id"] = 7 }, new Dictionary<string, object>()), utcNs);
                }
            }
        });
        var limits = new KeepLimits(TimeSpan.FromMinutes(10), TimeSpan.FromSeconds(5), 1 << 30, 10);
        keep = new(new(scratch.In("kept"), limits, ["long_io_detected"]), host, scratch.Output);
        Assert.Equal(0, keep.Run(CancellationToken.None));
        var folder = Assert.Single(keep.Made);
        Assert.Equal(
            ["kept because long_io_detected", "checkpoint_begin: database_id 7", "long_io_detected: database_id 7"],
            Fakes.Streams.Texts(Path.Combine(folder, "markers.arrows"), "text"));
        Assert.Equal(34, Fakes.Streams.Longs(Path.Combine(folder, "io.arrows"), "completed_ns").Count);
    }

    [Fact]
    public void The_ring_keeps_its_bounds_of_time_and_bytes()
    {
        using var scratch = new Scratch();
        const long bytesMax = 300_000;
        using var kept = new KeptMinutes(scratch.Folder, new(TimeSpan.FromSeconds(100), TimeSpan.FromSeconds(1), bytesMax, 1));
        var random = new Random(1);
        var batch = new Iotrace.Agent.Streams.IoBatch(1000);
        for (var second = 0L; second < 1000; second++)
        {
            batch.Clear();
            for (var io = 0; io < 100; io++)
            {
                batch.Add(new() { Layer = Iotrace.Agent.Streams.Layer.Block, IssuedNs = second * 1_000_000_000, CompletedNs = second * 1_000_000_000 + random.Next(), OffsetBytes = random.NextInt64(1L << 40) });
            }
            using var view = batch.View();
            kept.Write(view, batch.FirstNs, batch.LastNs);
            Assert.InRange(kept.Bytes, 0, bytesMax + 20_000);
            Assert.InRange(Directory.GetFiles(scratch.Folder).Length, 1, 13);
        }
        var (startNs, endNs, rows) = kept.CopyTo(scratch.In("io.arrows"), 0);
        Assert.Equal(rows, Fakes.Streams.Longs(scratch.In("io.arrows"), "issued_ns").Count);
        Assert.InRange(startNs, 880L * 1_000_000_000, 900L * 1_000_000_000);
        Assert.InRange(endNs, 999L * 1_000_000_000, 1002L * 1_000_000_000);
    }

    private static SecondOfIo At(long second, double latencyMs, int ios = 100, long lost = 0)
    {
        var latencies = new LatencyHistogram();
        for (var io = 0; io < ios; io++)
        {
            latencies.Add((long)(latencyMs * 1e6));
        }
        return new((second + 1) * 1_000_000_000, ios, second * 1_000_000_000, latencies, 1, lost);
    }

    [Fact]
    public void A_condition_holds_for_its_time_and_is_told_once_until_it_no_longer_holds()
    {
        var condition = TriggerCondition.Parse("p99 > 50ms for 3s");
        double[] latencies = [1, 80, 80, 1, 80, 80, 80, 80, 80, 1, 80, 80, 80];
        var fired = latencies.Select((latency, second) => (second, Fires: condition.Fires(At(second, latency)))).Where(one => one.Fires);
        Assert.Equal([6, 12], fired.Select(one => one.second));
    }

    [Fact]
    public void One_slow_io_on_an_idle_server_is_not_ten_seconds_of_slowness()
    {
        var condition = TriggerCondition.Parse("p99 > 50ms for 10s");
        Assert.False(condition.Fires(At(0, 1)));
        for (var second = 1L; second < 100; second++)
        {
            Assert.False(condition.Fires(At(second, 0, ios: 0)));
        }
        Assert.False(condition.Fires(At(100, 80)));
    }

    [Fact]
    public void Lost_events_fire_at_once()
    {
        var condition = TriggerCondition.Parse("lost > 0");
        Assert.False(condition.Fires(At(0, 1)));
        Assert.True(condition.Fires(At(1, 1, lost: 3)));
    }

    [Theory]
    [InlineData("p99 > 50")]
    [InlineData("p99 50ms")]
    [InlineData("speed > 3")]
    [InlineData("p99 > 50ms for ever")]
    [InlineData("")]
    public void What_is_no_condition_is_refused_with_the_users_words(string text) =>
        Assert.Contains($"'{text}'", Assert.Throws<AgentError>(() => TriggerCondition.Parse(text)).Message, StringComparison.Ordinal);

    [Fact]
    public void A_quantile_is_at_most_a_sixteenth_above_the_true_one() =>
        Gen.Select(Gen.Long[0, 1L << 50].Array[1, 200], Gen.Double[0.01, 1]).Sample((values, quantile) =>
        {
            var histogram = new LatencyHistogram();
            foreach (var value in values)
            {
                histogram.Add(value);
            }
            var truth = values.Order().ElementAt(Math.Max((int)Math.Ceiling(quantile * values.Length), 1) - 1);
            var found = histogram.Quantile(quantile);
            return found >= truth && found <= truth + truth / 16.0 + 1;
        });
}
