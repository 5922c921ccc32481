using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Runtime.Versioning;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Windows;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Parsers;
using Microsoft.Diagnostics.Tracing.Session;
using Microsoft.Win32;

namespace Iotrace.Agent.Tracing;

/// <summary>
/// A real-time session of the kernel's events, under a name of its own: a system logger, so that no other program's session
/// is in the way, and none is touched. The only file that names <see cref="TraceEventSession"/>.
/// </summary>
[SupportedOSPlatform("windows")]
internal sealed class LiveTraceSession : ITraceSource
{
    public const string Name = "iotrace-agent";
    public const string NamesSession = "iotrace-agent-names";

    /// <summary>Held by the agent that records; a session without it is a leftover.</summary>
    private const string MutexName = @"Global\iotrace-agent-session";

    private const int BufferKiB = 256;
    private const int ErrorAccessDenied = unchecked((int)0x80070005);
    private const int ErrorNoSystemResources = unchecked((int)0x800705AA);
    private const int ErrorAlreadyExists = unchecked((int)0x800700B7);
    private const int ErrorDiskFull = unchecked((int)0x80070070);
    private static readonly TimeSpan NamesTime = TimeSpan.FromSeconds(1);

    private readonly Mutex _mutex;
    private readonly TraceEventSession _session;
    private readonly Lock _stopping = new();
    private Losses _losses;
    private bool _isStopped;

    private LiveTraceSession(Mutex mutex, TraceEventSession session)
    {
        (_mutex, _session) = (mutex, session);
        Clock = new(Stopwatch.GetTimestamp(), Stopwatch.Frequency);
    }

    public TickClock Clock { get; }

    public bool IsEndless => true;

    /// <summary>
    /// Memory that the session's buffers take, in MiB: Windows holds all of it while the session runs. A 64th of the host's, but
    /// enough for a second of 100,000 I/Os a second.
    /// </summary>
    public static int BuffersMiB => (int)Math.Clamp(GC.GetGCMemoryInfo().TotalAvailableMemoryBytes >> 26, 64, 256);

    /// <summary>Whether this host's port driver tells of its requests.</summary>
    public static bool HasPortEvents
    {
        get
        {
            using var publisher = Registry.LocalMachine.OpenSubKey(
                $@"SOFTWARE\Microsoft\Windows\CurrentVersion\WINEVT\Publishers\{{{PortEventDecoder.Provider}}}");
            return publisher is not null;
        }
    }

    /// <summary>Sessions that run on this host, by name.</summary>
    public static IReadOnlyList<string> ActiveSessions() => TraceEventSession.GetActiveSessionNames();

    /// <summary>Whether this process has an administrator's rights; null where Windows does not say.</summary>
    public static bool? IsElevated() => TraceEventSession.IsElevated();

    /// <summary>Names of our sessions that no agent holds: an agent was killed.</summary>
    public static IReadOnlyList<string> Leftovers()
    {
        if (Mutex.TryOpenExisting(MutexName, out var held))
        {
            held.Dispose();
            return [];
        }
        return [.. ActiveSessions().Where(name => name is Name or NamesSession)];
    }

    /// <summary>Start the session. Throws <see cref="AgentError"/> where Windows does not let us.</summary>
    public static LiveTraceSession Start(IReadOnlySet<Layer> layers, Action<string> say)
    {
        var mutex = new Mutex(initiallyOwned: false, MutexName, out var isNew);
        if (!isNew)
        {
            mutex.Dispose();
            throw new AgentError(
                "another iotrace-agent records on this host", "iotrace-agent stop ends it; one recording has all layers");
        }
        TraceEventSession? session = null;
        try
        {
            foreach (var name in ActiveSessions().Where(name => name is Name or NamesSession))
            {
                say($"stopped the session '{name}' that a killed agent had left");
                StopByName(name);
            }
            session = new(Name) { BufferSizeMB = BuffersMiB, BufferQuantumKB = BufferKiB, StopOnDispose = true };
            session.EnableKernelProvider(Keywords(layers));
            if (layers.Contains(Layer.Device))
            {
                session.EnableProvider(
                    PortEventDecoder.Provider, TraceEventLevel.Informational, PortEventDecoder.PerformanceKeyword);
            }
            return new(mutex, session);
        }
        catch (Exception problem) when (problem is COMException or UnauthorizedAccessException or IOException)
        {
            session?.Dispose();
            mutex.Dispose();
            throw Refused(problem);
        }
        catch
        {
            session?.Dispose();
            mutex.Dispose();
            throw;
        }
    }

