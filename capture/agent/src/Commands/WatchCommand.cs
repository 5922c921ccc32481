using System.CommandLine;
using System.Globalization;
using System.Text;
using System.Text.Json.Nodes;
using System.Text.RegularExpressions;
using Iotrace.Agent.FlightRecorder;
using Iotrace.Agent.SqlServer;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Commands;

/// <summary>The live view: nothing is written to a disk but what lists the names of open files, for a moment.</summary>
internal static class WatchCommand
{
    public static Command Create(CommandContext context)
    {
        var disks = new Option<string?>("--disks") { Description = "Only these disks: numbers, letters or mount points.", HelpName = "DISK,…" };
        var command = new Command("watch", "Show this host's I/O as it happens, by disk and by kind of file; with --json a line each second.")
        {
            disks, CommonOptions.Server, CommonOptions.Json,
        };
        command.SetAction(parsed => context.Run(parsed, stop =>
            new LiveView(RecordHost.OfThisMachine(), context.Output, parsed.GetValue(CommonOptions.Json)).Run(
                LayerChoice.Split(parsed.GetValue(disks)), parsed.GetValue(CommonOptions.Server), stop)));
        return command;
    }
}

/// <summary>
/// What files are to SQL Server and Windows, by their names: for the screen. A recording's roles are the import's
/// (<c>capture/roles.py</c>); <c>tests/fixtures/roles/windows.tsv</c> holds both to the same words.
/// </summary>
internal static partial class ScreenRoles
{
    public static string Of(string? path)
    {
        if (path is null)
        {
            return "not known";
        }
        var parts = path.Split('\\', StringSplitOptions.RemoveEmptyEntries);
        var name = parts.Length > 0 ? parts[^1] : "";
        var dot = name.LastIndexOf('.');
        var isTempdb = TempdbFile().IsMatch(name);
        // What follows a colon is a stream of the file.
        return (dot > 0 ? name[(dot + 1)..].Split(':')[0].ToUpperInvariant() : "") switch
        {
            "MDF" or "NDF" or "HKCKP" or "IBD" => isTempdb ? "tempdb data" : "data",
            "LDF" => isTempdb ? "tempdb log" : "log",
            "BAK" or "TRN" or "DIF" => "backup",
            _ => IsSystem(parts, name) ? "system" : "other",
        };
    }

    /// <summary>Windows' own files, and the file system's in a volume's root, such as <c>$Mft</c>.</summary>
    private static bool IsSystem(ReadOnlySpan<string> parts, string name)
    {
        if (name.ToUpperInvariant() is "PAGEFILE.SYS" or "SWAPFILE.SYS" or "HIBERFIL.SYS")
        {
            return true;
        }
        var inVolume = parts.Length > 0 && parts[0].Equals("Device", StringComparison.OrdinalIgnoreCase) ? parts[Math.Min(2, parts.Length)..]
            : parts.Length > 0 && parts[0].EndsWith(':') ? parts[1..]
            : parts;
        return inVolume.Length > 0
            && (inVolume[0].ToUpperInvariant() is "WINDOWS" or "SYSTEM VOLUME INFORMATION" or "$RECYCLE.BIN" or "$EXTEND"
                || (inVolume[0].StartsWith('$') && inVolume.Length <= 2));
    }

    [GeneratedRegex("^temp(db|dev|log).*\\.", RegexOptions.IgnoreCase | RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, 1000)]
    private static partial Regex TempdbFile();
}

/// <summary>A second of one disk or one kind of file.</summary>
internal sealed class LiveLine
{
    public long Reads { get; private set; }

    public long Writes { get; private set; }

    public long Bytes { get; private set; }

    /// <summary>I/Os of up to 8 KiB, up to 64 KiB, and larger.</summary>
    public long[] Sizes { get; } = new long[3];

    public LatencyHistogram Latencies { get; } = new();

    /// <summary>Mean number in flight over the second (Little).</summary>
    public double InFlight { get; private set; }

    public void Add(in IoRow row)
    {
        Reads += row.Op == Op.Read ? 1 : 0;
        Writes += row.Op == Op.Write ? 1 : 0;
        Bytes += row.SizeBytes;
        Sizes[row.SizeBytes <= 8192 ? 0 : row.SizeBytes <= 65536 ? 1 : 2]++;
        Latencies.Add(row.CompletedNs - row.IssuedNs);
        InFlight += (row.CompletedNs - row.IssuedNs) / 1e9;
    }
}

internal sealed class LiveView(IRecordHost host, Output output, bool isJson)
{
    private SortedDictionary<string, LiveLine> _lines = new(StringComparer.Ordinal);
    private Dictionary<int, string> _roles = [];

    /// <summary>On a screen; lines take all of a second.</summary>
    private const int MarkersShown = 10;

    private const int MarkersMax = 10_000;

    private readonly Queue<(DateTimeOffset At, string Text)> _markers = [];

