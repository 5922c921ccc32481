using System.CommandLine;
using Iotrace.Agent.FlightRecorder;
using Iotrace.Agent.SqlServer;

namespace Iotrace.Agent.Commands;

/// <summary>The flight recorder, in a window or as a service.</summary>
internal static class KeepCommand
{
    private const long Gibibyte = 1L << 30;

    public static Option<string> Last { get; } =
        new("--last") { Description = "How much of the past to keep, such as 30m.", Required = true, HelpName = "TIME" };

    public static Option<string[]> When { get; } = new("--when")
    {
        Description = "Condition for making a recording: \"p99 > 50ms for 10s\", \"lost > 0\", or with --server an event such as long_io_detected; may be repeated.", Required = true, HelpName = "CONDITION",
    };

    public static Option<string> After { get; } =
        new("--after") { Description = "How long to go on recording after the condition is met.", DefaultValueFactory = _ => "5m", HelpName = "TIME" };

    public static Option<int> MaxSize { get; } =
        new("--max-size") { Description = "Most GiB that the kept minutes may take on disk.", DefaultValueFactory = _ => 8, HelpName = "GIB" };

    public static Option<int> Most { get; } =
        new("--most") { Description = "Most recordings to make.", DefaultValueFactory = _ => 10, HelpName = "COUNT" };

    public static Option<string?> Disks { get; } = new("--disks") { Description = "Only these disks: numbers, letters or mount points.", HelpName = "DISK,…" };

    public static IEnumerable<Option> Options => [CommonOptions.Output, Last, When, After, MaxSize, Most, Disks, CommonOptions.Server, CommonOptions.Anonymize];

    public static Command Create(CommandContext context)
    {
        var command = new Command("keep", "Keep the last minutes, and make a recording of them when a condition holds.");
        foreach (var option in Options)
        {
            command.Options.Add(option);
        }
        command.SetAction(parsed => context.Run(parsed, stop => Keep(Read(parsed), context.Output, stop)));
        return command;
    }

    public static int Keep(KeepArgs args, Output output, CancellationToken stop)
    {
        var host = RecordHost.OfThisMachine();
        using var listening = host.ListenForStop();
        using var stopping = CancellationTokenSource.CreateLinkedTokenSource(stop, listening.Token);
        return new FlightRecording(args, host, output).Run(stopping.Token);
    }

    public static KeepArgs Read(ParseResult parsed)
    {
        ArgumentNullException.ThrowIfNull(parsed);
        var (size, most) = (parsed.GetValue(MaxSize), parsed.GetValue(Most));
        if (size is < 1 or > 1_000_000)
        {
            throw new AgentError($"--max-size {size} is no size", "give GiB, such as --max-size 8");
        }
        if (most is < 1 or > 100_000)
        {
            throw new AgentError($"--most {most} is no number of recordings", "give 1 or more");
        }
        var conditions = parsed.GetRequiredValue(When);
        var server = parsed.GetValue(CommonOptions.Server);
        foreach (var condition in conditions)
        {
            if (!SessionStatements.RareEvents.Contains(condition.Trim(), StringComparer.Ordinal))
            {
                _ = TriggerCondition.Parse(condition);
            }
            else if (server is null)
            {
                throw new AgentError($"--when '{condition}' is an event of SQL Server", "name the server: --server . or --server .\\INST");
            }
        }
        return new(
            parsed.GetRequiredValue(CommonOptions.Output),
            new(
                Durations.Parse(parsed.GetRequiredValue(Last), "--last"), Durations.Parse(parsed.GetValue(After) ?? "5m", "--after"),
                size * Gibibyte, most),
            conditions)
        {
            Disks = LayerChoice.Split(parsed.GetValue(Disks)),
            Server = server,
            Anonymize = parsed.GetValue(CommonOptions.Anonymize),
        };
    }
}
