"""VMware vSCSI traces (binary): SCSI commands of virtual disks; version 1 without, version 2 with response times.

Record fields, little-endian, as readers of the CloudPhysics traces publish them: version 1 has serial number, length in
bytes, scatter-gather entries, command, version, block, time; version 2 has command and version first and adds a
response time. Times are microseconds since the host's start, blocks 512 bytes. One file is one virtual disk.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.capture.formats.format import Format, Outcome, Progress, naming, undated
from iotrace.capture.formats.io_lines import (
    DISCARD,
    FLUSH,
    NO_LATENCIES,
    READ,
    WRITE,
    IoRowMaker,
    Rows,
    bytes_of_sectors,
)
from iotrace.schemas import Clock, counted
from iotrace.schemas.host import Host

_VERSION_1: Final = np.dtype(
    [
        ("number", "<u4"),
        ("bytes", "<u4"),
        ("segments", "<u4"),
        ("command", "<u2"),
        ("version", "<u2"),
        ("block", "<u8"),
        ("at_us", "<u8"),
    ]
)
_VERSION_2: Final = np.dtype(
    [
        ("command", "<u2"),
        ("version", "<u2"),
        ("number", "<u4"),
        ("bytes", "<u4"),
        ("segments", "<u4"),
        ("block", "<u8"),
        ("at_us", "<u8"),
        ("response_us", "<u8"),
    ]
)
_BATCH_ROWS: Final = 1 << 19
# SCSI block commands, SBC-4: READ/WRITE (6), (10), (12), (16), SYNCHRONIZE CACHE (10), (16), UNMAP.
_OPS: Final = {
    **dict.fromkeys((0x08, 0x28, 0xA8, 0x88), READ),
    **dict.fromkeys((0x0A, 0x2A, 0xAA, 0x8A), WRITE),
    **dict.fromkeys((0x35, 0x91), FLUSH),
    0x42: DISCARD,
}


def _record(head: bytes) -> np.dtype[Any] | None:
    """The form of the records, told by the version and a known command in each of the first few."""
    for number, dtype in ((1, _VERSION_1), (2, _VERSION_2)):
        count = min(len(head) // dtype.itemsize, 16)
        records = np.frombuffer(head, dtype, count)
        if count and (records["version"] >> 8 == number).all() and (records["command"] < 256).all():
            return dtype
    return None


def _recognises(head: bytes, _path: Path) -> bool:
    return _record(head) is not None


def _read(path: Path, name: str, progress: Progress) -> "VscsiTrace":
    return VscsiTrace(path, name, progress)


def _inspect(path: Path, name: str) -> dict[str, Any]:
    with naming(name), path.open("rb") as file:
        dtype = _record(file.read(1024))
        size = path.stat().st_size
    record_bytes = dtype.itemsize if dtype is not None else 1
    return {
        "format": "vscsi",
        "bytes": size,
        "version": 2 if dtype == _VERSION_2 else 1,
        "records": size // record_bytes,
        "whole": size % record_bytes == 0,
    }


class VscsiTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress) -> None:
        self._path, self._name, self._progress = path, name, progress
        with naming(name), path.open("rb") as file:
            head = file.read(1024)
        dtype = _record(head)
        assert dtype is not None
        self._dtype = dtype
        (first,) = struct.unpack_from("<q", head, dtype.fields["at_us"][1])  # type: ignore[index]
        self._maker = IoRowMaker(max(first, 0), 1000, "block")
        self._other = 0
        self._cut = False
        self.clock = Clock(0, 1000.0, "VMware vSCSI trace, microseconds since the host's start")
        self.host = Host()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """One device, and its I/Os in the file's order."""
        width = self._dtype.itemsize
        done = 0
        with naming(self._name), self._path.open("rb") as file:
            total = self._path.stat().st_size
            while data := file.read(width * _BATCH_ROWS):
                done += len(data)
                self._cut |= len(data) % width != 0
                records = np.frombuffer(data, self._dtype, len(data) // width)
                self._progress(f"reading {self._name}", done, total)
                yield from self._maker.batches(self._rows(records))

    def outcome(self) -> Outcome:
        """The window runs from the first command to the last."""
        maker = self._maker
        quality = maker.quality()
        quality.truncated_tail = self._cut
        quality.notes = [undated("I/O")]
        if self._dtype == _VERSION_1:
            quality.notes.append(NO_LATENCIES)
        if self._cut:
            quality.notes.append("the last record is cut short and left out")
        if maker.rejected:
            quality.notes.append(f"{counted(maker.rejected, 'record')} left out that cannot be")
        if self._other:
            quality.notes.append(f"{counted(self._other, 'command')} left out that moved no data")
        return Outcome(maker.start_ns, maker.end_ns, quality, maker.kept + maker.rejected + self._other)

    def _rows(self, records: np.ndarray) -> Rows:
        codes = np.full(1 << 16, -1, np.int64)
        codes[list(_OPS)] = list(_OPS.values())
        op = codes[records["command"]]
        known = op >= 0
        self._other += int((~known).sum())
        records, op = records[known], op[known]
        blocks = np.minimum(records["block"], 1 << 60).astype(np.int64)
        offset, possible = bytes_of_sectors(blocks)
        valid = possible & (records["at_us"] < 1 << 52) & (records["version"] == self._version(records))
        response = None
        if "response_us" in (self._dtype.names or ()):
            response = np.minimum(records["response_us"], 1 << 50).astype(np.int64) * 1000
        size = np.where(np.isin(op, [FLUSH]), 0, records["bytes"]).astype(np.int64)
        at = np.minimum(records["at_us"], 1 << 52).astype(np.int64)
        device = pa.repeat(pa.scalar("virtual disk"), len(records))
        return Rows(valid, at, op, offset, size, device, response)

    def _version(self, records: np.ndarray) -> np.ndarray:
        number = 2 if self._dtype == _VERSION_2 else 1
        return np.where(records["version"] >> 8 == number, records["version"], 0)


FORMAT: Final = Format("vscsi", _recognises, _read, _inspect)
