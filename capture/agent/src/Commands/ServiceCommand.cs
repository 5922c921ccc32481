using System.CommandLine;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.Versioning;
using System.Text;
using Iotrace.Agent.FlightRecorder;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Iotrace.Agent.Commands;

/// <summary>
/// The flight recorder as a Windows service: started late, under the local system's account or one that is named, started
/// again when it fails, its words in the event log. Windows' own sc.exe does the work.
/// </summary>
internal static class ServiceCommand
{
    public const string Name = "iotrace-agent";
    private const string RunWord = "run";

    public static Command Create(CommandContext context)
    {
        var account = new Option<string?>("--account")
        {
            Description = @"A service account that needs no password here: DOMAIN\NAME$ or NT SERVICE\iotrace-agent. Default: the local system.",
        };
        var install = new Command("install", "Install keep as a service and start it.") { account };
        var run = new Command(RunWord, "What the service runs; Windows starts it.") { Hidden = true };
        foreach (var option in KeepCommand.Options)
        {
            install.Options.Add(option);
            run.Options.Add(option);
        }
        install.SetAction(parsed => context.Run(parsed, _ => Install(
            KeepCommand.Read(parsed), parsed.GetValue(account), parsed.GetValue(KeepCommand.MaxSize), context.Output,
            parsed.GetRequiredValue(KeepCommand.Last), parsed.GetValue(KeepCommand.After)!)));
        run.SetAction(parsed => Run(KeepCommand.Read(parsed)));
        var remove = new Command("remove", "Stop and remove the service. Recordings stay.");
        remove.SetAction(parsed => context.Run(parsed, _ =>
        {
            RequireWindows();
            Control("stop", Name);
            Require(Control("delete", Name), "remove");
            context.Output.Say("removed the service; its recordings stay");
            return ExitStatus.Done;
        }));
        var status = new Command("status", "Tell whether the service runs; status 1 if not.");
        status.SetAction(parsed => context.Run(parsed, _ =>
        {
            RequireWindows();
            var (code, text) = Control("query", Name);
            var isRunning = code == 0 && text.Contains("RUNNING", StringComparison.Ordinal);
            context.Output.Line(code != 0 ? "the service is not installed" : isRunning ? "the service runs" : "the service is installed and does not run");
            return isRunning ? ExitStatus.Done : ExitStatus.No;
        }));
        return new("service", "Run the flight recorder as a Windows service.") { install, remove, status, run };
    }

    /// <summary>The command line that Windows starts, each argument quoted as C programs split it.</summary>
    public static string CommandLine(string program, KeepArgs args, string last, string after, int maxSize)
    {
        List<string> words =
        [
            program, "service", RunWord, "--output", Path.GetFullPath(args.Output), "--last", last, "--after", after,
            "--max-size", maxSize.ToString(CultureInfo.InvariantCulture),
            "--most", args.Limits.RecordingsMax.ToString(CultureInfo.InvariantCulture),
        ];
        foreach (var condition in args.When)
        {
            words.Add("--when");
            words.Add(condition);
        }
        if (args.Disks.Count > 0)
        {
            words.Add("--disks");
            words.Add(string.Join(',', args.Disks));
        }
        if (args.Server is { } server)
        {
            words.Add("--server");
            words.Add(server);
        }
        if (args.Anonymize)
        {
            words.Add("--anonymize");
        }
        return string.Join(' ', words.Select(Quoted));
    }

    /// <summary>One argument as the C library splits it: quotes escaped, and backslashes before a quote doubled.</summary>
    public static string Quoted(string word)
    {
        var text = new StringBuilder("\"");
        var backslashes = 0;
        foreach (var sign in word)
        {
            if (sign == '"')
            {
                text.Append('\\', backslashes + 1);
            }
            backslashes = sign == '\\' ? backslashes + 1 : 0;
            text.Append(sign);
        }
        return text.Append('\\', backslashes).Append('"').ToString();
    }

