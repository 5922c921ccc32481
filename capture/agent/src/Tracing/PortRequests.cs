namespace Iotrace.Agent.Tracing;

/// <summary>A request of the port driver that was completed (Microsoft-Windows-StorPort, events 200 and 201).</summary>
internal record struct PortRequest
{
    public long Completed;

    /// <summary>100 ns each, as the driver measured it.</summary>
    public ulong Duration;

    /// <summary>Of the request above the port driver; 0 where not told.</summary>
    public ulong Original;

    public uint Size;
    public (uint Port, uint Path, uint Target, uint Unit) Address;
    public Op Op;

    /// <summary>NT status if it failed, else 0.</summary>
    public int Error;
}

/// <summary>
/// Events 200 (time in the target device) and 201 (time in the lower driver stack), version 2: packed fields, no alignment.
/// By documentation and public source: no public trace holds such events.
/// </summary>
internal static class PortEventDecoder
{
    public static readonly Guid Provider = new("c4636a1e-7986-4646-bf10-7bc3b4a76e8e");

    /// <summary>The keyword under which the driver tells of each request.</summary>
    public const ulong PerformanceKeyword = 0x100000;

    public const int TimedInDevice = 200;
    public const int TimedInStack = 201;

    private const int DeviceError = unchecked((int)0xC0000185);

    public static bool TryRequest(ReadOnlySpan<byte> payload, int version, int p, long ticks, out PortRequest request)
    {
        var fields = new EventFields(payload);
        request = default;
        if (version != 2 || !fields.Has(35 + 2 * p) || OpOf(fields.U8(8 + p)) is not { } op)
        {
            return false;
        }
        var hasFailed = (fields.U8(9 + p) & 0x3F) != 1 || fields.U8(14 + 2 * p) != 0;
        var address = 10 + 2 * p;
        request = new()
        {
            Completed = ticks,
            Duration = fields.U64(0),
            Original = fields.Pointer(10 + p, p),
            Address = (fields.U8(address), fields.U8(address + 1), fields.U8(address + 2), fields.U8(address + 3)),
            Size = op is Op.Read or Op.Write ? fields.U32(15 + 2 * p) : 0,
            Op = op,
            Error = hasFailed ? DeviceError : 0,
        };
        return true;
    }

    /// <summary>What a SCSI operation code asks for (SBC-4).</summary>
    private static Op? OpOf(byte command) => command switch
    {
        0x08 or 0x28 or 0x88 or 0xA8 => Op.Read,
        0x0A or 0x2A or 0x8A or 0xAA => Op.Write,
        0x35 or 0x91 => Op.Flush,
        0x42 => Op.Discard,
        _ => null,
    };
}

/// <summary>Requests that wait for the disk I/O they were made for.</summary>
internal sealed class PortRequests
{
    /// <summary>More than any queue is deep: beyond, the trace lacks the disk I/O.</summary>
    private const int HeldMax = 1 << 16;

    private readonly Dictionary<ulong, List<PortRequest>> _held = [];
    private int _count;
    private bool _hasStackTimes;

    /// <summary>Take a request. It is given back in <paramref name="ready"/> where it waits for nothing.</summary>
    public void Take(in PortRequest request, int kind, List<PortRequest> ready)
    {
        // A host that tells the time in the stack may tell that in the device too: one of them makes the rows.
        if (kind == PortEventDecoder.TimedInStack)
        {
            if (!_hasStackTimes)
            {
                _hasStackTimes = true;
                _held.Clear(); // what waits was told in the device, and is told again
                _count = 0;
            }
        }
        else if (_hasStackTimes)
        {
            return;
        }
        if (request.Original == 0)
        {
            ready.Add(request);
            return;
        }
        if (_count >= HeldMax)
        {
            Finish(ready);
        }
        if (!_held.TryGetValue(request.Original, out var requests))
        {
            _held.Add(request.Original, requests = []);
        }
        requests.Add(request);
        _count++;
    }

    /// <summary>The requests that a disk I/O was made of; null for none.</summary>
    public List<PortRequest>? Of(ulong irp)
    {
        if (_count == 0 || !_held.Remove(irp, out var requests))
        {
            return null;
        }
        _count -= requests.Count;
        return requests;
    }

    /// <summary>Nothing more comes: what waits goes to <paramref name="ready"/>, in order of completion.</summary>
    public void Finish(List<PortRequest> ready)
    {
        ready.AddRange(_held.OrderBy(held => held.Value[0].Completed).ThenBy(held => held.Key).SelectMany(held => held.Value));
        _held.Clear();
        _count = 0;
    }
}