    public void Run(TraceRecorder recorder)
    {
        _ = new KernelEvents(_session.Source, recorder);
        _session.Source.Process();
    }

    /// <summary>
    /// Names of the files that are open now: a short second session lists them when it stops. Into a file, which takes the
    /// burst whole. Nothing is thrown: names may come later, too.
    /// </summary>
    /// <returns>Why there are none; null if all went well.</returns>
    public static string? ListNames(TraceRecorder recorder, string folder)
    {
        var path = Path.Combine(folder, ".names.etl");
        try
        {
            using (var session = new TraceEventSession(NamesSession, path) { BufferSizeMB = 64, BufferQuantumKB = 1024 })
            {
                session.EnableKernelProvider(
                    KernelTraceEventParser.Keywords.DiskIO | KernelTraceEventParser.Keywords.DiskFileIO);
                Thread.Sleep(NamesTime);
                session.Stop();
            }
            using var source = new ETWTraceEventSource(path, TraceEventSourceType.FileOnly);
            KernelEvents.ListNames(source, recorder);
            source.Process();
            return null;
        }
        catch (Exception problem) when (problem is COMException or UnauthorizedAccessException or IOException or ApplicationException)
        {
            return Refused(problem).Message;
        }
        finally
        {
            try
            {
                File.Delete(path);
            }
            catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
            {
                // Its name begins with a dot: the import leaves it out.
            }
        }
    }

    public Losses PollLosses()
    {
        lock (_stopping)
        {
            if (!_isStopped)
            {
                var asked = SessionControl.Losses(Name);
                // TraceEvent asks for events alone; the larger of the two is the truth.
                _losses = new(Math.Max(asked?.Events ?? 0, EventsLost()), asked?.Buffers ?? _losses.Buffers);
            }
            return _losses;
        }
    }

    public void Stop()
    {
        _ = PollLosses();
        lock (_stopping)
        {
            if (_isStopped)
            {
                return;
            }
            _isStopped = true;
            if (SessionControl.Stop(Name) is { } inAll)
            {
                _losses = new(Math.Max(_losses.Events, inAll.Events), Math.Max(_losses.Buffers, inAll.Buffers));
            }
            _session.Stop(noThrow: true);
        }
    }

    public void Dispose()
    {
        Stop();
        _session.Dispose();
        _mutex.Dispose();
    }

    private static KernelTraceEventParser.Keywords Keywords(IReadOnlySet<Layer> layers)
    {
        var keywords = KernelTraceEventParser.Keywords.DiskIO | KernelTraceEventParser.Keywords.DiskFileIO;
        return layers.Contains(Layer.Filesystem)
            ? keywords | KernelTraceEventParser.Keywords.FileIO | KernelTraceEventParser.Keywords.FileIOInit
            : keywords;
    }

    private static void StopByName(string name)
    {
        using var session = TraceEventSession.GetActiveSession(name);
        session?.Stop(noThrow: true);
    }

    private int EventsLost()
    {
        try
        {
            return _session.EventsLost;
        }
        catch (Exception problem) when (problem is COMException or UnauthorizedAccessException)
        {
            return 0;
        }
    }

    /// <summary>What Windows answered, in words, with the way out.</summary>
    private static AgentError Refused(Exception problem) => problem.HResult switch
    {
        _ when problem is UnauthorizedAccessException => Denied(problem),
        ErrorAccessDenied => Denied(problem),
        ErrorNoSystemResources => new(
            "Windows has no trace session of the kernel left: eight is the most, and others hold them (error 1450)",
            "logman query -ets lists them; iotrace-agent doctor names those that may be of the kernel. Stop one that nobody needs",
            problem),
        ErrorAlreadyExists => new(
            $"a session named '{Name}' runs already and could not be replaced (error 183)",
            $"logman stop {Name} -ets ends it", problem),
        ErrorDiskFull => new("the disk has no room for a trace (error 112)", "make room on the volume of --output", problem),
        _ => new(
            $"Windows does not start the trace session: {problem.Message.TrimEnd('.')} (0x{problem.HResult:X8})",
            "iotrace-agent doctor looks at what it needs", problem),
    };

    private static AgentError Denied(Exception problem) => new(
        "Windows does not let this login trace the kernel: access denied",
        "start it from a window that was opened with 'Run as administrator'; iotrace-agent doctor tells the least rights", problem);
}