    private static int Install(KeepArgs args, string? account, int maxSize, Output output, string last, string after)
    {
        RequireWindows();
        var program = Environment.ProcessPath ?? throw new AgentError("the program's own path is not known");
        OutputFolder.CreateOrOpen(args.Output);
        Require(
            Control(
                "create", Name, "binPath=", CommandLine(program, args, last, after, maxSize), "start=", "delayed-auto",
                "obj=", account ?? "LocalSystem", "DisplayName=", "iotrace flight recorder"),
            "install");
        Require(Control("description", Name, "Keeps the last minutes of disk I/O, and records them when a condition holds."), "describe");
        // Again after a minute, at most three times a day.
        Require(Control("failure", Name, "reset=", "86400", "actions=", "restart/60000/restart/60000/restart/60000"), "set the recovery of");
        Require(Control("failureflag", Name, "1"), "set the recovery of");
        Require(Control("start", Name), "start");
        output.Say("installed and started the service; its words are in the event log");
        return ExitStatus.Done;
    }

    private static void RequireWindows()
    {
        if (!OperatingSystem.IsWindows())
        {
            RecordHost.OfThisMachine();
        }
    }

    private static (int Code, string Text) Control(params string[] words)
    {
        var start = new ProcessStartInfo(Path.Combine(Environment.SystemDirectory, "sc.exe"))
        {
            RedirectStandardOutput = true,
            UseShellExecute = false,
        };
        foreach (var word in words)
        {
            start.ArgumentList.Add(word);
        }
        using var process = Process.Start(start) ?? throw new AgentError("sc.exe did not start");
        var text = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        return (process.ExitCode, text);
    }

    private static void Require((int Code, string Text) answer, string what)
    {
        if (answer.Code != 0)
        {
            throw new AgentError(
                $"Windows did not {what} the service: {answer.Text.ReplaceLineEndings(" ").Trim()}",
                "an elevated window is needed; iotrace-agent service status tells what there is");
        }
    }

    /// <summary>What Windows starts. An error reaches the host and the event log, and the service counts as failed.</summary>
    private static int Run(KeepArgs args)
    {
        if (!OperatingSystem.IsWindows())
        {
            RecordHost.OfThisMachine();
            return ExitStatus.WrongUse;
        }
        return RunOnWindows(args);
    }

    [SupportedOSPlatform("windows")]
    private static int RunOnWindows(KeepArgs args)
    {
        var builder = Host.CreateApplicationBuilder(new HostApplicationBuilderSettings { DisableDefaults = true });
        builder.Logging.AddEventLog(settings => settings.SourceName = Name);
        builder.Services.AddWindowsService(options => options.ServiceName = Name);
        builder.Services.AddSingleton(args);
        builder.Services.AddHostedService<KeepService>();
        using var host = builder.Build();
        host.Run();
        return Environment.ExitCode;
    }

    /// <summary>The flight recorder in the service's host.</summary>
    internal sealed class KeepService(KeepArgs args, IHostApplicationLifetime lifetime, ILogger<KeepService> log) : BackgroundService
    {
        protected override Task ExecuteAsync(CancellationToken stoppingToken) => Task.Factory.StartNew(
            () => Keep(stoppingToken), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

        private void Keep(CancellationToken stop)
        {
            using var data = new LogWriter(text => log.LogInformation("{Text}", text));
            using var words = new LogWriter(text => log.LogWarning("{Text}", text));
            try
            {
                KeepCommand.Keep(args, new Output(data, words), stop);
            }
#pragma warning disable CA1031 // whatever it is, the event log and the service's status tell it
            catch (Exception problem)
#pragma warning restore CA1031
            {
                var hint = problem is AgentError { Hint.Length: > 0 } known ? $" ({known.Hint})" : "";
                log.LogError(problem, "{Message}{Hint}", problem.Message, hint);
                // Ending without having been stopped counts as a failure: Windows starts the service again.
                Environment.Exit(ExitStatus.WrongUse);
            }
            lifetime.StopApplication();
        }
    }

    /// <summary>Each line into the log.</summary>
    private sealed class LogWriter(Action<string> write) : StringWriter(CultureInfo.InvariantCulture)
    {
        public override void WriteLine(string? value) => write(value ?? "");
    }
}
