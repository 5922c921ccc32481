namespace Iotrace.Agent.Tracing;

/// <summary>From raw ticks of the performance counter to nanoseconds since the recording's start.</summary>
/// <param name="StartTicks">The tick that is the recording's nanosecond 0.</param>
/// <param name="Hertz">Ticks a second.</param>
internal readonly record struct TickClock(long StartTicks, long Hertz)
{
    private const long NanosecondsPerSecond = 1_000_000_000;

    private readonly long _nanosecondsPerTick = NanosecondsPerSecond % Hertz == 0 ? NanosecondsPerSecond / Hertz : 0;

    /// <summary>Nanoseconds to <paramref name="ticks"/>, rounded down; false beyond 292 years.</summary>
    public bool TryNanoseconds(long ticks, out long nanoseconds)
    {
        var since = unchecked(ticks - StartTicks);
        if (((ticks ^ StartTicks) & (ticks ^ since)) < 0)
        {
            nanoseconds = 0;
            return false;
        }
        return TryScale(since, out nanoseconds);
    }

    /// <summary>The length of a span of ticks, rounded down.</summary>
    public bool TryScale(long ticks, out long nanoseconds)
    {
        if (_nanosecondsPerTick != 0)
        {
            nanoseconds = unchecked(ticks * _nanosecondsPerTick);
            if (ticks is > -9_000_000_000_000_000 and < 9_000_000_000_000_000 && _nanosecondsPerTick <= 1000)
            {
                return true;
            }
        }
        var exact = (Int128)ticks * NanosecondsPerSecond;
        var floor = exact / Hertz;
        if (exact < 0 && floor * Hertz != exact)
        {
            floor--;
        }
        var fits = floor >= long.MinValue && floor <= long.MaxValue;
        nanoseconds = fits ? (long)floor : 0;
        return fits;
    }

    /// <summary>The tick of a moment given in nanoseconds since the start.</summary>
    public long Ticks(long nanoseconds) => StartTicks + (long)((Int128)nanoseconds * Hertz / NanosecondsPerSecond);
}
