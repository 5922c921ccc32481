using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using Iotrace.StandIns.SqlServer;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>
/// Microsoft's own reader of live event streams takes the stand-in for a SQL Server, and gives the events of a real file whose
/// buffers the stand-in plays. XELITE_DLL names the reader's DLL.
/// </summary>
public sealed class XELiteLiveTests
{
    private const string Sample = "sqltoolsservice_TestXel_0";

    /// <summary>Events in the sample.</summary>
    public const int SampleEvents = 149;

    public static string Samples { get; } = Path.GetFullPath(Path.Combine(Here(), "../../../../../shared/samples/xel"));

    private readonly List<string> _happened = [];
    private readonly TaskCompletionSource _all = new();
    private int _expected;

    [Fact]
    public async Task TheLiveStreamGivesEveryEventOfTheBuffersThatAreSent()
    {
        var library = Environment.GetEnvironmentVariable("XELITE_DLL");
        Assert.SkipUnless(File.Exists(library), "XELITE_DLL names no DLL of XELite: its live stream was not tried");
        Assert.SkipUnless(Directory.Exists(Samples), $"no real samples at {Samples}");
        var listed = (await File.ReadAllLinesAsync(Path.Combine(Samples, Sample + ".xelite.txt"), TestContext.Current.CancellationToken))
            .Where(line => !line.StartsWith('#')).Select(line => line.Split('\t')).Select(parts => parts[0] + " " + parts[1]).ToList();
        _expected = listed.Count;
        Assert.Equal(SampleEvents, _expected);

        await using var server = new StandInServer();
        object? asked = null;
        server.Answer("fn_MSxe_read_event_stream", received =>
        {
            asked = Assert.Single(received.Parameters);
            return new() { Columns = ["type", "data"], Rows = [.. SampleBuffers()], Hangs = true };
        });
        // In a context of its own: the surface that the agent is compiled against bears the same name.
        var assembly = new AssemblyLoadContext("XELite").LoadFromAssemblyPath(Path.GetFullPath(library!));
        var streamer = Activator.CreateInstance(
            assembly.GetType("Microsoft.SqlServer.XEvent.XELite.XELiveEventStreamer", throwOnError: true)!, server.ConnectionString, "iotrace")!;
        var read = streamer.GetType().GetMethods().Single(method => method.Name == "ReadEventStream" && method.GetParameters().Length == 2);
        var take = Delegate.CreateDelegate(
            read.GetParameters()[0].ParameterType, this,
            typeof(XELiteLiveTests).GetMethod(nameof(Take), BindingFlags.Instance | BindingFlags.NonPublic)!);
        using var stop = new CancellationTokenSource();
        var reading = (Task)read.Invoke(streamer, [take, stop.Token])!;
        await Task.WhenAny(_all.Task, reading, Task.Delay(TimeSpan.FromSeconds(60), TestContext.Current.CancellationToken));

        Assert.Equal("iotrace", asked);
        Assert.Equal(listed, _happened);
        Assert.Empty(server.SyntaxErrors);
        await stop.CancelAsync();
        server.Cut();
        await Assert.ThrowsAnyAsync<Exception>(() => reading);
    }

    private Task Take(object happened)
    {
        var type = happened.GetType();
        _happened.Add($"{type.GetProperty("Timestamp")!.GetValue(happened):o} {type.GetProperty("Name")!.GetValue(happened)}");
        if (_happened.Count == _expected)
        {
            _all.TrySetResult();
        }
        return Task.CompletedTask;
    }

    public static IReadOnlyList<object?[]> SampleBuffers() => EventBuffers.Of(File.ReadAllBytes(Path.Combine(Samples, Sample + ".xel")));

    private static string Here([CallerFilePath] string path = "") => Path.GetDirectoryName(path)!;
}
