using System.Buffers.Binary;
using System.Runtime.Versioning;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Windows;

/// <summary>
/// Disks, partitions and volumes as Windows tells them now; a live trace does not. What cannot be had is left out: a
/// volume on several disks has no one place, a disk behind a driver may say nothing of itself.
/// </summary>
[SupportedOSPlatform("windows")]
internal static class HostStorage
{
    private const int PathsMax = 32 * 1024;

    /// <summary>A volume: what the kernel calls it, where users find it, and what it lies on.</summary>
    internal sealed record Volume(string Name, string Device, IReadOnlyList<string> Paths, IReadOnlyList<(uint Disk, ulong Start, ulong Bytes)> Extents);

    /// <summary>Tell <paramref name="names"/> everything; its guard is held by the caller.</summary>
    public static IReadOnlyList<Volume> Describe(LateNames names)
    {
        var volumes = Volumes();
        foreach (var volume in volumes)
        {
            // Who mounts a volume in a folder uses it there: the longest path is the one that is meant.
            if (volume.Paths.OrderByDescending(path => path.Length).FirstOrDefault() is { } path)
            {
                names.Volumes.Add(volume.Device.TrimEnd('\\') + @"\", path.TrimEnd('\\') + @"\");
            }
        }
        names.Volumes.Add(@"\SystemRoot\", Environment.GetFolderPath(Environment.SpecialFolder.Windows) + @"\");
        names.Volumes.Add(@"\??\", "");
        names.Volumes.Add(@"\Device\Mup\", @"\\");
        foreach (var disk in volumes.SelectMany(volume => volume.Extents).Select(extent => extent.Disk).Distinct())
        {
            if (Disk(disk) is { } fact)
            {
                names.Devices.Learn(fact);
            }
        }
        foreach (var volume in volumes.Where(volume => volume.Extents.Count == 1))
        {
            var (disk, start, bytes) = volume.Extents[0];
            var letter = volume.Paths.OrderBy(path => path.Length).FirstOrDefault()?.TrimEnd('\\') ?? "";
            names.Devices.Learn(new PartitionFact(
                disk, PartitionNumber(volume.Name) ?? 0, start, bytes, letter, FileSystem(volume.Name)));
        }
        return volumes;
    }

    public static List<Volume> Volumes()
    {
        var found = new List<Volume>();
        Span<char> name = stackalloc char[64];
        var search = NativeMethods.FindFirstVolume(name, (uint)name.Length);
        if (search is 0 or -1)
        {
            return found;
        }
        try
        {
            do
            {
                var volume = Text(name);
                if (volume.Length > 5 && Device(volume) is { Length: > 0 } device)
                {
                    found.Add(new(volume, device, Paths(volume), Extents(volume)));
                }
            }
            while (NativeMethods.FindNextVolume(search, name, (uint)name.Length));
        }
        finally
        {
            NativeMethods.FindVolumeClose(search);
        }
        return found;
    }

    private static string Device(string volume)
    {
        // One function knows it as \\?\Volume{...}\, the other without what is around it.
        var target = new char[1024];
        return NativeMethods.QueryDosDevice(volume[4..].TrimEnd('\\'), target, (uint)target.Length) == 0 ? "" : Text(target);
    }

    private static List<string> Paths(string volume)
    {
        var paths = new char[PathsMax];
        return NativeMethods.GetVolumePathNames(volume, paths, (uint)paths.Length, out var needed)
            ? [.. new string(paths, 0, (int)Math.Min(needed, paths.Length)).Split('\0', StringSplitOptions.RemoveEmptyEntries)]
            : [];
    }

    private static List<(uint Disk, ulong Start, ulong Bytes)> Extents(string volume)
    {
        var extents = new List<(uint, ulong, ulong)>();
        var answer = new byte[8 + 24 * 64];
        var length = Ask(volume.TrimEnd('\\'), NativeMethods.IoctlVolumeGetVolumeDiskExtents, [], answer);
        if (length < 8)
        {
            return extents;
        }
        var count = Math.Min(BinaryPrimitives.ReadUInt32LittleEndian(answer), (uint)(length - 8) / 24);
        for (var index = 0; index < count; index++)
        {
            var extent = answer.AsSpan(8 + 24 * index);
            extents.Add((
                BinaryPrimitives.ReadUInt32LittleEndian(extent), BinaryPrimitives.ReadUInt64LittleEndian(extent[8..]),
                BinaryPrimitives.ReadUInt64LittleEndian(extent[16..])));
        }
        return extents;
    }

    private static uint? PartitionNumber(string volume)
    {
        var answer = new byte[12];
        return Ask(volume.TrimEnd('\\'), NativeMethods.IoctlStorageGetDeviceNumber, [], answer) == 12
            ? BinaryPrimitives.ReadUInt32LittleEndian(answer.AsSpan(8))
            : null;
    }

    private static string FileSystem(string volume)
    {
        var (label, system) = (new char[261], new char[261]);
        return NativeMethods.GetVolumeInformation(
            volume, label, (uint)label.Length, out _, out _, out _, system, (uint)system.Length) ? Text(system) : "";
    }

    private static DiskFact? Disk(uint number)
    {
        var path = $@"\\.\PhysicalDrive{number}";
        var description = new byte[1024];
        var described = Ask(path, NativeMethods.IoctlStorageQueryProperty, new byte[12], description);
        var model = described > 36 ? $"{Ansi(description, 12)} {Ansi(description, 16)}".Trim() : "";
        var query = new byte[12];
        query[0] = 6; // StorageAccessAlignmentProperty
        var alignment = new byte[28];
        var isAligned = Ask(path, NativeMethods.IoctlStorageQueryProperty, query, alignment) >= 24;
        query[0] = 4; // StorageDeviceWriteCacheProperty
        var cache = new byte[28];
        var hasCache = Ask(path, NativeMethods.IoctlStorageQueryProperty, query, cache) >= 16;
        var size = new byte[8];
        var hasSize = Ask(path, NativeMethods.IoctlDiskGetLengthInfo, [], size) == 8;
        if (described == 0 && !isAligned && !hasSize)
        {
            return null;
        }
        return new(
            number,
            isAligned ? BinaryPrimitives.ReadUInt32LittleEndian(alignment.AsSpan(16)) : DeviceTable.SectorBytes,
            hasSize ? BinaryPrimitives.ReadUInt64LittleEndian(size) : null,
            model,
            hasCache ? BinaryPrimitives.ReadUInt32LittleEndian(cache.AsSpan(12)) switch { 1 => false, 2 => true, _ => null } : null,
            isAligned ? BinaryPrimitives.ReadUInt32LittleEndian(alignment.AsSpan(20)) : null);
    }

    /// <summary>Text at an offset that stands at <paramref name="place"/> of a description.</summary>
    private static string Ansi(byte[] description, int place)
    {
        var at = BinaryPrimitives.ReadUInt32LittleEndian(description.AsSpan(place));
        return at is 0 || at >= description.Length ? "" : new EventFields(description).Narrow((int)at, out _).Trim();
    }

    /// <summary>Bytes of the answer, 0 if there is none.</summary>
    private static int Ask(string device, uint code, ReadOnlySpan<byte> input, Span<byte> output)
    {
        using var handle = NativeMethods.CreateFile(device, 0, NativeMethods.FileShareReadWrite, 0, NativeMethods.OpenExisting, 0, 0);
        return !handle.IsInvalid
            && NativeMethods.DeviceIoControl(handle, code, input, input.Length, output, output.Length, out var returned, 0)
            ? returned
            : 0;
    }

    private static string Text(ReadOnlySpan<char> text) =>
        new(text[..(text.IndexOf('\0') is var end and >= 0 ? end : text.Length)]);
}
