"""The options of fio's jobs, as its JSON repeats them: what the load was. Facts: fio(1)."""

import re
from collections.abc import Sequence
from typing import Any, Final

from .run import Run, real, small

_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b?)(?:/s)?\s*", re.IGNORECASE)
_SHIFT: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SYNCHRONOUS: Final = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "net", "splice"})
"""Engines that hold one I/O at a time, whatever depth is asked for."""
_SEQUENTIAL: Final = frozenset({"read", "write", "rw", "readwrite", "trim", "trimwrite"})
_SHOWN: Final = (
    "name", "filename", "directory", "ioengine", "rw", "readwrite", "bs", "bssplit", "rwmixread", "rwmixwrite",
    "iodepth", "numjobs", "rate", "rate_iops", "direct", "sync", "fsync", "fdatasync", "size", "runtime",
    "time_based", "ramp_time",
)  # fmt: skip
_TEXT_MAX: Final = 2000


def number(value: object) -> int | None:
    """A number of fio's, with its letters for powers of 1024; None where it is none."""
    found = _NUMBER.fullmatch(str(value))
    base = real(found[1]) if found else None
    if found is None or base is None or base > 1e15:
        return None
    return int(base * (1 << _SHIFT[found[2].lower()]))


def text(jobs: Sequence[dict[str, Any]]) -> str | None:
    """The options that matter, in fio's words."""
    lines = []
    for options in jobs:
        words = [f"--{key}={options[key]}" for key in _SHOWN if key in options]
        lines.append(" ".join(words))
    return " ".join(dict.fromkeys(line for line in lines if line))[:_TEXT_MAX] or None


def targets(jobs: Sequence[dict[str, Any]]) -> str | None:
    """Files and devices that were named."""
    named = [str(options.get("filename") or options.get("directory") or "") for options in jobs]
    return ", ".join(dict.fromkeys(name for name in named if name))[:_TEXT_MAX] or None


def load(run: Run, jobs: Sequence[tuple[dict[str, Any], int | None]]) -> None:
    """Set what ``run`` knows of its load, from each job's options and how many threads it stands for."""
    threads = outstanding = 0
    offered: float | None = 0.0
    for options, count in jobs:
        each = _depth(options)
        if count is None or each is None:
            run.notes.append("the options do not say how many I/Os were outstanding")
            threads = outstanding = 0
            offered = None
            break
        threads += count
        outstanding += count * each
        rate = _rate_iops(options)
        offered = None if rate is None or offered is None else offered + rate * count
    run.threads, run.outstanding = small(threads) or None, small(outstanding) or None
    run.offered_iops = offered or None
    accesses = {_access(options) for options, _ in jobs}
    run.access = accesses.pop() if len(accesses) == 1 else "mixed"
    sizes = {_size(options) for options, _ in jobs}
    run.size_bytes = sizes.pop() if len(sizes) == 1 else None


def logs(jobs: Sequence[dict[str, Any]], names: Sequence[str]) -> set[str]:
    """What the names of the logs begin with that these jobs wrote: what was asked for, else the job's name."""
    found = set()
    for options, name in zip(jobs, names, strict=True):
        for key in ("write_lat_log", "write_bw_log", "write_iops_log"):
            if key in options:
                found.add(str(options[key] or name).replace("\\", "/").rpartition("/")[2])
    return found


def _depth(options: dict[str, Any]) -> int | None:
    if str(options.get("ioengine", "")) in _SYNCHRONOUS:
        return 1
    depth = small(number(options.get("iodepth", "1")))
    # Where none is named Linux gets psync, which holds one whatever is asked for, and Windows an engine that does not.
    return depth if "ioengine" in options or depth == 1 else None


def _access(options: dict[str, Any]) -> str | None:
    kind = str(options.get("rw") or options.get("readwrite") or "read").partition(":")[0]
    if kind.startswith("rand"):
        return "mixed" if str(options.get("percentage_random", "100")).split(",")[0] != "100" else "random"
    return "sequential" if kind in _SEQUENTIAL else None


def _size(options: dict[str, Any]) -> int | None:
    """Bytes of one I/O, where all have the same: 4 KiB if nothing is said."""
    if any(key in options for key in ("bssplit", "bsrange", "blocksize_range")):
        return None
    parts = {
        number(part) for part in str(options.get("bs") or options.get("blocksize") or "4k").split(",") if part
    }
    return parts.pop() if len(parts) == 1 else None


def _rate_iops(options: dict[str, Any]) -> float | None:
    """I/Os per second that one thread is limited to, reads and writes together."""
    if "rate_iops" in options:
        return _sum(str(options["rate_iops"]), options)
    size = _size(options)
    if "rate" in options and size:
        rate = _sum(str(options["rate"]), options)
        return None if rate is None else rate / size
    return None


def _sum(told: str, options: dict[str, Any]) -> float | None:
    """A rate for reads, writes and trims: one value counts for each of them that the job does."""
    parts = [number(part) if part else 0 for part in told.split(",")]
    if any(part is None for part in parts):
        return None
    kind = str(options.get("rw") or options.get("readwrite") or "read").partition(":")[0]
    directions = [
        kind in {"read", "randread", "rw", "readwrite", "randrw"},
        kind in {"write", "randwrite", "rw", "readwrite", "randrw", "trimwrite", "randtrimwrite"},
        "trim" in kind,
    ]
    values = [part or 0 for part in parts] if len(parts) > 1 else [parts[0] or 0] * 3
    values += [0] * (3 - len(values))
    return float(sum(value for value, does in zip(values, directions, strict=False) if does)) or None
