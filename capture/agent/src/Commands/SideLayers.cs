using System.Diagnostics;
using Iotrace.Agent.Counters;
using Iotrace.Agent.SqlServer;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Commands;

/// <summary>
/// What is recorded beside the trace session: counters, and SQL Server's events. On a thread of its own, once a second: a
/// server that hangs holds up nothing else.
/// </summary>
internal sealed class SideLayers : IDisposable
{
    private static readonly TimeSpan EndsWithin = TimeSpan.FromSeconds(60);

    private readonly RecordingFolder _recording;
    private readonly TraceRecorder _recorder;
    private readonly Action<string> _note;
    private readonly ICounterSource? _counters;
    private readonly ExtendedEventSession? _sql;
    private readonly ManualResetEventSlim _end = new();
    private readonly Thread _thread;
    private IReadOnlyList<string> _files = [];
    private Losses _losses;
    private bool _isWithoutCounters;

    public SideLayers(
        RecordArgs args, IRecordHost host, RecordingFolder recording, TraceRecorder recorder, Action<string> note,
        Action<string> say, CancellationToken stop)
    {
        (_recording, _recorder, _note) = (recording, recorder, note);
        _counters = args.Layers.Counters ? Optional(host.OpenCounters, args.Layers.IsByName, "counters") : null;
        _sql = args.Layers.Layers.Contains(Layer.Sql) && args.Server is { } server
            ? Optional(() => ExtendedEventSession.Start(server, args.For, say, stop), args.Layers.IsByName, "sql")
            : null;
        if (_sql?.Files() is { Count: > 0 } files)
        {
            recording.RoleOf = path => files.TryGetValue(path, out var told) ? told : null;
        }
        if (_counters is { Missing.Count: > 0 } && _counters.Missing.Count < 200)
        {
            note($"{Words.Counted(_counters.Missing.Count, "counter")} missing on this host, such as {_counters.Missing[0]}");
        }
        _thread = new(Run) { Name = "samples", IsBackground = true };
        _thread.Start();
    }

    /// <summary>End the session of events and gather its files.</summary>
    public void Finish(string folder)
    {
        _end.Set();
        if (!_thread.Join(EndsWithin))
        {
            _note("SQL Server did not answer for a minute: its layer ends earlier");
            return;
        }
        if (_sql is not null)
        {
            PollLosses();
            _files = _sql.Finish(folder);
            foreach (var note in _sql.Notes.Distinct(StringComparer.Ordinal).Take(100))
            {
                _note(note);
            }
        }
    }

    /// <summary>
    /// Make rows of the files that the session of events left in the recording's folder, where that can be; what is to be told of it,
    /// null where there are none. The recording is whole before: it may take a while.
    /// </summary>
    public string? ReadFiles(string folder, long? freeBytes, Action<string> say)
    {
        if (_files.Count == 0)
        {
            return null;
        }
        if (EventReader.IsThere())
        {
            say("making rows of SQL Server's events; Ctrl-C once more leaves them in their .xel files");
        }
        var told = _recording.RoleOf;
        // The import's reader of .xel knows these by their numbers and all others by their paths.
        return EventRecording.Replace(
            _files, folder, _sql!.Kinds,
            path => told?.Invoke(path) is { Database: "master" or "tempdb" or "model" or "msdb" } file ? file : null, freeBytes);
    }

    public void Dispose()
    {
        _end.Set();
        _thread.Join(EndsWithin);
        _counters?.Dispose();
        _sql?.Dispose();
        _end.Dispose();
    }

    private void Run()
    {
        while (!_end.Wait(TimeSpan.FromSeconds(1)))
        {
            SampleCounters();
            if (_sql is not null)
            {
                PollLosses();
            }
        }
    }

    /// <summary>Whatever is wrong with the counters ends them alone.</summary>
    private void SampleCounters()
    {
        try
        {
            if (!_isWithoutCounters && _counters?.Rows(Now, _recording.Anonymizer) is { } rows)
            {
                _recording.Append("raw_counters", rows);
            }
        }
        catch (Exception problem) when (problem is System.Runtime.InteropServices.ExternalException or TypeLoadException)
        {
            _isWithoutCounters = true;
            _note($"counters end here: {problem.Message.TrimEnd('.')}");
        }
    }

    private void PollLosses()
    {
        var losses = _sql!.PollLosses();
        var (events, buffers) = (losses.Events - _losses.Events, losses.Buffers - _losses.Buffers);
        _losses = losses;
        if (events > 0 || buffers > 0)
        {
            var manifest = _recording.Manifest;
            lock (manifest)
            {
                manifest.Losses.Add(new(Now(), Math.Max(events, 0), Math.Max(buffers, 0), "Extended Events"));
                manifest.SideEventsLost = losses.Events;
                manifest.SideBuffersLost = losses.Buffers;
            }
        }
    }

    private long Now() => _recorder.Clock.TryNanoseconds(Stopwatch.GetTimestamp(), out var now) ? now : 0;

    private T? Optional<T>(Func<T> open, bool isByName, string layer)
        where T : class
    {
        try
        {
            return open();
        }
        catch (AgentError problem) when (!isByName)
        {
            _note($"the layer {layer} is left out: {problem.Message}");
            return null;
        }
    }
}
