using System.Text.Json;
using System.Text.Json.Nodes;
using Iotrace.Agent.Commands;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tests.Fakes;
using Iotrace.Agent.Tracing;
using Xunit;

namespace Iotrace.Agent.Tests;

public class RecordingTests
{
    private static JsonNode Manifest(string folder) => JsonNode.Parse(File.ReadAllText(Path.Combine(folder, "manifest.json")))!;

    [Fact]
    public void Columns_are_those_of_the_recording_schema()
    {
        var schema = JsonNode.Parse(File.ReadAllText(Repository.File("schemas/recording.json")))!;
        // What the import derives may be null on the way.
        HashSet<string> derived = ["files.path", "files.role", "processes.os_process_id"];
        foreach (var (table, ours) in RecordingSchemas.Tables)
        {
            var theirs = schema["tables"]![table]!.AsArray().ToDictionary(field => (string)field!["name"]!, field => field!);
            foreach (var field in ours.FieldsList)
            {
                var known = theirs[field.Name];
                var type = (string)known["type"]! is "word" ? "int8" : (string)known["type"]!;
                Assert.Equal(type, field.DataType.Name is "utf8" ? "string" : field.DataType.Name);
                Assert.True(
                    field.IsNullable == (bool)known["nullable"]! || derived.Contains($"{table}.{field.Name}"), $"{table}.{field.Name}");
            }
        }
    }

    [Fact]
    public void What_was_played_is_written_with_names_that_came_last_and_losses_that_were_told()
    {
        using var scratch = new Scratch();
        var host = new PlayedHost(recorder =>
        {
            for (var number = 1; number <= 70_000; number++)
            {
                recorder.Read(1_000_000 + number * 100L, key: 0xA0);
            }
            recorder.FileName(Payloads.FileName(0xA0, @"\Device\HarddiskVolume7\data\sales.mdf"), 8, 8_000_000, Valid.Until);
        })
        { Losses = new(7, 0) };
        var status = new Recording(new(scratch.In("r")), host, scratch.Output).Run(CancellationToken.None);
        Assert.Equal(0, status);
        var issued = Fakes.Streams.Longs(scratch.In("r/io.arrows"), "issued_ns");
        Assert.Equal(70_000, issued.Count);
        Assert.Equal((100_000_000 + 10_000 - 100_000, 100_000_000 + 700_000_000 - 100_000), (issued[0], issued[^1]));
        Assert.Equal([@"E:\data\sales.mdf"], Fakes.Streams.Texts(scratch.In("r/files.arrows"), "path"));
        var quality = Manifest(scratch.In("r"))["quality"]!;
        Assert.Equal(("normally", 7), ((string)quality["ended"]!, (int)quality["events_lost"]!));
        Assert.Contains("7 events", scratch.Data, StringComparison.Ordinal);
    }

    [Fact]
    public void Rows_are_written_in_the_order_in_which_they_came_while_batches_are_handed_over()
    {
        using var scratch = new Scratch();
        Directory.CreateDirectory(scratch.In("r"));
        var manifest = new RecordingManifest { Title = "order", ClockName = "played", StartUtcNs = 0, ResolutionNs = 100 };
        using var done = new ManualResetEventSlim();
        using (var recording = new RecordingFolder(scratch.In("r"), manifest))
        {
            var recorder = new TraceRecorder(new(0, PlayedHost.Hertz), recording.Add);
            recording.Begin(recorder);
            // The first batch holds the writer up until it has to save: it takes what is filling then, the third row, beside the
            // second, and while it writes the second, the fourth is handed over.
            Add(1, () =>
            {
                Thread.Sleep(RecordingFolder.FlushEvery * 1.2);
                lock (recorder.Gate)
                {
                    Add(2, () => Add(4, done.Set));
                    recorder.Read(3 * PlayedHost.Hertz);
                }
            });
            Assert.True(done.Wait(TimeSpan.FromSeconds(60), TestContext.Current.CancellationToken));
            recording.Finish(RecordingManifest.Normally);

            void Add(int second, Action then)
            {
                lock (recorder.Gate)
                {
                    recorder.Read(second * PlayedHost.Hertz);
                    recording.AfterThese(then);
                }
            }
        }
        Assert.Equal([1, 2, 3, 4], Fakes.Streams.Longs(scratch.In("r/io.arrows"), "completed_ns").Select(at => at / 1_000_000_000));
    }

    [Fact]
    public void A_full_volume_ends_a_recording_and_says_so()
    {
        using var scratch = new Scratch();
        var host = new PlayedHost(recorder => recorder.Read(1000)) { Free = 1 << 20, IsEndless = true };
        new Recording(new(scratch.In("r")), host, scratch.Output).Run(CancellationToken.None);
        Assert.Contains("left", (string)Manifest(scratch.In("r"))["quality"]!["ended"]!, StringComparison.Ordinal);
        Assert.Contains("ended early", scratch.Words, StringComparison.Ordinal);
    }

