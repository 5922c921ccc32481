namespace Iotrace.Agent.SqlServer;

/// <summary>
/// What a file of events tells of its kinds and XELite does not, as the server tells it: the package of each event of the
/// agent's session, and the unit of its duration.
/// </summary>
/// <param name="durations">What SQL Server says of each event's duration; empty where it says nothing.</param>
internal sealed class EventKinds(IReadOnlyDictionary<string, string> durations)
{
    public static string PackageOf(string name) => SessionStatements.PackageOf(name);

    /// <summary>The unit that SQL Server states for the event's duration; null where it states none.</summary>
    public long? UnitNs(string name) => durations.TryGetValue(name, out var text) ? UnitIn(text) : null;

    /// <summary>The unit of time that a description names, by the rule of the import's own reader of .xel.</summary>
    internal static long? UnitIn(string description)
    {
        foreach (var (word, unitNs) in new[]
        {
            ("nanosecond", 1L), ("microsecond", 1_000), ("millisecond", 1_000_000), ("second", 1_000_000_000),
        })
        {
            if (description.Contains(word, StringComparison.OrdinalIgnoreCase))
            {
                return unitNs;
            }
        }
        return null;
    }
}
