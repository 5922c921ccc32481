"""The report on many hosts: what stays readable however many there are."""

from pathlib import Path

import pytest

from iotrace.analyze.fleet import incident_fleet, told_of_each
from iotrace.analyze.report.facts import FindingFacts
from iotrace.analyze.report.fleet import findings_of_many, load_charts, write_fleet_report
from iotrace.schemas import Clock
from iotrace.schemas.host import Host

NIGHT_NS = 1_767_400_000_000_000_000
MINUTE_NS = 60_000_000_000
SIMULATED = Path(__file__).parents[2] / "fixtures/recordings/1.0.0/simulated.iotrace"


def finding(name, rule, detail, level="warning"):
    return FindingFacts(name, level, rule, f"title of {rule}", detail, "what to do")


def test_a_rule_that_fired_on_many_is_said_once():
    every = [finding(f"sql{number:02}", "too-few-ios", f"{number} reads") for number in range(1, 21)]
    lacks = finding("sql07", "trace-lacks-ios", "3 % less", "invalid")
    same = [finding(f"sql{number:02}", "no-date", "it has no date") for number in (1, 2)]
    found = findings_of_many([*every, *same, lacks])
    assert found[0] == lacks
    assert [(one.name.split(" (")[0], one.rule, one.detail) for one in found[1:]] == [
        ("20 recordings", "too-few-ios", "in sql01 1 reads"),
        ("2 recordings", "no-date", "it has no date"),
    ]
    assert found[1].name.startswith("20 recordings (sql01, sql02, ")


@pytest.mark.parametrize(("apart_ns", "is_drawn"), [(10 * MINUTE_NS, True), (3 * 525_600 * MINUTE_NS, False)])
def test_the_load_of_hosts_is_drawn_unless_they_lie_years_apart(apart_ns, is_drawn, make_recording):
    """Over three years a point of the line would stand for 29 hours, and a minute would be lost in it."""
    recordings = [
        make_recording(
            {"issued_ns": range(0, MINUTE_NS, MINUTE_NS // 600), "op": ["read"] * 600},
            window_ns=MINUTE_NS,
            clock=Clock(start_ns, 1.0, "test"),
            host=Host(name=name),
        ).path
        for name, start_ns in (("sql01", NIGHT_NS), ("sql02", NIGHT_NS + apart_ns))
    ]
    told = told_of_each(recordings)
    charts = load_charts([one.summary for one in told], incident_fleet([one.slow for one in told], {}))
    assert len(charts) == is_drawn
    if charts:
        loads = charts[0].figure["data"][0]["y"]
        assert max(loads) == 10


def test_a_replay_and_a_copy_are_left_out_of_all_that_the_report_says(make_recording, tmp_path):
    """Else its load and slow windows would be those of hosts that its table does not have."""
    host = make_recording(
        {"issued_ns": range(0, MINUTE_NS, MINUTE_NS // 600), "op": ["read"] * 600},
        window_ns=MINUTE_NS,
        clock=Clock(NIGHT_NS, 1.0, "test"),
        host=Host(name="sql01"),
    ).path
    facts = write_fleet_report(tmp_path / "fleet.html", told_of_each([host, SIMULATED, host]), {})
    assert facts.verdict.startswith("1 recording,")
    replayed, again = (one for one in facts.also if one.startswith("Left out: "))
    assert replayed.startswith(f"Left out: '{SIMULATED}' was simulated, and '{host}' was captured")
    assert again == f"Left out: '{host}' was named before"
    assert len(facts.origins) == 1
