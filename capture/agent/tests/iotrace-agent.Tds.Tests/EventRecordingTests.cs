using System.Globalization;
using Apache.Arrow;
using Apache.Arrow.Compression;
using Apache.Arrow.Ipc;
using Iotrace.Agent.SqlServer;
using Iotrace.StandIns.SqlServer;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>
/// Files that a session leaves become rows through the real XELite, which XELITE_DLL names, or stay whole. A real file is put
/// in place of the session's.
/// </summary>
public sealed class EventRecordingTests : IDisposable
{
    private static readonly string Sample = Path.Combine(XELiteLiveTests.Samples, "sqltoolsservice_TestXel_0.xel");

    private static readonly Dictionary<string, string> Durations = new(StringComparer.Ordinal)
    {
        ["rpc_completed"] = "The time (in microseconds) that it took the remote procedure call to be completed.",
    };

    private readonly string _log = Directory.CreateTempSubdirectory("iotrace-agent-log-").FullName;
    private readonly string _output = Directory.CreateTempSubdirectory("iotrace-agent-out-").FullName;

    public void Dispose()
    {
        Directory.Delete(_log, recursive: true);
        Directory.Delete(_output, recursive: true);
    }

    [Fact]
    public async Task ASessionsFileBecomesRows()
    {
        RequireXELite();
        var said = await Recorded(file => File.Copy(Sample, file + "_0_1.xel"));
        Assert.StartsWith($"{XELiteLiveTests.SampleEvents} events of SQL Server became rows", said, StringComparison.Ordinal);
        Assert.Equal("sql", Path.GetFileName(Assert.Single(Directory.GetFileSystemEntries(_output))));
        Assert.Empty(Directory.GetFiles(_log));
        // Another program's listing of the file: time, name, then fields.
        var listed = (await File.ReadAllLinesAsync(Path.ChangeExtension(Sample, ".xelite.txt"), TestContext.Current.CancellationToken))
            .Where(line => !line.StartsWith('#')).Select(line => line.Split('\t')).ToList();
        var first = listed.Min(At);
        var rows = Events();
        Assert.Equal(
            listed.Select(parts => ((At(parts) - first).Ticks * 100, parts[1])).Order(),
            rows.Select(row => (row.AtNs, row.Name)).Order());
        // SQL Server states the unit of the one event's duration, and of no other's.
        Assert.Equal(
            listed.Where(parts => parts[1] == "rpc_completed").Select(parts => (long?)1000 * Duration(parts)).Order(),
            rows.Where(row => row.Name == "rpc_completed").Select(row => row.DurationNs).Order());
        Assert.All(rows, row => Assert.Equal(row.Name == "rpc_completed", row.DurationNs is not null));
        Assert.All(rows, row => Assert.Equal("sqlserver", row.Package));
    }

    [Fact]
    public async Task FilesThatXELiteCannotReadStay()
    {
        RequireXELite();
        var said = await Recorded(file => File.WriteAllBytes(file + "_0_1.xel", [.. Enumerable.Repeat((byte)7, 2048)]));
        Assert.StartsWith("the sql layer stays in its .xel files, which iotrace import reads: ", said, StringComparison.Ordinal);
        Assert.Contains("damaged", said, StringComparison.Ordinal);
        Assert.Equal(2048, new FileInfo(Assert.Single(Directory.GetFileSystemEntries(_output))).Length);
    }

    [Fact]
    public async Task FilesOfWhichXELiteGivesAnotherNumberOfEventsThanSqlServerCountedStay()
    {
        RequireXELite();
        var said = await Recorded(file =>
        {
            File.Copy(Sample, file + "_0_1.xel");
            File.Copy(Sample, file + "_0_2.xel");
        });
        Assert.Contains("gives 298 events where SQL Server numbered 149", said, StringComparison.Ordinal);
        Assert.Equal(2, Directory.GetFiles(_output, "*.xel").Length);
        Assert.Empty(Directory.GetDirectories(_output));
    }

    [Fact]
    public async Task WhereThereIsNoRoomForRowsFilesStay()
    {
        RequireXELite();
        var said = await Recorded(file => File.Copy(Sample, file + "_0_1.xel"), freeBytes: 4096);
        Assert.Contains("may not fit", said, StringComparison.Ordinal);
        Assert.Single(Directory.GetFileSystemEntries(_output));
    }

