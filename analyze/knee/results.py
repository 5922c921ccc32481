"""The knee of results that another tool printed: plain load tests at rising load, of which no single I/O is known.

Every run is a step (table ``results`` of `iotrace.schemas`). What the runs differ in is their load: I/Os outstanding,
threads or virtual users, which are closed loops (`saturation`); or a rate asked for, which is an open one (`knee`).

A tool's figures carry no uncertainty. A throughput is taken to repeat to `saturation.NOISE`, a latency to
`LATENCY_NOISE`; where a curve scatters more than that, its scatter counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from iotrace.analyze.slo import Objective
from iotrace.analyze.stats import histogram
from iotrace.analyze.stats.estimate import Estimate
from iotrace.analyze.units import format_figure
from iotrace.schemas import LOAD_OPS, IotraceError, Kind, Recording
from iotrace.schemas.vocabulary import RUN_AXES

from .answer import Knee, SloKnee, Transactions
from .closed_loop import closed_answer, mark_saturated
from .saturation import Units, saturation_of
from .step import Samples, Step, is_carried, summary_samples
from .sweep import knee_of
from .words import describe_slo


def result_slo(objective: Objective, steps: Sequence[Step], rows: Sequence[list[dict[str, Any]]]) -> SloKnee:
    """Where the objective's quantile crosses its limit; ``rows`` are the results of each of ``steps``.

    The quantile is the tool's own for that share, or that of its histogram if 100 I/Os lie beyond it. Log latency is
    interpolated between the last load that meets the limit and the first that does not; the interval is all between.
    """
    quantiles = [objective_quantile_ns(objective, one) for one in rows]
    answer = SloKnee(objective, "no_such_io", None, None, None, None, quantiles)
    if objective.role is not None or not any(row_of(objective, one) for one in rows):
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


def row_of(objective: Objective, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The row of the objective's op; for all ops the total, or the only one there is."""
    wanted = objective.op or "total"
    found = next((row for row in rows if row["op"] == wanted), None)
    if found is not None and objective.op is None and not (found["quantiles"] or found["histogram"]):
        ops = [row for row in rows if row["op"] in LOAD_OPS]
        return ops[0] if len(ops) == 1 else found
    return found


def objective_quantile_ns(objective: Objective, rows: list[dict[str, Any]]) -> int | None:
    """The objective's quantile as the tool printed it in one run, of which ``rows`` are the results; else None."""
    row = row_of(objective, rows)
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


LAW_ERROR_NOTED: Final = 0.2
"""A run further from Little's law than this, and than the tool's rounding explains, is noted."""
_LAW_ERROR_MAX: Final = 0.5
_WORDS: Final = {"virtual_users": "virtual users", "outstanding": "outstanding", "threads": "threads"}
_NEW_ORDER: Final = "NEWORD"
_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}

Row = dict[str, Any]


@dataclass(slots=True)
class Run:
    """One run: the recording it is in, its row ``total`` and all its rows."""

    recording: Recording
    total: Row
    rows: list[Row]


def is_tested(recording: Recording) -> bool:
    """Whether a recording holds what another tool's test measured."""
    return recording.manifest.kind == Kind.TESTED


def knee_results(steps: Sequence[Recording], *, objectives: Sequence[Objective] = (), seed: int) -> Knee:
    """`series.knee` of imported results. Raises `IotraceError` where the runs are no series by load."""
    runs = [run for step in steps for run in _runs(step)]
    axis = _axis(runs)
    _refuse_unlike(runs, axis)
    runs.sort(key=lambda run: float(run.total[axis]))
    if axis == "virtual_users":
        answer = _transactions(runs)
    elif axis == "offered_iops":
        answer = _open(runs, seed)
    else:
        answer = _closed(runs, axis)
    answer.notes += [f"{step.load_text}: {note}" for step in answer.steps for note in step.notes]
    for objective in objectives:
        one = result_slo(objective, answer.steps, [run.rows for run in runs])
        one.sentence = describe_slo(one, answer)
        answer.objectives.append(one)
    mark_saturated(answer)
    return answer


def _runs(recording: Recording) -> list[Run]:
    if not is_tested(recording) or "results" not in recording.table_names():
        raise IotraceError(
            f"'{recording.path}' holds no results of a load test",
            hint="do not mix imported results with replays",
        )
    by_run: dict[int, list[Row]] = {}
    for row in recording.read("results").to_pylist():
        by_run.setdefault(row["run"], []).append(row)
    totals = [next((row for row in rows if row["op"] == "total"), rows[0]) for rows in by_run.values()]
    return [Run(recording, total, rows) for total, rows in zip(totals, by_run.values(), strict=True)]


