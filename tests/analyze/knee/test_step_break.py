"""What a step is judged by beside its means: latency that breaks within it, and whose a backlog is.

On levels and rates planted by hand.
"""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.knee.flow import Carried
from iotrace.analyze.knee.step import _busy_share, _flows, _layer, carries_more_than, latency_break, measure
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.run import ClosedLoop, Replay, Shard

from . import knee_simulator as simulator

LOAD = np.full(48, 1000.0)
RUN = {
    "loop": "closed",
    "backend": "io_uring",
    "cpu_seconds": 9.0,
    "seconds": 8.0,
    "warm_up_seconds": 2.0,
    "submitters": 2,
}


def medians(*levels, seed=1):
    """48 stretches, as many of each level as there is room for, with 5 % of noise."""
    random = np.random.default_rng(seed)
    return np.repeat(np.array(levels, dtype=float), 48 // len(levels)) * np.exp(random.normal(0, 0.05, 48))


@pytest.mark.parametrize("times", [2.5, 10])
def test_the_moment_and_both_levels_are_found(times):
    found = latency_break(medians(2e5, 2e5, 2e5 * times), LOAD)
    assert found.at_share == pytest.approx(2 / 3, abs=1 / 24)
    assert found.before_ns == pytest.approx(2e5, rel=0.05)
    assert found.after_ns == pytest.approx(2e5 * times, rel=0.05)


@pytest.mark.parametrize(("stretches", "is_break"), [(11, False), (12, True)])
def test_fewer_than_twelve_stretches_show_no_break(stretches, is_break):
    levels = np.where(np.arange(stretches) < stretches // 2, 2e5, 2e6)
    assert (latency_break(levels, np.full(stretches, 1000.0)) is not None) is is_break


@pytest.mark.parametrize("ios", [2, 10])
def test_a_step_of_a_few_ios_is_measured(tmp_path, ios):
    arrival = np.arange(ios) / 10
    step, _ = measure(simulator.write_step(tmp_path, arrival, arrival + 0.001, scale=1))
    assert (step.io_count, step.has_few_ios) == (ios, True)
    assert step.offered_mb_per_s == pytest.approx(step.offered_iops * 8192 / 1e6)


def test_a_spell_that_ends_is_no_break():
    assert latency_break(medians(2e5, 8e5, 2e5), LOAD) is None
    assert latency_break(medians(8e5, 2e5, 2e5), LOAD) is None


def test_a_little_slower_is_no_break():
    assert latency_break(medians(2e5, 3e5), LOAD) is None


def test_latency_that_follows_the_load_is_no_break():
    assert latency_break(medians(2e5, 8e5), np.repeat([500.0, 1000.0], 24)) is None


def test_noise_alone_seldom_breaks():
    random = np.random.default_rng(2)
    rows = 2e5 * np.exp(random.normal(0, 0.3, (200, 48)))
    assert sum(latency_break(row, LOAD) is not None for row in rows) <= 1


def busy(*rates):
    """A step that was never idle for as many stretches of a second as there are rates."""
    return Carried(np.array(rates, dtype=float), np.array(rates) * 8192.0, float(len(rates)), 0.0)


@pytest.mark.parametrize(
    ("rates", "offered", "more"),
    [
        pytest.param([2000] * 16, 1900, True, id="bursts queue at 95 % of what is carried"),
        pytest.param([2000] * 16, 1990, False, id="too near to tell"),
        pytest.param([2000] * 16, 2100, False, id="too much"),
        pytest.param([3000] * 8 + [2000] * 8, 2100, False, id="carried on credits that are spent"),
        pytest.param([0] * 14 + [20_000] * 2, 2600, False, id="a stall that drains fast"),
        pytest.param([2000] * 7, 1900, False, id="busy for too short a time"),
    ],
)
def test_a_backlog_is_the_bursts_own_where_more_is_carried_than_offered_to_the_end(rates, offered, more):
    assert carries_more_than(offered, busy(*rates)) is more


def test_storage_that_is_never_busy_says_nothing_of_what_it_carries():
    assert not carries_more_than(1.0, None)


def test_a_stall_to_the_end_that_drains_fast_is_not_kept_up(tmp_path):
    """0.2 ms, and nothing answers from 8 to 10.6 s, though the last I/O is wanted at 10 s."""
    arrival = np.arange(0, 10, 1e-3)
    ends = arrival + 2e-4
    stalled = arrival >= 8
    ends[stalled] = 10.6 + np.arange(stalled.sum()) / 50_000
    step, _ = measure(simulator.write_step(tmp_path, arrival, ends, scale=1.0))
    assert step.is_saturated


def test_bytes_are_those_of_the_ios(tmp_path):
    """1,000 I/Os of 8 KiB a second are 8.192 MB a second, offered and carried."""
    arrival = np.arange(0, 10, 1e-3)
    step, _ = measure(simulator.write_step(tmp_path, arrival, arrival + 2e-4, scale=1.0))
    assert step.offered_mb_per_s == pytest.approx(8.192, rel=1e-3)
    assert step.achieved_mb_per_s == pytest.approx(8.192, rel=1e-3)


@pytest.mark.parametrize(
    ("run", "busy_share"),
    [
        (ClosedLoop(**RUN), 0.45),
        (ClosedLoop(**RUN | {"backend": "threads"}), None),
        (ClosedLoop(**RUN | {"interrupted": True}), None),
        (ClosedLoop(**RUN | {"cpu_seconds": None}), None),
        (ClosedLoop(**RUN | {"seconds": 0.0, "warm_up_seconds": 0.0}), None),
        (Replay(), None),
        (None, None),
    ],
)
def test_an_engine_is_as_busy_as_the_processor_time_of_its_submitters(run, busy_share):
    """9 s of the 2 times 10 s that two submitters had."""
    assert _busy_share(run) == busy_share


def test_how_much_of_a_load_was_carried_is_noted(tmp_path):
    arrival = np.arange(6000) / 2000
    completed = simulator.first_come_first_served(arrival, np.full(6000, 1 / 1000))
    step, _ = measure(simulator.write_step(tmp_path, arrival, completed, scale=1))
    assert "carried 50 % of the load offered" in step.notes


@pytest.mark.parametrize(
    ("planned", "layer"),
    [
        ({"device": 0, "block": 0, "sql": 0}, "block"),
        ({"block": 0, "device": 3}, "device"),
        ({"sql": 0}, "sql"),
    ],
)
def test_a_step_is_measured_where_it_was_replayed_else_nearest_to_the_block_layer(planned, layer):
    layers = pa.table({"layer": list(planned), "planned_count": list(planned.values())})
    assert _layer(layers, SimpleNamespace(reading=lambda _: nullcontext())) == layer


def test_a_step_without_a_layer_is_none():
    layers = pa.table({"layer": pa.array([], pa.string()), "planned_count": pa.array([], pa.int64())})
    with pytest.raises(IotraceError, match="has no completed reads or writes"):
        _layer(layers, SimpleNamespace(reading=lambda _: nullcontext(), path="r.iotrace"))


def test_what_lies_before_the_first_slot_counts_in_none():
    table = pa.table(
        {
            "slot": [-1, 0, 2],
            "op": ["read"] * 3,
            "wanted_count": [5, 3, 1],
            "completed_count": [5, 2, 2],
            "completed_bytes": [50, 20, 20],
        }
    )
    flow = _flows(table, 10**9)["read"]
    assert (flow.wanted.tolist(), flow.completed.tolist()) == ([3, 0, 1], [2, 0, 2])


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        ([Shard("a", ended="lost"), Shard("b")], "what a played is not in it"),
        ([Shard("a"), Shard("b")], "the clocks of the generators could not be compared"),
        ([Shard("a")], ""),
    ],
)
def test_generators_that_did_not_play_together_are_said_to(tmp_path, shards, words):
    arrival = np.arange(3000) / 1000
    played = simulator.write_step(tmp_path, arrival, arrival + 0.0002, scale=1)
    run = replace(played.manifest.replay, shards=shards)
    step, _ = measure(Recording(played.path, replace(played.manifest, replay=run)))
    assert step.not_together.startswith(words)
    assert bool(step.not_together) == bool(words)
