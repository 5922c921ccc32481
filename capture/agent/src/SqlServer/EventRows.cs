using System.Globalization;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using Apache.Arrow;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.SqlServer;

/// <summary>
/// Events of SQL Server as rows, by the rules of the import's own reader of .xel: every event a row of <c>xevents</c>; completed
/// reads and writes rows of <c>io</c>, ends of waits rows of <c>waits</c>, checkpoints, log flushes and automatic growth markers.
/// XELite tells neither packages nor units. Where nobody else does, durations of I/O, waits and log flushes are milliseconds, as
/// documented, and of other events none is given.
/// </summary>
/// <param name="kinds">What the server tells of its events; null: nothing.</param>
internal sealed class EventRows(long startUtcNs, Action<string, RecordBatch> write, EventKinds? kinds = null)
{
    /// <summary>Above the numbers that files of the trace session get.</summary>
    private const int FirstFile = 0x2000_0000;

    private const int BatchEvents = 4096;
    private const long MillisecondNs = 1_000_000;
    private const long DurationNsMax = 86_400_000 * MillisecondNs;

    private static readonly JsonWriterOptions Plain = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    private readonly Dictionary<string, int> _files = new(StringComparer.OrdinalIgnoreCase);
    private readonly Dictionary<ulong, long> _checkpoints = [];
    private readonly List<(long AtNs, long? DurationNs, string Name, ulong? Sequence, string Fields, string Actions)> _events = [];
    private readonly List<(long AtNs, string Type, long DurationNs, long? SignalNs, int? Session, string? Database)> _waits = [];
    private readonly List<(long AtNs, long? DurationNs, string Kind, string? Text)> _markers = [];
    private IoBatch _io = new(BatchEvents);
    private readonly System.Buffers.ArrayBufferWriter<byte> _json = new();

    public long Events { get; private set; }

    /// <summary>I/Os without a size that can be.</summary>
    public long Unplaceable { get; private set; }

    /// <summary>I/Os whose duration cannot be: they have no completion.</summary>
    public long DurationsDropped { get; private set; }

    public long LastNs { get; private set; }

    /// <summary>Number and path of each file that an I/O went to.</summary>
    public IEnumerable<(int Id, string Path)> Files => _files.Select(file => (file.Value, file.Key));

    public void Take(SqlEvent seen)
    {
        var at = (seen.At.UtcTicks - DateTimeOffset.UnixEpoch.UtcTicks) * 100 - startUtcNs;
        LastNs = Math.Max(LastNs, at);
        Events++;
        var duration = Mean(seen, at);
        _events.Add((at, duration, seen.Name, Sequence(seen), Json(seen.Fields), Json(seen.Actions)));
        if (_events.Count >= BatchEvents)
        {
            Flush();
        }
    }

    /// <summary>The number that SQL Server gave the event, where the session collects it.</summary>
    public static ulong? Sequence(SqlEvent seen) => Number(seen.Actions, "event_sequence");

    /// <summary>Nothing more comes.</summary>
    public void Finish()
    {
        foreach (var (database, at) in _checkpoints)
        {
            AddHalf(at, database, "end");
        }
        _checkpoints.Clear();
        Flush();
    }

    /// <summary>Words for the screen: the event with its numbers and names.</summary>
    public static string Words(SqlEvent seen) => string.Join(
        ", ", seen.Fields.Where(field => field.Value is not (byte[] or bool or null or "")).Select(field => string.Create(CultureInfo.InvariantCulture, $"{field.Key} {field.Value}")));

