using System.CommandLine;
using System.Text.Json.Nodes;
using Iotrace.Agent.SqlServer;
using Iotrace.Agent.Streams;
using Iotrace.Agent.Tracing;

namespace Iotrace.Agent.Commands;

internal sealed record ConvertArgs(string Input, string Output, bool Anonymize, bool Json);

/// <summary>A trace file into a recording.</summary>
internal static class ConvertCommand
{
    private const long UnixEpochFileTime = 116_444_736_000_000_000;

    public static Command Create(CommandContext context)
    {
        var input = new Argument<string>("input") { Description = "A trace: .btl anywhere; .xel with XELite beside the program; .etl on Windows." };
        var command = new Command("convert", "Make a recording of a trace file.")
        {
            input, CommonOptions.Output, CommonOptions.Anonymize, CommonOptions.Json,
        };
        command.SetAction((parsed) => context.Run(parsed, stop => Convert(
            new(
                parsed.GetRequiredValue(input), parsed.GetRequiredValue(CommonOptions.Output),
                parsed.GetValue(CommonOptions.Anonymize), parsed.GetValue(CommonOptions.Json)),
            context.Output, stop)));
        return command;
    }

    public static int Convert(ConvertArgs args, Output output, CancellationToken stop)
    {
        if (!File.Exists(args.Input))
        {
            throw new AgentError($"'{args.Input}' is not there", "check the path");
        }
        return Path.GetExtension(args.Input).ToUpperInvariant() switch
        {
            ".ETL" => ConvertEtl(args, output, stop),
            ".XEL" => ConvertXel(args, output, stop),
            _ => ConvertBtl(args, output, stop),
        };
    }

    private static int ConvertBtl(ConvertArgs args, Output output, CancellationToken stop)
    {
        using var source = new BtlTraceSource(args.Input, args.Input);
        return Write(args, source, source.StartFileTime, "btl", new()
        {
            ["system"] = source.OsVersion,
            ["processors"] = source.Processors,
        }, output, stop);
    }

    private static int ConvertEtl(ConvertArgs args, Output output, CancellationToken stop)
    {
        if (!OperatingSystem.IsWindows())
        {
            throw new AgentError(
                $"'{args.Input}' is read through Windows, and this is not Windows",
                $"iotrace import {args.Input} reads it on any system");
        }
        using var source = new EtlTraceSource(args.Input);
        return Write(args, source, source.StartFileTime, "etl", [], output, stop);
    }

    private static int ConvertXel(ConvertArgs args, Output output, CancellationToken stop)
    {
        EventReader.Require($"or iotrace import {args.Input}, which reads it as it is, on any system");
        if (args.Anonymize)
        {
            throw new AgentError(
                $"'{args.Input}' holds texts that the agent does not anonymize", $"iotrace import --anonymize {args.Input} does");
        }
        var span = EventSpan.Of([args.Input], stop);
        if (span.Events == 0)
        {
            throw new AgentError($"'{args.Input}' holds no event", "was the session started?");
        }
        var folder = OutputFolder.Create(args.Output);
        try
        {
            var manifest = EventRecording.Write(
                [args.Input], span, folder, $"converted from {Path.GetFileName(args.Input)}", null, null, stop);
            if (args.Json)
            {
                output.Json(new JsonObject
                {
                    ["path"] = args.Output,
                    ["ended"] = manifest.Ended,
                    ["rows"] = new JsonObject(manifest.Rows.Select(table => KeyValuePair.Create(table.Key, (JsonNode?)table.Value))),
                    ["notes"] = new JsonArray([.. manifest.Notes.Select(note => JsonValue.Create(note))]),
                });
            }
            else
            {
                output.Line($"wrote {args.Output}: {Words.Counted(span.Events, "event")}; iotrace import {args.Output} -o NAME.iotrace");
            }
            return ExitStatus.Done;
        }
        catch
        {
            OutputFolder.Remove(folder);
            throw;
        }
    }

    private static int Write(
        ConvertArgs args, ITraceSource source, long startFileTime, string kind, JsonObject host, Output output,
        CancellationToken stop)
    {
        var folder = OutputFolder.Create(args.Output);
        try
        {
            var name = Path.GetFileName(args.Input);
            var manifest = new RecordingManifest
            {
                Title = args.Anonymize ? "anonymized conversion" : $"converted from {name}",
                ClockName = "Windows performance counter",
                StartUtcNs = (startFileTime - UnixEpochFileTime) * 100,
                ResolutionNs = 1e9 / source.Clock.Hertz,
                StartUtcUncertaintyNs = 15_625_000,
            };
            foreach (var (key, value) in host)
            {
                manifest.Host[key] = value?.DeepClone();
            }
            using var recording = new RecordingFolder(folder, manifest)
            {
                Anonymizer = args.Anonymize ? new() : null,
            };
            var recorder = new TraceRecorder(source.Clock, recording.Add);
            recording.Begin(recorder);
            using (stop.Register(source.Stop))
            {
                source.Run(recorder);
            }
            stop.ThrowIfCancellationRequested();
            recorder.Finish();
            Describe(manifest, recorder, source, args.Anonymize ? "trace." + kind : name, kind);
            recording.Finish(RecordingManifest.Normally);
            if (args.Json)
            {
                output.Json(Facts(args.Output, manifest, recorder));
            }
            else
            {
                output.Line(
                    $"wrote {args.Output}: {Words.Counted(recorder.Counts.Rows, "I/O")}; iotrace import {args.Output} -o NAME.iotrace");
            }
            return ExitStatus.Done;
        }
        catch
        {
            // A conversion can be done again; half of one is of no use.
            OutputFolder.Remove(folder);
            throw;
        }
    }

    private static void Describe(
        RecordingManifest manifest, TraceRecorder recorder, ITraceSource source, string name, string kind)
    {
        var counts = recorder.Counts;
        var losses = source.PollLosses();
        manifest.WindowEndNs = recorder.LastNs == long.MinValue ? 0 : recorder.LastNs;
        if (recorder.LastTicks != long.MinValue && recorder.Clock.TryNanoseconds(recorder.LastTicks, out var last))
        {
            manifest.WindowEndNs = Math.Max(manifest.WindowEndNs, last);
        }
        manifest.Sources.Add((name, kind, counts.Events));
        (manifest.EventsLost, manifest.BuffersLost) = (losses.Events, losses.Buffers);
        RecordingNotes.Count(manifest, recorder);
    }

    internal static JsonObject Facts(string path, RecordingManifest manifest, TraceRecorder recorder) => new()
    {
        ["path"] = path,
        ["ended"] = manifest.Ended,
        ["reads"] = recorder.Counts.Reads,
        ["writes"] = recorder.Counts.Writes,
        ["flushes"] = recorder.Counts.Flushes,
        ["rows"] = new JsonObject(manifest.Rows.Select(rows => KeyValuePair.Create(rows.Key, (JsonNode?)rows.Value))),
        ["events_lost"] = manifest.EventsLost,
        ["buffers_lost"] = manifest.BuffersLost,
        ["notes"] = new JsonArray([.. manifest.Notes.Select(note => JsonValue.Create(note))]),
    };
}
