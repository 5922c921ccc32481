namespace Iotrace.StandIns.SqlServer;

/// <summary>An instance of SQL Server that answers what the agent asks of one, and what a test changes of it.</summary>
public static class Instance
{
    public static IReadOnlyList<string> Events { get; } =
    [
        "file_read_completed", "file_write_completed", "checkpoint_begin", "checkpoint_end", "database_file_size_change",
        "long_io_detected", "backup_restore_progress_trace", "wait_info", "sql_batch_completed",
    ];

    public static StandInServer Start(
        int majorVersion = 16, string host = "SQLHOST", string errorLog = @"D:\MSSQL\Log\ERRORLOG", bool mayView = true, bool mayAlter = true,
        IEnumerable<string>? events = null, (long Events, long Buffers)? dropped = null, Action<string>? writes = null,
        IReadOnlyDictionary<string, string>? durations = null)
    {
        var server = new StandInServer { MajorVersion = majorVersion, Writes = writes };
        server.Answer(@"SERVERPROPERTY\('ProductVersion'\)", received => new()
        {
            Columns = ["version", "major_version", "host_name", "instance_name", "may_view_state", "may_alter_sessions", "sessions_of_this_name", "error_log"],
            Rows =
            [
                [
                    $"{majorVersion}.0.1000.6", majorVersion, host, null, mayView ? 1 : 0, mayAlter ? 1 : 0,
                    received.Parameters.OfType<string>().Count(server.Sessions.ContainsKey), errorLog,
                ],
            ],
        });
        server.Answer(@"FROM sys\.dm_xe_objects", Column("name", events ?? Events));
        server.Answer(@"FROM sys\.dm_xe_object_columns", Column("object_name", ["file_read_completed", "file_write_completed"]));
        server.Answer(@"N'duration'", new Answer
        {
            Columns = ["object_name", "description"],
            Rows = [.. (durations ?? new Dictionary<string, string>(StringComparer.Ordinal)).Select(told => new object?[] { told.Key, told.Value })],
        });
        server.Answer(@"FROM sys\.dm_xe_map_values", new Answer
        {
            Columns = ["map_key", "map_value"],
            Rows = [[66, "PAGEIOLATCH_SH"], [182, "WRITELOG"], [99, "CXPACKET"]],
        });
        server.Answer(@"dropped_event_count", new Answer
        {
            Columns = ["dropped_event_count", "dropped_buffer_count"],
            Rows = [[dropped?.Events ?? 0L, dropped?.Buffers ?? 0L]],
        });
        server.Answer(@"FROM sys\.master_files", new Answer
        {
            Columns = ["physical_name", "type_desc", "database_name", "database_id"],
            Rows = [[@"E:\data\sales.mdf", "ROWS", "sales", 7], [@"L:\log\sales.ldf", "LOG", "sales", 7], [@"T:\tempdb.mdf", "ROWS", "tempdb", 2]],
        });
        return server;
    }

    private static Answer Column(string name, IEnumerable<string> values) =>
        new() { Columns = [name], Rows = [.. values.Select(value => new object?[] { value })] };
}
