using Iotrace.Agent.Streams;

namespace Iotrace.Agent.FlightRecorder;

/// <summary>How much of the past is kept, and what becomes of it.</summary>
/// <param name="Last">What is kept before a condition.</param>
/// <param name="After">What is recorded after it.</param>
/// <param name="BytesMax">Most that the ring takes on disk.</param>
/// <param name="RecordingsMax">Most recordings that are made.</param>
internal sealed record KeepLimits(TimeSpan Last, TimeSpan After, long BytesMax, int RecordingsMax);

/// <summary>A piece of the ring: a whole stream of <c>io</c>, closed or still growing.</summary>
internal sealed record Piece(string Path, long StartNs)
{
    public long EndNs { get; set; } = StartNs;

    public long Bytes { get; set; }

    public long Rows { get; set; }
}

/// <summary>
/// The ring on disk: streams of <c>io</c> of a tenth of the kept time each. Driven by the times of the I/Os, not by a clock.
/// Runs on the writer's thread alone.
/// </summary>
internal sealed class KeptMinutes(string folder, KeepLimits limits) : IDisposable
{
    private const int Pieces = 10;
    private const int EndMarkBytes = 8;

    private readonly Queue<Piece> _closed = new();
    private ArrowTableStream? _stream;
    private Piece? _piece;
    private int _number;

    /// <summary>Bytes of all pieces.</summary>
    public long Bytes => _closed.Sum(piece => piece.Bytes) + (_stream?.Bytes ?? 0);

    /// <summary>How long one piece is.</summary>
    public long PieceNs { get; } = Math.Max((long)limits.Last.TotalNanoseconds / Pieces, 1_000_000_000);

    /// <summary>While a recording is due nothing is dropped for its age.</summary>
    public bool IsHeld { get; set; }

    /// <summary>Append the rows of a batch that ended at <paramref name="endNs"/>.</summary>
    public void Write(Apache.Arrow.RecordBatch rows, long startNs, long endNs)
    {
        if (_piece is not null && startNs - _piece.StartNs >= PieceNs)
        {
            Close();
        }
        if (_stream is null)
        {
            _piece = new(Path.Combine(folder, $"io-{_number++:D8}.piece"), startNs);
            _stream = new(_piece.Path, RecordingSchemas.Io);
        }
        _stream.Write(rows);
        _piece!.EndNs = Math.Max(_piece.EndNs, endNs);
        _piece.Rows += rows.Length;
        Drop(endNs);
    }

    /// <summary>
    /// Make the stream <c>io</c> of a recording of all that is kept from <paramref name="fromNs"/> on: whole batches copied
    /// as they are. When it begins, when it ends, and how many rows it has.
    /// </summary>
    public (long StartNs, long EndNs, long Rows) CopyTo(string path, long fromNs)
    {
        Close();
        var chosen = _closed.Where(piece => piece.EndNs >= fromNs).ToList();
        var schemaBytes = SchemaBytes();
        using var target = new FileStream(path, FileMode.CreateNew, FileAccess.Write, FileShare.Read);
        foreach (var piece in chosen)
        {
            using var source = new FileStream(piece.Path, FileMode.Open, FileAccess.Read, FileShare.Read);
            source.Position = target.Position == 0 ? 0 : schemaBytes;
            CopyBytes(source, target, piece.Bytes - EndMarkBytes - source.Position);
        }
        if (chosen.Count == 0)
        {
            using var empty = new ArrowTableStream(path + ".new", RecordingSchemas.Io);
            empty.End();
            target.Write(File.ReadAllBytes(path + ".new"));
            File.Delete(path + ".new");
        }
        else
        {
            target.Write([0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
        }
        target.Flush(flushToDisk: true);
        return (
            chosen.Count > 0 ? chosen[0].StartNs : fromNs, chosen.Count > 0 ? chosen.Max(piece => piece.EndNs) : fromNs,
            chosen.Sum(piece => piece.Rows));
    }

    /// <summary>Drop everything.</summary>
    public void Clear()
    {
        Close();
        while (_closed.TryDequeue(out var piece))
        {
            File.Delete(piece.Path);
        }
    }

    public void Dispose() => _stream?.Dispose();

    private void Close()
    {
        if (_stream is null)
        {
            return;
        }
        _stream.End();
        _piece!.Bytes = _stream.Bytes;
        _closed.Enqueue(_piece);
        _stream.Dispose();
        (_stream, _piece) = (null, null);
    }

    private void Drop(long nowNs)
    {
        var oldest = nowNs - (long)limits.Last.TotalNanoseconds;
        while (_closed.TryPeek(out var piece) && ((piece.EndNs < oldest && !IsHeld) || Bytes > limits.BytesMax))
        {
            _closed.Dequeue();
            File.Delete(piece.Path);
        }
    }

    /// <summary>Length of what stands before the first batch: the same in every piece.</summary>
    private long SchemaBytes()
    {
        var path = Path.Combine(folder, ".schema");
        File.Delete(path);
        using (var stream = new ArrowTableStream(path, RecordingSchemas.Io))
        {
            var bytes = stream.Bytes;
            stream.End();
            stream.Dispose();
            File.Delete(path);
            return bytes;
        }
    }

    private static void CopyBytes(FileStream source, FileStream target, long bytes)
    {
        var buffer = new byte[1 << 16];
        while (bytes > 0)
        {
            var read = source.Read(buffer, 0, (int)Math.Min(buffer.Length, bytes));
            if (read == 0)
            {
                throw new EndOfStreamException($"'{source.Name}' is shorter than it was");
            }
            target.Write(buffer, 0, read);
            bytes -= read;
        }
    }
}
