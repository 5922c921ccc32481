"""What the parts of the search for a knee make of figures drawn by chance, as it is kept (`kept_answers`).

Whole answers hide much of what they are made of; the parts are quick, so that they are asked far more often here.
"""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from iotrace.analyze import slo
from iotrace.analyze.knee import (
    agreement,
    closed_loop,
    curve,
    estimators,
    judged_steps,
    results,
    saturation,
    sweep,
    words,
)
from iotrace.analyze.knee import step as stepping
from iotrace.analyze.knee.answer import Vote
from iotrace.analyze.knee.need import need
from iotrace.analyze.knee.objective import slo_knee
from iotrace.analyze.knee.saturation import Units
from iotrace.analyze.knee.step import LatencyBreak, Samples, Selection, Step
from iotrace.analyze.stats.estimate import Estimate

from .. import kept_answers


def hold(name, make, count):
    found = {str(number): make(np.random.default_rng([59, number]), number) for number in range(count)}
    kept_answers.hold_each(f"knee/{name}", found)


def chance(random, share):
    return bool(random.uniform() < share)


def drawn_step(random, number, scale, offered, capacity_iops):
    """A step of some load on storage that carries so much, now and then spoiled, disturbed, or on saved credits."""
    rare = 1.0 if number % 3 == 0 else 0.15
    over = offered > capacity_iops * (1.2 if chance(random, 0.2) else 1)
    carried = min(offered, capacity_iops) * float(random.uniform(0.99, 1.0))
    median = (
        3e5
        * (1 + 4 * (offered / capacity_iops) ** 4)
        * (40 if over else 1)
        * float(random.uniform(0.95, 1.05))
    )
    median *= 5 if chance(random, 0.1 * rare) else 1
    quantiles = {"p50": int(median), "p95": int(3 * median), "p99": int(7 * median), "p99_9": None}
    if chance(random, 0.1):
        quantiles["p99"] = None
    credit = over and chance(random, 0.4)
    law = float(random.choice([1.09, 1.11, 0.91, 0.89])) if chance(random, 0.4 * rare) else 1.0
    few, failed = chance(random, 0.3 * rare), chance(random, 0.3 * rare)
    return Step(
        f"step {scale:g}", str(number), scale, "block", int(random.choice([99, 100])) if few else 5000,
        int(random.choice([1, 50, 60])) if failed else 0, 0, 10.0, offered, carried, offered * 8192 / 1e6,
        carried * 8192 / 1e6, carried * median / 1e9, law, 1.3 * median, quantiles, dict(quantiles), 5000,
        chance(random, 0.12 * rare), not over, over, service_ns_mean=median,
        is_warming=not over and chance(random, 0.06 * rare),
        started_utc_ns=int(random.integers(0, 9)) * 10**10,
        sustained_iops=carried if over or chance(random, 0.1) else None,
        busy_s=float(random.uniform(1, 10)) if over else 0.0, break_s=3.0 if credit else None,
        burst_iops=carried * 1.4 if credit else None, credits_ios=carried * 1.2 if credit else None,
        limited_op="write" if credit and chance(random, 0.5) else None,
        latency_break=LatencyBreak(0.4, 3e5, 9e5) if not over and chance(random, 0.08 * rare) else None,
        others_bytes=int(random.choice([0, 1, 20, 40, 100, 400])) << 20 if chance(random, 0.5 * rare) else None,
    )  # fmt: skip


def samples_of(random, step):
    """Of 24 stretches: latencies of reads and writes around the step's median, in buckets, and rates."""
    blocks, rows = 24, []
    median = step.response_ns["p50"]
    for block in range(blocks):
        for op, role in (("read", "data"), ("write", "log"), ("flush", "log")):
            for factor, ios in ((0.7, 30), (1.0, 40), (2.0, 20), (6.0, 5)):
                count = int(random.poisson(ios * (1 if op == "read" else 0.4)))
                rows.append((block, role, op, int(median * factor), count))
    block, role, op, bucket, count = (list(one) for one in zip(*rows, strict=True))
    table = pa.table({"block": block, "role": role, "op": op, "bucket_ns": bucket, "io_count": count})
    rate = step.achieved_iops * random.normal(1, 0.02, blocks)
    return Samples(table, blocks, rate, rate * 8192)


