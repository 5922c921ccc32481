namespace Iotrace.Agent.Tracing;

/// <summary>Runs a source on a thread of its own, above the priority of all others: it has to keep up.</summary>
internal sealed class SessionReader
{
    public static readonly TimeSpan EndsWithin = TimeSpan.FromSeconds(30);

    private readonly ITraceSource _source;
    private readonly Thread _thread;
    private Exception? _failed;

    public SessionReader(ITraceSource source, TraceRecorder recorder)
    {
        _source = source;
        _thread = new(() => Run(recorder)) { Name = "session", IsBackground = true, Priority = ThreadPriority.Highest };
        _thread.Start();
    }

    public bool IsAlive => _thread.IsAlive;

    /// <summary>Stop the source and wait for its last events; what went wrong, or null.</summary>
    public string? Stop()
    {
        _source.Stop();
        if (!_thread.Join(EndsWithin))
        {
            return $"the session did not end within {EndsWithin.TotalSeconds:F0} s of its stop: its last events may be missing";
        }
        return _failed is null ? null : $"the session's reader failed: {_failed.Message.TrimEnd('.')}";
    }

    private void Run(TraceRecorder recorder)
    {
        try
        {
            _source.Run(recorder);
        }
#pragma warning disable CA1031 // told by Stop, on the thread that waits
        catch (Exception problem)
#pragma warning restore CA1031
        {
            _failed = problem;
        }
    }
}
