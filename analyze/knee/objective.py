"""The business number beside the knee: the highest load at which an objective still holds."""

from collections.abc import Sequence

import numpy as np

from iotrace.analyze.slo import Objective
from iotrace.analyze.stats import histogram
from iotrace.analyze.stats.estimate import Estimate
from iotrace.schemas.arrays import Floats

from .answer import SloKnee
from .curve import interval, log_quantiles
from .step import Samples, Selection, Step


def slo_knee(  # noqa: C901, PLR0912 - one way out for each state
    objective: Objective,
    steps: Sequence[Step],
    samples: Sequence[Samples],
    *,
    sustained_iops: float | None,
    iops_at_1x: float | None,
    seed: int,
) -> SloKnee:
    """Find where the objective's quantile crosses its limit, going up from the lowest load.

    ``steps`` ascend by offered load; only judged ones count. A saturated step misses: in an unstable queue the wait
    grows for as long as the step lasts; so does one that lived on saved credits. An objective missed at a load that was
    carried and met at a higher one is no answer. Between the last load that meets it and the first that misses it, log
    latency is interpolated linearly over load, up to ``sustained_iops`` where the missing step was saturated; its
    latency being no property of the load, the interval then spans the whole gap between the two.
    """
    selection = Selection(objective.role, objective.op)
    quantiles = [_quantile_ns(one, selection, objective.quantile) for one in samples]
    judged = [index for index, step in enumerate(steps) if step.is_judged]
    answer = SloKnee(objective, "no_such_io", None, None, None, None, quantiles)
    if not judged:
        answer.state = "not_judged"
        return answer
    if not any(samples[index].by_block(selection)[1].sum() for index in judged):
        return answer
    met, missed = _last_met_first_missed(steps, judged, quantiles, objective.limit_ns)
    if missed is not None and not _is_too_much(steps[missed]):
        later = [index for index in judged if index > missed]
        if quantiles[missed] is None:
            answer.state = "too_few_ios"
            return answer
        if any(_meets(steps[index], quantiles[index], objective.limit_ns) for index in later):
            answer.state = "contradicted"
            return answer
    if met is not None:
        answer.highest_met_iops = steps[met].offered_iops
        answer.highest_met_scale = steps[met].scale
    if missed is None:
        answer.state = "met_everywhere"
    elif met is None:
        # Below it, a late generator may have hidden that the objective holds.
        answer.state = "missed_at_lowest" if missed == 0 else "not_judged"
    else:
        answer.state = "crossed"
        random = np.random.default_rng(seed)
        top = steps[missed].offered_iops
        if _is_too_much(steps[missed]):
            top = max(min(top, sustained_iops or top), steps[met].offered_iops)
        below, above = (
            log_quantiles(samples[index], selection, objective.quantile, random) for index in (met, missed)
        )
        limit = float(np.log(objective.limit_ns))
        answer.iops = _crossing(steps[met].offered_iops, top, below, above, limit)
        if _is_too_much(steps[missed]):
            answer.iops = Estimate(answer.iops.value, steps[met].offered_iops, top)
        if interval(above).low > limit:
            answer.surely_missed_iops = steps[missed].offered_iops
        if interval(below).high <= limit:
            answer.surely_met_iops = steps[met].offered_iops
        if iops_at_1x:
            answer.scale = answer.iops.scaled(1 / iops_at_1x)
    return answer


def _last_met_first_missed(
    steps: Sequence[Step], judged: list[int], quantiles: list[int | None], limit_ns: int
) -> tuple[int | None, int | None]:
    """Going up: the last step that meets the limit and the first that does not, or does not tell."""
    met: int | None = None
    for index in judged:
        if not _meets(steps[index], quantiles[index], limit_ns):
            return met, index
        met = index
    return met, None


def _meets(step: Step, quantile_ns: int | None, limit_ns: int) -> bool:
    return not _is_too_much(step) and quantile_ns is not None and quantile_ns <= limit_ns


def _is_too_much(step: Step) -> bool:
    """Whether the storage cannot go on like this."""
    return step.is_saturated or step.is_on_credits


def _crossing(low: float, high: float, below: Floats, above: Floats, limit: float) -> Estimate:
    """Load between ``low`` and ``high`` where the line between the two log latencies meets the limit, resampled."""
    span = above - below
    share = np.where(
        span > 0, (limit - below) / np.where(span > 0, span, 1.0), np.where(below <= limit, 1.0, 0.0)
    )
    return interval(low + np.clip(share, 0.0, 1.0) * (high - low))


def _quantile_ns(samples: Samples, selection: Selection, quantile: float) -> int | None:
    values, counts = samples.by_block(selection)
    return histogram.quantile_ns(values, counts.sum(axis=0), quantile) if counts.sum() else None
