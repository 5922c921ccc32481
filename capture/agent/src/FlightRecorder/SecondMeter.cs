using Iotrace.Agent.Streams;

namespace Iotrace.Agent.FlightRecorder;

/// <summary>Sums up rows of the block layer by the second in which they were completed, by the rows' own times.</summary>
internal sealed class SecondMeter(Action<SecondOfIo> ended)
{
    private const long SecondNs = 1_000_000_000;

    private readonly LatencyHistogram _latencies = new();
    private long _second = long.MinValue;
    private long _earliest;
    private long _busyNs;
    private long _lost;

    /// <summary>Events that were lost; they count in the second that ends next. From any thread.</summary>
    public void Lost(long events) => Interlocked.Add(ref _lost, events);

    public void Add(in IoRow row)
    {
        if (row.Layer != Layer.Block || row.CompletedNs == long.MinValue)
        {
            return;
        }
        var second = Math.DivRem(row.CompletedNs, SecondNs).Quotient;
        if (second > _second)
        {
            End();
            (_second, _earliest, _busyNs) = (second, row.IssuedNs, 0);
        }
        _latencies.Add(row.CompletedNs - row.IssuedNs);
        _earliest = Math.Min(_earliest, row.IssuedNs);
        _busyNs += Math.Min(row.CompletedNs - row.IssuedNs, SecondNs * 3600);
    }

    /// <summary>The time is <paramref name="nowNs"/>: a second that ended a while ago gets no more rows.</summary>
    public void Tick(long nowNs)
    {
        var second = nowNs / SecondNs - 4; // delivery takes up to three seconds
        if (second > _second)
        {
            End();
            (_second, _earliest, _busyNs) = (second, second * SecondNs, 0);
        }
    }

    /// <summary>End the second that is being summed up.</summary>
    public void End()
    {
        if (_second != long.MinValue)
        {
            var lost = Interlocked.Exchange(ref _lost, 0);
            ended(new((_second + 1) * SecondNs, _latencies.Count, _earliest, _latencies, _busyNs / SecondNs, lost));
            _latencies.Clear();
        }
    }
}
