using System.ComponentModel;
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Runtime.Versioning;

namespace Iotrace.Agent.Windows;

/// <summary>Windows' service manager, for one service of ours. Throws <see cref="Win32Exception"/>.</summary>
[SupportedOSPlatform("windows")]
internal static unsafe partial class ServiceControl
{
    public const int AccessDenied = 5;
    public const int NotInstalled = 1060;
    public const int NotActive = 1062;
    public const int MarkedForDeletion = 1072;
    public const int InstalledAlready = 1073;

    public const uint Stopped = 1;
    public const uint Running = 4;

    private const uint Delete = 0x10000;
    private const uint QueryStatus = 0x4;
    private const uint Start = 0x10;
    private const uint Stop = 0x20;
    private const uint ChangeConfig = 0x2;
    private const uint Connect = 0x1;
    private const uint CreateService = 0x2;
    private const uint OwnProcess = 0x10;
    private const uint AutomaticStart = 2;
    private const uint NormalErrors = 1;
    private const uint StopControl = 1;
    private const uint DescriptionLevel = 1;
    private const uint FailureActionsLevel = 2;
    private const uint DelayedStartLevel = 3;
    private const uint FailureActionsFlagLevel = 4;
    private const int Restart = 1;
    private static readonly TimeSpan Look = TimeSpan.FromMilliseconds(200);

    /// <summary>
    /// Make the service: started with Windows, after the services that are not delayed, under <paramref name="account"/> (null: the local
    /// system), and started again when it fails, after a minute, as often as it takes within a day. What this Windows refused of
    /// all but the first.
    /// </summary>
    public static IReadOnlyList<string> Install(string name, string display, string description, string commandLine, string? account)
    {
        using var manager = Manager(Connect | CreateService);
        using var service = Checked(new ServiceHandle(Native.CreateService(
            manager.Value, name, display, ChangeConfig | Start | QueryStatus, OwnProcess, AutomaticStart, NormalErrors, commandLine, null, 0, null,
            account, null)));
        List<string> refused = [];
        fixed (char* words = description)
        {
            var told = (nint)words;
            Change(DescriptionLevel, &told, "its description");
        }
        var yes = 1;
        Change(DelayedStartLevel, &yes, "a delayed start");
        var actions = stackalloc int[] { Restart, 60_000, Restart, 60_000, Restart, 60_000 };
        var failure = new FailureActions { ResetSeconds = 86_400, Count = 3, Actions = (nint)actions };
        Change(FailureActionsLevel, &failure, "a start after a failure");
        Change(FailureActionsFlagLevel, &yes, "a start after an error of its own");
        return refused;

        void Change(uint level, void* value, string what)
        {
            if (!Native.ChangeServiceConfig(service.Value, level, value))
            {
                refused.Add($"{what} (error {Marshal.GetLastPInvokeError()})");
            }
        }
    }

    /// <summary>Start it and wait until it runs; false if it does not within <paramref name="limit"/>.</summary>
    public static bool TryStart(string name, TimeSpan limit)
    {
        using var manager = Manager(Connect);
        using var service = Checked(new ServiceHandle(Native.OpenService(manager.Value, name, Start | QueryStatus)));
        Require(Native.StartService(service.Value, 0, 0));
        return WaitFor(service, state => state == Running, limit);
    }

    /// <summary>Stop it, if it runs, and remove it; false if it still runs after <paramref name="limit"/>, and goes when it ends.</summary>
    public static bool TryRemove(string name, TimeSpan limit)
    {
        using var manager = Manager(Connect);
        using var service = Checked(new ServiceHandle(Native.OpenService(manager.Value, name, Stop | QueryStatus | Delete)));
        if (!Native.ControlService(service.Value, StopControl, out _) && Marshal.GetLastPInvokeError() is var error && error != NotActive)
        {
            throw new Win32Exception(error);
        }
        var hasStopped = WaitFor(service, state => state == Stopped, limit);
        Require(Native.DeleteService(service.Value));
        return hasStopped;
    }

    /// <summary>One of Windows' states, such as <see cref="Running"/>; null where it is not installed.</summary>
    public static uint? State(string name)
    {
        using var manager = Manager(Connect);
        using var service = new ServiceHandle(Native.OpenService(manager.Value, name, QueryStatus));
        return service.Value != 0 ? StateOf(service)
            : Marshal.GetLastPInvokeError() is var error && error == NotInstalled ? null
            : throw new Win32Exception(error);
    }

    private static bool WaitFor(ServiceHandle service, Func<uint, bool> isSo, TimeSpan limit)
    {
        for (var since = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(since) < limit; Thread.Sleep(Look))
        {
            var state = StateOf(service);
            if (isSo(state))
            {
                return true;
            }
            if (state == Stopped)
            {
                return false;
            }
        }
        return false;
    }

    private static uint StateOf(ServiceHandle service)
    {
        Require(Native.QueryServiceStatus(service.Value, out var status));
        return status.State;
    }

    private static ServiceHandle Manager(uint access) => Checked(new ServiceHandle(Native.OpenSCManager(null, null, access)));

    private static ServiceHandle Checked(ServiceHandle handle) =>
        handle.Value != 0 ? handle : throw new Win32Exception(Marshal.GetLastPInvokeError());

    private static void Require(bool isDone)
    {
        if (!isDone)
        {
            throw new Win32Exception(Marshal.GetLastPInvokeError());
        }
    }

    private readonly struct ServiceHandle(nint value) : IDisposable
    {
        public nint Value { get; } = value;

        public void Dispose()
        {
            if (Value != 0)
            {
                _ = Native.CloseServiceHandle(Value);
            }
        }
    }

    private struct Status
    {
        public uint Type;
        public uint State;
        public uint Accepted;
        public uint ExitCode;
        public uint OwnExitCode;
        public uint CheckPoint;
        public uint WaitHint;
    }

    private struct FailureActions
    {
        public uint ResetSeconds;
        public nint RebootMessage;
        public nint Command;
        public uint Count;
        public nint Actions;
    }

    private static partial class Native
    {
        [LibraryImport("advapi32.dll", EntryPoint = "OpenSCManagerW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
        public static partial nint OpenSCManager(string? machine, string? database, uint access);

        [LibraryImport("advapi32.dll", EntryPoint = "CreateServiceW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
        public static partial nint CreateService(
            nint manager, string name, string display, uint access, uint type, uint start, uint errors, string commandLine, string? group,
            nint tag, string? dependencies, string? account, string? password);

        [LibraryImport("advapi32.dll", EntryPoint = "OpenServiceW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
        public static partial nint OpenService(nint manager, string name, uint access);

        [LibraryImport("advapi32.dll", EntryPoint = "ChangeServiceConfig2W", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.Bool)]
        public static partial bool ChangeServiceConfig(nint service, uint level, void* value);

        [LibraryImport("advapi32.dll", EntryPoint = "StartServiceW", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.Bool)]
        public static partial bool StartService(nint service, uint count, nint words);

        [LibraryImport("advapi32.dll", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.Bool)]
        public static partial bool ControlService(nint service, uint control, out Status status);

        [LibraryImport("advapi32.dll", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.Bool)]
        public static partial bool QueryServiceStatus(nint service, out Status status);

        [LibraryImport("advapi32.dll", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.Bool)]
        public static partial bool DeleteService(nint service);

        [LibraryImport("advapi32.dll")]
        [return: MarshalAs(UnmanagedType.Bool)]
        public static partial bool CloseServiceHandle(nint handle);
    }
}
