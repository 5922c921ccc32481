"""What a report says: the verdict first, nothing that its inputs do not support, and the same facts as JSON."""

import html
import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.present import plain
from iotrace.analyze.report import write_report
from iotrace.analyze.report.gather import compared
from iotrace.schemas import IotraceError, Recording, SweepWriter
from iotrace.schemas.manifest import Quality
from iotrace.schemas.run import ClosedLoop, Replay

from ..knee import knee_simulator as simulator
from .report_inputs import REPLAY_FACTOR, SLOW_FROM_S, SLOW_UNTIL_S


def test_a_sweep_gives_the_verdict_and_it_comes_first(whole_report):
    text = whole_report.path.read_text("utf-8")
    assert whole_report.sweeps[0].knee.iops.value == pytest.approx(2000, rel=0.1)
    assert whole_report.sweeps[0].knee.objectives_met is True
    assert "The candidate /dev/sdb carries" in whole_report.verdict
    assert "its knee lies at" in whole_report.verdict
    assert "headroom" in whole_report.verdict
    assert text.index("The candidate /dev/sdb carries") < text.index("<figure ")
    assert whole_report.size_bytes == len(text.encode())


def test_the_load_that_is_needed_is_answered_first(tmp_path, sweep, night):
    """The candidate carries some 2,000 I/Os a second; 1x is 500."""
    for need, verdict, enough in ((2, "YES: 2x", True), (8, "NO: 8x", False)):
        facts = write_report([sweep, night], tmp_path / f"{need}.html", need=need)
        assert facts.answer.startswith(f"The candidate /dev/sdb: {verdict} (")
        assert facts.is_enough is enough
        text = facts.path.read_text("utf-8")
        assert text.index(verdict) < text.index(facts.sweeps[0].knee.sentence[:30])
        assert json.loads(json.dumps(plain(facts)))["needs"][0]["scale"] == need
    with pytest.raises(IotraceError, match="without a sweep"):
        write_report([night], tmp_path / "none.html", need=2)


@pytest.mark.parametrize("plays", ["the night", "another", None])
def test_a_sweep_beside_a_recording_that_it_does_not_play_says_so(tmp_path, sweep, night, plays):
    source_uuid = {"the night": night.manifest.uuid, "another": "b" * 32, None: None}[plays]
    played = replace(sweep, source_uuid=source_uuid)
    facts = write_report([played, night], tmp_path / "report.html", need=2)
    said = [one for one in facts.also if "1x is that recording's load" in one]
    assert len(said) == (plays == "another")
    assert facts.also[: len(said)] == said


def test_nothing_is_claimed_without_a_sweep(tmp_path, night):
    facts = write_report([night], tmp_path / "report.html", slo="p95<100ms")
    assert "knee" not in facts.verdict
    assert any("says nothing of a knee or of headroom" in sentence for sentence in facts.also)
    assert facts.verdict.startswith("It was slow once"), "what is asked for comes first"
    assert facts.also[0] == facts.recordings[0].sentence
    assert facts.recordings[0].objectives[0].is_met is True
    assert facts.sweeps == []
    assert facts.comparisons == []


def test_late_generator_gives_no_verdict_on_the_storage(tmp_path):
    random = np.random.default_rng(1)
    writer = SweepWriter(tmp_path / "late.iotrace", title="late", source_uuid=None)
    arrival = simulator.poisson(random, 500, 4000)
    issued = arrival + random.exponential(0.001, len(arrival))
    path = writer.step_path(1)
    name = path.name.removesuffix(".iotrace")
    step = simulator.write_step(path.parent, arrival, issued + 0.0001, scale=1, name=name, issued_s=issued)
    writer.add(1, step)
    facts = write_report([writer.sweep], tmp_path / "report.html", slo="p95<15ms")
    assert facts.is_enough is None
    assert "The candidate of sweep late: where the storage breaks cannot be judged" in facts.verdict
    assert "Left out are 1x: the load generator was late" in facts.verdict
    assert "the load generator was late" in (tmp_path / "report.html").read_text("utf-8")


def test_a_replay_is_held_against_what_was_captured(whole_report):
    (found,) = whole_report.comparisons
    assert (found.before, found.after) == ("night", "candidate")
    median = next(figure for figure in found.comparison.headline("read").figures if figure.quantity == "p50")
    # The 0.05 ms above the device are no faster.
    low, high = median.ratio_interval
    assert low <= REPLAY_FACTOR * 1.05
    assert high >= REPLAY_FACTOR * 0.9
    assert found.sentence.startswith("B is faster than A: at the p")
    who = "A is the night (captured); B is the candidate (replayed), at 1x the recorded load."
    assert found.sentence.endswith(who)
    text = whole_report.path.read_text("utf-8")
    assert "Comparison: B against A" in text
    assert text.index("Comparison:") < text.index("Recording: the night")


