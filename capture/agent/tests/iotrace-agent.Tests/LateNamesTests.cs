using CsCheck;
using Iotrace.Agent.Tracing;
using Xunit;

namespace Iotrace.Agent.Tests;

public class LateNamesTests
{
    /// <summary>The rule over all facts at once, as its words say it.</summary>
    private static int? Rule(IReadOnlyList<(long Ticks, bool IsFrom, int Value)> facts, long at)
    {
        var ends = facts.Where(fact => !fact.IsFrom).ToList();
        int? next = ends.Where(end => end.Ticks >= at).Select(end => (int?)end.Value).FirstOrDefault();
        var begun = facts.Where(fact => fact.IsFrom && fact.Ticks <= at).ToList();
        if (begun.Count == 0)
        {
            return next;
        }
        var since = begun[^1];
        var hasEnded = ends.Exists(end => end.Ticks > since.Ticks && end.Ticks < at);
        return hasEnded ? next ?? since.Value : since.Value;
    }

    [Fact]
    public void Answers_that_are_given_while_facts_come_are_those_of_the_rule_over_all_facts() =>
        Gen.Select(Gen.Int[0, 2], Gen.Int[1, 3], Gen.Int[0, 3]).Array[0, 40].Sample(steps =>
        {
            var timeline = new LateTimeline<int>();
            var facts = new List<(long, bool, int)>();
            var asked = new List<(long At, LateTimeline<int>.Span Span)>();
            var now = 0L;
            foreach (var (kind, value, back) in steps)
            {
                now += 2;
                if (kind == 0)
                {
                    var at = now - back; // an I/O began before it is seen
                    asked.Add((at, timeline.At(7, at)));
                    asked[^1].Span.Reference = 0;
                    continue;
                }
                facts.Add((now, kind == 1, value));
                if (kind == 1)
                {
                    timeline.From(7, now, value);
                }
                else
                {
                    timeline.Until(7, now, value);
                }
            }
            return asked.TrueForAll(one => Rule(facts, one.At) == (one.Span.HasValue ? one.Span.Value : null));
        });

    [Fact]
    public void A_file_that_was_open_before_the_trace_is_named_by_the_rundown_at_its_end()
    {
        var timeline = new LateTimeline<string>();
        var span = timeline.At(5, 100);
        Assert.False(span.HasValue);
        timeline.Until(5, 900, @"\Device\HarddiskVolume2\a.mdf");
        Assert.Equal(@"\Device\HarddiskVolume2\a.mdf", span.Value);
    }

    [Fact]
    public void A_listed_name_holds_before_and_after()
    {
        var timeline = new LateTimeline<string>();
        var before = timeline.At(5, 100);
        timeline.Seen(5, 200, "a");
        Assert.Equal(("a", "a"), (before.Value, timeline.At(5, 300).Value));
        timeline.Until(5, 400, "a");
        timeline.From(5, 500, "b");
        timeline.Seen(5, 450, "a");
        Assert.Equal("b", timeline.At(5, 600).Value);
    }

    [Fact]
    public void What_is_over_is_forgotten_and_what_waits_is_not()
    {
        var timeline = new LateTimeline<string>();
        timeline.From(1, 10, "gone");
        timeline.Until(1, 20, "gone");
        var waiting = timeline.At(2, 10);
        waiting.Reference = 0;
        timeline.From(3, 10, "open");
        timeline.Forget(1000);
        Assert.Equal(2, timeline.Count);
        timeline.Until(2, 2000, "late");
        Assert.Equal("late", waiting.Value);
    }

    private static ProcessFact Fact(long ticks, ulong key, Valid valid, bool isReal, string name) =>
        new(ticks, key, 8, 4, valid, isReal, name);

    [Fact]
    public void A_process_number_that_is_used_again_makes_two()
    {
        var processes = new ProcessLives();
        processes.Learn(Fact(10, 1, Valid.From, false, "old.exe"));
        processes.Learn(Fact(30, 1, Valid.Until, true, "old.exe"));
        processes.Learn(Fact(50, 2, Valid.From, true, "new.exe"));
        processes.Learn(Fact(90, 2, Valid.Until, false, "new.exe"));
        Assert.Equal(["old.exe", "new.exe"], processes.All.Select(life => life.Name));
        Assert.Equal(["old.exe", "old.exe", "new.exe"], new long[] { 0, 40, 50 }.Select(at => processes.At(8, at).Name));
        Assert.Equal((null, 30L), (processes.At(8, 0).StartedTicks, processes.At(8, 0).EndedTicks));
    }

    [Fact]
    public void A_process_that_only_an_io_named_is_told_of_later()
    {
        var processes = new ProcessLives();
        var life = processes.At(8, 5);
        Assert.Null(life.Name);
        processes.Learn(Fact(90, 2, Valid.Until, false, "late.exe"));
        Assert.Equal("late.exe", Assert.Single(processes.All).Name);
        Assert.Same(life, processes.At(8, 5));
    }

    [Fact]
    public void The_first_mapping_that_fits_wins_without_regard_to_case()
    {
        var volumes = new VolumePaths();
        volumes.Add(@"\??\", "");
        volumes.Add(@"\Device\HarddiskVolume2\", @"C:\mnt\log\");
        volumes.Add(@"\Device\HARDDISKVOLUME2\", @"D:\");
        Assert.Equal(@"C:\mnt\log\a\B.ldf", volumes.UserPath(@"\device\harddiskvolume2\a\B.ldf"));
        Assert.Equal(@"\Device\HarddiskVolume21\x", volumes.UserPath(@"\Device\HarddiskVolume21\x"));
    }

    [Fact]
    public void A_volume_gets_the_letter_of_the_one_partition_that_all_its_io_fell_into()
    {
        var (c, d) = (new PartitionFact(0, 1, 0, 100, "C:", "NTFS"), new PartitionFact(0, 2, 100, 100, "D:", "NTFS"));
        var found = VolumePaths.Infer(
        [
            (@"\Device\HarddiskVolume1\a", c), (@"\Device\HarddiskVolume1\b", c),
            (@"\Device\HarddiskVolume2\a", d), (@"\Device\HarddiskVolume2\b", c),
            (@"\Device\HarddiskVolumeShadowCopy1\a", d),
        ]);
        Assert.Equal(@"C:\a", found.UserPath(@"\Device\HarddiskVolume1\a"));
        Assert.Equal(1, found.Count);
    }
}
