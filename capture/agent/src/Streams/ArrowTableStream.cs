using Apache.Arrow;
using Apache.Arrow.Ipc;

namespace Iotrace.Agent.Streams;

/// <summary>
/// One table as an Arrow IPC stream that grows by whole batches. A batch is in the file as a whole when
/// <see cref="Write"/> returns, or not at all; after a failed write the stream is closed for good, because Arrow's writer
/// then gives wrong rows without a word. There is no dictionary in it: Arrow's writer keeps only that of the first batch.
/// </summary>
internal sealed class ArrowTableStream : IDisposable
{
    private readonly FileStream _file;
    private readonly MemoryStream _pending = new();
    private readonly ColumnCodec _codec = new();
    private readonly ArrowStreamWriter _writer;
    private bool _isFailed;

    /// <summary>Creates <paramref name="path"/>; it must not be there.</summary>
    public ArrowTableStream(string path, Schema schema)
    {
        _file = new(path, FileMode.CreateNew, FileAccess.Write, FileShare.Read | FileShare.Delete, bufferSize: 0);
        _writer = NewWriter(_pending, schema, _codec);
        try
        {
            _writer.WriteStart();
            Save();
        }
        catch
        {
            _file.Dispose();
            throw;
        }
    }

    public long Rows { get; private set; }

    public long Bytes { get; private set; }

    /// <summary>Append rows. Throws <see cref="IOException"/>; then what was there before is whole, and nothing more is taken.</summary>
    public void Write(RecordBatch batch)
    {
        if (_isFailed)
        {
            throw new IOException($"'{_file.Name}' took no more earlier");
        }
        if (batch.Length == 0)
        {
            return;
        }
        try
        {
            _codec.Rows = batch.Length;
            _writer.WriteRecordBatch(batch);
            Save();
            Rows += batch.Length;
        }
        catch
        {
            _isFailed = true;
            throw;
        }
    }

    /// <summary>Force what was written to the disk itself.</summary>
    public void FlushToDisk()
    {
        if (!_isFailed)
        {
            _file.Flush(flushToDisk: true);
        }
    }

    /// <summary>Write the end mark and close the file.</summary>
    public void End()
    {
        if (_isFailed)
        {
            return;
        }
        _isFailed = true; // nothing more, whatever happens
        _writer.WriteEnd();
        Save();
        _file.Flush(flushToDisk: true);
    }

    public void Dispose()
    {
        _writer.Dispose();
        _codec.Dispose();
        _pending.Dispose();
        _file.Dispose();
    }

    /// <summary>Write a whole table to <paramref name="path"/> in place of what is there: aside, then renamed.</summary>
    public static void Replace(string path, RecordBatch table)
    {
        var aside = path + ".new";
        using (var file = new FileStream(aside, FileMode.Create, FileAccess.Write, FileShare.Read))
        using (var codec = new ColumnCodec())
        using (var writer = NewWriter(file, table.Schema, codec))
        {
            writer.WriteStart();
            if (table.Length > 0)
            {
                writer.WriteRecordBatch(table);
            }
            writer.WriteEnd();
        }
        File.Move(aside, path, overwrite: true);
    }

    private static ArrowStreamWriter NewWriter(Stream stream, Schema schema, ColumnCodec codec) =>
        new(stream, schema, leaveOpen: true, new IpcOptions
        {
            CompressionCodec = CompressionCodecType.Zstd,
            CompressionCodecFactory = codec,
            CompressionLevel = 1,
        }, new RecycledMemory());

    private void Save()
    {
        var start = _file.Position;
        try
        {
            _file.Write(_pending.GetBuffer(), 0, (int)_pending.Length);
            Bytes = _file.Position;
            _pending.SetLength(0);
        }
        catch
        {
            CutBack(start);
            throw;
        }
    }

    private void CutBack(long length)
    {
        try
        {
            _file.SetLength(length);
        }
        catch (IOException)
        {
            // The reader cuts off what is no whole batch.
        }
    }
}
