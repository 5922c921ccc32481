"""What a disk does, from runs on it: its service by operation, size and number in flight, and the rates of its caps.

The number in flight is that at issue, the I/O itself included, from the recording alone. A `Run` holds the I/Os of a
run on real storage, as a model is learnt from them and held against them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Op, Recording
from iotrace.schemas.models.model import Cell, Limit, Service
from iotrace.schemas.run import ClosedLoop

CELL_IOS_MIN: Final = 200
"""Fewer tell nothing of a tail."""
SHARES: Final = (
    0.0,
    0.01,
    0.05,
    *(share / 20 for share in range(2, 19)),
    0.95,
    0.98,
    0.99,
    0.995,
    0.999,
    1.0,
)
_SIZES_MAX: Final = 8
_CAP_AGREES: Final = 0.01
"""Rates of runs, and of the seconds of a run, that differ by no more are a cap that was set."""
_SLICES_AGREE: Final = 0.05
"""The same where a cap counts in slices, one of which falls into this second or the next."""
_CAP_SECONDS: Final = 2
_CAPPED: Final = 0.97
_HELD: Final = 0.1
"""An I/O that takes this share of a slice, or more, was held by the cap."""
_SHADOW: Final = 0.1
"""Of the share that a cap holds of one operation; another's that holds less is the shadow of the first."""
_OPS: Final = ("read", "write", "flush")


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
    with recording.reading("io"):
        if (completed < issued).any():
            raise ValueError("I/Os completed before being issued")
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


def disk_of(runs: Sequence[Run]) -> tuple[Service, tuple[Limit, ...]]:
    """The service and the caps of the disk that ``runs`` were played on. Raises `IotraceError` for too few I/Os."""
    found = caps(runs)
    return service_of(_unheld(runs, found)), found


def caps(runs: Sequence[Run]) -> tuple[Limit, ...]:
    """Rates of reads and of writes that unlike runs came to, and kept second by second or slice by slice."""
    found = []
    for number, word in enumerate(_OPS[:2]):
        iops = _cap(runs, number, "iops")
        mb_per_s = _cap(runs, number, "mb_per_s")
        # What one of them explains needs no other: with a single size a cap of I/Os is one of bytes, too.
        if mb_per_s.runs <= iops.runs:
            mb_per_s = _NO_CAP
        elif iops.runs < mb_per_s.runs:
            iops = _NO_CAP
        if iops.rate is not None or mb_per_s.rate is not None:
            slice_ms = iops.slice_ms or mb_per_s.slice_ms
            held = _held_share([runs[place] for place in iops.runs | mb_per_s.runs], number, slice_ms)
            found.append((held, Limit(ops=word, iops=iops.rate, mb_per_s=mb_per_s.rate, slice_ms=slice_ms)))
    # In a loop of a fixed mix writes keep pace with reads that are capped: what is not held has no cap of its own.
    most = max((held for held, _ in found), default=0.0)
    return tuple(limit for held, limit in found if held >= _SHADOW * most)


def _held_share(runs: Sequence[Run], op: int, slice_ms: float | None) -> float:
    """I/Os of an operation that took a good part of a slice."""
    took = np.concatenate([run.service_ns[run.op == op] for run in runs])
    return float((took > _HELD * 3e6 * slice_ms).mean()) if slice_ms is not None else 1.0


@dataclass(frozen=True, slots=True)
class _Cap:
    """A rate that unlike ``runs``, by their places, came to."""

    rate: float | None
    runs: frozenset[int]
    slice_ms: float | None


_NO_CAP: Final = _Cap(None, frozenset(), None)


def _cap(runs: Sequence[Run], op: int, counted: str) -> _Cap:
    """Rates as even as no device's; or less even ones, where what is held comes free slice by slice."""
    for agrees, in_slices in ((_CAP_AGREES, False), (_SLICES_AGREE, True)):
        rates = {
            place: rate for place, run in enumerate(runs) if (rate := _steady_rate(run, op, counted, agrees))
        }
        most = max(rates.values(), default=0.0)
        capped = frozenset(place for place, rate in rates.items() if rate >= most * (1 - agrees))
        slice_ms = _slice_ms([runs[place] for place in capped])
        if len({_kind(runs[place]) for place in capped}) > 1 and (slice_ms is not None or not in_slices):
            return _Cap(float(np.median([rates[place] for place in capped])), capped, slice_ms)
    return _NO_CAP


def _kind(run: Run) -> tuple[int, int]:
    """Runs of another number in flight, by powers of two, or of another size are unlike."""
    return int(np.log2(np.median(run.in_flight))), int(np.median(run.size_bytes))