def test_what_was_captured_comes_first_in_a_comparison(night, replayed, make_recording):
    assert compared([replayed, night]) == (night, [replayed])
    assert compared([night, replayed, replayed]) == (night, [replayed, replayed])
    assert compared([night]) is None
    closed = Recording(replayed.path, replace(replayed.manifest, replay=ClosedLoop(loop="closed")))
    empty = make_recording({"issued_ns": [], "completed_ns": []})
    assert compared([night, closed, empty]) is None


def test_a_slow_window_is_told_and_marked(whole_report):
    night = next(one for one in whole_report.recordings if one.name == "night")
    (window,) = night.incidents.windows
    assert window.start_ns / 1e9 == pytest.approx(SLOW_FROM_S, abs=1)
    assert window.end_ns / 1e9 == pytest.approx(SLOW_UNTIL_S, abs=1)
    assert window.layer == "device"
    assert window.cause == "service-driven"
    assert any("It was slow once" in sentence for sentence in whole_report.also)
    text = whole_report.path.read_text("utf-8")
    section = text[text.index("Slow windows: the night</h2>") : text.index("Recording: the night</h2>")]
    assert "Latency against normal over time" in section
    assert "Window 1: what it hit" in section
    most = [
        max(
            latency / normal
            for at_ns, latency, normal in zip(one.at_ns, one.latency_ns, one.normal_ns, strict=True)
            if latency and window.start_ns <= at_ns < window.end_ns
        )
        for one in night.slow_times.timelines
    ]
    of_each = f"{most[0]:.2f}x slower in block and {most[1]:.2f}x slower in device"
    said = f"{window.factor:.2f}x slower over window 1; in its slowest 1.00 s {of_each}."
    assert said in section, "what the chart reaches"
    grounds = "".join(f"<li>{html.escape(words)}</li>" for words in window.evidence)
    assert f': {html.escape(window.headline)}.<ul class="evidence">{grounds}</ul></li>' in section.replace(
        "\n", ""
    )
    assert "D:\\sales.mdf" in section
    assert "2026-01-03 00:2" in section, "when it was on the clock"
    rest = text[text.index("Recording: the night</h2>") :]
    assert 'id="r1-window-1"' in section, "what a click on the shaded stretch leads to"
    assert "Slow windows: the candidate" not in text
    assert "<caption>Top databases</caption>" in rest
    assert '<th scope="row">sales</th>' in rest
    data = plain(whole_report)
    assert data["recordings"][0]["incidents"]["windows"][0]["cause"] == "service-driven"


def test_a_sweep_comes_before_a_comparison(whole_report):
    assert whole_report.verdict == whole_report.sweeps[0].verdict
    assert whole_report.comparisons[0].sentence in whole_report.also
    assert any(
        sentence.startswith("the night (captured): The p95 service time at the block layer is")
        for sentence in whole_report.also
    )


def test_facts_are_json(whole_report, night):
    data = json.loads(json.dumps(plain(whole_report), allow_nan=False))
    assert data["sweeps"][0]["knee"]["state"] == "reached"
    assert data["recordings"][0]["description"]["workload_layer"] == "block"
    assert data["comparisons"][0]["comparison"]["is_replay_of_a"] is True
    assert data["verdict"] == whole_report.verdict
    assert data["also"] == whole_report.also
    assert len(data["origins"]) == 7
    assert data["origins"][0]["sources"][0]["sha256"] == "ab" * 32
    assert data["origins"][1]["replay"] == f"scale 1.0, direct True, of {night.manifest.uuid}"


def test_existing_files_are_kept(tmp_path, night):
    target = tmp_path / "report.html"
    target.write_text("mine")
    with pytest.raises(IotraceError, match="exists already"):
        write_report([night], target)
    with pytest.raises(IotraceError, match="not as iotrace wrote it"):
        write_report([night], target, overwrite=True)
    assert target.read_text() == "mine"
    target.unlink()
    write_report([night], target)
    write_report([night], target, overwrite=True)
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.glob(".report*")] == []


def test_what_is_reported_on_is_not_overwritten(tmp_path, night):
    manifest = night.path / "manifest.json"
    before = manifest.read_bytes()
    for place in (manifest, night.path / "report.html"):
        with pytest.raises(IotraceError, match="lies in what is reported on"):
            write_report([night], place, overwrite=True)
    assert manifest.read_bytes() == before
    (tmp_path / "text").write_text("mine")
    for place in (tmp_path / "text" / "report.html", tmp_path / "none" / "report.html"):
        with pytest.raises(IotraceError, match=r"cannot write .* is not a folder"):
            write_report([night], place)


