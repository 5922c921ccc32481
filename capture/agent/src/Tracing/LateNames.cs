namespace Iotrace.Agent.Tracing;

/// <summary>
/// Thread to process, key to file, disk to volume. I/O rows get the number of a reference; what it refers to may be told
/// later, at the end of a trace for most files. The small tables say then what each number stands for: several numbers
/// may stand for one thing, and some for nothing.
/// </summary>
internal sealed class LateNames
{
    private readonly LateTimeline<string> _files = new();
    private readonly LateTimeline<uint> _threads = new();
    private readonly Dictionary<ulong, Opening> _openings = [];
    private readonly List<FileReference> _fileReferences = [];
    private readonly List<ProcessReference> _processReferences = [];
    private readonly Dictionary<ProcessLives.Life, int> _lifeReferences = [];

    private const int OpeningsMax = 1 << 16;

    public ProcessLives Processes { get; } = new();

    public DeviceTable Devices { get; } = new();

    public VolumePaths Volumes { get; } = new();

    /// <summary>Changes whenever the rows of <c>files</c> may have.</summary>
    public int FilesVersion { get; private set; }

    /// <summary>Changes whenever the rows of <c>processes</c> may have.</summary>
    public int ProcessesVersion => Processes.Version + _processVersion;

    private int _processVersion;

    /// <summary>How many keys of files are kept.</summary>
    public int Keys => _files.Count;

    public void FileNamed(ulong key, long ticks, Valid valid, string path)
    {
        FilesVersion++;
        if (valid == Valid.From)
        {
            _files.From(key, ticks, path);
        }
        else
        {
            _files.Until(key, ticks, path);
        }
    }

    /// <summary>A second session saw that <paramref name="key"/> has this name, and it goes on to have it.</summary>
    public void FileSeen(ulong key, long ticks, string path)
    {
        FilesVersion++;
        _files.Seen(key, ticks, path);
    }

    public void FileOpened(ulong file, in Opening opening)
    {
        if (_openings.Count >= OpeningsMax)
        {
            _openings.Clear();
        }
        _openings[file] = opening;
    }

    public void FileClosed(ulong file) => _openings.Remove(file);

    public bool TryOpening(ulong file, out Opening opening) => _openings.TryGetValue(file, out opening);

    public void ThreadOwned(uint thread, long ticks, Valid valid, uint process)
    {
        if (valid == Valid.From)
        {
            _threads.From(thread, ticks, process);
        }
        else
        {
            _threads.Until(thread, ticks, process);
            _processVersion++;
        }
    }

    /// <summary>Reference to the file that a disk I/O went to.</summary>
    public int FileOf(in DiskIo io)
    {
        var span = _files.At(io.Key, io.Completed);
        var file = (FileReference?)span.Referred ?? Refer(span, new(span) { Disk = io.Disk, Offset = io.Offset });
        if (io.Size > 0 && io.Offset >= 0)
        {
            file.Touch(io.Disk, io.Offset);
        }
        return span.Reference;
    }

    /// <summary>Reference to the file that an operation went to.</summary>
    public int FileOf(in FileOperation operation, string? openedAs)
    {
        var span = _files.At(operation.Key, operation.Ticks);
        var file = (FileReference?)span.Referred ?? Refer(span, new(span));
        file.OpenedAs ??= openedAs;
        return span.Reference;
    }

    private FileReference Refer(LateTimeline<string>.Span span, FileReference file)
    {
        (span.Reference, span.Referred) = (_fileReferences.Count, file);
        _fileReferences.Add(file);
        FilesVersion++;
        return file;
    }

    /// <summary>Reference to the process of a thread, else of process <paramref name="otherwise"/>; <see cref="Streams.IoRow.None"/> where none is known.</summary>
    public int ProcessOf(uint thread, long ticks, uint otherwise = DiskEventDecoder.Unknown)
    {
        if (thread != DiskEventDecoder.Unknown)
        {
            var span = _threads.At(thread, ticks);
            if (span.IsSettled)
            {
                return span.Reference >= 0
                    ? span.Reference
                    : span.Reference = ReferenceTo(Processes.At(span.Value, ticks));
            }
            if (otherwise == DiskEventDecoder.Unknown)
            {
                if (span.Reference < 0)
                {
                    span.Reference = _processReferences.Count;
                    _processReferences.Add(new(null, span, ticks));
                    _processVersion++;
                }
                return span.Reference;
            }
        }
        return otherwise == DiskEventDecoder.Unknown ? Streams.IoRow.None : ReferenceTo(Processes.At(otherwise, ticks));
    }

    /// <summary>Forget what is over since before <paramref name="ticks"/>.</summary>
    public void Forget(long ticks)
    {
        _files.Forget(ticks);
        _threads.Forget(ticks);
    }

