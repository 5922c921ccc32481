"""What is printed after a replay: how exactly it was played, what scaling did to the load, where it lies."""

from collections.abc import Callable
from typing import Any

from iotrace.analyze.compare.fidelity import Fidelity
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_rate,
    format_ratio_with_interval,
    format_share,
)
from iotrace.schemas.host import Host
from iotrace.schemas.run import LoadShape, Replay

from . import console
from .model_tables import print_model


def print_run(run: Replay, host: Host) -> None:
    """What was played, how exactly, what scaling did to the load, and where it lies."""
    played = f"{format_count(run.issued_ios)} of {format_count(run.planned_ios)} I/Os"
    planned, span = run.planned_duration_ns, run.issued_span_ns
    console.heading(f"Played at {run.scale or 1.0:g}x ({_mode(run)}) with {run.backend}")
    if run.mode == "think":
        recorded_ns = run.scaling.before.span_ns if run.scaling else None
        length = f"{format_duration_ns(recorded_ns)} were recorded, and the storage decides"
    else:
        whole = planned and run.issued_ios == run.planned_ios
        off = f" (off by {abs(span - planned) / planned:.3%})" if whole else ""
        length = f"{format_duration_ns(planned)} were planned{off}"
    console.paragraph(f"{played} issued in {format_duration_ns(span)} where {length}")
    counts = {
        "failed": run.failed_ios,
        f"left out ({', '.join(run.skipped)})": run.skipped_ios,
        "moved or resized to fit": run.adjusted_ios,
        "held back by cap or disk queue": run.delayed_ios,
        "without an end": run.issued_ios - run.completed_ios,
    }
    said = ", ".join(f"{format_count(count)} {name}" for name, count in counts.items() if count)
    if said:
        console.paragraph(said)
    console.paragraph(
        f"median response {format_duration_ns(run.response_ns_p50)}, "
        f"service {format_duration_ns(run.service_ns_p50)}; "
        f"lateness p50 {format_duration_ns(run.lateness_ns_p50)}, p99 {format_duration_ns(run.lateness_ns_p99)}, "
        f"max {format_duration_ns(run.lateness_ns_max)}"
    )
    model = run.model
    if model is None:
        _print_pacing(run)
    else:
        print_model(model)
    console.heading("What scaling did to the load")
    if run.scaling:
        print_load(run.scaling.before, run.scaling.after)
    _print_made_of(run)
    if model is None:
        console.heading("Where it lies")
        _print_places(run, host)


def _print_pacing(run: Replay) -> None:
    """How it waited between I/Os, what that took from the host, and what of the service is not the device's."""
    pacing = run.pacing
    if not pacing:
        return
    shares = {
        "the replay spun for": pacing.spun_share,
        "some thread waited for a processor for": pacing.others_waited_share,
        "the hypervisor took": pacing.stolen_share,
    }
    said = "; ".join(f"{name} {format_share(share)}" for name, share in shares.items() if share is not None)
    console.paragraph(f"pacing {pacing.used} ({pacing.reason}); of the time, {said}")
    own_ns = pacing.own_service_ns_mean
    if own_ns is not None:
        console.paragraph(
            f"of a mean service {format_duration_ns(own_ns)} is the replay's own share (handing over, waking up), "
            "by the device's own counters"
        )


def print_fidelity(found: Fidelity) -> None:
    """Recorded against played on the same layer, with intervals, and what is known to be the replay's."""
    rows = [
        [
            f"{one.layer} {one.op}" if not position else "",
            figure.quantity,
            format_duration_ns(figure.a_ns),
            format_duration_ns(figure.b_ns),
            format_ratio_with_interval(figure.ratio, figure.ratio_interval),
        ]
        for one in found.layers
        for position, figure in enumerate(figure for figure in one.figures if figure.ratio is not None)
    ]
    if not rows:
        return
    console.heading("Recorded against played, 95 % interval of the ratio")
    console.table(["", "", "recorded", "played", "played / recorded"], rows, left=2)
    for one in found.paired:
        ratio = format_ratio_with_interval(one.ratio, one.ratio_interval)
        console.paragraph(
            f"{one.layer} {one.op}: a typical I/O took {ratio} of its recorded time "
            f"({format_count(one.pair_count)} of {format_count(one.recorded_count)} I/Os paired by {one.by})"
        )
    for words in found.unpaired:
        console.paragraph(words, style="yellow")
    if not found.paired and not found.unpaired:
        own = "what is the replay's own is not known"
        if found.own_service_ns_mean is not None:
            own = f"{format_duration_ns(found.own_service_ns_mean)} of a mean I/O is the replay's own"
        console.paragraph(
            f"played is the service that the replay saw; {own}. --watch holds like against like",
            style="dim",
        )


