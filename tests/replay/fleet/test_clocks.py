"""Offsets of clocks from exchanges over a simulated network, whose truth is planted."""

from collections.abc import Callable

import numpy as np
import pytest

from iotrace.replay.fleet.clocks import Exchange, Offset, at_instant, offset_of

MS = 1_000_000
TRUE_NS = 1_234_567_890_123
RUNS = 300

Delays = Callable[[np.random.Generator, int], np.ndarray]
JITTERS: dict[str, Delays] = {
    "even": lambda random, count: random.uniform(15 * MS, 25 * MS, count),
    "exponential": lambda random, count: 20 * MS + random.exponential(5 * MS, count),
    "half normal": lambda random, count: 20 * MS + np.abs(random.normal(0, 5 * MS, count)),
    "now and then a lot": lambda random, count: (
        20 * MS + random.exponential(0.1 * MS, count) + (random.random(count) < 0.1) * 300 * MS
    ),
}


def exchanged(random: np.random.Generator, count: int, out: Delays, home: Delays) -> list[Exchange]:
    sent = (np.arange(count) * 10 * MS).astype(np.int64)
    there = sent + out(random, count).astype(np.int64)
    back = there + home(random, count).astype(np.int64)
    return [
        Exchange(int(one), int(two) + TRUE_NS, int(three))
        for one, two, three in zip(sent, there, back, strict=True)
    ]


@pytest.mark.parametrize("jitter", JITTERS)
@pytest.mark.parametrize("count", [20, 200])
def test_what_is_stated_holds_on_an_even_network(jitter: str, count: int) -> None:
    """±: in 99 of 100; the bound always."""
    random = np.random.default_rng(1)
    found = [offset_of(exchanged(random, count, JITTERS[jitter], JITTERS[jitter])) for _ in range(RUNS)]
    errors = np.array([abs(one.offset_ns - TRUE_NS) for one in found])
    assert np.mean(errors <= [one.error_ns for one in found]) >= 0.98
    assert all(errors <= [one.bound_ns for one in found])


def test_the_bound_holds_where_one_way_is_longer() -> None:
    """5 ms out, 45 ms back: no exchange can tell, so ± is wrong, and the bound has to hold."""
    random = np.random.default_rng(2)
    found = offset_of(
        exchanged(
            random,
            200,
            lambda random, count: 5 * MS + random.exponential(MS, count),
            lambda random, count: 45 * MS + random.exponential(MS, count),
        )
    )
    off_ns = abs(found.offset_ns - TRUE_NS)
    assert off_ns == pytest.approx(20 * MS, rel=0.02)
    assert found.error_ns < off_ns <= found.bound_ns


def test_many_exchanges_come_closer_than_the_best_of_them() -> None:
    """20 ms there and back with 5 ms of jitter: from 400 exchanges the offset is known far better than to 1 ms."""
    random = np.random.default_rng(3)
    found = [offset_of(exchanged(random, 400, JITTERS["even"], JITTERS["even"])) for _ in range(100)]
    assert max(abs(one.offset_ns - TRUE_NS) for one in found) < 0.25 * MS


def test_with_few_exchanges_only_the_bound_is_stated() -> None:
    found = offset_of(exchanged(np.random.default_rng(4), 5, JITTERS["even"], JITTERS["even"]))
    assert found.error_ns == found.bound_ns


def test_a_drift_is_followed_between_two_measurements() -> None:
    before, after = (Offset(at, offset, 10, 20, 40, 100) for at, offset in ((0, 1000), (10**9, 51_000)))
    assert at_instant(before, after, 10**9 // 2).offset_ns == 26_000


def test_one_measurement_gets_less_certain_with_time() -> None:
    """50 ppm each: 100 µs in a second."""
    found = at_instant(Offset(0, 1000, 10, 20, 40, 100), None, 10**9)
    assert (found.error_ns, found.bound_ns) == (100_010, 100_020)