def _axis(runs: Sequence[Run]) -> str:
    """What the runs differ in. Raises `IotraceError` where there is no such thing, or it repeats."""
    for axis in RUN_AXES:
        loads = [run.total[axis] for run in runs]
        if all(load is not None and load > 0 for load in loads) and len(set(loads)) == len(loads) > 1:
            return axis
    kinds = len(_kinds(runs))
    if kinds > 1:
        raise IotraceError(
            f"these runs do not vary the load alone: they have {kinds} sizes, patterns or mixes of reads and writes",
            hint="import each series by itself, from a file with the runs of one size, pattern and mix",
        )
    raise IotraceError(
        "these runs do not vary the load: no two may have the same outstanding I/Os, threads, users or offered rate",
        hint="import the runs of one test at several loads: iotrace import RUN1 RUN2 … -o NAME.iotrace",
    )


def _refuse_unlike(runs: Sequence[Run], axis: str) -> None:
    if len(_kinds(runs)) > 1 and axis != "virtual_users":
        raise IotraceError(
            f"these runs differ in more than {axis}: sizes, access or reads and writes are not the same",
            hint="name the runs of one size and mix; iotrace query shows the table results",
        )


def _kinds(runs: Sequence[Run]) -> set[tuple[Any, ...]]:
    return {(run.total["size_bytes"], run.total["access"], _mix(run)) for run in runs}


def _mix(run: Run) -> int | None:
    """Share of reads, to a tenth: a tool's 70 % are 70.02 % in one run and 69.97 % in the next."""
    # Some tools print no counts, but all have rates.
    by_op = {row["op"]: row["ios"] or row["iops"] or 0 for row in run.rows}
    total = by_op.get("read", 0) + by_op.get("write", 0)
    return round(10 * by_op.get("read", 0) / total) if total else None


def _closed(runs: Sequence[Run], axis: str) -> Knee:
    unit_ns = _resolution_ns(runs)
    loads = [float(run.total[axis]) for run in runs]
    steps = [_step(run, load, unit_ns) for run, load in zip(runs, loads, strict=True)]
    for step, load in zip(steps, loads, strict=True):
        step.outstanding, step.load_word = int(load), _WORDS[axis]
    judged = [index for index, step in enumerate(steps) if step.is_judged]
    units = Units(_WORDS[axis], "IOPS")
    found = saturation_of([loads[i] for i in judged], [steps[i].achieved_iops for i in judged], units=units)
    return closed_answer(found, steps, units)


def _transactions(runs: Sequence[Run]) -> Knee:
    """Transactions of sessions: throughput is new orders per minute, latency that of a new order."""
    loads = [float(run.total["virtual_users"]) for run in runs]
    steps = [_step(run, load) for run, load in zip(runs, loads, strict=True)]
    for step, load, run in zip(steps, loads, runs, strict=True):
        step.outstanding, step.load_word = int(load), _WORDS["virtual_users"]
        order = next((row for row in run.rows if row["op"] == _NEW_ORDER), {})
        step.response_ns = {name: _quantile_ns(order, share) for name, share in _QUANTILES.items()}
        rate = run.total["new_orders_per_minute"] or run.total["transactions_per_minute"]
        if not rate:
            raise IotraceError(
                f"'{run.recording.path}' does not give new orders per minute",
                hint="import the log of the whole run",
            )
        step.transactions = Transactions(
            run.total["new_orders_per_minute"],
            run.total["transactions_per_minute"],
            order.get("latency_ns_mean"),
        )
    is_nopm = all(run.total["new_orders_per_minute"] for run in runs)
    rates = [
        run.total["new_orders_per_minute" if is_nopm else "transactions_per_minute"] or 0.0 for run in runs
    ]
    units = Units(_WORDS["virtual_users"], "NOPM" if is_nopm else "TPM")
    answer = closed_answer(saturation_of(loads, rates, units=units), steps, units, rates=rates)
    answer.sentence += _tail_words(steps)
    return answer