def print_load(before: LoadShape, after: LoadShape) -> None:
    """The load before and after scaling, and what it was multiplied by."""
    rows = [
        _row("I/Os", before.ios, after.ios, format_count),
        _row("I/Os per second", before.rate_per_s, after.rate_per_s, format_rate),
        _row(
            "bytes per second",
            before.rate_bytes_per_s,
            after.rate_bytes_per_s,
            lambda rate: format_rate(rate, "B"),
        ),
        _row("gaps CV", before.cv_interarrival, after.cv_interarrival, _number),
        *(
            _row(f"peak/mean {width}", was, after.peak_to_mean[width], _number)
            for width, was in before.peak_to_mean.items()
        ),
        _row("sequential", before.sequential_share, after.sequential_share, format_share),
        _row("touched", before.footprint_bytes, after.footprint_bytes, format_bytes),
    ]
    console.table(["", "as recorded", "as played", "times"], rows)


def _row(title: str, was: float | None, now: float | None, show: Callable[[Any], str]) -> list[str]:
    ratio = f"{now / was:.2f}" if was and now is not None else DASH
    return [title, *(DASH if value is None else show(value) for value in (was, now)), ratio]


def _mode(run: Replay) -> str:
    if run.mode == "superpose" and run.copies > 1:
        return f"superpose, {run.copies} copies, {run.footprint} footprint"
    return str(run.mode)


def _print_made_of(run: Replay) -> None:
    """What a fraction or a closed loop was made of."""
    thinning, dependencies = run.thinning, run.dependencies
    if thinning and thinning.achieved_share is not None:
        kinds = ", ".join(f"{count:,} {kind}s" for kind, count in thinning.streams_are.items())
        console.paragraph(
            f"a fraction of {thinning.asked_share:g} was asked of one copy; whole streams make "
            f"{thinning.achieved_share:.3g} of its I/Os ({thinning.error or 0.0:+.1%}) and "
            f"{thinning.achieved_share_of_bytes or 0:.3g} of its bytes: {thinning.streams_kept:,} of "
            f"{thinning.streams:,} streams ({kinds or 'none'})"
        )
    if dependencies:
        waiting, clocked = dependencies.waiting_ios, dependencies.clocked_ios
        console.paragraph(
            f"{waiting / max(1, waiting + clocked):.0%} of the I/Os waited for another on their thread or log, "
            f"{format_count(clocked)} kept to the clock"
        )
    if run.ramp_seconds:
        console.paragraph(f"the first {run.ramp_seconds:g} s are a ramp, and left out of the table")


def _print_places(run: Replay, host: Host) -> None:
    """How much of each target is used, beside what this machine could hold in memory."""
    memory = host.memory_bytes
    rows = [
        [
            target.name,
            target.addresses or DASH,
            format_bytes(target.touched_bytes) if target.touched_bytes is not None else DASH,
            DASH if target.bytes is None else format_bytes(target.bytes),
            target.fill or "as it was",
        ]
        for target in run.targets
    ]
    shown = rows[:8]
    console.table(["target", "addresses", "spanned", "size", "filled"], shown)
    if len(rows) > len(shown):
        console.paragraph(f"and {len(rows) - len(shown):,} more targets")
    if memory and run.scaling:
        touched = run.scaling.after.footprint_bytes
        console.paragraph(
            f"{format_bytes(touched)} touched; this machine has {format_bytes(memory)} of memory, "
            "and an array's cache may hold some too"
        )


def _number(value: float) -> str:
    return f"{value:,.2f}"
