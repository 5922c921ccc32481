using System.Buffers.Binary;
using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace Iotrace.StandIns.SqlServer;

/// <summary>A statement that a client sent, with the values of its parameters.</summary>
public sealed record Received(string Text, IReadOnlyList<object?> Parameters, IReadOnlyList<string> SyntaxErrors);

/// <summary>
/// A SQL Server as far as a recording needs one, on the loopback interface: Tabular Data Stream 7.4 without encryption, which
/// clients take with <c>Encrypt=Optional</c>. Every statement goes through Microsoft's own parser for the version that the
/// server says it is. Event sessions are made, started, stopped and dropped as SQL Server does it; everything else answers
/// what the test has told it to.
/// </summary>
public sealed class StandInServer : IAsyncDisposable
{
    private const byte Batch = 1, Call = 3, Reply = 4, Attention = 6, Login = 16, PreLogin = 18;
    private const int PacketBytes = 4096;
    private const ushort ExecuteSql = 10;

    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _closing = new();
    private readonly ConcurrentQueue<Received> _received = new();
    private readonly ConcurrentBag<Socket> _sockets = [];
    private readonly List<(Regex Pattern, Func<Received, Answer> Answer)> _answers = [];
    private readonly Task _accepting;

    public StandInServer()
    {
        _listener.Start();
        _accepting = AcceptAsync();
    }

    /// <summary>Of the release: 11 (2012) to 17 (2025).</summary>
    public int MajorVersion { get; init; } = 16;

    /// <summary>No login is taken: error 18456.</summary>
    public bool RefusesLogins { get; set; }

    /// <summary>The login may not alter event sessions: error 15151 or 15247, as SQL Server says it.</summary>
    public bool DeniesSessions { get; set; }

    /// <summary>The login does not get an answer.</summary>
    public bool HangsAtLogin { get; set; }

    /// <summary>Event sessions that exist, and whether each runs.</summary>
    public ConcurrentDictionary<string, bool> Sessions { get; } = new(StringComparer.OrdinalIgnoreCase);

    /// <summary>Called with the path of an event session's file, as the session names it, when the session starts.</summary>
    public Action<string>? Writes { get; init; }

    private readonly ConcurrentDictionary<string, string> _files = new(StringComparer.OrdinalIgnoreCase);

    /// <summary>Attentions that arrived: cancelled commands.</summary>
    public int Cancelled { get; private set; }

    /// <summary>Logins that were asked for.</summary>
    public int Logins { get; private set; }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    public string DataSource => $"127.0.0.1,{Port}";

    /// <summary>A connection string that Microsoft.Data.SqlClient takes for this server.</summary>
    public string ConnectionString =>
        $"Data Source={DataSource};User ID=dba;Password=stand-in;Encrypt=Optional;Pooling=false;Connect Timeout=5;Command Timeout=5;ConnectRetryCount=0";

    /// <summary>All statements so far, in order.</summary>
    public IReadOnlyList<Received> Received => [.. _received];

    public IEnumerable<string> SyntaxErrors => Received.SelectMany(received => received.SyntaxErrors);

    /// <summary>Answer so what matches <paramref name="pattern"/>; the latest such wish holds.</summary>
    public void Answer(string pattern, Func<Received, Answer> answer)
    {
        lock (_answers)
        {
            _answers.Insert(0, (new Regex(pattern, RegexOptions.IgnoreCase | RegexOptions.Singleline, TimeSpan.FromSeconds(5)), answer));
        }
    }

    public void Answer(string pattern, Answer answer) => Answer(pattern, _ => answer);

    /// <summary>Cut every connection: the server went down, or the network did.</summary>
    public void Cut()
    {
        foreach (var socket in _sockets)
        {
            try
            {
                socket.Close(0);
            }
            catch (SocketException)
            {
                // It is gone already.
            }
        }
    }

    public async ValueTask DisposeAsync()
    {
        if (!_closing.IsCancellationRequested)
        {
            // The listener is stopped last: between two connections it must not be found stopped.
            await _closing.CancelAsync();
            await _accepting;
            _listener.Stop();
            _closing.Dispose();
        }
    }

    private async Task AcceptAsync()
    {
        List<Task> clients = [];
        try
        {
            while (true)
            {
                var socket = await _listener.AcceptSocketAsync(_closing.Token);
                socket.NoDelay = true;
                _sockets.Add(socket);
                clients.Add(ServeAsync(new NetworkStream(socket, ownsSocket: true)));
            }
        }
        catch (Exception problem) when (problem is OperationCanceledException or SocketException)
        {
            Cut();
            await Task.WhenAll(clients);
        }
    }

