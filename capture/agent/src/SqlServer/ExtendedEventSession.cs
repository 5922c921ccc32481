using System.Diagnostics;
using Iotrace.Agent.Tracing;
using Microsoft.Data.SqlClient;

namespace Iotrace.Agent.SqlServer;

/// <summary>What the server is and what the login may do.</summary>
internal sealed record ServerFacts(
    string Version, int MajorVersion, string HostName, string InstanceName, bool MayViewState, bool MayAlterSessions,
    int SessionsOfOurName, string LogFolder);

/// <summary>
/// An Extended Events session on a SQL Server, from creation to removal. Its events go to files in the server's log folder,
/// which the agent moves into the recording's folder when the server is this host.
/// </summary>
internal sealed class ExtendedEventSession : IDisposable
{
    private const int FirstWithMaxDuration = 17;
    private const int CommandSeconds = 15;
    private static readonly TimeSpan FirstWait = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan LongestWait = TimeSpan.FromSeconds(60);

    private readonly string _server;
    private readonly string _connectionString;
    private readonly string _name;
    private SqlConnection _connection;
    private Losses _losses;
    private TimeSpan _wait = FirstWait;
    private long _triedAt;

    private ExtendedEventSession(string server, SqlConnection connection, string connectionString, ServerFacts facts, string file)
    {
        (_server, _connection, _connectionString, Facts, FilePattern) = (server, connection, connectionString, facts, file);
        _name = NameOn(Environment.MachineName);
    }

    public ServerFacts Facts { get; }

    /// <summary>Where the server writes: the path of the session's files without what SQL Server appends and the ending.</summary>
    public string FilePattern { get; }

    /// <summary>What the server tells of its events.</summary>
    public EventKinds Kinds { get; private set; } = new(new Dictionary<string, string>(StringComparer.Ordinal));

    /// <summary>What went wrong without ending anything.</summary>
    public List<string> Notes { get; } = [];

    /// <summary>Several hosts' agents may use one server.</summary>
    public static string NameOn(string host) => $"iotrace-agent-{host}";

    /// <summary>
    /// The connection: the Windows login of whoever runs this, or the SQL login that IOTRACE_SQL_USER and IOTRACE_SQL_PASSWORD
    /// name in the environment, where no command line shows it. Encrypted where the server can.
    /// </summary>
    public static string ConnectionString(string server)
    {
        var user = Environment.GetEnvironmentVariable("IOTRACE_SQL_USER");
        var builder = new SqlConnectionStringBuilder
        {
            DataSource = server,
            InitialCatalog = "master",
            ApplicationName = "iotrace-agent",
            Encrypt = SqlConnectionEncryptOption.Optional,
            TrustServerCertificate = true,
            ConnectTimeout = CommandSeconds,
            ConnectRetryCount = 0,
            Pooling = false,
            IntegratedSecurity = string.IsNullOrEmpty(user),
        };
        if (!string.IsNullOrEmpty(user))
        {
            builder.UserID = user;
            builder.Password = Environment.GetEnvironmentVariable("IOTRACE_SQL_PASSWORD") ?? "";
        }
        return builder.ConnectionString;
    }

    /// <summary>Connect and look. Throws <see cref="AgentError"/>.</summary>
    public static (SqlConnection Connection, ServerFacts Facts) Connect(string server, CancellationToken stop)
    {
        SqlConnection? connection = null;
        try
        {
            connection = new(ConnectionString(server));
            connection.OpenAsync(stop).GetAwaiter().GetResult();
            return (connection, ReadFacts(connection, stop));
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException or ArgumentException)
        {
            connection?.Dispose();
            stop.ThrowIfCancellationRequested();
            throw Refused(server, problem);
        }
        catch
        {
            connection?.Dispose();
            throw;
        }
    }

    /// <summary>Create and start the session. Throws <see cref="AgentError"/>; nothing is left on the server then.</summary>
    public static ExtendedEventSession Start(string server, TimeSpan? length, Action<string> say, CancellationToken stop)
    {
        var (connection, facts) = Connect(server, stop);
        try
        {
            RequireRights(server, facts);
            var stamp = DateTime.UtcNow.ToString("yyyyMMddHHmmss", System.Globalization.CultureInfo.InvariantCulture);
            var session = new ExtendedEventSession(
                server, connection, ConnectionString(server), facts, facts.LogFolder + $"iotrace_agent_{stamp}");
            try
            {
                session.Create(length, say, stop);
                return session;
            }
            catch
            {
                session.TryExecute(SessionStatements.Drop(session._name));
                throw;
            }
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            connection.Dispose();
            stop.ThrowIfCancellationRequested();
            throw Refused(server, problem);
        }
        catch
        {
            connection.Dispose();
            throw;
        }
    }