def _steady_rate(run: Run, op: int, counted: str, agrees: float) -> float | None:
    """I/Os or MB of one operation a second, where every whole second has as many; else None."""
    mine = run.op == op
    second = (run.completed_ns[mine] - run.issued_ns[0]) // 1_000_000_000
    if mine.sum() < CELL_IOS_MIN or second.max() > mine.sum():
        return None  # under one a second: nobody limits a disk to that
    weights = run.size_bytes[mine] / 1e6 if counted == "mb_per_s" else None
    whole = np.bincount(second, weights)[: int(run.seconds + agrees)].astype(float)
    if len(whole) < _CAP_SECONDS:
        return None
    slack = max(agrees * whole.mean(), 2.0 if weights is None else 2 * float(run.size_bytes.max()) / 1e6)
    return float(whole.mean()) if whole.max() - whole.min() <= 2 * slack else None


def _slice_ms(runs: Sequence[Run]) -> float | None:
    """How far apart held I/Os come free together, where they do; None where they are let go one by one."""
    for run in sorted(runs, key=lambda one: float(np.median(one.in_flight))):
        took = run.service_ns
        held = took > max(10 * float(np.median(took)), 5e6)
        freed = np.sort(run.completed_ns[held])
        gaps = np.diff(freed)
        gaps = gaps[gaps > 10e6]
        if len(gaps) >= 10 and np.quantile(gaps, 0.75) < 1.3 * np.median(gaps):
            return float(round(np.median(gaps) / 1e7) * 10)
    return None


def _unheld(runs: Sequence[Run], found: tuple[Limit, ...]) -> list[Run]:
    """The runs without the I/Os that a cap held: what is left is the disk's own time."""
    kept = []
    for run in runs:
        is_own = np.ones(len(run.op), np.bool_)
        for limit in found:
            mine = run.op == _OPS.index(limit.ops)
            if limit.slice_ms is not None:
                is_own &= ~(mine & (run.service_ns > _HELD * limit.slice_ms * 1e6))
            elif limit.iops is not None and mine.sum() / run.seconds > _CAPPED * limit.iops:
                is_own &= ~mine
        if is_own.any():
            kept.append(run.part(is_own))
    # Where every run was held, all that is known is how long they took.
    return kept if sum(len(run.op) for run in kept) >= CELL_IOS_MIN else list(runs)


def service_of(runs: Sequence[Run]) -> Service:
    """Quantiles of service in each cell that has enough I/Os, of arrivals where there are any, else of closed loops."""
    if sum(len(run.op) for run in runs) < CELL_IOS_MIN:
        raise IotraceError(
            f"fewer than {CELL_IOS_MIN} I/Os were measured", hint="fit to longer runs, or to more of them"
        )
    found: dict[tuple[str, float, float], Cell] = {}
    for is_loop in (True, False):
        alike = [run for run in runs if (run.outstanding is not None) == is_loop]
        for cell in _cells_of(alike) if alike else ():
            found[cell.op, cell.size_bytes, round(np.log2(cell.in_flight))] = cell
    return Service(shares=SHARES, cells=tuple(found[place] for place in sorted(found)))


def _cells_of(runs: Sequence[Run]) -> Iterator[Cell]:
    op = np.concatenate([run.op for run in runs])
    size = np.concatenate([run.size_bytes for run in runs])
    in_flight = np.concatenate([run.in_flight for run in runs])
    took_ns = np.concatenate([run.service_ns for run in runs])
    for number, word in enumerate(_OPS):
        mine = op == number
        if not mine.any():
            continue
        sizes = np.ones(int(mine.sum()), np.int64) if word == "flush" else _binned(size[mine])
        yield from _cells(word, sizes, in_flight[mine], took_ns[mine])


def _binned(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sizes as they are where they are few, else the nearest powers of two."""
    if len(np.unique(sizes)) <= _SIZES_MAX:
        return np.maximum(sizes, 1)
    return 1 << np.round(np.log2(np.maximum(sizes, 1))).astype(np.int64)


def _cells(
    word: str, sizes: npt.NDArray[np.int64], in_flight: npt.NDArray[np.int64], took_ns: npt.NDArray[np.int64]
) -> Iterator[Cell]:
    """For each size, cells by powers of two in flight; those with too few I/Os are taken into the next below."""
    for size in np.unique(sizes):
        of_size = sizes == size
        powers = np.round(np.log2(in_flight[of_size])).astype(np.int64)
        numbers, took = in_flight[of_size], took_ns[of_size]
        waiting = np.zeros(len(powers), np.bool_)
        cells: list[npt.NDArray[np.bool_]] = []
        for power in np.unique(powers)[::-1]:
            waiting |= powers == power
            if waiting.sum() >= CELL_IOS_MIN:
                cells.append(waiting)
                waiting = np.zeros(len(powers), np.bool_)
        if waiting.any():
            cells = [*cells[:-1], cells[-1] | waiting] if cells else [waiting]
        for chosen in cells:
            quantiles = np.maximum(np.quantile(took[chosen], SHARES) / 1e3, 1e-3)
            yield Cell(
                op=word,
                size_bytes=float(size),
                in_flight=round(float(np.exp(np.log(numbers[chosen]).mean())), 2),
                quantiles_us=tuple(round(float(us), 3) for us in quantiles),
            )