    [Fact]
    public void A_wish_to_stop_ends_it_as_meant()
    {
        using var scratch = new Scratch();
        using var stop = new CancellationTokenSource(TimeSpan.FromMilliseconds(200));
        var host = new PlayedHost(recorder => recorder.Read(1000)) { IsEndless = true };
        Assert.Equal(0, new Recording(new(scratch.In("r")), host, scratch.Output).Run(stop.Token));
        Assert.Equal("normally", (string)Manifest(scratch.In("r"))["quality"]!["ended"]!);
        Assert.Single(Fakes.Streams.Longs(scratch.In("r/io.arrows"), "issued_ns"));
    }

    [Fact]
    public void A_folder_that_holds_something_is_left_alone()
    {
        using var scratch = new Scratch();
        Directory.CreateDirectory(scratch.In("r"));
        File.WriteAllText(scratch.In("r/mine.txt"), "mine");
        var problem = Assert.Throws<AgentError>(() =>
            new Recording(new(scratch.In("r")), new PlayedHost(_ => { }), scratch.Output).Run(CancellationToken.None));
        Assert.Contains("is there already", problem.Message, StringComparison.Ordinal);
        Assert.Equal("mine", File.ReadAllText(scratch.In("r/mine.txt")));
    }

    [Fact]
    public void Names_do_not_leave_an_anonymized_recording()
    {
        using var scratch = new Scratch();
        var host = new PlayedHost(recorder =>
        {
            recorder.Read(1000, key: 0xA0);
            recorder.Read(2000, key: 0xA1);
            recorder.FileName(Payloads.FileName(0xA0, @"\Device\HarddiskVolume7\Payroll\Salaries.mdf"), 8, 5000, Valid.Until);
            recorder.FileName(Payloads.FileName(0xA1, @"\Device\HarddiskVolume7\tempdb.mdf"), 8, 5000, Valid.Until);
        });
        new Recording(new(scratch.In("r")) { Anonymize = true }, host, scratch.Output).Run(CancellationToken.None);
        var paths = Fakes.Streams.Texts(scratch.In("r/files.arrows"), "path");
        Assert.Matches(@"^E:\\n[0-9a-f]{10}\\n[0-9a-f]{10}\.mdf$", paths[0]);
        Assert.Equal(@"E:\tempdb.mdf", paths[1]);
        foreach (var file in Directory.EnumerateFiles(scratch.In("r")))
        {
            var bytes = File.ReadAllBytes(file);
            Assert.Equal(-1, bytes.AsSpan().IndexOf("Payroll"u8));
            Assert.Equal(-1, bytes.AsSpan().IndexOf(System.Text.Encoding.UTF8.GetBytes(Environment.MachineName)));
        }
    }

    [Fact]
    public void A_stream_that_is_cut_anywhere_gives_its_whole_batches()
    {
        using var scratch = new Scratch();
        var path = scratch.In("io.arrows");
        var ends = new List<long>();
        using (var stream = new ArrowTableStream(path, RecordingSchemas.Io))
        {
            var batch = new IoBatch(64);
            for (var number = 0; number < 3; number++)
            {
                batch.Clear();
                for (var row = 0; row < 50; row++)
                {
                    batch.Add(new() { Layer = Layer.Block, IssuedNs = number * 50 + row, CompletedNs = long.MinValue, OffsetBytes = row - 1, DeviceId = IoRow.None, FileId = row, ProcessId = IoRow.None, ThreadId = 1 });
                }
                using var view = batch.View();
                stream.Write(view);
                ends.Add(stream.Bytes);
            }
            stream.End();
        }
        var whole = File.ReadAllBytes(path);
        for (var cut = (int)ends[0]; cut < whole.Length; cut += 37)
        {
            File.WriteAllBytes(path, whole[..cut]);
            var rows = 0;
            try
            {
                using var file = File.OpenRead(path);
                using var reader = new Apache.Arrow.Ipc.ArrowStreamReader(file, new Apache.Arrow.Compression.CompressionCodecFactory(), leaveOpen: false);
                while (reader.ReadNextRecordBatch() is { } batch)
                {
                    Assert.Equal(rows, ((Apache.Arrow.Int64Array)batch.Column("issued_ns")).GetValue(0));
                    Assert.Equal(batch.Length, ((Apache.Arrow.Int64Array)batch.Column("completed_ns")).NullCount);
                    Assert.Equal(1, ((Apache.Arrow.UInt64Array)batch.Column("offset_bytes")).NullCount);
                    rows += batch.Length;
                }
            }
            catch (Exception problem) when (problem is IOException or InvalidDataException or InvalidOperationException)
            {
                // What follows the last whole batch.
            }
            Assert.Equal(50 * ends.Count(end => end <= cut), rows);
        }
    }

    [Fact]
    public void Nothing_more_goes_into_a_stream_after_a_failed_write()
    {
        using var scratch = new Scratch();
        using var stream = new ArrowTableStream(scratch.In("io.arrows"), RecordingSchemas.Io);
        var batch = new IoBatch(8);
        batch.Add(new() { Layer = Layer.Block });
        stream.End();
        using var view = batch.View();
        Assert.Throws<IOException>(() => stream.Write(view));
    }
}

/// <summary>Files of the repository that the tests stand in.</summary>
internal static class Repository
{
    public static string File(string name)
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (folder is not null && !System.IO.File.Exists(Path.Combine(folder.FullName, name)))
        {
            folder = folder.Parent;
        }
        return Path.Combine(folder?.FullName ?? throw new FileNotFoundException(name), name);
    }
}