    /// <summary>What the session dropped so far; what was known before, where the server does not answer.</summary>
    public Losses PollLosses()
    {
        if (!TryConnected())
        {
            return _losses;
        }
        try
        {
            using var command = Command(_connection, SessionStatements.Losses, _name);
            using var reader = command.ExecuteReader();
            if (reader.Read())
            {
                _losses = new(Convert.ToInt64(reader.GetValue(0)), Convert.ToInt64(reader.GetValue(1)));
            }
            _wait = FirstWait;
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            Lost(problem);
        }
        return _losses;
    }

    /// <summary>Files as the server knows them: their path, what they are, and whose.</summary>
    public Dictionary<string, (sbyte Role, string? Database)> Files()
    {
        var files = new Dictionary<string, (sbyte, string?)>(StringComparer.OrdinalIgnoreCase);
        try
        {
            using var command = Command(_connection, SessionStatements.Files, null);
            using var reader = command.ExecuteReader();
            while (reader.Read())
            {
                var isLog = reader.GetString(1) == "LOG";
                var isTempdb = Convert.ToInt32(reader.GetValue(3)) == 2;
                files[reader.GetString(0)] = (
                    (sbyte)((isLog ? 1 : 0) + (isTempdb ? 2 : 0)), reader.IsDBNull(2) ? null : reader.GetString(2));
            }
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            Notes.Add($"roles of files follow from their paths: SQL Server did not tell them ({problem.Message.TrimEnd('.')})");
        }
        return files;
    }

    /// <summary>Stop and remove the session, and move its files to <paramref name="folder"/> if the server is this host: those that came there.</summary>
    public IReadOnlyList<string> Finish(string folder)
    {
        var moved = new List<string>();
        _wait = TimeSpan.Zero;
        if (!TryConnected() || !TryExecute(SessionStatements.Stop(_name)) || !TryExecute(SessionStatements.Drop(_name)))
        {
            Notes.Add(
                $"the event session {Quoting.Identifier(_name)} may still run on {_server}: {SessionStatements.Drop(_name).ReplaceLineEndings(" ")} removes it");
        }
        if (!Facts.HostName.Equals(Environment.MachineName, StringComparison.OrdinalIgnoreCase))
        {
            Notes.Add($"the sql layer is in files on {Facts.HostName}: copy {FilePattern}*.xel into the recording's folder before the import");
            return moved;
        }
        try
        {
            var files = Directory.GetFiles(Path.GetDirectoryName(FilePattern) ?? ".", Path.GetFileName(FilePattern) + "*.xel");
            foreach (var file in files.Order(StringComparer.Ordinal))
            {
                var copy = Path.Combine(folder, Path.GetFileName(file));
                File.Copy(file, copy);
                moved.Add(copy);
                File.Delete(file);
            }
            if (files.Length == 0)
            {
                Notes.Add($"SQL Server left no files at {FilePattern}*.xel");
            }
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            var some = moved.Count > 0 ? $"but for {Words.Counted(moved.Count, "file")} the sql layer stays" : "the sql layer stays";
            Notes.Add($"{some} in {FilePattern}*.xel: {problem.Message.TrimEnd('.')}; copy those files into the recording's folder before the import");
            return []; // rows of some would hide that the others are not there
        }
        return moved;
    }

    public void Dispose() => _connection.Dispose();

    private void Create(TimeSpan? length, Action<string> say, CancellationToken stop)
    {
        if (Facts.SessionsOfOurName > 0)
        {
            say($"removed the event session {Quoting.Identifier(_name)} that a killed agent had left on {_server}");
            Execute(SessionStatements.Stop(_name));
            Execute(SessionStatements.Drop(_name));
        }
        var waits = new HashSet<string>(SessionStatements.Waits, StringComparer.Ordinal);
        var keys = new List<int>();
        using (var command = Command(_connection, SessionStatements.WaitTypes, null))
        using (var reader = command.ExecuteReader())
        {
            while (reader.Read())
            {
                if (waits.Contains(reader.GetString(1)))
                {
                    keys.Add(Convert.ToInt32(reader.GetValue(0)));
                }
            }
        }
        Kinds = new(ReadDurations());
        stop.ThrowIfCancellationRequested();
        var choice = new EventChoice(Names(SessionStatements.Events), Names(SessionStatements.EventsWithPath), keys);
        if (!SessionStatements.FileEvents.Any(choice.Events.Contains))
        {
            throw new AgentError(
                $"'{_server}' (version {Facts.Version}) has no events of file I/O", "record without sql: leave --server out");
        }
        foreach (var missing in SessionStatements.RareEvents.Where(name => !choice.Events.Contains(name)))
        {
            Notes.Add($"this version of SQL Server has no event {missing}");
        }
        Execute(SessionStatements.Create(_name, FilePattern + ".xel", choice));
        Execute(SessionStatements.Start(_name));
        if (length is { } planned && Facts.MajorVersion >= FirstWithMaxDuration && !TryExecute(SessionStatements.EndBy(_name, planned)))
        {
            Notes.Add("the event session has no end of its own: this build of SQL Server refused MAX_DURATION");
        }
    }

