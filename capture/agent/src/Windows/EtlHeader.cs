using System.Buffers.Binary;

namespace Iotrace.Agent.Windows;

/// <summary>What the first event of an .etl says of its clock and its losses; TraceEvent keeps both to itself.</summary>
internal sealed record EtlHeader(long StartTicks, long StartFileTime, long Hertz, uint EventsLost, uint BuffersLost)
{
    private const int BufferHeaderBytes = 72;
    private const int EventHeaderBytes = 32;
    private const int HeadBytes = 4096;
    private const int PerformanceCounter = 1;

    /// <summary>Throws <see cref="AgentError"/> for a file that is none.</summary>
    public static EtlHeader Read(string path)
    {
        var head = new byte[HeadBytes];
        using (var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete))
        {
            if (file.ReadAtLeast(head, head.Length, throwOnEndOfStream: false) < BufferHeaderBytes + EventHeaderBytes)
            {
                throw new AgentError($"'{path}' ends before its log header is complete", "copy the file again");
            }
        }
        var record = head.AsSpan(BufferHeaderBytes);
        if (record[2] is not (1 or 2) || (record[3] & 0xC0) != 0xC0 || record[6] != 0 || record[7] != 0)
        {
            throw new AgentError($"'{path}' is not a Windows event trace log", $"iotrace inspect {path} tells what it is");
        }
        var pointer = record[2] == 1 ? 4 : 8;
        var body = record[EventHeaderBytes..];
        var tail = 56 + 2 * pointer + 176;
        var clock = BinaryPrimitives.ReadUInt32LittleEndian(body[(tail + 24)..]);
        var hertz = BinaryPrimitives.ReadInt64LittleEndian(body[(tail + 8)..]);
        if (clock != PerformanceCounter || hertz <= 0)
        {
            throw new AgentError(
                $"'{path}' does not count time with the performance counter", $"iotrace import {path} reads such logs too");
        }
        return new(
            BinaryPrimitives.ReadInt64LittleEndian(record[16..]), BinaryPrimitives.ReadInt64LittleEndian(body[(tail + 16)..]),
            hertz, BinaryPrimitives.ReadUInt32LittleEndian(body[48..]),
            BinaryPrimitives.ReadUInt32LittleEndian(body[(tail + 28)..]));
    }
}
