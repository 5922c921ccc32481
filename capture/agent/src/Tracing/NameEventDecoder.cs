namespace Iotrace.Agent.Tracing;

/// <summary>Whether a fact holds from its moment on, or until then.</summary>
internal enum Valid
{
    From,
    Until,
}

/// <summary>What an event says of a process. <c>IsReal</c>: it began or ended, and is not merely listed.</summary>
internal sealed record ProcessFact(
    long Ticks, ulong Key, uint Number, uint Parent, Valid Valid, bool IsReal, string Name);

/// <summary>A physical disk as an event or Windows describes it.</summary>
internal sealed record DiskFact(
    uint Number, uint SectorBytes, ulong? SizeBytes, string Model, bool? WriteCache, uint? PhysicalBlockBytes = null)
{
    /// <summary>SCSI port, path, target, unit: how the port driver names it.</summary>
    public (uint Port, uint Path, uint Target, uint Unit)? Address { get; init; }
}

/// <summary>A partition of a physical disk.</summary>
internal sealed record PartitionFact(
    uint Disk, uint Number, ulong StartBytes, ulong SizeBytes, string Letter, string FileSystem);

/// <summary>
/// Events that say what numbers mean: files, threads, processes, disks, partitions, volumes. Pure; false for a payload
/// that is no such event.
/// </summary>
internal static class NameEventDecoder
{
    private const int PhysicalDiskBytes = 557;
    private const int PartitionBytes = 104;

    public static bool TryFileName(ReadOnlySpan<byte> payload, int pointer, out ulong key, out string path)
    {
        var fields = new EventFields(payload);
        (key, path) = (0, "");
        if (!fields.Has(pointer))
        {
            return false;
        }
        key = fields.Pointer(0, pointer);
        path = fields.Wide(pointer, out _);
        return true;
    }

    public static bool TryThread(ReadOnlySpan<byte> payload, int version, out uint thread, out uint process)
    {
        var fields = new EventFields(payload);
        (thread, process) = (0, 0);
        if (!fields.Has(8))
        {
            return false;
        }
        (process, thread) = (fields.U32(0), fields.U32(4));
        if (version == 0)
        {
            (process, thread) = (thread, process);
        }
        return true;
    }

    /// <summary>Versions 2 and later; the name stands behind a security identifier of a length of its own.</summary>
    public static ProcessFact? Process(
        ReadOnlySpan<byte> payload, int version, int pointer, long ticks, Valid valid, bool isReal)
    {
        var fields = new EventFields(payload);
        var at = pointer + 16;
        if (version >= 3)
        {
            at += pointer; // page directory
        }
        if (version >= 4)
        {
            at += 4; // flags
        }
        if (version < 2 || !fields.Has(at + 4))
        {
            return null;
        }
        if (fields.U32(at) == 0)
        {
            at += 4;
        }
        else
        {
            at += 2 * pointer; // two dead pointers, then the identifier with its own count of parts
            if (!fields.Has(at + 2))
            {
                return null;
            }
            at += 8 + 4 * fields.U8(at + 1);
        }
        if (!fields.Has(at))
        {
            return null;
        }
        return new(
            ticks, fields.Pointer(0, pointer), fields.U32(pointer), fields.U32(pointer + 4), valid, isReal,
            fields.Narrow(at, out _));
    }

    public static DiskFact? PhysicalDisk(ReadOnlySpan<byte> payload)
    {
        var fields = new EventFields(payload);
        if (!fields.Has(PhysicalDiskBytes))
        {
            return null;
        }
        var sector = fields.U32(4);
        UInt128 size = fields.U64(16);
        foreach (var factor in (ReadOnlySpan<uint>)[fields.U32(8), fields.U32(12), sector])
        {
            size = size <= ulong.MaxValue ? size * factor : size;
        }
        return new(
            fields.U32(0), sector, size > 0 && size <= ulong.MaxValue ? (ulong)size : null,
            fields.WideFixed(40, 256).Trim(), fields.U8(556) != 0)
        {
            Address = (fields.U32(24), fields.U32(28), fields.U32(32), fields.U32(36)),
        };
    }

    public static PartitionFact? Partition(ReadOnlySpan<byte> payload)
    {
        var fields = new EventFields(payload);
        return fields.Has(PartitionBytes)
            ? new(fields.U32(16), fields.U32(40), fields.U64(0), fields.U64(8), fields.WideFixed(28, 4), fields.WideFixed(72, 16))
            : null;
    }

    /// <summary>A kernel path's beginning, and what users call it.</summary>
    public static (string Kernel, string User) VolumeMapping(ReadOnlySpan<byte> payload)
    {
        var fields = new EventFields(payload);
        var kernel = fields.Wide(0, out var at);
        return (kernel, fields.Wide(at, out _));
    }
}
