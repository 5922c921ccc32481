using System.Globalization;
using System.Text;

namespace Iotrace.Agent.SqlServer;

/// <summary>Which events this instance has, and what can be said to them.</summary>
internal sealed record EventChoice(
    IReadOnlySet<string> Events, IReadOnlySet<string> WithPath, IReadOnlyList<int> WaitKeys);

/// <summary>
/// The T-SQL of an Extended Events session. No sampling, no waiting: when its buffers are full, events are dropped and
/// counted. Needs ALTER ANY EVENT SESSION and VIEW SERVER STATE.
/// </summary>
internal static class SessionStatements
{
    public static readonly string[] FileEvents = ["file_read_completed", "file_write_completed"];

    /// <summary>Few enough to be watched live, too.</summary>
    public static readonly string[] RareEvents =
    [
        "checkpoint_begin", "checkpoint_end", "database_file_size_change", "long_io_detected", "backup_restore_progress_trace",
    ];

    /// <summary>Waits that a session waits for I/O in; numbers of wait types change from build to build.</summary>
    public static readonly string[] Waits =
    [
        "PAGEIOLATCH_SH", "PAGEIOLATCH_EX", "PAGEIOLATCH_UP", "PAGEIOLATCH_DT", "PAGEIOLATCH_KP", "PAGEIOLATCH_NL", "WRITELOG",
        "LOGBUFFER", "IO_COMPLETION", "ASYNC_IO_COMPLETION", "WRITE_COMPLETION", "BACKUPIO", "HADR_SYNC_COMMIT",
    ];

    private const string Wait = "wait_info";

    /// <summary>The package of an event of the session.</summary>
    public static string PackageOf(string name) => name == Wait ? "sqlos" : "sqlserver";

    /// <summary>One row: version, major version, host, instance, may see state, may make sessions, sessions of our name, log folder.</summary>
    public const string Facts = """
        SELECT
            CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version,
            CONVERT(int, PARSENAME(CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')), 4)) AS major_version,
            CONVERT(nvarchar(128), SERVERPROPERTY('ComputerNamePhysicalNetBIOS')) AS host_name,
            CONVERT(nvarchar(128), SERVERPROPERTY('InstanceName')) AS instance_name,
            CASE
                WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1 THEN 1
                WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1 THEN 1
                ELSE 0
            END AS may_view_state,
            CASE WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'ALTER ANY EVENT SESSION') = 1 THEN 1 ELSE 0 END AS may_alter_sessions,
            (SELECT COUNT(*) FROM sys.server_event_sessions WHERE name = @name) AS sessions_of_this_name,
            CONVERT(nvarchar(512), SERVERPROPERTY('ErrorLogFileName')) AS error_log;
        """;

    public const string Events = "SELECT name FROM sys.dm_xe_objects WHERE object_type = N'event';";

    public const string EventsWithPath = """
        SELECT object_name
        FROM sys.dm_xe_object_columns
        WHERE name = N'collect_path' AND column_type = N'customizable';
        """;

    /// <summary>What SQL Server says of durations: the texts that its files hold too, and XELite does not tell.</summary>
    public const string Durations = """
        SELECT object_name, description
        FROM sys.dm_xe_object_columns
        WHERE name = N'duration' AND column_type = N'data';
        """;

    public const string WaitTypes = "SELECT map_key, map_value FROM sys.dm_xe_map_values WHERE name = N'wait_types';";

    public const string Losses = """
        SELECT dropped_event_count, dropped_buffer_count
        FROM sys.dm_xe_sessions
        WHERE name = @name;
        """;

    public const string Files = """
        SELECT physical_name, type_desc, DB_NAME(database_id) AS database_name, database_id
        FROM sys.master_files;
        """;

