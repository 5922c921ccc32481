"""Answers to planted sweeps as they are kept (`kept_answers`)."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from iotrace.analyze import slo
from iotrace.analyze.knee import causes, estimators, knee, saturation
from iotrace.analyze.knee.flow import Flow, carried
from iotrace.analyze.knee.layers import Layers
from iotrace.analyze.knee.need import need
from iotrace.analyze.knee.next_load import StepSummary, next_step, summary_of, why_ended
from iotrace.analyze.knee.step import LatencyBreak, Selection, latency_break, measure
from iotrace.analyze.knee.sweep import knee_of
from iotrace.analyze.stats.estimate import Estimate

from .. import kept_answers
from ..planted_truth import sweeps
from . import knee_simulator as simulator
from .test_saturation import closed_loop

FAMILIES = (
    sweeps.token_bucket, sweeps.write_cache, sweeps.slc_cache, sweeps.throttle, sweeps.one_server, sweeps.many_servers,
    sweeps.flat, sweeps.short, sweeps.disturbed, sweeps.generator_limited,
)  # fmt: skip


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_is_what_is_kept(family, seed, tmp_path):
    sweep, _ = family(tmp_path / "s.iotrace", seed)
    answer = knee(sweep.recordings(), scales=[step.scale for step in sweep.steps], slo="p99<5ms,p50<2ms")
    carries = {f"{scale}x": need(answer, scale) for scale in (1, 2, 5)}
    kept_answers.hold(f"knee/{family.__name__}-{seed}", {"knee": answer, "carries": carries})


@pytest.mark.parametrize("exponential", [False, True])
@pytest.mark.parametrize("servers", [1, 4, 6, 40])
def test_the_answer_to_closed_loops_is_what_is_kept(servers, exponential, tmp_path):
    steps = []
    for outstanding in (1, 2, 3, 4, 8, 16, 32):
        random = np.random.default_rng([servers, outstanding])
        issued, completed = closed_loop(random, outstanding, servers, 1500, exponential=exponential)
        cell = {"pattern": "random", "read_share": 0.7, "size_bytes": 8192, "outstanding": outstanding}
        replay = {"loop": "closed", "cell": cell}
        steps.append(simulator.write_step(tmp_path, issued, completed, name=f"o{outstanding}", replay=replay))
    law = "exponential" if exponential else "constant"
    kept_answers.hold(f"knee/closed-{servers}-{law}", knee(steps, slo="p95<0.5ms,p50<0.3ms"))


def test_the_loads_of_walks_are_what_is_kept():
    """Devices drawn by chance: of some capacity, late, disturbed, with credits, predicted; asked in some ways."""
    walks = {}
    for number in range(200):
        random = np.random.default_rng([17, number])
        options = {"steps_max": int(random.integers(4, 14))}
        if number % 3 == 1:
            options["scale_max"] = float(random.uniform(0.7, 20))
        if number % 5 == 2:
            options["scales"] = sorted(random.uniform(0.5, 12, 4).round(2).tolist())
        capacity, done = 500 * float(random.uniform(0.1, 12)), []
        walls = {"wall": lambda _low, _high, at=capacity / 480: at} if number % 4 == 3 else {}
        while (following := next_step(done, **options, **walls)) is not None:
            done.append(drawn_step(random, following, capacity, number))
        walks[str(number)] = {
            "loads": [[one.scale, one.times] for one in done],
            "why": why_ended(done, **options),
        }
    kept_answers.hold_each("knee/walks", walks)


def drawn_step(random, asked, capacity, number):
    """What one step comes to on a device of ``capacity`` IOPS; every fifth saves credits, every seventh bends early."""
    offered = 500 * asked.scale
    limit = capacity * (1.4 if number % 5 == 0 and asked.times < 2 else 1)
    late = number % 6 == 0 and offered > 0.8 * capacity
    climbs = offered / capacity if number % 7 == 0 else 0
    over = offered > limit
    latency_ns = 2e5 * (1 + 9 * climbs**3) * (50 if over else 1)
    return StepSummary(
        asked.scale, offered, min(offered * (0.9 if late else 1), limit), latency_ns,
        is_saturated=offered > 1.03 * limit, is_steady=not over, generator_limited=late,
        is_disturbed=random.uniform() < 0.15, is_too_short=over and asked.times < 2 and random.uniform() < 0.2,
        broke=over and number % 5 == 0, sustained_iops=capacity if over else None, times=asked.times,
    )  # fmt: skip


def test_what_estimators_make_of_curves_is_what_is_kept():
    """Curves drawn by chance: throughput that saturates, latency that climbs, both with noise; short ones, too."""
    found = {}
    for number in range(72):
        random = np.random.default_rng([23, number])
        count = 2 + number % 9
        load = np.sort(random.uniform(1, 64, count)) if number % 2 else 2.0 ** np.arange(count)
        noise = np.exp(random.normal(0, 0.02 * (number % 4), count))
        sigma, kappa = random.uniform(0, 0.2), random.uniform(0, 0.002) * (number % 3)
        carried = 900 * load / (1 + sigma * (load - 1) + kappa * load * (load - 1)) * noise
        carried = np.minimum(carried, 900 * random.uniform(3, 30)) if number % 5 == 0 else carried
        latency = 1e6 * load / carried * (1 + (load / load[-1] > 0.7) * random.uniform(0, 5))
        rows = np.log(np.vstack([latency, latency[::-1], latency * noise]))
        law = estimators.fit_usl(load, carried) if number % 6 == 0 else None
        plateau = saturation.fit_plateau(load, carried)
        found[str(number)] = {
            "on_grid": estimators.knees_on_grid(load, rows).tolist(),
            "kneedle": [estimators.kneedle(load, latency), estimators.kneedle_concave(load, carried)],
            "peak_power": estimators.peak_power(load, carried, latency),
            "usl": law, "curve": None if law is None else law.throughput(load).tolist(), "plateau": plateau,
            "knees": saturation.plateau_knees(load, np.vstack([carried, carried * noise])).tolist(),
            "break": latency_break(*stretches(random, number)),
        }  # fmt: skip
    kept_answers.hold_each("knee/estimators", found)


def stretches(random, number):
    """Median response and load of the stretches of a step: some level off late, early, twice, or under more load."""
    count = 8 + number
    medians = 1e6 * np.exp(random.normal(0, 0.1, count))
    at = int(random.uniform(0, 1) * count)
    medians[at:] *= random.uniform(1, 5)
    if number % 4 == 0:
        medians[random.integers(0, count)] = 0
    if number % 6 == 0:
        medians[at // 2 :] *= 3
    load = np.full(count, 1000.0)
    if number % 5 == 0:
        load[at:] *= random.uniform(1, 1.5)
    return medians, load


def drawn_flow(random, number):
    """What was wanted and completed in slots of 0.1 s: some has more at first, rests, wobbles, breaks twice."""
    count = int(random.integers(20, 400))
    wanted = random.poisson(random.uniform(20, 300), count).astype(float)
    rate = np.full(count, wanted.mean() * random.uniform(0.5, 1.1))
    at = int(random.uniform(0.05, 0.9) * count)
    rate[:at] *= random.choice([1.0, 1.03, 1.1, 1.5, 3.0])
    if number % 4 == 3:
        rate[at // 2 :] *= random.uniform(0.7, 1.1)
    if number % 5 == 4:
        wanted[at : at + 20] = 0
    rate *= np.exp(random.normal(0, 0.05 * (number % 3), count))
    completed, waiting = np.zeros(count), 0.0
    for slot in range(count):
        waiting += wanted[slot]
        completed[slot] = np.floor(min(waiting, rate[slot]))
        waiting -= completed[slot]
    return Flow(0.1, wanted, completed, completed * 8192.0)


def test_what_steps_carried_is_what_is_kept():
    found = {}
    for number in range(150):
        random = np.random.default_rng([29, number])
        flows = {"read": drawn_flow(random, number)}
        if number % 3 == 0:
            part = flows["read"]
            share = random.uniform(0.01, 0.5)
            flows["write"] = Flow(0.1, part.wanted * share, part.wanted * share, part.wanted * share * 4096)
        answer = carried(flows, Flow.sum(flows.values()), 0.001 * (1 + number % 50))
        found[str(number)] = answer and {
            name: getattr(answer, name)
            for name in ("busy_s", "from_s", "burst_iops", "credits_ios", "limited_op")
        } | {"rates": answer.rates.tolist(), "bytes": answer.bytes_per_s.tolist()}
    kept_answers.hold_each("knee/flows", found)


@pytest.fixture(scope="module")
def measured_sweeps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    families = (sweeps.token_bucket, sweeps.throttle, sweeps.many_servers)
    made = [family(folder / f"{family.__name__}.iotrace", 8, step_seconds=2.0)[0] for family in families]
    return [
        [measure(step, told.scale) for step, told in zip(sweep.recordings(), sweep.steps, strict=True)]
        for sweep in made
    ]


def spoiled(random, step):
    """The step with something that spoils, saves or contradicts it."""
    draw, carried_iops = random.uniform, step.achieved_iops
    slower = {name: int((ns or 1) * draw(1, 6)) for name, ns in step.response_ns.items()}
    credit = {
        "burst_iops": 1.5 * carried_iops,
        "sustained_iops": 0.7 * carried_iops,
        "credits_ios": 1000.0,
        "break_s": 2.0,
    }
    kinds = [
        {"generator_limited": True, "achieved_iops": carried_iops * random.choice([1.0, 0.96, 0.94])},
        {"others_bytes": int(draw(0, 3) * 1e6 * step.achieved_mb_per_s * step.duration_s)},
        {"error_count": int(step.io_count * random.choice([0.005, 0.02]))},
        {"littles_law_ratio": float(draw(0.8, 1.2))},
        {"response_ns": slower},
        {"is_saturated": not step.is_saturated},
        {"sustained_iops": carried_iops * float(draw(0.6, 1.1))},
        credit,
        {"latency_break": LatencyBreak(0.5, 2e5, 9e5)},
        {"is_warming": True, "is_steady": False},
        {"io_count": int(random.choice([50, 150, 250]))},
        {"layers": replace(drawn_layers(random, draw(1, 9) * 1e5), name=step.load_text)},
    ]
    return replace(step, **kinds[int(random.integers(len(kinds)))])


def test_what_is_made_of_spoiled_steps_is_what_is_kept(measured_sweeps):
    found = {}
    objectives = slo.parse("p95<2ms,p99<20ms")
    for number in range(40):
        random = np.random.default_rng([37, number])
        measured = copy.deepcopy(measured_sweeps[number % len(measured_sweeps)])
        if number % 3 == 0:
            measured.insert(0, copy.deepcopy(measured[0]))
        for _ in range(1 + number % 5):
            place = int(random.integers(len(measured)))
            measured[place] = (spoiled(random, measured[place][0]), measured[place][1])
        answer = knee_of(measured, objectives=objectives, seed=0)
        found[str(number)] = {"knee": answer, "carries": [need(answer, scale) for scale in (1, 3)]}
        walk = [summary_of(step, times=1.0 + number % 2) for step, _ in measured]
        found[str(number)] |= {"next": next_step(walk), "why": why_ended(walk)}
    kept_answers.hold_each("knee/spoiled", found)


def drawn_layers(random, total_ns):
    block, device = total_ns * random.uniform(0.2, 1), total_ns * random.uniform(0, 0.9)
    most = int(random.integers(1, 64))
    return Layers("1x", total_ns, block, min(device, block), most * random.uniform(0.5, 1), most)


def test_causes_are_what_is_kept():
    found = {}
    for number in range(300):
        random = np.random.default_rng([41, number])
        low, high = drawn_layers(random, 1e6), drawn_layers(random, 1e6 * random.uniform(1, 8))
        if number % 3 == 0:
            high = replace(high, device_ns=low.device_ns * random.uniform(0.9, 2.2))
        sizes = 2 ** random.integers(12, 17, 3)
        same = random.uniform(1, 1.12, 3)
        rates = 2000 * same if number % 2 else 5e7 / sizes * same
        ios, moved = (np.exp(random.normal(8, random.choice([0.005, 0.01, 0.02, 0.05]), 12)) for _ in "ab")
        depth = Estimate(float(random.choice([1, 2, 4, 5, 8])), 3.0, float(random.choice([5, 6, 7])))
        found[str(number)] = {
            "layer": causes.layer(low, high),
            "size": causes.ceiling_by_size(list(zip(sizes.tolist(), rates.tolist(), strict=True))),
            "time": causes.ceiling_in_time([(ios[: 8 + number % 5], moved[: 8 + number % 5] * 8192)]),
            "depth": causes.queue_depth(depth, [1, 2, 4, 8, 16][: 3 + number % 3], is_corner=number % 7 > 0),
        }
    kept_answers.hold_each("knee/causes", found)


def test_what_a_step_is_measured_as_is_what_is_kept(tmp_path):
    """Latency that rises or falls during a step, with its load or without, late I/Os, failures, and too few of all."""
    found = {}
    for number in range(36):
        random = np.random.default_rng([43, number])
        count = int(random.choice([20, 90, 150, 250, 600, 1500]))
        arrival = np.sort(random.uniform(0, 5, count)) ** random.choice([1.0, 0.8])
        slope = random.uniform(0.3, 3) ** (arrival / arrival[-1] * random.choice([0, 1, 2]))
        median_s = float(random.choice([0.003, 0.01]))
        completed = arrival + simulator.device_latency_s(random, count, median_s=median_s) * slope
        if number % 4 == 1:
            completed = np.maximum.accumulate(completed) * (1 + 0.05 * (number % 3))
        late = arrival + random.exponential(random.choice([1e-6, 1e-4, 1e-3]), count)
        step = simulator.write_step(
            tmp_path, arrival, np.maximum(completed, late + 1e-6), scale=1 + number % 3, issued_s=late,
            flags=np.where(random.uniform(size=count) < 0.02 * (number % 3), 1, 0),
            roles=(random.uniform(size=count) < 0.3).astype(int),
        )  # fmt: skip
        measured, samples = measure(step)
        found[str(number)] = {
            "step": measured,
            "summary": summary_of(measured),
            "blocks": [samples.block_count, samples.completed_iops.tolist()],
            "counts": [one.tolist() for one in samples.by_block(Selection(role="data", op="read"))],
        }
    kept_answers.hold_each("knee/steps", found)