def drawn_sweep(random, number):
    capacity_iops = float(random.uniform(900, 6000))
    scales = sorted({float(one) for one in random.choice([1, 1.5, 2, 3, 4, 5, 6, 8, 10], 2 + number % 6)})
    steps = [drawn_step(random, number, scale, 500 * scale, capacity_iops) for scale in scales]
    if number % 4 == 1:
        steps.insert(1, drawn_step(random, number, scales[0], 500.2 * scales[0], capacity_iops))
    return steps


OBJECTIVES = slo.parse("p95<2ms,p50<1ms,log write p99<9ms,flush p50<4ms")


def test_which_steps_tell():
    def make(random, number):
        steps = drawn_sweep(random, number)
        found = judged_steps.sort_out(steps)
        return {
            "sorted": found, "enough": judged_steps.has_enough(steps, found),
            "out": judged_steps.left_out_words(steps), "reasons": [one.left_out_because for one in steps],
            "late": [judged_steps.is_carried_late(one) for one in steps],
            "short": [[one.is_too_short, one.has_few_ios, one.littles_law_holds] for one in steps],
            "disturbed": [judged_steps.is_disturbed(one, usual) for one in steps for usual in (None, 1e6, 3e6)],
            "credits": [one.is_on_credits for one in steps],
            "1x": stepping.scales_relative(steps),
        }  # fmt: skip

    hold("pieces-judged", make, 400)


def test_answers_to_figures():
    def make(random, number):
        steps = drawn_sweep(random, number)
        measured = [(one, samples_of(random, one)) for one in steps]
        answer = sweep.knee_of(copy.deepcopy(measured), objectives=OBJECTIVES[: number % 5], seed=1)
        breaks = ["", "the clock was set"][: 1 + (number % 9 == 0)]
        return {
            "knee": answer,
            "carries": [need(answer, scale, spoiled=breaks[1:]) for scale in (0.5, 1, 2, 4)],
        }

    hold("pieces-sweeps", make, 120)


def test_no_answer_claims_more_than_was_measured():
    """By a reckoning of its own: half of the loads judged, nothing carried beyond what was run, no order upset."""
    states = set()
    for number in range(1, 150):
        random = np.random.default_rng([73, number])
        steps = drawn_sweep(random, number)
        measured = [(one, samples_of(random, one)) for one in steps]
        answer = sweep.knee_of(measured, objectives=slo.parse("p50<1ms"), seed=1)
        (objective,) = answer.objectives
        states |= {answer.state, objective.state}
        judged = {one.load_text for one in steps if one.is_judged}
        late = any(one.generator_limited for one in steps)
        told = [need(answer, scale) for scale in (0.1, 1, 3, 30)]
        if not late and (len(judged) < 2 or 2 * len(judged) < len({one.load_text for one in steps})):
            assert answer.state == "not_judged"
        if answer.state == "not_judged":
            assert answer.headroom == ""
            assert {one.verdict for one in told} == {"cannot_tell"}
            assert objective.state in {"not_judged", "no_such_io"}
            continue
        assert len(judged) >= 2 or late
        carried = max(
            [one.offered_iops for one in steps if one.is_judged and not one.is_saturated], default=0
        )
        most = max(carried, answer.iops.low if answer.iops else 0)
        assert all(one.iops <= 1.01 * most for one in told if one.verdict == "yes")
        assert told[3].verdict != "yes"
        met = [
            value is not None and value <= 1_000_000
            for one, value in zip(steps, objective.quantile_ns, strict=True)
            if one.is_judged and not one.is_saturated and not one.is_on_credits
        ]
        if objective.state in {"crossed", "met_everywhere", "missed_at_lowest"}:
            assert met == sorted(met, reverse=True)
        if met != sorted(met, reverse=True):
            assert objective.state in {"contradicted", "too_few_ios"}
    assert {
        "not_judged",
        "reached",
        "not_reached",
        "before_range",
        "onset",
        "contradicted",
        "crossed",
    } <= states


def test_objectives():
    def make(random, number):
        steps = drawn_sweep(random, number)
        samples = [samples_of(random, one) for one in steps]
        limit = float(random.uniform(0.2, 6))
        objective = slo.parse(f"{('', 'log ', 'write ', 'data read ')[number % 4]}p50<{limit}ms")[0]
        known = float(random.choice([900, 2000, 4000])) if number % 2 else None
        return slo_knee(
            objective, steps, samples, sustained_iops=known, iops_at_1x=500.0 if number % 3 else None, seed=2
        )

    hold("pieces-objectives", make, 80)


