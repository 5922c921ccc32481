namespace Iotrace.Agent.Tracing;

/// <summary>The start of an operation on a file.</summary>
internal record struct FileOperation
{
    public long Ticks;
    public ulong Irp;

    /// <summary>The open file, which its Create named.</summary>
    public ulong Object;

    /// <summary>The file itself, as disk I/O and rundown name it.</summary>
    public ulong Key;

    /// <summary>In the file.</summary>
    public long Offset;

    public uint Size;
    public uint IrpFlags;
    public uint Thread;

    /// <summary>Process of the event's header, for a thread nobody told of.</summary>
    public uint Process;

    /// <summary>Null: no transfer, of interest only because its end is none of a transfer's.</summary>
    public Op? Op;
}

/// <summary>The end of an operation on a file: bytes really moved, and an NT status that is negative where it failed.</summary>
internal record struct FileOperationEnd(long Ticks, ulong Irp, ulong Moved, int Status);

/// <summary>How an open file was named.</summary>
internal readonly record struct Opening(string Path, uint Options);

/// <summary>
/// Operations on files, versions 2 (Vista, 7) and later. In version 2 the thread is as wide as a pointer and comes early, in
/// version 3 it has 32 bits and comes late; a read of 48 bytes may be either, so the version decides and never the size.
/// By documentation: no public trace holds such events.
/// </summary>
internal static class FileEventDecoder
{
    public const int Create = 0x40;
    public const int Cleanup = 0x41;
    public const int Close = 0x42;
    public const int Read = 0x43;
    public const int Write = 0x44;
    public const int Enumerate = 0x48;
    public const int Flush = 0x49;
    public const int FileSystemControl = 0x4B;
    public const int OperationEnd = 0x4C;

    public static bool TryEnd(ReadOnlySpan<byte> payload, int version, int pointer, long ticks, out FileOperationEnd end)
    {
        var fields = new EventFields(payload);
        end = default;
        if (version < 2 || !fields.Has(2 * pointer + 4))
        {
            return false;
        }
        end = new(ticks, fields.Pointer(0, pointer), fields.Pointer(pointer, pointer), unchecked((int)fields.U32(2 * pointer)));
        return true;
    }

    /// <summary>A start; <paramref name="opening"/> where it is one that names an open file.</summary>
    public static bool TryStart(
        ReadOnlySpan<byte> payload, int kind, int version, int p, long ticks, uint headerProcess, out FileOperation operation,
        out Opening? opening)
    {
        var fields = new EventFields(payload);
        (operation, opening) = (default, null);
        if (version < 2 || kind is < Create or > FileSystemControl or Enumerate)
        {
            return false;
        }
        var isEarly = version < 3;
        // Where the Irp is, and where the thread of version 3 is.
        var (irp, lateThread) = kind switch
        {
            Read or Write => (8, 8 + 3 * p),
            Create => (0, 2 * p),
            Cleanup or Close or Flush => (0, 3 * p),
            _ => (0, 4 * p), // information, rename, delete and control: one more pointer
        };
        var at = irp + (isEarly ? 2 * p : p);
        var sizes = isEarly ? at + 2 * p : lateThread + 4;
        var needs = Math.Max(at + p, isEarly ? irp + 2 * p : lateThread + 4);
        needs = kind switch
        {
            Read or Write => Math.Max(needs, sizes + 8),
            Flush => Math.Max(needs, at + 2 * p),
            Create => Math.Max(needs, (isEarly ? 3 * p : 2 * p + 4) + 12),
            _ => needs,
        };
        if (!fields.Has(needs))
        {
            return false;
        }
        operation = new()
        {
            Ticks = ticks,
            Irp = fields.Pointer(irp, p),
            Object = fields.Pointer(at, p),
            Thread = isEarly ? unchecked((uint)fields.Pointer(irp + p, p)) : fields.U32(lateThread),
            Process = headerProcess,
        };
        switch (kind)
        {
            case Create:
                var options = isEarly ? 3 * p : 2 * p + 4;
                opening = new(fields.Wide(options + 12, out _), fields.U32(options));
                break;
            case Read or Write:
                operation.Op = kind == Read ? Op.Read : Op.Write;
                operation.Offset = fields.I64(0);
                operation.Key = fields.Pointer(at + p, p);
                operation.Size = fields.U32(sizes);
                operation.IrpFlags = fields.U32(sizes + 4);
                break;
            case Flush:
                operation.Op = Op.Flush;
                operation.Key = fields.Pointer(at + p, p);
                break;
        }
        return true;
    }
}

/// <summary>Pairs operations and their ends by Irp, the latest start winning.</summary>
internal sealed class FileOperations
{
    /// <summary>More than any host has open: beyond, ends are being lost.</summary>
    private const int OpenMax = 1 << 17;

    private readonly Dictionary<ulong, FileOperation> _open = [];

    /// <summary>Operations without an end.</summary>
    public long Unended { get; private set; }

    /// <summary>An operation began. One that it shows to be without an end is given back.</summary>
    public bool Begin(in FileOperation operation, out FileOperation unended)
    {
        var isTaken = _open.Remove(operation.Irp, out unended);
        if (!isTaken && _open.Count >= OpenMax)
        {
            var (irp, _) = _open.First();
            isTaken = _open.Remove(irp, out unended);
        }
        _open.Add(operation.Irp, operation);
        isTaken &= unended.Op is not null;
        Unended += isTaken ? 1 : 0;
        return isTaken;
    }

    /// <summary>An operation ended; false if it is none that transfers, or its start is not known.</summary>
    public bool End(in FileOperationEnd end, out FileOperation operation) =>
        _open.Remove(end.Irp, out operation) && operation.Op is not null;

    /// <summary>Nothing more comes: what is open, in order of its start.</summary>
    public List<FileOperation> Finish()
    {
        var open = _open.Values.Where(operation => operation.Op is not null)
            .OrderBy(operation => operation.Ticks).ThenBy(operation => operation.Irp).ToList();
        _open.Clear();
        Unended += open.Count;
        return open;
    }
}
