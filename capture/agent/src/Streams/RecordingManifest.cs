using System.Text.Json;
using System.Text.Json.Nodes;

namespace Iotrace.Agent.Streams;

/// <summary>Ticks of the performance counter and UTC at one moment.</summary>
internal readonly record struct ClockPair(long Ticks, long UtcNs);

/// <summary>Losses that were noticed at a moment, since the look before.</summary>
internal readonly record struct LossAt(long AtNs, long Events, long Buffers, string Source);

/// <summary>
/// <c>manifest.json</c>: what would be true of the recording if nothing came after it. Written aside, then renamed.
/// </summary>
internal sealed class RecordingManifest
{
    private static readonly JsonSerializerOptions Indented = new()
    {
        WriteIndented = true,
        Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
    };

    public Guid Uuid { get; } = Guid.NewGuid();

    public required string Title { get; init; }

    public required string ClockName { get; init; }

    public required long StartUtcNs { get; init; }

    public required double ResolutionNs { get; init; }

    public long? StartUtcUncertaintyNs { get; init; }

    public List<ClockPair> ClockPairs { get; } = [];

    public long WindowStartNs { get; set; }

    public long WindowEndNs { get; set; }

    public JsonObject Host { get; } = [];

    public List<(string Name, string Kind, long Events)> Sources { get; } = [];

    public List<LossAt> Losses { get; } = [];

    public long EventsLost { get; set; }

    public long BuffersLost { get; set; }

    /// <summary>What SQL Server's session of events dropped.</summary>
    public long SideEventsLost { get; set; }

    public long SideBuffersLost { get; set; }

    public long LatenciesDropped { get; set; }

    public long UnpairedIssues { get; set; }

    public long UnpairedCompletions { get; set; }

    public long ClockSteps { get; set; }

    public bool IsTruncated { get; set; }

    public string Ended { get; set; } = Cut;

    public List<string> Notes { get; } = [];

    public Dictionary<string, long> Rows { get; } = new(StringComparer.Ordinal);

    /// <summary>What is true as long as nobody says how it ended.</summary>
    public const string Cut = "the agent was killed, or the machine went down";

    public const string Normally = "normally";

    /// <summary>What is to be said of a part of the recording, which ended as it was meant to.</summary>
    public RecordingManifest Excerpt(string title, long startNs, long endNs)
    {
        lock (this)
        {
            var excerpt = new RecordingManifest
            {
                Title = title,
                ClockName = ClockName,
                StartUtcNs = StartUtcNs,
                ResolutionNs = ResolutionNs,
                StartUtcUncertaintyNs = StartUtcUncertaintyNs,
                WindowStartNs = startNs,
                WindowEndNs = endNs,
                Ended = Normally,
            };
            excerpt.ClockPairs.AddRange(ClockPairs);
            foreach (var (name, value) in Host)
            {
                excerpt.Host[name] = value?.DeepClone();
            }
            return excerpt;
        }
    }

    public void Save(string folder)
    {
        var path = Path.Combine(folder, "manifest.json");
        var aside = path + ".new";
        string text;
        lock (this)
        {
            text = ToJson().ToJsonString(Indented);
        }
        File.WriteAllText(aside, text + "\n");
        File.Move(aside, path, overwrite: true);
    }

    public JsonObject ToJson()
    {
        var (verdict, reasons) = Judge();
        return new()
        {
            ["kind"] = "captured",
            ["title"] = Title,
            ["clock"] = new JsonObject
            {
                ["start_utc_ns"] = StartUtcNs,
                ["resolution_ns"] = ResolutionNs,
                ["name"] = ClockName,
                ["start_utc_uncertainty_ns"] = StartUtcUncertaintyNs,
                ["pairs"] = new JsonArray([.. ClockPairs.Select(pair => new JsonArray(pair.Ticks, pair.UtcNs))]),
            },
            ["window_start_ns"] = WindowStartNs,
            ["window_end_ns"] = WindowEndNs,
            ["host"] = Host.DeepClone(),
            ["sources"] = new JsonArray([.. Sources.Select(source => new JsonObject
            {
                ["name"] = source.Name,
                ["kind"] = source.Kind,
                ["events"] = source.Events,
            })]),
            ["quality"] = new JsonObject
            {
                ["events_lost"] = EventsLost + SideEventsLost,
                ["buffers_lost"] = BuffersLost + SideBuffersLost,
                ["unpaired_issues"] = UnpairedIssues,
                ["unpaired_completions"] = UnpairedCompletions,
                ["latencies_dropped"] = LatenciesDropped,
                ["clock_steps"] = ClockSteps,
                ["truncated_tail"] = IsTruncated,
                ["ended"] = Ended,
                ["losses"] = new JsonArray([.. Losses.Select(loss => new JsonObject
                {
                    ["at_ns"] = loss.AtNs,
                    ["events"] = loss.Events,
                    ["buffers"] = loss.Buffers,
                    ["source"] = loss.Source,
                })]),
                ["notes"] = new JsonArray([.. Notes.Select(note => JsonValue.Create(note))]),
                ["verdict"] = verdict,
                ["reasons"] = new JsonArray([.. reasons.Select(reason => JsonValue.Create(reason))]),
            },
            ["replay"] = null,
            ["tools"] = new JsonObject { ["iotrace-agent"] = AgentVersion.Text },
            ["uuid"] = Uuid.ToString("D"),
            ["rows"] = new JsonObject(Rows.Select(rows => KeyValuePair.Create(rows.Key, (JsonNode?)rows.Value))),
            ["format_version"] = 1,
        };
    }

    /// <summary>A first verdict, which the import makes again with all that it finds: poor, usable or good.</summary>
    private (string Verdict, List<string> Reasons) Judge()
    {
        var events = Rows.GetValueOrDefault("io");
        var (lost, buffers) = (EventsLost + SideEventsLost, BuffersLost + SideBuffersLost);
        var isPoor = buffers > 0 || (lost > 0 && lost * 100 >= events + lost);
        List<string> reasons = [];
        if (lost > 0)
        {
            reasons.Add(Words.Counted(lost, "event") + " lost");
        }
        if (buffers > 0)
        {
            reasons.Add(Words.Counted(buffers, "buffer") + " lost");
        }
        if (Ended != Normally)
        {
            reasons.Add($"recording ended early: {Ended}");
        }
        return (isPoor ? "poor" : reasons.Count > 0 ? "usable" : "good", reasons);
    }
}
