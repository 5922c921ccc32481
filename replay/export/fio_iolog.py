"""A fio iolog, version 3: every I/O with its time; fio(1), "Trace file format v3".

A line is ``time file action [offset length]``. fio reads and writes the time in microseconds (its manual names no
unit). Version 3 came with fio 3.31.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.addresses import AddressMap, Stretches, compact_bytes, lay_out, slot_of
from iotrace.replay.plan.rows import Rows
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.source import Source
from iotrace.replay.plan.survey import Survey, survey
from iotrace.schemas import IotraceError

from .places import Region
from .workload import SECTOR_BYTES, Workload, group_names

_PATH_BYTES_MAX = 255
FIO_VERSIONS = (
    "fio's own replay distorts time in every version that reads this log (3.31 and later): the time a submission "
    "takes is not taken off the next wait, so that delays add up (axboe/fio#1537, #1560; the fix proposed in #1540 "
    "is not merged). With 3.33 replays were 4 to 46 % too long here. Before 3.36 completions are not looked for "
    "while it waits, so latencies with more than one I/O in flight come out far too high (fixed by #1600). Judge "
    "storage by iotrace replay, and use this log to see whether fio can do the same I/O at all."
)
"""For the user. Issue numbers are those of axboe/fio."""


@dataclass(frozen=True, slots=True)
class Iolog:
    """What was written."""

    ios: int
    bytes_by_path: Mapping[str, int]
    """How large each target has to be."""


def write_iolog(
    workload: Workload,
    regions: Mapping[str, Region],
    file: IO[bytes],
    progress: Callable[[int], None] | None = None,
) -> Iolog:
    """Write every read, write and flush of the workload; addresses are packed densely, in order, into each target.

    Two passes of the recording; memory does not grow with the number of I/Os. ``progress`` is told the I/Os seen.
    """
    options = ReplayOptions(layer=workload.layer, window_ns=workload.window_ns)
    source = Source.open(workload.recording, select(workload.recording, options), file_by_file=True)
    found = survey(source)
    groups = group_names(workload.recording, source)
    path_of = {space: _path(groups.get(space), regions) for space in found.spaces}
    paths = sorted(set(path_of.values()))
    addresses, needed = _addresses(found, path_of, paths)
    file.write(b"fio version 3 iolog\n")
    file.writelines(f"0 {path} {action}\n".encode() for path in paths for action in ("add", "open"))
    start_ns = workload.window_ns[0] if workload.window_ns else found.first_ns
    spaces = np.array(sorted(path_of), np.int64)
    number_of = {path: number for number, path in enumerate(paths)}
    path_numbers = np.array([number_of[path_of[space]] for space in spaces.tolist()], np.int64)
    seen = 0
    for rows in source.rows(columns=()):
        numbers = path_numbers[np.searchsorted(spaces, rows.space)]
        _write(
            file,
            rows,
            (rows.at_ns - start_ns) // 1000,
            paths,
            numbers,
            _placed(rows, found, numbers, addresses),
        )
        seen += len(rows)
        if progress is not None:
            progress(seen)
    last_us = (found.last_ns - start_ns) // 1000
    file.writelines(f"{last_us} {path} close\n".encode() for path in paths)
    return Iolog(found.ios, needed)


def _path(group: str | None, regions: Mapping[str, Region]) -> str:
    """The target of a group; what no other class of the export goes to goes to the first."""
    region = regions.get(group or "", next(iter(regions.values())))
    if len(region.path.encode()) > _PATH_BYTES_MAX:
        raise IotraceError(
            f"'{region.path}' is too long for an iolog, of which fio reads {_PATH_BYTES_MAX} bytes",
            hint="choose another --target, or --no-iolog",
        )
    if any(char.isspace() for char in region.path):
        raise IotraceError(
            f"'{region.path}' has a space in it, which an iolog cannot hold",
            hint="choose another --target, or --no-iolog",
        )
    return region.path


def _addresses(
    found: Survey, path_of: Mapping[int, str], paths: list[str]
) -> tuple[AddressMap, dict[str, int]]:
    slots = slot_of(found.starts)
    order = np.argsort(slots, kind="stable")
    borders = np.searchsorted(slots[order], np.arange(1, len(found.slots.ids)))
    on_path: dict[str, list[Stretches]] = {path: [] for path in paths}
    for slot, (space, mine) in enumerate(zip(found.slots.ids, np.split(order, borders), strict=True)):
        on_path[path_of[space]].append(Stretches(space, slot, found.starts[mine], found.ends[mine]))
    layouts, needed = [], {}
    for path, stretches in on_path.items():
        needed[path] = compact_bytes(stretches)
        layouts.append(lay_out(stretches, needed[path], path, mode="compact", block_bytes=SECTOR_BYTES))
    return AddressMap.of(layouts, [SECTOR_BYTES] * len(paths)), needed


def _placed(
    rows: Rows, found: Survey, numbers: npt.NDArray[np.int64], addresses: AddressMap
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    offset, size = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    moves = np.flatnonzero(rows.transfers)
    if len(moves):
        slot = found.slots.of(rows.space[moves])
        copy = np.zeros(len(moves), np.int64)
        offset[moves], size[moves], _ = addresses.map(
            slot, numbers[moves], copy, rows.offset_bytes[moves], rows.size_bytes[moves]
        )
    return offset, size


def _write(
    file: IO[bytes],
    rows: Rows,
    at_us: npt.NDArray[np.int64],
    paths: list[str],
    numbers: npt.NDArray[np.int64],
    placed: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
) -> None:
    words = pa.array(["read", "write", "datasync"]).take(pa.array(rows.op))
    names = pa.array(paths, pa.string()).take(pa.array(numbers))
    columns = [
        pa.array(at_us).cast(pa.string()),
        names,
        words,
        *(pa.array(one).cast(pa.string()) for one in placed),
    ]
    # An I/O line of version 3 has five fields; fio ignores the last two of a sync. Discards are not selected.
    lines = pc.binary_join_element_wise(*columns, " ")
    file.write("\n".join(lines.to_pylist()).encode())
    file.write(b"\n")


def replay_job(needed: Mapping[str, int], ios: int) -> str:
    """The job file that plays the log."""
    lines = [
        *(f"# needs {path}: {size} bytes" for path, size in needed.items()),
        "[global]",
        "# io_uring on newer kernels; windowsaio on Windows",
        "ioengine=libaio",
        "direct=1",
        "thread=1",
        "",
        "[replay]",
        "read_iolog=replay.iolog",
        "iodepth=256",
    ]
    if ios > 1_000_000:
        lines.append("read_iolog_chunked=1")
    return "\n".join(lines) + "\n"
