using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using Microsoft.SqlServer.XEvent.XELite;

namespace Iotrace.Agent.SqlServer;

/// <summary>An event of SQL Server, as XELite tells it: maps are words, binary is bytes.</summary>
internal readonly record struct SqlEvent(
    string Name, DateTimeOffset At, IReadOnlyDictionary<string, object> Fields, IReadOnlyDictionary<string, object> Actions);

/// <summary>
/// Microsoft's XELite, the only file that names it. Its DLL is taken from beside the program: it is not passed on with it.
/// </summary>
internal static class EventReader
{
    private const string Library = "Microsoft.SqlServer.XEvent.XELite";
    private static readonly Lock Loading = new();
    private static bool s_isListening;

    /// <summary>Where the DLL is if not beside the program.</summary>
    public static string? LibraryPath { get; set; }

    /// <summary>Whether XELite is at hand.</summary>
    public static bool IsThere()
    {
        lock (Loading)
        {
            if (!s_isListening)
            {
                AssemblyLoadContext.Default.Resolving += Find;
                s_isListening = true;
            }
        }
        try
        {
            return Assembly.Load(new AssemblyName(Library)) is not null;
        }
        catch (Exception problem) when (problem is IOException or BadImageFormatException)
        {
            return false;
        }
    }

    /// <summary>Throws <see cref="AgentError"/> where XELite is not at hand; <paramref name="otherwise"/> is what to do then.</summary>
    public static void Require(string otherwise)
    {
        if (!IsThere())
        {
            throw new AgentError(
                "XELite, Microsoft's reader of Extended Events, is not beside iotrace-agent",
                $"put {Library}.dll there (a package of Microsoft's of that name holds it); {otherwise}");
        }
    }

    /// <summary>
    /// Hand every event of a file to <paramref name="take"/>, in the file's order. Throws <see cref="AgentError"/> where the file
    /// is none or is damaged: what came before has been handed over then.
    /// </summary>
    public static void ReadFile(string path, Action<SqlEvent> take, CancellationToken stop)
    {
        // SQL Server may still hold it.
        using var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete, 1 << 16);
        try
        {
            Read(file, take, stop).GetAwaiter().GetResult();
        }
        catch (Exception problem) when (problem is not OperationCanceledException and not AgentError)
        {
            stop.ThrowIfCancellationRequested();
            throw new AgentError(
                $"'{path}' is damaged, or no file of Extended Events: {problem.Message.TrimEnd('.')}",
                $"iotrace import {path} reads what is whole in it", problem);
        }
    }

    /// <summary>
    /// Hand the events of a running session to <paramref name="take"/> until <paramref name="stop"/>. Whatever ends it earlier is
    /// thrown: the stream never ends by itself.
    /// </summary>
    public static void ReadLive(string connectionString, string session, Action<SqlEvent> take, CancellationToken stop) =>
        Live(connectionString, session, take, stop).GetAwaiter().GetResult();

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static Task Read(Stream file, Action<SqlEvent> take, CancellationToken stop) =>
        new XEFileEventStreamer(file).ReadEventStream(() => Task.CompletedTask, Handed(take), stop);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static Task Live(string connectionString, string session, Action<SqlEvent> take, CancellationToken stop) =>
        new XELiveEventStreamer(connectionString, session).ReadEventStream(() => Task.CompletedTask, Handed(take), stop);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static HandleXEvent Handed(Action<SqlEvent> take) => seen =>
    {
        take(new(seen.Name, seen.Timestamp, seen.Fields, seen.Actions));
        return Task.CompletedTask;
    };

    private static Assembly? Find(AssemblyLoadContext context, AssemblyName name)
    {
        if (name.Name != Library)
        {
            return null;
        }
        var path = LibraryPath ?? Path.Combine(AppContext.BaseDirectory, Library + ".dll");
        return File.Exists(path) ? context.LoadFromAssemblyPath(Path.GetFullPath(path)) : null;
    }
}
