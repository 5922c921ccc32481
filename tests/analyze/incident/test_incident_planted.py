"""Planted hosts: slow changes, hangs and freezes are found with their layer, and calm ones have no window.

The hosts and their truth are `planted_truth`'s, which was written without sight of the detector.
"""

import itertools
import shutil

import pytest

from iotrace.analyze.incident import incident

from ..planted_truth import incidents as planted
from ..planted_truth.scoring import false_windows, is_found

FORMS = ("ios", "perfmon 5 s", "perfmon 15 s")


def looked_at(path, family, form, seed):
    """The truth, what was found of it, at which layer, and what was found besides."""
    host, truth = (planted.INCIDENTS | planted.CALM)[family](seed)
    if path.exists():
        shutil.rmtree(path)
    found = incident(planted.write(path, host, form))
    slack_s = max(10.0, 2 * found.slot_ns / 1e9)
    slow = [one for one in [*found.windows, *found.drifts] if one.cause != "load-driven"]
    spans = [(one.start_ns / 1e9, one.end_ns / 1e9) for one in slow]
    inside = [
        one
        for one, (start, end) in zip(slow, spans, strict=True)
        if any(start < until + slack_s and end > since - slack_s for since, until in truth.spans)
    ]
    layer = max(inside, key=lambda one: one.lost_ns).layer if inside else None
    is_seen = truth.is_incident and is_found(spans, truth, slack_s=slack_s)
    return truth, is_seen, layer, false_windows(spans, truth, slack_s=slack_s)


def kinds(families, count):
    """Families and forms by turns, each with a seed of its own."""
    return [
        (family, form, seed)
        for seed, (family, form) in zip(range(count), itertools.cycle(itertools.product(families, FORMS)))
    ]


@pytest.mark.parametrize(
    ("family", "form", "seed"),
    [
        ("ramp", "perfmon 15 s", 1), ("hang", "perfmon 15 s", 1), ("freeze", "perfmon 15 s", 1),
        ("hang", "perfmon 5 s", 1), ("freeze", "perfmon 5 s", 1), ("creep", "perfmon 15 s", 89),
        ("hang", "perfmon 15 s", 140), ("hang", "perfmon 15 s", 44),
    ],
)  # fmt: skip
def test_a_planted_incident_is_found_in_counters(family, form, seed, tmp_path):
    """The last three: one disk of two gets 1.3 times as slow in an hour; hangs of which the log has 0.7 and 25 s."""
    truth, is_seen, layer, _ = looked_at(tmp_path / "p.iotrace", family, form, seed)
    assert is_seen
    assert layer == planted.right_layer(truth, form)


@pytest.mark.parametrize(("form", "seed"), [("ios", 30), ("perfmon 5 s", 67), ("perfmon 5 s", 1085)])
def test_latency_that_follows_the_load_is_no_incident(form, seed, tmp_path):
    """The log's highest load for 6 s; two disks of which more is left than the load of most times explains.

    The last: 2.1 times the latency is what a day's load adds, and the 1.2 times beside it may be, too.
    """
    *_, false = looked_at(tmp_path / "p.iotrace", "diurnal", form, seed)
    assert false == []


def test_what_recurs_is_told_with_what_runs_then(tmp_path):
    host, _ = planted.checkpoints(2, period_s=60)
    found = incident(planted.write(tmp_path / "p.iotrace", host, "perfmon 5 s"))
    assert (found.windows, found.drifts) == ([], [])
    (pattern,) = found.periodic
    assert pattern.period_ns / 1e9 == pytest.approx(60, abs=1)
    assert pattern.headline.endswith("; a checkpoint runs then")


@pytest.mark.slow
def test_of_200_ramps_creeps_hangs_and_freezes_95_percent_are_found_with_their_layer(tmp_path):
    missed, shown = [], 0
    for family, form, seed in kinds(("ramp", "creep", "hang", "freeze"), 200):
        truth, is_seen, layer, _ = looked_at(tmp_path / "p.iotrace", family, form, seed)
        wanted = planted.right_layer(truth, form)
        if wanted is not None:  # some forms cannot show a file system's own stall
            shown += 1
            missed += (
                [] if is_seen and layer == wanted else [(family, form, seed, layer, wanted, truth.factor)]
            )
    print(*missed, sep="\n")
    assert len(missed) <= 0.05 * shown, missed


@pytest.mark.slow
def test_of_100_calm_recordings_at_most_2_have_a_false_window(tmp_path):
    wrong = []
    for family, form, seed in kinds(("quiet", "diurnal", "checkpoints"), 100):
        *_, false = looked_at(tmp_path / "p.iotrace", family, form, seed)
        wrong += [(family, form, seed, false)] if false else []
    print(*wrong, sep="\n")
    assert len(wrong) <= 2, wrong