def test_walls():
    def make(random, number):
        capacity_iops = float(random.uniform(900, 3000))
        steps = [drawn_step(random, number, scale, 500 * scale, capacity_iops) for scale in (2, 4, 6, 8)]
        samples = [samples_of(random, one) for one in steps]
        floor = capacity_iops * float(random.choice([0, 0.9, 1.03, 1.2]))
        some = [index for index in range(4) if random.uniform() < 0.7] or [3]
        wall = sweep.wall_of(steps, samples, some, floor, np.random.default_rng(5))
        per_block = samples[0].completed_iops.copy()
        per_block[: number % 9] *= random.uniform(0.3, 1.5)
        return {
            "none": sweep.wall_of(steps, samples, [], floor, random),
            "wall": wall.tolist(), "collapse": sweep.is_collapse(wall, floor),
            "over": sweep.overloaded(steps, samples, some, np.random.default_rng(6)),
            "top": [sweep.sustained(np.maximum(wall, floor), floor, much) for much in (floor * 1.1, floor / 2)],
            "steady": [curve.steady_part(per_block[:count]).tolist() for count in (7, 8, 15, 24)],
            "rates": curve.rates(per_block, np.random.default_rng(7)).tolist(),
            "still": curve.rates(per_block * 0, random).tolist(),
        }  # fmt: skip

    hold("pieces-walls", make, 60)


def test_curves():
    def make(random, number):
        steps = [drawn_step(random, number, scale, 500 * scale, 9000.0) for scale in range(1, 4 + number % 5)]
        if number % 3 == 0:
            steps[1].achieved_iops = steps[0].achieved_iops * float(random.choice([1.004, 1.006]))
        samples = [samples_of(random, one) for one in steps]
        kept, over = list(range(len(steps) - 1)), [len(steps) - 1]
        wall = np.full(curve.REPLICATES + 1, 700.0 * len(steps)) if number % 2 else None
        found = curve.Curve(steps, samples, kept, over, wall, np.random.default_rng(3), 0.5)
        logs = curve.log_quantiles(samples[0], Selection(op="write"), 0.95, np.random.default_rng(4))
        return {
            "load": found.load.tolist(), "logs": found.logs[:, :40].tolist(), "knees": found.knees()[:40].tolist(),
            "left": found.without_one().tolist(), "tail": logs.tolist(), "all": curve.interval(logs),
            "value": curve.interval(logs, float(logs.max()) + 1), "wide": curve.widened(Estimate(3.0, 2.9, 3.05), 0.03),
        }  # fmt: skip

    hold("pieces-curves", make, 24)


def test_trends_of_steps():
    def make(random, number):
        blocks = int(random.choice([8, 9, 12, 30]))
        shape = np.linspace(0, 1, blocks) ** random.choice([0.5, 1, 2])
        medians = 1e6 * float(random.choice([1, 3, 10])) ** (shape if number % 2 else -shape)
        medians *= np.exp(random.normal(0, 0.05 * (number % 4), blocks))
        buckets = np.unique(np.round(medians, -4).astype(np.int64))
        counts = np.zeros((blocks, len(buckets)), dtype=np.int64)
        counts[np.arange(blocks), np.searchsorted(buckets, np.round(medians, -4).astype(np.int64))] = 9
        counts[:: 5 + number % 7] *= number % 3
        wanted = np.linspace(1, float(random.choice([1, 1.15, 1.4])), blocks) * 100
        found = None
        if number % 4:
            rates = random.normal(1000, 20, int(random.choice([7, 8, 20])))
            found = SimpleNamespace(
                iops=float(rates.mean()), rates=rates, busy_s=float(random.uniform(0, 10))
            )
        offered = [960.0, 979.0, 982.0, 1000.0, 1018.0, 1022.0]
        values = np.sort(random.integers(1, 99, 6))
        return {
            "trend": stepping._trend(buckets, counts, wanted, int(random.choice([1e8, 1e9, 1e10]))),
            "grew": [
                stepping._grew([one, two, three], [1.0, 1.0, load], 1000)
                for one, two, three in (
                    (10, 10, 20),
                    (10, 10, 21),
                    (10, 17, 21),
                    (10, 18, 21),
                    (100, 100, 205),
                )
                for load in (1.2, 1.21)
            ],
            "full": [stepping._is_full(found, one, span) for one in offered for span in (5.0, 12.0)],
            "more": [stepping.carries_more_than(one, found) for one in offered],
            "queueing": [stepping._was_queueing(found, span) for span in (1.0, 50.0, 150.0)],
            "quantiles": [
                stepping._any_quantile(values, np.arange(6), share) for share in (0.0, 0.2, 0.5, 1.0)
            ],
            "nothing": stepping._any_quantile(values, np.zeros(6, dtype=np.int64), 0.5),
        }

    hold("pieces-trends", make, 80)


