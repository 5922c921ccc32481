using System.Buffers.Binary;
using System.Runtime.InteropServices;
using System.Runtime.Versioning;
using Apache.Arrow;
using Iotrace.Agent.Streams;

namespace Iotrace.Agent.Counters;

/// <summary>The raw value of one counter of one instance, as Windows keeps it; what it means follows from its type.</summary>
internal readonly record struct RawCounterValue(
    string Object, string? Instance, string Counter, CounterForm Form, long Stamp, long First, long Second, uint MultiCount);

/// <summary>How raw values of a counter are to be read: its PERF_ type, and the ticks per second of its clock (0: it has none).</summary>
internal readonly record struct CounterForm(uint Type, long Hertz)
{
    /// <summary>Windows did not tell; no type is this one, and the import says what it leaves out.</summary>
    public static readonly CounterForm Unknown = new(uint.MaxValue, 0);
}

/// <summary>Something that is sampled into rows of <c>raw_counters</c>.</summary>
internal interface ICounterSource : IDisposable
{
    /// <summary>Counters that were asked for and that this host lacks.</summary>
    IReadOnlyList<string> Missing { get; }

    /// <summary>Take a sample: its rows, null where there are none. <paramref name="now"/> tells the recording's time.</summary>
    RecordBatch? Rows(Func<long> now, Anonymizer? anonymizer);
}

/// <summary>
/// Windows' performance counters by their English names, whatever the language of the system, all instances, with instances
/// that come and go. Which counters say what the import knows; figures, units and common names are its: raw values are taken as they
/// are, each with its own time.
/// </summary>
[SupportedOSPlatform("windows")]
internal sealed class CounterSampler : ICounterSource
{
    private const int MoreData = unchecked((int)0x800007D2);
    private const uint ValidData = 0;
    private const uint NewData = 1;
    private const int InfoTypeAt = 4; // dwType of PDH_COUNTER_INFO

    // PDH_RAW_COUNTER on 64 bits: status, FILETIME, first and second value, count; an item of an array has a name before it.
    private const int ValueBytes = 40;
    private const int ItemBytes = 8 + ValueBytes;

    private const string OnlyInstance = "_Total";

    private static readonly string[] Disk =
    [
        "Disk Reads/sec", "Disk Writes/sec", "Disk Read Bytes/sec", "Disk Write Bytes/sec", "Avg. Disk sec/Read",
        "Avg. Disk sec/Write", "Avg. Disk Bytes/Read", "Avg. Disk Bytes/Write", "Current Disk Queue Length",
        "Avg. Disk Queue Length", "Split IO/Sec", "% Idle Time",
    ];

    private static readonly (string Object, string? Instances, string[] Counters)[] OfHost =
    [
        ("PhysicalDisk", "*", Disk),
        ("LogicalDisk", "*", [.. Disk, "Free Megabytes"]),
        ("Processor", OnlyInstance, ["% Processor Time", "% Privileged Time"]),
        ("System", null, ["Processor Queue Length", "Context Switches/sec"]),
        ("Memory", null, ["Available MBytes", "Pages/sec"]),
        ("Process", "sqlservr*", ["IO Read Operations/sec", "IO Write Operations/sec", "IO Read Bytes/sec", "IO Write Bytes/sec"]),
    ];

    private static readonly (string Object, string? Instances, string[] Counters)[] OfSqlServer =
    [
        ("Buffer Manager", null,
        [
            "Page reads/sec", "Page writes/sec", "Readahead pages/sec", "Checkpoint pages/sec", "Background writer pages/sec",
            "Lazy writes/sec", "Free list stalls/sec", "Page life expectancy", "Buffer cache hit ratio",
        ]),
        ("Databases", "*",
        [
            "Log Flushes/sec", "Log Bytes Flushed/sec", "Log Flush Waits/sec", "Log Flush Wait Time",
            "Backup/Restore Throughput/sec", "Transactions/sec",
        ]),
        ("SQL Statistics", null, ["Batch Requests/sec"]),
    ];

