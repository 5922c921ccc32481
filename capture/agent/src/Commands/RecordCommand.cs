using System.CommandLine;
using System.Diagnostics;
using System.Globalization;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Commands;

/// <summary>What <c>record</c> was asked for.</summary>
internal sealed record RecordArgs(string Output)
{
    public TimeSpan? For { get; init; }

    /// <summary>Numbers of disks, drive letters or mount points; empty: all.</summary>
    public IReadOnlyList<string> Disks { get; init; } = [];

    public LayerChoice Layers { get; init; } = LayerChoice.Default(server: null);

    public string? Server { get; init; }

    public bool Anonymize { get; init; }

    public bool Json { get; init; }
}

/// <summary>Records this host until the time is up, Ctrl-C, <c>stop</c> from another window, or the volume runs short.</summary>
internal static class RecordCommand
{
    public static Command Create(CommandContext context)
    {
        var length = new Option<string?>("--for") { Description = "How long to record, such as 30m; by default until Ctrl-C.", HelpName = "TIME" };
        var disks = new Option<string?>("--disks") { Description = "Only these disks: numbers, letters or mount points, such as 1,E:,F:\\log.", HelpName = "DISK,…" };
        var layers = new Option<string?>("--layers")
        {
            Description = $"Layers to record, of {LayerChoice.Words}. Default: block and counters, and sql with --server.", HelpName = "LAYER,…",
        };
        var command = new Command("record", "Record this host's I/O into a folder of Arrow streams, which iotrace import reads.")
        {
            CommonOptions.Output, length, disks, layers, CommonOptions.Server, CommonOptions.Anonymize, CommonOptions.Json,
        };
        command.SetAction(parsed => context.Run(parsed, stop =>
        {
            var server = parsed.GetValue(CommonOptions.Server);
            RefuseAnonymousSql(parsed.GetValue(CommonOptions.Anonymize), server);
            var args = new RecordArgs(parsed.GetRequiredValue(CommonOptions.Output))
            {
                For = parsed.GetValue(length) is { } text ? Durations.Parse(text, "--for") : null,
                Disks = LayerChoice.Split(parsed.GetValue(disks)),
                Layers = LayerChoice.Parse(parsed.GetValue(layers), server),
                Server = server,
                Anonymize = parsed.GetValue(CommonOptions.Anonymize),
                Json = parsed.GetValue(CommonOptions.Json),
            };
            return new Recording(args, RecordHost.OfThisMachine(), context.Output).Run(stop);
        }));
        return command;
    }

    /// <summary>SQL Server writes names into its own files, which the agent does not change.</summary>
    internal static void RefuseAnonymousSql(bool isAnonymous, string? server)
    {
        if (isAnonymous && server is not null)
        {
            throw new AgentError(
                $"--anonymize does not reach the files that '{server}' writes its events to",
                "record without it, and iotrace import --anonymize; or leave --server out");
        }
    }
}

/// <summary>The layers that were asked for, and whether by name: one that this host lacks is an error then.</summary>
internal sealed record LayerChoice(IReadOnlySet<Layer> Layers, bool Counters, bool IsByName)
{
    public const string Words = "block, filesystem, device, sql, counters";

    public static LayerChoice Default(string? server) =>
        new(server is null ? new HashSet<Layer> { Layer.Block } : [Layer.Block, Layer.Sql], Counters: true, IsByName: false);

    public static LayerChoice Parse(string? text, string? server)
    {
        if (text is null)
        {
            return Default(server);
        }
        var layers = new HashSet<Layer>();
        var counters = false;
        foreach (var word in Split(text))
        {
            switch (word)
            {
                case "block": layers.Add(Layer.Block); break;
                case "filesystem": layers.Add(Layer.Filesystem); break;
                case "device": layers.Add(Layer.Device); break;
                case "sql": layers.Add(Layer.Sql); break;
                case "counters": counters = true; break;
                default: throw new AgentError($"--layers '{word}' is no layer", $"choose of {Words}");
            }
        }
        if (layers.Count == 0)
        {
            throw new AgentError($"--layers '{text}' names no layer of I/O", $"choose of {Words}");
        }
        if (layers.Contains(Layer.Sql) && server is null)
        {
            throw new AgentError("--layers sql needs a server", @"name it: --server . or --server .\INST");
        }
        return new(layers, counters, IsByName: true);
    }