    /// <summary>Create the session <paramref name="name"/>, stopped, writing to <paramref name="file"/> on the server.</summary>
    public static string Create(string name, string file, EventChoice choice)
    {
        var events = new List<string>();
        foreach (var name1 in FileEvents.Where(choice.Events.Contains))
        {
            var path = choice.WithPath.Contains(name1) ? "SET collect_path = (1) " : "";
            events.Add($"ADD EVENT {PackageOf(name1)}.{name1} ({path}ACTION (package0.event_sequence))");
        }
        foreach (var name1 in RareEvents.Where(choice.Events.Contains))
        {
            events.Add($"ADD EVENT {PackageOf(name1)}.{name1} (ACTION (package0.event_sequence))");
        }
        if (choice.WaitKeys.Count > 0 && choice.Events.Contains(Wait))
        {
            var waits = string.Join(
                " OR ", choice.WaitKeys.Select(key => "wait_type = " + key.ToString(CultureInfo.InvariantCulture)));
            events.Add($"""
                ADD EVENT {PackageOf(Wait)}.{Wait} (
                    ACTION (package0.event_sequence)
                    WHERE (opcode = 1 AND duration >= 1 AND ({waits}))
                )
                """);
        }
        return new StringBuilder()
            .Append("CREATE EVENT SESSION ").Append(Quoting.Identifier(name)).Append(" ON SERVER\n")
            .AppendJoin(",\n", events).Append('\n')
            .Append("ADD TARGET package0.event_file (SET filename = ").Append(Quoting.Literal(file))
            .Append(", max_file_size = (256), max_rollover_files = (40))\n")
            .Append("""
                WITH (
                    MAX_MEMORY = 64 MB,
                    EVENT_RETENTION_MODE = ALLOW_MULTIPLE_EVENT_LOSS,
                    MAX_DISPATCH_LATENCY = 5 SECONDS,
                    MEMORY_PARTITION_MODE = PER_NODE,
                    TRACK_CAUSALITY = OFF,
                    STARTUP_STATE = OFF
                );
                """)
            .ToString();
    }

    /// <summary>Create the session <paramref name="name"/>, stopped, without a file: rare events, to be read as they happen.</summary>
    public static string CreateLive(string name, IReadOnlySet<string> events) => new StringBuilder()
        .Append("CREATE EVENT SESSION ").Append(Quoting.Identifier(name)).Append(" ON SERVER\n")
        .AppendJoin(",\n", RareEvents.Where(events.Contains).Select(one => $"ADD EVENT sqlserver.{one}")).Append('\n')
        .Append("""
            WITH (
                MAX_MEMORY = 4 MB,
                EVENT_RETENTION_MODE = ALLOW_MULTIPLE_EVENT_LOSS,
                MAX_DISPATCH_LATENCY = 3 SECONDS,
                TRACK_CAUSALITY = OFF,
                STARTUP_STATE = OFF
            );
            """)
        .ToString();

    public static string StartIfStopped(string name) => $"""
        IF NOT EXISTS (SELECT 1 FROM sys.dm_xe_sessions WHERE name = {Quoting.Literal(name)})
            ALTER EVENT SESSION {Quoting.Identifier(name)} ON SERVER STATE = START;
        """;

    public static string Start(string name) => $"ALTER EVENT SESSION {Quoting.Identifier(name)} ON SERVER STATE = START;";

    public static string Stop(string name) => $"""
        IF EXISTS (SELECT 1 FROM sys.dm_xe_sessions WHERE name = {Quoting.Literal(name)})
            ALTER EVENT SESSION {Quoting.Identifier(name)} ON SERVER STATE = STOP;
        """;

    public static string Drop(string name) => $"""
        IF EXISTS (SELECT 1 FROM sys.server_event_sessions WHERE name = {Quoting.Literal(name)})
            DROP EVENT SESSION {Quoting.Identifier(name)} ON SERVER;
        """;

    /// <summary>SQL Server 2025 and later end the session by themselves; may fail where the grammar does not have it.</summary>
    public static string EndBy(string name, TimeSpan length) => string.Create(
        CultureInfo.InvariantCulture,
        $"ALTER EVENT SESSION {Quoting.Identifier(name)} ON SERVER WITH (MAX_DURATION = {(int)Math.Ceiling(length.TotalMinutes) + 5} MINUTES);");
}
