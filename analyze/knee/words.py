"""The knee in words: sentences that claim no more than was measured."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from iotrace.analyze.stats.estimate import Estimate
from iotrace.analyze.units import format_bytes, format_duration_ns, format_share_with_interval, interval_text
from iotrace.schemas import counted

from .answer import Knee, SloKnee
from .step import Step, is_carried

NOT_EXCLUDED: Final = (
    "Saved credits that last longer (of a token bucket, a write cache, an SLC cache) cannot be excluded."
)

SAME_LOAD: Final = 1.01
"""Steps at one scale differ by this much in the rate they offer."""
WAITS_NS_MIN: Final = 100_000_000
"""An I/O that takes longer waited in a queue, where unloaded storage takes less than a `WAITS_TIMES`th of it."""
WAITS_TIMES: Final = 20.0


def load_text(iops: Estimate, scale: Estimate | None) -> str:
    """A load with its interval: ``3.6x [3.3, 3.9] (2,010 IOPS)``, without a scale ``2,010 IOPS [1,840, 2,180]``."""
    digits = 0 if iops.value >= 100 else 1
    value, low, high = (f"{one:,.{digits}f}" for one in (iops.value, iops.low, iops.high))
    if scale is not None:
        return f"{scale_text(scale)} ({value} IOPS)"
    return f"{value} IOPS{interval_text(value, low, high)}"


def scale_text(scale: Estimate) -> str:
    """A scale with its interval: ``3.6x [3.3, 3.9]``."""
    digits = 2 if scale.value < 10 and scale.high - scale.low < 0.1 * scale.value else 1
    value, low, high = (f"{one:.{digits}f}" for one in (scale.value, scale.low, scale.high))
    return f"{value}x{interval_text(value, low, high)}"


def percent_text(share: float) -> str:
    """A share of 1: ``42 %``."""
    return f"{100 * share:.0f} %"


def step_text(step: Step) -> str:
    """A step's load: ``4x (1,985 IOPS)``."""
    return rate_text(step.offered_iops, step.scale)


def describe_knee(knee: Knee) -> str:
    """One or two sentences on where the knee lies, and one on saved credits where there are any.

    What a model carried on them by its own account comes first: the rest is true only while they last.
    """
    where = f"{_where(knee)} {_credits(knee)}".rstrip()
    spending = None if knee.state == "not_judged" else spent_from(knee)
    return f"{_for_good(knee, spending)} While they last, {_small(where)}" if spending else where


def _where(knee: Knee) -> str:
    judged = [step for step in knee.steps if step.is_judged]
    if knee.state == "not_judged":
        return (
            f"Where the storage breaks cannot be judged: of {counted(len(knee.steps), 'step')} {len(judged) or 'none'} "
            "can be used. It takes at least two steps, and at least half of the loads that were run."
            f"{_carried_late(knee)}"
        )
    if knee.state == "before_range":
        assert knee.sustained_iops is not None
        lowest = step_text(judged[0])
        carried = f"the storage carried at most {load_text(knee.sustained_iops, _scaled(knee.sustained_iops, knee))}"
        if part := slow_part(knee):
            carried += f", for {part} fell behind, while the others kept up"
        return f"The knee lies below the lowest load tested, {lowest}: {carried}."
    if knee.state == "reached" and knee.iops is not None:
        return _describe_reached(knee)
    top = rate_text(knee.highest_kept_up_iops or 0.0, knee.highest_kept_up_scale)
    level = _level(judged)
    time = f" for {seconds_text(knee.watched_s)}" if knee.watched_s else ""
    if knee.state == "onset":
        assert knee.doubled_iops is not None
        doubled = load_text(knee.doubled_iops, _scaled(knee.doubled_iops, knee))
        return (
            f"I/Os begin to queue: mean response has doubled at {doubled}. Where the storage breaks was not reached: "
            f"it kept up{time} with {top}, the highest load judged ({level}). {NOT_EXCLUDED}"
        )
    return (
        f"The knee was not reached: the storage kept up{time} with {top}, the highest load judged ({level}). "
        f"{NOT_EXCLUDED}"
    )


def _carried_late(knee: Knee) -> str:
    """What a late replay shows all the same; empty where it was not late, or not all was carried from the lowest up.

    Being late makes response, which counts from when an I/O was due, longer and never shorter: where requests are
    served in turn, one that arrives later ends no earlier, whatever the others do (Baccelli, Cohen, Olsder and Quadrat:
    Synchronization and Linearity, 1992, monotonicity of max-plus systems).
    """
    carried = list(takewhile(_has_ended, knee.steps))
    late = [step for step in carried if step.generator_limited]
    if not late:
        return ""
    name = "p50" if carried[-1].response_ns["p99"] is None else "p99"
    response_ns = carried[-1].response_ns[name]
    if response_ns is None:
        return ""
    return (
        f" All of the load was carried even so up to {step_text(carried[-1])} for "
        f"{seconds_text(carried[-1].duration_s)}, and the {name} response there was {format_duration_ns(response_ns)} "
        "with the replay's lateness in it: the storage itself is no slower than that."
    )


