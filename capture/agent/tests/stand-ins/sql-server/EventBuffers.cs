using System.Buffers.Binary;

namespace Iotrace.StandIns.SqlServer;

/// <summary>What a live stream of events sends.</summary>
public static class EventBuffers
{
    private const int HeaderBytes = 0x200;

    /// <summary>The rows that an .xel file becomes: its header (2), then whole buffers, each with its type: metadata (1) or events (0).</summary>
    public static IReadOnlyList<object?[]> Of(byte[] file)
    {
        List<object?[]> rows = [[2, file[..HeaderBytes]]];
        for (var place = HeaderBytes; place < file.Length;)
        {
            var length = (int)BinaryPrimitives.ReadUInt32LittleEndian(file.AsSpan(place + 0x10));
            rows.Add([(int)BinaryPrimitives.ReadUInt16LittleEndian(file.AsSpan(place + 0x0E)), file[place..(place + length)]]);
            place += length;
        }
        return rows;
    }
}
