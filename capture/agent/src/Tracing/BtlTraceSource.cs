using System.Buffers.Binary;
using Microsoft.Diagnostics.Tracing;

namespace Iotrace.Agent.Tracing;

/// <summary>
/// A .btl file: event records as they lie in memory, which TraceEvent reads on any system. Blocks may be stored plain or as
/// its own compression has them.
/// </summary>
internal sealed class BtlTraceSource : ITraceSource
{
    private const int BlockBytesMax = 2 << 20;
    private const int RecordBytes = 112;
    private const int HeaderBytes = 0x108;
    private static readonly Guid TraceHeader = new("68fdd900-4a3e-11d1-84f4-0000f80464e3");

    private readonly string _path;
    private BPerfEventSource? _source;
    private volatile bool _isStopped;

    /// <summary>Looks at the first record. Throws <see cref="AgentError"/> for a file that is none.</summary>
    public BtlTraceSource(string path, string name)
    {
        _path = path;
        var head = ReadFirstBlock(path, name);
        var header = head.AsSpan(RecordBytes);
        var hertz = BinaryPrimitives.ReadInt64LittleEndian(header[0xF8..]);
        StartFileTime = BinaryPrimitives.ReadInt64LittleEndian(header[0x100..]);
        if (hertz <= 0 || StartFileTime <= 0)
        {
            throw NoTrace(name);
        }
        Clock = new(BinaryPrimitives.ReadInt64LittleEndian(head.AsSpan(16)), hertz);
        EventsLost = BinaryPrimitives.ReadUInt32LittleEndian(header[0x30..]);
        OsVersion = $"Windows {header[4]}.{header[5]} build {BinaryPrimitives.ReadUInt32LittleEndian(header[8..])}";
        Processors = BinaryPrimitives.ReadUInt32LittleEndian(header[12..]);
    }

    public TickClock Clock { get; }

    public bool IsEndless => false;

    /// <summary>The moment of the clock's start, 100 ns each since 1601.</summary>
    public long StartFileTime { get; }

    public uint EventsLost { get; }

    public string OsVersion { get; }

    public uint Processors { get; }

    public Losses PollLosses() => new(EventsLost, 0);

    public void Run(TraceRecorder recorder)
    {
        using var source = new BPerfEventSource(
            _path, new TraceEventDispatcherOptions(), new byte[BlockBytesMax], new byte[BlockBytesMax],
            skipReadingUnreachableEvents: false, Plain);
        _source = source;
        _ = new KernelEvents(source, recorder);
        if (!_isStopped)
        {
            source.Process();
        }
    }

    public void Stop()
    {
        _isStopped = true;
        _source?.StopProcessing();
    }

    public void Dispose() => Stop();

    /// <summary>Blocks that are stored plain; -1, which the library takes for damage, for any other length.</summary>
    private static int Plain(byte[] input, int offset, int length, byte[] output, int outputLength)
    {
        if (BinaryPrimitives.ReadInt32LittleEndian(input.AsSpan(offset - 4)) != length || length > outputLength)
        {
            return -1;
        }
        input.AsSpan(offset, length).CopyTo(output);
        return length;
    }

    private static byte[] ReadFirstBlock(string path, string name)
    {
        using var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
        Span<byte> sizes = stackalloc byte[8];
        if (file.ReadAtLeast(sizes, 8, throwOnEndOfStream: false) < 8)
        {
            throw NoTrace(name);
        }
        var stored = BinaryPrimitives.ReadInt32LittleEndian(sizes);
        var plain = BinaryPrimitives.ReadInt32LittleEndian(sizes[4..]);
        if (stored is <= 0 or > BlockBytesMax || plain is < RecordBytes + HeaderBytes or > BlockBytesMax)
        {
            throw NoTrace(name);
        }
        if (stored != plain)
        {
            throw new AgentError(
                $"the blocks of '{name}' are compressed", "write it with plain blocks: each says its length twice");
        }
        var block = new byte[stored];
        if (file.ReadAtLeast(block, stored, throwOnEndOfStream: false) < stored)
        {
            throw new AgentError($"'{name}' ends inside its first block", "copy the file again");
        }
        if (new Guid(block.AsSpan(24, 16)) != TraceHeader || block[45] != 0)
        {
            throw NoTrace(name);
        }
        return block;
    }

    private static AgentError NoTrace(string name) => new(
        $"'{name}' is no .btl file with a trace header in its first block",
        "convert takes .btl files of TraceEvent's BPerf and, on Windows, .etl");
}