    public int Run(IReadOnlyList<string> disks, string? server, CancellationToken stop)
    {
        using var live = server is null ? null : LiveEvents.Start(server, Mark, said => Mark(DateTimeOffset.UtcNow, said), stop);
        var wanted = new HashSet<Layer> { Layer.Block };
        using var source = host.Start(wanted, output.Say);
        var recorder = new TraceRecorder(source.Clock, Take) { Disks = host.Disks(disks), Layers = wanted };
        lock (recorder.Gate)
        {
            host.DescribeStorage(recorder.Names);
        }
        var reader = new SessionReader(source, recorder);
        var temporary = Directory.CreateTempSubdirectory("iotrace-agent-").FullName;
        var names = Task.Run(() => host.ListNames(recorder, temporary), CancellationToken.None);
        try
        {
            while (!stop.WaitHandle.WaitOne(TimeSpan.FromSeconds(1)) && reader.IsAlive)
            {
                SortedDictionary<string, LiveLine> lines;
                lock (recorder.Gate)
                {
                    (lines, _lines) = (_lines, new(StringComparer.Ordinal));
                    _roles = recorder.Names.FileRows().ToDictionary(row => row.Id, row => ScreenRoles.Of(row.Path));
                    if (recorder.Names.References > FlightRecording.ReferencesMax)
                    {
                        recorder.Names.StartOver();
                    }
                }
                Show(lines, source.PollLosses());
            }
            return reader.Stop() is { } failed ? throw new AgentError(failed) : ExitStatus.Done;
        }
        finally
        {
            names.Wait(SessionReader.EndsWithin, CancellationToken.None);
            Directory.Delete(temporary, recursive: true);
        }
    }

    private void Take(in IoRow row)
    {
        if (row.CompletedNs == long.MinValue)
        {
            return;
        }
        Line($"disk {unchecked((uint)row.DeviceId)}").Add(row);
        Line(row.Op == Op.Flush ? "flushes" : _roles.GetValueOrDefault(row.FileId, "not known")).Add(row);
    }

    private LiveLine Line(string name)
    {
        if (!_lines.TryGetValue(name, out var line))
        {
            _lines.Add(name, line = new());
        }
        return line;
    }

    private void Mark(SqlEvent seen) => Mark(seen.At, $"{seen.Name}: {EventRows.Words(seen)}");

    private void Mark(DateTimeOffset at, string text)
    {
        lock (_markers)
        {
            _markers.Enqueue((at, text));
            while (_markers.Count > MarkersMax)
            {
                _markers.Dequeue();
            }
        }
    }

    /// <summary>Markers to show: on a screen the last ones stay, in lines each stands once.</summary>
    private List<(DateTimeOffset At, string Text)> Markers()
    {
        lock (_markers)
        {
            if (!isJson)
            {
                return [.. _markers.TakeLast(MarkersShown)];
            }
            List<(DateTimeOffset At, string Text)> shown = [.. _markers];
            _markers.Clear();
            return shown;
        }
    }

    private void Show(SortedDictionary<string, LiveLine> lines, Losses losses)
    {
        if (isJson)
        {
            output.JsonLine(new JsonObject
            {
                ["at_utc"] = DateTime.UtcNow.ToString("O", CultureInfo.InvariantCulture),
                ["events_lost"] = losses.Events,
                ["buffers_lost"] = losses.Buffers,
                ["lines"] = new JsonArray([.. lines.Select(line => Json(line.Key, line.Value))]),
                ["markers"] = new JsonArray([.. Markers().Select(marker => new JsonObject
                {
                    ["at_utc"] = marker.At.UtcDateTime.ToString("O", CultureInfo.InvariantCulture),
                    ["text"] = marker.Text,
                })]),
            });
            return;
        }
        var text = new StringBuilder("\u001b[H\u001b[J")
            .Append(CultureInfo.InvariantCulture, $"{DateTime.Now:HH:mm:ss}   {losses.Events:N0} events, {losses.Buffers:N0} buffers lost\n\n")
            .Append("                 reads/s  writes/s      MB/s  <=8K <=64K  more       p50       p99   longest  in flight\n");
        foreach (var (name, line) in lines)
        {
            var ios = Math.Max(line.Latencies.Count, 1);
            text.Append(
                CultureInfo.InvariantCulture,
                $"{name,-14}{line.Reads,10:N0}{line.Writes,10:N0}{line.Bytes / 1e6,10:N1}{100 * line.Sizes[0] / ios,5}%{100 * line.Sizes[1] / ios,5}%{100 * line.Sizes[2] / ios,5}%{Words.Time(line.Latencies.Quantile(0.5)),10}{Words.Time(line.Latencies.Quantile(0.99)),10}{Words.Time(line.Latencies.MaxNs),10}{line.InFlight,11:N1}\n");
        }
        foreach (var (at, what) in Markers())
        {
            text.Append(CultureInfo.InvariantCulture, $"\n{at.LocalDateTime:HH:mm:ss} {Output.Printable(what)}");
        }
        output.Screen(text.ToString());
    }

    private static JsonObject Json(string name, LiveLine line) => new()
    {
        ["name"] = name,
        ["reads_per_second"] = line.Reads,
        ["writes_per_second"] = line.Writes,
        ["bytes_per_second"] = line.Bytes,
        ["ios_to_8k"] = line.Sizes[0],
        ["ios_to_64k"] = line.Sizes[1],
        ["ios_larger"] = line.Sizes[2],
        ["latency_ns_p50"] = line.Latencies.Quantile(0.5),
        ["latency_ns_p99"] = line.Latencies.Quantile(0.99),
        ["latency_ns_max"] = line.Latencies.MaxNs,
        ["in_flight_mean"] = line.InFlight,
    };
}
