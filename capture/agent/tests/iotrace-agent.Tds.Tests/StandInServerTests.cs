using System.Runtime.CompilerServices;
using Iotrace.StandIns.SqlServer;
using Microsoft.Data.SqlClient;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>Microsoft's own client takes the stand-in for a SQL Server: what the tests beside this one rest on.</summary>
public sealed class StandInServerTests
{
    /// <summary>Microsoft.Data.SqlClient, which wants cultures, looks at this even where the program has them.</summary>
    [ModuleInitializer]
    internal static void HaveCultures() => Environment.SetEnvironmentVariable("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", null);

    [Fact]
    public async Task ValuesOfEveryTypeArriveAsTheyWereSent()
    {
        await using var server = new StandInServer();
        var moment = new DateTime(2026, 3, 4, 5, 6, 7, 890, DateTimeKind.Unspecified).AddTicks(1234);
        var longText = new string('ø', 10_000);
        object?[] first = [7, long.MaxValue, "text ☃", new byte[] { 1, 2, 3 }, true, moment, longText];
        object?[] nothing = [null, null, null, null, null, null, null];
        server.Answer("SELECT everything", new Answer { Columns = ["a", "b", "c", "d", "e", "f", "g"], Rows = [first, nothing] });
        await using var connection = await OpenAsync(server);
        await using var command = new SqlCommand("SELECT everything FROM somewhere;", connection);
        await using var reader = await command.ExecuteReaderAsync(TestContext.Current.CancellationToken);

        Assert.True(await reader.ReadAsync(TestContext.Current.CancellationToken));
        Assert.Equal(first, Enumerable.Range(0, first.Length).Select(reader.GetValue));
        Assert.True(await reader.ReadAsync(TestContext.Current.CancellationToken));
        Assert.All(Enumerable.Range(0, first.Length), column => Assert.True(reader.IsDBNull(column)));
        Assert.False(await reader.ReadAsync(TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task ParametersOfACallAreRead()
    {
        await using var server = new StandInServer();
        server.Answer("SELECT", received => Answer.Value("seen", string.Join('|', received.Parameters)));
        await using var connection = await OpenAsync(server);
        await using var command = new SqlCommand("SELECT @name, @count;", connection);
        command.Parameters.Add(new("@name", System.Data.SqlDbType.NVarChar, 256) { Value = "it's" });
        command.Parameters.Add(new("@count", 42));
        Assert.Equal("it's|42", await command.ExecuteScalarAsync(TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task WhatIsNoTSqlIsAnErrorAndRemembered()
    {
        await using var server = new StandInServer();
        await using var connection = await OpenAsync(server);
        await using var command = new SqlCommand("CREATE EVENT SESION [x] ON SERVER;", connection);
        var problem = await Assert.ThrowsAsync<SqlException>(() => command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken));
        Assert.Equal(102, problem.Number);
        Assert.NotEmpty(server.SyntaxErrors);
    }

    [Fact]
    public async Task EventSessionsBehaveAsSqlServersDo()
    {
        await using var server = new StandInServer();
        await using var connection = await OpenAsync(server);
        const string create = "CREATE EVENT SESSION [a]]b] ON SERVER ADD EVENT sqlserver.checkpoint_begin;";
        await RunAsync(create);
        Assert.Equal(25631, await FailureAsync(create));
        Assert.Equal(25704, await FailureAsync("ALTER EVENT SESSION [a]]b] ON SERVER STATE = STOP;"));
        await RunAsync("ALTER EVENT SESSION [a]]b] ON SERVER STATE = START;");
        Assert.True(server.Sessions["a]b"]);
        Assert.Equal(25705, await FailureAsync("ALTER EVENT SESSION [a]]b] ON SERVER STATE = START;"));
        Assert.Equal(15151, await FailureAsync("DROP EVENT SESSION [other] ON SERVER;"));
        await RunAsync("IF EXISTS (SELECT 1 FROM sys.server_event_sessions WHERE name = N'a]b') DROP EVENT SESSION [a]]b] ON SERVER;");
        Assert.Empty(server.Sessions);

        async Task RunAsync(string statement)
        {
            await using var command = new SqlCommand(statement, connection);
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        }

        async Task<int> FailureAsync(string statement) =>
            (await Assert.ThrowsAsync<SqlException>(() => RunAsync(statement))).Number;
    }

    [Fact]
    public async Task ALoginCanBeRefusedAndAConnectionCut()
    {
        await using var server = new StandInServer { RefusesLogins = true };
        Assert.Equal(18456, (await Assert.ThrowsAsync<SqlException>(() => OpenAsync(server))).Number);
        server.RefusesLogins = false;
        server.Answer("SELECT", new Answer { Columns = ["a"], Rows = [], Cuts = true });
        await using var connection = await OpenAsync(server);
        await using var command = new SqlCommand("SELECT a FROM b;", connection);
        await Assert.ThrowsAsync<SqlException>(() => command.ExecuteScalarAsync(TestContext.Current.CancellationToken));
        Assert.NotEqual(System.Data.ConnectionState.Open, connection.State);
    }

    [Fact]
    public async Task ACommandThatHangsCanBeCancelledAndTheConnectionGoesOn()
    {
        await using var server = new StandInServer();
        server.Answer("SELECT 1", new Answer { Columns = ["a"], Rows = [[1], [2]], Hangs = true });
        server.Answer("SELECT 2", Answer.Value("a", 2));
        await using var connection = await OpenAsync(server);
        await using var command = new SqlCommand("SELECT 1;", connection);
        using var stop = new CancellationTokenSource();
        var running = Task.Run(
            async () =>
            {
                await using var reader = await command.ExecuteReaderAsync(stop.Token);
                while (await reader.ReadAsync(stop.Token))
                {
                    await stop.CancelAsync();
                }
            },
            TestContext.Current.CancellationToken);
        await Assert.ThrowsAnyAsync<Exception>(() => running);
        Assert.Equal(1, server.Cancelled);
        await using var next = new SqlCommand("SELECT 2;", connection);
        Assert.Equal(2, await next.ExecuteScalarAsync(TestContext.Current.CancellationToken));
    }

    private static async Task<SqlConnection> OpenAsync(StandInServer server)
    {
        var connection = new SqlConnection(server.ConnectionString);
        await connection.OpenAsync(TestContext.Current.CancellationToken);
        return connection;
    }
}
