"""The I/Os of a run on real storage, as a model is learnt from them and held against them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Op, Recording
from iotrace.schemas.run import ClosedLoop


@dataclass(frozen=True, slots=True)
class Run:
    """The I/Os of one recording that ended well, in order of issue."""

    name: str
    op: npt.NDArray[np.uint8]
    size_bytes: npt.NDArray[np.int64]
    offset_bytes: npt.NDArray[np.int64]
    issued_ns: npt.NDArray[np.int64]
    completed_ns: npt.NDArray[np.int64]
    in_flight: npt.NDArray[np.int64]
    """At issue, this one included."""
    outstanding: int | None = None
    """Of a closed loop: how many were kept in flight."""

    @property
    def service_ns(self) -> npt.NDArray[np.int64]:
        """From when each was issued to its end."""
        return self.completed_ns - self.issued_ns

    @property
    def seconds(self) -> float:
        """From the first issue to the last."""
        return max(float(self.issued_ns[-1] - self.issued_ns[0]) / 1e9, 1e-9)

    def part(self, chosen: npt.NDArray[np.bool_]) -> "Run":
        """Some of its I/Os."""
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        return Run(name=self.name, outstanding=self.outstanding, **columns)

    def quarters(self) -> list["Run"]:
        """Its I/Os by quarters of its time."""
        share = (self.issued_ns - self.issued_ns[0]) / (self.seconds * 1e9)
        number = np.minimum((share * 4).astype(np.int64), 3)
        return [self.part(number == one) for one in range(4) if (number == one).any()]


def run_of(recording: Recording) -> Run:
    """The reads, writes and flushes of ``recording``. Raises `IotraceError` where a model made it, or it has none."""
    if recording.manifest.model is not None:
        raise IotraceError(
            f"'{recording.path}' is a simulation: a model is not fitted to what a model said",
            hint="fit to replays, sweeps or characterizations of real storage",
        )
    wanted = ["op", "size_bytes", "offset_bytes", "issued_ns", "completed_ns", "error"]
    tables = []
    for path in recording.parquet_paths("io"):
        with recording.reading("io"):
            names = pq.read_schema(path).names
            tables.append(pq.read_table(path, columns=[name for name in wanted if name in names]))
    table = pa.concat_tables(tables)
    sound = pc.is_valid(table["completed_ns"])
    if "error" in table.column_names:
        sound = pc.and_(sound, pc.equal(pc.fill_null(table["error"], 0), 0))
    table = table.filter(sound).sort_by("issued_ns")
    op = pc.index_in(table["op"].cast(pa.string()), value_set=pa.array([*Op][:3], pa.string()))
    table = table.filter(pc.is_valid(op))
    op = pc.drop_null(op)
    if not table.num_rows:
        raise IotraceError(f"'{recording.path}' has no I/O to fit to", hint="name replays of a real device")
    issued = table["issued_ns"].to_numpy()
    completed = table["completed_ns"].to_numpy()
    ended = np.searchsorted(np.sort(completed), issued, side="right")
    run = recording.manifest.replay
    return Run(
        name=recording.name,
        op=op.to_numpy().astype(np.uint8),
        size_bytes=pc.fill_null(table["size_bytes"], 0).to_numpy().astype(np.int64),
        offset_bytes=pc.fill_null(table["offset_bytes"], 0).to_numpy().astype(np.int64),
        issued_ns=issued,
        completed_ns=completed,
        in_flight=np.maximum(1, np.arange(1, len(issued) + 1) - ended),
        outstanding=run.cell.outstanding if isinstance(run, ClosedLoop) and run.cell is not None else None,
    )


_COLUMNS = ("op", "size_bytes", "offset_bytes", "issued_ns", "completed_ns", "in_flight")
