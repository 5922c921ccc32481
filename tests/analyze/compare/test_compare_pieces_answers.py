"""What the parts of a comparison make of figures drawn by chance, as it is kept (`kept_answers`)."""

import numpy as np
import pyarrow as pa

from iotrace.analyze.compare import class_latency, recordings, waterfall, words
from iotrace.analyze.compare.class_latency import ClassKey, ClassLatency, Estimate, SlotCounts
from iotrace.analyze.compare.comparison import (
    ClassComparison,
    Figure,
    Paired,
    Side,
    WaterfallStep,
    WorkAspect,
)
from iotrace.analyze.compare.same_work import Work, check_same_work, mix_distance, work_value_text
from iotrace.analyze.stats import bootstrap
from iotrace.analyze.stats.histogram import Histogram, latency_bucket_ns
from iotrace.schemas.run import Pacing, Quantiles, Replay

from .. import kept_answers


def hold(name, make, count):
    found = {str(number): make(np.random.default_rng([61, number]), number) for number in range(count)}
    kept_answers.hold_each(f"compare/{name}", found)


def correlated(random, count, memory):
    values = random.normal(0, 1, count)
    for index in range(1, count):
        values[index] += memory * values[index - 1]
    return values


def test_blocks_and_their_sums():
    def make(random, number):
        count = int(random.choice([3, 7, 8, 20, 21, 60, 240]))
        series = correlated(random, count, float(random.choice([0, 0.5, 0.9])))
        if number % 7 == 0:
            series = np.full(count, 3.0)
        if number % 5 == 0:
            series[: count // 2] *= 9
        length = bootstrap.block_slots(series)
        sums = bootstrap.block_sums(np.array([series, series[::-1]]), length)
        drawn = bootstrap.resampled_errors(series, np.random.default_rng(1))
        both = bootstrap.resampled_errors([series, series**2], np.random.default_rng(2))
        return {
            "optimal": bootstrap.optimal_block(series), "length": length, "sums": sums.tolist(),
            "widening": [bootstrap.widening(row, length) for row in [*sums, sums[0] * 0]] if count > 3 else None,
            "drawn": [float(drawn.std()), *bootstrap.interval(drawn)],
            "both": [float(one.std()) for one in both],
            "degrees": bootstrap.degrees_of_freedom(count, length) if count > 3 else None,
        }  # fmt: skip

    hold("pieces-blocks", make, 60)


def drawn_class(random, slots, ios, scale):
    """Latencies of a class as its histogram and its course over slots of time."""
    per_slot = random.poisson(ios / slots, slots)
    per_slot[:: int(random.choice([3, 50]))] = 0
    latency = random.lognormal(13, 0.6, int(per_slot.sum())) * scale
    slot = np.repeat(np.arange(slots), per_slot)
    bucket = latency_bucket_ns(latency.astype(np.int64))
    values, counts = np.unique(bucket, return_counts=True)
    histogram = Histogram(values, counts, int(latency.sum()), int(values.max(initial=0)))
    ranks = [np.ceil(share * len(slot)) for share in class_latency.QUANTITIES.values()]
    limits = [values[np.searchsorted(np.cumsum(counts), rank)] for rank in ranks]
    below = np.stack(
        [np.bincount(slot[bucket <= limit], minlength=slots) for limit in limits], axis=1
    ).astype(float)
    course = SlotCounts(per_slot.astype(float), np.bincount(slot, latency, slots), below[:slots])
    return ClassLatency(histogram, course)


def test_latencies_of_classes():
    def make(random, number):
        slots = int(random.choice([15, 30, 60]))
        one, other = (
            drawn_class(random, slots, int(random.choice([150, 900, 20_000])), scale) for scale in (1, 1.4)
        )
        found = {}
        for quantity in ("mean", *class_latency.QUANTITIES):
            alone = class_latency.estimate(one, quantity, [1, 2])
            left, right = class_latency.estimate_together(one, other, quantity, [3])
            told = [
                recordings._figure(quantity, *pair) for pair in ((left, right), (alone, right), (alone, None))
            ]
            found[quantity] = [one.is_at_the_end(quantity), one.steepness(quantity, 0.01), *told]
            found[quantity] += [one.series(quantity).tolist()]
        edge = np.array([-0.1, 0.0, 0.005, 0.5, 0.999, 1.0, 1.2])
        return {
            "figures": found, "long": one.is_long_enough(), "limits": class_latency.limits_ns(one.histogram),
            "ranks": class_latency._latency_of_rank(one.histogram, edge).tolist(),
            "past": one.replicates_ns("p99", np.linspace(-0.02, float(random.choice([0.009, 0.0101])), 50)) is None,
        }  # fmt: skip

    hold("pieces-classes", make, 40)


def test_figures_of_no_time():
    still = Estimate(0.0, np.array([0.0, 1.0]))
    some = Estimate(2.0, np.array([1.5, 3.0]))
    assert recordings._figure("mean", still, some).ratio is None
    assert recordings._figure("mean", some, still).ratio == 0.0
    assert recordings._figure("mean", Estimate(2.0, np.array([0.0, 3.0])), some).ratio_interval is None
    assert recordings._figure("mean", some, Estimate(4.0, None)).difference_interval_ns is None
    assert recordings._holding(5.0, (1.0, 2.0)) == (1.0, 5.0)
    assert recordings._holding(0.5, (1.0, 2.0)) == (0.5, 2.0)


def test_names_of_sizes():
    sizes = [None, 0, 4096, 8192, 512 << 10, 1 << 20]
    assert [recordings.size_class_name(size) for size in sizes] == [
        "all sizes", "> 1 MiB", "≤ 4 KiB", "8 KiB", "512 KiB", "1 MiB",
    ]  # fmt: skip
    left = {
        ClassKey("read", "data", 8192): 1,
        ClassKey("flush", "log", 4096): 1,
        ClassKey("read", None, None): 1,
    }
    left[ClassKey("read", "data", 65536)] = 1
    assert recordings._unmatched(left, {}, "C") == [
        "only A has reads",
        "only A has data reads of 8 KiB, 64 KiB",
    ]
    assert recordings._unmatched({}, left, "C")[0] == "only C has reads"
    assert recordings._roles_unknown(
        {ClassKey("read", "unattributed", 1): 1, ClassKey("read", None, None): 1}
    )
    assert not recordings._roles_unknown(left)
    assert min(left, key=recordings._order) == ClassKey("read", None, None)
    assert "service" in recordings._headline_reason(("service", "service"))
    assert "intended" in recordings._headline_reason(("service", "response"))


def drawn_work(random, number, base=None):
    """What was asked for: a mix near ``base``'s, or one of its own."""
    sizes = [4096, 8192, 65536]
    mix = {(op, size): int(random.integers(50, 5000)) for op in ("read", "write") for size in sizes}
    if base is not None:
        factor = float(random.choice([0.9, 0.94, 0.96, 1.0, 1.04, 1.06, 1.2]))
        mix = {key: round(count * factor * random.uniform(0.98, 1.02)) for key, count in base.mix.items()}
        if number % 5 == 0:
            mix[("flush", 0)] = 40
        if number % 4 == 0:
            mix.pop(("read", 65536))
    near = lambda value, *by: value * float(random.choice(by))  # noqa: E731
    span = 10**10 if base is None else int(near(base.span_ns, 0.4, 0.6, 0.97, 1.0, 1.03, 1.9, 2.1))
    share = {"read": 0.5, "write": None if number % 9 == 0 else 0.2}
    if base is not None:
        share = {
            op: None if value is None else value + float(random.choice([-0.06, -0.04, 0, 0.04, 0.06]))
            for op, value in share.items()
        }
    footprint = 10**9 if base is None else round(near(10**9, 0.88, 0.92, 1.0, 1.08, 1.12))
    burst = 2.0 if base is None else near(2.0, 0.7, 0.8, 1.0, 1.2, 1.4)
    return Work(
        "t", "block", span, mix, footprint if number % 8 else None, share, burst if number % 7 else None
    )


def test_what_differs_in_the_work():
    def make(random, number):
        a = drawn_work(random, number)
        b = drawn_work(random, number, a)
        replay = None
        if number % 2:
            planned = a.io_count() if number % 3 else {}
            issued = round(b.span_ns * float(random.choice([0.94, 0.96, 1.04, 1.06])))
            replay = Replay(
                scale=2.0, mode="think" if number % 5 == 1 else "compress", reads_only=number % 11 == 1,
                planned_duration_ns=b.span_ns, issued_span_ns=issued,
                planned_ios=sum(a.mix.values()) if number % 4 > 1 else 0, planned_by_op=planned,
                skipped_ios=int(random.choice([0, 0, 7])), failed_ios=int(random.choice([0, 3])),
                repeat=1 + number % 3 // 2,
            )  # fmt: skip
        found = check_same_work(a, b, replay, label="C", is_watched=number % 6 == 1)
        return {
            "found": found, "distance": [mix_distance(a.mix, b.mix), mix_distance(a.mix, a.mix)],
            "texts": [[work_value_text(one, one.b), work_value_text(one, None)] for one in found.aspects],
        }  # fmt: skip

    hold("pieces-work", make, 200)


def drawn_figure(random, quantity):
    a = float(random.uniform(1e5, 1e7))
    ratio = float(random.choice([0.5, 0.84, 0.9, 0.96, 1.0, 1.04, 1.07, 1.2, 2.0]))
    reach = float(random.choice([1.005, 1.03, 1.3]))
    interval = (ratio / reach, ratio * reach)
    kind = random.uniform()
    if kind < 0.1:
        return Figure(quantity, None, None, None, None, None, None)
    if kind < 0.15:
        return Figure(quantity, a, 0.0, -a, None, 0.0, None)
    spread = (a * (interval[0] - 1), a * (interval[1] - 1))
    known = kind > 0.3
    return Figure(
        quantity, a, a * ratio, a * (ratio - 1), spread if known else None, ratio, interval if known else None
    )


def drawn_comparison(random, op, metric, role=None):
    figures = [drawn_figure(random, quantity) for quantity in ("mean", "p50", "p95", "p99")]
    figures = figures if random.uniform() < 0.9 else []
    return ClassComparison(op, role, None, "all sizes", "service", metric, 900, 900, figures)


def test_verdicts():
    def make(random, number):
        metric = "response" if number % 3 else "service"
        classes = [drawn_comparison(random, op, metric) for op in ("write", "read", "flush")]
        classes += [drawn_comparison(random, op, "service") for op in ("read", "write") if number % 4]
        classes.append(drawn_comparison(random, "read", metric, "data"))
        work = [
            WorkAspect(f"w{at}", "share", 0.5, 0.5, 0.4, differs=bool(random.uniform() < 0.5), favours=whom)
            for at, whom in enumerate(("a", "b", None, "a"))
        ][: number % 5]
        replay = None
        if number % 2:
            pacing = Pacing.__new__(Pacing)
            pacing.own_service_ns_mean = float(random.choice([-5e4, 0, 5e4, 2e5]))
            late = Quantiles(int(random.choice([0, 20_000])), int(random.choice([0, 400_000])))
            replay = Replay(generator_lateness_ns=late, pacing=pacing if number % 7 else None)
        ratio = float(random.choice([0.94, 0.97, 1.03, 1.1]))
        about = (ratio - 0.01, ratio + 0.01) if random.uniform() < 0.8 else None
        pairs = [
            Paired("device", op, "order", 900, 950, ratio, about, 5e4, (4e4, 6e4)) for op in ("read", "write")
        ]
        pairs = pairs[: number % 3]
        return {
            "verdicts": words.verdicts("B", classes, metric, work, pairs, replay),
            "missing": words.without_interval(classes),
        }

    hold("pieces-verdicts", make, 400)


def test_directions_at_their_limits():
    for margin in (0.0, 0.05, 0.15):
        for low, high, told in (
            (1 + margin + 1e-9, 3.0, "slower"), (1 + margin, 3.0, "no difference"),
            (0.1, 1 / (1 + margin) - 1e-9, "faster"), (0.1, 1 / (1 + margin), "no difference"),
        ):  # fmt: skip
            assert words._direction((low, high), margin) == told
    assert words._direction(None) == "unknown"


def side(layer, kind, label, layers=()):
    steps = [
        WaterfallStep(one, op, 9, 1e6, None, None, None, share=0.7, share_interval=(0.6, 0.8))
        for one in layers
        for op in ("read", "write")
    ]
    return Side(label, "t", "u", kind, layer, "good", 10**10, {}, 0, 1.0, 0, {}, None, steps)


def test_what_is_held_against_what():
    found = {}
    for a_layer in ("sql", "filesystem", "block", "device"):
        for b_layer in ("block", "device"):
            for kind in ("captured", "replayed", "simulated"):
                one, other = (
                    side(a_layer, "captured", "A", ("block", "device")),
                    side(b_layer, kind, "B", ("block",)),
                )
                found[f"{a_layer} {b_layer} {kind}"] = [
                    words.basis(one, other, Replay(scale=2.0, mode="think"), is_watched=True),
                    words.basis(other, one, Replay()) if b_layer == "block" else [],
                    words.basis(one, other, None),
                ]
    kept_answers.hold_each("compare/pieces-basis", found)


def test_layers_over_one_another():
    def make(random, number):
        slots = int(random.choice([15, 30]))
        rows = []
        for layer in ("sql", "filesystem", "block", "device"):
            if random.uniform() < 0.25:
                continue
            for op in ("read", "write"):
                lost = float(random.choice([0, 0, 0.03, 0.06, 0.2]))
                for slot in range(slots):
                    count = 100 if number % 2 else int(random.poisson(100 * (1 - lost)))
                    mean = {"sql": 4e6, "filesystem": 3e6, "block": 2e6, "device": 1.9e6}[
                        layer
                    ] * random.uniform(0.8, 1.2)
                    rows.append((layer, op, slot, count, int(count * mean)))
        names = ("layer", "op", "slot", "io_count", "latency_sum_ns")
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)}) if rows else None
        if table is None:
            return None
        return waterfall.waterfall_with_intervals(table, slots, np.random.default_rng(8))

    hold("pieces-layers", make, 30)
    assert waterfall._problem("read", "sql", 100, "block", 95, -1.0) == (
        "sql saw 100 reads, block 95: requests were split or merged, or the clocks disagree"
    )
    assert (
        waterfall._problem("read", "sql", 100, "block", 94, 1.0)
        == "sql saw 100 reads, block 94: not the same I/Os"
    )
    assert waterfall._problem("read", "sql", 100, "block", 100, 0.0) is None
    assert waterfall._problem("read", "sql", 100, "block", 100, -0.1).startswith("clock error")
