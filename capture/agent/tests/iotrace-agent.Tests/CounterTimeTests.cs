using CsCheck;
using Iotrace.Agent.Counters;
using Xunit;

namespace Iotrace.Agent.Tests;

#pragma warning disable CA1416 // arithmetic, on any system
public class CounterTimeTests
{
    private const long Utc = 133_536_384_000_000_000;
    private const long Second = TimeSpan.TicksPerSecond;

    [Theory]
    [InlineData(0)] // UTC
    [InlineData(120)] // local times ahead of it and behind
    [InlineData(345)]
    [InlineData(-570)]
    public void A_sample_has_the_time_that_Windows_stamped_it_with(int aheadMinutes)
    {
        // Taken 0.3 s before the call returned, which took a second.
        var stamp = Utc - 3 * Second / 10 + aheadMinutes * TimeSpan.TicksPerMinute;
        Assert.Equal(9_700_000_000, CounterSampler.TakenAt(9_000_000_000, 10_000_000_000, Utc, stamp));
    }

    [Fact]
    public void A_stamp_of_any_clock_lies_within_the_call() =>
        Gen.Select(Gen.Long[0, 1L << 60], Gen.Long[0, 1L << 60], Gen.Long[0, 1L << 40], Gen.Long[0, 1L << 40]).Sample(given =>
        {
            var (utc, stamp, began, took) = given;
            Assert.InRange(CounterSampler.TakenAt(began, began + took, utc, stamp), began, began + took);
        });
}
