using System.Buffers.Binary;
using System.Runtime.Versioning;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Windows;

/// <summary>What Windows says of a trace session, by its name.</summary>
[SupportedOSPlatform("windows")]
internal static class SessionControl
{
    private const int PropertiesBytes = 120;
    private const int NameBytes = 2 * 1024;

    /// <summary>
    /// What session <paramref name="name"/> lost so far; null if it cannot be asked. TraceEvent tells events only; of lost
    /// buffers it says nothing.
    /// </summary>
    public static Losses? Losses(string name) => Control(name, NativeMethods.ControlTraceQuery);

    /// <summary>Stop session <paramref name="name"/>; what it lost in all, which only the answer to the stop tells.</summary>
    public static Losses? Stop(string name) => Control(name, NativeMethods.ControlTraceStop);

    private static Losses? Control(string name, uint control)
    {
        var properties = new byte[PropertiesBytes + 2 * NameBytes];
        BinaryPrimitives.WriteUInt32LittleEndian(properties, (uint)properties.Length);
        BinaryPrimitives.WriteUInt32LittleEndian(properties.AsSpan(112), PropertiesBytes + NameBytes);
        BinaryPrimitives.WriteUInt32LittleEndian(properties.AsSpan(116), PropertiesBytes);
        var status = NativeMethods.ControlTrace(0, name, properties, control);
        return status is 0 or NativeMethods.ErrorMoreData
            ? new(
                BinaryPrimitives.ReadUInt32LittleEndian(properties.AsSpan(88)),
                (long)BinaryPrimitives.ReadUInt32LittleEndian(properties.AsSpan(96))
                    + BinaryPrimitives.ReadUInt32LittleEndian(properties.AsSpan(100)))
            : null;
    }
}
