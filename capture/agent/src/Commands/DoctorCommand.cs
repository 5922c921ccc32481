using System.CommandLine;
using System.Diagnostics;
using System.Runtime.Versioning;
using System.Text.Json.Nodes;
using Iotrace.Agent.Counters;
using Iotrace.Agent.SqlServer;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Commands;

/// <summary>One thing looked at. Level: ok, warning (something would be missing) or problem (no recording).</summary>
internal sealed record Check(string Name, string Level, string Found, string Advice);

/// <summary>What this host allows the agent, and what to do where it does not.</summary>
internal static class DoctorCommand
{
    private const int LoggersMax = 8;
    private const double BytesPerIo = 13;
    private const int AssumedIops = 10_000;

    public static Command Create(CommandContext context)
    {
        var length = new Option<string>("--for") { Description = "How long you plan to record.", DefaultValueFactory = _ => "60m", HelpName = "TIME" };
        var output = new Option<string>("--output", "-o") { Description = "Folder that you plan to record to.", DefaultValueFactory = _ => ".", HelpName = "DIR" };
        var command = new Command("doctor", "Tell what this host allows the agent; status 1 if nothing can be recorded.")
        {
            output, length, CommonOptions.Server, CommonOptions.Json,
        };
        command.SetAction(parsed => context.Run(parsed, stop =>
        {
            if (!OperatingSystem.IsWindows())
            {
                RecordHost.OfThisMachine();
            }
            var planned = Durations.Parse(parsed.GetValue(length) ?? "60m", "--for");
            var checks = OperatingSystem.IsWindows()
                ? Examine(parsed.GetValue(output) ?? ".", planned, parsed.GetValue(CommonOptions.Server), stop)
                : [];
            return Tell([.. checks], context.Output, parsed.GetValue(CommonOptions.Json));
        }));
        return command;
    }

    public static int Tell(IReadOnlyList<Check> checks, Output output, bool isJson)
    {
        var problems = checks.Count(check => check.Level == "problem");
        var cannot = problems > 0;
        if (isJson)
        {
            output.Json(new JsonObject
            {
                ["can_record"] = !cannot,
                ["checks"] = new JsonArray([.. checks.Select(check => new JsonObject
                {
                    ["name"] = check.Name,
                    ["level"] = check.Level,
                    ["found"] = check.Found,
                    ["advice"] = check.Advice,
                })]),
            });
        }
        else
        {
            output.Line(cannot
                ? $"Nothing can be recorded here yet: {problems} problem{(problems == 1 ? "" : "s")}, named below"
                : "Everything needed to record is here");
            foreach (var check in checks)
            {
                output.Line($"{check.Level,-8} {check.Name}: {check.Found}; {check.Advice}");
            }
        }
        return cannot ? ExitStatus.No : ExitStatus.Done;
    }

    [SupportedOSPlatform("windows")]
    private static IEnumerable<Check> Examine(string folder, TimeSpan planned, string? server, CancellationToken stop)
    {
        yield return Elevation();
        foreach (var check in Sessions())
        {
            yield return check;
        }
        yield return Room(folder, planned);
        yield return LiveTraceSession.HasPortEvents
            ? new("StorPort events", "ok", "this host's port driver tells of its requests", "--layers block,device records them")
            : new("StorPort events", "warning", "none: virtual disks and some NVMe drivers tell none", "leave --layers device out");
        yield return Counters();
        yield return new(
            "clock", "ok", $"the performance counter ticks {Stopwatch.Frequency:N0} times a second", "nothing to do");
        yield return new(
            "buffers", "ok", $"a session takes {LiveTraceSession.BuffersMiB} MiB of memory that Windows does not page",
            "record when less is going on if memory is short");
        if (server is not null)
        {
            yield return Sql(server, stop);
        }
    }

    [SupportedOSPlatform("windows")]
    private static Check Elevation() => LiveTraceSession.IsElevated() switch
    {
        true => new("rights", "ok", "this window is elevated", "nothing to do"),
        false => new(
            "rights", "problem", "this window is not elevated: Windows lets it trace nothing of the kernel",
            "open it with 'Run as administrator'. Less than that: the right SeSystemProfilePrivilege and, by EventAccessControl, "
            + "access to the session and the system trace provider"),
        null => new("rights", "warning", "Windows does not say whether this window is elevated", "try it; record tells at once"),
    };

