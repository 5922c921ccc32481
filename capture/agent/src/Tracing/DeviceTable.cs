namespace Iotrace.Agent.Tracing;

/// <summary>Disks and partitions: the latest description of each holds, and a disk with I/O needs none.</summary>
internal sealed class DeviceTable
{
    /// <summary>Most disks; a disk without a description is taken to have such sectors.</summary>
    public const uint SectorBytes = 512;

    private const int PartitionIds = 0x4000_0000;

    private readonly SortedDictionary<uint, DiskFact?> _disks = [];
    private readonly SortedDictionary<(uint Disk, ulong Start), PartitionFact> _partitions = [];
    private readonly Dictionary<(uint Disk, ulong Start), int> _partitionIds = [];
    private uint _latestDisk = uint.MaxValue;
    private uint _latestSector = SectorBytes;
    private bool _hasLatest;

    /// <summary>Changes whenever anything is learnt.</summary>
    public int Version { get; private set; }

    public IEnumerable<(uint Number, DiskFact? Fact)> Disks => _disks.Select(disk => (disk.Key, disk.Value));

    public IEnumerable<PartitionFact> Partitions => _partitions.Values;

    public void Learn(DiskFact disk)
    {
        _disks[disk.Number] = disk;
        _hasLatest = false;
        Version++;
    }

    public void Learn(PartitionFact partition)
    {
        _partitions[(partition.Disk, partition.StartBytes)] = partition;
        _ = SectorOf(partition.Disk);
        Version++;
    }

    /// <summary>Bytes of a logical block of a disk, which gets a row by this.</summary>
    public uint SectorOf(uint disk)
    {
        if (_hasLatest && disk == _latestDisk)
        {
            return _latestSector;
        }
        if (!_disks.TryGetValue(disk, out var fact))
        {
            _disks.Add(disk, null);
            Version++;
        }
        (_latestDisk, _hasLatest) = (disk, true);
        return _latestSector = fact is { SectorBytes: > 0 } ? fact.SectorBytes : SectorBytes;
    }

    /// <summary>Number of the one disk with this SCSI address.</summary>
    public uint? DiskAt((uint Port, uint Path, uint Target, uint Unit) address)
    {
        var found = _disks.Values.Where(disk => disk?.Address == address).Take(2).ToList();
        return found.Count == 1 ? found[0]!.Number : null;
    }

    /// <summary>The partition that holds this byte of a disk.</summary>
    public PartitionFact? PartitionAt(uint disk, ulong offset) =>
        _partitions.Values.LastOrDefault(part => part.Disk == disk && part.StartBytes <= offset) is { } found
        && offset - found.StartBytes < found.SizeBytes ? found : null;

    /// <summary>The one partition whose drive letter begins a path.</summary>
    public PartitionFact? PartitionCalled(string path)
    {
        if (path.Length < 2 || path[1] != ':')
        {
            return null;
        }
        var found = _partitions.Values
            .Where(part => part.Letter.Equals(path[..2], StringComparison.OrdinalIgnoreCase)).Take(2).ToList();
        return found.Count == 1 ? found[0] : null;
    }

    /// <summary>A disk's key in the recording: keys are any numbers, and a disk has one.</summary>
    public static int DiskId(uint number) => unchecked((int)number);

    /// <summary>A partition's key in the recording.</summary>
    public int PartitionId(PartitionFact partition)
    {
        var place = (partition.Disk, partition.StartBytes);
        if (!_partitionIds.TryGetValue(place, out var id))
        {
            _partitionIds.Add(place, id = PartitionIds + _partitionIds.Count);
        }
        return id;
    }
}