    /// <summary>Rows that an event becomes beside its own; its duration where its unit is known.</summary>
    private long? Mean(SqlEvent seen, long at)
    {
        switch (seen.Name)
        {
            case "file_read_completed" or "file_write_completed":
                var took = Duration(seen, MillisecondNs);
                AddIo(seen, at, took);
                return took;
            case "wait_info" or "wait_info_external" or "wait_completed" or "wait_completed_external":
                var waited = Duration(seen, MillisecondNs);
                if (waited is { } length && Text(seen.Fields, "wait_type") is { } type && Text(seen.Fields, "opcode") is null or "End")
                {
                    var signal = Number(seen.Fields, "signal_duration");
                    var session = Number(seen.Actions, "session_id");
                    _waits.Add((
                        at, type, length, Times(signal, kinds?.UnitNs(seen.Name) ?? MillisecondNs),
                        session <= int.MaxValue ? (int)session : null, Text(seen.Actions, "database_name")));
                }
                return waited;
            case "log_flush_complete":
                var flushed = Duration(seen, MillisecondNs);
                _markers.Add((at - (flushed ?? 0), flushed, "log_flush", MarkerWords(seen, hasDuration: true)));
                return flushed;
            case "checkpoint_begin":
                var database = Number(seen.Fields, "database_id") ?? 0;
                if (_checkpoints.Remove(database, out var unended))
                {
                    AddHalf(unended, database, "end");
                }
                _checkpoints.Add(database, at);
                return Duration(seen);
            case "checkpoint_end":
                var of = Number(seen.Fields, "database_id") ?? 0;
                if (_checkpoints.Remove(of, out var since))
                {
                    _markers.Add((since, at - since, "checkpoint", MarkerWords(seen, kinds?.UnitNs(seen.Name) is not null)));
                }
                else
                {
                    AddHalf(at, of, "begin");
                }
                return Duration(seen);
            case "database_file_size_change":
                var grew = Duration(seen);
                if (seen.Fields.GetValueOrDefault("is_automatic") is not false)
                {
                    _markers.Add((at - (grew ?? 0), grew, "autogrow", MarkerWords(seen, kinds?.UnitNs(seen.Name) is not null)));
                }
                return grew;
            default:
                return Duration(seen);
        }
    }

    private void AddHalf(long at, ulong database, string missing) =>
        _markers.Add((at, null, "checkpoint", $"database_id {database}, {missing} not in the file"));

    /// <summary>What the event tells beside its duration, where it is known to be one.</summary>
    private static string MarkerWords(SqlEvent seen, bool hasDuration) => Words(seen with
    {
        Fields = seen.Fields.Where(field => !hasDuration || field.Key != "duration").ToDictionary(StringComparer.Ordinal),
    });

    private void AddIo(SqlEvent seen, long at, long? took)
    {
        if (Number(seen.Fields, "size") is not { } size || size > uint.MaxValue)
        {
            Unplaceable++;
            return;
        }
        if (_io.IsFull)
        {
            Flush();
        }
        DurationsDropped += took is null ? 1 : 0;
        var thread = Number(seen.Actions, "system_thread_id");
        _io.Add(new()
        {
            Layer = Layer.Sql,
            Op = seen.Name == "file_read_completed" ? Op.Read : Op.Write,
            IssuedNs = at - (took ?? 0),
            CompletedNs = took is null ? long.MinValue : at,
            OffsetBytes = Number(seen.Fields, "offset") is { } offset and <= long.MaxValue ? (long)offset : -1,
            SizeBytes = (uint)size,
            DeviceId = IoRow.None,
            FileId = FileOf(seen),
            ProcessId = IoRow.None,
            ThreadId = thread <= int.MaxValue ? (int)thread : IoRow.None,
        });
    }

    private int FileOf(SqlEvent seen)
    {
        var path = Text(seen.Fields, "path") ?? Text(seen.Fields, "file_path");
        if (string.IsNullOrEmpty(path))
        {
            if (Number(seen.Fields, "database_id") is not { } database || Number(seen.Fields, "file_id") is not { } number)
            {
                return IoRow.None;
            }
            path = $"database {database} file {number}";
        }
        if (!_files.TryGetValue(path, out var id))
        {
            _files.Add(path, id = FirstFile + _files.Count);
        }
        return id;
    }

    /// <summary>In the unit that the server states, else in <paramref name="usualNs"/>; null where it is unknown or cannot be.</summary>
    private long? Duration(SqlEvent seen, long? usualNs = null) =>
        (kinds?.UnitNs(seen.Name) ?? usualNs) is { } unitNs && Times(Number(seen.Fields, "duration"), unitNs) is { } took and <= DurationNsMax
            ? took
            : null;

    private static long? Times(ulong? count, long unitNs) => count <= (ulong)(long.MaxValue / unitNs) ? (long)count.Value * unitNs : null;

    private static string? Text(IReadOnlyDictionary<string, object> values, string name) =>
        values.TryGetValue(name, out var value) ? value as string : null;

    private static ulong? Number(IReadOnlyDictionary<string, object> values, string name) =>
        !values.TryGetValue(name, out var value) ? null : value switch
        {
            ulong number => number,
            uint number => number,
            ushort number => number,
            byte number => number,
            long number and >= 0 => (ulong)number,
            int number and >= 0 => (ulong)number,
            short number and >= 0 => (ulong)number,
            _ => null,
        };