    [Fact]
    public async Task WithoutXELiteFilesStay()
    {
        Assert.SkipWhen(EventReader.LibraryPath is not null, "XELite was loaded by another test of this run");
        var said = await Recorded(file => File.WriteAllText(file + "_0_1.xel", "events"));
        Assert.EndsWith("which iotrace import reads: XELite is not beside iotrace-agent", said, StringComparison.Ordinal);
        Assert.Equal("events", await File.ReadAllTextAsync(Assert.Single(Directory.GetFileSystemEntries(_output)), TestContext.Current.CancellationToken));
    }

    [Fact]
    public void AnEventThatIsNotThereLeavesAGapInTheirNumbers()
    {
        var span = new EventSpan();
        foreach (var number in new ulong[] { 7, 5, 8 })
        {
            span.Take(Numbered(number));
        }
        Assert.Equal((3, 4UL), (span.Events, span.Numbered!.Value));
        span.Take(Numbered(null));
        Assert.Null(span.Numbered);
    }

    /// <summary>The cases that the import's reader of .xel is held to.</summary>
    [Theory]
    [InlineData("The time (in microseconds) that it took", 1_000L)]
    [InlineData("Duration in Milliseconds", 1_000_000L)]
    [InlineData("seconds waited", 1_000_000_000L)]
    [InlineData("", null)]
    public void UnitsAreReadFromDescriptions(string description, long? unitNs) => Assert.Equal(unitNs, EventKinds.UnitIn(description));

    private static void RequireXELite()
    {
        var library = Environment.GetEnvironmentVariable("XELITE_DLL");
        Assert.SkipUnless(File.Exists(library), "XELITE_DLL names no DLL of XELite: rows of a session's files were not tried");
        Assert.SkipUnless(File.Exists(Sample), $"no real samples at {XELiteLiveTests.Samples}");
        EventReader.LibraryPath = library;
    }

    /// <summary>A session from start to end, whose server writes files by their path without its end; what is told of them.</summary>
    private async Task<string> Recorded(Action<string> writes, long? freeBytes = null)
    {
        // A folder with the separator of Windows: here it is a part of the names of files.
        await using var server = Instance.Start(
            host: Environment.MachineName, errorLog: Path.Combine(_log, @"Log\ERRORLOG"), durations: Durations,
            writes: path => writes(path[..^".xel".Length]));
        using var session = ExtendedEventSession.Start(server.DataSource, null, _ => { }, TestContext.Current.CancellationToken);
        var files = session.Finish(_output);
        Assert.Empty(session.Notes);
        return EventRecording.Replace(files, _output, session.Kinds, null, freeBytes);
    }

    /// <summary>The first four columns of xevents.</summary>
    private List<(long AtNs, long? DurationNs, string Package, string Name)> Events()
    {
        using var file = File.OpenRead(Path.Combine(_output, "sql", "xevents.arrows"));
        using var reader = new ArrowStreamReader(file, new CompressionCodecFactory(), leaveOpen: false);
        var rows = new List<(long, long?, string, string)>();
        while (reader.ReadNextRecordBatch() is { } batch)
        {
            for (var row = 0; row < batch.Length; row++)
            {
                rows.Add((
                    ((Int64Array)batch.Column(0)).GetValue(row)!.Value, ((Int64Array)batch.Column(1)).GetValue(row),
                    ((StringArray)batch.Column(2)).GetString(row), ((StringArray)batch.Column(3)).GetString(row)));
            }
        }
        return rows;
    }

    private static DateTimeOffset At(string[] parts) => DateTimeOffset.Parse(parts[0], CultureInfo.InvariantCulture);

    private static long Duration(IEnumerable<string> parts)
    {
        const string Field = "F duration<UInt64>=";
        return long.Parse(parts.Single(part => part.StartsWith(Field, StringComparison.Ordinal))[Field.Length..], CultureInfo.InvariantCulture);
    }

    private static SqlEvent Numbered(ulong? number)
    {
        var actions = new Dictionary<string, object>(StringComparer.Ordinal);
        if (number is { } told)
        {
            actions.Add("event_sequence", told);
        }
        return new("file_read_completed", DateTimeOffset.UnixEpoch, new Dictionary<string, object>(StringComparer.Ordinal), actions);
    }
}
