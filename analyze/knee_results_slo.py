"""An objective judged on quantiles that another tool printed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import histogram
from .estimate import Estimate
from .knee_answer import SloKnee
from .knee_step import Step
from .slo import Objective


def result_slo(objective: Objective, steps: Sequence[Step], rows: Sequence[list[dict[str, Any]]]) -> SloKnee:
    """Where the objective's quantile crosses its limit; ``rows`` are the results of each of ``steps``.

    The quantile is the tool's own for that share, or that of its histogram if 100 I/Os lie beyond it. Log latency is
    interpolated between the last load that meets the limit and the first that does not; the interval is all between.
    """
    quantiles = [_quantile_ns(objective, one) for one in rows]
    answer = SloKnee(objective, "no_such_io", None, None, None, None, quantiles)
    if objective.role is not None or not any(_row(objective, one) for one in rows):
        return answer
    met: int | None = None
    for index, value in enumerate(quantiles):
        if not steps[index].is_judged:
            continue
        if value is None and not steps[index].is_saturated:
            answer.state = "too_few_ios"
            return answer
        if value is None or value > objective.limit_ns or steps[index].is_saturated:
            answer.state = "crossed" if met is not None else "missed_at_lowest"
            if met is not None:
                answer.iops = _between(steps[met], steps[index], quantiles[met], value, objective.limit_ns)
            return answer
        met = index
        answer.highest_met_iops = steps[index].achieved_iops
    answer.state = "met_everywhere" if met is not None else "not_judged"
    return answer


def _between(below: Step, above: Step, met: int | None, missed: int | None, limit_ns: int) -> Estimate:
    low, high = below.achieved_iops, max(below.achieved_iops, above.achieved_iops)
    share = 0.0
    if met and missed and missed > max(met, limit_ns):
        share = float(np.log(limit_ns / met) / np.log(missed / met))
    return Estimate(low + share * (high - low), low, high)


def _row(objective: Objective, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The row of the objective's op; for all ops the total, or the only one there is."""
    wanted = objective.op or "total"
    found = next((row for row in rows if row["op"] == wanted), None)
    if found is not None and objective.op is None and not (found["quantiles"] or found["histogram"]):
        ops = [row for row in rows if row["op"] in {"read", "write"}]
        return ops[0] if len(ops) == 1 else found
    return found


def _quantile_ns(objective: Objective, rows: list[dict[str, Any]]) -> int | None:
    row = _row(objective, rows)
    if row is None:
        return None
    for one in row["quantiles"] or ():
        if abs(one["quantile"] - objective.quantile) < 1e-9:
            return int(one["latency_ns"])
    bins = row["histogram"] or ()
    if not bins:
        return None
    return histogram.quantile_ns(
        [one["latency_ns"] for one in bins], [one["ios"] for one in bins], objective.quantile
    )
