"""Objectives held against a recording: by which of the figures that it has, and what is said where it has none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from iotrace.analyze.describe.description import Description
from iotrace.analyze.knee.results import objective_quantile_ns, row_of
from iotrace.analyze.slo import Objective
from iotrace.analyze.units import format_duration_ns
from iotrace.schemas import LOAD_OPS
from iotrace.schemas.vocabulary import listed

from .facts import ObjectiveCheck

_OPS: Final = {None: "reads or writes", "flush": "flushes"}


_UNLIKE: Final = 0.05
"""As for residuals of layers: where counts differ by more, two layers have not seen the same I/Os."""


def over_layers(checks: Sequence[ObjectiveCheck]) -> ObjectiveCheck:
    """One objective, held against the layer of the load and each above it, from the top down.

    It is missed if it is missed at any of them: what SQL Server waits for is all of it. What tells nothing, because it
    has too few such I/Os, is passed over where another layer tells.
    """
    known = [one for one in checks if one.is_met is not None]
    if not known:
        return checks[-1]
    found = next((one for one in known if not one.is_met), known[0])
    others = [
        f"{format_duration_ns(one.quantile_ns)} at the {one.layer} layer"
        + (
            f" (of {one.io_count:,} I/Os; {found.layer} saw {found.io_count:,})"
            if abs(one.io_count - found.io_count) > _UNLIKE * max(one.io_count, found.io_count)
            else ""
        )
        for one in known
        if one is not found
    ]
    also = f" It is {' and '.join(others)}." if others else ""
    return replace(found, sentence=f"{found.sentence}{also}")


def without_ios(objective: Objective, described: Description) -> ObjectiveCheck:
    """An objective held against a recording of no single I/Os: judged where another tool printed the quantile."""
    runs: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in described.results:
        runs.setdefault((row["step"], row["run"]), []).append(row)
    if runs:
        return _by_results(objective, list(runs.values()))
    held = "counters alone, which know means and no quantiles" if described.counters else "no reads or writes"
    return _untold(objective, f"the recording holds {held}")


def _by_results(objective: Objective, runs: Sequence[list[dict[str, Any]]]) -> ObjectiveCheck:
    """By the tool's own quantile in its slowest run, as `knee` judges each run of a series."""
    tools = listed(sorted({row["tool"] for rows in runs for row in rows}))
    if objective.role is not None:
        return _untold(objective, f"results of {tools} do not tell roles of files apart")
    rows = [row for rows in runs if (row := row_of(objective, rows)) is not None]
    if not rows:
        return _untold(objective, f"{tools} ran no {_OPS.get(objective.op, f'{objective.op}s')}")
    told = [_quantiles_ns(objective, one) for one in runs]
    met = [_is_met(objective, list(one.values())) for one in told]
    is_met = False if False in met else None if None in met else True
    missing = [one for one in told if not one or None in one.values()]
    if is_met is None and missing:
        where = f" in {len(missing)} of {len(told)} runs" if len(missing) < len(told) else ""
        return _untold(objective, f"{tools} printed no {objective.percentile_name}{where}")
    told = [one for one in told if _is_met(objective, list(one.values())) is is_met]
    slowest = max(told, key=lambda one: max(one.values(), key=lambda value: value or 0) or 0)
    parts = [f"{format_duration_ns(value)}{op and f' of {op}s'}" for op, value in slowest.items()]
    if is_met is None:
        return _untold(objective, f"{tools} printed it of each operation alone, {' and '.join(parts)}")
    where = f" in the slowest of {len(runs)} runs" if len(runs) > 1 else ""
    subject = objective.subject.replace("response", "latency")
    sentence = (
        f"The {subject}, as {tools} printed it, is {' and '.join(parts)}{where}, "
        f"{'within' if is_met else 'above'} the objective of {objective.limit_text}."
    )
    quantile_ns = max(value for value in slowest.values() if value is not None)
    ios = sum(row["ios"] or 0 for row in rows)
    return ObjectiveCheck(objective, "latency", quantile_ns, ios, is_met, sentence)


def _quantiles_ns(objective: Objective, rows: list[dict[str, Any]]) -> dict[str, int | None]:
    """What the tool printed of one run; by operation where it printed nothing of reads and writes together."""
    whole_ns = objective_quantile_ns(objective, rows)
    if whole_ns is not None or objective.op is not None:
        return {"": whole_ns}
    busy = [row["op"] for row in rows if row["op"] in LOAD_OPS and (row["ios"] or row["iops"])]
    return {op: objective_quantile_ns(replace(objective, op=op), rows) for op in busy}


def _is_met(objective: Objective, parts_ns: Sequence[int | None]) -> bool | None:
    """A quantile of all I/Os lies between those of its parts, so where these agree it is known."""
    within = {None if part_ns is None else part_ns <= objective.limit_ns for part_ns in parts_ns}
    return within.pop() if len(within) == 1 else None


def _untold(objective: Objective, why: str) -> ObjectiveCheck:
    sentence = f"It cannot be told whether the {objective.subject} is within {objective.limit_text}: {why}."
    return ObjectiveCheck(objective, "latency", None, 0, None, sentence)
