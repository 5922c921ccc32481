namespace Iotrace.Agent.Tracing;

/// <summary>Events and buffers that were lost so far, as whoever delivers them counts.</summary>
internal readonly record struct Losses(long Events, long Buffers);

/// <summary>
/// Where events come from: a live session, a file, or a test. <see cref="Run"/> blocks its thread until the source ends or
/// <see cref="Stop"/> is called from another.
/// </summary>
internal interface ITraceSource : IDisposable
{
    /// <summary>The clock of the events' ticks.</summary>
    TickClock Clock { get; }

    /// <summary>Whether it ends only when it is stopped.</summary>
    bool IsEndless { get; }

    /// <summary>Hand every event to <paramref name="recorder"/> until the source ends.</summary>
    void Run(TraceRecorder recorder);

    /// <summary>What was lost so far.</summary>
    Losses PollLosses();

    /// <summary>End <see cref="Run"/> soon. Safe from any thread, and more than once.</summary>
    void Stop();
}
