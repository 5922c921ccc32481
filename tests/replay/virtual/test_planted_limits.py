"""Limits against another simulation, written from docs/virtual-replay.md and not from the model's code.

Here a bucket is a level that rises with time and falls with each I/O, which goes when all its buckets hold what it
costs, or are full; nobody overtakes.
"""

import math
from itertools import starmap

import numpy as np
import pytest

from iotrace.replay.virtual.compiled import compiled
from iotrace.replay.virtual.play import limit_facts
from iotrace.schemas.models import parse_model

from .simulating import SECOND, simulate

KIB = 1024


class Level:
    """A token bucket."""

    def __init__(self, rate: float, capacity: float, cost) -> None:
        self.rate, self.capacity, self.cost = rate, max(1.0, capacity), cost
        self.level, self.since = self.capacity, 0.0

    def at(self, now: float) -> float:
        return min(self.capacity, self.level + (now - self.since) * self.rate / SECOND)

    def ready(self, now: float, cost: float) -> float:
        return now + max(0.0, min(cost, self.capacity) - self.at(now)) / self.rate * SECOND

    def take(self, now: float, cost: float) -> None:
        self.level, self.since = self.at(now) - cost, now


class Limit:
    """Buckets that are waited for together, over 100 ms."""

    def __init__(self, iops=None, mb=None, unit=None, burst_iops=None, burst_mb=None, seconds=0.0) -> None:
        def one(_: int) -> float:
            return 1.0

        ios = one if unit is None else lambda size: math.ceil(size / (unit * KIB))
        self.buckets: list[Level] = []
        for rate, burst, cost in (
            (iops, burst_iops, ios),
            (mb and mb * 1e6, burst_mb and burst_mb * 1e6, float),
        ):
            if rate is not None:
                credit = (burst - rate) * seconds if burst else 0.0
                self.buckets.append(Level(rate, credit + rate * 0.1, cost))
            if burst is not None:
                self.buckets.append(Level(burst, burst * 0.1, cost))
        self.last, self.waits = 0.0, []

    def go(self, now: float, size: int) -> float:
        """When an I/O that comes now may go on."""
        start = max(now, self.last)
        self.last = max([start, *(bucket.ready(start, bucket.cost(size)) for bucket in self.buckets)])
        for bucket in self.buckets:
            bucket.take(self.last, bucket.cost(size))
        if self.last > now + 1:
            self.waits.append((now, self.last))
        return self.last

    def throttled_seconds(self) -> float:
        """Time during which any I/O waited."""
        total, until = 0.0, 0.0
        for begin, end in self.waits:
            total, until = total + max(0.0, end - max(begin, until)), max(until, end)
        return total / SECOND


