using System.Numerics;

namespace Iotrace.Agent.Tracing;

/// <summary>The system's flags of a request as bits of the recording's <c>io.flags</c>. Which files are the file system's own the import tells.</summary>
internal static class IoFlags
{
    public const uint NoCache = 0x1;
    public const uint Paging = 0x2;
    public const uint Synchronous = 0x4;
    public const uint WriteThrough = 0x8;
    public const uint Split = 0x100;
    public const uint PriorityLow = 0x1000;
    public const uint PriorityHigh = 0x2000;
    public const uint Unaligned = 0x4000;

    /// <summary>Flags of an I/O on a disk with sectors of <paramref name="sectorBytes"/>.</summary>
    public static uint OfDiskIo(in DiskIo io, uint sectorBytes)
    {
        var flags = OfRequest(io.IrpFlags);
        var isWhole = io.Size > 0 && io.Offset >= 0 && (BitOperations.IsPow2(sectorBytes)
            ? ((io.Offset | io.Size) & (sectorBytes - 1)) == 0
            : io.Offset % sectorBytes == 0 && io.Size % sectorBytes == 0);
        return io.Op != Op.Flush && !isWhole ? flags | Unaligned : flags;
    }

    /// <summary>Flags of an operation on a file that was opened with <paramref name="options"/> (0: not known).</summary>
    public static uint OfFileOperation(uint irpFlags, uint options) =>
        OfRequest(irpFlags) | ((options & 0x2) != 0 ? WriteThrough : 0) | ((options & 0x8) != 0 ? NoCache : 0);

    private static uint OfRequest(uint irp)
    {
        var flags = irp & (NoCache | Paging | Synchronous);
        flags |= (irp & 0x40) != 0 ? Synchronous : 0;
        flags |= (irp & 0x8) != 0 ? Split : 0;
        return (irp >> 17 & 7) switch
        {
            1 or 2 => flags | PriorityLow,
            4 or 5 => flags | PriorityHigh,
            _ => flags,
        };
    }
}
