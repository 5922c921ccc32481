using System.CommandLine;

namespace Iotrace.Agent.Commands;

/// <summary>Ends what an agent of this host records, from another window.</summary>
internal static class StopCommand
{
    /// <summary>What a recording agent listens for.</summary>
    public const string EventName = @"Global\iotrace-agent-stop";

    public static Command Create(CommandContext context)
    {
        var command = new Command("stop", "End the recording that an agent on this host is making; it is kept.");
        command.SetAction((parsed) => context.Run(parsed, _ =>
        {
            if (!StopRequest.TryAskOther(EventName))
            {
                throw new AgentError("no agent is recording on this host", "iotrace-agent doctor shows sessions that were left");
            }
            context.Output.Say("asked it to stop; its window tells when it has");
            return ExitStatus.Done;
        }));
        return command;
    }
}
