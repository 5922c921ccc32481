using System.Collections.Concurrent;
using System.Diagnostics;
using Apache.Arrow;
using Iotrace.Agent.FlightRecorder;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Streams;

/// <summary>
/// A recording while it grows: a folder with one Arrow stream for each table and <c>manifest.json</c>. Rows are handed over
/// in batches; a thread of its own writes a batch at least every second. Small tables (devices, files, processes) are
/// written anew, aside and renamed, when what they say has changed.
/// <para>
/// When the writer falls behind, <see cref="Add"/> waits: the session's buffers take up what comes, and Windows counts what
/// it loses, so that no loss goes uncounted.
/// </para>
/// </summary>
internal sealed class RecordingFolder : IDisposable
{
    public static readonly TimeSpan FlushEvery = TimeSpan.FromSeconds(1);

    /// <summary>How often what was written is forced from the system's cache to the disk.</summary>
    public static readonly TimeSpan ForceEvery = TimeSpan.FromSeconds(10);

    private const int BatchRows = 1 << 16;
    private const int Batches = 4;

    private readonly BlockingCollection<IoBatch> _free = new(Batches);
    private readonly BlockingCollection<IoBatch> _filled = new(Batches + 1);
    private readonly Dictionary<string, ArrowTableStream> _streams = new(StringComparer.Ordinal);
    private readonly List<(string Table, RecordBatch Rows)> _others = [];
    private readonly Thread _thread;
    private readonly ManualResetEventSlim _end = new();
    private readonly KeptMinutes? _ring;
    private IoBatch _current;
    private TraceRecorder? _recorder;
    private (int Files, int Processes, int Devices) _saved = (-1, -1, -1);
    private long _forcedAt = Stopwatch.GetTimestamp();
    private volatile AgentError? _failure;

    /// <summary>Takes over the empty folder <paramref name="path"/>.</summary>
    /// <param name="ring">Where rows of <c>io</c> go in place of one stream.</param>
    public RecordingFolder(string path, RecordingManifest manifest, KeptMinutes? ring = null)
    {
        _ring = ring;
        Path = path;
        Manifest = manifest;
        for (var index = 0; index < Batches; index++)
        {
            _free.Add(new IoBatch(BatchRows));
        }
        _current = _free.Take();
        if (ring is null)
        {
            _streams.Add("io", new(StreamPath("io"), RecordingSchemas.Io));
        }
        _thread = new(Write) { Name = "writer", IsBackground = true, Priority = ThreadPriority.BelowNormal };
    }

    public string Path { get; }

    public RecordingManifest Manifest { get; }

    /// <summary>Why nothing more is written; null as long as all is well.</summary>
    public AgentError? Failure => _failure;

    /// <summary>Called on the writer's thread before each manifest is written, and whenever a second has passed.</summary>
    public Action? BeforeSave { get; set; }

    /// <summary>Bytes of all streams so far.</summary>
    public long Bytes
    {
        get
        {
            lock (_streams)
            {
                return _streams.Values.Sum(stream => stream.Bytes) + (_ring?.Bytes ?? 0);
            }
        }
    }

    public long RowsWritten => Interlocked.Read(ref _rowsWritten);

    private long _rowsWritten;

    /// <summary>Anonymizes names on their way into the small tables; null keeps them.</summary>
    public Anonymizer? Anonymizer { get; init; }

    /// <summary>Databases and roles that SQL Server tells of its files, by path; null: the import derives them from paths.</summary>
    public Func<string, (sbyte Role, string? Database)?>? RoleOf { get; set; }

    /// <summary>Start writing what <paramref name="recorder"/> makes.</summary>
    public void Begin(TraceRecorder recorder)
    {
        _recorder = recorder;
        Manifest.Save(Path);
        _thread.Start();
    }

    /// <summary>Add a row of <c>io</c>. The recorder's gate is held.</summary>
    public void Add(in IoRow row)
    {
        if (_current.IsFull)
        {
            _filled.Add(_current);
            _current = _free.Take();
        }
        _current.Add(row);
    }