    public static IReadOnlyList<string> Split(string? text) =>
        text?.Split(',', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries) ?? [];
}

/// <summary>One recording from start to end, on whatever host.</summary>
internal sealed class Recording(RecordArgs args, IRecordHost host, Output output)
{
    private static readonly TimeSpan Look = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan ClockEvery = TimeSpan.FromMinutes(1);

    /// <summary>A jump of the system's clock against the counter that is no drift.</summary>
    private const long ClockStepNs = 1_000_000_000;

    private const long NameHorizonSeconds = 600;

    private readonly List<string> _notes = [];
    private Losses _losses;
    private long _lossesAtNs;

    public int Run(CancellationToken stop)
    {
        var wanted = new HashSet<Layer>(args.Layers.Layers);
        host.CheckLayers(wanted, args.Layers.IsByName, Note);
        var folder = OutputFolder.Create(args.Output);
        var hasStarted = false;
        try
        {
            using var source = host.Start(wanted, output.Say);
            var manifest = NewManifest(host, source.Clock, $"I/O of {Environment.MachineName}", args.Anonymize);
            using var recording = new RecordingFolder(folder, manifest) { Anonymizer = args.Anonymize ? new() : null };
            var recorder = new TraceRecorder(source.Clock, recording.Add) { Disks = host.Disks(args.Disks), Layers = wanted };
            lock (recorder.Gate)
            {
                host.DescribeStorage(recorder.Names);
            }
            host.WarnOfOutput(folder, output.Warn);
            Record(source, recorder, recording, folder, stop, ref hasStarted);
            return Tell(recording, recorder);
        }
        catch when (!hasStarted)
        {
            OutputFolder.Remove(folder);
            throw;
        }
    }

    private void Record(
        ITraceSource source, TraceRecorder recorder, RecordingFolder recording, string folder, CancellationToken stop,
        ref bool hasStarted)
    {
        var manifest = recording.Manifest;
        using var listening = host.ListenForStop();
        using var stopping = CancellationTokenSource.CreateLinkedTokenSource(stop, listening.Token);
        recording.BeforeSave = () => Describe(manifest, recorder, Now(recorder.Clock));
        recording.Begin(recorder);
        hasStarted = true;
        var reader = new SessionReader(source, recorder);
        using var samples = new SideLayers(args, host, recording, recorder, Note, output.Say, stop);
        var names = Task.Run(() => host.ListNames(recorder, folder), CancellationToken.None);
        output.Say(args.For is { } time
            ? $"recording for {time:g}; Ctrl-C or iotrace-agent stop ends it earlier"
            : "recording until Ctrl-C, or iotrace-agent stop from another window");
        string ended;
        try
        {
            ended = Watch(source, recorder, recording, reader, folder, stopping.Token);
        }
        finally
        {
            // Its session outlives the process; and its names are taken before the first session stops.
            _ = names.Wait(SessionReader.EndsWithin, CancellationToken.None);
        }
        if (names.IsCompleted && names.Result is { } missing)
        {
            Note($"names of files that were open at the start are missing: {missing}");
        }
        if (reader.IsAlive && host.ListNames(recorder, folder) is { } missingAtEnd)
        {
            Note($"names of files that were open at the end are missing: {missingAtEnd}");
        }
        _ = PollLosses(source, recorder, recording);
        if (reader.Stop() is { } failed)
        {
            ended = failed;
        }
        samples.Finish(folder);
        recorder.Finish();
        recording.BeforeSave = null;
        // The answer to the stop has the last word.
        _ = PollLosses(source, recorder, recording);
        manifest.ClockPairs.Add(host.ClockPair());
        JudgeClock(manifest, recorder.Clock);
        Describe(manifest, recorder, Now(recorder.Clock));
        output.ProgressDone();
        recording.Finish(ended);
        // Whoever ends this with another Ctrl-C has a whole recording and the files.
        if (samples.ReadFiles(folder, host.FreeBytes(folder) - host.ReserveBytes(folder), output.Say) is { } told)
        {
            output.Say(told);
            manifest.Notes.Add(told);
            manifest.Save(folder);
        }
    }

