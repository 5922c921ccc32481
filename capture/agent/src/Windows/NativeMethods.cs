using System.Runtime.InteropServices;
using System.Runtime.Versioning;
using Microsoft.Win32.SafeHandles;

[assembly: System.Runtime.CompilerServices.DisableRuntimeMarshalling]

namespace Iotrace.Agent.Windows;

/// <summary>Every import of the agent's own. TraceEvent's are in TraceEvent.</summary>
[SupportedOSPlatform("windows")]
internal static partial class NativeMethods
{
    public const uint ControlTraceQuery = 0;
    public const uint ControlTraceStop = 1;
    public const int ErrorMoreData = 234;
    public const uint IoctlVolumeGetVolumeDiskExtents = 0x00560000;
    public const uint IoctlStorageGetDeviceNumber = 0x002D1080;
    public const uint IoctlStorageQueryProperty = 0x002D1400;
    public const uint IoctlDiskGetLengthInfo = 0x0007405C;
    public const uint FileShareReadWrite = 3;
    public const uint OpenExisting = 3;

    [LibraryImport("advapi32.dll", EntryPoint = "ControlTraceW", StringMarshalling = StringMarshalling.Utf16)]
    public static partial int ControlTrace(ulong session, string name, Span<byte> properties, uint control);

    [LibraryImport("kernel32.dll", EntryPoint = "FindFirstVolumeW", SetLastError = true)]
    public static partial nint FindFirstVolume(Span<char> name, uint length);

    [LibraryImport("kernel32.dll", EntryPoint = "FindNextVolumeW", SetLastError = true)]
    [return: MarshalAs(UnmanagedType.Bool)]
    public static partial bool FindNextVolume(nint search, Span<char> name, uint length);

    [LibraryImport("kernel32.dll", EntryPoint = "FindVolumeClose", SetLastError = true)]
    [return: MarshalAs(UnmanagedType.Bool)]
    public static partial bool FindVolumeClose(nint search);

    [LibraryImport("kernel32.dll", EntryPoint = "QueryDosDeviceW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
    public static partial uint QueryDosDevice(string name, Span<char> target, uint length);

    [LibraryImport("kernel32.dll", EntryPoint = "GetVolumePathNamesForVolumeNameW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
    [return: MarshalAs(UnmanagedType.Bool)]
    public static partial bool GetVolumePathNames(string volume, Span<char> paths, uint length, out uint needed);

    [LibraryImport("kernel32.dll", EntryPoint = "GetVolumeInformationW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
    [return: MarshalAs(UnmanagedType.Bool)]
    public static partial bool GetVolumeInformation(
        string root, Span<char> name, uint nameLength, out uint serial, out uint componentLength, out uint flags,
        Span<char> fileSystem, uint fileSystemLength);

    [LibraryImport("kernel32.dll", EntryPoint = "CreateFileW", SetLastError = true, StringMarshalling = StringMarshalling.Utf16)]
    public static partial SafeFileHandle CreateFile(
        string path, uint access, uint share, nint security, uint disposition, uint flags, nint template);

    [LibraryImport("kernel32.dll", SetLastError = true)]
    [return: MarshalAs(UnmanagedType.Bool)]
    public static partial bool DeviceIoControl(
        SafeFileHandle device, uint code, ReadOnlySpan<byte> input, int inputLength, Span<byte> output, int outputLength,
        out int returned, nint overlapped);
}
