"""What the queries ``class_latency``, ``class_slots``, ``doubling_slots`` and ``layer_slots`` ask, in native code.

The order of the I/Os does not matter, so threads share the row groups; each counts by itself, and the tables they come
to are added up by whoever reads them. `LatencyCount` and `LayerCount` take rows that another pass reads anyway. The
queries say what the columns mean.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from iotrace.analyze._tally import Classes, LayerSlots
from iotrace.analyze.rows import (
    LAYERS,
    OPS,
    Columns,
    RowGroup,
    count_in_threads,
    decode,
    readable,
    row_groups,
)
from iotrace.schemas import Layer, Recording
from iotrace.schemas.arrays import Int64s
from iotrace.schemas.vocabulary import UNATTRIBUTED

_SIZE_CLASSES_BYTES: Final = (*(4096 << doublings for doublings in range(9)), 0)
_COLUMNS: Final = ("op", "issued_ns", "completed_ns", "size_bytes", "file_id")
_COLUMNS_MAYBE: Final = ("layer", "error", "intended_ns")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which I/Os count, by which of their latencies, and whether the roles of their files are told apart."""

    layer: str
    metric: str
    span_ns: tuple[int, int]
    with_roles: bool
    is_only_layer: bool = False
    """Whether the recording has no other layer."""
    has_errors: bool = True
    """Whether any of its I/Os failed."""


class Courses(NamedTuple):
    """The course of latencies over slots of time, as queries ``class_slots`` and ``doubling_slots`` tell it."""

    classes: pa.Table
    doublings: pa.Table


def class_latency(recording: Recording, chosen: Chosen) -> pa.Table:
    """As query ``class_latency``, but that a bucket may have several rows, and the sum stands in one of a class's.

    Raises `IotraceError` if the I/Os cannot be read.
    """
    roles = _Roles(recording, chosen)
    return roles.latency_table([tally.histogram() for tally in _counted(recording, chosen, roles)])


class LatencyCount:
    """`class_latency` of rows that are given piece by piece."""

    def __init__(self, recording: Recording, chosen: Chosen) -> None:
        self._roles = _Roles(recording, chosen)
        self._tally = _classes(chosen, self._roles)
        self._names = {*_COLUMNS, *_COLUMNS_MAYBE}

    def add(self, columns: Columns) -> None:
        """Take in rows as `rows.pieces` gives them; without ``layer`` or ``error`` there is one, and no failure."""
        self._tally.add(**{name: column for name, column in columns.items() if name in self._names})

    def table(self) -> pa.Table:
        """As `class_latency`."""
        return self._roles.latency_table([self._tally.histogram()])


class LayerCount:
    """As query ``layer_slots``, of rows that are given piece by piece."""

    def __init__(self, only_layer: str, span_ns: tuple[int, int], slot_ns: int) -> None:
        """``only_layer`` is that of rows that do not say theirs."""
        self._tally = LayerSlots(LAYERS.index(Layer(only_layer)), span_ns, slot_ns)
        self._names = {"layer", "op", "issued_ns", "completed_ns", "error"}

    def add(self, columns: Columns) -> None:
        """Take in rows as `rows.pieces` gives them."""
        self._tally.add(**{name: column for name, column in columns.items() if name in self._names})

    def table(self) -> pa.Table:
        """What each layer and operation has in each slot, where anything is."""
        rows = np.frombuffer(self._tally.slots(), np.int64).reshape(-1, 5)
        words = (
            pa.array([one.value for one in known], pa.string()).take(pa.array(rows[:, place]))
            for place, known in enumerate((LAYERS, OPS))
        )
        names = ("slot", "io_count", "latency_sum_ns")
        return pa.table(
            dict(zip(("layer", "op"), words, strict=True))
            | {name: rows[:, place] for place, name in enumerate(names, 2)}
        )


