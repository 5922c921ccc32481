"""What the parts of the search for incidents make of figures drawn by chance, as it is kept (`kept_answers`).

Whole answers hide much of what they are made of; the parts are quick, so that they are asked far more often here.
"""

from dataclasses import replace

import numpy as np
import pytest

from iotrace.analyze.incident import (
    attribution,
    cause,
    change_points,
    drifts,
    find,
    groups,
    periodic,
    stretches,
)
from iotrace.analyze.incident.attribution import _Sum, layer_times, slowest_layer
from iotrace.analyze.incident.change_points import Segmentation
from iotrace.analyze.incident.factor import Factor, _grams, _noise_ratio, _slots, _step, _steps
from iotrace.analyze.incident.groups import Group, windows_of
from iotrace.analyze.incident.result import Change, LayerTime
from iotrace.analyze.incident.series import (
    LayerSlots,
    Series,
    Slots,
    Stream,
    pooled_series,
    series_of,
    slot_length_ns,
    weighted_median,
)
from iotrace.analyze.incident.stretches import Course, Judged, Stretch

from .. import kept_answers

SECOND = 1_000_000_000


def hold(name, make, count):
    random = [np.random.default_rng([53, number]) for number in range(count)]
    kept_answers.hold_each(
        f"incident/{name}", {str(number): make(random[number], number) for number in range(count)}
    )


def levels(random, count, number):
    """ln of latencies: noise, some with a memory, with levels, ramps and single slots above it."""
    values = 14 + random.normal(0, random.uniform(0.02, 0.15), count)
    for _ in range(number % 4):
        first = int(random.integers(0, count))
        values[first : first + int(random.choice([1, 2, 5, 20, 60]))] += random.uniform(-0.3, 1.2)
    if number % 5 == 2:
        values += np.linspace(0, random.uniform(-1, 1), count)
    return values


def cut_of(random, count, number):
    inner = np.unique(random.integers(2, max(count - 2, 3), number % 6))
    weight = random.uniform(20, 200, count)
    return Segmentation(
        [0, *[int(one) for one in inner if 2 <= one <= count - 2], count], weight, 15.0, random.uniform(1, 3)
    )


def test_change_points():
    def make(random, number):
        count = int(random.integers(2, 120))
        values = levels(random, count, number)
        within = random.uniform(0, 0.02, count) * (number % 3)
        cut = change_points.segment(values, within, extra_penalty=float(number % 2) * 3)
        weight = random.uniform(10, 900, count)
        borders = (
            [0, *sorted({int(one) for one in random.integers(1, count, 3)}), count]
            if count > 2
            else [0, count]
        )
        return {
            "cut": cut,
            "median": [change_points.running_median(values, span).tolist() for span in (1, 5, 21)],
            "outliers": [
                change_points.without_single_outliers(values, weight, limit=limit).tolist() for limit in (2.0, 3.0)
            ] if count > 1 else [],
            "inflation": change_points._inflation(values, weight, borders),
            "same": change_points._inflation(np.full(count, 3.0), weight, borders),
            "runs": change_points.runs(values > 14),
        }  # fmt: skip

    hold("pieces-change-points", make, 80)


