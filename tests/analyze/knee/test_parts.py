"""A part of the I/Os that falls behind while the others keep up: planted storage, and the most that it carries."""

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.knee import parts
from iotrace.analyze.knee.flow import Flow, share_error, without_drain
from iotrace.analyze.knee.need import need
from iotrace.analyze.knee.parts import Cells, slowest_part
from iotrace.analyze.knee.step import measure
from iotrace.analyze.knee.sweep import knee_of

from . import knee_simulator as simulator

SLOT_S = 1 / 32
RATE_1X = 150.0
MOST = 7.0
"""How many times the load the slow part carries."""


def queued(random, arrival_s, mine, rate_per_s):
    """Completions where ``mine`` wait for one server of that rate, and the others for nothing."""
    completed = arrival_s + simulator.device_latency_s(random, len(arrival_s), 0.0008)
    service = random.gamma(4, 0.25 / rate_per_s, mine.sum())
    completed[mine] = simulator.first_come_first_served(arrival_s[mine], service)
    return completed


def swept(folder, share, *, is_known, scales=(1, 2, 4, 6, 9, 12), seconds=40, seed=1):
    """A sweep of storage of which one part, ``share`` of the I/Os, carries `MOST` times its load, the rest anything."""
    measured = []
    for index, scale in enumerate(scales):
        random = np.random.default_rng([seed, index])
        arrival = simulator.poisson(random, RATE_1X * scale, int(RATE_1X * scale * seconds))
        mine = random.random(len(arrival)) < share
        completed = queued(random, arrival, mine, MOST * RATE_1X * share)
        roles = mine.astype(int) if is_known else None
        step = simulator.write_step(folder, arrival, completed, scale=scale, name=f"{scale}x", roles=roles)
        measured.append(measure(step))
    return knee_of(measured, seed=0)


@pytest.mark.parametrize(
    ("share", "is_known", "words"),
    [
        (0.04, True, "beyond it the I/Os of device log fall behind, while the others keep up"),
        (0.2, True, "beyond it the I/Os of device log fall behind, while the others keep up"),
        (
            0.03,
            False,
            "beyond it some of the I/Os, which nothing recorded tells apart, fall behind, while the others",
        ),
        (
            0.15,
            False,
            "beyond it some of the I/Os, which nothing recorded tells apart, fall behind, while the others",
        ),
    ],
)
def test_the_part_that_falls_behind_decides(share, is_known, words, tmp_path):
    found = swept(tmp_path, share, is_known=is_known)
    assert found.scale.low <= MOST <= found.scale.high <= 1.15 * found.scale.low
    assert words in found.sentence
    assert found.credits is None
    assert (need(found, 5).verdict, need(found, 9).verdict) == ("yes", "no")
    assert [step.is_judged for step in found.steps] == [True] * 6
    assert [step.is_saturated for step in found.steps] == [False] * 4 + [True] * 2


def test_a_small_part_that_carries_less_than_the_lowest_load_is_named(tmp_path):
    found = swept(tmp_path, 0.04, is_known=True, scales=(9, 12))
    assert found.state == "before_range"
    assert "for the I/Os of device log fell behind, while the others kept up" in found.sentence


def test_what_a_part_held_by_chance_does_not_raise_the_knee(tmp_path):
    """At 7.3x the part happens to hold a step of few I/Os: the interval reaches there, and its value does not."""
    found = swept(tmp_path, 0.04, is_known=True, scales=(1, 2, 4, 6, 7.3, 12), seconds=20, seed=4)
    assert found.scale.low <= MOST <= found.scale.high


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_part_that_keeps_up_is_no_knee(share, tmp_path):
    found = swept(tmp_path, share, is_known=True, scales=(1, 2, 4, 5.5))
    assert found.iops is None
    assert all(step.slow_part is None for step in found.steps)


def cells(arrival_s, completed_s, *, op=None, device=None, file=None, slow_s=0.15):
    """The rows of `knee_flow` for I/Os of 8 KiB."""
    count = len(arrival_s)
    slow = completed_s - arrival_s > slow_s
    columns = {
        "op": np.full(count, "read", dtype=object) if op is None else op,
        "device_id": np.zeros(count, np.int64) if device is None else device,
        "file_id": np.zeros(count, np.int64) if file is None else file,
        "is_slow": slow,
    }
    ends = []
    for times, is_wanted in ((arrival_s, 1), (completed_s, 0)):
        ends.append(
            pa.table(
                {
                    "slot": (times / SLOT_S).astype(np.int64),
                    **columns,
                    "wanted_count": np.full(count, is_wanted),
                    "completed_count": np.full(count, 1 - is_wanted),
                    "completed_bytes": np.full(count, 8192 * (1 - is_wanted)),
                }
            )
        )
    return Cells.of(pa.concat_tables(ends), SLOT_S)


