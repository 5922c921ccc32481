"""What does not jump: ramps, creeps, hangs, what recurs, what load explains; and what the sentences then say."""

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.drifts import drifting, least_mean_excess, load_effect
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import judge

from . import incident_generator as generator

CONSTANT = [np.full(1200, 100.0)]


def ramp(at_s, start, rise, factor, *, stay=np.inf, fall=1.0):
    """How many times slower: up within ``rise`` seconds, and back within ``fall`` after ``stay``."""
    up = np.clip((at_s - start) / rise, 0, 1)
    down = np.clip((start + rise + stay + fall - at_s) / fall, 0, 1)
    return 1 + (factor - 1) * np.minimum(up, down)


SHAPES = {
    "30 s, staying": (lambda at: ramp(at, 480, 30, 3), 480, 1200, 15),
    "600 s, staying": (lambda at: ramp(at, 400, 600, 3), 400, 1200, 60),
    "up and back over 600 s": (lambda at: ramp(at, 300, 300, 3, stay=0, fall=300), 300, 900, 45),
    "over the whole recording": (lambda at: ramp(at, 0, 1200, 2), 0, 1200, 240),
}
"""What is planted, from when to when, and to how many seconds its start and end have to be found.

A creep's first fifth is as fast as its storage wanders, so when it began cannot be told more exactly.
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "planted.iotrace"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slowdown_that_builds_up_is_found(shape, path):
    slower, start_s, end_s, within_s = SHAPES[shape]
    random = np.random.default_rng(4)
    load = generator.base_load(random, 1200, 60)
    latency = generator.service_times(random, load, 1200) * slower(load.at_s)
    found = incident(generator.write(path, load, load.at_s + latency, 1200))
    assert found.windows == []
    (drift,) = found.drifts
    assert (drift.layer, drift.cause) == ("device", "service-driven")
    assert drift.start_ns / 1e9 == pytest.approx(start_s, abs=within_s)
    assert drift.end_ns / 1e9 == pytest.approx(end_s, abs=within_s)
    low, high = drift.factor_interval
    assert low <= float(slower(np.arange(1200.0)).max()) <= high < 1.5 * low
    assert drift.gradual.to_ns / drift.gradual.from_ns == pytest.approx(drift.factor)
    assert "the device was slower at the same load" in drift.headline


def test_a_creep_that_began_before_the_recording_is_told_from_its_start(path):
    random = np.random.default_rng(4)
    load = generator.base_load(random, 1200, 60)
    latency = generator.service_times(random, load, 1200) * ramp(load.at_s, -200, 800, 3)
    (drift,) = incident(generator.write(path, load, load.at_s + latency, 1200)).drifts
    assert (drift.start_ns, drift.end_ns) == (0, 1200 * 10**9)


def series(values):
    count = len(values)
    return Series("block", None, np.arange(count), values, np.full(count, 1e-4), np.full(count, 100.0))


def wandering(random, count=1200):
    return 14 + np.log(generator.wander(random, count - 1)) + random.normal(0, 0.1, count)


def test_what_wanders_by_itself_is_no_slow_change():
    for seed in range(20):
        values = wandering(np.random.default_rng(seed))
        assert drifting(judge(series(values)), CONSTANT, 1.0).changes == []


def test_the_one_slot_of_a_last_block_is_no_slow_change():
    """A recording of half an hour and a moment; a trapezoid that rises in that moment has no height to tell."""
    for seed in range(20):
        values = 14 + np.random.default_rng(seed).normal(0, 0.09, 1801)
        values[-1] += np.log(1.4)
        assert drifting(judge(series(values)), [np.full(1801, 100.0)], 1.0).changes == []


@pytest.mark.parametrize("seconds", [60, 300])
@pytest.mark.parametrize("shape", ["triangle", "wedge", "flat"])
def test_what_is_said_to_be_found_is_found_in_any_shape(shape, seconds):
    """In nine of ten cases, as is said; the factor is the mean over the length."""
    part = (np.arange(seconds) + 0.5) / seconds
    form = {"triangle": 2 * np.minimum(2 * part, 2 - 2 * part), "wedge": 2 * part, "flat": 1 + 0 * part}[
        shape
    ]
    found = 0
    for seed in range(20):
        values = wandering(np.random.default_rng(seed))
        excess = least_mean_excess(drifting(judge(series(values)), CONSTANT, 1.0), seconds)
        values[600 : 600 + seconds] += excess * form / form.mean()
        drift = drifting(judge(series(values)), CONSTANT, 1.0)
        sudden = [(s.first, s.end) for s in drift.judged.stretches]
        spans = [(one.start, one.end) for one in drift.changes] + sudden
        found += any(start < 600 + seconds and end > 600 for start, end in spans)
    assert found >= 18


def test_normal_is_not_moved_by_what_stands_above_it():
    values = wandering(np.random.default_rng(1))
    calm = drifting(judge(series(values)), CONSTANT, 1.0).base
    values[400:] += np.log(ramp(np.arange(400.0, 1200.0), 400, 300, 3))
    assert drifting(judge(series(values)), CONSTANT, 1.0).base == pytest.approx(calm, abs=0.05)


def day(random, count=1200):
    """A load that swings by a factor of four, and the latency of a queue under it."""
    load = 100 * np.exp(np.log(2) * np.sin(2 * np.pi * np.arange(count) / count))
    return load, 14 - np.log(1 - load / 250) + random.normal(0, 0.1, count)


def test_a_swing_that_load_explains_is_normal_and_one_that_it_does_not_is_none():
    for seed in range(10):
        load, values = day(np.random.default_rng(seed))
        assert drifting(judge(series(values)), [load], 1.0).changes == []
        assert drifting(judge(series(values)), [load[::-1].copy()], 1.0).changes != []


def test_load_that_falls_because_storage_is_slow_explains_nothing():
    """Clients wait, and ask for less."""
    values = np.repeat([0.0, 1.0], 100)
    assert load_effect(values, [np.log(np.repeat([100.0, 40.0], 100))]).max() == 0
    assert load_effect(values, [np.log(np.repeat([40.0, 100.0], 100))]).max() == pytest.approx(1)
    assert load_effect(values, [np.log(np.repeat([95.0, 100.0], 100))]).max() == 0


def test_storage_that_never_answers_is_slow(path):
    """For the last 30 s one disk answers nothing; clients that wait ask no more."""
    random = np.random.default_rng(5)
    load = generator.base_load(random, 300, 100)
    done = load.at_s + generator.service_times(random, load, 300)
    hung = (done >= 270) & (load.file < 4)
    keep = ~hung | (np.cumsum(hung) <= 64)
    load = generator.Load(
        *(getattr(load, name)[keep] for name in ("at_s", "file", "is_write", "size", "process"))
    )
    done = np.where(hung[keep], np.nan, done[keep])
    found = incident(generator.write(path, load, done, 300))
    window = found.windows[0]
    assert window.start_ns / 1e9 == pytest.approx(270, abs=1)
    assert window.end_ns / 1e9 == 300
    assert (window.layer, window.cause) == ("device", "service-driven")
    assert window.factor > 1000
    assert "had no answer when the recording ended" in window.evidence[0]
    assert "64 I/Os" in window.evidence[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_stall_above_the_device_is_not_blamed_on_the_storage(seed, path):
    recording, _ = generator.one_layer(path, np.random.default_rng(seed))
    (window,) = incident(recording).windows
    assert window.layer == "block"
    assert "the host's queue or driver above the device was slower" in window.headline
    said = " ".join([window.headline, *window.evidence])
    assert "the storage was slower" not in said
    assert "not the device" in said


def periodic(random, path, *, odd=None, period=60, length=8):
    """Reads are three times as slow while something runs, every minute; once for much longer."""
    load = generator.base_load(random, 1200, 80)
    starts = np.arange(30, 1200 - length, period) + random.uniform(
        -2, 2, len(range(30, 1200 - length, period))
    )
    slow = np.zeros(len(load.at_s), dtype=bool)
    for number, start in enumerate(starts):
        slow |= (load.at_s >= start) & (load.at_s < start + (40 if number == odd else length))
    latency = generator.service_times(random, load, 1200) * np.where(slow, 3, 1)
    return generator.write(path, load, load.at_s + latency, 1200), starts


def test_what_recurs_is_one_answer(path):
    recording, starts = periodic(np.random.default_rng(6), path)
    found = incident(recording)
    assert (found.windows, found.drifts) == ([], [])
    (pattern,) = found.periodic
    assert pattern.period_ns / 1e9 == pytest.approx(60, abs=1)
    assert pattern.length_ns / 1e9 == pytest.approx(8, abs=2)
    assert len(pattern.starts_ns) >= 0.8 * len(starts)
    assert pattern.factor == pytest.approx(3, rel=0.2)
    assert pattern.lost_ns > 0


def test_what_breaks_the_pattern_is_the_incident(path):
    recording, starts = periodic(np.random.default_rng(7), path, odd=9)
    found = incident(recording)
    assert len(found.periodic) == 1
    (window,) = found.windows
    assert window.start_ns / 1e9 == pytest.approx(starts[9], abs=2)
    assert (window.end_ns - window.start_ns) / 1e9 == pytest.approx(40, abs=3)


@pytest.mark.parametrize("seed", range(4))
def test_disks_that_slow_together_within_twenty_seconds_are_one_slow_change(seed, make_recording):
    """All I/Os, of busy and of sparse streams alike, up to 2.5 times as slow, and back two minutes later."""
    random = np.random.default_rng(seed)
    at = np.sort(random.uniform(0, 500, 450 * 500))
    stream = random.choice(6, len(at), p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
    latency = 0.0006 * random.lognormal(0, 0.45, len(at)) * np.exp(
        np.interp(at, [200, 220, 330, 350], np.log([1, 2.5, 2.5, 1])) if seed % 2 else
        np.log(np.interp(at, [200, 220, 330, 350], [1, 2.5, 2.5, 1]))
    )  # fmt: skip
    issued = np.round(at * 1e9).astype(np.int64)
    recording = make_recording(
        {
            "issued_ns": issued, "completed_ns": issued + np.round(latency * 1e9).astype(np.int64),
            "device_id": stream // 2, "op": np.where(stream % 2, "write", "read"),
        },
        500 * 10**9,
    )  # fmt: skip
    found = incident(recording)
    assert found.windows == []
    (change,) = found.drifts
    assert change.factor == pytest.approx(2.5, rel=0.05)
    assert (change.start_ns / 1e9, change.end_ns / 1e9) == (
        pytest.approx(200, abs=6),
        pytest.approx(350, abs=6),
    )