def _has_ended(step: Step) -> bool:
    """Whether all of a step's load ended, with whatever delayed it: a late generator, or others on the device.

    What was under way at the end, or waited longer and longer, is in no response: of such a step nothing is said.
    """
    is_whole = step.littles_law_holds and not (step.error_count or step.has_few_ios or step.not_together)
    kept_up = is_carried(step.achieved_iops, step.offered_iops) and not step.is_saturated
    return is_whole and kept_up and (step.is_steady or step.is_warming)


def _credits(knee: Knee) -> str:
    """What was carried on saved credits, beside what is sustained."""
    if knee.credits is None or knee.sustained_iops is None:
        return ""
    most = knee.credits
    who = f" Only {most.limited_op}s are held back." if most.limited_op else ""
    return (
        f"The storage sustains {load_text(knee.sustained_iops, None)}. It carried up to {most.burst_iops:,.0f} IOPS "
        "while saved credits lasted (a token bucket, a write cache or an SLC cache): at least "
        f"{most.ios:,.0f} I/Os or {format_bytes(most.size_bytes)} beyond that rate.{who}"
    )


def credits_caveat(knee: Knee) -> str:
    """For how long the storage was watched at its limit, where the sentence does not say it; empty where unknown."""
    if knee.state not in {"reached", "before_range"} or not knee.watched_s:
        return ""
    return (
        f"at its limit the storage was watched for {seconds_text(knee.watched_s)} without a pause; credits that last "
        "longer (of a token bucket, a write cache, an SLC cache) cannot be excluded"
    )


def latency_breaks(steps: Sequence[Step]) -> list[str]:
    """What is said of steps that carried all of their load, but slower from some moment on."""
    return [
        f"at {step_text(step)} median response rose from {format_duration_ns(broke.before_ns)} to "
        f"{format_duration_ns(broke.after_ns)} after {seconds_text(broke.at_share * step.duration_s)} and stayed "
        "there, although all of the load was carried: a cache was full, saved credits were spent, or something else "
        "used the device. Only the later figure can be counted on"
        for step in steps
        if step.is_judged and not step.is_saturated and (broke := step.latency_break) is not None
    ]


def seconds_text(value_s: float) -> str:
    """A length of time: ``10 s``, ``0.8 s``."""
    return f"{value_s:.0f} s" if value_s >= 3 else f"{value_s:.2g} s"


def describe_slo(one: SloKnee, knee: Knee) -> str:
    """One sentence on an objective."""
    what = f"{one.objective.subject} stays under {one.objective.limit_text}"
    passes = f"{one.objective.subject} passes {one.objective.limit_text}"
    if one.state == "crossed":
        assert one.iops is not None
        spending = f"{by}," if (by := _spending(knee, one.iops.high)) else ""
        return f"The storage carries {load_text(one.iops, one.scale)}{spending} before {passes}."
    if one.state == "met_everywhere":
        assert one.highest_met_iops is not None
        top = rate_text(one.highest_met_iops, one.highest_met_scale)
        return f"{_capital(what)} at every load judged, up to {top}{_spending(knee, one.highest_met_iops)}."
    if one.state == "missed_at_lowest":
        lowest = next(step for step in knee.steps if step.is_judged)
        return f"{_capital(passes)} already at the lowest load judged, {step_text(lowest)}."
    if one.state == "too_few_ios":
        needed = round(100 / (1 - one.objective.quantile))
        return (
            f"Whether {what} cannot be told: it takes {needed:,} such I/Os in a step to give a "
            f"{one.objective.percentile_name}; run longer steps or ask for a lower percentile."
        )
    if one.state == "contradicted":
        return f"Whether {what} cannot be told: {_contradiction(one, knee)}."
    if one.state == "not_judged":
        return f"Whether {what} cannot be told: too few steps tell of the storage's latency."
    return f"No I/O in these steps is covered by '{one.objective}'."


def _spending(knee: Knee, iops: float) -> str:
    spending = spent_from(knee)
    if spending is None or iops < spending.offered_iops:
        return ""
    return f", from {spending.load_text} on by saved credits"


