"""What a replay shows while it runs, and what it leaves."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from iotrace.analyze.units import format_bytes
from iotrace.replay import Progress
from iotrace.replay.targets.fill import was_ours

from . import console
from .live import LiveMeter


def show_replay(meter: LiveMeter, state: Progress, prefix: str = "") -> None:
    """Elapsed over planned, and the load, latency and I/Os in flight; or how far a target is filled."""
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
    meter.load.take(
        state.elapsed_ns,
        state.completed_ios,
        state.response_ns_mean,
        due=state.due_ios,
        in_flight=state.in_flight,
    )
    detail = prefix.rstrip(": ")
    if state.failed_ios:
        detail = ", ".join(part for part in (detail, f"{state.failed_ios:,} errors") if part)
    meter.update(min(state.elapsed_ns, state.planned_ns), state.planned_ns, detail)


def say_what_stays(targets: Iterable[str]) -> None:
    """Name the test files of iotrace that are there after a run: a person may want the space back."""
    for target in targets if sys.platform != "win32" else ():
        if not Path(target).is_file():
            continue
        with Path(target).open("rb") as file:
            size, is_ours = os.fstat(file.fileno()).st_size, was_ours(file.fileno())
        if is_ours:
            console.say(
                f"the test file {target} ({format_bytes(size)}) stays for the next run; delete it when done"
            )