    /// <summary>Look every second until something ends the recording; what did.</summary>
    private string Watch(
        ITraceSource source, TraceRecorder recorder, RecordingFolder recording, SessionReader reader, string folder,
        CancellationToken stop)
    {
        var manifest = recording.Manifest;
        var started = Stopwatch.GetTimestamp();
        var lastPair = started;
        var previous = recorder.Counts.Rows;
        var reserve = host.ReserveBytes(folder);
        while (true)
        {
            var elapsed = Stopwatch.GetElapsedTime(started);
            if (args.For is { } length && elapsed >= length)
            {
                return RecordingManifest.Normally;
            }
            var wait = args.For is { } whole && whole - elapsed < Look ? whole - elapsed : Look;
            if (stop.WaitHandle.WaitOne(wait))
            {
                return RecordingManifest.Normally;
            }
            if (!reader.IsAlive)
            {
                return source.IsEndless ? "the trace session was stopped by another program" : RecordingManifest.Normally;
            }
            if (recording.Failure is not null)
            {
                return "the disk that the recording is written to took no more";
            }
            if (host.FreeBytes(folder) is { } free && free < reserve)
            {
                return $"the volume of {args.Output} had less than {Words.Bytes(reserve)} left";
            }
            var losses = PollLosses(source, recorder, recording);
            if (Stopwatch.GetElapsedTime(lastPair) >= ClockEvery)
            {
                lastPair = Stopwatch.GetTimestamp();
                lock (manifest)
                {
                    manifest.ClockPairs.Add(host.ClockPair());
                }
                lock (recorder.Gate)
                {
                    recorder.Names.Forget(lastPair - NameHorizonSeconds * Stopwatch.Frequency);
                }
            }
            var rows = recorder.Counts.Rows;
            Progress(rows, rows - previous, losses, recording.Bytes, Stopwatch.GetElapsedTime(started));
            previous = rows;
        }
    }

    private void Progress(long rows, long rate, Losses losses, long bytes, TimeSpan elapsed)
    {
        var lost = losses.Events + losses.Buffers == 0 ? "nothing lost"
            : losses.Buffers == 0 ? $"{losses.Events:N0} events lost"
            : $"{losses.Events:N0} events and {losses.Buffers:N0} buffers lost";
        var left = args.For is { } length ? $", {length - elapsed:hh\\:mm\\:ss} left" : "";
        output.Progress(string.Create(
            CultureInfo.InvariantCulture, $"{rows:N0} I/Os, {rate:N0}/s, {lost}, {Words.Bytes(bytes)} written{left}"));
    }

    private Losses PollLosses(ITraceSource source, TraceRecorder recorder, RecordingFolder recording)
    {
        var losses = source.PollLosses();
        var (events, buffers) = (losses.Events - _losses.Events, losses.Buffers - _losses.Buffers);
        var now = Now(recorder.Clock);
        if (events > 0 || buffers > 0)
        {
            lock (recording.Manifest)
            {
                recording.Manifest.Losses.Add(new(now, events, buffers, "trace session"));
                (recording.Manifest.EventsLost, recording.Manifest.BuffersLost) = (losses.Events, losses.Buffers);
            }
            var what = string.Join(" and ", new[]
            {
                events > 0 ? Words.Counted(events, "event") : "", buffers > 0 ? Words.Counted(buffers, "buffer") : "",
            }.Where(part => part.Length > 0));
            recording.Append("markers", SmallTables.Markers([(_lossesAtNs, now - _lossesAtNs, "note", $"{what} lost by the trace session")]));
        }
        (_losses, _lossesAtNs) = (losses, now);
        return losses;
    }

