// What an event costs the agent, against what TraceEvent's dispatch alone takes for the same events in the same run: CPU,
// bytes on disk, memory. The two take turns, pass by pass, so that whatever else the machine does meets both. Dispatch is
// one thread and is given that thread's CPU; the agent is given all the rest of the process: its writer, the compiler, the
// collector. Events are constructed: 64 files, 32 threads, random offsets, latencies of 80 µs to 5 ms.
// Arguments: passes over 1,000,000 events (default 20; 180 are an hour at 50,000 a second). Linux.
using System.Buffers.Binary;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Parsers;

const int eventsInPass = 1_000_000;
var passes = args.Length > 0 ? int.Parse(args[0], CultureInfo.InvariantCulture) : 20;
var folder = Directory.CreateTempSubdirectory("iotrace-agent-bench-").FullName;
try
{
    var trace = Path.Combine(folder, "bench.btl");
    Constructed.Write(trace, eventsInPass);

    var (counted, rowsSeen) = (0L, 0L);
    var reader = new TraceRecorder(new(0, 10_000_000), (in _) => rowsSeen++);
    var output = Path.Combine(folder, "out");
    Directory.CreateDirectory(output);
    var manifest = new RecordingManifest { Title = "benchmark", ClockName = "constructed", StartUtcNs = 0, ResolutionNs = 100 };
    using var recording = new RecordingFolder(output, manifest);
    var recorder = new TraceRecorder(new(0, 10_000_000), recording.Add);
    recording.Begin(recorder);
    var memory = new List<long>();
    var (dispatchNs, rowsNs) = (0L, 0L);
    var startedNs = Cpu.ProcessNs;
    for (var pass = 0; pass < passes; pass++)
    {
        dispatchNs += Play(source =>
        {
            var kernel = new KernelTraceEventParser(source, KernelTraceEventParser.ParserTrackingOptions.None);
            kernel.DiskIORead += _ => counted++;
            kernel.DiskIOWrite += _ => counted++;
        });
        // The same without the streams: what is left of the agent's cost is theirs.
        rowsNs += Play(source => _ = new KernelEvents(source, reader));
        Play(source => _ = new KernelEvents(source, recorder));
        if (pass % Math.Max(passes / 10, 1) == 0)
        {
            using var process = Process.GetCurrentProcess();
            memory.Add(process.WorkingSet64);
        }
    }
    recorder.Finish();
    recording.Finish(RecordingManifest.Normally);
    var events = recorder.Counts.Reads + recorder.Counts.Writes;
    var agent = (double)(Cpu.ProcessNs - startedNs - dispatchNs - rowsNs) / events;
    var (dispatch, rowsOnly) = ((double)dispatchNs / counted, (double)rowsNs / rowsSeen);

    long Play(Action<TraceEventDispatcher> subscribe)
    {
        var before = Cpu.ThreadNs;
        using var source = Constructed.Open(trace);
        subscribe(source);
        source.Process();
        return Cpu.ThreadNs - before;
    }

    Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"events                {events:N0} of {counted:N0}"));
    Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"rows written          {recording.RowsWritten:N0}"));
    Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"dispatch alone        {dispatch:F0} ns of CPU an event"));
    Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"rows, not written     {rowsOnly:F0} ns of CPU an event, {rowsOnly / dispatch:F2} times"));
    Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"agent                 {agent:F0} ns of CPU an event, {agent / dispatch:F2} times"));
    Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"io stream             {(double)new FileInfo(Path.Combine(output, "io.arrows")).Length / events:F2} bytes an event"));
    Console.WriteLine($"memory, MiB           {string.Join(' ', memory.Select(bytes => bytes >> 20))}");
}
finally
{
    Directory.Delete(folder, recursive: true);
}

/// <summary>The kernel's own counts of CPU, to the nanosecond.</summary>
internal static partial class Cpu
{
    private const int OfProcess = 2;
    private const int OfThread = 3;

    public static long ProcessNs => Read(OfProcess);

    public static long ThreadNs => Read(OfThread);

    private static long Read(int clock) => GetTime(clock, out var time) == 0
        ? time.Seconds * 1_000_000_000 + time.Nanoseconds
        : throw new InvalidOperationException("the kernel tells no CPU time");

    [LibraryImport("libc", EntryPoint = "clock_gettime")]
    private static partial int GetTime(int clock, out Time time);

    private readonly record struct Time(long Seconds, long Nanoseconds);
}

