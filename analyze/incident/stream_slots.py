"""What query ``incident_seconds`` asks, counted in native code, which takes a third of the time.

The order of the I/Os does not matter, so threads share the row groups, and what they counted is added up.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from iotrace.analyze._tally import StreamSlots
from iotrace.analyze.describe.streams import Stream
from iotrace.analyze.rows import LAYERS, OPS, RowGroup, count_in_threads, decode, readable, row_groups
from iotrace.schemas import Layer, Op, Recording

_COLUMNS: Final = ("op", "issued_ns", "completed_ns", "size_bytes", "device_id", "file_id", "error")
_COUNTS: Final = (
    "slot", "io_count", "size_bytes", "ended_count", "measured_count", "latency_sum_ns", "begun_count", "in_flight_ns",
    "waiting_count", "waiting_sum_ns", "waiting_in_flight_ns",
)  # fmt: skip
_LOGS: Final = ("log_latency_sum", "log_latency_square_sum", "waiting_log_sum", "waiting_log_square_sum")


def stream_slots(
    recording: Recording,
    streams: Sequence[Stream],
    span_ns: tuple[int, int],
    slot_ns: int,
    *,
    kept_files: Sequence[int],
    longest_slots: int,
) -> pa.Table:
    """As query ``incident_seconds``, in another order; ``streams`` names every combination that occurs.

    Raises `IotraceError` if the I/Os cannot be read.
    """
    kept = set(kept_files)
    group_of = {
        one: (one.layer, one.device_id, one.file_id if one.file_id in kept else None, one.role, one.op)
        for one in streams
    }
    groups = list(dict.fromkeys(group_of.values()))
    numbers = {group: number for number, group in enumerate(groups)}
    numbered = [
        (
            LAYERS.index(Layer(one.layer)),
            OPS.index(Op(one.op)),
            one.device_id,
            one.file_id,
            numbers[group_of[one]],
        )
        for one in streams
    ]
    columns = [*_COLUMNS, *(["layer"] if len({one.layer for one in streams}) > 1 else [])]
    columns += ["intended_ns"] if recording.manifest.is_played else []

    def count(row_groups: Iterator[RowGroup]) -> StreamSlots:
        found = StreamSlots(numbered, span_ns=span_ns, slot_ns=slot_ns, longest_slots=longest_slots)
        for one in row_groups:
            found.add(**decode(one.read()))
        return found

    with readable(recording):
        first, *others = count_in_threads(row_groups(recording, columns), count)
    for other in others:
        first.merge(other)
    counts, logs = first.cells()
    cells = np.frombuffer(counts, np.int64).reshape(-1, 1 + len(_COUNTS))
    sums = np.frombuffer(logs, np.float64).reshape(-1, len(_LOGS))
    keys = pa.table(
        {
            "layer": pa.array([group[0] for group in groups], pa.string()),
            "device_id": pa.array([group[1] for group in groups], pa.int32()),
            "file_id": pa.array([group[2] for group in groups], pa.int32()),
            "role": pa.array([group[3] for group in groups], pa.string()),
            "op": pa.array([group[4] for group in groups], pa.string()),
        }
    ).take(pa.array(cells[:, 0]))
    for place, name in enumerate(_COUNTS, 1):
        keys = keys.append_column(name, pa.array(np.ascontiguousarray(cells[:, place])))
    for place, name in enumerate(_LOGS):
        keys = keys.append_column(name, pa.array(np.ascontiguousarray(sums[:, place])))
    return keys
