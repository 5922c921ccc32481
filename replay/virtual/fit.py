"""A model of a real device from what was measured on it: service times by operation, size and number in flight.

The number in flight is that at issue, the I/O itself included, from the recording alone. A cell needs enough I/Os, or
it is left out and its neighbours stand in. Every run is held against a model of all others; how far off that was goes
into the model, with what no run has covered.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.replay import _model
from iotrace.schemas import IotraceError, Op, Recording
from iotrace.schemas.models.model import Cell, Disk, Limit, Model, Service, Tested

from .compiled import compiled

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
_QUANTILES: Final = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class Run:
    """The I/Os of one recording that ended well, in order of issue."""

    name: str
    op: npt.NDArray[np.uint8]
    size_bytes: npt.NDArray[np.int64]
    offset_bytes: npt.NDArray[np.int64]
    due_ns: npt.NDArray[np.int64]
    issued_ns: npt.NDArray[np.int64]
    completed_ns: npt.NDArray[np.int64]
    in_flight: npt.NDArray[np.int64]
    """At issue, this one included."""


def run_of(recording: Recording) -> Run:
    """The reads, writes and flushes of ``recording``. Raises `IotraceError` where a model made it, or it has none."""
    if recording.manifest.model is not None:
        raise IotraceError(
            f"'{recording.path}' is what a model said: nothing can be learnt from it",
            hint="fit to replays, sweeps or characterizations of real storage",
        )
    wanted = ["op", "size_bytes", "offset_bytes", "issued_ns", "completed_ns", "intended_ns", "error"]
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
    due = table["intended_ns"].to_numpy() if "intended_ns" in table.column_names else issued
    ended = np.searchsorted(np.sort(completed), issued, side="right")
    return Run(
        name=recording.name,
        op=op.to_numpy().astype(np.uint8),
        size_bytes=pc.fill_null(table["size_bytes"], 0).to_numpy().astype(np.int64),
        offset_bytes=pc.fill_null(table["offset_bytes"], 0).to_numpy().astype(np.int64),
        due_ns=due,
        issued_ns=issued,
        completed_ns=completed,
        in_flight=np.maximum(1, np.arange(1, len(issued) + 1) - ended),
    )


def fit(recordings: Sequence[Recording], *, limits: tuple[Limit, ...] = (), name: str = "disk") -> Model:
    """A model of the one disk that ``recordings`` were played on, and with two or more how far off it is.

    ``limits`` are put before it, as of a device that was measured without and is to be throttled. Raises
    `IotraceError` where too little was measured.
    """
    runs = [run_of(recording) for recording in recordings]
    model = Model(title=name, disks=(Disk(name=name, limits=limits, service=service_of(runs)),))
    return replace(model, tested=_tested(runs, recordings) if len(runs) > 1 else None)


def service_of(runs: Sequence[Run]) -> Service:
    """Quantiles of service in each cell that has enough I/Os."""
    if sum(len(run.op) for run in runs) < CELL_IOS_MIN:
        raise IotraceError(
            f"fewer than {CELL_IOS_MIN} I/Os were measured", hint="fit to longer runs, or to more of them"
        )
    op = np.concatenate([run.op for run in runs])
    size = np.concatenate([run.size_bytes for run in runs])
    in_flight = np.concatenate([run.in_flight for run in runs])
    took_ns = np.concatenate([run.completed_ns - run.issued_ns for run in runs])
    cells: list[Cell] = []
    for number, word in enumerate(("read", "write", "flush")):
        mine = op == number
        if not mine.any():
            continue
        sizes = np.ones(int(mine.sum()), np.int64) if word == "flush" else _binned(size[mine])
        numbers = 1 << np.round(np.log2(in_flight[mine])).astype(np.int64)
        cells += _cells(word, sizes, numbers, took_ns[mine])
    return Service(shares=SHARES, cells=tuple(cells))


def _binned(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sizes as they are where they are few, else the nearest powers of two."""
    if len(np.unique(sizes)) <= _SIZES_MAX:
        return np.maximum(sizes, 1)
    return 1 << np.round(np.log2(np.maximum(sizes, 1))).astype(np.int64)