def class_slots(
    recording: Recording, chosen: Chosen, slot_ns: int, slots: int, classes: Sequence[dict[str, Any]]
) -> Courses:
    """As queries ``class_slots`` and ``doubling_slots``, but that there may be several rows of the same.

    A replay that starts a moment late, or ends one, has I/Os just outside the ``slots`` of what it replays: they count
    in the first or the last. Raises `IotraceError` if the I/Os cannot be read.
    """
    roles = _Roles(recording, chosen)
    number_of = {roles.number(one): one["class_key"] for one in classes}
    limits = [(roles.number(one), [*one["limits_ns"], *one["op_limits_ns"]]) for one in classes]
    tallies = _counted(recording, chosen, roles, slots=(chosen.span_ns[0], slot_ns, slots), limits_ns=limits)
    rows = np.frombuffer(b"".join(tally.course() for tally in tallies), np.int64).reshape(-1, 10)
    keys = np.array([number_of[number] for number in rows[:, 0].tolist()], np.int64)
    below = [
        pa.FixedSizeListArray.from_arrays(rows[:, part].ravel(), 3) for part in (slice(4, 7), slice(7, 10))
    ]
    counted = pa.table(
        {
            "class_key": keys,
            "slot": rows[:, 1],
            "io_count": rows[:, 2],
            "latency_sum_ns": rows[:, 3],
            "below_class_count": below[0],
            "below_op_count": below[1],
        }
    )
    rows = np.frombuffer(b"".join(tally.doublings() for tally in tallies), np.int64).reshape(-1, 4)
    ops = pa.array([one.value for one in OPS], pa.string()).take(pa.array(rows[:, 0]))
    names = ("slot", "latency_bits", "io_count")
    doublings = {name: rows[:, place] for place, name in enumerate(names, 1)}
    return Courses(counted, pa.table({"op": ops} | doublings))


class _Roles:
    """Numbers the roles of files, and with them the classes."""

    def __init__(self, recording: Recording, chosen: Chosen) -> None:
        files = recording.read("files", ["file_id", "role"]).to_pylist() if chosen.with_roles else []
        known = [(row["file_id"], row["role"]) for row in files if row["role"] is not None]
        self.names = [UNATTRIBUTED, *sorted({role for _, role in known} - {UNATTRIBUTED})]
        self.of_files = [(file_id, self.names.index(role)) for file_id, role in known]

    def number(self, one: dict[str, Any]) -> int:
        """The number of a class that is given by its role, operation and size."""
        op, role = OPS.index(one["op"]), self.names.index(one["role"])
        size = _SIZE_CLASSES_BYTES.index(one["size_class_bytes"])
        return (op * len(self.names) + role) * len(_SIZE_CLASSES_BYTES) + size

    def classes(self, numbers: Int64s) -> tuple[pa.Array, pa.Array, Int64s]:
        """Role, operation and size of numbered classes."""
        rest, size = np.divmod(numbers, len(_SIZE_CLASSES_BYTES))
        op, role = np.divmod(rest, len(self.names))
        words = (
            pa.array(names).take(pa.array(places))
            for names, places in ((self.names, role), ([one.value for one in OPS], op))
        )
        return *words, np.array(_SIZE_CLASSES_BYTES, np.int64)[size]

    def latency_table(self, histograms: Sequence[bytes]) -> pa.Table:
        """The table of what `Classes.histogram` gave."""
        rows = np.frombuffer(b"".join(histograms), np.int64).reshape(-1, 4)
        role, op, size = self.classes(rows[:, 0])
        names = ("bucket_ns", "io_count", "latency_sum_ns")
        return pa.table(
            {"role": role, "op": op, "size_class_bytes": size}
            | {name: rows[:, place] for place, name in enumerate(names, 1)}
        )


def _classes(chosen: Chosen, roles: _Roles, **course: Any) -> Classes:  # noqa: ANN401 (as Classes takes it)
    return Classes(
        roles.of_files,
        len(roles.names),
        layer=LAYERS.index(Layer(chosen.layer)),
        is_response=chosen.metric == "response",
        span_ns=chosen.span_ns,
        **course,
    )


def _counted(
    recording: Recording,
    chosen: Chosen,
    roles: _Roles,
    **course: Any,  # noqa: ANN401 (as Classes takes it)
) -> list[Classes]:
    columns = [
        *_COLUMNS,
        *([] if chosen.is_only_layer else ["layer"]),
        *(["error"] if chosen.has_errors else []),
    ]
    columns += ["intended_ns"] if recording.manifest.is_played else []
    first_ns, end_ns = chosen.span_ns

    def count(groups: Iterator[RowGroup]) -> Classes:
        tally = _classes(chosen, roles, **course)
        for group in groups:
            tally.add(**decode(group.read()))
        return tally

    with readable(recording):
        within = [
            one for one in row_groups(recording, columns) if one.last_ns >= first_ns and one.first_ns < end_ns
        ]
        return count_in_threads(within, count)
