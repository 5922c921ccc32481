using System.Runtime.InteropServices;

namespace Iotrace.Agent;

/// <summary>
/// A wish to stop, from wherever it comes: Ctrl-C, closing the window, logging off, shutdown, or <c>stop</c> from another
/// window. The first is a wish; the second Ctrl-C ends the process at once, and the system stops what the process held.
/// </summary>
internal sealed class StopRequest : IDisposable
{
    private readonly CancellationTokenSource _source = new();
    private readonly List<PosixSignalRegistration> _signals = [];
    private readonly ManualResetEventSlim _done = new();
    private EventWaitHandle? _named;
    private RegisteredWaitHandle? _waiting;

    /// <param name="signals">Whether the system's signals ask, too.</param>
    public StopRequest(bool signals = true)
    {
        PosixSignal[] heard = [PosixSignal.SIGINT, PosixSignal.SIGTERM, PosixSignal.SIGHUP, PosixSignal.SIGQUIT];
        foreach (var signal in signals ? heard : [])
        {
            _signals.Add(PosixSignalRegistration.Create(signal, Asked));
        }
    }

    public CancellationToken Token => _source.Token;

    /// <summary>Ask to stop, from inside.</summary>
    public void Ask() => _source.Cancel();

    /// <summary>Let <c>iotrace-agent stop</c> from another window ask too. Windows only; nothing elsewhere.</summary>
    public void ListenFor(string name)
    {
        if (!OperatingSystem.IsWindows())
        {
            return;
        }
        _named = new(initialState: false, EventResetMode.ManualReset, name);
        _named.Reset();
        _waiting = ThreadPool.RegisterWaitForSingleObject(
            _named, (_, _) => _source.Cancel(), null, Timeout.Infinite, executeOnlyOnce: true);
    }

    /// <summary>Set the wish of another process; false if nobody listens for it.</summary>
    public static bool TryAskOther(string name)
    {
        if (!OperatingSystem.IsWindows() || !EventWaitHandle.TryOpenExisting(name, out var named))
        {
            return false;
        }
        using (named)
        {
            return named.Set();
        }
    }

    public void Dispose()
    {
        _done.Set();
        foreach (var signal in _signals)
        {
            signal.Dispose();
        }
        _waiting?.Unregister(null);
        _named?.Dispose();
        _source.Dispose();
        _done.Dispose();
    }

    private void Asked(PosixSignalContext context)
    {
        // A second Ctrl-C takes its usual course.
        context.Cancel = !_source.IsCancellationRequested;
        _source.Cancel();
        if (context.Signal is PosixSignal.SIGHUP or PosixSignal.SIGTERM)
        {
            // Closing, logging off and shutting down end the process when this returns: the recording is ended first.
            _done.Wait(TimeSpan.FromSeconds(20));
        }
    }
}