    private readonly List<Added> _counters = [];
    private readonly List<string> _missing = [];
    private nint _query;
    private byte[] _buffer = new byte[1 << 16];
    private long _samples;

    /// <summary>Offsets of local times from UTC are multiples of a quarter of an hour.</summary>
    private const long ZoneStep = 15 * TimeSpan.TicksPerMinute;

    private CounterSampler(nint query) => _query = query;

    /// <summary>How many counters, wildcards counted once, this host has.</summary>
    public int Count => _counters.Count;

    public IReadOnlyList<string> Missing => _missing;

    /// <summary>Paths of all counters for these instances of SQL Server (an empty name: the default instance).</summary>
    public static IEnumerable<(string Object, string? Instances, string Counter)> Wanted(IEnumerable<string> sqlInstances)
    {
        foreach (var (name, instances, counters) in OfHost)
        {
            foreach (var counter in counters)
            {
                yield return (name, instances, counter);
            }
        }
        foreach (var instance in sqlInstances)
        {
            var prefix = instance.Length == 0 ? "SQLServer:" : $"MSSQL${instance}:";
            foreach (var (name, instances, counters) in OfSqlServer)
            {
                foreach (var counter in counters)
                {
                    yield return (prefix + name, instances, counter);
                }
            }
        }
    }

    /// <summary>The instances of SQL Server on this host, the default one as an empty name.</summary>
    public static IReadOnlyList<string> SqlInstances()
    {
        using var names = Microsoft.Win32.Registry.LocalMachine.OpenSubKey(@"SOFTWARE\Microsoft\Microsoft SQL Server\Instance Names\SQL");
        return [.. (names?.GetValueNames() ?? [])
            .Select(name => name.Equals("MSSQLSERVER", StringComparison.OrdinalIgnoreCase) ? "" : name)];
    }

    /// <summary>Throws <see cref="AgentError"/> if this host has no counters at all.</summary>
    public static CounterSampler Open(IEnumerable<string> sqlInstances)
    {
        var status = PerformanceData.OpenQuery(0, 0, out var query);
        if (status != 0)
        {
            throw NoCounters(status);
        }
        var sampler = new CounterSampler(query);
        foreach (var (name, instances, counter) in Wanted(sqlInstances))
        {
            var path = instances is null ? $@"\{name}\{counter}" : $@"\{name}({instances})\{counter}";
            if (PerformanceData.AddEnglishCounter(query, path, 0, out var handle) == 0)
            {
                sampler._counters.Add(new(name, instances, counter, handle));
            }
            else
            {
                sampler._missing.Add(path);
            }
        }
        if (sampler.Count == 0)
        {
            sampler.Dispose();
            throw NoCounters(status);
        }
        return sampler;
    }

    public RecordBatch? Rows(Func<long> now, Anonymizer? anonymizer)
    {
        var beganNs = now();
        if (_query == 0 || PerformanceData.Collect(_query, out _) != 0)
        {
            return null;
        }
        var (endedNs, utc) = (now(), DateTime.UtcNow.ToFileTimeUtc());
        var values = new List<RawCounterValue>();
        foreach (var counter in _counters)
        {
            Read(counter, values);
        }
        return values.Count == 0
            ? null
            : RawCounterRows.Of(
                values, _samples++, stamp => TakenAt(beganNs, endedNs, utc, stamp), Environment.MachineName, anonymizer);
    }

