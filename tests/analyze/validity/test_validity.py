"""Each rule of validity fires on what it is about, is silent just beside it, and is in the documentation."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze import library, validity
from iotrace.analyze.describe.recording import describe
from iotrace.schemas import TABLES, Recording

from ...recordings import write_recording
from ..planted_truth import described
from .validity_cases import CASES, FURTHER, SECOND, Case, speeding_up

METHODS = Path(__file__).parents[3] / "docs" / "methods.md"
RULES = {rule.id: rule for rule in validity.RULES}


def _fired(rule_id, case, make_recording):
    """What the rule says of the case, which has to be in its scope."""
    subject = case.subject(make_recording)
    assert RULES[rule_id].scopes & {subject.scope, "comparison" if subject.comparison else subject.scope}
    return RULES[rule_id].judge(subject)


@pytest.mark.parametrize("rule_id", RULES)
def test_rule_fires(make_recording, rule_id):
    cases = CASES[rule_id]
    finding = _fired(rule_id, cases.fires, make_recording)
    assert finding is not None
    assert finding.level == cases.level
    assert cases.word in finding.detail
    assert finding.title
    assert finding.hint


@pytest.mark.parametrize("rule_id", RULES)
def test_rule_is_silent_beside_what_it_is_about(make_recording, rule_id):
    assert _fired(rule_id, CASES[rule_id].silent, make_recording) is None


@pytest.mark.parametrize(("rule_id", "case", "level", "word"), FURTHER)
def test_rule_fires_in_other_ways(make_recording, rule_id, case, level, word):
    finding = _fired(rule_id, case, make_recording)
    assert finding is not None
    assert finding.level == level
    assert word in finding.detail


@pytest.mark.parametrize("scope", ["replay", "captured", "characterization"])
def test_what_is_sound_has_no_findings(make_recording, scope):
    assert validity.check(Case(scope).recording(make_recording)) == []


def test_a_cell_of_ten_seconds_is_long_enough(make_recording):
    """What characterize does if nothing else is asked for."""
    cell = Case("characterization", manifest={"window_ns": 10 * SECOND})
    assert validity.check(cell.recording(make_recording)) == []


@pytest.mark.parametrize(("seconds", "fires"), [(None, False), (10, True), (30, False)])
def test_results_of_another_tool_are_as_long_as_their_runs(tmp_path, seconds, fires):
    """Their recording has no length of its own; what does not say how long it ran is not called short."""
    run = {"run": 0, "test": "t", "tool": "diskspd", "op": "total", "iops": 100.0, "latency_clock": "service"}
    rows = [run | {"duration_ns": seconds and seconds * SECOND}]
    results = pa.Table.from_pylist(rows, schema=TABLES["results"])
    recording = write_recording(tmp_path / "t.iotrace", tables={"results": results}, kind="tested")

    found = validity.check(recording)

    assert [finding.rule for finding in found] == (["too-short"] if fires else [])
    assert all(
        "10.0 s long" in one.detail and one.hint == "run the test for several minutes" for one in found
    )


def test_latency_that_climbs_with_the_load_is_no_backlog(make_recording):
    climbing = speeding_up(0.6)
    took = np.linspace(1e6, 4e6, len(climbing["issued_ns"])).astype(np.int64)
    case = Case(
        io=climbing | {"intended_ns": climbing["issued_ns"], "completed_ns": climbing["issued_ns"] + took}
    )
    assert _fired("backlog-grew", case, make_recording) is None


def test_rules_on_replays_are_silent_on_captures(make_recording):
    found = validity.check(make_recording([{"issued_ns": 0, "completed_ns": 1}], window_ns=60 * SECOND))
    assert [finding.rule for finding in found] == ["too-few-ios"]


ALSO_OF_CELLS = [
    rule.id for rule in validity.RULES if "characterization" in rule.scopes and rule.id != "too-short"
]


@pytest.mark.parametrize("rule_id", ALSO_OF_CELLS)
def test_hints_name_the_command_that_made_the_recording(make_recording, rule_id):
    """What came from characterize cannot be replayed again. A cell is too short only below 5 s."""
    case = CASES[rule_id].fires
    cell = Case("characterization", case.io, case.manifest, case.replay)
    finding = _fired(rule_id, cell, make_recording)
    assert finding is not None
    assert not re.search(r"\breplay\b|\brecord\b", f"{finding.title} {finding.detail} {finding.hint}")


def test_what_a_recording_is_compared_with_is_judged_only_where_there_is_a_comparison(make_recording):
    """Of itself there is no difference to find; by itself it is sound."""
    subject = CASES["same-recording"].fires.subject(make_recording)
    found = validity.check(subject.recording, comparison=subject.comparison)
    assert [finding.rule for finding in found] == ["same-recording"]
    assert validity.check(subject.recording) == []


def test_what_describe_found_spares_the_rules_their_queries(make_recording):
    rows = [
        {"issued_ns": i, "completed_ns": i + 9 if i else None, "device_id": 0, "offset_bytes": i * 300_000, "op": op,
         "error": 5 if i % 7 == 0 else 0}
        for i in range(50)
        for op in ("read", "write", "flush")
    ]  # fmt: skip
    recording = make_recording(rows, window_ns=60 * SECOND)
    asked, told = validity.Subject(recording), validity.Subject(recording, description=describe(recording))
    assert told.counts == asked.counts
    assert told.unfinished_count == asked.unfinished_count == 3
    assert told.working_set_bytes == asked.working_set_bytes > 0


@pytest.mark.parametrize(("io_count", "openings"), [(0, 0), (3, 1)])
def test_one_connection_serves_all_rules_and_none_is_opened_without_ios(
    make_recording, monkeypatch, io_count, openings
):
    """A matrix of another tool's runs has hundreds of recordings without I/Os."""
    found = []
    opened = library.opened
    monkeypatch.setattr(library, "opened", lambda one: found.append(one) or opened(one))
    columns = {
        "issued_ns": pa.array(range(io_count), pa.int64()),
        "completed_ns": pa.array(range(io_count), pa.int64()),
    }
    validity.check(make_recording(columns, window_ns=60 * SECOND))
    assert len(found) == openings


