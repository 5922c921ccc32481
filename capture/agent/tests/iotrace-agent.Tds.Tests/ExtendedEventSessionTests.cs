using Iotrace.Agent.SqlServer;
using Iotrace.StandIns.SqlServer;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>The agent's event session on a SQL Server, from the first statement to the last, over the wire.</summary>
public sealed class ExtendedEventSessionTests
{
    private static readonly string OurSession = ExtendedEventSession.NameOn(Environment.MachineName);
    private readonly List<string> _said = [];

    [Theory]
    [InlineData(11)]
    [InlineData(13)]
    [InlineData(15)]
    [InlineData(16)]
    [InlineData(17)]
    public async Task ASessionIsMadeStartedReadStoppedAndDropped(int version)
    {
        await using var server = Instance.Start(version, dropped: (5, 2));
        using (var session = Start(server, TimeSpan.FromMinutes(30)))
        {
            Assert.True(server.Sessions[OurSession]);
            Assert.Equal(new(5, 2), session.PollLosses());
            Assert.Equal("sales", session.Files()[@"E:\data\sales.mdf"].Database);
            session.Finish(Path.GetTempPath());
            Assert.Empty(server.Sessions);
            Assert.Contains(session.Notes, note => note.Contains("SQLHOST", StringComparison.Ordinal));
        }
        // The published grammar does not know MAX_DURATION yet, which SQL Server 2025 documents; it may fail, and did.
        Assert.All(server.SyntaxErrors, error => Assert.Contains("MAX_DURATION", error, StringComparison.Ordinal));
        Assert.Equal(version == 17, server.SyntaxErrors.Any());
        var create = Assert.Single(server.Received, received => received.Text.StartsWith("CREATE EVENT SESSION", StringComparison.Ordinal)).Text;
        Assert.Contains("ALLOW_MULTIPLE_EVENT_LOSS", create, StringComparison.Ordinal);
        Assert.Contains("wait_type = 66 OR wait_type = 182", create, StringComparison.Ordinal);
        Assert.DoesNotContain("99", create, StringComparison.Ordinal);
        Assert.DoesNotContain("NO_EVENT_LOSS", create, StringComparison.Ordinal);
    }

    [Fact]
    public async Task EventsThatAnInstanceLacksAreLeftOutAndTold()
    {
        await using var server = Instance.Start(11, events: ["file_read_completed", "file_write_completed"]);
        using var session = Start(server);
        var create = server.Received.Single(received => received.Text.StartsWith("CREATE EVENT SESSION", StringComparison.Ordinal)).Text;
        Assert.DoesNotContain("checkpoint_begin", create, StringComparison.Ordinal);
        Assert.Contains(session.Notes, note => note.Contains("checkpoint_begin", StringComparison.Ordinal));
        Assert.Empty(server.SyntaxErrors);
    }

    [Theory]
    [InlineData(@"D:\it's [a] log\ERRORLOG")]
    [InlineData(@"D:\x'); DROP DATABASE sales; --\ERRORLOG")]
    public async Task WordsOfTheServerAreNeverReadAsCode(string errorLog)
    {
        await using var server = Instance.Start(errorLog: errorLog);
        using var session = Start(server);
        Assert.Empty(server.SyntaxErrors);
        var create = server.Received.Single(received => received.Text.StartsWith("CREATE EVENT SESSION", StringComparison.Ordinal)).Text;
        Assert.Contains("N'" + session.FilePattern.Replace("'", "''", StringComparison.Ordinal), create, StringComparison.Ordinal);
    }

    [Fact]
    public async Task ALeftoverSessionIsReplacedAndSaid()
    {
        await using var server = Instance.Start();
        server.Sessions[OurSession] = true;
        server.Sessions["system_health"] = true;
        using var session = Start(server);
        Assert.Contains(_said, said => said.Contains(OurSession, StringComparison.Ordinal));
        Assert.True(server.Sessions[OurSession]);
        Assert.True(server.Sessions["system_health"]);
    }

    [Fact]
    public async Task ARefusedLoginIsOneSentenceWithTheWayOut()
    {
        await using var server = Instance.Start();
        server.RefusesLogins = true;
        var problem = Assert.Throws<AgentError>(() => Start(server));
        Assert.Contains("refuses this login", problem.Message, StringComparison.Ordinal);
        Assert.Contains(server.DataSource, problem.Message, StringComparison.Ordinal);
        Assert.NotEmpty(problem.Hint);
    }

    [Theory]
    [InlineData(false, true, "ALTER ANY EVENT SESSION")]
    [InlineData(true, false, "VIEW SERVER STATE")]
    public async Task AMissingPermissionIsNamed(bool mayAlter, bool mayView, string permission)
    {
        await using var server = Instance.Start(mayAlter: mayAlter, mayView: mayView);
        var problem = Assert.Throws<AgentError>(() => Start(server));
        Assert.Contains(permission, problem.Hint, StringComparison.Ordinal);
        Assert.Empty(server.Sessions);
    }

