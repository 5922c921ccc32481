using System.Diagnostics;
using System.Globalization;
using System.Runtime.Versioning;
using System.Text.Json.Nodes;
using Iotrace.Agent.Commands;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;
using Iotrace.Agent.Windows;

namespace Iotrace.Agent;

/// <summary>What a recording asks of the machine: the seam at which tests put one that plays events.</summary>
internal interface IRecordHost
{
    /// <summary>Take out of <paramref name="layers"/> what this host does not offer, and say so; an error if it was asked for by name.</summary>
    void CheckLayers(HashSet<Layer> layers, bool isByName, Action<string> note);

    /// <summary>Start the source of events.</summary>
    ITraceSource Start(IReadOnlySet<Layer> layers, Action<string> say);

    /// <summary>Numbers of the disks that <paramref name="words"/> name; null for all.</summary>
    IReadOnlySet<uint>? Disks(IReadOnlyList<string> words);

    void DescribeStorage(LateNames names);

    /// <summary>Names of the files that are open now; why there are none, or null.</summary>
    string? ListNames(TraceRecorder recorder, string folder);

    /// <summary>Ticks of the counter and UTC at this moment.</summary>
    ClockPair ClockPair();

    JsonObject Facts(bool isAnonymous);

    /// <summary>Free bytes of the volume that <paramref name="folder"/> lies on; null where nothing tells.</summary>
    long? FreeBytes(string folder);

    /// <summary>What a recording leaves free on the volume of <paramref name="folder"/>.</summary>
    long ReserveBytes(string folder);

    /// <summary>Warn if what is written lies where it is recorded, or beside database files.</summary>
    void WarnOfOutput(string folder, Action<string> warn);

    /// <summary>Counters of this host and its SQL Servers. Throws <see cref="AgentError"/>.</summary>
    Counters.ICounterSource OpenCounters();

    /// <summary>A wish to stop from another window.</summary>
    StopRequest ListenForStop();
}

internal static class RecordHost
{
    /// <summary>This machine. Throws <see cref="AgentError"/> off Windows.</summary>
    public static IRecordHost OfThisMachine() => OperatingSystem.IsWindows()
        ? new WindowsRecordHost()
        : throw new AgentError(
            "this is not Windows: the agent records Windows hosts",
            "iotrace capture linux records this one; iotrace-agent convert works everywhere");
}

/// <summary>The Windows server that the agent runs on.</summary>
[SupportedOSPlatform("windows")]
internal sealed class WindowsRecordHost : IRecordHost
{
    private const long ReserveMax = 1L << 30;
    private const int ReserveShare = 20;

    private IReadOnlyList<HostStorage.Volume>? _volumes;

    private IReadOnlyList<HostStorage.Volume> Volumes => _volumes ??= HostStorage.Volumes();

    public void CheckLayers(HashSet<Layer> layers, bool isByName, Action<string> note)
    {
        if (layers.Contains(Layer.Device) && !LiveTraceSession.HasPortEvents)
        {
            const string missing = "this host's port driver (StorPort) tells of no requests";
            if (isByName)
            {
                throw new AgentError($"--layers device: {missing}", "leave device out; virtual disks and some NVMe drivers tell none");
            }
            layers.Remove(Layer.Device);
            note(missing);
        }
    }

    public ITraceSource Start(IReadOnlySet<Layer> layers, Action<string> say)
    {
        if (LiveTraceSession.IsElevated() == false)
        {
            say("this window is not elevated; Windows will probably refuse to trace");
        }
        // The class lowers all threads, and that of the session is raised again: it has to keep up.
        using var process = Process.GetCurrentProcess();
        process.PriorityClass = ProcessPriorityClass.BelowNormal;
        return LiveTraceSession.Start(layers, say);
    }

    public IReadOnlySet<uint>? Disks(IReadOnlyList<string> words) =>
        words.Count == 0 ? null : words.SelectMany(DisksOf).ToHashSet();

    public void DescribeStorage(LateNames names) => _volumes = HostStorage.Describe(names);

    public string? ListNames(TraceRecorder recorder, string folder) => LiveTraceSession.ListNames(recorder, folder);