def test_bad_wishes_are_named(tmp_path, night):
    with pytest.raises(IotraceError, match="nothing to report"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(IotraceError, match="fast"):
        write_report([night], tmp_path / "report.html", slo="fast")
    with pytest.raises(IotraceError, match="cannot write"):
        write_report([night], tmp_path / "absent" / "report.html")


def test_a_recording_without_ios_is_said_to_hold_none(tmp_path, make_recording):
    empty = make_recording({"issued_ns": [], "completed_ns": []})
    facts = write_report([empty], tmp_path / "report.html")
    assert "holds no reads or writes" in facts.verdict
    assert "<figure " not in (tmp_path / "report.html").read_text("utf-8")


def test_every_sentence_of_the_verdict_names_whose_figures_it_has(tmp_path, sweep, night):
    """Under the candidate's verdict stood: "The p99 service time is 3.42 ms, within the objective": production's."""
    facts = write_report([sweep, night], tmp_path / "report.html", slo="p95<100ms")
    names = ("The candidate", night.manifest.title or night.name, "No sweep")
    sentences = [facts.verdict, facts.answer, *facts.also]
    assert [sentence for sentence in sentences if not any(name in sentence for name in names)] == []
    (check,) = [sentence for sentence in facts.also if "objective" in sentence and "p95" in sentence]
    assert check.startswith(f"{night.manifest.title or night.name} (captured): ")
    assert facts.answer == "The candidate /dev/sdb meets every objective at 1x."


def test_what_is_not_to_be_relied_on_is_named(tmp_path, night):
    late = Replay(generator_limited=True, issued_ios=10, planned_ios=10)
    spoiled = tmp_path / "late.iotrace"
    shutil.copytree(night.path, spoiled)
    manifest = replace(night.manifest, kind="replayed", replay=late, title="late run")
    (spoiled / "manifest.json").write_text(manifest.to_json())
    facts = write_report([Recording.open(spoiled)], tmp_path / "report.html", slo="p95<100ms")
    assert facts.verdict.startswith(
        "Not to be relied on: late (the replay itself ran late). late run: replayed "
    )
    assert facts.answer == ""


SECOND = 1_000_000_000


def _hanging(make_recording, one_in, **manifest):
    """200 reads a second for 200 s, each of 2 ms; one in ``one_in`` of the first 190 s never ends."""
    issued_ns = np.arange(40_000) * (SECOND // 200)
    hangs = (np.arange(40_000) % one_in == 3) & (issued_ns < 190 * SECOND)
    io = {"issued_ns": issued_ns, "completed_ns": pa.array(issued_ns + 2_000_000, mask=hangs)}
    return make_recording(io, window_ns=200 * SECOND, **manifest)


def test_an_objective_is_missed_if_too_many_ios_never_end(tmp_path, make_recording):
    facts = write_report([_hanging(make_recording, 50)], tmp_path / "r.html", slo="p99<15ms,write p99<15ms")
    check, writes = facts.recordings[0].objectives
    assert facts.answer == "test (captured) misses an objective."
    assert (check.is_met, check.unfinished_count, check.io_count) == (False, 760, 39_240)
    assert check.quantile_ns > 60 * SECOND
    assert check.sentence.startswith("The p99 service time at the block layer is at least ")
    assert "above the objective of 15 ms: 760 I/Os have no end" in check.sentence
    assert writes.sentence == "Too few I/Os to tell the p99 service time of writes at the block layer."
    assert facts.is_no


def test_an_objective_is_met_if_few_ios_never_end(tmp_path, make_recording):
    facts = write_report([_hanging(make_recording, 100)], tmp_path / "r.html", slo="p99<15ms")
    assert facts.answer == "test (captured) meets every objective."
    assert facts.recordings[0].objectives[0].unfinished_count == 380


@pytest.mark.parametrize(
    ("slo", "events_lost", "why"),
    [("p99<15ms", 9, "have been lost"), ("p99<900s", 0, "come before or after that")],
)
def test_an_objective_that_ios_without_an_end_may_decide_cannot_be_told(
    tmp_path, make_recording, slo, events_lost, why
):
    """Either their ends may have been lost, or they have not waited for so long yet."""
    night = _hanging(make_recording, 50, quality=Quality(events_lost=events_lost).judge(40_000))
    facts = write_report([night], tmp_path / "r.html", slo=slo)
    (check,) = facts.recordings[0].objectives
    assert (facts.is_enough, facts.is_no, facts.answer, check.is_met) == (None, True, "", None)
    assert (
        "cannot be told: it is 2.00 ms over the I/Os that ended, but 760 I/Os have no end" in check.sentence
    )
    assert check.sentence.endswith(f"the missing ends may {why}.")


def test_a_recording_of_which_it_cannot_be_told_is_not_named_for_missing(tmp_path, make_recording):
    lost = _hanging(make_recording, 50, title="lost", quality=Quality(events_lost=9).judge(40_000))
    hung = _hanging(make_recording, 50, title="hung")
    facts = write_report([lost, hung], tmp_path / "r.html", slo="p99<15ms")
    assert facts.answer == "hung (captured) misses an objective."


def test_a_comparison_says_how_many_ios_wait(tmp_path, make_recording):
    pair = _hanging(make_recording, 40_001), _hanging(make_recording, 500)
    facts = write_report([*pair], tmp_path / "r.html")
    assert ", and 76 I/Os of B's waited " in facts.comparisons[0].sentence
    lost = _hanging(make_recording, 500, quality=Quality(events_lost=9).judge(40_000))
    facts = write_report([pair[0], lost], tmp_path / "l.html")
    assert "but I/Os have no end, which may have been lost" in facts.comparisons[0].sentence