    /// <summary>Hand over what is there, and have <paramref name="then"/> done once it is written. The recorder's gate is held.</summary>
    public void AfterThese(Action? then)
    {
        _current.Then = then;
        _filled.Add(_current);
        _current = _free.Take();
    }

    /// <summary>Add rows of another table, from any thread; they are written with the next batch.</summary>
    public void Append(string table, RecordBatch rows)
    {
        lock (_others)
        {
            _others.Add((table, rows));
        }
    }

    /// <summary>
    /// Nothing more comes: write what is left and <paramref name="ended"/>. Throws <see cref="AgentError"/> if the disk took
    /// no more; what it took is whole then.
    /// </summary>
    public void Finish(string ended)
    {
        _end.Set();
        if (_thread.IsAlive)
        {
            _thread.Join();
        }
        if (_failure is null)
        {
            Manifest.Ended = ended;
            Guarded(() =>
            {
                Save(isLast: true);
                foreach (var stream in _streams.Values)
                {
                    stream.End();
                }
                Manifest.Save(Path);
            });
        }
        if (_failure is { } failure)
        {
            TrySaveFailure();
            throw failure;
        }
    }

    public void Dispose()
    {
        _end.Set();
        if (_thread.IsAlive)
        {
            _thread.Join(TimeSpan.FromSeconds(30));
        }
        foreach (var stream in _streams.Values)
        {
            stream.Dispose();
        }
        _free.Dispose();
        _filled.Dispose();
        _end.Dispose();
    }

    private string StreamPath(string table) => System.IO.Path.Combine(Path, table + ".arrows");

    private void Write()
    {
        var next = Stopwatch.GetTimestamp() + Ticks(FlushEvery);
        while (!_end.IsSet)
        {
            var left = Stopwatch.GetElapsedTime(Stopwatch.GetTimestamp(), next);
            if (_filled.TryTake(out var batch, left > TimeSpan.Zero ? (int)Math.Min(left.TotalMilliseconds + 1, 100) : 0))
            {
                Guarded(() => WriteBatch(batch));
                Recycle(batch);
            }
            if (Stopwatch.GetTimestamp() >= next)
            {
                Guarded(() => Save(isLast: false));
                next = Math.Max(next + Ticks(FlushEvery), Stopwatch.GetTimestamp());
            }
        }
        while (_filled.TryTake(out var batch))
        {
            Guarded(() => WriteBatch(batch));
            Recycle(batch);
        }
    }

    private static long Ticks(TimeSpan span) => (long)(span.TotalSeconds * Stopwatch.Frequency);

    private void Recycle(IoBatch batch)
    {
        batch.Clear();
        _free.Add(batch);
    }

    private void WriteBatch(IoBatch batch)
    {
        if (batch.Count > 0)
        {
            using var view = batch.View();
            if (_ring is null)
            {
                _streams["io"].Write(view);
            }
            else
            {
                _ring.Write(view, batch.FirstNs, batch.LastNs);
            }
            Interlocked.Add(ref _rowsWritten, batch.Count);
        }
        batch.Then?.Invoke();
    }

    /// <summary>Everything so far: the batch that is filling, other tables' rows, small tables, the manifest.</summary>
    private void Save(bool isLast)
    {
        var recorder = _recorder!;
        IoBatch? batch = null;
        Tables? tables;
        int older;
        // Whoever waits in Add holds the gate, and is helped by writing first.
        while (!recorder.Gate.TryEnter(TimeSpan.FromMilliseconds(20)))
        {
            while (_filled.TryTake(out var filled))
            {
                Guarded(() => WriteBatch(filled));
                Recycle(filled);
            }
        }
        try
        {
            if (_current.Count > 0 && _free.TryTake(out var empty))
            {
                (batch, _current) = (_current, empty);
            }
            // What is handed over from here on is newer than this batch, and is written after it.
            older = _filled.Count;
            tables = Changed(recorder);
        }
        finally
        {
            recorder.Gate.Exit();
        }
        for (; older > 0; older--)
        {
            var filled = _filled.Take();
            WriteBatch(filled);
            Recycle(filled);
        }
        if (tables is not null)
        {
            Replace(tables, recorder, Path);
        }
        if (batch is not null)
        {
            WriteBatch(batch);
            Recycle(batch);
        }
        BeforeSave?.Invoke();
        AppendOthers();
        lock (_streams)
        {
            foreach (var (name, stream) in _streams)
            {
                Manifest.Rows[name] = stream.Rows;
            }
        }
        if (!isLast)
        {
            Manifest.Save(Path);
            if (Stopwatch.GetElapsedTime(_forcedAt) >= ForceEvery)
            {
                _forcedAt = Stopwatch.GetTimestamp();
                foreach (var stream in _streams.Values)
                {
                    stream.FlushToDisk();
                }
            }
        }
    }