    public ClockPair ClockPair()
    {
        // The shortest of a few tries: the thread may be held up between the two.
        var best = (Between: long.MaxValue, Pair: default(ClockPair));
        for (var index = 0; index < 5; index++)
        {
            var before = Stopwatch.GetTimestamp();
            var utc = DateTime.UtcNow;
            var between = Stopwatch.GetTimestamp() - before;
            if (between < best.Between)
            {
                best = (between, new(before + between / 2, (utc - DateTime.UnixEpoch).Ticks * 100));
            }
        }
        return best.Pair;
    }

    public JsonObject Facts(bool isAnonymous)
    {
        var facts = new JsonObject
        {
            ["system"] = $"Windows {Environment.OSVersion.Version.Major}.{Environment.OSVersion.Version.Minor} build {Environment.OSVersion.Version.Build}",
            ["processors"] = Environment.ProcessorCount,
            ["utc_bias_minutes"] = -(int)TimeZoneInfo.Local.GetUtcOffset(DateTimeOffset.UtcNow).TotalMinutes,
        };
        if (!isAnonymous)
        {
            facts["name"] = Environment.MachineName;
        }
        return facts;
    }

    public long? FreeBytes(string folder) => Drive(folder)?.AvailableFreeSpace;

    public long ReserveBytes(string folder) => Math.Min(ReserveMax, (Drive(folder)?.TotalSize ?? long.MaxValue) / ReserveShare);

    public void WarnOfOutput(string folder, Action<string> warn)
    {
        // Down to where servers keep them, such as \Program Files\Microsoft SQL Server\MSSQL16.X\MSSQL\DATA, and no longer than a moment.
        var options = new EnumerationOptions { RecurseSubdirectories = true, MaxRecursionDepth = 6, IgnoreInaccessible = true };
        var started = Stopwatch.GetTimestamp();
        string? found = null;
        try
        {
            found = Directory.EnumerateFileSystemEntries(VolumeRoot(folder), "*", options)
                .TakeWhile(_ => Stopwatch.GetElapsedTime(started) < LookingForFiles).FirstOrDefault(IsDatabaseFile);
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            // A folder that went meanwhile, or one that Windows cannot name: no recording ends for want of a warning.
        }
        if (found is not null)
        {
            warn($"'{folder}' lies on a volume with database files, such as {found}: the recording will be a part of what is recorded");
        }
    }

    public Counters.ICounterSource OpenCounters() => Counters.CounterSampler.Open(Counters.CounterSampler.SqlInstances());

    public StopRequest ListenForStop()
    {
        var stop = new StopRequest(signals: false);
        stop.ListenFor(StopCommand.EventName);
        return stop;
    }

    /// <summary>The folder that the volume of <paramref name="folder"/> is mounted in: a drive, or a folder of another volume.</summary>
    private string VolumeRoot(string folder)
    {
        var path = folder.TrimEnd('\\') + @"\";
        return Volumes.SelectMany(volume => volume.Paths)
            .Where(root => path.StartsWith(root, StringComparison.OrdinalIgnoreCase))
            .MaxBy(root => root.Length) ?? Path.GetPathRoot(folder) ?? folder;
    }

    private static readonly TimeSpan LookingForFiles = TimeSpan.FromSeconds(2);

    private static bool IsDatabaseFile(string path) =>
        Path.GetExtension(path).ToUpperInvariant() is ".MDF" or ".NDF" or ".LDF";

    private static DriveInfo? Drive(string folder)
    {
        try
        {
            return Path.GetPathRoot(folder) is { Length: > 0 } root ? new(root) : null;
        }
        catch (ArgumentException)
        {
            return null; // a share
        }
    }

    private IEnumerable<uint> DisksOf(string word)
    {
        if (uint.TryParse(word, NumberStyles.None, CultureInfo.InvariantCulture, out var number))
        {
            return [number];
        }
        var path = word.TrimEnd('\\') + @"\";
        var volume = Volumes.FirstOrDefault(volume => volume.Paths.Contains(path, StringComparer.OrdinalIgnoreCase));
        return volume is { Extents.Count: > 0 }
            ? volume.Extents.Select(extent => extent.Disk)
            : throw new AgentError(
                $"--disks '{word}' is no disk of this host",
                "name numbers (as Disk Management shows them), drive letters or the folders that volumes are mounted in");
    }
}