    private Dictionary<string, string> ReadDurations()
    {
        var durations = new Dictionary<string, string>(StringComparer.Ordinal);
        using var command = Command(_connection, SessionStatements.Durations, null);
        using var reader = command.ExecuteReader();
        while (reader.Read())
        {
            durations[reader.GetString(0)] = reader.IsDBNull(1) ? "" : reader.GetString(1);
        }
        return durations;
    }

    private HashSet<string> Names(string query)
    {
        var names = new HashSet<string>(StringComparer.Ordinal);
        using var command = Command(_connection, query, null);
        using var reader = command.ExecuteReader();
        while (reader.Read())
        {
            names.Add(reader.GetString(0));
        }
        return names;
    }

    private void Execute(string statement)
    {
        using var command = Command(_connection, statement, null);
        command.ExecuteNonQuery();
    }

    private bool TryExecute(string statement)
    {
        try
        {
            Execute(statement);
            return true;
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            return false;
        }
    }

    /// <summary>A lost connection is made again, with growing waits, by whoever next asks the server.</summary>
    private bool TryConnected()
    {
        if (_connection.State == System.Data.ConnectionState.Open)
        {
            return true;
        }
        if (Stopwatch.GetElapsedTime(_triedAt) < _wait)
        {
            return false;
        }
        _triedAt = Stopwatch.GetTimestamp();
        try
        {
            _connection.Dispose();
            _connection = new(_connectionString);
            _connection.Open();
            Notes.Add($"the connection to {_server} was made again");
            return true;
        }
        catch (Exception problem) when (problem is SqlException or InvalidOperationException)
        {
            _wait = _wait + _wait < LongestWait ? _wait + _wait : LongestWait;
            return false;
        }
    }

    private void Lost(Exception problem)
    {
        if (_connection.State != System.Data.ConnectionState.Open)
        {
            _triedAt = Stopwatch.GetTimestamp();
            Notes.Add($"the connection to {_server} was lost: {problem.Message.TrimEnd('.')}");
        }
    }

    // Every statement is one of SessionStatements, whose names are quoted there.
#pragma warning disable CA2100
    internal static SqlCommand Command(SqlConnection connection, string statement, string? name)
    {
        var command = new SqlCommand(statement, connection) { CommandTimeout = CommandSeconds };
        if (name is not null)
        {
            command.Parameters.Add(new("@name", System.Data.SqlDbType.NVarChar, 256) { Value = name });
        }
        return command;
    }
#pragma warning restore CA2100

    private static ServerFacts ReadFacts(SqlConnection connection, CancellationToken stop)
    {
        using var command = Command(connection, SessionStatements.Facts, NameOn(Environment.MachineName));
        using var reader = command.ExecuteReaderAsync(stop).GetAwaiter().GetResult();
        if (!reader.ReadAsync(stop).GetAwaiter().GetResult())
        {
            throw new InvalidOperationException("the server told nothing of itself");
        }
        var log = Text(reader, 7);
        return new(
            Text(reader, 0), Convert.ToInt32(reader.GetValue(1)), Text(reader, 2), Text(reader, 3),
            Convert.ToInt32(reader.GetValue(4)) == 1, Convert.ToInt32(reader.GetValue(5)) == 1,
            Convert.ToInt32(reader.GetValue(6)), log[..(log.LastIndexOf('\\') + 1)]);

        static string Text(SqlDataReader reader, int column) => reader.IsDBNull(column) ? "" : reader.GetString(column);
    }

    internal static void RequireRights(string server, ServerFacts facts)
    {
        if (!facts.MayAlterSessions)
        {
            throw new AgentError(
                $"your login may make no event session on '{server}'", "a sysadmin grants it: GRANT ALTER ANY EVENT SESSION TO [LOGIN]");
        }
        if (!facts.MayViewState)
        {
            throw new AgentError(
                $"your login may not see the state of '{server}'", "a sysadmin grants it: GRANT VIEW SERVER STATE TO [LOGIN]");
        }
    }

    private static AgentError Refused(string server, Exception problem) => problem switch
    {
        SqlException { Number: 18456 or 18452 } => new(
            $"'{server}' refuses this login", "use a Windows login that it knows, or set IOTRACE_SQL_USER and IOTRACE_SQL_PASSWORD", problem),
        SqlException { Number: -2 } => new(
            $"'{server}' did not answer within {CommandSeconds} s", "is it up, and is this its name? Or record without sql", problem),
        _ => new(
            $"cannot use '{server}': {problem.Message.ReplaceLineEndings(" ").TrimEnd('.')}",
            @"check the name (SERVER, SERVER\INST or tcp:SERVER,PORT), or record without sql", problem),
    };
}