    private void AppendOthers()
    {
        List<(string Table, RecordBatch Rows)> others;
        lock (_others)
        {
            others = [.. _others];
            _others.Clear();
        }
        foreach (var (table, rows) in others)
        {
            ArrowTableStream? stream;
            lock (_streams)
            {
                if (!_streams.TryGetValue(table, out stream))
                {
                    _streams.Add(table, stream = new(StreamPath(table), rows.Schema));
                }
            }
            stream.Write(rows);
            rows.Dispose();
        }
    }

    /// <summary>
    /// The small tables as they are now, to be written into another folder by the writer's thread, which must not wait for
    /// the gate: whoever holds it may wait for the writer. The recorder's gate is held.
    /// </summary>
    public Action<string> TablesNow()
    {
        var recorder = _recorder!;
        var names = recorder.Names;
        var tables = new Tables([.. names.FileRows()], [.. names.ProcessRows()], SmallTables.Devices(names.Devices, Anonymizer));
        return folder => Replace(tables, recorder, folder);
    }

    private sealed record Tables(
        List<(int Id, string? Path, int? Device)>? Files, List<(int Id, ProcessLives.Life? Life)>? Processes,
        RecordBatch? Devices);

    /// <summary>The small tables that changed, copied while nobody changes them.</summary>
    private Tables? Changed(TraceRecorder recorder)
    {
        var names = recorder.Names;
        var devicesVersion = names.Devices.Version;
        var hasDevices = _saved.Devices != devicesVersion;
        // Which partition a file lies on, and what its volume is called, may change with the devices.
        var hasFiles = _saved.Files != names.FilesVersion || hasDevices;
        var hasProcesses = _saved.Processes != names.ProcessesVersion;
        if (!hasDevices && !hasFiles && !hasProcesses)
        {
            return null;
        }
        var tables = new Tables(
            hasFiles ? [.. names.FileRows()] : null,
            hasProcesses ? [.. names.ProcessRows()] : null,
            hasDevices || hasFiles ? SmallTables.Devices(names.Devices, Anonymizer) : null);
        _saved = (names.FilesVersion, names.ProcessesVersion, names.Devices.Version);
        return tables;
    }

    private void Replace(Tables tables, TraceRecorder recorder, string folder)
    {
        if (tables.Devices is { } devices)
        {
            ReplaceTable(folder, "devices", devices);
        }
        if (tables.Files is { } files)
        {
            ReplaceTable(folder, "files", SmallTables.Files(files, RoleOf, Anonymizer));
        }
        if (tables.Processes is { } processes)
        {
            ReplaceTable(folder, "processes", SmallTables.Processes(processes, recorder.Clock, Anonymizer));
        }
    }

    private static void ReplaceTable(string folder, string table, RecordBatch rows)
    {
        using (rows)
        {
            ArrowTableStream.Replace(System.IO.Path.Combine(folder, table + ".arrows"), rows);
        }
    }

    private void Guarded(Action write)
    {
        if (_failure is not null)
        {
            return;
        }
        try
        {
            write();
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            _failure = new(
                $"cannot write '{Path}': {problem.Message.TrimEnd('.')}",
                $"what was recorded so far is kept there: iotrace import {Path}", problem);
        }
    }

    private void TrySaveFailure()
    {
        try
        {
            Manifest.Ended = "the disk that the recording is written to took no more";
            Manifest.Save(Path);
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            // The manifest of a second ago says that it was cut off, which is true.
        }
    }
}
