using System.Globalization;
using System.Text.RegularExpressions;

namespace Iotrace.Agent;

/// <summary>Times as the user writes them: <c>90s</c>, <c>30m</c>, <c>1h30m</c>, <c>500ms</c>.</summary>
internal static partial class Durations
{
    public static TimeSpan Parse(string text, string option)
    {
        if (TryParse(text, out var duration))
        {
            return duration;
        }
        throw new AgentError($"{option} '{text}' is no time", $"write a number with its unit: {option} 30m, 90s, 1h30m");
    }

    public static bool TryParse(string text, out TimeSpan duration)
    {
        duration = TimeSpan.Zero;
        var found = Form().Match(text);
        if (!found.Success || text.Length == 0)
        {
            return false;
        }
        var seconds = 0.0;
        foreach (var (unit, length) in new[] { ("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6) })
        {
            if (found.Groups[unit] is { Success: true } group)
            {
                seconds += double.Parse(group.ValueSpan, CultureInfo.InvariantCulture) * length;
            }
        }
        if (seconds is not (> 0 and < 1e9))
        {
            return false;
        }
        duration = TimeSpan.FromTicks((long)Math.Round(seconds * TimeSpan.TicksPerSecond));
        return duration > TimeSpan.Zero;
    }

    [GeneratedRegex(
        @"^((?<d>\d+(\.\d+)?)d)?((?<h>\d+(\.\d+)?)h)?((?<m>\d+(\.\d+)?)m(?!s))?((?<s>\d+(\.\d+)?)s)?((?<ms>\d+(\.\d+)?)ms)?((?<us>\d+(\.\d+)?)[uµ]s)?$",
        RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, 1000)]
    private static partial Regex Form();
}