    private async Task ServeAsync(NetworkStream stream)
    {
        await using var _ = stream;
        Task running = Task.CompletedTask;
        var cancel = new CancellationTokenSource();
        try
        {
            while (await ReadMessageAsync(stream) is var (kind, message))
            {
                switch (kind)
                {
                    case PreLogin:
                        // Version 16, and no encryption.
                        await SendAsync(stream, [0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF, (byte)MajorVersion, 0, 0x10, 0, 0, 0, 2]);
                        break;
                    case Login:
                        Logins++;
                        if (HangsAtLogin)
                        {
                            break;
                        }
                        await SendAsync(stream, RefusesLogins
                            ? new TdsTokens().Error(18456, "Login failed for user 'dba'.", 14).Done(0xFD, TdsTokens.HasError).ToArray()
                            : new TdsTokens().Login("master").Done(0xFD, TdsTokens.Final).ToArray());
                        break;
                    case Batch or Call:
                        await running;
                        cancel.Dispose();
                        cancel = CancellationTokenSource.CreateLinkedTokenSource(_closing.Token);
                        running = AnswerAsync(stream, Take(kind, message), kind == Call, cancel.Token);
                        break;
                    case Attention:
                        Cancelled++;
                        await cancel.CancelAsync();
                        await running;
                        await SendAsync(stream, new TdsTokens().Done(0xFD, TdsTokens.AttentionAcknowledged).ToArray());
                        break;
                    default:
                        return;
                }
            }
        }
        catch (Exception problem) when (problem is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
        {
            // The client went, or was cut off.
        }
        finally
        {
            await cancel.CancelAsync();
            await running;
            cancel.Dispose();
        }
    }

    private async Task AnswerAsync(NetworkStream stream, Received received, bool isCall, CancellationToken cancel)
    {
        try
        {
            var answer = Decide(received);
            var tokens = new TdsTokens();
            var done = isCall ? (byte)0xFF : (byte)0xFD;
            if (answer.Columns is { } columns)
            {
                tokens.Columns(columns, answer.Rows);
                foreach (var row in answer.Rows)
                {
                    tokens.Row(row, answer.Rows);
                }
            }
            if (answer.Hangs || answer.Cuts)
            {
                // What there is so far, in packets that do not end the message.
                await SendAsync(stream, tokens.ToArray(), isLast: false);
                if (answer.Cuts)
                {
                    stream.Socket.Close(0);
                    return;
                }
                await Task.Delay(Timeout.Infinite, cancel);
            }
            if (answer.Error is var (number, text))
            {
                tokens.Error(number, text, 16);
            }
            var status = answer.Error is null ? answer.Columns is null ? TdsTokens.Final : TdsTokens.HasCount : TdsTokens.HasError;
            if (isCall)
            {
                tokens.Done(done, (ushort)(status | TdsTokens.More), answer.Rows.Count).ReturnStatus(0).Done(0xFE, TdsTokens.Final);
            }
            else
            {
                tokens.Done(done, status, answer.Rows.Count);
            }
            await SendAsync(stream, tokens.ToArray());
        }
        catch (Exception problem) when (problem is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
        {
            // Cancelled, or the client went.
        }
    }

    private Received Take(byte kind, byte[] message)
    {
        // All headers: their length comes first.
        var body = message.AsSpan((int)BinaryPrimitives.ReadUInt32LittleEndian(message));
        List<object?> parameters = [];
        var text = kind == Batch ? Encoding.Unicode.GetString(body) : CallText(body, parameters);
        TSqlParser parser = MajorVersion switch
        {
            <= 11 => new TSql110Parser(initialQuotedIdentifiers: true),
            12 => new TSql120Parser(initialQuotedIdentifiers: true),
            13 => new TSql130Parser(initialQuotedIdentifiers: true),
            14 => new TSql140Parser(initialQuotedIdentifiers: true),
            15 => new TSql150Parser(initialQuotedIdentifiers: true),
            16 => new TSql160Parser(initialQuotedIdentifiers: true),
            _ => new TSql170Parser(initialQuotedIdentifiers: true),
        };
        using var reader = new StringReader(text);
        parser.Parse(reader, out var errors);
        var received = new Received(text, parameters, [.. errors.Select(error => $"{error.Message} (line {error.Line} of {text})")]);
        _received.Enqueue(received);
        return received;
    }

    /// <summary>The statement of sp_executesql, and the values that follow the declarations.</summary>
    private static string CallText(ReadOnlySpan<byte> body, List<object?> parameters)
    {
        var place = 2;
        var length = BinaryPrimitives.ReadUInt16LittleEndian(body);
        if (length != 0xFFFF)
        {
            return "EXEC " + Encoding.Unicode.GetString(body.Slice(2, length * 2));
        }
        if (BinaryPrimitives.ReadUInt16LittleEndian(body[2..]) != ExecuteSql)
        {
            throw new IOException("a call that the stand-in does not know");
        }
        place += 4;
        List<object?> values = [];
        while (place < body.Length)
        {
            place += 2 + body[place] * 2;
            values.Add(ReadValue(body, ref place));
        }
        parameters.AddRange(values.Skip(2));
        return (string)values[0]!;
    }

    private static object? ReadValue(ReadOnlySpan<byte> body, ref int place)
    {
        var type = body[place++];
        switch (type)
        {
            case 0x26 or 0x68:
                place++;
                var size = body[place++];
                object? number = size switch
                {
                    0 => null,
                    1 => (int)body[place],
                    2 => (int)BinaryPrimitives.ReadInt16LittleEndian(body[place..]),
                    4 => BinaryPrimitives.ReadInt32LittleEndian(body[place..]),
                    _ => BinaryPrimitives.ReadInt64LittleEndian(body[place..]),
                };
                place += size;
                return number;
            case 0xE7 or 0xA5:
                var isText = type == 0xE7;
                var most = BinaryPrimitives.ReadUInt16LittleEndian(body[place..]);
                place += isText ? 7 : 2;
                var bytes = most == 0xFFFF ? ReadPieces(body, ref place) : ReadShort(body, ref place);
                return bytes is null ? null : isText ? Encoding.Unicode.GetString(bytes) : bytes;
            default:
                throw new IOException($"a parameter of type 0x{type:X2}, which the stand-in does not know");
        }
    }

    private static byte[]? ReadShort(ReadOnlySpan<byte> body, ref int place)
    {
        var length = BinaryPrimitives.ReadUInt16LittleEndian(body[place..]);
        place += 2;
        if (length == 0xFFFF)
        {
            return null;
        }
        place += length;
        return body.Slice(place - length, length).ToArray();
    }

    private static byte[]? ReadPieces(ReadOnlySpan<byte> body, ref int place)
    {
        var total = BinaryPrimitives.ReadUInt64LittleEndian(body[place..]);
        place += 8;
        if (total == ulong.MaxValue)
        {
            return null;
        }
        List<byte> all = [];
        while (BinaryPrimitives.ReadInt32LittleEndian(body[place..]) is var length and not 0)
        {
            all.AddRange(body.Slice(place + 4, length));
            place += 4 + length;
        }
        place += 4;
        return [.. all];
    }

    private Answer Decide(Received received)
    {
        if (received.SyntaxErrors.Count > 0)
        {
            return SqlServer.Answer.Failure(102, received.SyntaxErrors[0]);
        }
        lock (_answers)
        {
            foreach (var (pattern, answer) in _answers)
            {
                if (pattern.IsMatch(received.Text))
                {
                    return answer(received);
                }
            }
        }
        using var reader = new StringReader(received.Text);
        var script = (TSqlScript)new TSql170Parser(initialQuotedIdentifiers: true).Parse(reader, out _);
        foreach (var statement in script.Batches.SelectMany(batch => batch.Statements))
        {
            if (Sessioned(statement) is { } failure)
            {
                return failure;
            }
        }
        return SqlServer.Answer.Nothing;
    }

    /// <summary>Do what a statement asks of an event session; null if all went well, or it is none.</summary>
    private Answer? Sessioned(TSqlStatement statement) => statement switch
    {
        AlterEventSessionStatement alter => Altered(alter.Name.Value, alter.StatementType),
        CreateEventSessionStatement create => DeniesSessions ? Denied()
            : Created(create) ? null
            : SqlServer.Answer.Failure(25631, $"The event session, \"{create.Name.Value}\", already exists.  Choose a unique name for the event session."),
        DropEventSessionStatement drop => DeniesSessions ? Denied() : Sessions.TryRemove(drop.Name.Value, out _) ? null : Missing(drop.Name.Value),
        IfStatement conditional when NameIn(conditional.ThenStatement) is { } name =>
            Holds(conditional.Predicate, name) ? Sessioned(conditional.ThenStatement) : null,
        _ => null,
    };

    private bool Created(CreateEventSessionStatement create)
    {
        if (!Sessions.TryAdd(create.Name.Value, false))
        {
            return false;
        }
        var file = create.TargetDeclarations.SelectMany(target => target.TargetDeclarationParameters)
            .FirstOrDefault(parameter => parameter.EventField.Value == "filename");
        _files[create.Name.Value] = file?.EventValue is Literal literal ? literal.Value : "";
        return true;
    }

    private static string? NameIn(TSqlStatement statement) => statement switch
    {
        AlterEventSessionStatement alter => alter.Name.Value,
        DropEventSessionStatement drop => drop.Name.Value,
        _ => null,
    };

    /// <summary>IF [NOT] EXISTS (SELECT … FROM a view of event sessions WHERE name = …): of those that exist, or that run.</summary>
    private bool Holds(BooleanExpression predicate, string name)
    {
        if (predicate is BooleanNotExpression not)
        {
            return !Holds(not.Expression, name);
        }
        var tokens = predicate.ScriptTokenStream
            .Skip(predicate.FirstTokenIndex).Take(predicate.LastTokenIndex - predicate.FirstTokenIndex + 1)
            .Select(token => token.Text).ToList();
        return Sessions.TryGetValue(name, out var runs)
            && tokens.Contains("N'" + name.Replace("'", "''", StringComparison.Ordinal) + "'")
            && (tokens.Contains("server_event_sessions") || (runs && tokens.Contains("dm_xe_sessions")));
    }

    private Answer? Altered(string name, AlterEventSessionStatementType kind)
    {
        if (DeniesSessions)
        {
            return Denied();
        }
        if (!Sessions.TryGetValue(name, out var runs))
        {
            return Missing(name);
        }
        switch (kind)
        {
            case AlterEventSessionStatementType.AlterStateIsStart when runs:
                return SqlServer.Answer.Failure(25705, "The event session has already been started.");
            case AlterEventSessionStatementType.AlterStateIsStop when !runs:
                return SqlServer.Answer.Failure(25704, "The event session has already been stopped.");
            case AlterEventSessionStatementType.AlterStateIsStart or AlterEventSessionStatementType.AlterStateIsStop:
                Sessions[name] = kind == AlterEventSessionStatementType.AlterStateIsStart;
                if (Sessions[name] && _files.GetValueOrDefault(name) is { Length: > 0 } file)
                {
                    Writes?.Invoke(file);
                }
                return null;
            default:
                return null;
        }
    }

    private static Answer Denied() => SqlServer.Answer.Failure(15247, "User does not have permission to perform this action.");

    private static Answer Missing(string name) => SqlServer.Answer.Failure(
        15151, $"Cannot find the event session '{name}', because it does not exist or you do not have permission.");

    private static async Task<(byte Kind, byte[] Message)?> ReadMessageAsync(NetworkStream stream)
    {
        using var message = new MemoryStream();
        var header = new byte[8];
        while (true)
        {
            if (await stream.ReadAtLeastAsync(header, 8, throwOnEndOfStream: false) < 8)
            {
                return null;
            }
            var body = new byte[BinaryPrimitives.ReadUInt16BigEndian(header.AsSpan(2)) - 8];
            await stream.ReadExactlyAsync(body);
            message.Write(body);
            if ((header[1] & 1) != 0)
            {
                return (header[0], message.ToArray());
            }
        }
    }

    private static async Task SendAsync(NetworkStream stream, byte[] message, bool isLast = true)
    {
        byte number = 1;
        var place = 0;
        do
        {
            var length = Math.Min(message.Length - place, PacketBytes - 8);
            var packet = new byte[8 + length];
            packet[0] = Reply;
            packet[1] = isLast && place + length == message.Length ? (byte)1 : (byte)0;
            BinaryPrimitives.WriteUInt16BigEndian(packet.AsSpan(2), (ushort)packet.Length);
            packet[6] = number;
            message.AsSpan(place, length).CopyTo(packet.AsSpan(8));
            await stream.WriteAsync(packet);
            place += length;
            number = unchecked((byte)(number + 1));
        }
        while (place < message.Length);
    }
}
