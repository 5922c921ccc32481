"""What sysstat's columns of a disk mean: those of ``iostat``, ``iostat -x``, ``sar -d`` and ``sadf``, versions 9 to 12.

Units: the manual pages of sysstat, and its sources where those are silent: kB and MB are 1024 and 1024², a sector and a
block are 512 bytes. ``svctm`` is left out: the manual itself says not to trust it, and it is gone since 12.1.
"""

import re
import sys
from typing import Final

from iotrace.capture.counters.names import METRICS, Meaning

_KIB, _MIB, _SECTOR, _MS = 1024.0, 1024.0**2, 512.0, 1e6


def _metric(name: str, factor: float = 1.0) -> Meaning:
    return Meaning(METRICS[name][0], "block", name, factor, is_instant=False)


def _plain(unit: str, factor: float = 1.0) -> Meaning:
    return Meaning(unit, "block", None, factor, is_instant=False)


COLUMNS: Final[dict[str, Meaning]] = {
    "r/s": _metric("read_iops"),
    "w/s": _metric("write_iops"),
    "tps": _metric("iops"),
    "d/s": _plain("1/s"),
    "f/s": _plain("1/s"),
    "rrqm/s": _plain("1/s"),
    "wrqm/s": _plain("1/s"),
    "drqm/s": _plain("1/s"),
    "rkB/s": _metric("read_bytes_per_second", _KIB),
    "wkB/s": _metric("write_bytes_per_second", _KIB),
    "dkB/s": _plain("bytes/s", _KIB),
    "rMB/s": _metric("read_bytes_per_second", _MIB),
    "wMB/s": _metric("write_bytes_per_second", _MIB),
    "dMB/s": _plain("bytes/s", _MIB),
    "rsec/s": _metric("read_bytes_per_second", _SECTOR),
    "wsec/s": _metric("write_bytes_per_second", _SECTOR),
    "rd_sec/s": _metric("read_bytes_per_second", _SECTOR),
    "wr_sec/s": _metric("write_bytes_per_second", _SECTOR),
    "kB_read/s": _metric("read_bytes_per_second", _KIB),
    "kB_wrtn/s": _metric("write_bytes_per_second", _KIB),
    "MB_read/s": _metric("read_bytes_per_second", _MIB),
    "MB_wrtn/s": _metric("write_bytes_per_second", _MIB),
    "kB_dscd/s": _plain("bytes/s", _KIB),
    "MB_dscd/s": _plain("bytes/s", _MIB),
    "Blk_read/s": _metric("read_bytes_per_second", _SECTOR),
    "Blk_wrtn/s": _metric("write_bytes_per_second", _SECTOR),
    "r_await": _metric("read_latency_ns", _MS),
    "w_await": _metric("write_latency_ns", _MS),
    "await": _metric("latency_ns", _MS),
    "d_await": _plain("ns", _MS),
    "f_await": _plain("ns", _MS),
    "rareq-sz": _metric("read_size_bytes", _KIB),
    "wareq-sz": _metric("write_size_bytes", _KIB),
    "dareq-sz": _plain("bytes", _KIB),
    "areq-sz": _metric("size_bytes", _KIB),
    "avgrq-sz": _metric("size_bytes", _SECTOR),
    "aqu-sz": _metric("queue_length"),
    "avgqu-sz": _metric("queue_length"),
    "%util": _metric("busy_percent"),
}
"""Columns that are kept. Others (shares, totals since boot) follow from these or tell nothing of an interval."""

_IN_JSON: Final = {
    "util": "%util",
    "util-percent": "%util",
    "rd_sec": "rd_sec/s",
    "wr_sec": "wr_sec/s",
    "rkB": "rkB/s",
    "wkB": "wkB/s",
    "dkB": "dkB/s",
}
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:[.,]\d{1,9})?")


def column_of(name: str) -> str | None:
    """The column that a header or a key of JSON names; None for those that are not kept."""
    name = _IN_JSON.get(name, name)
    return name if name in COLUMNS else None


def number(text: object) -> float | None:
    """A cell's number, with a point or a comma; None for what is none, as with units behind it (``iostat -h``)."""
    if isinstance(text, int | float):
        return float(text) if abs(text) <= sys.float_info.max else None
    word = str(text).strip()
    return float(word.replace(",", ".")) if _NUMBER.fullmatch(word) else None
