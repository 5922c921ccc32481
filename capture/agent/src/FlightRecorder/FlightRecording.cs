using System.Diagnostics;
using System.Globalization;
using Iotrace.Agent.Commands;
using Iotrace.Agent.SqlServer;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.FlightRecorder;

/// <summary>What <c>keep</c> was asked for.</summary>
internal sealed record KeepArgs(string Output, KeepLimits Limits, IReadOnlyList<string> When)
{
    public IReadOnlyList<string> Disks { get; init; } = [];

    /// <summary>A SQL Server whose rare events are markers, and may be conditions.</summary>
    public string? Server { get; init; }

    public bool Anonymize { get; init; }
}

/// <summary>
/// The flight recorder: keeps the last minutes on disk, and when a condition holds, makes a recording of them and of the next.
/// Then it goes on. Driven by the times of the I/Os, so that a played trace behaves as a live one.
/// </summary>
internal sealed class FlightRecording(KeepArgs args, IRecordHost host, Output output)
{
    /// <summary>More numbers than this were given to files and processes: the ring starts over, so that memory stays bounded.</summary>
    internal const int ReferencesMax = 200_000;

    private const long TickEveryMs = 1000;

    private const int MarkersMax = 10_000;

    private readonly HashSet<string> _eventConditions =
        [.. args.When.Select(text => text.Trim()).Where(text => SessionStatements.RareEvents.Contains(text, StringComparer.Ordinal))];

    private readonly List<TriggerCondition> _conditions =
    [
        .. args.When.Where(text => !SessionStatements.RareEvents.Contains(text.Trim(), StringComparer.Ordinal)).Select(TriggerCondition.Parse),
    ];

    private readonly Queue<(long AtNs, long? DurationNs, string Kind, string? Text)> _markers = [];
    private readonly List<LossAt> _losses = [];
    private RecordingFolder? _ring;
    private KeptMinutes? _kept;
    private TraceRecorder? _recorder;
    private SecondMeter? _meter;
    private Pending? _pending;
    private Losses _known;
    private long _pieceEndNs = long.MinValue;

    /// <summary>Folders of the recordings made so far.</summary>
    public List<string> Made { get; } = [];

    private sealed record Pending(string Reason, long AtNs, long FromNs, long UntilNs);

    public int Run(CancellationToken stop)
    {
        var folder = OutputFolder.CreateOrOpen(args.Output);
        var ringFolder = Path.Combine(folder, ".ring");
        RemoveRing(ringFolder);
        Directory.CreateDirectory(ringFolder);
        var wanted = new HashSet<Layer> { Layer.Block };
        try
        {
            using var source = host.Start(wanted, output.Say);
            var manifest = Recording.NewManifest(host, source.Clock, "flight recorder", args.Anonymize);
            using var kept = new KeptMinutes(ringFolder, args.Limits);
            using var ring = new RecordingFolder(ringFolder, manifest, kept) { Anonymizer = args.Anonymize ? new() : null };
            var meter = _meter = new SecondMeter(Ended);
            var recorder = _recorder = new(source.Clock, Take) { Disks = host.Disks(args.Disks), Layers = wanted };
            (_ring, _kept) = (ring, kept);
            lock (recorder.Gate)
            {
                host.DescribeStorage(recorder.Names);
            }
            ring.Begin(recorder);
            var reader = new SessionReader(source, recorder);
            var names = Task.Run(() => host.ListNames(recorder, ringFolder), CancellationToken.None);
            string? ended;
            try
            {
                using var live = args.Server is { } server
                    ? LiveEvents.Start(server, seen => Mark(seen, manifest.StartUtcNs), output.Say, stop)
                    : null;
                output.Say($"keeping the last {args.Limits.Last:g}; waiting for {string.Join(" or ", args.When)}");
                ended = Watch(source, recorder, ring, reader, stop);
            }
            finally
            {
                // Its session outlives the process.
                _ = names.Wait(SessionReader.EndsWithin, CancellationToken.None);
            }
            var failed = reader.Stop();
            lock (recorder.Gate)
            {
                meter.End();
                if (_pending is not null)
                {
                    Freeze();
                }
            }
            ring.Finish(RecordingManifest.Normally);
            if ((failed ?? ended) is { } problem)
            {
                throw new AgentError(problem, "what was kept until then is lost; recordings that were made are whole");
            }
            output.Line($"made {Words.Counted(Made.Count, "recording")} in {args.Output}");
            return ExitStatus.Done;
        }
        finally
        {
            RemoveRing(ringFolder);
        }
    }

    private string? Watch(
        ITraceSource source, TraceRecorder recorder, RecordingFolder ring, SessionReader reader, CancellationToken stop)
    {
        while (!stop.WaitHandle.WaitOne(TimeSpan.FromMilliseconds(TickEveryMs)))
        {
            if (!reader.IsAlive)
            {
                return source.IsEndless ? "the trace session was stopped by another program" : null;
            }
            if (ring.Failure is { } failure)
            {
                throw failure;
            }
            if (host.FreeBytes(ring.Path) is { } free && free < host.ReserveBytes(ring.Path))
            {
                return $"the volume of {args.Output} had less than {Words.Bytes(host.ReserveBytes(ring.Path))} left";
            }
            var losses = source.PollLosses();
            var events = losses.Events - _known.Events + losses.Buffers - _known.Buffers;
            if (!source.IsEndless)
            {
                continue; // a played trace has a time of its own
            }
            recorder.Clock.TryNanoseconds(Stopwatch.GetTimestamp(), out var now);
            if (events > 0)
            {
                lock (_losses)
                {
                    _losses.Add(new(now, losses.Events - _known.Events, losses.Buffers - _known.Buffers, "trace session"));
                }
                _meter!.Lost(events);
            }
            _known = losses;
            lock (recorder.Gate)
            {
                _meter!.Tick(now);
                FreezeIfDue(now - 4_000_000_000);
                recorder.Names.Forget(Stopwatch.GetTimestamp() - 600 * Stopwatch.Frequency);
            }
        }
        return null;
    }

