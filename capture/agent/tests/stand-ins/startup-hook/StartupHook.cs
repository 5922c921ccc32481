using System.Reflection;
using System.Runtime.InteropServices;

/// <summary>
/// Runs before the program that is tested, by the runtime's own means (<c>DOTNET_STARTUP_HOOKS</c>): what that program and
/// TraceEvent import from advapi32 and pdh comes from the library that <c>IOTRACE_STAND_IN_LIBRARY</c> names. Nothing in the program
/// is changed.
/// </summary>
internal static class StartupHook
{
    private static readonly HashSet<string> Turned = new(StringComparer.Ordinal)
    {
        "Microsoft.Diagnostics.Tracing.TraceEvent", "iotrace-agent",
    };

    public static void Initialize()
    {
        var path = Environment.GetEnvironmentVariable("IOTRACE_STAND_IN_LIBRARY")
            ?? throw new InvalidOperationException("IOTRACE_STAND_IN_LIBRARY names no library");
        var library = new Lazy<nint>(() => NativeLibrary.Load(path));
        AppDomain.CurrentDomain.AssemblyLoad += (_, loaded) => Turn(loaded.LoadedAssembly);
        foreach (var assembly in AppDomain.CurrentDomain.GetAssemblies())
        {
            Turn(assembly);
        }

        void Turn(Assembly assembly)
        {
            if (assembly.GetName().Name is not { } name)
            {
                return;
            }
            lock (Turned)
            {
                if (!Turned.Remove(name))
                {
                    return;
                }
            }
            NativeLibrary.SetDllImportResolver(
                assembly,
                (imported, _, _) => imported.StartsWith("advapi32", StringComparison.OrdinalIgnoreCase) || imported.StartsWith("pdh", StringComparison.OrdinalIgnoreCase)
                    ? library.Value
                    : 0);
        }
    }
}