    /// <summary>
    /// The recording's time of a sample that Windows stamped with <paramref name="stamp"/>, a FILETIME of local time or of UTC, within a
    /// call that began at <paramref name="beganNs"/> and ended at <paramref name="endedNs"/>, which was <paramref name="endedUtc"/>
    /// (FILETIME). Never outside of the call, whatever somebody sets the system's clock to meanwhile.
    /// </summary>
    internal static long TakenAt(long beganNs, long endedNs, long endedUtc, long stamp)
    {
        var ago = (endedUtc - stamp) % ZoneStep;
        ago += ago < -ZoneStep / 2 ? ZoneStep : ago > ZoneStep / 2 ? -ZoneStep : 0;
        return Math.Clamp(endedNs - ago * 100, beganNs, endedNs);
    }

    public void Dispose()
    {
        if (_query != 0)
        {
            _ = PerformanceData.CloseQuery(_query);
            _query = 0;
        }
    }

    private void Read(Added counter, List<RawCounterValue> values)
    {
        if (counter.Instances is null || counter.Instances == OnlyInstance)
        {
            Span<byte> value = stackalloc byte[ValueBytes];
            if (PerformanceData.RawValue(counter.Handle, 0, value) == 0)
            {
                Take(counter, counter.Instances, value, values);
            }
        }
        else
        {
            ReadInstances(counter, values);
        }
    }

    private unsafe void ReadInstances(Added counter, List<RawCounterValue> values)
    {
        var bytes = (uint)_buffer.Length;
        var status = PerformanceData.RawArray(counter.Handle, ref bytes, out var count, _buffer);
        if (status == MoreData)
        {
            _buffer = new byte[bytes + 4096];
            bytes = (uint)_buffer.Length;
            status = PerformanceData.RawArray(counter.Handle, ref bytes, out count, _buffer);
        }
        if (status != 0)
        {
            return; // no instance now
        }
        fixed (byte* start = _buffer)
        {
            for (var index = 0; index < count && (index + 1) * ItemBytes <= _buffer.Length; index++)
            {
                var item = start + index * ItemBytes;
                Take(counter, Marshal.PtrToStringUni(*(nint*)item), new(item + ItemBytes - ValueBytes, ValueBytes), values);
            }
        }
    }

    private static void Take(Added counter, string? instance, ReadOnlySpan<byte> value, List<RawCounterValue> values)
    {
        if (BinaryPrimitives.ReadUInt32LittleEndian(value) is not (ValidData or NewData))
        {
            return;
        }
        // The form is asked for once there is a value: not every counter is known to Windows before.
        counter.Form = counter.Form == CounterForm.Unknown ? Form(counter.Handle) : counter.Form;
        values.Add(new(
            counter.Object, instance, counter.Counter, counter.Form,
            BinaryPrimitives.ReadInt64LittleEndian(value[4..]), BinaryPrimitives.ReadInt64LittleEndian(value[16..]),
            BinaryPrimitives.ReadInt64LittleEndian(value[24..]), BinaryPrimitives.ReadUInt32LittleEndian(value[32..])));
    }

    private static CounterForm Form(nint counter)
    {
        var info = new byte[4096]; // the names of the counter are behind it
        var bytes = (uint)info.Length;
        var status = PerformanceData.CounterInfo(counter, 0, ref bytes, info);
        if (status == MoreData)
        {
            info = new byte[bytes];
            status = PerformanceData.CounterInfo(counter, 0, ref bytes, info);
        }
        if (status != 0 || bytes < InfoTypeAt + sizeof(uint))
        {
            return CounterForm.Unknown;
        }
        // Counts that are no rates have no clock.
        _ = PerformanceData.TimeBase(counter, out var hertz);
        return new(BinaryPrimitives.ReadUInt32LittleEndian(info.AsSpan(InfoTypeAt)), hertz);
    }

    private static AgentError NoCounters(int status) => new(
        $"this host has no performance counters (0x{status:X8})", "lodctr /R rebuilds them, in an elevated window; or leave counters out");

    private sealed class Added(string name, string? instances, string counter, nint handle)
    {
        public string Object { get; } = name;

        public string? Instances { get; } = instances;

        public string Counter { get; } = counter;

        public nint Handle { get; } = handle;

