using System.Text.Json;
using System.Text.Json.Nodes;

namespace Iotrace.StandIns.SqlServer;

/// <summary>
/// The stand-in as a program, for agents that run elsewhere, such as under Wine: <c>sql-server SCENARIO</c>, a file of JSON.
/// The port is the first line of its output; at the end of its input it tells what it received, as JSON, and ends.
/// </summary>
internal static class Program
{
    private sealed record Scenario
    {
        /// <summary>The name of the host that the instance says it runs on.</summary>
        public string Host { get; init; } = "SQLHOST";

        /// <summary>The instance's error log, as the instance names it; sessions write beside it.</summary>
        public string ErrorLog { get; init; } = @"D:\MSSQL\Log\ERRORLOG";

        /// <summary>The folder of the error log as this machine names it, and the .xel file that a session writes into it.</summary>
        public string? LogFolder { get; init; }

        public string? Xel { get; init; }

        /// <summary>An .xel file whose buffers a live stream plays.</summary>
        public string? Live { get; init; }

        public bool MayAlter { get; init; } = true;

        /// <summary>What the instance says of the durations of events.</summary>
        public Dictionary<string, string>? Durations { get; init; }
    }

    private static readonly JsonSerializerOptions Web = new(JsonSerializerDefaults.Web);

    public static async Task<int> Main(string[] arguments)
    {
        var scenario = JsonSerializer.Deserialize<Scenario>(
            await File.ReadAllTextAsync(arguments[0]), Web)!;
        await using var server = Instance.Start(
            host: scenario.Host, errorLog: scenario.ErrorLog, mayAlter: scenario.MayAlter, durations: scenario.Durations, writes: file =>
            {
                if (scenario is { LogFolder: { } folder, Xel: { } xel })
                {
                    // SQL Server appends which of the session's files it is, and when it was begun.
                    var name = Path.GetFileNameWithoutExtension(file[(file.LastIndexOf('\\') + 1)..]);
                    File.Copy(xel, Path.Combine(folder, name + "_0_133536384000000000.xel"));
                }
            });
        if (scenario.Live is { } live)
        {
            var buffers = EventBuffers.Of(await File.ReadAllBytesAsync(live));
            server.Answer("fn_MSxe_read_event_stream", _ => new() { Columns = ["type", "data"], Rows = buffers, Hangs = true });
        }
        Console.WriteLine(server.Port);
        await Console.In.ReadToEndAsync();
        Console.WriteLine(new JsonObject
        {
            ["received"] = new JsonArray([.. server.Received.Select(received => JsonValue.Create(received.Text))]),
            ["syntax_errors"] = new JsonArray([.. server.SyntaxErrors.Select(error => JsonValue.Create(error))]),
            ["sessions"] = new JsonArray([.. server.Sessions.Keys.Select(name => JsonValue.Create(name))]),
        }.ToJsonString());
        return 0;
    }
}