    /// <summary>The manifest of a recording that begins now.</summary>
    internal static RecordingManifest NewManifest(IRecordHost host, TickClock clock, string title, bool isAnonymous)
    {
        var pair = host.ClockPair();
        clock.TryScale(pair.Ticks - clock.StartTicks, out var since);
        var manifest = new RecordingManifest
        {
            Title = isAnonymous ? "anonymized recording" : title,
            ClockName = "Windows performance counter",
            StartUtcNs = pair.UtcNs - since,
            ResolutionNs = 1e9 / clock.Hertz,
            StartUtcUncertaintyNs = 1_000_000,
        };
        manifest.ClockPairs.Add(pair);
        foreach (var (name, value) in host.Facts(isAnonymous))
        {
            manifest.Host[name] = value?.DeepClone();
        }
        return manifest;
    }

    private void Describe(RecordingManifest manifest, TraceRecorder recorder, long nowNs)
    {
        lock (manifest)
        {
            manifest.WindowEndNs = Math.Max(nowNs, recorder.LastNs);
            manifest.Sources.Clear();
            manifest.Sources.Add((SessionName, "live trace session", recorder.Counts.Events));
            manifest.Notes.Clear();
            manifest.Notes.AddRange(_notes);
            manifest.Notes.AddRange(_clockNotes);
            RecordingNotes.Count(manifest, recorder);
        }
    }

    private const string SessionName = "iotrace-agent";
    private readonly List<string> _clockNotes = [];

    /// <summary>What the pairs say of the system's clock against the counter.</summary>
    private void JudgeClock(RecordingManifest manifest, TickClock clock)
    {
        var pairs = manifest.ClockPairs;
        var largest = 0L;
        for (var index = 1; index < pairs.Count; index++)
        {
            clock.TryScale(pairs[index].Ticks - pairs[index - 1].Ticks, out var counted);
            var moved = pairs[index].UtcNs - pairs[index - 1].UtcNs - counted;
            manifest.ClockSteps += Math.Abs(moved) >= ClockStepNs ? 1 : 0;
            largest = Math.Abs(moved) > Math.Abs(largest) ? moved : largest;
        }
        if (pairs.Count > 1 && Math.Abs(largest) >= ClockStepNs / 1000)
        {
            _clockNotes.Add($"the system's clock moved by up to {largest / 1e6:F1} ms a minute against the counter");
        }
    }

    private int Tell(RecordingFolder recording, TraceRecorder recorder)
    {
        var manifest = recording.Manifest;
        if (manifest.Ended != RecordingManifest.Normally)
        {
            output.Warn($"the recording ended early: {manifest.Ended}; what was recorded until then is kept");
        }
        if (args.Json)
        {
            output.Json(ConvertCommand.Facts(args.Output, manifest, recorder));
            return ExitStatus.Done;
        }
        var lost = manifest.EventsLost + manifest.BuffersLost > 0
            ? $"{Words.Counted(manifest.EventsLost, "event")} and {Words.Counted(manifest.BuffersLost, "buffer")} lost"
            : "nothing lost";
        output.Line($"wrote {args.Output}: {Words.Counted(recorder.Counts.Rows, "I/O")}, {lost}");
        foreach (var note in manifest.Notes)
        {
            output.Line($"  note: {note}");
        }
        output.Line($"iotrace import {args.Output} -o NAME.iotrace makes a recording of it, on any system");
        return ExitStatus.Done;
    }

    private void Note(string note)
    {
        output.Warn(note);
        lock (_notes)
        {
            _notes.Add(note);
        }
    }

    private static long Now(TickClock clock) =>
        clock.TryNanoseconds(Stopwatch.GetTimestamp(), out var nanoseconds) ? nanoseconds : 0;
}
