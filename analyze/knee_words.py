"""The knee in words: sentences that claim no more than was measured."""

from .estimate import Estimate
from .knee_answer import Knee, SloKnee
from .knee_step import Step


def load_text(iops: Estimate, scale: Estimate | None) -> str:
    """A load with its interval: ``3.6x [3.3, 3.9] (2,010 IOPS)``, without a scale ``2,010 IOPS [1,840, 2,180]``."""
    digits = 0 if iops.value >= 100 else 1
    rate = f"{iops.value:,.{digits}f} IOPS"
    if scale is not None:
        return f"{scale_text(scale)} ({rate})"
    return f"{rate} [{iops.low:,.{digits}f}, {iops.high:,.{digits}f}]"


def scale_text(scale: Estimate) -> str:
    """A scale with its interval: ``3.6x [3.3, 3.9]``."""
    digits = 2 if scale.value < 10 and scale.high - scale.low < 0.1 * scale.value else 1
    return f"{scale.value:.{digits}f}x [{scale.low:.{digits}f}, {scale.high:.{digits}f}]"


def latency_text(value_ns: float) -> str:
    """A latency with three digits: ``0.213 ms``, ``12.4 ms``, ``3.1 s``."""
    if value_ns >= 1e9:
        return f"{value_ns / 1e9:.3g} s"
    return f"{value_ns / 1e6:.3g} ms" if value_ns >= 1e5 else f"{value_ns / 1e3:.3g} µs"


def percent_text(share: float) -> str:
    """A share of 1: ``42 %``."""
    return f"{100 * share:.0f} %"


def step_text(step: Step) -> str:
    """A step's load: ``4x (1,985 IOPS)``."""
    return _load(step.offered_iops, step.scale)


def describe_knee(knee: Knee) -> str:
    """One or two sentences on where the knee lies."""
    judged = [step for step in knee.steps if step.is_judged]
    if knee.state == "not_judged":
        return "No step tells of the storage: in every one the load generator was late or I/Os failed."
    if knee.state == "before_range":
        assert knee.sustained_iops is not None
        lowest = step_text(judged[0])
        return (
            f"The knee lies below the lowest load tested, {lowest}: the storage carried at most "
            f"{load_text(knee.sustained_iops, _scaled(knee.sustained_iops, knee))}."
        )
    if knee.state == "reached" and knee.iops is not None:
        return _describe_reached(knee)
    top = _load(knee.highest_kept_up_iops or 0.0, knee.highest_kept_up_scale)
    level = _level(judged)
    if knee.state == "unresolved":
        return (
            f"The storage kept up to {top}, the highest load judged; latency climbs there ({level}), but not "
            "in a way that places a knee: test more loads, and higher ones."
        )
    if knee.state == "disagree":
        return f"The estimators disagree on a knee; the storage kept up to {top}, the highest load judged ({level})."
    return f"The knee was not reached: the storage kept up to {top}, the highest load judged ({level})."


def describe_slo(one: SloKnee, knee: Knee) -> str:
    """One sentence on an objective."""
    what = f"{one.objective.subject} stays under {latency_text(one.objective.limit_ns)}"
    passes = f"{one.objective.subject} passes {latency_text(one.objective.limit_ns)}"
    if one.state == "crossed":
        assert one.iops is not None
        return f"The storage carries {load_text(one.iops, one.scale)} before {passes}."
    if one.state == "met_everywhere":
        assert one.highest_met_iops is not None
        return f"{_capital(what)} at every load judged, up to {_load(one.highest_met_iops, one.highest_met_scale)}."
    if one.state == "missed_at_lowest":
        lowest = next(step for step in knee.steps if step.is_judged)
        return f"{_capital(passes)} already at the lowest load judged, {step_text(lowest)}."
    if one.state == "too_few_ios":
        needed = round(100 / (1 - one.objective.quantile))
        return (
            f"Whether {what} cannot be told: it takes {needed:,} such I/Os in a step to give a "
            f"{one.objective.percentile_name}; run longer steps or ask for a lower percentile."
        )
    if one.state == "not_judged":
        return f"Whether {what} cannot be told: the steps at low load tell nothing of the storage's latency."
    return f"No I/O in these steps is covered by '{one.objective}'."