def load(low: int, high: int, sizes: list[int], *, seconds: int = 12, seed: int = 1, hot: float = 0.0):
    """Poisson arrivals at a low rate, and for 1.5 s in every 4 at a high one; times, sizes and places."""
    random = np.random.default_rng(seed)
    at = np.concatenate(
        [
            start + np.sort(random.random(random.poisson(rate * length)) * length)
            for begin in range(0, seconds, 4)
            for start, rate, length in ((begin, high, 1.5), (begin + 1.5, low, 2.5))
        ]
    )
    offset = random.integers(0, 1 << 14, len(at)) * 65536
    # Of four disks with stripes of 64 KiB over them the first has more to do.
    offset = np.where(random.random(len(at)) < hot, offset // (4 * 65536) * (4 * 65536), offset)
    return (at * SECOND).astype(np.int64), random.choice(sizes, len(at)).astype(np.int64), offset


def check(toml: str, arrivals, expected, limits: list[Limit], target=0) -> dict:
    """The model ends I/Os when expected, and its limits, in its order, hold as many for as long as those planted."""
    at, size, offset = arrivals
    made = compiled(parse_model(toml, "planted"))
    figures, ends = simulate(made.json(), at, size=size, offset=offset, target=target, keep=True)
    assert np.abs(ends - np.asarray(expected)).max() <= 3
    throttled = [gate["throttled_ns"] / SECOND for gate in figures["gates"]]
    assert throttled == pytest.approx([one.throttled_seconds() for one in limits], abs=1e-6)
    assert max(throttled) > 1, "nothing was held back"
    facts = [limit_facts(bound, figures) for bound in made.bounds]
    waits = [end - begin for one in limits for begin, end in one.waits]
    assert sum(one.waited_ios for one in facts) == pytest.approx(len(waits), abs=3)
    assert sum(one.wait_ns_sum for one in facts) == pytest.approx(sum(waits), rel=1e-6)
    return {one.name: one for one in facts}


ONE = '[[disk]]\nname = "d"\n[[disk.limit]]\n'


@pytest.mark.parametrize(
    ("keys", "planted", "arrivals"),
    [
        ("iops = 500", {"iops": 500}, load(100, 1500, [8 * KIB])),
        (
            "iops = 700\nmb_per_s = 30",
            {"iops": 700, "mb": 30},
            load(150, 1500, [8 * KIB, 64 * KIB]),
        ),
        (
            "iops = 400\nunit_kib = 256",
            {"iops": 400, "unit": 256},
            load(50, 700, [8 * KIB, 256 * KIB, 264 * KIB, 1024 * KIB]),
        ),
    ],
)
def test_one_limit(keys, planted, arrivals):
    limit = Limit(**planted)
    check(ONE + keys, arrivals, list(starmap(limit.go, zip(*arrivals[:2], strict=True))), [limit])


def test_of_two_limits_at_once_the_one_that_is_waited_for_longest_binds():
    """Small I/Os wait for IOPS, large ones for bytes."""
    for sizes, name in (([8 * KIB], "d: 700 IOPS"), ([128 * KIB], "d: 30 MB/s")):
        limit, arrivals = Limit(iops=700, mb=30), load(150, 1500, sizes)
        ends = list(starmap(limit.go, zip(*arrivals[:2], strict=True)))
        facts = check(ONE + "iops = 700\nmb_per_s = 30", arrivals, ends, [limit])
        assert max(facts.values(), key=lambda one: one.wait_ns_sum).name == name


def test_credits_are_spent_and_come_back():
    limit = Limit(iops=300, mb=20, burst_iops=900, burst_mb=60, seconds=2.5)
    arrivals = load(80, 1100, [8 * KIB, 16 * KIB], seconds=24)
    ends = list(starmap(limit.go, zip(*arrivals[:2], strict=True)))
    keys = "iops = 300\nmb_per_s = 20\nburst_iops = 900\nburst_mb_per_s = 60\nburst_seconds = 2.5"
    facts = check(ONE + keys, arrivals, ends, [limit])
    left = limit.buckets[0].at(max(ends))
    assert facts["d: 300 IOPS"].credits == 1500
    assert facts["d: 300 IOPS"].credits_end == pytest.approx(min(1500, max(0, left)), abs=0.1)
    assert facts["d: 300 IOPS"].credits_least < 1500
    assert facts["d: 300 IOPS"].waited_ios > 0
    assert facts["d: 900 IOPS burst"].waited_ios > 0


def test_stripes_over_four_disks_of_which_one_has_more_to_do():
    arrivals = load(300, 2500, [8 * KIB, 64 * KIB, 256 * KIB], hot=0.5)
    limits = [Limit(iops=600, mb=60) for _ in range(4)]
    expected = []
    for at, size, offset in zip(*arrivals, strict=True):
        ends = []
        place = offset
        while place < offset + size:
            stop = min(offset + size, (place // 65536 + 1) * 65536)
            ends.append(limits[place // 65536 % 4].go(at, stop - place))
            place = stop
        expected.append(max(ends))
    check(
        '[[disk]]\nname = "d"\ncount = 4\nstripe_kib = 64\n[[disk.limit]]\niops = 600\nmb_per_s = 60',
        arrivals,
        expected,
        limits,
    )
    assert limits[0].throttled_seconds() > 1.2 * limits[1].throttled_seconds()


def test_a_machine_holds_data_and_log_each_and_both_together():
    """Data is cached, the log is not: each has its own limit, then all share one, then each its disk's."""
    arrivals = load(300, 2500, [8 * KIB, 64 * KIB])
    is_log = np.random.default_rng(9).random(len(arrivals[0])) < 0.4
    cached, uncached, everything = Limit(iops=1100), Limit(iops=500, mb=30), Limit(iops=1300, mb=60)
    data, log = Limit(iops=900), Limit(mb=15)
    first = [
        (uncached if of_log else cached).go(at, size)
        for at, size, of_log in zip(*arrivals[:2], is_log, strict=True)
    ]
    expected = np.zeros(len(first))
    for number in sorted(range(len(first)), key=lambda number: (math.ceil(first[number] - 1e-3), number)):
        size = int(arrivals[1][number])
        shared = everything.go(math.ceil(first[number] - 1e-3), size)
        expected[number] = (log if is_log[number] else data).go(shared, size)
    toml = (
        '[machine]\nname = "m"\n[[machine.limit]]\nof = "all"\niops = 1300\nmb_per_s = 60\n'
        '[[machine.limit]]\nof = "cached"\niops = 1100\n'
        '[[machine.limit]]\nof = "uncached"\niops = 500\nmb_per_s = 30\n'
        '[[disk]]\nname = "data"\ncached = true\n[[disk.limit]]\niops = 900\n'
        '[[disk]]\nname = "log"\nroles = ["log"]\n[[disk.limit]]\nmb_per_s = 15\n'
    )
    order = [everything, cached, uncached, data, log]
    check(toml, arrivals, expected, order, target=is_log.astype(np.uint16))
