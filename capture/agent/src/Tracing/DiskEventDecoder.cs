namespace Iotrace.Agent.Tracing;

/// <summary>Positions in the word list of the recording's <c>op</c>.</summary>
internal enum Op : sbyte
{
    Read = 0,
    Write = 1,
    Flush = 2,
    Discard = 3,
}

/// <summary>A completed disk I/O. Times are raw ticks of the performance counter.</summary>
internal record struct DiskIo
{
    public long Completed;

    /// <summary>From start to completion, as the partition manager measured it.</summary>
    public long Response;

    /// <summary>From the start of the disk; 0 for a flush.</summary>
    public long Offset;

    public ulong Irp;

    /// <summary>Names the file; 0 for a flush.</summary>
    public ulong Key;

    public uint Size;
    public uint IrpFlags;

    /// <summary><see cref="DiskEventDecoder.Unknown"/> where the event does not tell.</summary>
    public uint Thread;

    public uint Disk;
    public Op Op;

    /// <summary>The response time made no sense, and no start event told better.</summary>
    public bool IsResponseDropped;
}

/// <summary>The start of a disk I/O, where the trace was asked for them.</summary>
internal record struct DiskStart(long Ticks, ulong Irp, uint Thread, Op Op);

/// <summary>
/// Disk events of the kernel logger, versions 2 (Vista, 7) and later, with pointers of 4 or 8 bytes. Pure functions of
/// (payload, version, pointer size); false for a payload that is no such event, and never an exception.
/// Layouts: MSDN DiskIo_TypeGroup1 to 3, checked on real traces.
/// </summary>
internal static class DiskEventDecoder
{
    /// <summary>A thread or process that the event does not tell.</summary>
    public const uint Unknown = uint.MaxValue;

    /// <summary>A read or write. <paramref name="headerThread"/> is that of the event's header, used before version 3.</summary>
    public static bool TryTransfer(
        ReadOnlySpan<byte> payload, int version, int pointer, long ticks, uint headerThread, Op op, out DiskIo io)
    {
        io = default;
        var fields = new EventFields(payload);
        var hasThread = version >= 3;
        if (version < 2 || !fields.Has(32 + 2 * pointer + (hasThread ? 4 : 0)))
        {
            return false;
        }
        io.Completed = ticks;
        io.Disk = fields.U32(0);
        io.IrpFlags = fields.U32(4);
        io.Size = fields.U32(8);
        io.Offset = fields.I64(16);
        io.Key = fields.Pointer(24, pointer);
        io.Irp = fields.Pointer(24 + pointer, pointer);
        io.Response = fields.I64(24 + 2 * pointer);
        io.Thread = hasThread ? fields.U32(32 + 2 * pointer) : headerThread;
        io.Op = op;
        return true;
    }

    /// <summary>A flush: its response time comes before its Irp, and its thread after it, unlike a transfer's.</summary>
    public static bool TryFlush(
        ReadOnlySpan<byte> payload, int version, int pointer, long ticks, uint headerThread, out DiskIo io)
    {
        io = default;
        var fields = new EventFields(payload);
        var hasThread = version >= 3;
        if (version < 2 || !fields.Has(16 + pointer + (hasThread ? 4 : 0)))
        {
            return false;
        }
        io.Completed = ticks;
        io.Disk = fields.U32(0);
        io.IrpFlags = fields.U32(4);
        io.Response = fields.I64(8);
        io.Irp = fields.Pointer(16, pointer);
        io.Thread = hasThread ? fields.U32(16 + pointer) : headerThread;
        io.Op = Op.Flush;
        return true;
    }

    /// <summary>The start of an I/O. The header's thread is whoever was running; the payload's is the one that asked.</summary>
    public static bool TryStart(
        ReadOnlySpan<byte> payload, int version, int pointer, long ticks, uint headerThread, Op op, out DiskStart start)
    {
        start = default;
        var fields = new EventFields(payload);
        var hasThread = version >= 3;
        if (version < 2 || !fields.Has(pointer + (hasThread ? 4 : 0)))
        {
            return false;
        }
        start = new(ticks, fields.Pointer(0, pointer), hasThread ? fields.U32(pointer) : headerThread, op);
        return true;
    }
}
