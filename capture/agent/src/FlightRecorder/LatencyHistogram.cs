using System.Numerics;

namespace Iotrace.Agent.FlightRecorder;

/// <summary>Counts of latencies in bins of 1/16 of their power of two: quantiles are at most 6 % above the truth. Allocates once.</summary>
internal sealed class LatencyHistogram
{
    private const int BinBits = 4;
    private const int Bins = 64 << BinBits;

    private readonly long[] _counts = new long[Bins];

    public long Count { get; private set; }

    public long MaxNs { get; private set; }

    public void Add(long latencyNs)
    {
        latencyNs = Math.Max(latencyNs, 0);
        _counts[BinOf(latencyNs)]++;
        Count++;
        MaxNs = Math.Max(MaxNs, latencyNs);
    }

    /// <summary>The nearest-rank quantile: the upper end of its bin, but never above the longest latency; NaN of nothing.</summary>
    public double Quantile(double quantile)
    {
        if (Count == 0)
        {
            return double.NaN;
        }
        var rank = Math.Max((long)Math.Ceiling(quantile * Count), 1);
        for (var bin = 0; bin < Bins; bin++)
        {
            rank -= _counts[bin];
            if (rank <= 0)
            {
                return Math.Min(UpperEnd(bin), MaxNs);
            }
        }
        return MaxNs;
    }

    public void Clear()
    {
        Array.Clear(_counts);
        (Count, MaxNs) = (0, 0);
    }

    private static int BinOf(long value)
    {
        if (value < 1 << BinBits)
        {
            return (int)value;
        }
        var shift = 63 - BitOperations.LeadingZeroCount((ulong)value) - BinBits;
        return ((shift + 1) << BinBits) + (int)((value >> shift) - (1 << BinBits));
    }

    private static double UpperEnd(int bin)
    {
        var (block, rest) = (bin >> BinBits, bin & ((1 << BinBits) - 1));
        return block == 0 ? rest : Math.ScaleB((1 << BinBits) + rest + 1, block - 1) - 1;
    }
}
