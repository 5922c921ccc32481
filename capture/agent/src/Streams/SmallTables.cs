using Apache.Arrow;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Streams;

/// <summary>Rows of the tables that are written as a whole, and of those that get few rows at a time.</summary>
internal static class SmallTables
{
    private const sbyte KindDisk = 0;
    private const sbyte KindPartition = 1;

    public static RecordBatch Devices(DeviceTable devices, Anonymizer? anonymizer)
    {
        var id = new Int32Array.Builder();
        var name = new StringArray.Builder();
        var kind = new Int8Array.Builder();
        var parent = new Int32Array.Builder();
        var start = new UInt64Array.Builder();
        var size = new UInt64Array.Builder();
        var logical = new UInt32Array.Builder();
        var physical = new UInt32Array.Builder();
        var mount = new StringArray.Builder();
        var filesystem = new StringArray.Builder();
        var model = new StringArray.Builder();
        var cache = new BooleanArray.Builder();
        var rows = 0;
        foreach (var (number, disk) in devices.Disks)
        {
            rows++;
            id.Append(DeviceTable.DiskId(number));
            name.Append($"disk {number}");
            kind.Append(KindDisk);
            parent.AppendNull();
            start.AppendNull();
            size.Append(disk?.SizeBytes);
            logical.Append(disk?.SectorBytes);
            physical.Append(disk?.PhysicalBlockBytes);
            mount.AppendNull();
            filesystem.AppendNull();
            Append(model, disk?.Model);
            Append(cache, disk?.WriteCache);
        }
        foreach (var partition in devices.Partitions)
        {
            rows++;
            id.Append(devices.PartitionId(partition));
            name.Append($"disk {partition.Disk} partition {partition.Number}");
            kind.Append(KindPartition);
            parent.Append(DeviceTable.DiskId(partition.Disk));
            start.Append(partition.StartBytes);
            size.Append(partition.SizeBytes);
            logical.AppendNull();
            physical.AppendNull();
            Append(mount, anonymizer is null ? partition.Letter : anonymizer.Path(partition.Letter));
            Append(filesystem, partition.FileSystem);
            model.AppendNull();
            cache.AppendNull();
        }
        return new(
            RecordingSchemas.Devices,
            [
                id.Build(), name.Build(), kind.Build(), parent.Build(), start.Build(), size.Build(), logical.Build(),
                physical.Build(), mount.Build(), filesystem.Build(), model.Build(), cache.Build(),
            ],
            rows);
    }

    public static RecordBatch Files(
        List<(int Id, string? Path, int? Device)> rows, Func<string, (sbyte Role, string? Database)?>? roleOf,
        Anonymizer? anonymizer)
    {
        var id = new Int32Array.Builder().Reserve(rows.Count);
        var path = new StringArray.Builder();
        var role = new Int8Array.Builder();
        var database = new StringArray.Builder();
        var device = new Int32Array.Builder();
        var size = new UInt64Array.Builder();
        foreach (var row in rows)
        {
            var told = row.Path is null ? null : roleOf?.Invoke(row.Path);
            id.Append(row.Id);
            Append(path, row.Path is null || anonymizer is null ? row.Path : anonymizer.Path(row.Path));
            role.Append(told?.Role);
            Append(database, told?.Database is { } name && anonymizer is not null ? anonymizer.Name(name) : told?.Database);
            device.Append(row.Device);
            size.AppendNull();
        }
        return new(
            RecordingSchemas.Files,
            [id.Build(), path.Build(), role.Build(), database.Build(), device.Build(), size.Build()], rows.Count);
    }

    public static RecordBatch Processes(
        List<(int Id, ProcessLives.Life? Life)> rows, TickClock clock, Anonymizer? anonymizer)
    {
        var id = new Int32Array.Builder().Reserve(rows.Count);
        var number = new Int64Array.Builder();
        var name = new StringArray.Builder();
        var parent = new Int64Array.Builder();
        var started = new Int64Array.Builder();
        var ended = new Int64Array.Builder();
        foreach (var (process, life) in rows)
        {
            id.Append(process);
            number.Append(life is null ? null : (long)life.Number);
            Append(name, life?.Name is { } told && anonymizer is not null ? anonymizer.Name(told) : life?.Name);
            parent.Append(life?.Parent is { } above ? (long)above : null);
            started.Append(Nanoseconds(life?.StartedTicks, clock));
            ended.Append(Nanoseconds(life?.EndedTicks, clock));
        }
        return new(
            RecordingSchemas.Processes,
            [id.Build(), number.Build(), name.Build(), parent.Build(), started.Build(), ended.Build()],
            rows.Count);
    }

    public static RecordBatch Markers(IReadOnlyList<(long AtNs, long? DurationNs, string Kind, string? Text)> rows)
    {
        var at = new Int64Array.Builder();
        var duration = new Int64Array.Builder();
        var kind = new StringArray.Builder();
        var text = new StringArray.Builder();
        foreach (var row in rows)
        {
            at.Append(row.AtNs);
            duration.Append(row.DurationNs);
            kind.Append(row.Kind);
            Append(text, row.Text);
        }
        return new(RecordingSchemas.Markers, [at.Build(), duration.Build(), kind.Build(), text.Build()], rows.Count);
    }

    private static long? Nanoseconds(long? ticks, TickClock clock) =>
        ticks is { } told && clock.TryNanoseconds(told, out var nanoseconds) ? nanoseconds : null;

    private static void Append(StringArray.Builder column, string? text)
    {
        if (string.IsNullOrEmpty(text))
        {
            column.AppendNull();
        }
        else
        {
            column.Append(text);
        }
    }

    private static void Append(BooleanArray.Builder column, bool? value)
    {
        if (value is { } told)
        {
            column.Append(told);
        }
        else
        {
            column.AppendNull();
        }
    }
}