def _cells(
    word: str, sizes: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], took_ns: npt.NDArray[np.int64]
) -> Iterator[Cell]:
    """Cells with enough I/Os; of a size that has no such cell one over all numbers in flight."""
    for size in np.unique(sizes):
        of_size = sizes == size
        large = [
            one for one in np.unique(numbers[of_size]) if (of_size & (numbers == one)).sum() >= CELL_IOS_MIN
        ]
        for one in large or [1]:
            chosen = of_size & (numbers == one) if large else of_size
            quantiles = np.maximum(np.quantile(took_ns[chosen], SHARES) / 1e3, 1e-3)
            yield Cell(
                op=word,
                size_bytes=float(size),
                in_flight=float(one),
                quantiles_us=tuple(round(float(us), 3) for us in quantiles),
            )


def predicted(model: Model, run: Run, *, seed: int = 0) -> Mapping[str, Any]:
    """What ``model`` makes of the arrivals of ``run``: figures as `_model.Simulator.figures`."""
    order = np.argsort(run.due_ns, kind="stable")
    simulator = _model.Simulator(compiled(model).json(), in_flight_max=16_384, seed=seed, keep=False)
    simulator.offer(
        pa.record_batch(
            {
                "intended_ns": run.due_ns[order],
                "offset_bytes": run.offset_bytes[order].astype(np.uint64),
                "size_bytes": run.size_bytes[order].astype(np.uint32),
                "op": run.op[order],
                "target": np.zeros(len(order), np.uint16),
            }
        )
    )
    simulator.end()
    return simulator.figures()


def _tested(runs: Sequence[Run], recordings: Sequence[Recording]) -> Tested:
    """Each run against a model of the others: the largest errors, and what no run covers."""
    errors: dict[float, list[float]] = {share: [] for share in _QUANTILES}
    for number, run in enumerate(runs):
        others = [other for place, other in enumerate(runs) if place != number]
        figures = predicted(Model(disks=(Disk(service=service_of(others)),)), run)
        for share, field in zip(_QUANTILES, ("p50_ns", "p99_ns"), strict=True):
            measured = float(np.quantile(run.completed_ns - run.due_ns, share))
            errors[share].append(abs(figures["response"][field] / max(measured, 1.0) - 1))
    sizes = np.concatenate([run.size_bytes[run.op < 2] for run in runs])
    most = max(int(run.in_flight.max()) for run in runs)
    reads = [float((run.op == 0).mean()) for run in runs]
    targets = {
        target.name
        for recording in recordings
        if recording.manifest.replay is not None
        for target in recording.manifest.replay.targets
    }
    return Tested(
        on=", ".join(sorted(targets)) or "a device",
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        runs=len(runs),
        response_p50_error=round(max(errors[0.5]), 4),
        response_p99_error=round(max(errors[0.99]), 4),
        beyond=f"sizes beyond {sizes.min(initial=1 << 40) / 1024:g} to {sizes.max(initial=0) / 1024:g} KiB, more than "
        f"{most} in flight, reads beyond {min(reads):.0%} to {max(reads):.0%} of the I/Os",
    )


def to_toml(model: Model) -> str:
    """The text of a model file, as `iotrace.schemas.models.read_model` reads it."""
    (disk,) = model.disks
    lines = [f'title = "{model.title}"', "", "[[disk]]", f'name = "{disk.name}"']
    for limit in disk.limits:
        rates = {"iops": limit.iops, "mb_per_s": limit.mb_per_s, "slice_ms": limit.slice_ms}
        lines += ["[[disk.limit]]", f'ops = "{limit.ops}"']
        lines += [f"{name} = {value!r}" for name, value in rates.items() if value is not None]
    lines += ["[disk.service]", f"shares = {list(disk.service.shares)}"]
    for cell in disk.service.cells:
        lines += ["[[disk.service.cell]]", f'op = "{cell.op}"', f"size_bytes = {cell.size_bytes!r}"]
        lines += [f"in_flight = {cell.in_flight!r}", f"quantiles_us = {list(cell.quantiles_us)}"]
    if model.tested is not None:
        tested = model.tested
        lines += ["", "[tested]", f'on = "{tested.on}"', f'date = "{tested.date}"', f"runs = {tested.runs}"]
        lines += [f"response_p50_error = {tested.response_p50_error!r}"]
        lines += [f"response_p99_error = {tested.response_p99_error!r}", f'beyond = "{tested.beyond}"']
    return "\n".join(lines) + "\n"