    [SupportedOSPlatform("windows")]
    private static IEnumerable<Check> Sessions()
    {
        IReadOnlyList<string>? active = null;
        string? problem = null;
        try
        {
            active = LiveTraceSession.ActiveSessions();
        }
        catch (Exception failed) when (failed is System.Runtime.InteropServices.COMException or UnauthorizedAccessException or IOException)
        {
            problem = failed.Message.TrimEnd('.');
        }
        if (active is null)
        {
            yield return new("sessions", "warning", $"Windows does not list its trace sessions: {problem}", "logman query -ets may");
            yield break;
        }
        // Which of them are the kernel's Windows tells of none but these; the others may be.
        var known = active.Where(name => name is "NT Kernel Logger" or "Circular Kernel Context Logger").ToList();
        yield return new(
            "kernel sessions", known.Count >= LoggersMax ? "problem" : "ok",
            $"{active.Count} trace sessions run, of which {known.Count} are surely of the kernel ({(known.Count > 0 ? string.Join(", ", known) : "none")}); the kernel has {LoggersMax}",
            "if record says that none is left, logman query -ets lists all; stop one that nobody needs");
        var left = LiveTraceSession.Leftovers();
        yield return left.Count == 0
            ? new("leftovers", "ok", "no session of a killed agent", "nothing to do")
            : new("leftovers", "warning", $"a killed agent left {string.Join(", ", left)}", "record replaces it; logman stop NAME -ets ends it");
    }

    [SupportedOSPlatform("windows")]
    private static Check Room(string folder, TimeSpan planned)
    {
        var host = new WindowsRecordHost();
        var full = Path.GetFullPath(folder);
        var needed = planned.TotalSeconds * AssumedIops * BytesPerIo + host.ReserveBytes(full);
        var what = $"{planned:g} at {AssumedIops:N0} I/Os a second take about {Words.Bytes(planned.TotalSeconds * AssumedIops * BytesPerIo)}";
        return host.FreeBytes(full) switch
        {
            null => new("room", "warning", $"nothing tells the free room of '{folder}'; {what}", "see that it has as much"),
            { } free when free < needed => new(
                "room", "warning", $"'{folder}' has {Words.Bytes(free)} free; {what}, and the agent leaves {Words.Bytes(host.ReserveBytes(full))} free",
                "make room, or name another volume with --output"),
            { } free => new("room", "ok", $"'{folder}' has {Words.Bytes(free)} free; {what}", "nothing to do"),
        };
    }

    [SupportedOSPlatform("windows")]
    private static Check Counters()
    {
        try
        {
            using var counters = CounterSampler.Open(CounterSampler.SqlInstances());
            return counters.Missing.Count == 0
                ? new("counters", "ok", $"all {counters.Count} are there", "nothing to do")
                : new(
                    "counters", "warning", $"{counters.Count} are there, {counters.Missing.Count} are not, such as {counters.Missing[0]}",
                    "lodctr /R rebuilds those of Windows, lodctr on perf-*sqlctr.ini those of SQL Server");
        }
        catch (AgentError problem)
        {
            return new("counters", "warning", problem.Message, problem.Hint);
        }
    }

    private static Check Sql(string server, CancellationToken stop)
    {
        try
        {
            var (connection, facts) = ExtendedEventSession.Connect(server, stop);
            using (connection)
            {
                var lacks = new List<string>();
                if (!facts.MayAlterSessions)
                {
                    lacks.Add("ALTER ANY EVENT SESSION");
                }
                if (!facts.MayViewState)
                {
                    lacks.Add("VIEW SERVER STATE");
                }
                return lacks.Count == 0
                    ? new("SQL Server", "ok", $"'{server}' is version {facts.Version}, and your login may record its events", $"--server {server}")
                    : new(
                        "SQL Server", "warning", $"'{server}' is version {facts.Version}; your login lacks {string.Join(" and ", lacks)}",
                        $"a sysadmin grants it: GRANT {string.Join(", ", lacks)} TO [LOGIN]");
            }
        }
        catch (AgentError problem)
        {
            return new("SQL Server", "warning", problem.Message, problem.Hint);
        }
    }
}
