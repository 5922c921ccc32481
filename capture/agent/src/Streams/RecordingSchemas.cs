using Apache.Arrow;
using Apache.Arrow.Types;

namespace Iotrace.Agent.Streams;

/// <summary>
/// The tables that the agent writes, with the columns it fills: a part of <c>schemas/recording.json</c>, which tests hold it
/// against. Words are their positions there. What only the import can tell may be absent or null: see the agent's README.
/// </summary>
internal static class RecordingSchemas
{
    public static readonly Schema Io = Of(
        ("layer", Int8Type.Default, false),
        ("op", Int8Type.Default, false),
        ("issued_ns", Int64Type.Default, false),
        ("completed_ns", Int64Type.Default, true),
        ("offset_bytes", UInt64Type.Default, true),
        ("size_bytes", UInt32Type.Default, false),
        ("device_id", Int32Type.Default, true),
        ("file_id", Int32Type.Default, true),
        ("process_id", Int32Type.Default, true),
        ("thread_id", Int32Type.Default, true),
        ("flags", UInt32Type.Default, false),
        ("error", Int32Type.Default, false));

    public static readonly Schema Devices = Of(
        ("device_id", Int32Type.Default, false),
        ("name", StringType.Default, false),
        ("kind", Int8Type.Default, false),
        ("parent_device_id", Int32Type.Default, true),
        ("start_bytes", UInt64Type.Default, true),
        ("size_bytes", UInt64Type.Default, true),
        ("logical_block_bytes", UInt32Type.Default, true),
        ("physical_block_bytes", UInt32Type.Default, true),
        ("mount", StringType.Default, true),
        ("filesystem", StringType.Default, true),
        ("model", StringType.Default, true),
        ("write_cache", BooleanType.Default, true));

    /// <summary>A null path: its name was never learnt. A null role: the import derives it from the path.</summary>
    public static readonly Schema Files = Of(
        ("file_id", Int32Type.Default, false),
        ("path", StringType.Default, true),
        ("role", Int8Type.Default, true),
        ("database", StringType.Default, true),
        ("device_id", Int32Type.Default, true),
        ("size_bytes", UInt64Type.Default, true));

    /// <summary>A null number: the thread's process was never learnt. No command line is read: they hold passwords.</summary>
    public static readonly Schema Processes = Of(
        ("process_id", Int32Type.Default, false),
        ("os_process_id", Int64Type.Default, true),
        ("name", StringType.Default, true),
        ("os_parent_process_id", Int64Type.Default, true),
        ("started_ns", Int64Type.Default, true),
        ("ended_ns", Int64Type.Default, true));

    public static readonly Schema Waits = Of(
        ("at_ns", Int64Type.Default, false),
        ("wait_type", StringType.Default, false),
        ("duration_ns", Int64Type.Default, false),
        ("signal_ns", Int64Type.Default, true),
        ("session", Int32Type.Default, true),
        ("database", StringType.Default, true));

    /// <summary>
    /// No table of a recording: raw values of counters, of which the import makes rows of <c>counters</c>. Its reader has the same
    /// list, in <c>capture/counters/samples.py</c>.
    /// </summary>
    public static readonly Schema RawCounters = Of(
        ("sample", Int64Type.Default, false),
        ("at_ns", Int64Type.Default, false),
        ("stamp_100ns", Int64Type.Default, false),
        ("source", StringType.Default, false),
        ("object", StringType.Default, false),
        ("instance", StringType.Default, true),
        ("counter", StringType.Default, false),
        ("counter_type", UInt32Type.Default, false),
        ("hertz", Int64Type.Default, false),
        ("first", Int64Type.Default, false),
        ("second", Int64Type.Default, false),
        ("multi_count", UInt32Type.Default, false));

    public static readonly Schema Markers = Of(
        ("at_ns", Int64Type.Default, false),
        ("duration_ns", Int64Type.Default, true),
        ("kind", StringType.Default, false),
        ("text", StringType.Default, true));

    /// <summary>Events of SQL Server; the import passes them on as they are.</summary>
    public static readonly Schema XEvents = Of(
        ("at_ns", Int64Type.Default, false),
        ("duration_ns", Int64Type.Default, true),
        ("package", StringType.Default, false),
        ("name", StringType.Default, false),
        ("event_sequence", UInt64Type.Default, true),
        ("fields", StringType.Default, false),
        ("actions", StringType.Default, false));

    public static readonly IReadOnlyDictionary<string, Schema> Tables = new Dictionary<string, Schema>(StringComparer.Ordinal)
    {
        ["io"] = Io,
        ["devices"] = Devices,
        ["files"] = Files,
        ["processes"] = Processes,
        ["waits"] = Waits,
        ["markers"] = Markers,
    };

    /// <summary>No row of <c>io</c>: a recording has the table all the same.</summary>
    public static RecordBatch NoIo() => new IoBatch(8).View();

    private static Schema Of(params (string Name, IArrowType Type, bool IsNullable)[] fields) =>
        new(fields.Select(field => new Field(field.Name, field.Type, field.IsNullable)), metadata: null);
}