def test_files_that_share_a_disk_are_told_apart_and_named_by_their_path():
    random = np.random.default_rng(2)
    arrival = simulator.poisson(random, 1000, 30_000)
    file = random.integers(0, 10, len(arrival))
    completed = queued(random, arrival, file == 3, 80)
    found = slowest_part(cells(arrival, completed, file=file), 1000.0, {}, {3: "L:\\hr.ldf"})
    assert found.part == "the I/Os of L:\\hr.ldf"
    # A tenth of the I/Os at 80 a second: the mix can have 800.
    assert found.iops == pytest.approx(800, rel=0.03)


def test_the_operation_of_one_device_is_told_apart():
    random = np.random.default_rng(3)
    arrival = simulator.poisson(random, 1000, 30_000)
    device = (random.random(len(arrival)) < 0.3).astype(np.int64)
    op = np.where(random.random(len(arrival)) < 0.5, "read", "write").astype(object)
    completed = queued(random, arrival, (device == 1) & (op == "write"), 100)
    found = slowest_part(cells(arrival, completed, op=op, device=device), 1000.0, {1: "sdb"}, {})
    assert found.part == "the writes of device sdb"
    assert found.iops == pytest.approx(667, rel=0.05)


def test_of_two_parts_that_fall_behind_the_one_that_carries_less_decides():
    random = np.random.default_rng(4)
    arrival = simulator.poisson(random, 1000, 30_000)
    device = random.choice(3, len(arrival), p=[0.8, 0.1, 0.1])
    completed = queued(random, arrival, device == 1, 85)
    completed = np.where(device == 2, queued(random, arrival, device == 2, 70), completed)
    found = slowest_part(cells(arrival, completed, device=device), 1000.0, {}, {})
    assert found.part == "the I/Os of device no. 2"
    assert found.iops == pytest.approx(700, rel=0.05)


def test_where_all_wait_for_the_same_thing_no_part_is_named():
    for seed in range(10):
        random = np.random.default_rng([5, seed])
        arrival = simulator.poisson(random, 1000, 30_000)
        device = random.choice(3, len(arrival), p=[0.9, 0.06, 0.04])
        completed = queued(random, arrival, np.ones(len(arrival), bool), 850)
        assert slowest_part(cells(arrival, completed, device=device, file=device), 1000.0, {}, {}) is None


def test_of_many_small_parts_that_keep_up_none_is_named():
    """30 files of 33 I/Os a second, on disks of their own that are busy for 70 to 90 % of the time: 300 in all."""
    for seed in range(10):
        random = np.random.default_rng([6, seed])
        arrival = simulator.poisson(random, 1000, 30_000)
        file = random.integers(0, 30, len(arrival))
        completed = arrival.copy()
        for one in range(30):
            mine = file == one
            busy = random.uniform(0.7, 0.9)
            service = random.gamma(4, 0.25 * busy * 0.03, mine.sum())
            completed[mine] = simulator.first_come_first_served(arrival[mine], service)
        assert slowest_part(cells(arrival, completed, file=file), 1000.0, {}, {}) is None


def test_a_part_that_takes_long_but_keeps_up_is_not_named():
    """Each of these waits 0.8 s for nobody else: 26 of them are under way all the time."""
    random = np.random.default_rng(7)
    arrival = simulator.poisson(random, 1000, 30_000)
    device = (random.random(len(arrival)) < 0.033).astype(np.int64)
    completed = arrival + np.where(device == 1, random.lognormal(np.log(0.8), 0.3, len(arrival)), 0.001)
    assert slowest_part(cells(arrival, completed, device=device), 1000.0, {}, {}) is None


def test_a_stall_of_one_device_at_the_end_is_no_overload():
    random = np.random.default_rng(8)
    arrival = simulator.poisson(random, 1000, 30_000)
    device = (random.random(len(arrival)) < 0.1).astype(np.int64)
    completed = arrival + 0.001
    stalled = (device == 1) & (arrival > 27)
    completed[stalled] = 32.0 + random.uniform(0, 0.5, stalled.sum())
    assert slowest_part(cells(arrival, completed, device=device), 1000.0, {}, {}) is None


def test_of_too_few_ios_nothing_is_said():
    random = np.random.default_rng(9)
    arrival = simulator.poisson(random, 1000, 30_000)
    device = np.zeros(len(arrival), np.int64)
    device[np.linspace(0, len(arrival) - 1, parts.IOS_MIN - 1).astype(int)] = 1
    completed = queued(random, arrival, device == 1, 1.0)
    assert slowest_part(cells(arrival, completed, device=device, slow_s=1e9), 1000.0, {}, {}) is None


def test_a_share_is_known_by_its_number():
    # 3,240 of 81,000: their number varies by the root of 3,240 x 0.96.
    assert share_error(0.04, 81_000) == pytest.approx(55.77 / 3240, rel=1e-3)


def test_a_drain_that_is_slower_than_before_is_that_of_a_part():
    """1,000 of 1,100 a slot were carried; then what waits drains at so many a slot."""
    wanted = np.concatenate([np.full(100, 1100.0), np.zeros(100)])
    for drain, slots in ((50.0, 100), (780.0, 100), (799.0, 200), (1000.0, 200)):
        completed = np.concatenate([np.full(100, 1000.0), np.full(100, drain)])
        assert len(without_drain(Flow(SLOT_S, wanted, completed, completed)).wanted) == slots