def _contradiction(one: SloKnee, knee: Knee) -> str:
    """The highest load that missed an objective, and the lowest above it that met it."""
    limit_ns = one.objective.limit_ns
    held = [
        (step, value)
        for step, value in zip(knee.steps, one.quantile_ns, strict=True)
        if step.is_judged and not step.is_saturated and not step.is_on_credits and value is not None
    ]
    first = next(place for place, (_, value) in enumerate(held) if value > limit_ns)
    met = next(place for place in range(first, len(held)) if held[place][1] <= limit_ns)
    (missed_step, missed_ns), (met_step, met_ns) = held[met - 1], held[met]
    return (
        f"it is {format_duration_ns(missed_ns)} at {step_text(missed_step)} and {format_duration_ns(met_ns)} at "
        f"a higher load, {step_text(met_step)}; run these loads again, for longer"
    )


def waiting(knee: Knee, step: Step) -> str:
    """What is said of a step whose load is carried on the whole, but in which many I/Os wait; empty where few do.

    The p95 response, or the median with too few I/Os for it, is held against `WAITS_NS_MIN` and unloaded storage.
    """
    name, share = ("p50", "half of them") if step.response_ns["p95"] is None else ("p95", "one in twenty")
    response_ns = step.response_ns[name] or 0
    unloaded_ns = knee.unloaded_ns
    if unloaded_ns is None or response_ns < max(WAITS_NS_MIN, WAITS_TIMES * unloaded_ns):
        return ""
    instead = f", where unloaded storage takes {format_duration_ns(unloaded_ns)}" if unloaded_ns else ""
    long = format_duration_ns(response_ns)
    return f"many I/Os wait in a queue at {step.load_text}: {share} took over {long}{instead}"


def carried_at(knee: Knee, iops: float) -> Step | None:
    """The step of the highest load up to ``iops`` that was carried, else of the lowest above it."""
    carried = [
        step for step in knee.steps if step.is_judged and not step.is_saturated and not step.is_on_credits
    ]
    below = [step for step in carried if step.offered_iops <= SAME_LOAD * iops]
    return below[-1] if below else carried[0] if carried else None


def spent_from(knee: Knee) -> Step | None:
    """The lowest load that a model carried on saved credits, by its own account."""
    return next((step for step in knee.steps if step.is_judged and step.overspent), None)


def spent_words(step: Step) -> str:
    """What is asked too much of, so that saved credits carry the rest."""
    return f"the load spends saved credits faster than they come back ({step.overspent[0]})"


def carried_for_good(knee: Knee) -> Step | None:
    """The highest load below those that a model carried on saved credits; None if it carried none without."""
    kept = [step for step in knee.steps if step.is_judged and not step.is_saturated and not step.overspent]
    spending = spent_from(knee)
    below = [step for step in kept if spending is None or step.offered_iops < spending.offered_iops]
    return below[-1] if below else None


def _for_good(knee: Knee, spending: Step) -> str:
    kept = carried_for_good(knee)
    most = f"{step_text(kept)} is carried for good" if kept else "No load that was run is carried for good"
    return f"{most}: from {step_text(spending)} on, {spent_words(spending)}."


def headroom(knee: Knee) -> str:
    """What 1x leaves free below the nearest limit, in words; empty where there is no 1x to compare with.

    Empty, too, where a model lived on saved credits: what is free beyond its own rate was not looked for.
    """
    if knee.iops_at_1x is None or knee.state == "not_judged" or spent_from(knee):
        return ""
    step = carried_at(knee, knee.iops_at_1x)
    if step is not None and not knee.objectives and (waits := waiting(knee, step)):
        return f"{_capital(waits)}. The knee is one of the average rate, and leaves no headroom that can be counted on"
    share = _share_of_limit(knee, knee.iops_at_1x)
    return f"{share}{_long_at_top(knee)}" if share and not knee.objectives else share


def _long_at_top(knee: Knee) -> str:
    """What the slowest I/Os of the highest load that was carried take, where that is long: none of it is headroom."""
    kept = [
        step for step in knee.steps if step.is_judged and not step.is_saturated and not step.is_on_credits
    ]
    p99_ns = (kept[-1].response_ns["p99"] or 0) if kept else 0
    if p99_ns < max(WAITS_NS_MIN, WAITS_TIMES * (knee.unloaded_ns or 0)):
        return ""
    return f". At {step_text(kept[-1])} the p99 response is already {format_duration_ns(p99_ns)}"