def _tail_words(steps: Sequence[Step]) -> str:
    """What a new order's p99 did meanwhile: the early warning, before throughput stops."""
    known = [(step, value) for step in steps if (value := step.response_ns["p99"]) is not None]
    if len(known) < 2:
        return " No run has the p99 of a new order: HammerDB's time profile gives it."
    lowest, least = known[0]
    for step, value in known:
        if value > 2 * least:
            return (
                f" A new order's p99 is {format_figure(least / 1e6)} ms with {lowest.load_text} and passes twice that "
                f"by {step.load_text} ({format_figure(value / 1e6)} ms)."
            )
    return (
        f" A new order's p99 stays within twice its {format_figure(least / 1e6)} ms with {lowest.load_text}."
    )


def _open(runs: Sequence[Run], seed: int) -> Knee:
    has_medians = all(_quantile_ns(run.total, 0.5) is not None for run in runs)
    measured: list[tuple[Step, Samples]] = []
    for run in runs:
        step = _step(run)
        step.offered_iops = float(run.total["offered_iops"])
        step.offered_mb_per_s *= step.offered_iops / max(step.achieved_iops, 1e-9)
        step.is_saturated = not is_carried(step.achieved_iops, step.offered_iops)
        latency = {name: float(value) for name, value in step.response_ns.items() if value is not None}
        if not has_medians:
            if not step.response_ns_mean:
                raise IotraceError(
                    f"'{run.recording.path}' says no latency", hint="run the test with latencies on"
                )
            latency["p50"] = step.response_ns_mean
        by_share = {_QUANTILES[name]: value for name, value in latency.items()}
        measured.append((step, summary_samples(step, by_share)))
    answer = knee_of(measured, seed=seed)
    if not has_medians:
        answer.notes.append("mean latency stands for the median, which the tool does not give")
    return answer


def _step(run: Run, load: float | None = None, unit_ns: float = 0.0) -> Step:
    """A step of what the tool says; with a ``load`` in flight, Little's law checks it, to rounding to ``unit_ns``."""
    total = run.total
    iops = float(total["iops"] or 0.0)
    if iops <= 0 and total["new_orders_per_minute"] is None and total["transactions_per_minute"] is None:
        raise IotraceError(
            f"'{run.recording.path}' says no throughput", hint="import the tool's whole output"
        )
    mean_ns = float(total["latency_ns_mean"] or 0.0)
    in_flight = iops * mean_ns / 1e9
    ratio = in_flight / load if load and in_flight else float("nan")
    rounding = iops * unit_ns / 1e9 / load if load else 0.0
    notes = []
    if abs(ratio - 1) > LAW_ERROR_NOTED + rounding:
        notes.append(
            f"IOPS times mean latency make {format_figure(in_flight)} in flight, not {load:g}: the load was not kept "
            "up, or the tool's latency leaves something out"
        )
    quantiles = {name: _quantile_ns(total, share) for name, share in _QUANTILES.items()}
    return Step(
        name=total["test"],
        uuid=run.recording.manifest.uuid,
        scale=None,
        layer=str(total["tool"]),
        io_count=int(total["ios"] or 0),
        error_count=int(total["errors"] or 0),
        delayed_count=0,
        duration_s=float(total["duration_ns"] or 0) / 1e9,
        offered_iops=iops,
        achieved_iops=iops,
        offered_mb_per_s=float(total["bytes_per_second"] or 0.0) / 1e6,
        achieved_mb_per_s=float(total["bytes_per_second"] or 0.0) / 1e6,
        in_flight_mean=in_flight or float("nan"),
        littles_law_ratio=ratio,
        response_ns_mean=mean_ns,
        response_ns=quantiles,
        service_ns=dict(quantiles),
        lateness_ns_p99=0,
        generator_limited=False,
        is_steady=True,
        is_saturated=False,
        notes=notes,
        service_ns_mean=mean_ns,
        law_error_max=_LAW_ERROR_MAX + rounding,
    )


def _quantile_ns(row: Row, share: float) -> int | None:
    for one in row.get("quantiles") or ():
        if abs(one["quantile"] - share) < 1e-9:
            return int(one["latency_ns"])
    return None


def _resolution_ns(runs: Sequence[Run]) -> float:
    """The coarsest unit that all mean latencies are whole multiples of, down to a nanosecond."""
    means = np.array([run.total["latency_ns_mean"] or 0.0 for run in runs])
    for unit in (1e6, 1e5, 1e4, 1e3):
        if np.allclose(means / unit, np.round(means / unit), atol=1e-6):
            return unit
    return 1.0