/// <summary>A .btl of constructed events.</summary>
internal static class Constructed
{
    private const int BlockBytes = 900_000;
    private static readonly Guid Header = new("68fdd900-4a3e-11d1-84f4-0000f80464e3");
    private static readonly Guid Disk = new("3d6fa8d4-fe05-11d0-9dda-00c04fd7ba7c");
    private static readonly Guid Thread = new("3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c");

    /// <summary>Once for all passes: what they leave behind is not the agent's.</summary>
    private static readonly byte[] Stored = new byte[2 << 20];
    private static readonly byte[] Plain = new byte[2 << 20];

    public static BPerfEventSource Open(string path) => new(
        path, new TraceEventDispatcherOptions(), Stored, Plain, skipReadingUnreachableEvents: false,
        (input, offset, length, output, _) =>
        {
            input.AsSpan(offset, length).CopyTo(output);
            return length;
        });

    public static void Write(string path, int events)
    {
        var random = new Random(1);
        using var file = new FileStream(path, FileMode.Create);
        using var block = new MemoryStream();
        var header = new byte[332];
        BinaryPrimitives.WriteUInt32LittleEndian(header.AsSpan(0x2C), 8);
        BinaryPrimitives.WriteInt64LittleEndian(header.AsSpan(0xF8), 10_000_000);
        BinaryPrimitives.WriteInt64LittleEndian(header.AsSpan(0x100), 132_404_548_206_236_160);
        Record(block, Header, 0, 2, 1, header);
        for (var thread = 1; thread <= 32; thread++)
        {
            var payload = new byte[72];
            BinaryPrimitives.WriteInt32LittleEndian(payload, 1000);
            BinaryPrimitives.WriteInt32LittleEndian(payload.AsSpan(4), thread);
            Record(block, Thread, 3, 3, 2, payload);
        }
        var io = new byte[52];
        for (var number = 0; number < events; number++)
        {
            BinaryPrimitives.WriteUInt32LittleEndian(io.AsSpan(4), 0x20043);
            BinaryPrimitives.WriteUInt32LittleEndian(io.AsSpan(8), number % 3 == 0 ? 65536u : 8192u);
            BinaryPrimitives.WriteInt64LittleEndian(io.AsSpan(16), random.NextInt64(1L << 27) * 8192);
            BinaryPrimitives.WriteUInt64LittleEndian(io.AsSpan(24), 0xfffff8a000000000 + (ulong)random.Next(64) * 0x150);
            BinaryPrimitives.WriteUInt64LittleEndian(io.AsSpan(32), 0xfffffa8300000000 + (ulong)random.Next(4096) * 0x40);
            BinaryPrimitives.WriteInt64LittleEndian(io.AsSpan(40), 800 + random.Next(49_200));
            BinaryPrimitives.WriteInt32LittleEndian(io.AsSpan(48), 1 + random.Next(32));
            Record(block, Disk, number % 4 == 0 ? (byte)11 : (byte)10, 3, 1_000_000 + number * 200L + random.Next(150), io);
            if (block.Length > BlockBytes)
            {
                Flush(file, block);
            }
        }
        Flush(file, block);
    }

    private static void Record(MemoryStream block, Guid provider, byte opcode, byte version, long ticks, byte[] payload)
    {
        var size = (112 + (payload.Length + 7) / 8 * 8 + 15) / 16 * 16;
        var record = new byte[size];
        BinaryPrimitives.WriteUInt16LittleEndian(record, 80);
        BinaryPrimitives.WriteUInt16LittleEndian(record.AsSpan(4), 0x140);
        BinaryPrimitives.WriteUInt32LittleEndian(record.AsSpan(8), uint.MaxValue);
        BinaryPrimitives.WriteUInt32LittleEndian(record.AsSpan(12), uint.MaxValue);
        BinaryPrimitives.WriteInt64LittleEndian(record.AsSpan(16), ticks);
        provider.TryWriteBytes(record.AsSpan(24));
        record[42] = version;
        record[45] = opcode;
        BinaryPrimitives.WriteUInt16LittleEndian(record.AsSpan(86), (ushort)payload.Length);
        payload.CopyTo(record, 112);
        block.Write(record);
    }

    private static void Flush(FileStream file, MemoryStream block)
    {
        var sizes = new byte[8];
        BinaryPrimitives.WriteInt32LittleEndian(sizes, (int)block.Length);
        BinaryPrimitives.WriteInt32LittleEndian(sizes.AsSpan(4), (int)block.Length);
        file.Write(sizes);
        block.WriteTo(file);
        file.Write(new byte[(4 - file.Position % 4) % 4]);
        block.SetLength(0);
    }
}