    [Fact]
    public async Task APermissionThatIsDeniedOnlyWhenUsedIsAnErrorTooAndLeavesNothing()
    {
        await using var server = Instance.Start();
        server.DeniesSessions = true;
        var problem = Assert.Throws<AgentError>(() => Start(server));
        Assert.Contains("permission", problem.Message, StringComparison.Ordinal);
        Assert.Empty(server.Sessions);
    }

    [Fact]
    public async Task ASessionThatDoesNotStartIsDropped()
    {
        await using var server = Instance.Start();
        server.Answer("STATE = START", Answer.Failure(25602, "The target, \"event_file\", encountered a configuration error."));
        var problem = Assert.Throws<AgentError>(() => Start(server));
        Assert.Contains("configuration error", problem.Message, StringComparison.Ordinal);
        Assert.Empty(server.Sessions);
    }

    [Fact]
    public async Task ALostConnectionIsMadeAgainAndNoted()
    {
        await using var server = Instance.Start(dropped: (3, 0));
        using var session = Start(server);
        Assert.Equal(3, session.PollLosses().Events);
        server.Cut();
        Assert.Equal(3, session.PollLosses().Events);
        Assert.Contains(session.Notes, note => note.Contains("lost", StringComparison.Ordinal));
        session.Finish(Path.GetTempPath());
        Assert.Empty(server.Sessions);
        Assert.Contains(session.Notes, note => note.Contains("made again", StringComparison.Ordinal));
    }

    [Fact]
    public async Task AConnectionThatIsCutInTheMiddleOfAnAnswerIsNoted()
    {
        await using var server = Instance.Start();
        using var session = Start(server);
        server.Answer("dropped_event_count", new Answer { Columns = ["a", "b"], Rows = [], Cuts = true });
        _ = session.PollLosses();
        server.Answer("dropped_event_count", new Answer { Columns = ["a", "b"], Rows = [[8L, 0L]] });
        session.Finish(Path.GetTempPath());
        Assert.Empty(server.Sessions);
        Assert.Contains(session.Notes, note => note.Contains("lost", StringComparison.Ordinal));
    }

    [Fact]
    public async Task AServerThatIsGoneAtTheEndIsToldWithWhatRemovesTheSession()
    {
        await using var server = Instance.Start();
        using var session = Start(server);
        await server.DisposeAsync();
        session.Finish(Path.GetTempPath());
        Assert.Contains(session.Notes, note => note.Contains("DROP EVENT SESSION", StringComparison.Ordinal));
    }

    private ExtendedEventSession Start(StandInServer server, TimeSpan? length = null) =>
        ExtendedEventSession.Start(server.DataSource, length, _said.Add, TestContext.Current.CancellationToken);
}

/// <summary>Beside the others: these wait.</summary>
public sealed class HangingServerTests
{
    [Fact]
    public async Task CancellingEndsTheWaitForAServerThatHangsAndReachesIt()
    {
        await using var server = Instance.Start();
        server.Answer("SERVERPROPERTY", new Answer { Columns = ["a"], Rows = [], Hangs = true });
        using var stop = new CancellationTokenSource();
        var connecting = Task.Run(() => ExtendedEventSession.Start(server.DataSource, null, _ => { }, stop.Token), TestContext.Current.CancellationToken);
        while (server.Received.Count == 0 && !connecting.IsCompleted)
        {
            await Task.Delay(10, TestContext.Current.CancellationToken);
        }
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => connecting);
        Assert.Equal(1, server.Cancelled);
    }

    [Fact]
    public async Task AServerThatHangsIsGivenUp()
    {
        await using var server = Instance.Start();
        server.Answer("SERVERPROPERTY", new Answer { Columns = ["a"], Rows = [], Hangs = true });
        var problem = await Assert.ThrowsAsync<AgentError>(() => Task.Run(
            () => ExtendedEventSession.Start(server.DataSource, null, _ => { }, TestContext.Current.CancellationToken)));
        Assert.Contains("did not answer", problem.Message, StringComparison.Ordinal);
    }
}

public sealed class HangingLoginTests
{
    [Fact]
    public async Task AServerThatHangsAtLoginIsGivenUp()
    {
        await using var server = Instance.Start();
        server.HangsAtLogin = true;
        var problem = await Assert.ThrowsAsync<AgentError>(() => Task.Run(
            () => ExtendedEventSession.Start(server.DataSource, null, _ => { }, TestContext.Current.CancellationToken)));
        Assert.Contains(server.DataSource, problem.Message, StringComparison.Ordinal);
    }
}
