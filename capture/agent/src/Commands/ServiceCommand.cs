using System.CommandLine;
using System.ComponentModel;
using System.Globalization;
using System.Runtime.Versioning;
using System.Text;
using Iotrace.Agent.FlightRecorder;
using Iotrace.Agent.Windows;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Iotrace.Agent.Commands;

/// <summary>
/// The flight recorder as a Windows service: started late, under the local system's account or one that is named, started
/// again when it fails, its words in the event log.
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
        install.SetAction(parsed => context.Run(parsed, _ => OperatingSystem.IsWindows()
            ? Install(
                KeepCommand.Read(parsed), parsed.GetValue(account), parsed.GetValue(KeepCommand.MaxSize), context.Output,
                parsed.GetRequiredValue(KeepCommand.Last), parsed.GetValue(KeepCommand.After)!)
            : NotWindows()));
        run.SetAction(parsed => Run(KeepCommand.Read(parsed)));
        var remove = new Command("remove", "Stop and remove the service. Recordings stay.");
        remove.SetAction(parsed => context.Run(parsed, _ => OperatingSystem.IsWindows() ? Remove(context.Output) : NotWindows()));
        var status = new Command("status", "Tell whether the service runs; status 1 if not.");
        status.SetAction(parsed => context.Run(parsed, _ => OperatingSystem.IsWindows() ? Status(context.Output) : NotWindows()));
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

    private static int NotWindows()
    {
        RecordHost.OfThisMachine();
        return ExitStatus.WrongUse;
    }

    [SupportedOSPlatform("windows")]
    private static int Install(KeepArgs args, string? account, int maxSize, Output output, string last, string after)
    {
        var program = Environment.ProcessPath ?? throw new AgentError("the program's own path is not known");
        var refused = Ask("install", () =>
        {
            OutputFolder.CreateOrOpen(args.Output);
            return ServiceControl.Install(
                Name, "iotrace flight recorder", "Keeps the last minutes of disk I/O, and records them when a condition holds.",
                CommandLine(program, args, last, after, maxSize), account);
        });
        if (account is not null)
        {
            // A service's own account is there once the service is.
            PrivateFolder.Allow(Path.GetFullPath(args.Output), account);
        }
        foreach (var setting in refused)
        {
            output.Warn($"this Windows refused the service {setting}");
        }
        if (!Ask("start", () => ServiceControl.TryStart(Name, StartsWithin)))
        {
            throw new AgentError(
                "the service is installed and does not run",
                $"the event log of applications, source {Name}, tells why; keep with the same options in this window does too");
        }
        output.Say("installed and started the service; its words are in the event log");
        return ExitStatus.Done;
    }

    private static readonly TimeSpan StartsWithin = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan EndsWithin = TimeSpan.FromSeconds(60);

    [SupportedOSPlatform("windows")]
    private static int Remove(Output output)
    {
        var hasStopped = Ask("remove", () => ServiceControl.TryRemove(Name, EndsWithin));
        output.Say(hasStopped
            ? "removed the service; its recordings stay"
            : $"the service did not stop within {EndsWithin.TotalSeconds:F0} s: Windows removes it when it does; its recordings stay");
        return ExitStatus.Done;
    }

    [SupportedOSPlatform("windows")]
    private static int Status(Output output)
    {
        var state = Ask("look at", () => ServiceControl.State(Name));
        var isRunning = state == ServiceControl.Running;
        output.Line(
            state is null ? "the service is not installed" : isRunning ? "the service runs" : "the service is installed and does not run");
        return isRunning ? ExitStatus.Done : ExitStatus.No;
    }

    /// <summary>Ask Windows; what it refuses in a sentence with the way out.</summary>
    [SupportedOSPlatform("windows")]
    private static T Ask<T>(string what, Func<T> ask)
    {
        try
        {
            return ask();
        }
        catch (Win32Exception problem)
        {
            throw problem.NativeErrorCode switch
            {
                ServiceControl.AccessDenied => new AgentError(
                    $"Windows does not let this login {what} a service: access denied",
                    "start it from a window that was opened with 'Run as administrator'", problem),
                ServiceControl.InstalledAlready => new(
                    $"the service {Name} is installed already", "iotrace-agent service remove first; its recordings stay", problem),
                ServiceControl.NotInstalled => new(
                    $"the service {Name} is not installed", "iotrace-agent service install installs it", problem),
                ServiceControl.MarkedForDeletion => new(
                    $"Windows is still removing the service {Name}", "close the windows that show services, and try again", problem),
                _ => new(
                    $"Windows did not {what} the service: {problem.Message.TrimEnd('.')} (error {problem.NativeErrorCode})",
                    $"the event log of the system, and that of applications, source {Name}, may tell more", problem),
            };
        }
    }

    /// <summary>What Windows starts. An error reaches the host and the event log, and the service counts as failed.</summary>
    private static int Run(KeepArgs args)
    {
        return OperatingSystem.IsWindows() ? RunOnWindows(args) : NotWindows();
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
