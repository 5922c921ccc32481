"""The pass over the rows in order of time, into the native tally; what comes next is read meanwhile."""

from collections.abc import Callable
from collections.abc import Sequence as Listed
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from iotrace.analyze._tally import Tally
from iotrace.analyze.rows import Columns, pieces, readable
from iotrace.schemas import Layer, Op, Recording
from iotrace.schemas.units import SECOND_NS

from .figures import Measured
from .streams import Numbering, Stream

SLICES_MAX: Final = 30
ROOM_BYTES: Final = 1 << 30
"""What notes on touched blocks may take; beyond, blocks are made larger."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked: the layer load is counted at, the window, the metrics, and whether anything failed."""

    layer: str
    window_ns: tuple[int, int]
    metrics: tuple[str, ...]
    has_errors: bool
    span_ns: tuple[int, int] | None = None
    """Only what was issued in it counts, if it is given; its end is not included."""
    is_work_only: bool = False
    """Whether only footprint, sequences and the arrivals of all I/Os are asked for; other figures are 0 then."""


def measure(
    connection: duckdb.DuckDBPyConnection,
    recording: Recording,
    streams: Listed[Stream],
    subject: Subject,
    beside: Listed[Callable[[Columns], None]] = (),
) -> Measured:
    """Pass over the recording attached to ``connection``; ``streams`` names every combination that occurs.

    I/Os in flight are counted inside the window, those that were in flight when it began included. ``beside`` take the
    same rows, all that the recording has. Raises `IotraceError` for damaged data.
    """
    numbering = Numbering(streams, subject.layer)
    borders_ns = _slices(subject.window_ns)
    tally = Tally(
        list(numbering.rows()),
        metrics=list(subject.metrics),
        window_ns=subject.window_ns,
        cuts_ns=borders_ns[1:-1],
        room_bytes=ROOM_BYTES,
        is_work_only=subject.is_work_only,
    )
    columns = [] if len({stream.layer for stream in streams}) <= 1 else ["layer"]
    columns += ["error"] if subject.has_errors else []
    columns += ["intended_ns"] if set(subject.metrics) - {"service"} else []
    with readable(recording), ThreadPoolExecutor(1) as pool:
        for piece, until_ns in pieces(recording, connection, columns):
            counted = [pool.submit(add, piece) for add in beside]
            tally.add(**(piece if subject.span_ns is None else _within(piece, subject.span_ns)))
            tally.advance(until_ns)
            for one in counted:
                one.result()
        tally.finish()
    resolution_ns = recording.manifest.clock.resolution_ns
    return Measured(tally, numbering, subject.window_ns, borders_ns, resolution_ns)


def _within(piece: Columns, span_ns: tuple[int, int]) -> Columns:
    issued_ns = piece["issued_ns"]
    inside = (issued_ns >= span_ns[0]) & (issued_ns < span_ns[1])
    if inside.all():
        return piece
    found = {name: column[inside] for name, column in piece.items()}
    for column in found.values():
        column.flags.writeable = False
    return found


def streams_of(recording: Recording, ask: Callable[..., pa.Table]) -> list[Stream]:
    """Every combination of layer, device, file, role and operation; ``ask`` is `library.run` on ``recording``.

    Raises `IotraceError` for a layer or an operation that nobody knows.
    """
    streams = [
        Stream(layer, row["device_id"], row["file_id"], row["role"], row["op"])
        for layer in ask("layers")["layer"].to_pylist()
        for row in ask("streams", layer=layer).to_pylist()
    ]
    with readable(recording):
        for one in streams:
            Layer(one.layer)
            Op(one.op)
    return streams


def _slices(window_ns: tuple[int, int]) -> list[int]:
    """Borders of slices of time, of a length people like: 1, 2, 5, 10, 15, 30 s, minutes, hours."""
    length = max(window_ns[1] - window_ns[0], 1)
    nice = [s * SECOND_NS for m in (1, 60, 3600) for s in (m, 2 * m, 5 * m, 10 * m, 15 * m, 30 * m)]
    step = next((step for step in nice if length <= step * SLICES_MAX), -(-length // SLICES_MAX))
    return [*range(window_ns[0], window_ns[1], step), window_ns[1]]