    private string Json(IReadOnlyDictionary<string, object> values)
    {
        _json.ResetWrittenCount();
        using (var to = new Utf8JsonWriter(_json, Plain))
        {
            to.WriteStartObject();
            foreach (var (name, value) in values)
            {
                to.WritePropertyName(name);
                Write(to, name, value);
            }
            to.WriteEndObject();
        }
        return Encoding.UTF8.GetString(_json.WrittenSpan);
    }

    private static void Write(Utf8JsonWriter to, string name, object? value)
    {
        switch (value)
        {
            case null:
                to.WriteNullValue();
                break;
            case bool truth:
                to.WriteBooleanValue(truth);
                break;
            case byte or sbyte or short or ushort or int or uint or long:
                to.WriteNumberValue(Convert.ToInt64(value));
                break;
            case ulong number:
                to.WriteNumberValue(number);
                break;
            case float or double:
                var real = Convert.ToDouble(value);
                if (double.IsFinite(real))
                {
                    to.WriteNumberValue(real);
                }
                else
                {
                    to.WriteNullValue();
                }
                break;
            case byte[] bytes:
                to.WriteStringValue("0x" + System.Convert.ToHexString(bytes));
                break;
            case string addresses when name is "call_stack" or "callstack":
                to.WriteStartArray();
                foreach (var address in addresses.Split("\r\n", StringSplitOptions.RemoveEmptyEntries))
                {
                    to.WriteStringValue(address);
                }
                to.WriteEndArray();
                break;
            case DateTimeOffset moment:
                to.WriteStringValue(moment.UtcDateTime.ToString("O", CultureInfo.InvariantCulture));
                break;
            default:
                to.WriteStringValue(Convert.ToString(value, CultureInfo.InvariantCulture));
                break;
        }
    }

    private void Flush()
    {
        if (_events.Count > 0)
        {
            // Buffers of different processors overlap.
            _events.Sort((one, other) => one.AtNs.CompareTo(other.AtNs));
            write("xevents", new(RecordingSchemas.XEvents,
            [
                Longs(_events.Select(seen => (long?)seen.AtNs)), Longs(_events.Select(seen => seen.DurationNs)),
                Texts(_events.Select(seen => kinds is null ? "" : EventKinds.PackageOf(seen.Name))), Texts(_events.Select(seen => seen.Name)),
                Numbers(_events.Select(seen => seen.Sequence)),
                Texts(_events.Select(seen => seen.Fields)), Texts(_events.Select(seen => seen.Actions)),
            ], _events.Count));
            _events.Clear();
        }
        if (_waits.Count > 0)
        {
            write("waits", new(RecordingSchemas.Waits,
            [
                Longs(_waits.Select(wait => (long?)wait.AtNs)), Texts(_waits.Select(wait => wait.Type)),
                Longs(_waits.Select(wait => (long?)wait.DurationNs)), Longs(_waits.Select(wait => wait.SignalNs)),
                Numbers(_waits.Select(wait => wait.Session)),
                Texts(_waits.Select(wait => wait.Database)),
            ], _waits.Count));
            _waits.Clear();
        }
        if (_markers.Count > 0)
        {
            write("markers", SmallTables.Markers(_markers));
            _markers.Clear();
        }
        if (_io.Count > 0)
        {
            // Whoever takes the rows may keep them: the next have a batch of their own.
            write("io", _io.View());
            _io = new(BatchEvents);
        }
    }

    private static Int64Array Longs(IEnumerable<long?> values)
    {
        var numbers = new Int64Array.Builder();
        foreach (var value in values)
        {
            numbers.Append(value);
        }
        return numbers.Build();
    }

    private static UInt64Array Numbers(IEnumerable<ulong?> values)
    {
        var numbers = new UInt64Array.Builder();
        foreach (var value in values)
        {
            numbers.Append(value);
        }
        return numbers.Build();
    }

    private static Int32Array Numbers(IEnumerable<int?> values)
    {
        var numbers = new Int32Array.Builder();
        foreach (var value in values)
        {
            numbers.Append(value);
        }
        return numbers.Build();
    }

    private static StringArray Texts(IEnumerable<string?> values)
    {
        var texts = new StringArray.Builder();
        foreach (var value in values)
        {
            if (value is null)
            {
                texts.AppendNull();
            }
            else
            {
                texts.Append(value);
            }
        }
        return texts.Build();
    }
}
