using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Streams;

/// <summary>What the counts of a recorder say of the recording's quality.</summary>
internal static class RecordingNotes
{
    public static void Count(RecordingManifest manifest, TraceRecorder recorder)
    {
        var counts = recorder.Counts;
        manifest.LatenciesDropped = counts.ResponsesDropped;
        manifest.UnpairedIssues = counts.UnpairedStarts + counts.UnendedOperations;
        manifest.UnpairedCompletions = counts.UnpairedCompletions;
        foreach (var (count, one, rest) in new[]
        {
            (counts.Rejected, "event", " left out: shorter than the form, or of an unknown one"),
            (counts.Unplaceable, "I/O", " left out: the time cannot be expressed"),
            (counts.ResponsesReplaced, "implausible latency", " replaced by the time since the I/O's start event"),
            (counts.FailedOperations, "file operation", " failed"),
            (counts.OtherDisks, "I/O", " of other disks left out"),
            (counts.Defects, "event", " left out by a defect of the agent"),
        })
        {
            if (count > 0)
            {
                manifest.Notes.Add(
                    Words.Counted(count, one, one.EndsWith('y') ? one[..^1] + "ies" : null) + rest);
            }
        }
        if (recorder.FirstDefect is { } defect)
        {
            manifest.Notes.Add($"the first defect: {defect.ReplaceLineEndings(" ")}");
        }
    }
}
