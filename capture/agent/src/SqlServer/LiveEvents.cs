using Microsoft.Data.SqlClient;

namespace Iotrace.Agent.SqlServer;

/// <summary>
/// Rare events of a SQL Server as they happen (checkpoints, growths, I/O over 15 seconds, phases of backups), through XELite, from an
/// event session of its own without files. A lost connection is made again with growing waits, and said. A reader that fell
/// behind would be cut off by the server: so nothing frequent is in it.
/// </summary>
internal sealed class LiveEvents : IDisposable
{
    private static readonly TimeSpan EndsWithin = TimeSpan.FromSeconds(20);

    private readonly string _server;
    private readonly string _name;
    private readonly Action<SqlEvent> _take;
    private readonly Action<string> _say;
    private readonly CancellationTokenSource _stop = new();
    private readonly Thread _thread;

    private LiveEvents(string server, Action<SqlEvent> take, Action<string> say)
    {
        (_server, _take, _say) = (server, take, say);
        _name = NameOn(Environment.MachineName);
        _thread = new(Run) { Name = "live events", IsBackground = true };
        _thread.Start();
    }

    /// <summary>The first wait after a lost connection; each next one is twice as long, a minute at most.</summary>
    public static TimeSpan FirstWait { get; set; } = TimeSpan.FromSeconds(1);

    public static string NameOn(string host) => $"iotrace-agent-live-{host}";

    /// <summary>
    /// Begin; <paramref name="take"/> is called on a thread of its own. Throws <see cref="AgentError"/> where XELite is not at hand, or the
    /// server refuses.
    /// </summary>
    public static LiveEvents Start(string server, Action<SqlEvent> take, Action<string> say, CancellationToken stop)
    {
        EventReader.Require("or leave --server out");
        var (connection, facts) = ExtendedEventSession.Connect(server, stop);
        using (connection)
        {
            ExtendedEventSession.RequireRights(server, facts);
            var there = new HashSet<string>(StringComparer.Ordinal);
            using (var command = ExtendedEventSession.Command(connection, SessionStatements.Events, null))
            using (var reader = command.ExecuteReader())
            {
                while (reader.Read())
                {
                    there.Add(reader.GetString(0));
                }
            }
            there.IntersectWith(SessionStatements.RareEvents);
            if (there.Count == 0)
            {
                throw new AgentError($"'{server}' (version {facts.Version}) has none of the events that are watched", "leave --server out");
            }
            var name = NameOn(Environment.MachineName);
            Execute(connection, SessionStatements.Stop(name));
            Execute(connection, SessionStatements.Drop(name));
            Execute(connection, SessionStatements.CreateLive(name, there));
            Execute(connection, SessionStatements.Start(name));
            return new(server, take, say);
        }
    }

    public void Dispose()
    {
        _stop.Cancel();
        _thread.Join(EndsWithin);
        try
        {
            using var connection = new SqlConnection(ExtendedEventSession.ConnectionString(_server));
            connection.Open();
            Execute(connection, SessionStatements.Stop(_name));
            Execute(connection, SessionStatements.Drop(_name));
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            _say($"the event session {Quoting.Identifier(_name)} may still run on {_server}: {SessionStatements.Drop(_name).ReplaceLineEndings(" ")} removes it");
        }
        _stop.Dispose();
    }

    private void Run()
    {
        var wait = FirstWait;
        while (!_stop.IsCancellationRequested)
        {
            var hadEvents = false;
            try
            {
                EventReader.ReadLive(ExtendedEventSession.ConnectionString(_server), _name, Take, _stop.Token);
            }
#pragma warning disable CA1031 // XELite throws what it likes: whatever it is, the stream is over
            catch (Exception problem)
#pragma warning restore CA1031
            {
                if (_stop.IsCancellationRequested)
                {
                    return;
                }
                _say($"live events of {_server} stopped: {problem.Message.ReplaceLineEndings(" ").TrimEnd('.')}; trying again in {wait.TotalSeconds:0.#} s");
            }
            wait = hadEvents ? FirstWait : wait;
            if (_stop.Token.WaitHandle.WaitOne(wait))
            {
                return;
            }
            wait = wait + wait < TimeSpan.FromMinutes(1) ? wait + wait : TimeSpan.FromMinutes(1);
            TryStartAgain();

            void Take(SqlEvent seen)
            {
                hadEvents = true;
                _take(seen);
            }
        }
    }

    /// <summary>A server that was started anew has the session, stopped.</summary>
    private void TryStartAgain()
    {
        try
        {
            using var connection = new SqlConnection(ExtendedEventSession.ConnectionString(_server));
            connection.Open();
            Execute(connection, SessionStatements.StartIfStopped(_name));
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            // The next try tells.
        }
    }

    private static void Execute(SqlConnection connection, string statement)
    {
        using var command = ExtendedEventSession.Command(connection, statement, null);
        command.ExecuteNonQuery();
    }
}
