using System.Runtime.CompilerServices;

namespace Iotrace.Agent.Tds.Tests;

/// <summary>Before the first test: the agent takes a SQL login from here, and no Windows login works off Windows.</summary>
internal static class Login
{
    [ModuleInitializer]
    public static void Set()
    {
        Environment.SetEnvironmentVariable("IOTRACE_SQL_USER", "dba");
        Environment.SetEnvironmentVariable("IOTRACE_SQL_PASSWORD", "stand-in");
    }
}
