"""What the two outputs of DiskSpd have in common. Facts: its README, and its ResultParser and XmlResultParser."""

import re
from datetime import UTC, datetime
from typing import Final

from .run import SECOND_NS, OpResult, Run

TOOL: Final = "diskspd"
OPS: Final = ("read", "write", "total")
_PATH_VERSION: Final = re.compile(r"diskspd[-._ ]?v?(\d+\.\d+(?:\.\d+[a-z]?)?)[\\/]", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2}) (\d{1,2}):(\d{2}):(\d{2}) UTC")
_LOOP_CHANGED: Final = (2, 2)


def version_in_path(command: str | None) -> str | None:
    """The version that the folder of the program is named after, which the text output tells nowhere else."""
    found = _PATH_VERSION.search(command or "")
    return found[1] if found else None


def started_utc_ns(text: str | None, warmup_s: int) -> int | None:
    """Start of the measured time: DiskSpd's own start and its warm-up. Filling the file before is not told."""
    found = _TIME.search(text or "")
    if not found:
        return None
    try:
        moment = datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return None
    return (int(moment.timestamp()) + warmup_s) * SECOND_NS


def finish(run: Run, version: str | None) -> Run:
    """``run`` with its version, and what it means for the figures."""
    run.tool_version = version
    numbers = tuple(int(part) for part in re.findall(r"\d+", version or "")[:2])
    # The change concerns more than one outstanding I/O; a bound such as "before 2.1" is told by its own word.
    if numbers >= _LOOP_CHANGED and not (version or "").startswith("before") and (run.outstanding or 2) > 1:
        run.notes.append(
            "DiskSpd 2.2 drains completions sooner than 2.1: with more than one I/O outstanding its latencies are "
            "lower for the same storage"
        )
    if not any(one.latency_ns_mean is not None for one in run.ops):
        run.notes.append("latency was not measured: run DiskSpd with -L")
    return run


def with_rate(one: OpResult, duration_s: float | None) -> OpResult:
    """``one`` with its rates, where they are not told, from its counts."""
    if one.iops is None and one.ios is not None and duration_s:
        one.iops = one.ios / duration_s
    if one.bytes is not None and one.ios and one.iops is not None:
        # Rates per second are printed more exactly in I/Os than in MiB.
        one.bytes_per_second = one.iops * one.bytes / one.ios
    elif one.ios == 0:
        one.bytes_per_second = 0.0
    return one
