using System.CommandLine;

namespace Iotrace.Agent.Commands;

/// <summary>Options that several commands take in the same words.</summary>
internal static class CommonOptions
{
    public static Option<string> Output { get; } =
        new("--output", "-o") { Description = "A new folder for the recording.", Required = true, HelpName = "DIR" };

    public static Option<bool> Json { get; } = new("--json") { Description = "Print JSON instead of text." };

    public static Option<bool> Anonymize { get; } =
        new("--anonymize") { Description = "Replace names of files, programs and databases by pseudonyms before anything is written." };

    public static Option<string?> Server { get; } = new("--server")
    {
        Description = @"The SQL Server to record, such as . or .\INST. Uses your Windows login.",
        HelpName = "S",
    };
}

/// <summary>What every command gets: where it writes, and a token that is cancelled when it is to stop.</summary>
internal sealed class CommandContext(Output output)
{
    public Output Output { get; } = output;

    /// <summary>Run a command's handler; the only place that turns an error into a sentence and an exit status.</summary>
    public int Run(ParseResult parsed, Func<CancellationToken, int> handler)
    {
        ArgumentNullException.ThrowIfNull(parsed);
        using var stop = new StopRequest();
        try
        {
            return handler(stop.Token);
        }
        catch (AgentError problem)
        {
            Output.Fail(problem.Message, problem.Hint);
            return ExitStatus.WrongUse;
        }
        catch (OperationCanceledException) when (stop.Token.IsCancellationRequested)
        {
            Output.Say("stopped; nothing was left half-written");
            return ExitStatus.Interrupted;
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            Output.Fail(problem.Message.TrimEnd('.'), "");
            return ExitStatus.WrongUse;
        }
    }
}
