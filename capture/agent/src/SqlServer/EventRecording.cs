using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.SqlServer;

/// <summary>What files of events hold, by a first look.</summary>
internal sealed class EventSpan
{
    private ulong _lowest = ulong.MaxValue;
    private ulong _highest;
    private long _numbered;

    /// <summary>When the earliest event was; <see cref="DateTimeOffset.MaxValue"/> where there is none.</summary>
    public DateTimeOffset First { get; private set; } = DateTimeOffset.MaxValue;

    public long Events { get; private set; }

    /// <summary>How many events SQL Server numbered from the first of these to the last; null where one has no number.</summary>
    public ulong? Numbered => Events > 0 && _numbered == Events ? _highest - _lowest + 1 : null;

    /// <summary>Look through files. Throws <see cref="AgentError"/> where XELite cannot read one.</summary>
    public static EventSpan Of(IEnumerable<string> files, CancellationToken stop)
    {
        var span = new EventSpan();
        foreach (var file in files)
        {
            EventReader.ReadFile(file, span.Take, stop);
        }
        return span;
    }

    public void Take(SqlEvent seen)
    {
        First = seen.At < First ? seen.At : First;
        Events++;
        if (EventRows.Sequence(seen) is { } number)
        {
            _numbered++;
            (_lowest, _highest) = (Math.Min(_lowest, number), Math.Max(_highest, number));
        }
    }
}

/// <summary>Files of SQL Server's events as a recording, through XELite.</summary>
internal static class EventRecording
{
    /// <summary>Beside the recording's own streams: the import puts both on one clock, as it does with .xel files.</summary>
    private const string Folder = "sql";

    /// <summary>No import looks into it.</summary>
    private const string Aside = ".sql";

    /// <summary>Write the recording of <paramref name="files"/>, which <paramref name="span"/> is of, into <paramref name="folder"/>.</summary>
    /// <param name="kinds">What the server tells of its events; null: I/O and waits are taken as milliseconds.</param>
    /// <param name="roleOf">Roles of files that do not follow from their paths.</param>
    /// <remarks>Throws <see cref="AgentError"/>, also after a part of the files: what is in the folder is of no use then.</remarks>
    public static RecordingManifest Write(
        IReadOnlyList<string> files, EventSpan span, string folder, string title, EventKinds? kinds,
        Func<string, (sbyte Role, string? Database)?>? roleOf, CancellationToken stop)
    {
        var streams = new Dictionary<string, ArrowTableStream>(StringComparer.Ordinal);
        try
        {
            var manifest = new RecordingManifest
            {
                Title = title,
                ClockName = "SQL Server Extended Events",
                StartUtcNs = (span.First.UtcTicks - DateTimeOffset.UnixEpoch.UtcTicks) * 100,
                ResolutionNs = 100,
                StartUtcUncertaintyNs = 15_625_000,
            };
            manifest.Host["database"] = "SQL Server";
            var rows = new EventRows(manifest.StartUtcNs, Append, kinds);
            Append("io", RecordingSchemas.NoIo());
            foreach (var file in files)
            {
                var before = rows.Events;
                EventReader.ReadFile(file, rows.Take, stop);
                manifest.Sources.Add((Path.GetFileName(file), "xel", rows.Events - before));
            }
            rows.Finish();
            Append("files", SmallTables.Files([.. rows.Files.Select(file => (file.Id, (string?)file.Path, (int?)null))], roleOf, null));
            manifest.WindowEndNs = rows.LastNs;
            manifest.LatenciesDropped = rows.DurationsDropped;
            manifest.Ended = RecordingManifest.Normally;
            manifest.Notes.Add(kinds is null
                ? "read through XELite, which tells no packages, no units and no lost events: I/O and waits are taken as milliseconds"
                : "read through XELite; packages and units of durations are SQL Server's word, and milliseconds where it has none");
            if (rows.Unplaceable > 0)
            {
                manifest.Notes.Add($"{Words.Counted(rows.Unplaceable, "I/O")} left out: no size, or one over 4 GiB");
            }
            foreach (var (table, stream) in streams)
            {
                manifest.Rows[table] = stream.Rows;
                stream.End();
            }
            manifest.Save(folder);
            return manifest;
        }
        finally
        {
            foreach (var stream in streams.Values)
            {
                stream.Dispose();
            }
        }

        void Append(string table, Apache.Arrow.RecordBatch rows)
        {
            using (rows)
            {
                if (!streams.TryGetValue(table, out var stream))
                {
                    streams.Add(table, stream = new(Path.Combine(folder, table + ".arrows"), rows.Schema));
                }
                stream.Write(rows);
            }
        }
    }

    /// <summary>
    /// Put rows in place of a session's <paramref name="files"/>, which lie in <paramref name="folder"/>: into a folder of their own
    /// there, whole or not at all. What is to be told of it. Where XELite is not at hand, cannot read a file, or gives fewer events
    /// than SQL Server numbered, the files stay, which the import reads as they are.
    /// </summary>
    /// <param name="freeBytes">What may be written to the folder's volume; null where nobody knows.</param>
    public static string Replace(
        IReadOnlyList<string> files, string folder, EventKinds kinds, Func<string, (sbyte Role, string? Database)?>? roleOf,
        long? freeBytes)
    {
        const string Stays = "the sql layer stays in its .xel files, which iotrace import reads";
        if (!EventReader.IsThere())
        {
            return $"{Stays}: XELite is not beside iotrace-agent";
        }
        var aside = Path.Combine(folder, Aside);
        try
        {
            var bytes = files.Sum(file => new FileInfo(file).Length);
            if (freeBytes < bytes)
            {
                return $"{Stays}: rows of {Words.Bytes(bytes)} of events may not fit on the volume";
            }
            var span = EventSpan.Of(files, CancellationToken.None);
            if (span.Events == 0)
            {
                return $"{Stays}: XELite finds no event in them";
            }
            if (span.Numbered is not { } numbered)
            {
                return $"{Stays}: XELite gives events without event_sequence, which tells whether all are there";
            }
            if (numbered != (ulong)span.Events)
            {
                // Lost by the session or passed over by XELite: the import's reader of .xel tells what is missing.
                return $"{Stays}: XELite gives {Words.Counted(span.Events, "event")} where SQL Server numbered {Words.Counted((long)numbered, "event")}";
            }
            Directory.CreateDirectory(aside);
            _ = Write(files, span, aside, "SQL Server's events", kinds, roleOf, CancellationToken.None);
            Directory.Move(aside, Path.Combine(folder, Folder));
            return $"{Words.Counted(span.Events, "event")} of SQL Server became rows, in the folder {Folder}{Removed(files)}";
        }
        catch (Exception problem) when (problem is AgentError or IOException or UnauthorizedAccessException)
        {
            OutputFolder.Remove(aside);
            return $"{Stays}: {problem.Message.TrimEnd('.')}";
        }
    }

    private static string Removed(IEnumerable<string> files)
    {
        var left = new List<string>();
        foreach (var file in files)
        {
            try
            {
                File.Delete(file);
            }
            catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
            {
                left.Add(Path.GetFileName(file));
            }
        }
        return left.Count == 0 ? "" : $"; delete {string.Join(", ", left)}, which they came from, before the import";
    }
}