def headroom(knee: Knee) -> str:
    """What 1x leaves free below the nearest limit, in words; empty where there is no 1x to compare with."""
    if knee.iops_at_1x is None:
        return ""
    limits = [(one.iops, str(one.objective)) for one in knee.objectives if one.iops is not None]
    if knee.onset_iops is not None:
        limits.append((knee.onset_iops, "the onset of climbing latency"))
    elif knee.iops is not None and knee.state == "reached":
        limits.append((knee.iops, "the knee"))
    elif knee.state == "before_range" and knee.sustained_iops is not None:
        limits.append((knee.sustained_iops, "what the storage can carry"))
    if not limits:
        top = (knee.highest_kept_up_iops or 0.0) / knee.iops_at_1x
        missed = any(one.state == "missed_at_lowest" for one in knee.objectives)
        if top < 1 or missed or knee.state != "not_reached":
            return ""
        return (
            f"{knee.baseline} is at most {percent_text(1 / top)} of what the storage can carry"
            if top > 1.05
            else ""
        )
    limit, name = min(limits, key=lambda pair: pair[0].value)
    used = [knee.iops_at_1x / value for value in (limit.value, limit.high, limit.low)]
    if limit.value < knee.iops_at_1x:
        return f"{knee.baseline} is {used[0]:.2g} times the load at {name}: there is no headroom"
    more = next((factor for factor in (2, 1.5, 1.2) if factor * used[0] <= 1), 2)
    return (
        f"{knee.baseline} is {percent_text(used[0])} [{100 * used[1]:.0f}, {100 * used[2]:.0f}] of the load at {name}, "
        f"which leaves {percent_text(1 - used[0])} headroom; {more:g}x is {percent_text(more * used[0])}"
    )


def _describe_reached(knee: Knee) -> str:
    assert knee.iops is not None
    where = f"The knee lies at {load_text(knee.iops, knee.scale)}"
    if knee.basis == "saturation":
        return f"{where}, where latency climbs and throughput stops climbing{_cause(knee)}."
    if knee.basis == "throughput" and knee.onset_iops is None:
        return f"{where}, where throughput stops climbing{_cause(knee)}."
    if knee.onset_iops is not None:
        onset = load_text(knee.onset_iops, _scaled(knee.onset_iops, knee))
        return f"{where}, where throughput stops climbing; latency climbs already from {onset}{_cause(knee)}."
    top = _load(knee.highest_kept_up_iops or 0.0, knee.highest_kept_up_scale)
    return (
        f"{where}, where latency starts to climb; the storage still kept up at {top}, the highest load judged"
        f"{_cause(knee)}."
    )


def _cause(knee: Knee) -> str:
    """The first cause that names a layer, else the first; nothing where none is known."""
    named = sorted(knee.causes, key=lambda cause: cause.layer is None)
    return f"; {named[0].clause}" if named else ""


def _level(judged: list[Step]) -> str:
    kept = [step for step in judged if not step.is_saturated and step.response_ns["p50"] is not None]
    if len(kept) < 2:
        return (
            f"median response {latency_text(kept[0].response_ns['p50'] or 0)}"
            if kept
            else "latency not known"
        )
    first, last = kept[0].response_ns["p50"] or 0, kept[-1].response_ns["p50"] or 0
    return f"median response {latency_text(first)} at the lowest load, {latency_text(last)} there"


def _load(iops: float, scale: float | None) -> str:
    rate = f"{iops:,.0f} IOPS"
    return rate if scale is None else f"{scale:g}x ({rate})"


def _scaled(iops: Estimate, knee: Knee) -> Estimate | None:
    return iops.scaled(1 / knee.iops_at_1x) if knee.iops_at_1x else None


def _capital(text: str) -> str:
    # Percentile names stay small: p99, not P99.
    return f"The {text}" if text.startswith("p") and text[1:2].isdigit() else text[:1].upper() + text[1:]
