using Iotrace.Agent.Streams;

namespace Iotrace.Agent.Tracing;

/// <summary>What one kind of event turned into, and what had to be left out.</summary>
internal sealed record TraceCounts
{
    /// <summary>Events of any kind that were handed in.</summary>
    public long Events { get; set; }

    public long Reads { get; set; }

    public long Writes { get; set; }

    public long Flushes { get; set; }

    public long Rows { get; set; }

    /// <summary>Bytes that reads and writes of disks moved.</summary>
    public long Bytes { get; set; }

    /// <summary>Shorter than the form, or of an unknown one.</summary>
    public long Rejected { get; set; }

    /// <summary>Their time cannot be expressed.</summary>
    public long Unplaceable { get; set; }

    /// <summary>Response times that made no sense and that no start event told better.</summary>
    public long ResponsesDropped { get; set; }

    public long ResponsesReplaced { get; set; }

    public long FailedOperations { get; set; }

    public long UnendedOperations { get; set; }

    public long UnpairedStarts { get; set; }

    public long UnpairedCompletions { get; set; }

    /// <summary>I/Os of disks that were not asked for.</summary>
    public long OtherDisks { get; set; }

    /// <summary>Exceptions in a callback: defects, counted so that no event of another program's can stop the recording.</summary>
    public long Defects { get; set; }

    public TraceCounts Copy() => this with { };
}

/// <summary>Takes a row of <c>io</c>; the recorder's gate is held.</summary>
internal delegate void RowSink(in Streams.IoRow row);

/// <summary>
/// Turns events into rows, in the callback: fields into an own row, no strings, no allocation. Several threads may call; a row
/// that the stream has no room for waits, and Windows counts what it loses meanwhile.
/// </summary>
internal sealed class TraceRecorder(TickClock clock, RowSink write)
{
    private const long ImplausibleSeconds = 24 * 3600;
    private const ulong ImplausibleDuration = 86_400UL * 10_000_000;
    private const int OpenStartsMax = 1 << 17;

    private readonly Dictionary<ulong, DiskStart> _starts = [];
    private readonly FileOperations _operations = new();
    private readonly PortRequests _requests = new();
    private readonly List<PortRequest> _ready = [];
    private readonly long _implausibleResponse = ImplausibleSeconds * clock.Hertz;
    /// <summary><see cref="Clock"/>, where it is asked for each event.</summary>
    private readonly TickClock _clock = clock;

    private bool _hasStarts;

    /// <summary>Guards all that is here; taken by every call.</summary>
    public Lock Gate { get; } = new();

    public TickClock Clock => _clock;

    public LateNames Names { get; } = new();

    public TraceCounts Counts { get; } = new();

    /// <summary>Nanoseconds of the latest completion so far.</summary>
    public long LastNs { get; private set; } = long.MinValue;

    /// <summary>Raw ticks of the latest event so far.</summary>
    public long LastTicks { get; private set; } = long.MinValue;

    /// <summary>Layers to record; null: all.</summary>
    public IReadOnlySet<Layer>? Layers
    {
        init => _layers = value is null ? ~0U : value.Aggregate(0U, (all, layer) => all | 1U << (int)layer);
    }

    private readonly uint _layers = ~0U;

    /// <summary>Disks to record; null: all.</summary>
    public IReadOnlySet<uint>? Disks { get; init; }

    /// <summary>The first exception in a callback, in full; null for none.</summary>
    public string? FirstDefect { get; set; }

