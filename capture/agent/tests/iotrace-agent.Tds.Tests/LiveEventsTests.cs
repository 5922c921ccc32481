using System.Collections.Concurrent;
using Iotrace.Agent.SqlServer;
using Iotrace.StandIns.SqlServer;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>The agent's live events through the real XELite, which XELITE_DLL names, from the stand-in for a SQL Server.</summary>
public sealed class LiveEventsTests
{
    private static readonly string OurSession = LiveEvents.NameOn(Environment.MachineName);

    [Fact]
    public async Task EventsComeAsTheyHappenAndAgainAfterALostConnection()
    {
        var library = Environment.GetEnvironmentVariable("XELITE_DLL");
        Assert.SkipUnless(File.Exists(library), "XELITE_DLL names no DLL of XELite: live events in watch and keep were not tried");
        Assert.SkipUnless(Directory.Exists(XELiteLiveTests.Samples), $"no real samples at {XELiteLiveTests.Samples}");
        EventReader.LibraryPath = library;
        LiveEvents.FirstWait = TimeSpan.FromMilliseconds(200);
        await using var server = Instance.Start();
        server.Answer("fn_MSxe_read_event_stream", _ => new() { Columns = ["type", "data"], Rows = [.. XELiteLiveTests.SampleBuffers()], Hangs = true });
        var seen = new ConcurrentQueue<SqlEvent>();
        var said = new ConcurrentQueue<string>();
        using (LiveEvents.Start(server.DataSource, seen.Enqueue, said.Enqueue, TestContext.Current.CancellationToken))
        {
            Assert.True(server.Sessions[OurSession]);
            await Until(() => seen.Count == XELiteLiveTests.SampleEvents);
            Assert.Empty(said);
            server.Cut();
            await Until(() => seen.Count == 2 * XELiteLiveTests.SampleEvents);
            Assert.Contains("trying again in 0.2 s", said.First(), StringComparison.Ordinal);
        }
        Assert.Empty(server.Sessions);
        Assert.Empty(server.SyntaxErrors);
        var create = server.Received.Single(received => received.Text.StartsWith("CREATE EVENT SESSION", StringComparison.Ordinal)).Text;
        Assert.Contains("long_io_detected", create, StringComparison.Ordinal);
        Assert.DoesNotContain("file_read_completed", create, StringComparison.Ordinal);
    }

    private static async Task Until(Func<bool> isSo)
    {
        for (var tries = 0; tries < 600 && !isSo(); tries++)
        {
            await Task.Delay(100, TestContext.Current.CancellationToken);
        }
        Assert.True(isSo());
    }
}

public sealed class WithoutXELiteTests
{
    [Fact]
    public async Task LiveEventsWithoutXELiteAreRefusedBeforeTheServerIsAsked()
    {
        Assert.SkipWhen(EventReader.LibraryPath is not null, "XELite was loaded by another test of this run");
        await using var server = Instance.Start();
        var problem = Assert.Throws<AgentError>(() => LiveEvents.Start(server.DataSource, _ => { }, _ => { }, CancellationToken.None));
        Assert.Contains("XELite", problem.Message, StringComparison.Ordinal);
        Assert.Empty(server.Received);
    }
}
