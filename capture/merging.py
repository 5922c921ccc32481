"""Several traces on one clock: times shifted, ids re-keyed, and what they share made one."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.schemas import Quality

from .formats.format import Outcome

_MOMENTS: Final = frozenset({"intended_ns", "issued_ns", "completed_ns", "started_ns", "ended_ns", "at_ns"})
_OWN_KEYS: Final = {"devices": "device_id", "files": "file_id", "processes": "process_id"}
_REFERENCES: Final = {
    "device_id": "devices",
    "parent_device_id": "devices",
    "file_id": "files",
    "process_id": "processes",
}

_OVERLAP_SHARE: Final = 0.05

_Identity = tuple[Any, ...]


class Merger:
    """Hands out the recording's ids. Two traces of one host, known by its boot, share disks, files and processes."""

    def __init__(self) -> None:
        self._hosts: list[_Identity] = []
        self.known: dict[str, dict[_Identity, int]] = {name: {} for name in _OWN_KEYS}
        self.next_id = dict.fromkeys(_OWN_KEYS, 0)

    def trace(self, host: dict[str, Any], shift_ns: int) -> "TraceMerger":
        """Begin with another trace, whose times grow by ``shift_ns``."""
        boot = host.get("boot_utc_ns")
        # A trace that does not tell its boot shares nothing.
        identity = (boot, host.get("os"), host.get("processors")) if boot else (object(),)
        return TraceMerger(self, identity, shift_ns)


class TraceMerger:
    """Brings the batches of one trace into the recording."""

    def __init__(self, merger: Merger, host: _Identity, shift_ns: int) -> None:
        self._merger, self._host, self._shift_ns = merger, host, shift_ns
        self._ids: dict[str, list[int]] = {name: [] for name in _OWN_KEYS}
        self._seen: set[tuple[str, int]] = set()

    def rekey(self, table_name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of ``batch`` with the recording's times and ids, without those that an earlier trace brought already."""
        is_new: list[bool] | None = None
        if table_name in _OWN_KEYS:
            is_new = self._identify(table_name, batch)
        columns = [self._column(name, batch.column(name)) for name in batch.schema.names]
        result = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        return result if is_new is None else result.filter(pa.array(is_new, pa.bool_()))

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        if name in _MOMENTS:
            return pc.add_checked(column, pa.scalar(self._shift_ns, pa.int64())) if self._shift_ns else column
        if name in _REFERENCES:
            return pc.take(pa.array(self._ids[_REFERENCES[name]], pa.int32()), column)
        return column

    def _identify(self, table_name: str, batch: pa.RecordBatch) -> list[bool]:
        known, ids = self._merger.known[table_name], self._ids[table_name]
        is_new = []
        for row in batch.to_pylist():
            identity = (self._host, *self._identity(table_name, row))
            key = known.get(identity)
            # Within one trace equal rows are different things: its reader knows them apart.
            is_new.append(key is None or (table_name, key) in self._seen)
            if is_new[-1]:
                key = self._merger.next_id[table_name]
                self._merger.next_id[table_name] += 1
                known[identity] = key
            assert key is not None
            self._seen.add((table_name, key))
            ids.append(key)
        return is_new

    def _identity(self, table_name: str, row: dict[str, Any]) -> _Identity:
        if table_name == "devices":
            return row["name"], row["kind"], row["start_bytes"], row["size_bytes"], row["model"]
        if table_name == "files":
            return (row["path"],)
        started_ns = row["started_ns"]
        # A process that starts in this trace is no process of an earlier one.
        moment = None if started_ns is None else started_ns + self._shift_ns
        return row["os_process_id"], row["name"], row["command_line"], moment


def merge_quality(outcomes: list[tuple[str, int, Outcome]], with_io: set[str]) -> Quality:
    """One quality for all traces: counts added up, notes naming the trace where there are several.

    ``with_io`` are the names of those that brought I/Os, which overlapping traces of one host bring twice.
    """
    merged = Quality()
    for name, _, outcome in outcomes:
        quality = outcome.quality
        for count in (
            "events_lost",
            "buffers_lost",
            "sequence_holes",
            "unpaired_issues",
            "unpaired_completions",
            "latencies_dropped",
            "clock_steps",
            "damaged_buffers",
        ):
            setattr(merged, count, getattr(merged, count) + getattr(quality, count))
        merged.truncated_tail |= quality.truncated_tail
        if merged.ended == "normally":
            merged.ended = quality.ended
        merged.notes += [note if len(outcomes) == 1 else f"{name}: {note}" for note in quality.notes]
    merged.notes += _overlaps([entry for entry in outcomes if entry[0] in with_io])
    return merged


def _overlaps(outcomes: list[tuple[str, int, Outcome]]) -> Iterator[str]:
    spans = sorted(
        (shift + outcome.window_start_ns, shift + outcome.window_end_ns, name)
        for name, shift, outcome in outcomes
    )
    for (begin_ns, end_ns, name), (start_ns, last_ns, other) in pairwise(spans):
        # Files that a session rolled over into overlap by what was in its buffers.
        shorter_ns = min(end_ns - begin_ns, last_ns - start_ns)
        if min(end_ns, last_ns) - start_ns > _OVERLAP_SHARE * shorter_ns:
            yield f"{name} and {other} overlap in time: if both are of one host, its I/O counts twice"