    /// <summary>How many references were given out.</summary>
    public int References => _fileReferences.Count + _processReferences.Count;

    /// <summary>Give out references from the beginning: nothing that has one is kept any more.</summary>
    public void StartOver()
    {
        _files.ForgetReferences();
        _threads.ForgetReferences();
        _fileReferences.Clear();
        _processReferences.Clear();
        _lifeReferences.Clear();
        FilesVersion++;
        _processVersion++;
    }

    /// <summary>Rows of <c>files</c>: reference, path as users know it or null, row of its device or null.</summary>
    public IEnumerable<(int Id, string? Path, int? Device)> FileRows()
    {
        var volumes = Volumes.Count > 0 ? Volumes : VolumePaths.Infer(Votes());
        var devices = new Dictionary<string, int?>(StringComparer.Ordinal);
        for (var id = 0; id < _fileReferences.Count; id++)
        {
            var reference = _fileReferences[id];
            if (reference.Path is not { } told)
            {
                yield return (id, null, null);
                continue;
            }
            var path = volumes.UserPath(told);
            if (!devices.TryGetValue(path, out var device))
            {
                devices.Add(path, device = DeviceOf(reference, path));
            }
            yield return (id, path, device);
        }
    }

    /// <summary>Rows of <c>processes</c>: reference and process, or null where it was never learnt whose thread it was.</summary>
    public IEnumerable<(int Id, ProcessLives.Life? Life)> ProcessRows()
    {
        var ids = new Dictionary<ProcessLives.Life, List<int>>();
        var unknown = new List<int>();
        for (var id = 0; id < _processReferences.Count; id++)
        {
            var (life, span, ticks) = _processReferences[id];
            life ??= span!.HasValue ? Processes.At(span.Value, ticks) : null;
            if (life is null)
            {
                unknown.Add(id);
            }
            else if (ids.TryGetValue(life, out var others))
            {
                others.Add(id);
            }
            else
            {
                ids.Add(life, [id]);
            }
        }
        foreach (var life in Processes.All.ToList())
        {
            foreach (var id in ids.TryGetValue(life, out var known) ? known : [ReferenceTo(life)])
            {
                yield return (id, life);
            }
        }
        foreach (var id in unknown)
        {
            yield return (id, null);
        }
    }

    private int? DeviceOf(FileReference reference, string path)
    {
        if (reference.Disk is not { } disk)
        {
            return Devices.PartitionCalled(path) is { } called ? Devices.PartitionId(called) : null;
        }
        var partition = reference.Offset >= 0 ? Devices.PartitionAt(disk, (ulong)reference.Offset) : null;
        return partition is null ? DeviceTable.DiskId(disk) : Devices.PartitionId(partition);
    }

    private IEnumerable<(string, PartitionFact?)> Votes()
    {
        foreach (var reference in _fileReferences)
        {
            if (reference is { Path: { } path, Last: >= 0, Disk: { } disk })
            {
                yield return (path, reference.IsMixed ? null : Devices.PartitionAt(disk, (ulong)reference.First));
                yield return (path, reference.IsMixed ? null : Devices.PartitionAt(disk, (ulong)reference.Last));
            }
        }
    }

    private int ReferenceTo(ProcessLives.Life life)
    {
        if (!_lifeReferences.TryGetValue(life, out var id))
        {
            _lifeReferences.Add(life, id = _processReferences.Count);
            _processReferences.Add(new(life, null, 0));
            _processVersion++;
        }
        return id;
    }

    private sealed record ProcessReference(ProcessLives.Life? Life, LateTimeline<uint>.Span? Span, long Ticks);

    private sealed class FileReference(LateTimeline<string>.Span span)
    {
        /// <summary>Where its first I/O on a disk fell; null if it was first met by an operation on it.</summary>
        public uint? Disk { get; init; }

        public long Offset { get; init; } = -1;

        /// <summary>The path that an open file of this key was opened as, for a key that nothing names.</summary>
        public string? OpenedAs { get; set; }

        public string? Path => span.HasValue ? span.Value : OpenedAs;

        /// <summary>Lowest and highest byte that its I/O on disks touched; no first without any.</summary>
        public long First { get; private set; } = long.MaxValue;

        public long Last { get; private set; } = -1;

        /// <summary>On more than one disk.</summary>
        public bool IsMixed { get; private set; }

        public void Touch(uint disk, long offset)
        {
            // Mostly nothing new: then nothing is written.
            if (disk != Disk)
            {
                IsMixed = true;
            }
            if (offset < First)
            {
                First = offset;
            }
            if (offset > Last)
            {
                Last = offset;
            }
        }
    }
}