        public CounterForm Form { get; set; } = CounterForm.Unknown;
    }
}

/// <summary>Samples as rows of <c>raw_counters</c>, of which the import makes the recording's <c>counters</c>.</summary>
internal static class RawCounterRows
{
    public static RecordBatch Of(
        IReadOnlyList<RawCounterValue> values, long sample, Func<long, long> atNs, string source, Anonymizer? anonymizer)
    {
        var rows = values.Count;
        var number = new Int64Array.Builder().Reserve(rows);
        var at = new Int64Array.Builder().Reserve(rows);
        var stamp = new Int64Array.Builder().Reserve(rows);
        var from = new StringArray.Builder();
        var name = new StringArray.Builder();
        var instance = new StringArray.Builder();
        var counter = new StringArray.Builder();
        var type = new UInt32Array.Builder().Reserve(rows);
        var hertz = new Int64Array.Builder().Reserve(rows);
        var first = new Int64Array.Builder().Reserve(rows);
        var second = new Int64Array.Builder().Reserve(rows);
        var count = new UInt32Array.Builder().Reserve(rows);
        foreach (var value in values)
        {
            number.Append(sample);
            at.Append(atNs(value.Stamp));
            stamp.Append(value.Stamp);
            from.Append(anonymizer?.Name(source) ?? source);
            name.Append(anonymizer?.CounterObject(value.Object) ?? value.Object);
            if (value.Instance is null)
            {
                instance.AppendNull();
            }
            else
            {
                instance.Append(anonymizer?.Path(value.Instance) ?? value.Instance);
            }
            counter.Append(value.Counter);
            type.Append(value.Form.Type);
            hertz.Append(value.Form.Hertz);
            first.Append(value.First);
            second.Append(value.Second);
            count.Append(value.MultiCount);
        }
        return new(
            RecordingSchemas.RawCounters,
            [
                number.Build(), at.Build(), stamp.Build(), from.Build(), name.Build(), instance.Build(), counter.Build(),
                type.Build(), hertz.Build(), first.Build(), second.Build(), count.Build(),
            ],
            rows);
    }
}

/// <summary>The functions of pdh.dll: the only ones that know counters by English names on any language of Windows.</summary>
[SupportedOSPlatform("windows")]
internal static partial class PerformanceData
{
    [LibraryImport("pdh.dll", EntryPoint = "PdhOpenQueryW")]
    public static partial int OpenQuery(nint source, nint user, out nint query);

    [LibraryImport("pdh.dll", EntryPoint = "PdhAddEnglishCounterW", StringMarshalling = StringMarshalling.Utf16)]
    public static partial int AddEnglishCounter(nint query, string path, nint user, out nint counter);

    [LibraryImport("pdh.dll", EntryPoint = "PdhCollectQueryDataWithTime")]
    public static partial int Collect(nint query, out long stamp);

    [LibraryImport("pdh.dll", EntryPoint = "PdhGetRawCounterArrayW")]
    public static partial int RawArray(nint counter, ref uint bytes, out uint count, Span<byte> items);

    /// <param name="type">Where the type goes; zero: nowhere.</param>
    [LibraryImport("pdh.dll", EntryPoint = "PdhGetRawCounterValue")]
    public static partial int RawValue(nint counter, nint type, Span<byte> value);

    /// <param name="explains">Whether the text that explains it is wanted: 0 or 1.</param>
    [LibraryImport("pdh.dll", EntryPoint = "PdhGetCounterInfoW")]
    public static partial int CounterInfo(nint counter, byte explains, ref uint bytes, Span<byte> info);

    [LibraryImport("pdh.dll", EntryPoint = "PdhGetCounterTimeBase")]
    public static partial int TimeBase(nint counter, out long hertz);

    [LibraryImport("pdh.dll", EntryPoint = "PdhCloseQuery")]
    public static partial int CloseQuery(nint query);
}