def test_every_rule_has_its_cases_and_no_case_is_left_over():
    assert list(CASES) == list(RULES)


def test_the_documentation_lists_every_rule_as_it_is():
    section = METHODS.read_text("utf-8").partition("\n## Validity rules\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert rows == [
        (rule.id, ", ".join(sorted(rule.scopes)), rule.fires_when, rule.means) for rule in validity.RULES
    ]


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_gap_in_the_trace_shows_in_what_the_disk_counted(share, tmp_path):
    """What `tracing_on = 0` in the recorder's own instance leaves, and half of it: when, how much, and from when on."""
    recording, truth = described.gap_in_the_trace(tmp_path / "g.iotrace", 2, share=share)
    (finding,) = [one for one in validity.check(recording) if one.rule == "trace-lacks-ios"]
    assert finding.level == "invalid"
    lost = truth.lost / (truth.lost + truth.reads + truth.writes)
    (told,) = re.findall(r"\(([\d.]+) %\)", finding.detail)
    assert float(told) / 100 == pytest.approx(lost, rel=0.03)
    start_s, end_s = truth.lost_span_s
    first, last = (float(word) for word in re.findall(r"from ([\d.]+) s to ([\d.]+) s", finding.detail)[0])
    assert abs(first - start_s) <= 1.1
    assert abs(last - end_s) <= 1.1


def test_a_whole_trace_agrees_with_what_the_disks_counted(tmp_path):
    """To the byte, second for second but for what ended while a counter was read: real I/O, merged and split."""
    bundled = Recording.open(Path(__file__).parents[3] / "cli" / "bundled" / "pgbench.iotrace")
    with validity.Subject(bundled) as subject:
        assert set(subject.disk_counts) == {"loop0", "loop1"}
        for rows in subject.disk_counts.values():
            assert sum(row["counted_bytes"] for row in rows) == pytest.approx(
                sum(row["recorded_bytes"] for row in rows), abs=0.5
            )
    assert "trace-lacks-ios" not in {one.rule for one in validity.check(bundled)}
