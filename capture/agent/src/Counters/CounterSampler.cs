using System.Runtime.InteropServices;
using System.Runtime.Versioning;
using Apache.Arrow;
using Iotrace.Agent.Streams;

namespace Iotrace.Agent.Counters;

/// <summary>One counter of one instance over one interval.</summary>
internal readonly record struct CounterValue(string Object, string? Instance, string Counter, double Value);

/// <summary>Something that is sampled into rows of <c>counters</c>.</summary>
internal interface ICounterSource : IDisposable
{
    /// <summary>Counters that were asked for and that this host lacks.</summary>
    IReadOnlyList<string> Missing { get; }

    /// <summary>Take a sample: its rows, null for the first. <paramref name="now"/> tells the recording's time.</summary>
    RecordBatch? Rows(Func<long> now, Anonymizer? anonymizer);
}

/// <summary>
/// Windows' performance counters by their English names, whatever the language of the system, all instances, with instances
/// that come and go. Which counters say what the import knows; units and common names are its. Values are those that Windows works
/// out from its last two raw samples, by the clocks in them.
/// </summary>
[SupportedOSPlatform("windows")]
internal sealed class CounterSampler : ICounterSource
{
    private const int MoreData = unchecked((int)0x800007D2);
    private const uint FormatDouble = 0x200 | 0x8000; // no cap at 100 for shares
    private const uint ValidData = 0;
    private const uint NewData = 1;
    private const int ItemBytes = 24; // pointer, status, padding, double

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
        ("Processor", "_Total", ["% Processor Time", "% Privileged Time"]),
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

    private readonly List<(string Object, bool HasInstances, string Counter, nint Handle)> _counters = [];
    private nint _query;
    private byte[] _buffer = new byte[1 << 16];
    private long _sampledAtNs = long.MinValue;

    /// <summary>Offsets of local times from UTC are multiples of a quarter of an hour.</summary>
    private const long ZoneStep = 15 * TimeSpan.TicksPerMinute;

    private CounterSampler(nint query) => _query = query;

    /// <summary>How many counters, wildcards counted once, this host has.</summary>
    public int Count => _counters.Count;

    public IReadOnlyList<string> Missing => _missing;

    private readonly List<string> _missing = [];

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
                sampler._counters.Add((name, instances is not null, counter, handle));
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
        _ = PerformanceData.Collect(query, out _); // rates begin with the second sample
        return sampler;
    }

    /// <summary>Rows of <c>counters</c>, at the time that Windows stamped the sample with; null for the first.</summary>
    public RecordBatch? Rows(Func<long> now, Anonymizer? anonymizer)
    {
        var beganNs = now();
        if (_query == 0 || PerformanceData.Collect(_query, out var stamp) != 0)
        {
            return null;
        }
        var (endedNs, utc) = (now(), DateTime.UtcNow.ToFileTimeUtc());
        var atNs = TakenAt(beganNs, endedNs, utc, stamp);
        var values = new List<CounterValue>();
        foreach (var (name, hasInstances, counter, handle) in _counters)
        {
            Read(name, hasInstances, counter, handle, values);
        }
        var interval = _sampledAtNs == long.MinValue ? 0 : atNs - _sampledAtNs;
        _sampledAtNs = atNs;
        return interval <= 0 || values.Count == 0 ? null : CounterRows.Of(values, atNs, interval, Environment.MachineName, anonymizer);
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

    private unsafe void Read(string name, bool hasInstances, string counter, nint handle, List<CounterValue> values)
    {
        var bytes = (uint)_buffer.Length;
        var status = PerformanceData.FormattedArray(handle, FormatDouble, ref bytes, out var count, _buffer);
        if (status == MoreData)
        {
            _buffer = new byte[bytes + 4096];
            bytes = (uint)_buffer.Length;
            status = PerformanceData.FormattedArray(handle, FormatDouble, ref bytes, out count, _buffer);
        }
        if (status != 0)
        {
            return; // no instance now, or its first sample
        }
        fixed (byte* start = _buffer)
        {
            for (var index = 0; index < count && (index + 1) * ItemBytes <= _buffer.Length; index++)
            {
                var item = start + index * ItemBytes;
                if (*(uint*)(item + 8) is ValidData or NewData)
                {
                    var instance = Marshal.PtrToStringUni(*(nint*)item);
                    values.Add(new(name, hasInstances ? instance : null, counter, *(double*)(item + 16)));
                }
            }
        }
    }

    private static AgentError NoCounters(int status) => new(
        $"this host has no performance counters (0x{status:X8})", "lodctr /R rebuilds them, in an elevated window; or leave counters out");
}

/// <summary>Samples as rows of the table <c>counters</c>.</summary>
internal static class CounterRows
{
    public static RecordBatch Of(
        IReadOnlyList<CounterValue> values, long atNs, long intervalNs, string source, Anonymizer? anonymizer)
    {
        var at = new Int64Array.Builder().Reserve(values.Count);
        var interval = new Int64Array.Builder().Reserve(values.Count);
        var from = new StringArray.Builder();
        var name = new StringArray.Builder();
        var instance = new StringArray.Builder();
        var counter = new StringArray.Builder();
        var value = new DoubleArray.Builder().Reserve(values.Count);
        foreach (var sample in values)
        {
            at.Append(atNs);
            interval.Append(intervalNs);
            from.Append(anonymizer?.Name(source) ?? source);
            name.Append(anonymizer?.CounterObject(sample.Object) ?? sample.Object);
            if (sample.Instance is null)
            {
                instance.AppendNull();
            }
            else
            {
                instance.Append(anonymizer?.Path(sample.Instance) ?? sample.Instance);
            }
            counter.Append(sample.Counter);
            value.Append(sample.Value);
        }
        return new(
            RecordingSchemas.Counters,
            [at.Build(), interval.Build(), from.Build(), name.Build(), instance.Build(), counter.Build(), value.Build()],
            values.Count);
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

    [LibraryImport("pdh.dll", EntryPoint = "PdhGetFormattedCounterArrayW")]
    public static partial int FormattedArray(nint counter, uint format, ref uint bytes, out uint count, Span<byte> items);

    [LibraryImport("pdh.dll", EntryPoint = "PdhCloseQuery")]
    public static partial int CloseQuery(nint query);
}
