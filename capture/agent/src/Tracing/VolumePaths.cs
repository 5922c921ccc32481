namespace Iotrace.Agent.Tracing;

/// <summary>
/// Kernel paths as users know them: <c>\Device\HarddiskVolume3\</c> is a drive, or a folder that a volume is mounted in.
/// Without regard to case; the first mapping that fits wins.
/// </summary>
internal sealed class VolumePaths
{
    private const string PlainVolume = @"\Device\HarddiskVolume";

    private readonly List<(string Kernel, string User)> _mappings = [];

    public int Count => _mappings.Count;

    public void Add(string kernel, string user)
    {
        if (kernel.Length is > 0 and <= 1024
            && !_mappings.Exists(known => known.Kernel.Equals(kernel, StringComparison.OrdinalIgnoreCase)))
        {
            _mappings.Add((kernel, user));
        }
    }

    public string UserPath(string path)
    {
        foreach (var (kernel, user) in _mappings)
        {
            if (path.StartsWith(kernel, StringComparison.OrdinalIgnoreCase))
            {
                return string.Concat(user, path.AsSpan(kernel.Length));
            }
        }
        return path;
    }

    /// <summary>The part of a kernel path that names a plain volume, with its backslash; shadow copies are none.</summary>
    public static string? VolumeOf(string path)
    {
        if (!path.StartsWith(PlainVolume, StringComparison.Ordinal))
        {
            return null;
        }
        var end = path.IndexOf('\\', PlainVolume.Length);
        return end > PlainVolume.Length && !path.AsSpan(PlainVolume.Length..end).ContainsAnyExceptInRange('0', '9')
            ? path[..(end + 1)]
            : null;
    }

    /// <summary>
    /// Mappings for a trace that has none: a volume gets the letter of the partition that all its I/O fell into, if no
    /// other volume claims that letter.
    /// </summary>
    /// <param name="votes">Kernel path of a file, and the partition that some I/O of it fell into; null: none.</param>
    public static VolumePaths Infer(IEnumerable<(string Path, PartitionFact? Partition)> votes)
    {
        var found = new VolumePaths();
        var claims = votes
            .Select(vote => (Volume: VolumeOf(vote.Path), vote.Partition))
            .Where(vote => vote.Volume is not null)
            .GroupBy(vote => vote.Volume!, StringComparer.Ordinal)
            .Select(volume => (volume.Key, Partitions: volume.Select(vote => vote.Partition).Distinct().Take(2).ToList()))
            .Where(volume => volume.Partitions is [{ Letter.Length: > 0 }])
            .GroupBy(volume => volume.Partitions[0]!.Letter, StringComparer.Ordinal);
        foreach (var claim in claims)
        {
            var volumes = claim.Take(2).ToList();
            if (volumes.Count == 1)
            {
                found.Add(volumes[0].Key, claim.Key + @"\");
            }
        }
        return found;
    }
}
