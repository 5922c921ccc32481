using System.CommandLine;
using System.Globalization;
using Iotrace.Agent.Commands;

namespace Iotrace.Agent;

internal static class Program
{
    public static int Main(string[] arguments)
    {
        // Not by the build: Microsoft.Data.SqlClient refuses to connect from a program that was built for no culture.
        CultureInfo.CurrentCulture = CultureInfo.CurrentUICulture = CultureInfo.InvariantCulture;
        CultureInfo.DefaultThreadCurrentCulture = CultureInfo.DefaultThreadCurrentUICulture = CultureInfo.InvariantCulture;
        Console.OutputEncoding = System.Text.Encoding.UTF8;
        return Run(arguments, new Output(Console.Out, Console.Error) { IsScreen = !Console.IsErrorRedirected });
    }

    /// <summary>Run one command line: 0 done, 1 the answer is no, 2 wrong use or bad input, 130 interrupted.</summary>
    public static int Run(string[] arguments, Output output)
    {
        var context = new CommandContext(output);
        var root = new RootCommand("Records a Windows server's disk I/O, its files and its SQL Server on one clock, for iotrace.")
        {
            RecordCommand.Create(context),
            StopCommand.Create(context),
            WatchCommand.Create(context),
            KeepCommand.Create(context),
            ServiceCommand.Create(context),
            ConvertCommand.Create(context),
            DoctorCommand.Create(context),
        };
        var parsed = root.Parse(arguments);
        if (parsed.Errors.Count > 0)
        {
            // The one that names the user's word says most.
            var told = parsed.Errors.FirstOrDefault(problem => problem.Message.Contains('\'')) ?? parsed.Errors[0];
            output.Fail(told.Message.TrimEnd('.'), "iotrace-agent --help lists what it takes");
            return ExitStatus.WrongUse;
        }
        return parsed.Invoke();
    }
}