    /// <summary>A row; the recorder's gate is held.</summary>
    private void Take(in IoRow row)
    {
        _meter!.Add(row);
        if (row.CompletedNs != long.MinValue)
        {
            FreezeIfDue(row.CompletedNs);
        }
        if (row.CompletedNs >= _pieceEndNs)
        {
            // However few I/Os there are, a piece holds no more than its time.
            _ring!.AfterThese(null);
            _pieceEndNs = row.CompletedNs + _kept!.PieceNs;
        }
        _ring!.Add(row);
        if (_recorder!.Names.References > ReferencesMax && _pending is null)
        {
            var kept = _kept!;
            _ring.AfterThese(kept.Clear);
            _recorder.Names.StartOver();
        }
    }

    private void Ended(SecondOfIo second)
    {
        foreach (var condition in _conditions)
        {
            if (condition.Fires(second))
            {
                Hold(condition.Text, second.EndNs);
            }
        }
    }

    /// <summary>What is kept from before this moment and what comes after it become a recording. The recorder's gate is held.</summary>
    private void Hold(string reason, long atNs)
    {
        if (_pending is null && Made.Count < args.Limits.RecordingsMax)
        {
            _pending = new(
                reason, atNs, atNs - (long)args.Limits.Last.TotalNanoseconds, atNs + (long)args.Limits.After.TotalNanoseconds);
            _kept!.IsHeld = true;
            output.Say($"{reason}: recording the next {args.Limits.After:g} too");
        }
    }

    /// <summary>An event of SQL Server: a marker of the recordings it falls into, and a reason for one if it was named.</summary>
    internal void Mark(SqlEvent seen, long startUtcNs)
    {
        var at = (seen.At.UtcTicks - DateTimeOffset.UnixEpoch.UtcTicks) * 100 - startUtcNs;
        var words = args.Anonymize ? "" : ": " + EventRows.Words(seen);
        lock (_markers)
        {
            _markers.Enqueue((at, null, "note", seen.Name + words));
            while (_markers.Count > MarkersMax)
            {
                _markers.Dequeue();
            }
        }
        if (_eventConditions.Contains(seen.Name))
        {
            lock (_recorder!.Gate)
            {
                Hold(seen.Name, at);
            }
        }
    }

    private void FreezeIfDue(long nowNs)
    {
        if (_pending is { } pending && nowNs >= pending.UntilNs)
        {
            Freeze();
        }
    }

    private void Freeze()
    {
        var (pending, ring, kept) = (_pending!, _ring!, _kept!);
        _pending = null;
        var folder = Path.Combine(
            Path.GetDirectoryName(ring.Path)!,
            string.Create(CultureInfo.InvariantCulture, $"incident-{UtcOf(ring.Manifest, pending.AtNs):yyyyMMdd-HHmmss}"));
        Made.Add(folder);
        var writeTables = ring.TablesNow();
        ring.AfterThese(() =>
        {
            Make(folder, pending, ring, kept, writeTables);
            kept.IsHeld = false;
        });
    }

    /// <summary>On the writer's thread: under a name that begins with a dot until it is whole.</summary>
    private void Make(string folder, Pending pending, RecordingFolder ring, KeptMinutes kept, Action<string> writeTables)
    {
        var partial = Path.Combine(Path.GetDirectoryName(folder)!, "." + Path.GetFileName(folder));
        OutputFolder.Create(partial);
        var (startNs, endNs, rows) = kept.CopyTo(Path.Combine(partial, "io.arrows"), pending.FromNs);
        writeTables(partial);
        List<(long AtNs, long? DurationNs, string Kind, string? Text)> told = [(pending.AtNs, null, "note", $"kept because {pending.Reason}")];
        lock (_markers)
        {
            told.AddRange(_markers.Where(marker => marker.AtNs >= startNs && marker.AtNs <= endNs));
        }
        using (var markers = SmallTables.Markers(told))
        {
            ArrowTableStream.Replace(Path.Combine(partial, "markers.arrows"), markers);
        }
        var manifest = ring.Manifest.Excerpt($"kept because {pending.Reason}", startNs, endNs);
        manifest.Rows["io"] = rows;
        lock (_losses)
        {
            manifest.Losses.AddRange(_losses.Where(loss => loss.AtNs >= startNs && loss.AtNs <= endNs));
        }
        manifest.EventsLost = manifest.Losses.Sum(loss => loss.Events);
        manifest.BuffersLost = manifest.Losses.Sum(loss => loss.Buffers);
        manifest.Sources.Add(("iotrace-agent", "live trace session", rows));
        manifest.Save(partial);
        Directory.Move(partial, folder);
        output.Line($"wrote {folder}: {Words.Counted(rows, "I/O")}, {pending.Reason}");
    }

    private static DateTime UtcOf(RecordingManifest manifest, long atNs) =>
        DateTime.UnixEpoch.AddTicks((manifest.StartUtcNs + atNs) / 100);

    private static void RemoveRing(string folder)
    {
        if (!Directory.Exists(folder))
        {
            return;
        }
        foreach (var file in Directory.EnumerateFiles(folder))
        {
            var name = Path.GetFileName(file);
            if (name.EndsWith(".piece", StringComparison.Ordinal) || name is ".schema" or ".names.etl")
            {
                File.Delete(file);
            }
        }
        OutputFolder.Remove(folder);
    }
}