def test_plateaus():
    def make(random, number):
        count = 2 + number % 9
        load = (
            2.0 ** np.arange(count)
            if number % 2
            else np.sort(random.choice(np.arange(1, 70), count, replace=False))
        )
        load = load.astype(float)
        carried = (
            500
            * np.minimum(load, random.uniform(1, 70))
            * np.exp(random.normal(0, 0.01 * (number % 4), count))
        )
        if number % 5 == 0:
            carried[-1] *= random.uniform(0.9, 0.99)
        if number % 7 == 0:
            carried = 9000 * load / (load + random.uniform(1, 20))
        many = carried[:, None] * np.exp(random.normal(0, 0.01, (count, 30)))
        sizes = [
            (4096 << at, drawn_step(random, number, 1.0, float(one), 1e9), None)
            for at, one in enumerate(carried)
        ]
        return {
            "one": saturation.saturation_of(load, carried),
            "many": saturation.saturation_of(load, many, units=Units("threads", "MB/s")),
            "fit": saturation.fit_plateau(load, carried, noise=0.03),
            "size": saturation.best_size(sizes),
            "exact": estimators.kneedle_concave(load, carried),
        }  # fmt: skip

    hold("pieces-plateaus", make, 120)


def test_batches():
    def make(random, number):
        step = drawn_step(random, number, 1.0, 500.0, 900.0)
        samples = samples_of(random, step)
        samples.completed_iops = samples.completed_iops[: 4 + number]
        return saturation.batch_means(samples)

    hold("pieces-batches", make, 4)


def drawn_run(random, number, users, capacity_iops):
    """A row of results as another tool prints them, with what it leaves out left out."""
    iops = 400.0 * min(users, capacity_iops / 400) * float(random.uniform(0.98, 1.02))
    mean = users / iops * 1e9 * float(random.choice([1, 1, 1, 1.15, 1.25, 1.6, 0.5]))
    quantiles = [
        {"quantile": one, "latency_ns": int(mean * factor)}
        for one, factor in ((0.5, 0.8), (0.95, 2), (0.99, 4))
    ]
    bins = [
        {"latency_ns": int(mean * at), "ios": ios} for at, ios in ((0.5, 4000), (1, 3000), (3, 900), (8, 100))
    ]
    row = {
        "run": 1, "op": "total", "test": f"t{users}", "tool": "diskspd", "ios": int(iops * 10), "errors": None,
        "duration_ns": 10**10, "iops": iops, "bytes_per_second": iops * 8192, "latency_ns_mean": round(mean, -3),
        "quantiles": quantiles if number % 3 else [], "histogram": bins if number % 2 else [],
        "size_bytes": 8192, "access": "random", "outstanding": users, "threads": None, "virtual_users": None,
        "offered_iops": iops * float(random.choice([1, 1.02, 1.04])), "new_orders_per_minute": None,
        "transactions_per_minute": None,
    }  # fmt: skip
    read = row | {"op": "read", "iops": iops * 0.7, "quantiles": quantiles, "histogram": bins}
    rows = [row, read] if number % 4 else [row, read, read | {"op": "write", "iops": iops * 0.3}]
    place = SimpleNamespace(path="r.iotrace", manifest=SimpleNamespace(uuid=str(users)))
    return results.Run(place, row, rows)


def drawn_runs(random, number):
    loads = [2**power for power in range(2 + number % 6)]
    return [drawn_run(random, number, users, float(random.uniform(1000, 9000))) for users in loads]


def test_results_of_other_tools():
    def make(random, number):
        runs = drawn_runs(random, number)
        closed = results._closed(runs, "outstanding")
        opened = results._open(runs, 3) if number % 4 == 0 else None
        limit = float(random.uniform(0.3, 30))
        told = {}
        for text in ("p95", "read p50", "p99.9", "log p50", "flush p50"):
            objective = slo.parse(f"{text}<{limit}ms")[0]
            told[text] = results.result_slo(objective, closed.steps, [run.rows for run in runs])
        return {
            "closed": closed, "open": opened, "told": told, "axis": results._axis(runs) if len(runs) > 1 else "",
            "unit": results._resolution_ns(runs), "mix": [results._mix(run) for run in runs],
        }  # fmt: skip

    hold("pieces-results", make, 48)