def _share_of_limit(knee: Knee, iops_at_1x: float) -> str:
    limits = [(one.iops, str(one.objective)) for one in knee.objectives if one.iops]
    if knee.onset_iops is not None:
        limits.append((knee.onset_iops, "the onset of climbing latency"))
    elif knee.iops is not None and knee.state == "reached":
        limits.append((knee.iops, "the knee"))
    elif knee.state == "onset" and knee.doubled_iops is not None:
        limits.append((knee.doubled_iops, "which mean response has doubled"))
    elif knee.state == "before_range" and knee.sustained_iops is not None:
        limits.append((knee.sustained_iops, "what the storage can carry"))
    if not limits:
        top = (knee.highest_kept_up_iops or 0.0) / iops_at_1x
        missed = any(one.state == "missed_at_lowest" for one in knee.objectives)
        if top < 1 or missed or knee.state != "not_reached":
            return ""
        if top <= 1.05:
            return ""
        time = f" for {seconds_text(knee.watched_s)}" if knee.watched_s else ""
        return f"{knee.baseline} is at most {percent_text(1 / top)} of what the storage carried{time}"
    limit, name = min(limits, key=lambda pair: pair[0].value)
    used = [iops_at_1x / max(value, 1e-9) for value in (limit.value, limit.high, limit.low)]
    if limit.value < iops_at_1x:
        return f"{knee.baseline} is {used[0]:.2g} times the load at {name}: there is no headroom"
    more = next((factor for factor in (2, 1.5, 1.2) if factor * used[0] <= 1), 2)
    room = scale_text(limit.scaled(1 / iops_at_1x))
    return (
        f"{knee.baseline} is {format_share_with_interval(used[0], (used[1], used[2]))} of the load at {name}, "
        f"a headroom of {room}; {more:g}x would be {percent_text(more * used[0])}"
    )


def _describe_reached(knee: Knee) -> str:
    assert knee.iops is not None
    where = f"The knee lies at {load_text(knee.iops, knee.scale)}"
    if part := slow_part(knee):
        return f"{where}: beyond it {part} fall behind, while the others keep up{cause_clause(knee)}."
    failed = [step.offered_iops for step in knee.steps if step.is_judged and step.is_saturated]
    if (
        failed
        and knee.sustained_iops is not None
        and knee.iops.value < min(failed) < knee.sustained_iops.value
    ):
        # Of its average rate storage carries more: it is the load's busier or heavier stretches that are too much.
        return f"{where}: a higher load falls behind in its heavier stretches{cause_clause(knee)}."
    if knee.basis == "saturation":
        return f"{where}: beyond it latency climbs and throughput does not{cause_clause(knee)}."
    if knee.onset_iops is not None:
        onset = knee.onset_iops
        if onset.value < knee.iops.low:
            climbs = f"latency climbs already from {load_text(onset, _scaled(onset, knee))}"
        else:
            earliest = rate_text(onset.low, _scaled_figure(onset.low, knee))
            climbs = f"latency climbs there, or already from {earliest}"
        return f"{where}: beyond it the storage carries no more; {climbs}{cause_clause(knee)}."
    return f"{where}: beyond it the storage carries no more{cause_clause(knee)}."


def slow_part(knee: Knee) -> str:
    """The part of the I/Os that fell behind at the lowest load that was too much; empty where all of them did."""
    failed = [step for step in knee.steps if step.is_judged and step.is_saturated]
    if not failed:
        return ""
    # Where credits were spent, it is said beside them which operation is held back.
    op = None if knee.credits is not None else failed[0].limited_op
    return failed[0].slow_part or (f"the {op}s" if op else "")


def cause_clause(knee: Knee) -> str:
    """The first cause that names a layer, else the first; nothing where none is known."""
    named = sorted(knee.causes, key=lambda cause: cause.layer is None)
    return f"; {named[0].clause}" if named else ""


def _level(judged: list[Step]) -> str:
    kept = [step for step in judged if not step.is_saturated and step.response_ns["p50"] is not None]
    if len(kept) < 2:
        return (
            f"median response {format_duration_ns(kept[0].response_ns['p50'] or 0)}"
            if kept
            else "latency not known"
        )
    first, last = kept[0].response_ns["p50"] or 0, kept[-1].response_ns["p50"] or 0
    if not first and not last:  # a model of limits alone: storage takes its time
        return "the model states no latency"
    return f"median response {format_duration_ns(first)} at the lowest load judged, {format_duration_ns(last)} there"


def rate_text(iops: float, scale: float | None) -> str:
    """A load without an interval: ``2x (1,985 IOPS)``, without a scale ``1,985 IOPS``."""
    rate = f"{iops:,.0f} IOPS"
    return rate if scale is None else f"{scale:g}x ({rate})"


def _scaled(iops: Estimate, knee: Knee) -> Estimate | None:
    return iops.scaled(1 / knee.iops_at_1x) if knee.iops_at_1x else None


def _scaled_figure(iops: float, knee: Knee) -> float | None:
    return float(f"{iops / knee.iops_at_1x:.2g}") if knee.iops_at_1x else None


def _small(text: str) -> str:
    return text if text.startswith("I/O") else text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    # Percentile names stay small: p99, not P99.
    return f"The {text}" if text.startswith("p") and text[1:2].isdigit() else text[:1].upper() + text[1:]
