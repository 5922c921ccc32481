using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Apache.Arrow;
using Apache.Arrow.Types;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Streams;

/// <summary>Positions in the word list of the recording's <c>layer</c>.</summary>
internal enum Layer : sbyte
{
    Sql = 0,
    Filesystem = 1,
    Block = 2,
    Device = 3,
}

/// <summary>A row of the recording's <c>io</c>. Negative ids stand for none, <see cref="long.MinValue"/> for no time.</summary>
internal record struct IoRow
{
    public const int None = int.MinValue;

    public Layer Layer;
    public Op Op;
    public long IssuedNs;

    /// <summary><see cref="long.MinValue"/> where the source has none.</summary>
    public long CompletedNs;

    /// <summary>Negative where there is none.</summary>
    public long OffsetBytes;

    public uint SizeBytes;
    public int DeviceId;
    public int FileId;
    public int ProcessId;

    /// <summary><see cref="None"/> where it is not known, as with every id.</summary>
    public int ThreadId;

    public uint Flags;
    public int Error;
}

/// <summary>Rows of <c>io</c> in columns, as Arrow has them. Filled, written and cleared over and over; allocates nothing after.</summary>
internal sealed class IoBatch
{
    private readonly Column _layer;
    private readonly Column _op;
    private readonly Column _issued;
    private readonly Column _completed;
    private readonly Column _offset;
    private readonly Column _size;
    private readonly Column _device;
    private readonly Column _file;
    private readonly Column _process;
    private readonly Column _thread;
    private readonly Column _flags;
    private readonly Column _error;
    private readonly Column[] _columns;

    public IoBatch(int capacity)
    {
        Capacity = capacity;
        _columns =
        [
            _layer = new(capacity, 1, Int8Type.Default, isNullable: false),
            _op = new(capacity, 1, Int8Type.Default, isNullable: false),
            _issued = new(capacity, 8, Int64Type.Default, isNullable: false),
            _completed = new(capacity, 8, Int64Type.Default, isNullable: true),
            _offset = new(capacity, 8, UInt64Type.Default, isNullable: true),
            _size = new(capacity, 4, UInt32Type.Default, isNullable: false),
            _device = new(capacity, 4, Int32Type.Default, isNullable: true),
            _file = new(capacity, 4, Int32Type.Default, isNullable: true),
            _process = new(capacity, 4, Int32Type.Default, isNullable: true),
            _thread = new(capacity, 4, Int32Type.Default, isNullable: true),
            _flags = new(capacity, 4, UInt32Type.Default, isNullable: false),
            _error = new(capacity, 4, Int32Type.Default, isNullable: false),
        ];
    }

    public int Capacity { get; }

    public int Count { get; private set; }

    public bool IsFull => Count == Capacity;

    /// <summary>Earliest and latest end of the rows: a completion, or a start where there is none.</summary>
    public long FirstNs { get; private set; } = long.MaxValue;

    public long LastNs { get; private set; } = long.MinValue;

    /// <summary>To be done by the writer once these rows are written; null for nothing.</summary>
    public Action? Then { get; set; }

    /// <summary>Add a row; there has to be room.</summary>
    public void Add(in IoRow row)
    {
        var at = Count;
        if ((uint)at >= (uint)Capacity)
        {
            throw new InvalidOperationException("the batch is full");
        }
        _layer.Set(at, (byte)row.Layer);
        _op.Set(at, (byte)row.Op);
        _issued.Set(at, row.IssuedNs);
        _completed.Set(at, row.CompletedNs, row.CompletedNs != long.MinValue);
        _offset.Set(at, row.OffsetBytes, row.OffsetBytes >= 0);
        _size.Set(at, row.SizeBytes);
        _device.Set(at, row.DeviceId, row.DeviceId != IoRow.None);
        _file.Set(at, row.FileId, row.FileId != IoRow.None);
        _process.Set(at, row.ProcessId, row.ProcessId != IoRow.None);
        _thread.Set(at, row.ThreadId, row.ThreadId != IoRow.None);
        _flags.Set(at, row.Flags);
        _error.Set(at, row.Error);
        Count = at + 1;
        var end = row.CompletedNs == long.MinValue ? row.IssuedNs : row.CompletedNs;
        FirstNs = Math.Min(FirstNs, end);
        LastNs = Math.Max(LastNs, end);
    }

    public void Clear()
    {
        Count = 0;
        (FirstNs, LastNs, Then) = (long.MaxValue, long.MinValue, null);
        foreach (var column in _columns)
        {
            column.Clear();
        }
    }

    /// <summary>A view of the rows, valid until the next <see cref="Add"/> or <see cref="Clear"/>.</summary>
    public RecordBatch View() =>
        new(RecordingSchemas.Io, _columns.Select(column => column.View(Count)), Count);

    /// <summary>Fixed-width values, and which of them are there.</summary>
    private sealed class Column(int capacity, int width, IArrowType type, bool isNullable)
    {
        private readonly byte[] _values = new byte[capacity * width];
        private readonly byte[] _present = isNullable ? NewBitmap((capacity + 7) / 8) : [];
        private int _nulls;

        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        public void Set<T>(int at, T value)
            where T : unmanaged
        {
            Unsafe.Add(ref Unsafe.As<byte, T>(ref MemoryMarshal.GetArrayDataReference(_values)), at) = value;
        }

        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        public void Set<T>(int at, T value, bool isPresent)
            where T : unmanaged
        {
            Set(at, isPresent ? value : default);
            if (!isPresent)
            {
                _nulls++;
                _present[at >> 3] &= unchecked((byte)~(1 << (at & 7)));
            }
        }

        public void Clear()
        {
            if (_nulls > 0)
            {
                _present.AsSpan().Fill(0xFF);
                _nulls = 0;
            }
        }

        public IArrowArray View(int count)
        {
            var values = new ArrowBuffer(_values.AsMemory(0, count * width));
            var present = _nulls > 0 ? new ArrowBuffer(_present.AsMemory(0, (count + 7) / 8)) : ArrowBuffer.Empty;
            return ArrowArrayFactory.BuildArray(new ArrayData(type, count, _nulls, 0, [present, values]));
        }

        private static byte[] NewBitmap(int bytes)
        {
            var bitmap = new byte[bytes];
            bitmap.AsSpan().Fill(0xFF);
            return bitmap;
        }
    }
}
