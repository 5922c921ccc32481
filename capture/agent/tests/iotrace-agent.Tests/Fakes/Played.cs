using System.Buffers.Binary;
using System.Text.Json.Nodes;
using Iotrace.Agent.Counters;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Tests.Fakes;

/// <summary>A host that plays events in place of a trace session.</summary>
internal sealed class PlayedHost(Action<TraceRecorder> play) : IRecordHost
{
    public const long Hertz = 10_000_000;

    public Losses Losses { get; init; }

    public long? Free { get; init; } = long.MaxValue;

    /// <summary>Names that a second session lists.</summary>
    public Dictionary<ulong, string> Listed { get; } = [];

    public bool IsEndless { get; init; }

    public void CheckLayers(HashSet<Layer> layers, bool isByName, Action<string> note)
    {
    }

    public ITraceSource Start(IReadOnlySet<Layer> layers, Action<string> say) => new Source(this, play);

    public IReadOnlySet<uint>? Disks(IReadOnlyList<string> words) =>
        words.Count == 0 ? null : words.Select(word => uint.Parse(word, null)).ToHashSet();

    public void DescribeStorage(LateNames names) => names.Volumes.Add(@"\Device\HarddiskVolume7\", @"E:\");

    public string? ListNames(TraceRecorder recorder, string folder)
    {
        lock (recorder.Gate)
        {
            foreach (var (key, path) in Listed)
            {
                recorder.Names.FileSeen(key, long.MaxValue - 1, path);
            }
        }
        return null;
    }

    public ClockPair ClockPair() => new(0, 1_772_000_000_000_000_000);

    public JsonObject Facts(bool isAnonymous) => new() { ["os"] = "played" };

    public long? FreeBytes(string folder) => Free;

    public long ReserveBytes(string folder) => 1 << 30;

    public void WarnOfOutput(string folder, Action<string> warn)
    {
    }

    public ICounterSource OpenCounters() => throw new AgentError("this host has no counters");

    public StopRequest ListenForStop() => new(signals: false);

    private sealed class Source(PlayedHost host, Action<TraceRecorder> play) : ITraceSource
    {
        private readonly ManualResetEventSlim _stopped = new();

        public TickClock Clock { get; } = new(0, Hertz);

        public bool IsEndless => host.IsEndless;

        public void Run(TraceRecorder recorder)
        {
            play(recorder);
            if (host.IsEndless)
            {
                _stopped.Wait(TimeSpan.FromSeconds(60));
            }
        }

        public Losses PollLosses() => host.Losses;

        public void Stop() => _stopped.Set();

        public void Dispose() => _stopped.Dispose();
    }
}

/// <summary>Payloads as the kernel lays them out, of 64 bits and version 3.</summary>
internal static class Payloads
{
    public static byte[] Transfer(uint disk, uint size, long offset, ulong key, ulong irp, long response, uint thread, uint flags = 1)
    {
        var payload = new byte[52];
        BinaryPrimitives.WriteUInt32LittleEndian(payload, disk);
        BinaryPrimitives.WriteUInt32LittleEndian(payload.AsSpan(4), flags);
        BinaryPrimitives.WriteUInt32LittleEndian(payload.AsSpan(8), size);
        BinaryPrimitives.WriteInt64LittleEndian(payload.AsSpan(16), offset);
        BinaryPrimitives.WriteUInt64LittleEndian(payload.AsSpan(24), key);
        BinaryPrimitives.WriteUInt64LittleEndian(payload.AsSpan(32), irp);
        BinaryPrimitives.WriteInt64LittleEndian(payload.AsSpan(40), response);
        BinaryPrimitives.WriteUInt32LittleEndian(payload.AsSpan(48), thread);
        return payload;
    }

    public static byte[] FileName(ulong key, string path)
    {
        var payload = new byte[8 + 2 * path.Length + 2];
        BinaryPrimitives.WriteUInt64LittleEndian(payload, key);
        System.Text.Encoding.Unicode.GetBytes(path).CopyTo(payload, 8);
        return payload;
    }

    public static void Read(this TraceRecorder recorder, long ticks, long response = 1000, uint disk = 0, ulong key = 0xA0, long offset = 0) =>
        recorder.Transfer(Transfer(disk, 8192, offset, key, 7, response, 44), 3, 8, ticks, DiskEventDecoder.Unknown, Op.Read);
}

/// <summary>A folder that is gone at the end, and a console that keeps what it is told.</summary>
internal sealed class Scratch : IDisposable
{
    private readonly StringWriter _data = new();
    private readonly StringWriter _words = new();

    public Scratch()
    {
        Folder = Directory.CreateTempSubdirectory("iotrace-agent-test-").FullName;
        Output = new(_data, _words);
    }

    public string Folder { get; }

    public Output Output { get; }

    public string Words => _words.ToString();

    public string Data => _data.ToString();

    public string In(string name) => Path.Combine(Folder, name);

    public void Dispose() => Directory.Delete(Folder, recursive: true);
}

/// <summary>Reads what the agent wrote, with Apache.Arrow.</summary>
internal static class Streams
{
    public static List<Apache.Arrow.RecordBatch> Batches(string path)
    {
        using var file = File.OpenRead(path);
        using var reader = new Apache.Arrow.Ipc.ArrowStreamReader(file, new Apache.Arrow.Compression.CompressionCodecFactory(), leaveOpen: false);
        var batches = new List<Apache.Arrow.RecordBatch>();
        while (reader.ReadNextRecordBatch() is { } batch)
        {
            batches.Add(batch);
        }
        return batches;
    }

    public static List<long?> Longs(string path, string column) =>
        [.. Batches(path).SelectMany(batch => ((Apache.Arrow.Int64Array)batch.Column(column)).ToList())];

    public static List<int?> Ints(string path, string column) =>
        [.. Batches(path).SelectMany(batch => ((Apache.Arrow.Int32Array)batch.Column(column)).ToList())];

    public static List<string?> Texts(string path, string column) =>
        [.. Batches(path).SelectMany(batch => Enumerable.Range(0, batch.Length).Select(row => (string?)((Apache.Arrow.StringArray)batch.Column(column)).GetString(row)))];
}
