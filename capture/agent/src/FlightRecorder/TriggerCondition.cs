using System.Globalization;
using System.Text.RegularExpressions;

namespace Iotrace.Agent.FlightRecorder;

/// <summary>What was measured over one second of completions.</summary>
/// <param name="EndNs">The second's end, on the recording's clock.</param>
/// <param name="Ios">I/Os that were completed in it.</param>
/// <param name="EarliestIssueNs">When the first of them was issued.</param>
/// <param name="Latencies">Their latencies.</param>
/// <param name="InFlight">Mean number in flight: the latencies of the second over its length (Little).</param>
/// <param name="Lost">Events lost since the second before.</param>
internal readonly record struct SecondOfIo(
    long EndNs, long Ios, long EarliestIssueNs, LatencyHistogram Latencies, long InFlight, long Lost);

/// <summary>
/// A condition such as <c>p99 &gt; 50ms for 10s</c>. It holds for the time since a second in which it was last known not to hold. A
/// second without an I/O tells nothing; what is completed later tells of it: while storage hangs, nothing is completed.
/// </summary>
internal sealed partial class TriggerCondition
{
    private const long SecondNs = 1_000_000_000;

    private readonly string _metric;
    private readonly bool _isAbove;
    private readonly double _limit;
    private readonly long _forNs;
    private long _knownFalseNs = long.MinValue;
    private long _heldSinceNs = long.MaxValue;
    private bool _isReported;

    private TriggerCondition(string text, string metric, bool isAbove, double limit, long forNs) =>
        (Text, _metric, _isAbove, _limit, _forNs) = (text, metric, isAbove, limit, forNs);

    public string Text { get; }

    /// <summary>Throws <see cref="AgentError"/> for what is no condition.</summary>
    public static TriggerCondition Parse(string text)
    {
        var found = Form().Match(text.Trim());
        if (!found.Success)
        {
            throw Unknown(text);
        }
        var metric = found.Groups["metric"].Value;
        var limit = found.Groups["limit"].Value;
        double number;
        if (metric is "p50" or "p99" or "max" && Durations.TryParse(limit, out var latency))
        {
            number = latency.TotalNanoseconds;
        }
        else if (metric is "p50" or "p99" or "max" || !double.TryParse(limit, NumberStyles.Float, CultureInfo.InvariantCulture, out number))
        {
            throw Unknown(text);
        }
        var length = TimeSpan.Zero;
        if (found.Groups["for"] is { Success: true } told && !Durations.TryParse(told.Value, out length))
        {
            throw Unknown(text);
        }
        return new(text.Trim(), metric, found.Groups["sign"].Value == ">", number, (long)length.TotalNanoseconds);
    }

    /// <summary>Look at a second: whether the condition now holds long enough, told once until it no longer holds.</summary>
    public bool Fires(in SecondOfIo second)
    {
        var value = _metric switch
        {
            "p50" => second.Latencies.Quantile(0.5),
            "p99" => second.Latencies.Quantile(0.99),
            "max" => second.Ios > 0 ? second.Latencies.MaxNs : double.NaN,
            "iops" => second.Ios,
            "in_flight" => second.InFlight,
            _ => second.Lost,
        };
        if (double.IsNaN(value))
        {
            return false; // nothing is known of this second
        }
        if (_isAbove ? value <= _limit : value >= _limit)
        {
            (_knownFalseNs, _heldSinceNs, _isReported) = (second.EndNs, long.MaxValue, false);
            return false;
        }
        // What ends now and was slow was slow since it began; but no earlier than it was known to be well.
        var since = Math.Max(_knownFalseNs, Math.Min(second.EndNs - SecondNs, second.EarliestIssueNs));
        _heldSinceNs = Math.Min(_heldSinceNs, since);
        if (_isReported || second.EndNs - _heldSinceNs < _forNs)
        {
            return false;
        }
        return _isReported = true;
    }

    private static AgentError Unknown(string text) => new(
        $"--when '{text}' is no condition",
        "write p50, p99, max, iops, in_flight or lost, > or <, and a limit: --when \"p99 > 50ms for 10s\", --when \"lost > 0\"");

    [GeneratedRegex(
        @"^(?<metric>p50|p99|max|iops|in_flight|lost)\s*(?<sign>[<>])\s*(?<limit>[0-9][0-9.a-zµ]*)(\s+for\s+(?<for>\S+))?$",
        RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, 1000)]
    private static partial Regex Form();
}
