namespace Iotrace.Agent;

/// <summary>
/// A failure that is foreseen: wrong use, a host that forbids, a disk that is full. The message names the user's own word
/// and what is wrong with it, without a full stop; the hint says what to do next. Anything else that is thrown is a defect.
/// </summary>
internal sealed class AgentError(string message, string hint = "", Exception? cause = null) : Exception(message, cause)
{
    /// <summary>What to do next; empty where the message says it all.</summary>
    public string Hint { get; } = hint;
}

/// <summary>Exit statuses, as the Python command line has them.</summary>
internal static class ExitStatus
{
    public const int Done = 0;

    /// <summary>The answer is no: nothing can be recorded here, or what was asked for is not true.</summary>
    public const int No = 1;

    public const int WrongUse = 2;

    public const int Interrupted = 130;
}