def test_stretches():
    def make(random, number):
        count = int(random.integers(30, 400))
        values, cut = levels(random, count, number), cut_of(random, count, number)
        pieces = len(cut.borders) - 1
        excess, jumps = random.normal(0.2, 0.4, pieces), random.normal(0, 0.4, max(pieces - 1, 0))
        reach = float(random.choice([20, 60, 200]))
        at = np.sort(random.choice(2 * count, count, replace=False))
        above, slow = random.normal(0.1, 0.3, count), random.uniform(size=count) < 0.2
        above[:: max(count // 4, 1)] += random.uniform(0.5, 3)
        few = slice(0, int(random.integers(5, 30)))
        some = Segmentation(cut.borders, cut.weight[few], 15.0, cut.inflation)
        normal = stretches._curve(at, values, ~slow, cut.weight)
        judged = Judged(
            Series("block", None, at, values, values * 0, values * 0 + 1), [], normal[0], cut, slow
        )
        return {
            "jumps": stretches._jumps(values, cut).tolist(),
            "guess": stretches._first_guess(values, jumps, cut, reach).tolist(),
            "edges": stretches._between_edges(excess, jumps, values, cut, reach).tolist(),
            "steps": [stretches._is_step(values, cut, border) for border in range(0, count, 9)],
            "curve": [one.tolist() for one in normal],
            "far": stretches._far_out(above, slow, cut),
            "far of few": stretches._far_out(above[few], slow[few], some),
            "end": [stretches._level_at_end(values[:n], cut.weight[:n]) for n in (1, 2, 11, 12, 13, 30)],
            "errors": [stretches.mean_error(values[:n], cut.weight[:n]) for n in (2, 3, 8, 27, 30)],
            "stretch": stretches._stretch((3, 9), above[3:9], cut, slice(3, 9), 0.01),
            "of two": stretches._stretch((3, 5), above[3:5], cut, slice(3, 5), 0.01),
            "least": [judged.least_excess(slots) for slots in (1, 29, 30, 31, 200)],
            "level": stretches.levelled(judged).normal.tolist(),
            "reach": stretches._reach(at),
        }

    hold("pieces-stretches", make, 60)


def test_runs_of_rises_and_falls():
    def make(random, number):
        count = 2 + number % 7
        borders = [0, *np.cumsum(random.integers(2, 90, count)).tolist()]
        cut = Segmentation(borders, np.full(borders[-1], 100.0), 15.0)
        excess = np.abs(random.normal(0.5, 0.3, count))
        jumps = np.diff(excess) * random.choice([0.3, 0.5, 0.9, 1.0], count - 1)
        values = np.repeat(excess, np.diff(borders))
        places = sorted({int(one) for one in random.integers(0, count, 4)})
        rises, falls = places[::2] or [0], places[1::2] or [count - 1]
        falls = [fall for fall in falls if fall > rises[0]]
        return {
            "kept": stretches._between_edges(excess, jumps, values, cut, 60.0).tolist(),
            "trimmed": stretches._without_drift(excess, rises, falls, borders, 60.0) if falls else None,
        }

    hold("pieces-edges", make, 200)


def drawn_course(random, number):
    at = np.sort(random.uniform(-5, 60, 4))
    height, error = random.uniform(0.05, 1), random.uniform(0.01, 0.1)
    return Course(
        *at.tolist(), 14.0, height, error, error / 2, number % 3 > 0, number % 2 > 0, random.uniform(0, 0.4)
    )


def test_slow_changes():
    def make(random, number):
        count = int(random.integers(9, 120))
        x = np.arange(count) + 0.5 if number % 3 else np.sort(random.uniform(0, 2 * count, count))
        y = random.normal(0, 0.05, count) + random.uniform(0.1, 1) * np.clip(
            (x - x[count // 3]) / (x[-1] / 4), 0, 1
        )
        if number % 4 == 1:
            y -= 0.5 * np.clip((x - x[-count // 4]) / (x[-1] / 9), 0, 1)
        weight = random.uniform(1, 900, count)
        wander = drifts.Wander(y, weight)
        load = random.uniform(0.5, 2, count) + np.where(np.arange(count) > count / 2, random.uniform(0, 1), 0)
        load[:: 7 + number % 3] = np.nan
        knots = np.sort(random.uniform(x[0], x[-1], (5, 4)), axis=1)
        return {
            "wander": [wander(length) for length in (0.5, 1, 3, 10, 50, 500)],
            "effect": drifts.load_effect(y, [load, load[::-1]]).tolist(),
            # Of an edge between two points the place is as good as any other there.
            "fit": (found := drifts._fitted(x, y, 1.0)) and [found.base, found.height, found.has_rise, found.has_fall],
            "course": drifts._judged_course(x, y, 1.0, x[[2, 4, -4, -2]], (number % 2 > 0, number % 3 > 0)),
            "gain": drifts._RunningSums(x, y).gain(knots).tolist(),
            "shape": stretches.trapezoid(x, knots).tolist(),
            "error": drifts._error_as_shaped(y, np.clip(x / x[-1], 0.2, 0.8)),
            "flat": drifts._error_as_shaped(y, np.ones(count)),
            "base": drifts._base(y, random.uniform(0.01, 0.2)),
            "greatest": [drifts._greatest(y - level) for level in (0.1, 0.3, 5.0)],
            "inflation": [drifts._inflation(y), drifts._inflation(-y), drifts._inflation(y * 0)],
            "variance": drifts._variance(y[:3], 2),
            "blocks": drifts._per_block(np.nan_to_num(load), 3, count // 3).tolist(),
        }  # fmt: skip

    hold("pieces-drifts", make, 60)


def judged_of(random, number, stream=None, layer="block"):
    count = int(random.integers(40, 160))
    at = np.flatnonzero(random.uniform(size=count) < (1.0 if number % 2 else 0.8))
    values = levels(random, count, number)[at]
    slow = random.uniform(size=len(at)) < 0.1
    cut = Segmentation([0, len(at)], random.uniform(20, 200, len(at)), 15.0, 1.3)
    samples = (np.arange(count) - 1, np.arange(count) + 2) if number % 5 == 1 else None
    series = Series(layer, stream, at, values, values * 0, random.uniform(1, 90, len(at)), samples)
    found = []
    for index in range(1 + number % 3):
        first = int(random.integers(0, count - 8))
        end, excess = first + int(random.integers(1, 8)), random.uniform(0.2, 1)
        course = drawn_course(random, number + index) if (number + index) % 4 == 3 else None
        found.append(Stretch(first, end, excess, random.uniform(0.01, 0.3), random.uniform(5, 500), course))
    return Judged(series, found, np.full(len(at), 14.0), cut, slow)


def test_windows_and_their_patterns():
    def make(random, number):
        streams = [None, Stream("block", "read", 1), Stream("block", "write", 2)]
        judged = [judged_of(random, number + index, stream) for index, stream in enumerate(streams)]
        windows = windows_of(judged)
        return [[one.first, one.end, len(one.parts), one.strongest[1]] for one in windows]

    hold("pieces-windows", make, 200)


def test_patterns():
    def make(random, number):
        entry = judged_of(random, 1)
        period = float(random.uniform(2.5, 40))
        starts = np.round(
            np.arange(4 + number % 12) * period
            + random.normal(0, period * random.choice([0, 0.05, 0.12]), 4 + number % 12)
        )
        starts = starts[random.uniform(size=len(starts)) < random.choice([0.5, 0.8, 1.0])]
        starts = sorted({*map(int, np.abs(starts)), *random.integers(0, 500, number % 4).tolist()})
        members = []
        for start in starts:
            length = int(random.choice([2, 3, 4, 8]))
            stretch = Stretch(
                start, start + length, random.uniform(0.3, 0.5) * random.choice([1, 1, 1, 3]), 0.05, 9.0
            )
            members.append(Group([(entry, stretch)], start, start + length))
        slots = int(random.choice([1.0, 1.8, 2.2]) * (starts[-1] + period)) if starts else 10
        patterns, rest = periodic.patterns_of(members, slots)
        return {
            "patterns": [[one.period, [member.first for member in one.members]] for one in patterns],
            "rest": [one.first for one in rest],
        }  # fmt: skip

    hold("pieces-patterns", make, 300)


def test_factors():
    def make(random, number):
        judged = judged_of(random, number)
        stretch = judged.stretches[0]
        at, inside = _slots(judged, stretch)
        if not inside.any() or inside.all():
            return None
        slots, values = judged.series.at[at].astype(float), judged.series.values[at]
        scatter = random.uniform(0.5, 2, len(at))
        steps = _steps(slots, values, inside, scatter)
        columns = random.normal(0, 1, (len(at), 11))
        grams, determinants = _grams(slots, columns, scatter)
        return {
            "slots": [at.tolist(), inside.tolist()],
            "ratio": _noise_ratio(values, inside, scatter),
            "steps": [steps.value.tolist(), steps.error.tolist(), steps.weight.tolist(), steps.freedom],
            "quantiles": [steps.quantile(share) for share in (0.025, 0.3, 0.5, 0.9, 0.975)],
            "step": [
                [one.tolist() for one in _step(grams, determinants, height, len(at))] for height in (0.0, 0.3, 10.0)
            ],
        }  # fmt: skip

    hold("pieces-factors", make, 30)


def drawn_layer(random, number, layer, slots, streams):
    shape = (len(streams), slots)
    ios = np.floor(random.exponential(20, shape)) * (random.uniform(size=shape) < 0.95)
    latency = np.exp(random.normal(14, 0.3, shape))
    means = number % 3 == 2
    first = np.arange(slots) // 3 * 3
    samples = (first, np.minimum(first + 3, slots)) if means else None
    return LayerSlots(
        layer, streams, ios, ios * random.choice([4096, 8192, 65536], shape), ios,
        np.where(ios > 0, np.log(latency), np.nan), np.where(ios > 0, 0.5 / np.maximum(ios, 1), np.nan),
        ios * latency, ios, ios * latency / 1e9, samples,
    )  # fmt: skip


STREAMS = [
    Stream("block", "read", 1, 4, "data"), Stream("block", "write", 1, 4, "data"),
    Stream("block", "write", 2, None, "log"),
]  # fmt: skip


def test_slots():
    def make(random, number):
        layer = drawn_layer(random, number, "block", int(random.integers(3, 40)), STREAMS[: 1 + number % 3])
        pooled = pooled_series(layer)
        values, weights = random.normal(0, 1, 9), np.floor(random.uniform(0, 4, 9))
        return {
            "pooled": pooled and [pooled.at.tolist(), pooled.values.tolist(), pooled.within_variance.tolist()],
            "series": [
                [one.at.tolist(), one.values.tolist()]
                for least in (1, 20)
                for one in series_of(layer, least_slots=least)
            ],
            "medians": [weighted_median(values, weights, share) for share in (0.0, 0.2, 0.5, 0.8, 1.0)],
            "spans": [] if pooled is None else [pooled.slots_per_sample, pooled.slots(slice(0, 2))],
        }  # fmt: skip

    hold("pieces-slots", make, 60)


def test_lengths_of_slots():
    for seconds in (
        1,
        99_999,
        100_000,
        100_001,
        200_000,
        200_001,
        999_999,
        1_500_001,
        360_000_000,
        360_000_001,
    ):
        length = slot_length_ns(seconds * SECOND)
        assert -(-seconds * SECOND // length) <= 100_000
        allowed = [
            one
            for one in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
            if one * 100_000 >= seconds
        ]
        assert length == (allowed[0] * SECOND if allowed else -(-seconds * SECOND // 100_000))
    assert [slot_length_ns(100_000 * SECOND, streams) for streams in (1, 60, 61, 600)] == [
        SECOND, SECOND, 2 * SECOND, 10 * SECOND,
    ]  # fmt: skip


def test_layers():
    def make(random, number):
        slots, names = 40, ("sql", "filesystem", "block", "device")
        chosen = [name for name in names if random.uniform() < 0.7] or ["block"]
        found = {}
        for name in chosen:
            found[name] = drawn_layer(random, number, name, slots, STREAMS[: int(random.integers(1, 4))])
            found[name].latency_sum_ns[:, 10:20] *= random.uniform(1, 4)
        is_normal = np.ones(slots, dtype=bool)
        window = (10, int(random.integers(11, 21)))
        is_normal[window[0] : window[1]] = False
        times = layer_times(Slots(0, SECOND, slots, found), window, is_normal, STREAMS[: number % 4])
        return {"times": times, "slowest": slowest_layer(times)}

    hold("pieces-layers", make, 120)


def test_who_asked():
    def make(random, number):
        names = ["a", "b", "c", "d", "e", "f", "g"]

        def sums(least):
            some = [name for name in names if random.uniform() < 0.8]
            return {
                name: _Sum(int(ios), int(ios) * int(random.choice([8192, 16384])), int(ios), int(ios * 1e6))
                for name in some
                if (ios := random.exponential(random.choice([3, 100, 1000])) + least)
            }  # fmt: skip

        slow, normal = sums(0), sums(1)
        return attribution._rows(
            "file", slow, normal, 10.0, 90.0, attribution._load_growth(slow, normal, 10.0, 90.0)
        )

    hold("pieces-blame", make, 120)


def test_causes():
    def make(random, number):
        slots = int(random.integers(30, 120))
        load = drawn_layer(random, 0, "block", slots, STREAMS)
        if number % 3 == 0:
            load.io_count *= random.uniform(size=(1, slots)) < 0.25
        first = int(random.integers(0, slots - 2))
        window = (first, min(first + int(random.choice([1, 2, 4, 5, 6, 15])), slots))
        grew = random.choice([1.0, 1.2, 1.6, 3.0])
        start = max(window[0] + int(random.integers(-4, 5)), 0)
        load.io_count[:, start : window[1]] *= grew
        load.size_bytes[:, start : window[1]] *= grew * random.choice([1.0, 1.6])
        load.latency_sum_ns[:, window[0] : window[1]] *= random.choice([1.0, 30.0, 3000.0])
        is_normal = random.uniform(size=slots) < 0.9
        is_normal[window[0] : window[1]] = False
        excess = random.normal(0.05, 0.3, slots)
        excess[::9] = np.nan
        together = random.uniform(1, 3, slots) if number % 2 else None
        drive = cause.judge_drive(
            load, window, is_normal, excess, random.uniform(1.2, 6), slot_ns=int(random.choice([1, 5])) * SECOND,
            what="sda", together=together, is_mean=number % 4 == 1,
        )  # fmt: skip
        near = cause._nearest(is_normal, window)
        values = np.log(np.maximum(load.io_count.sum(axis=0), 0.5))
        return {
            "drive": drive,
            "more": [drive.is_more_load, cause.explained_by_load(drive).is_more_load],
            "near": np.flatnonzero(near).tolist(),
            "inner": np.flatnonzero(cause._inner(window, slots)).tolist(),
            "onset": cause._onset(values, window, near) if near.any() else None,
            "arrived": [one.tolist() for one in cause._arrived(load, SECOND)],
        }

    hold("pieces-causes", make, 250)


def test_verdicts():
    """Figures near the limits of what grew, by how much, when, and of what other times were like."""

    def make(random, number):
        def change(quantity):
            ratio = float(random.choice([0.9, 1.1, 1.25, 1.45, 1.55, 2.5]))
            reach = float(random.choice([1.01, 1.1, 1.3]))
            lead = random.choice([None, -3, -2, -1, 0, 1])
            lead = None if lead is None else int(lead) * SECOND
            return Change(quantity, 100.0, 100 * ratio, ratio, (ratio / reach, ratio * reach), lead)

        names = ["arrivals", "size", *(["bursts"] if number % 2 else [])]
        changes = {name: change(name) for name in names}
        if number % 7 == 3:
            changes["size"] = Change("size", 0.0, 0.0, None, None)
        same = None
        if number % 3:
            middle = float(random.uniform(0.9, 3))
            same = cause._SameLoad(int(random.integers(10, 50)), middle, middle / 1.1, middle * 1.1)
        full = cause._HowFull(
            *(float(random.choice([0.1, 0.2, 0.3, 1.0])) for _ in range(2)),
            float(random.choice([1.0, 1.4, 1.6])),
        )
        said = cause._verdict(changes, same, float(random.choice([1.3, 2.2, 3.2, 6])), SECOND, full)
        return [
            said,
            [
                cause._sentence(one, "sda", SECOND * (1 + 4 * (number % 2)), full)
                for one in changes.values()
                if one.ratio
            ],
        ]

    hold("pieces-verdicts", make, 400)


@pytest.mark.parametrize(
    ("evidence", "stream", "chosen"),
    [((10, 5.0), (None, "s"), "layer"), ((10, 4.9), ("s", None), "s"), ((5, 10), (None, "s"), "layer")],
)
def test_of_a_windows_parts_a_layer_tells_where_it_is_nearly_as_clear(evidence, stream, chosen):
    parts = []
    for weight, name in zip(evidence, stream, strict=True):
        entry = judged_of(np.random.default_rng(1), 1, None if name is None else Stream("block", "read"))
        parts.append((entry, Stretch(0, 9, 0.5, 0.1, float(weight))))
    strongest = Group(parts, 0, 9).strongest[0].series.stream
    assert ("layer" if strongest is None else "s") == chosen


def window_at(start, end, cause="service-driven", **more):
    fields = dict.fromkeys(find.SlowWindow.__dataclass_fields__)
    one = find.SlowWindow(
        **fields | {"number": 1, "start_ns": start, "end_ns": end, "cause": cause, "load": []}
    )
    return replace(one, **more)


@pytest.mark.parametrize(
    ("window", "is_told"),
    [((0, 80), True), ((0, 79), False), ((20, 100), True), ((21, 300), False), ((-9, 200), True)],
)
def test_a_change_of_which_four_fifths_are_a_window_is_told(window, is_told):
    change = window_at(0, 100)
    assert find.is_told(change, [window_at(*window)]) == is_told
    assert not find.is_told(change, [window_at(*window, cause="load-driven")])
    assert not find.is_told(change, [])


def test_the_like_of_what_load_drove():
    """Three at least, as slow as one of them, under as much load as most."""

    def one(more, factor, interval=None):
        change = Change("arrivals", 1.0, more, more, (more, more))
        size = Change("size", 1.0, 9.0, 9.0, (9.0, 9.0))
        return window_at(
            0, 9, load=[change, size], factor=factor, factor_interval=interval or (factor, factor)
        )

    driven = [one(1.0, 2.0), one(1.2, 3.0), one(1.4, 2.5)]
    assert find._is_like(one(1.2, 9.0, (3.0, 20.0)), driven)
    assert not find._is_like(one(1.2, 9.0, (3.01, 20.0)), driven)
    assert not find._is_like(one(1.19, 2.0), driven)
    assert not find._is_like(one(5.0, 2.0), driven[:2])
    assert find._more_load([]) == 0.0
    assert find._more_load([Change("bytes", 1.0, 0.0, None, None)]) == 0.0
    assert (
        find._more_load([Change("bytes", 1.0, 2.0, 2.0, None), Change("arrivals", 1.0, 1.5, 1.5, None)])
        == 2.0
    )


@pytest.mark.parametrize(("added", "problem", "slowest"), [
    ([3.0, 4.0], [None, None], "b"), ([3.0, 4.0], ["p", None], "b"), ([3.0, 4.0], ["p", "p"], None),
    ([3.0], ["p"], "a"), ([0.0, -1.0], [None, None], None), ([0.5, 0.0], [None, None], "a"),
])  # fmt: skip
def test_the_layer_that_added_most(added, problem, slowest):
    times = [
        LayerTime(name, 1.0, 2.0, None, more, None, why)
        for name, more, why in zip("ab", added, problem, strict=False)
    ]
    assert slowest_layer(times) == slowest


def test_a_factor_is_a_figure_with_its_interval():
    assert Factor(1.0, 0.5, 2.0) == Factor(value=1.0, low=0.5, high=2.0)
    assert groups.Group([], 1, 2).first == 1
