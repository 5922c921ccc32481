using Apache.Arrow;
using Iotrace.Agent.SqlServer;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>What events of SQL Server become, from planted facts: no public file holds I/O of SQL Server.</summary>
public sealed class EventRowsTests
{
    private const long Second = 1_000_000_000;

    /// <summary>As SQL Server would state units: of reads in microseconds, of growths in milliseconds, of the rest none.</summary>
    private static readonly EventKinds Kinds = new(new Dictionary<string, string>(StringComparer.Ordinal)
    {
        ["file_read_completed"] = "The time (in microseconds)",
        ["database_file_size_change"] = "in milliseconds",
    });

    private readonly Dictionary<string, List<RecordBatch>> _written = new(StringComparer.Ordinal);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void AnIoBeginsAtItsCompletionLessItsDurationInTheUnitThatTheServerStates(bool isTold)
    {
        var rows = Rows(
            isTold,
            Event("file_read_completed", 10, ("duration", 3000UL), ("size", 8192UL), ("offset", 65536UL), ("path", @"E:\data\sales.mdf")),
            Event("file_write_completed", 11, ("duration", 4UL), ("size", 4096UL), ("path", @"e:\DATA\sales.mdf")));
        var io = Assert.Single(_written["io"]);
        Assert.Equal([(10 * Second) - (isTold ? 3_000_000 : 3_000_000_000), (11 * Second) - 4_000_000], Longs(io, 2));
        Assert.Equal([10 * Second, 11 * Second], Longs(io, 3));
        // Windows knows paths in any case.
        Assert.Equal(@"E:\data\sales.mdf", Assert.Single(rows.Files).Path);
        Assert.Equal(isTold ? ["sqlserver", "sqlserver"] : ["", ""], Texts(Assert.Single(_written["xevents"]), 2));
    }

    [Fact]
    public void AnIoWhoseDurationCannotBeHasNoCompletionAndOneWithoutASizeIsNone()
    {
        var rows = Rows(
            isTold: true,
            Event("file_read_completed", 10, ("duration", ulong.MaxValue), ("size", 8192UL)),
            Event("file_read_completed", 11, ("duration", 1UL)));
        Assert.Equal([10 * Second], Longs(Assert.Single(_written["io"]), 2));
        Assert.Equal([null], Longs(Assert.Single(_written["io"]), 3));
        Assert.Equal((1, 1, 2), (rows.DurationsDropped, rows.Unplaceable, rows.Events));
    }

    [Fact]
    public void CheckpointsGrowthsAndLogFlushesAreMarkers()
    {
        Rows(
            isTold: true,
            Event("checkpoint_begin", 1, ("database_id", 7U)),
            Event("checkpoint_begin", 2, ("database_id", 7U)),
            Event("checkpoint_end", 5, ("database_id", 7U)),
            Event("checkpoint_end", 6, ("database_id", 9U)),
            Event("log_flush_complete", 8, ("database_id", 7U), ("duration", 1500UL)),
            Event("database_file_size_change", 20, ("database_id", 7U), ("duration", 2000UL), ("is_automatic", true)),
            Event("database_file_size_change", 21, ("database_id", 7U), ("duration", 2000UL), ("is_automatic", false)),
            Event("checkpoint_begin", 30, ("database_id", 2U)));
        var markers = Assert.Single(_written["markers"]);
        Assert.Equal([1 * Second, 2 * Second, 6 * Second, 6_500_000_000, 18 * Second, 30 * Second], Longs(markers, 0));
        Assert.Equal([null, 3 * Second, null, 1_500_000_000, 2 * Second, null], Longs(markers, 1));
        Assert.Equal(["checkpoint", "checkpoint", "checkpoint", "log_flush", "autogrow", "checkpoint"], Texts(markers, 2));
        Assert.Equal(
            [
                "database_id 7, end not in the file", "database_id 7", "database_id 9, begin not in the file", "database_id 7", "database_id 7",
                "database_id 2, end not in the file",
            ],
            Texts(markers, 3));
    }

    [Fact]
    public void EndsOfWaitsAreWaits()
    {
        Rows(
            isTold: true,
            Event("wait_info", 3, ("wait_type", "WRITELOG"), ("opcode", "Begin"), ("duration", 0UL), ("signal_duration", 0UL)),
            Event("wait_info", 4, ("wait_type", "WRITELOG"), ("opcode", "End"), ("duration", 12UL), ("signal_duration", 2UL)));
        var waits = Assert.Single(_written["waits"]);
        Assert.Equal([4 * Second], Longs(waits, 0));
        Assert.Equal(["WRITELOG"], Texts(waits, 1));
        Assert.Equal([12_000_000L], Longs(waits, 2));
        Assert.Equal([2_000_000L], Longs(waits, 3));
        Assert.Equal(["sqlos", "sqlos"], Texts(Assert.Single(_written["xevents"]), 2));
    }

    private EventRows Rows(bool isTold, params SqlEvent[] events)
    {
        var rows = new EventRows(0, (table, batch) =>
        {
            _written.TryAdd(table, []);
            _written[table].Add(batch);
        }, isTold ? Kinds : null);
        foreach (var one in events)
        {
            rows.Take(one);
        }
        rows.Finish();
        return rows;
    }

    private static SqlEvent Event(string name, int second, params (string Name, object Value)[] fields) => new(
        name, DateTimeOffset.UnixEpoch.AddSeconds(second), fields.ToDictionary(field => field.Name, field => field.Value, StringComparer.Ordinal),
        new Dictionary<string, object>(StringComparer.Ordinal));

    private static List<long?> Longs(RecordBatch batch, int column) =>
        [.. Enumerable.Range(0, batch.Length).Select(row => ((Int64Array)batch.Column(column)).GetValue(row))];

    private static List<string?> Texts(RecordBatch batch, int column) =>
        [.. Enumerable.Range(0, batch.Length).Select(row => (string?)((StringArray)batch.Column(column)).GetString(row))];
}
