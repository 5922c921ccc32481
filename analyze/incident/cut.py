"""One stretch of a recording as a recording of its own, which everything that takes a recording takes.

Its time 0 is where the cut begins. It holds the I/Os issued within it and those in flight when it begins (with a
negative ``issued_ns``, as any recording that starts in the middle of work), markers and counter intervals that reach
into it, waits that end in it, and every device, file and process, so that ids stay what they were.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import TABLES, Clock, IotraceError, Manifest, Recording, RecordingWriter, Source

from .result import Incidents, SlowWindow

_LEAST_MARGIN_NS: Final = 10_000_000_000
_KEPT_WHOLE: Final = frozenset({"devices", "files"})


def window_to_cut(found: Incidents, number: int, margin_ns: int | None = None) -> tuple[SlowWindow, int, int]:
    """Window ``number`` of ``found`` and the stretch to cut: with as much before and after it, ten seconds at least.

    Raises `IotraceError` if there is no such window.
    """
    window = next((entry for entry in [*found.windows, *found.drifts] if entry.number == number), None)
    if window is None:
        have = (
            f"it has {len(found.windows) + len(found.drifts)}"
            if found.windows or found.drifts
            else "none was found"
        )
        raise IotraceError(
            f"there is no slow window {number} in '{found.title}': {have}",
            hint="iotrace incident RECORDING lists them; --cut takes the number in the first column",
        )
    margin = max(window.end_ns - window.start_ns, _LEAST_MARGIN_NS) if margin_ns is None else margin_ns
    return window, max(window.start_ns - margin, found.start_ns), min(window.end_ns + margin, found.end_ns)


def cut(
    recording: Recording,
    output: str | Path,
    span_ns: tuple[int, int],
    *,
    title: str | None = None,
    overwrite: bool = False,
) -> Recording:
    """Write what happened in ``span_ns`` of ``recording`` to ``output``.

    Raises `IotraceError` if something is there already (see `RecordingWriter`), or data cannot be read or written.
    """
    with RecordingWriter(output, overwrite=overwrite) as writer:
        for name in recording.table_names():
            for piece in _pieces(recording, name, span_ns):
                writer.append(name, piece)
        return writer.commit(_manifest(recording, span_ns, title, writer.rows("io")))


def _manifest(recording: Recording, span_ns: tuple[int, int], title: str | None, events: int) -> Manifest:
    old = recording.manifest
    start_ns, end_ns = span_ns
    told = f"cut from {recording.path.name} ({old.uuid}), seconds {start_ns / 1e9:.3f} to {end_ns / 1e9:.3f}"
    clock = Clock(
        old.clock.start_utc_ns + start_ns,
        old.clock.resolution_ns,
        old.clock.name,
        old.clock.start_utc_uncertainty_ns,
    )
    return Manifest(
        old.kind,
        title or f"{old.title or recording.name}, {(end_ns - start_ns) / 1e9:.0f} s of it",
        clock,
        window_start_ns=0,
        window_end_ns=end_ns - start_ns,
        host=replace(old.host),
        sources=[Source(recording.path.name, "recording", events=events), *_shifted(old.sources, start_ns)],
        quality=replace(old.quality, notes=[*old.quality.notes, told]),
        replay=old.replay,
        tools=dict(old.tools),
    )


def _shifted(sources: list[Source], start_ns: int) -> list[Source]:
    return [
        replace(source, alignment=replace(source.alignment, at_ns=source.alignment.at_ns - start_ns))
        if source.alignment
        else source
        for source in sources
    ]


def _pieces(recording: Recording, name: str, span_ns: tuple[int, int]) -> Iterator[pa.Table]:
    """Rows of a table that belong to the span, at their new times; a row group at a time."""
    with recording.reading(name):
        for path in recording.parquet_paths(name):
            file = pq.ParquetFile(path)
            for number in range(file.num_row_groups):
                if _is_outside(file, number, span_ns):
                    continue
                table = file.read_row_group(number)
                yield _placed(table, name, span_ns)
            if not file.num_row_groups and name not in TABLES:
                yield file.schema_arrow.empty_table()


def _is_outside(file: pq.ParquetFile, number: int, span_ns: tuple[int, int]) -> bool:
    """Whether the footer tells that no I/O of a row group was issued before the end and completed after the start.

    Never of a table without such columns.
    """
    group = file.metadata.row_group(number)
    names = file.schema_arrow.names
    bounds = {}
    for name in ("issued_ns", "completed_ns"):
        told = group.column(names.index(name)).statistics if name in names else None
        bounds[name] = (told.min, told.max) if told is not None and told.has_min_max else None
    issued, completed = bounds["issued_ns"], bounds["completed_ns"]
    if issued is not None and issued[0] >= span_ns[1]:
        return True
    return bool(issued and completed and issued[1] < span_ns[0] and completed[1] < span_ns[0])


def _placed(table: pa.Table, name: str, span_ns: tuple[int, int]) -> pa.Table:
    start_ns, end_ns = span_ns
    columns = table.column_names
    if name == "io":
        ended_late = pc.fill_null(pc.greater_equal(table["completed_ns"], start_ns), False)  # noqa: FBT003
        begun = pc.greater_equal(table["issued_ns"], start_ns)
        keep = pc.and_(pc.less(table["issued_ns"], end_ns), pc.or_(begun, ended_late))
    elif name in _KEPT_WHOLE or "at_ns" not in columns:
        keep = None
    else:
        at = table["at_ns"]
        first, last = at, at
        if name == "counters":
            first = pc.subtract(at, pc.fill_null(table["interval_ns"], 0))
        elif name == "markers":
            last = pc.add(at, pc.fill_null(table["duration_ns"], 0))
        keep = pc.and_(pc.less(first, end_ns), pc.greater_equal(last, start_ns))
    if keep is not None:
        table = table.filter(keep)
    for column in ("intended_ns", "issued_ns", "completed_ns", "at_ns", "started_ns", "ended_ns"):
        if column in columns:
            moved = pc.subtract(table[column], pa.scalar(start_ns, pa.int64()))
            table = table.set_column(columns.index(column), table.schema.field(column), moved)
    return table
