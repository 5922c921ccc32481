using System.Runtime.Versioning;
using Microsoft.Diagnostics.Tracing;

namespace Iotrace.Agent.Tracing;

/// <summary>A closed .etl file, read through Windows.</summary>
[SupportedOSPlatform("windows")]
internal sealed class EtlTraceSource : ITraceSource
{
    private readonly ETWTraceEventSource _source;

    public EtlTraceSource(string path)
    {
        var header = Windows.EtlHeader.Read(path);
        Clock = new(header.StartTicks, header.Hertz);
        StartFileTime = header.StartFileTime;
        Lost = new(header.EventsLost, header.BuffersLost);
        _source = new(path, TraceEventSourceType.FileOnly);
    }

    public TickClock Clock { get; }

    public bool IsEndless => false;

    /// <summary>The moment of the clock's start, 100 ns each since 1601.</summary>
    public long StartFileTime { get; }

    private Losses Lost { get; }

    public Losses PollLosses() => Lost;

    public void Run(TraceRecorder recorder)
    {
        _ = new KernelEvents(_source, recorder);
        _source.Process();
    }

    public void Stop() => _source.StopProcessing();

    public void Dispose() => _source.Dispose();
}
