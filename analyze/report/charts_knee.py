"""The knee curve: latency over load with the knee's interval and the objectives, and carried over offered load."""

from itertools import pairwise
from typing import Final

from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.knee.step import Step
from iotrace.analyze.units import format_count, format_duration_ns, format_figure

from .axes import linear, logarithmic
from .charts import Band, Chart, Key, Limit, Line, Mark, Panel, Readout, Symbol, Table
from .charts_closed import outstanding_chart

_CURVES: Final = (("p50", "median", "read"), ("p95", "p95", "fourth"), ("p99", "p99", "write"))


def knee_charts(knee: Knee) -> list[Chart]:
    """Charts of one sweep."""
    judged = [step for step in knee.steps if step.is_judged]
    charts = []
    if any(step.response_ns["p50"] is not None for step in judged):
        charts.append(_latency(knee, judged))
    if all(step.outstanding is not None for step in knee.steps):
        charts.append(outstanding_chart(knee))
    else:
        charts.append(_carried(knee, is_alone=not charts))
    return charts


def steps_table(knee: Knee) -> Table:
    """Every step in figures, those that are not judged included and named."""
    rows = tuple(
        (
            step.load_text,
            _state(step),
            format_count(step.offered_iops),
            format_count(step.achieved_iops),
            format_figure(step.offered_mb_per_s),
            format_figure(step.achieved_mb_per_s),
            format_figure(step.in_flight_mean),
            *(format_duration_ns(step.response_ns[name]) for name in ("p50", "p95", "p99", "p99_9")),
            *(format_duration_ns(step.service_ns[name]) for name in ("p50", "p99")),
            f"{step.littles_law_ratio:.3f}",
            format_count(step.delayed_count),
            format_count(step.io_count),
        )
        for step in knee.steps
    )
    return Table(
        "Steps of the sweep, by offered load",
        (
            "load",
            "judged as",
            "offered IOPS",
            "carried IOPS",
            "offered MB/s",
            "carried MB/s",
            "mean in flight",
            "response p50",
            "p95",
            "p99",
            "p99.9",
            "service p50",
            "p99",
            "Little's law",
            "held back",
            "I/Os",
        ),
        rows,
        2,
    )


def _state(step: Step) -> str:
    if not step.is_judged:
        return f"not judged: {'; '.join(step.left_out_because)}"
    if step.is_on_credits:
        return "kept up on saved credits"
    if step.is_saturated:
        return "saturated" if step.is_steady else "saturated, still getting slower"
    return "kept up"


def _latency(knee: Knee, judged: list[Step]) -> Chart:
    marks: list[Mark] = []
    keys: list[Key] = []
    seen_ms: list[float] = []
    for name, words, style in _CURVES:
        points = [
            (step.offered_iops, (step.response_ns[name] or 0) / 1e6, step.is_saturated)
            for step in judged
            if step.response_ns[name] is not None
        ]
        if points:
            seen_ms += [latency_ms for _, latency_ms, _ in points]
            symbols: tuple[Symbol, ...] = tuple(
                "cross" if saturated else "circle" for *_, saturated in points
            )
            marks.append(Line(style, tuple((iops, ms) for iops, ms, _ in points), symbols))
            keys.append(Key(style, words, "points"))
    if knee.onset_iops is not None:
        onset = knee.onset_iops
        marks.append(Band("onset", onset.low, onset.high, "climb starts", onset.value))
        keys.append(Key("onset", "where latency starts to climb, 95 % interval", "box"))
    if knee.iops is not None:
        marks.append(Band("knee", knee.iops.low, knee.iops.high, "knee", knee.iops.value))
        keys.append(Key("knee", "knee, 95 % interval", "box"))
    limits: dict[float, list[str]] = {}
    for one in knee.objectives:
        limits.setdefault(one.objective.limit_ns / 1e6, []).append(str(one.objective))
    for limit_ms, names in sorted(limits.items()):
        seen_ms.append(limit_ms)
        marks.append(Limit(limit_ms, ", ".join(names)))
    is_closed = all(step.outstanding is not None for step in judged)
    saturated = (
        " Crosses mark saturated steps, whose latency grows with the length of the step."
        if any(step.is_saturated for step in judged) and not is_closed
        else ""
    )
    # A closed loop offers no load of its own: it carries what the storage completes.
    load = "load carried" if is_closed else "load offered"
    return Chart(
        "knee",
        "Latency over load",
        f"Response time of all reads and writes over the {load}, one point per step. {knee.sentence}{saturated}",
        linear(f"{load} (IOPS)", max(step.offered_iops for step in judged), ticks_wanted=8),
        (Panel(logarithmic("response time (ms)", min(seen_ms), max(seen_ms)), tuple(marks), 340),),
        steps_table(knee),
        tuple(keys),
        _readouts(
            judged,
            [
                ", ".join(
                    f"{words} {format_duration_ns(step.response_ns[name])}"
                    for name, words, _ in _CURVES
                    if step.response_ns[name] is not None
                )
                for step in judged
            ],
        ),
    )


def _carried(knee: Knee, *, is_alone: bool) -> Chart:
    judged = [step for step in knee.steps if step.is_judged]
    others = [step for step in knee.steps if not step.is_judged]
    top = max(step.offered_iops for step in knee.steps)
    marks: list[Mark] = [Line("other", ((0.0, 0.0), (top, top)))]
    keys = [Key("other", "all that is offered")]
    for steps, words, style in ((judged, "carried", "read"), (others, "not judged", "write")):
        if steps:
            points = tuple((step.offered_iops, step.achieved_iops) for step in steps)
            marks.append(
                Line(style, points, "circle" if steps is judged else "ring", is_joined=steps is judged)
            )
            keys.append(Key(style, words, "points"))
    said = "The storage carried all that was offered at every load judged." if judged else ""
    if knee.sustained_iops is not None:
        most = knee.sustained_iops
        said = f"It carried at most {most.value:,.0f} IOPS [{most.low:,.0f}, {most.high:,.0f}]."
    rows = tuple(
        (step.load_text, format_count(step.offered_iops), format_count(step.achieved_iops))
        for step in knee.steps
    )
    table = Table("Load offered and carried", ("step", "offered IOPS", "carried IOPS"), rows)
    return Chart(
        "carried",
        "Load carried over load offered",
        f"Where the line leaves the diagonal, the storage falls behind. {said}",
        linear("load offered (IOPS)", top, ticks_wanted=8),
        (Panel(linear("load carried (IOPS)", top), tuple(marks), 260),),
        steps_table(knee) if is_alone else table,
        tuple(keys),
        _readouts(knee.steps, [f"carried {step.achieved_iops:,.0f} IOPS" for step in knee.steps]),
    )


def _readouts(steps: list[Step], words: list[str]) -> tuple[Readout, ...]:
    """What is said of the step nearest to the pointer; steps come by rising load."""
    places = [step.offered_iops for step in steps]
    middles = [(before + after) / 2 for before, after in pairwise(places)]
    edges = [0.0, *middles, places[-1] * 1.2]
    return tuple(
        Readout(low, high, f"{step.load_text}, {step.offered_iops:,.0f} IOPS: {said}")
        for step, low, high, said in zip(steps, edges, edges[1:], words, strict=False)
        if high > low
    )
