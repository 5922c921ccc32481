"""What the progress bar of a replay says."""

from iotrace.analyze.units import format_bytes, format_duration_ns
from iotrace.replay import Progress

from . import console


def show_replay(meter: console.Meter, state: Progress, prefix: str = "") -> None:
    """Elapsed over planned, achieved over offered rate, latency now, in flight; or how far a target is filled."""
    if state.phase == "survey":
        detail = f"reading the recording, {state.due_ios:,} I/Os"
        meter.update(state.due_ios, state.planned_ios, prefix + detail)
        return
    if state.phase == "check":
        meter.update(0, 1, f"{prefix}waiting for {state.target} to answer")
        return
    if state.phase == "fill":
        detail = f"filling {state.target}, {format_bytes(state.fill_bytes)}"
        meter.update(state.fill_bytes, state.fill_bytes_total, prefix + detail)
        return
    rate = (
        ""
        if state.rate_per_s is None
        else f"{state.rate_per_s:,.0f} of {state.offered_per_s or 0:,.0f} IOPS, "
    )
    response = format_duration_ns(state.response_ns_mean)
    detail = f"{rate}{response}, {state.in_flight:,} in flight"
    if state.failed_ios:
        detail += f", {state.failed_ios:,} errors"
    meter.update(min(state.elapsed_ns, state.planned_ns), state.planned_ns, prefix + detail)