def test_transactions():
    def make(random, number):
        runs = drawn_runs(random, number)
        for place, run in enumerate(runs):
            orders = 9000.0 * min(place + 1, random.uniform(1, 6))
            run.total |= {
                "virtual_users": run.total["outstanding"], "iops": None,
                "new_orders_per_minute": orders if number % 3 or place else None,
                "transactions_per_minute": 2.2 * orders,
            }  # fmt: skip
            if number % 4:
                order = run.total | {"op": "NEWORD", "latency_ns_mean": 5e6}
                tail = int(4e6 * float(random.choice([1, 1.9, 2.1])))
                run.rows.append(order | {"quantiles": [{"quantile": 0.99, "latency_ns": tail}]})
        return results._transactions(runs)

    hold("pieces-transactions", make, 40)


def test_votes():
    def make(random, number):
        count = 3 + number % 6
        load = np.sort(random.uniform(100, 5000, count))
        latency = 1e6 * (1 + (load / load[-1]) ** random.choice([1, 4, 12]) * random.uniform(1, 9))
        middle = float(random.choice([*load, load.mean()]))
        marks = [Estimate(middle, middle * 0.97, middle * 1.03)][: number % 5]
        flight = load * latency / 1e9
        votes, law = agreement.open_votes(
            marks, load, latency, (flight, load, latency), has_wall=number % 2 > 0,
            tail=("p99", float(random.uniform(100, 5000)) if number % 3 else None) if number % 4 else None,
        )  # fmt: skip
        outstanding = 2.0 ** np.arange(count)
        carried = 900 * outstanding / (1 + random.uniform(0, 0.3) * (outstanding - 1))
        knee = Estimate(float(random.choice(outstanding)), 1.0, 4.0) if number % 3 else None
        rate = (
            Estimate(float(random.choice(carried)), float(carried[0]), float(carried[-1]))
            if number % 3
            else None
        )
        closed, closed_law = agreement.closed_votes(knee, rate, outstanding, carried)
        return {
            "open": votes, "law": None if law is None else agreement.usl_text(law),
            "closed": closed, "closed law": None if closed_law is None else agreement.usl_text(closed_law),
            "words": [agreement.agreement(votes, "9 IOPS"), agreement.agreement(closed, "4", "threads", "MB/s")],
            "places": [agreement.place(one) for one in [*votes, *closed]],
        }  # fmt: skip

    hold("pieces-votes", make, 80)


def test_closed_loops():
    def make(random, number):
        measured = []
        capacity_iops = float(random.uniform(1500, 9000))
        for power in range(2 + number % 6):
            step = drawn_step(random, number, 1.0, min(400.0 * 2**power, capacity_iops), 1e9)
            step.scale = None
            measured.append((2**power, step, samples_of(random, step)))
        return closed_loop.knee_of_closed(measured)

    hold("pieces-closed", make, 40)


def test_words_of_loads():
    texts = {}
    for value in (0.94, 9.96, 99.94, 100.0, 1234.5):
        one = Estimate(value, value * 0.96, value * 1.02)
        near, far = Estimate(value / 100, value / 101, value / 99), Estimate(value, value / 2, value * 2)
        texts[str(value)] = [
            words.load_text(one, None), words.load_text(one, near), words.scale_text(near), words.scale_text(far),
            words.rate_text(value, None), words.rate_text(value, value / 7),
            *(words.percent_text(value / 10**power) for power in range(1, 5)),
            *(words.seconds_text(value * factor) for factor in (0.1, 1, 6, 60)),
        ]  # fmt: skip
    kept_answers.hold_each("knee/pieces-words", texts)


def test_no_vote_says_nothing():
    assert agreement.agreement([], "9 IOPS") == ""
    assert agreement.agreement([Vote("peak power", 9.0, False)], "9 IOPS") == ""
    assert agreement.agreement([Vote("Kneedle", None, None)], "9 IOPS") == ""
    assert (
        agreement.agreement([Vote("Kneedle", 9.0, True)], "9 IOPS")
        == "Kneedle agrees, within a step or 25 %."
    )
    both = [Vote("Kneedle", 9.0, True), Vote("USL", 9.0, True), Vote("two", 9.0, True)]
    assert agreement.agreement(both, "9 IOPS") == "Kneedle, USL and two agree, within a step or 25 %."
    assert agreement.agreement([replace(both[0], agrees=False), both[1]], "8 IOPS") == (
        "The estimators disagree: the knee is put at 8 IOPS, but Kneedle sees it at 9 IOPS."
    )
