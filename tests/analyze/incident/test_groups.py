"""Freezes, and what is slow before or after them: each is told with its own times, factor and time lost."""

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.change_points import Segmentation
from iotrace.analyze.incident.groups import windows_of
from iotrace.analyze.incident.series import Series, Stream
from iotrace.analyze.incident.stretches import Judged, Stretch

S = 1_000_000_000
SECONDS = 400


def recorded(make_recording, seed, *, frozen_s, hung, slower_s=0.0, factor=1.0, layers=("block",)):
    """300 I/Os a second of 0.6 ms; from 150 s on nothing ends for a while, and but for ``hung`` I/Os nothing is asked.

    Then all disks are slower by ``factor`` for ``slower_s``.
    """
    random = np.random.default_rng(seed)
    at_s = np.sort(random.uniform(0, SECONDS, 300 * SECONDS))
    end_s = 150 + frozen_s
    inside = np.flatnonzero((at_s >= 150) & (at_s < end_s))
    at_s[inside[:hung]] = 150 - 0.0004 * random.random(hung)
    kept = np.ones(len(at_s), dtype=bool)
    kept[inside[hung:]] = False
    took_s = 0.0006 * random.lognormal(0, 0.45, len(at_s))
    took_s[(at_s >= end_s) & (at_s < end_s + slower_s)] *= factor
    took_s[inside[:hung]] = end_s - at_s[inside[:hung]] + took_s[inside[:hung]]
    stream = random.choice(4, len(at_s))
    issued = np.round(at_s * S)[kept].astype(np.int64)
    columns = {
        "layer": np.repeat(layers, len(issued)),
        "issued_ns": np.concatenate([issued + 5_000 * place for place in range(len(layers))]),
        "completed_ns": np.tile(issued + 10_000 + np.round(took_s * S)[kept].astype(np.int64), len(layers)),
        "device_id": np.tile(stream[kept] // 2, len(layers)),
        "op": np.tile(np.where(stream % 2, "write", "read")[kept], len(layers)),
    }
    order = np.argsort(columns["issued_ns"], kind="stable")
    return make_recording({name: values[order] for name, values in columns.items()}, SECONDS * S)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("hung", [1, 4, 12, 40])
def test_a_host_that_stands_still_while_few_ios_hang_is_told(hung, seed, make_recording):
    """For 15 s; even a single I/O that waits so long, while no other of 300 a second comes."""
    recording = recorded(make_recording, seed, frozen_s=15, hung=hung, layers=("block", "device"))
    (window,) = incident(recording).windows
    assert (window.start_ns / S, window.end_ns / S) == (pytest.approx(150, abs=2), pytest.approx(165, abs=2))
    assert (window.cause, window.layer) == ("service-driven", "device")
    assert window.lost_ns / S == pytest.approx(15 * hung, rel=0.15)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("slower_s", "factor"), [(40, 1.8), (80, 2.5), (130, 1.7)])
def test_a_freeze_and_the_slower_time_after_it_are_two(slower_s, factor, seed, make_recording):
    """32 I/Os wait for 30 s: that is 960 s in flight, and the time after it costs a hundredth of that."""
    found = incident(recorded(make_recording, seed, frozen_s=30, hung=32, slower_s=slower_s, factor=factor))
    freeze, after = [*found.windows, *found.drifts]
    assert (freeze.start_ns / S, freeze.end_ns / S) == (pytest.approx(150, abs=2), pytest.approx(180, abs=2))
    assert freeze.factor > 1000
    assert freeze.lost_ns / S == pytest.approx(960, rel=0.1)
    assert after.end_ns / S == pytest.approx(180 + slower_s, abs=6)
    assert after.factor == pytest.approx(factor, rel=0.05)
    assert after.lost_ns / S == pytest.approx(0.2 * slower_s * (factor - 1), rel=0.6)


def one_series(levels, *, stream=None):
    """ln(latency / normal) by spells of (level, slots), cut where it changes; above 0 it is one stretch."""
    values = np.concatenate([np.full(count, float(level)) for level, count in levels])
    borders = np.cumsum([0, *(count for _, count in levels)])
    at = np.arange(len(values))
    slow = np.flatnonzero(values > 0)
    series = Series("block", stream, at, 14 + values, np.full(len(at), 0.01), np.full(len(at), 100.0))
    stretch = Stretch(int(slow[0]), int(slow[-1]) + 1, float(values[slow].mean()), 0.01, 1e4)
    cut = Segmentation(borders.tolist(), np.full(len(at), 100.0), 15.0)
    return Judged(series, [stretch], np.full(len(at), 14.0), cut, values > 0)


@pytest.mark.parametrize(
    ("levels", "windows"),
    [
        ([(0, 50), (8, 20), (0.6, 40), (0, 50)], [(50, 70), (70, 110)]),
        ([(0, 50), (0.6, 40), (8, 20), (0, 50)], [(50, 90), (90, 110)]),
        # Slower within slow, by less than a freeze is.
        ([(0, 50), (2, 20), (0.6, 40), (0, 50)], [(50, 110)]),
        # It recovers within a few seconds, or step by step.
        ([(0, 50), (8, 20), (0.6, 9), (0, 50)], [(50, 79)]),
        ([(0, 50), (8, 20), (0.2, 40), (0, 50)], [(50, 110)]),
        ([(0, 50), (8, 1), (0.6, 40), (0, 50)], [(50, 91)]),
    ],
)  # fmt: skip
def test_a_freeze_is_a_window_of_its_own(levels, windows):
    streams = [None, Stream("block", "read", 0), Stream("block", "write", 0)]
    found = windows_of([one_series(levels, stream=stream) for stream in streams])
    assert sorted((one.first, one.end) for one in found) == windows
    assert all(len(one.parts) == 3 for one in found)
