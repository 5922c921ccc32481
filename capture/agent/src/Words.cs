using System.Globalization;

namespace Iotrace.Agent;

/// <summary>Words and amounts as the Python command line says them.</summary>
internal static class Words
{
    /// <summary>A count with its noun: <c>1 hole</c>, <c>1,204 holes</c>.</summary>
    public static string Counted(long count, string one, string? many = null) =>
        $"{count.ToString("N0", CultureInfo.InvariantCulture)} {(count == 1 ? one : many ?? one + "s")}";

    public static string Bytes(double bytes)
    {
        string[] units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        var unit = 0;
        while (Math.Abs(bytes) >= 1024 && unit < units.Length - 1)
        {
            bytes /= 1024;
            unit++;
        }
        var digits = unit == 0 || Math.Abs(bytes) >= 100 ? "F0" : Math.Abs(bytes) >= 10 ? "F1" : "F2";
        return $"{bytes.ToString(digits, CultureInfo.InvariantCulture)} {units[unit]}";
    }

    /// <summary>A time of nanoseconds to three digits: <c>1.23 ms</c>; a dash for none.</summary>
    public static string Time(double nanoseconds)
    {
        if (double.IsNaN(nanoseconds))
        {
            return "–";
        }
        var (scale, unit) = nanoseconds switch
        {
            < 1e3 => (1.0, "ns"),
            < 1e6 => (1e3, "µs"),
            < 1e9 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        var value = nanoseconds / scale;
        var digits = value >= 100 ? "F0" : value >= 10 ? "F1" : "F2";
        return $"{value.ToString(digits, CultureInfo.InvariantCulture)} {unit}";
    }
}

internal static class AgentVersion
{
    public static string Text { get; } =
        typeof(AgentVersion).Assembly.GetName().Version is { } version
            ? System.Reflection.CustomAttributeExtensions
                .GetCustomAttribute<System.Reflection.AssemblyInformationalVersionAttribute>(typeof(AgentVersion).Assembly)
                ?.InformationalVersion ?? version.ToString()
            : "unknown";
}
