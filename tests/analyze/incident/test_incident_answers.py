"""Answers to planted hosts as they are kept (`kept_answers`)."""

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.chance import Chance, without_chance
from iotrace.analyze.incident.drifts import drifting, least_mean_excess, left_by_load, told_apart
from iotrace.analyze.incident.factor import factor_of
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import judge, levelled

from .. import kept_answers
from ..planted_truth import incidents as planted

FAMILIES = planted.INCIDENTS | planted.CALM
# The I/Os of the others take seconds to look at.
IN_SECONDS = {"creep", "diurnal", "checkpoints", "bursty"}
CASES = [
    *((family, "ios", 3) for family in FAMILIES if family not in IN_SECONDS),
    *((family, "perfmon 15 s", 3) for family in FAMILIES),
    *((family, "perfmon 5 s", seed) for family in FAMILIES for seed in (3, 6)),
    *((family, "dmv 15 s", 5) for family in FAMILIES),
]


@pytest.mark.parametrize(("family", "form", "seed"), CASES)
def test_an_answer_is_what_is_kept(family, form, seed, tmp_path):
    host, _ = FAMILIES[family](seed)
    answer = incident(planted.write(tmp_path / "p.iotrace", host, form))
    kept_answers.hold(f"incident/{family}, {form}, {seed}".replace(" ", "-").replace(",", ""), answer)


def drawn_series(number):
    """A level over time with some load: stretches, drifts, single slots and gaps of sizes near what is looked for."""
    random = np.random.default_rng([31, number])
    count = int(random.integers(8, 60)) if number % 5 == 0 else int(random.integers(60, 700))
    steps = random.normal(0, random.uniform(0.02, 0.2), count)
    values, memory = 14 + steps, random.uniform(0, 0.8) * (number % 2)
    for index in range(1, count):
        values[index] = 14 + memory * (values[index - 1] - 14) + steps[index]
    load = np.exp(random.normal(5, 0.1, count)) * (
        1 + (number % 3) * np.sin(np.arange(count) / count * 6) ** 2
    )
    values += 0.3 * (number % 3) * np.log(load / load.mean())
    for _ in range(number % 4):
        first = int(random.integers(0, count))
        values[first : first + int(random.choice([1, 2, 3, 8, 30, 200]))] += np.log(random.uniform(1.1, 2.6))
    if number % 7 == 1:
        values += np.log(random.uniform(1.1, 3)) * np.clip((np.arange(count) / count - 0.3) * 2, 0, 1)
    if number % 6 == 2:
        values[int(random.integers(0, count))] += random.uniform(0.5, 4)
    at = np.arange(count) if number % 4 else np.flatnonzero(random.uniform(size=count) < 0.8)
    ios = np.maximum(np.round(load[at]), 1)
    return Series("block", None, at, values[at], random.uniform(0, 0.3) / ios, ios), load


def test_what_is_made_of_series_is_what_is_kept():
    found = {}
    for number in range(90):
        series, load = drawn_series(number)
        judged = without_chance(
            judge(series, extra_penalty=float(number % 3), with_single=number % 4 > 0), load
        )
        slot_s = (1.0, 5.0, 0.1)[number % 3]
        drift = drifting(judged, [load] if number % 2 else [], slot_s)
        chance = Chance(judged, load[series.at], judged.slow)
        is_normal = np.isin(np.arange(len(load)), series.at[~judged.slow])
        found[str(number)] = {
            "stretches": judged.stretches,
            "normal": judged.normal.tolist(),
            "level": levelled(judged).normal.tolist(),
            "spread": judged.spread,
            "least": [[judged.least_excess(slots), chance.least_excess(slots)] for slots in (1, 5, 30)],
            "factors": [factor_of(judged, stretch) for stretch in judged.stretches]
            if number % 3 == 0
            else [],
            "left": [
                left_by_load(judged, [load], (one.first, one.end), is_normal) for one in judged.stretches
            ],
        }
        if drift is not None:
            sudden, gradual = told_apart(drift, slot_s)
            found[str(number)] |= {
                "drift": [drift.base, *drift.effect.tolist()],
                # Of an edge between two points the place is as good as any other there.
                "changes": [[one.base, one.height, one.error, one.by_load] for one in drift.changes],
                "sudden": sudden.stretches,
                "gradual": gradual.stretches,
                "least mean": [least_mean_excess(drift, slots) for slots in (10.0, 60.0, 400.0)],
            }
    kept_answers.hold_each("incident/series", found)
