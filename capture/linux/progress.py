"""What a recording in progress tells about itself, about once a second."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_BLOCK, _READ, _WRITE = 2, 0, 1  # positions in the word lists layer and op


class ProgressMeter:
    """Sums since the last report; each I/O is counted once, on the block layer."""

    def __init__(self) -> None:
        self._ios = 0
        self._last_ns = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows of ``io`` as `BlockTrace.read` returns them."""
        if batch.num_rows:
            self._batches.append(batch.select(["layer", "op", "issued_ns", "completed_ns", "size_bytes"]))

    def report(self, at_ns: int, counts: dict[str, int], size_bytes: int) -> dict[str, Any]:
        """Elapsed time, I/Os so far, and rates and mean latency since the last report (None without I/O).

        Keys: ``elapsed_ns``, ``ios``, ``read_iops``, ``write_iops``, ``bytes_per_second``, ``latency_ns_mean``,
        ``events_lost``, ``size_bytes`` (of the recording on disk so far).
        """
        seconds = max(at_ns - self._last_ns, 1) / 1e9
        self._last_ns = at_ns
        ios = pa.Table.from_batches(self._batches) if self._batches else None
        self._batches = []
        report: dict[str, Any] = {
            "elapsed_ns": at_ns, "ios": self._ios, "read_iops": 0.0, "write_iops": 0.0, "bytes_per_second": 0.0,
            "latency_ns_mean": None, "events_lost": counts["events_lost"], "size_bytes": size_bytes,
        }  # fmt: skip
        if ios is None:
            return report
        ios = ios.filter(pc.equal(ios["layer"], _BLOCK))
        self._ios += ios.num_rows
        ops = {entry["values"]: entry["counts"] for entry in pc.value_counts(ios["op"]).to_pylist()}
        return report | {
            "ios": self._ios,
            "read_iops": ops.get(_READ, 0) / seconds,
            "write_iops": ops.get(_WRITE, 0) / seconds,
            "bytes_per_second": (pc.sum(ios["size_bytes"]).as_py() or 0) / seconds,
            "latency_ns_mean": pc.mean(pc.subtract(ios["completed_ns"], ios["issued_ns"])).as_py(),
        }