    public void Transfer(ReadOnlySpan<byte> payload, int version, int pointer, long ticks, uint thread, Op op)
    {
        if (!DiskEventDecoder.TryTransfer(payload, version, pointer, ticks, thread, op, out var io))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            if (op == Op.Read)
            {
                Counts.Reads++;
            }
            else
            {
                Counts.Writes++;
            }
            Counts.Bytes += io.Size;
            Complete(ref io);
        }
    }

    public void Flush(ReadOnlySpan<byte> payload, int version, int pointer, long ticks, uint thread)
    {
        if (!DiskEventDecoder.TryFlush(payload, version, pointer, ticks, thread, out var io))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            Counts.Flushes++;
            Complete(ref io);
        }
    }

    public void Start(ReadOnlySpan<byte> payload, int version, int pointer, long ticks, uint thread, Op op)
    {
        if (!DiskEventDecoder.TryStart(payload, version, pointer, ticks, thread, op, out var start))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            _hasStarts = true;
            if (_starts.Count >= OpenStartsMax)
            {
                Counts.UnpairedStarts += _starts.Count;
                _starts.Clear();
            }
            Counts.UnpairedStarts += _starts.Remove(start.Irp) ? 1 : 0;
            _starts.Add(start.Irp, start);
        }
    }

    public void FileName(ReadOnlySpan<byte> payload, int pointer, long ticks, Valid valid)
    {
        if (!NameEventDecoder.TryFileName(payload, pointer, out var key, out var path))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            Names.FileNamed(key, ticks, valid, path);
        }
    }

    /// <summary>A name that a second session listed.</summary>
    public void ListedName(ReadOnlySpan<byte> payload, int pointer, long ticks)
    {
        if (NameEventDecoder.TryFileName(payload, pointer, out var key, out var path))
        {
            lock (Gate)
            {
                Names.FileSeen(key, ticks, path);
            }
        }
    }

    public void Thread(ReadOnlySpan<byte> payload, int version, long ticks, Valid valid)
    {
        if (!NameEventDecoder.TryThread(payload, version, out var thread, out var process))
        {
            Reject();
            return;
        }
        Thread(thread, process, ticks, valid);
    }

    public void Thread(uint thread, uint process, long ticks, Valid valid)
    {
        lock (Gate)
        {
            Seen(ticks);
            Names.ThreadOwned(thread, ticks, valid, process);
        }
    }

    public void Process(ReadOnlySpan<byte> payload, int version, int pointer, long ticks, Valid valid, bool isReal)
    {
        if (NameEventDecoder.Process(payload, version, pointer, ticks, valid, isReal) is not { } fact)
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            Names.Processes.Learn(fact);
        }
    }

    public void PhysicalDisk(ReadOnlySpan<byte> payload)
    {
        if (NameEventDecoder.PhysicalDisk(payload) is not { } disk)
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Counts.Events++;
            Names.Devices.Learn(disk);
        }
    }

    public void Partition(ReadOnlySpan<byte> payload)
    {
        if (NameEventDecoder.Partition(payload) is not { } partition)
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Counts.Events++;
            Names.Devices.Learn(partition);
        }
    }

    public void VolumeMapping(ReadOnlySpan<byte> payload)
    {
        var (kernel, user) = NameEventDecoder.VolumeMapping(payload);
        lock (Gate)
        {
            Counts.Events++;
            Names.Volumes.Add(kernel, user);
        }
    }

    public void FileOperation(ReadOnlySpan<byte> payload, int kind, int version, int pointer, long ticks, uint process)
    {
        if (!FileEventDecoder.TryStart(payload, kind, version, pointer, ticks, process, out var operation, out var opening))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            if (opening is { } told)
            {
                Names.FileOpened(operation.Object, told);
            }
            if (_operations.Begin(operation, out var unended))
            {
                Counts.UnendedOperations++;
                Write(unended, null);
            }
        }
    }

    public void FileOperationEnd(ReadOnlySpan<byte> payload, int version, int pointer, long ticks)
    {
        if (!FileEventDecoder.TryEnd(payload, version, pointer, ticks, out var end))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            if (_operations.End(end, out var operation))
            {
                Counts.FailedOperations += end.Status < 0 ? 1 : 0;
                Write(operation, end);
            }
        }
    }

    public void PortRequest(ReadOnlySpan<byte> payload, int kind, int version, int pointer, long ticks)
    {
        if (!PortEventDecoder.TryRequest(payload, version, pointer, ticks, out var request))
        {
            Reject();
            return;
        }
        lock (Gate)
        {
            Seen(ticks);
            _requests.Take(request, kind, _ready);
            WriteReady();
        }
    }

    /// <summary>Nothing more comes: what waits becomes rows.</summary>
    public void Finish()
    {
        lock (Gate)
        {
            foreach (var operation in _operations.Finish())
            {
                Counts.UnendedOperations++;
                Write(operation, null);
            }
            _requests.Finish(_ready);
            WriteReady();
            Counts.UnpairedStarts += _starts.Count;
            _starts.Clear();
        }
    }

    private void Seen(long ticks)
    {
        Counts.Events++;
        LastTicks = Math.Max(LastTicks, ticks);
    }

    private void Reject()
    {
        lock (Gate)
        {
            Counts.Events++;
            Counts.Rejected++;
        }
    }

    private void Complete(ref DiskIo io)
    {
        DiskStart start = default;
        var hasStart = _hasStarts && _starts.Remove(io.Irp, out start);
        if (hasStart && start.Op != io.Op)
        {
            Counts.UnpairedStarts++;
            hasStart = false;
        }
        if (hasStart)
        {
            io.Thread = io.Thread == DiskEventDecoder.Unknown ? start.Thread : io.Thread;
        }
        else if (_hasStarts)
        {
            Counts.UnpairedCompletions++;
        }
        if (!IsPlausible(io.Response, io.Completed))
        {
            var measured = hasStart ? unchecked(io.Completed - start.Ticks) : -1;
            if (IsPlausible(measured, io.Completed))
            {
                io.Response = measured;
                Counts.ResponsesReplaced++;
            }
            else
            {
                io.Response = 0;
                io.IsResponseDropped = true;
                Counts.ResponsesDropped++;
            }
        }
        if (Disks is not null && !Disks.Contains(io.Disk))
        {
            Counts.OtherDisks++;
            _requests.Of(io.Irp);
            return;
        }
        if (!TryRow(io, out var row))
        {
            Counts.Unplaceable++;
            _requests.Of(io.Irp);
            return;
        }
        Write(row);
        if (_requests.Of(io.Irp) is { } requests)
        {
            foreach (var request in requests)
            {
                Write(request, row);
            }
        }
    }

    /// <summary>Negative, longer than a day, or from before the counter began: no such thing.</summary>
    private bool IsPlausible(long response, long completed) =>
        response >= 0 && response <= _implausibleResponse && response <= completed;

    private bool TryRow(in DiskIo io, out IoRow row)
    {
        row = default;
        if (!_clock.TryNanoseconds(io.Completed, out var completed) || !_clock.TryScale(io.Response, out var response))
        {
            return false;
        }
        row.Layer = Layer.Block;
        row.Op = io.Op;
        row.IssuedNs = completed - response;
        row.CompletedNs = io.IsResponseDropped ? long.MinValue : completed;
        row.OffsetBytes = io.Op == Op.Flush ? -1 : io.Offset;
        row.SizeBytes = io.Size;
        row.DeviceId = DeviceTable.DiskId(io.Disk);
        row.FileId = io.Op == Op.Flush ? IoRow.None : Names.FileOf(io);
        row.ProcessId = Names.ProcessOf(io.Thread, io.Completed - io.Response);
        row.ThreadId = io.Thread > int.MaxValue ? IoRow.None : (int)io.Thread;
        row.Flags = IoFlags.OfDiskIo(io, Names.Devices.SectorOf(io.Disk));
        LastNs = Math.Max(LastNs, completed);
        return true;
    }

    private void Write(in FileOperation operation, FileOperationEnd? end)
    {
        long completed = long.MinValue;
        if (operation.Op is not { } op || !Clock.TryNanoseconds(operation.Ticks, out var issued)
            || (end is { } told && !Clock.TryNanoseconds(told.Ticks, out completed)))
        {
            Counts.Unplaceable++;
            return;
        }
        var isOpened = Names.TryOpening(operation.Object, out var opening);
        Write(new()
        {
            Layer = Layer.Filesystem,
            Op = op,
            IssuedNs = issued,
            CompletedNs = completed,
            OffsetBytes = op == Op.Flush ? -1 : operation.Offset,
            SizeBytes = operation.Size,
            DeviceId = IoRow.None,
            FileId = Names.FileOf(operation, isOpened ? opening.Path : null),
            ProcessId = Names.ProcessOf(operation.Thread, operation.Ticks, operation.Process),
            ThreadId = operation.Thread > int.MaxValue ? IoRow.None : (int)operation.Thread,
            Flags = IoFlags.OfFileOperation(operation.IrpFlags, isOpened ? opening.Options : 0),
            Error = Math.Min(end?.Status ?? 0, 0),
        });
    }

    private void WriteReady()
    {
        foreach (var request in _ready)
        {
            Write(request, null);
        }
        _ready.Clear();
    }

    private void Write(in PortRequest request, IoRow? of)
    {
        if (!Clock.TryNanoseconds(request.Completed, out var completed))
        {
            Counts.Unplaceable++;
            return;
        }
        var isTimed = request.Duration <= ImplausibleDuration;
        Counts.ResponsesDropped += isTimed ? 0 : 1;
        // A request for all of a disk I/O lies where that does; one for a part of it lies nobody knows where.
        var isWhole = of is { } whole && whole.Op == request.Op && whole.SizeBytes == request.Size;
        var disk = of?.DeviceId ?? (Names.Devices.DiskAt(request.Address) is { } number ? DeviceTable.DiskId(number) : IoRow.None);
        if (of is null && Disks is not null && (disk == IoRow.None || !Disks.Contains(unchecked((uint)disk))))
        {
            Counts.OtherDisks++;
            return;
        }
        Write(new()
        {
            Layer = Layer.Device,
            Op = request.Op,
            IssuedNs = isTimed ? completed - (long)request.Duration * 100 : completed,
            CompletedNs = isTimed ? completed : long.MinValue,
            OffsetBytes = isWhole ? of!.Value.OffsetBytes : -1,
            SizeBytes = request.Size,
            DeviceId = disk,
            FileId = of?.FileId ?? IoRow.None,
            ProcessId = of?.ProcessId ?? IoRow.None,
            ThreadId = of?.ThreadId ?? IoRow.None,
            Flags = of?.Flags ?? 0,
            Error = request.Error,
        });
    }

    private void Write(in IoRow row)
    {
        if ((_layers >> (int)row.Layer & 1) == 0)
        {
            return;
        }
        Counts.Rows++;
        write(row);
    }
}
