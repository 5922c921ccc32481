using System.Buffers;
using Apache.Arrow.Compression;
using Apache.Arrow.Ipc;
using Apache.Arrow.Memory;

namespace Iotrace.Agent.Streams;

/// <summary>
/// How the buffers of a batch become Zstandard frames: by <see cref="ColumnFrame"/> where a part of a column shows that it does
/// about as well as a general compressor, which takes all else. Which is which is tried again every so many batches.
/// </summary>
internal sealed class ColumnCodec : ICompressionCodecFactory, ICompressionCodec, ITryCompressionCodec
{
    /// <summary>A share of a column is enough to choose by, and no more than this of it.</summary>
    private const int SampleShare = 32;

    /// <summary>More bytes than the general compressor would give, in hundredths, are worth its time.</summary>
    private const int BytesWorth = 125;

    private const int BatchesChosenFor = 16;

    private readonly List<(bool IsColumn, int BatchesLeft)> _choices = [];
    private readonly ColumnFrame _columns = new();
    private readonly MemoryStream _sample = new();
    private readonly MemoryStream _frame = new();
    private ICompressionCodec? _general;

    /// <summary>How many values the buffers hold that come next: by it a buffer is known as a column of numbers.</summary>
    public int Rows
    {
        get;
        set => (field, _place) = (value, 0);
    }

    private int _place;

    public ICompressionCodec CreateCodec(CompressionCodecType compressionCodecType) => CreateCodec(compressionCodecType, null);

    public ICompressionCodec CreateCodec(CompressionCodecType compressionCodecType, int? compressionLevel)
    {
        _general ??= new CompressionCodecFactory().CreateCodec(compressionCodecType, compressionLevel);
        return this;
    }

    public void Compress(ReadOnlyMemory<byte> source, Stream destination) => destination.Write(FrameOf(source));

    /// <summary>Into memory that is there: nothing is allocated for a batch.</summary>
    public bool TryCompress(ReadOnlyMemory<byte> source, Memory<byte> destination, out int bytesWritten)
    {
        var frame = FrameOf(source);
        bytesWritten = frame.Length;
        return frame.TryCopyTo(destination.Span);
    }

    /// <summary>Valid until the next call.</summary>
    private ReadOnlySpan<byte> FrameOf(ReadOnlyMemory<byte> source)
    {
        var width = Rows > 0 && source.Length % Rows == 0 ? source.Length / Rows : 0;
        if (ColumnFrame.Takes(width) && IsChosen(source, width))
        {
            return _columns.Of(source.Span, width);
        }
        _frame.SetLength(0);
        _general!.Compress(source, _frame);
        return _frame.GetBuffer().AsSpan(0, (int)_frame.Length);
    }

    public int Decompress(ReadOnlyMemory<byte> source, Memory<byte> destination) => _general!.Decompress(source, destination);

    /// <summary>Nothing: the writer asks for a codec, and disposes of it, at each batch; this one serves them all.</summary>
    public void Dispose()
    {
    }

    private bool IsChosen(ReadOnlyMemory<byte> source, int width)
    {
        var place = _place++;
        if (place == _choices.Count)
        {
            _choices.Add((false, 0));
        }
        var (isColumn, left) = _choices[place];
        if (left == 0)
        {
            (isColumn, left) = (IsWorthIt(source, width), BatchesChosenFor);
        }
        _choices[place] = (isColumn, left - 1);
        return isColumn;
    }

    private bool IsWorthIt(ReadOnlyMemory<byte> source, int width)
    {
        // From the middle: the first values of a batch may be of another kind.
        var bytes = Math.Max(Rows / SampleShare, 1) * width;
        var sample = source.Slice(Rows / 2 * width, Math.Min(bytes, source.Length - Rows / 2 * width));
        if (sample.Span[width..].SequenceEqual(sample.Span[..^width]))
        {
            return false; // one value: nothing is shorter than a general frame of it
        }
        _sample.SetLength(0);
        _general!.Compress(sample, _sample);
        return (long)_columns.Of(sample.Span, width).Length * 100 <= _sample.Length * BytesWorth;
    }
}

/// <summary>Memory for the writer of a stream that is used again: garbage of half a mebibyte for each column of a batch adds up.</summary>
internal sealed class RecycledMemory() : MemoryAllocator(DefaultAlignment)
{
    protected override IMemoryOwner<byte> AllocateInternal(int length, out int bytesAllocated)
    {
        bytesAllocated = length;
        return new Owner(length);
    }

    private sealed class Owner(int length) : IMemoryOwner<byte>
    {
        private byte[]? _array = ArrayPool<byte>.Shared.Rent(length);

        public Memory<byte> Memory => _array.AsMemory(0, length);

        public void Dispose()
        {
            if (Interlocked.Exchange(ref _array, null) is { } array)
            {
                ArrayPool<byte>.Shared.Return(array);
            }
        }
    }
}
