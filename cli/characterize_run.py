"""A characterization, conducted: replay runs the cells, analyze measures them, sweeps keep them."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from iotrace.analyze.knee.answer import Cause, Knee
from iotrace.analyze.knee.causes import ceilings_by_size
from iotrace.analyze.knee.closed_loop import knee_of_closed
from iotrace.analyze.knee.saturation import BestSize, Saturation, batch_means, best_size, saturation
from iotrace.analyze.knee.step import Samples, Step, measure
from iotrace.analyze.present.program import INLINE, MaybeNaN
from iotrace.replay import Progress
from iotrace.replay.characterize import Cell, Characterization, Series
from iotrace.schemas import IotraceError, Recording, Sweep, SweepWriter, stopping
from iotrace.schemas.durable import replace_text, sync_folder
from iotrace.schemas.partials import Partial
from iotrace.schemas.replacing import (
    FolderKind,
    Written,
    check_folder,
    grow_in_place,
    read_index,
    seal_folder,
    unchanged,
)
from iotrace.schemas.run import Cell as CellAsked
from iotrace.schemas.run import ClosedLoop
from iotrace.schemas.sweep import SweepSettings
from iotrace.schemas.writer import RECORDING

MARK: Final = "characterization.json"
"""Names the series in their order."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a cell measured."""

    cell: Cell
    recording: Recording
    step: Step
    samples: Samples
    iops_interval: tuple[float, float] | None

    @property
    def cpu_ns_per_io(self) -> float | None:
        """Processor time of the engine for one I/O, in ns."""
        run = self.recording.manifest.replay
        return run.cpu_ns_per_io if isinstance(run, ClosedLoop) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCell:
    """A cell for programs; latencies are those of service, as its submitter saw them."""

    cell: Annotated[CellAsked, INLINE]
    seconds: float
    ios: int
    errors: int
    iops: float
    iops_interval: tuple[float, float] | None
    mb_per_s: float
    in_flight_mean: MaybeNaN
    littles_law_ratio: MaybeNaN
    cpu_ns_per_io: float | None
    service_ns_mean: float
    service_ns_p50: int | None
    service_ns_p95: int | None
    service_ns_p99: int | None
    service_ns_p99_9: int | None
    is_steady: bool
    notes: list[str]


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """A series for programs."""

    name: str
    axis: str
    sweep: Path
    cells: list[MeasuredCell]
    saturation: Saturation | None
    causes: list[Cause]
    best_size: BestSize | None
    unmeasured: list[str]


@dataclass(slots=True)
class SeriesResult:
    """A series with the cells that were run, the sweep that keeps them, and where it saturates."""

    series: Series
    sweep: Sweep
    cells: list[CellResult] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    """Cells without enough I/Os, with the reason."""

    def saturation(self) -> Saturation | None:
        """Where more outstanding gains nothing; None for a series by size."""
        if self.series.axis != "outstanding":
            return None
        return saturation([(one.cell.outstanding, one.step, one.samples) for one in self.cells])

    def knee(self) -> Knee | None:
        """The same with what saturated, as far as the runs show it; None for a series by size."""
        if self.series.axis != "outstanding" or not self.cells:
            return None
        measured = [(one.cell.outstanding, one.step, one.samples) for one in self.cells]
        return knee_of_closed(sorted(measured, key=lambda one: one[0]))

    def best_size(self) -> BestSize | None:
        """Beyond which size nothing is gained; None for a series by outstanding."""
        if self.series.axis != "size":
            return None
        return best_size([(one.cell.size_bytes, one.step, one.samples) for one in self.cells])


def facts_of(result: SeriesResult) -> SeriesFacts:
    """``result`` for programs."""
    knee = result.knee()
    return SeriesFacts(
        result.series.name,
        result.series.axis,
        result.sweep.path,
        [_facts_of(one) for one in result.cells],
        result.saturation(),
        knee.causes if knee else [],
        result.best_size(),
        result.unmeasured,
    )


def _facts_of(one: CellResult) -> MeasuredCell:
    step = one.step
    return MeasuredCell(
        cell=one.cell,
        seconds=step.duration_s,
        ios=step.io_count,
        errors=step.error_count,
        iops=step.achieved_iops,
        iops_interval=one.iops_interval,
        mb_per_s=step.achieved_mb_per_s,
        in_flight_mean=step.in_flight_mean,
        littles_law_ratio=step.littles_law_ratio,
        cpu_ns_per_io=one.cpu_ns_per_io,
        service_ns_mean=step.response_ns_mean,
        service_ns_p50=step.service_ns["p50"],
        service_ns_p95=step.service_ns["p95"],
        service_ns_p99=step.service_ns["p99"],
        service_ns_p99_9=step.service_ns["p99_9"],
        is_steady=step.is_steady,
        notes=step.notes,
    )


def common_ceilings(results: Sequence[SeriesResult]) -> list[Cause]:
    """Ceilings that show only in series beside one another that differ in size alone."""
    plateaus = []
    for one in results:
        found = one.saturation()
        if found is not None and found.iops is not None and found.outstanding is not None:
            cell = one.cells[0].cell
            kind = (cell.pattern, cell.read_share, cell.durable)
            plateaus.append((kind, cell.size_bytes, found.iops.value))
    return ceilings_by_size(plateaus)


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Raises `IotraceError` if ``folder`` is taken by something that may not be replaced."""
    check_folder(folder, _CHARACTERIZATION, overwrite=overwrite)


def series_of(folder: Path) -> list[Path]:
    """The sweeps of the characterization in ``folder``, in their order. Raises `IotraceError` for a damaged one."""
    try:
        names = _names_in(folder)
    except (ValueError, RecursionError, TypeError, KeyError) as problem:
        raise IotraceError(
            f"'{folder}' has a damaged {MARK}", hint="its series are sweeps and can be named alone"
        ) from problem
    return [folder / name for name in names]


def _names_in(folder: Path) -> list[str]:
    names = json.loads(read_index(folder / MARK) or b"")["series"]
    return [Path(str(name)).name for name in names]


def _written_in(folder: Path) -> Written | None:
    try:
        written: dict[str, str | None] = {MARK: None}
        for name in _names_in(folder):
            found = RECORDING.written_in(folder / name) or {}
            written |= {f"{name}/{file}": known for file, known in found.items()}
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    return unchanged(folder, written)


_CHARACTERIZATION: Final = FolderKind("a characterization", _written_in)


@contextmanager
def started_folder(folder: Path, *, overwrite: bool) -> Iterator[None]:
    """Make room for a characterization at ``folder``. Raises `IotraceError` if it is taken or cannot be written.

    An earlier one is removed at the end, and is back in its place if no run was finished.
    """
    check_output(folder, overwrite=overwrite)
    with stopping.deferred():
        try:
            with Partial.folder(folder, private=True) as partial:
                _note(partial.path, [])
                earlier = grow_in_place(partial, folder, _CHARACTERIZATION)
            sync_folder(folder.parent)
        except OSError as problem:
            raise IotraceError(
                f"cannot write '{folder}': {problem.strerror}",
                hint="choose a folder you may write to with -o",
            ) from problem
        try:
            yield
        finally:
            for finished in (folder, *folder.glob("*.iotrace")):
                seal_folder(finished)
            earlier.settle(replaced=any(folder.glob("*.iotrace/steps/*/manifest.json")))


def run_series(
    running: Characterization,
    series: Sequence[Series],
    folder: Path,
    *,
    on_start: Callable[[Cell], Callable[[Progress], None] | None] = lambda _cell: None,
    on_done: Callable[[CellResult], None] = lambda _result: None,
) -> tuple[list[SeriesResult], bool]:
    """Run all cells and keep each series as a sweep in ``folder``; also, whether it was interrupted.

    A request to end (`stopping`) ends the cell that runs and keeps what was measured.
    """
    with stopping.deferred():
        return _run_series(running, series, folder, on_start, on_done)


def _run_series(
    running: Characterization,
    series: Sequence[Series],
    folder: Path,
    on_start: Callable[[Cell], Callable[[Progress], None] | None],
    on_done: Callable[[CellResult], None],
) -> tuple[list[SeriesResult], bool]:
    results: list[SeriesResult] = []
    for one in series:
        writer = SweepWriter(
            folder / f"{one.folder}.iotrace",
            title=f"{one.name} on {running.target.name}",
            source_uuid=None,
            settings=SweepSettings(targets=[running.target.name], loop="closed", axis=one.axis),
        )
        found = SeriesResult(one, writer.sweep)
        results.append(found)
        _note(folder, results)
        for cell in one.cells:
            axis = float(cell.outstanding if one.axis == "outstanding" else cell.size_bytes)
            path = writer.step_path(axis)
            try:
                with stopping.interrupting():
                    recording = running.run(cell, path, progress=on_start(cell))
            except KeyboardInterrupt:
                if not path.exists():
                    return results, True
                recording = Recording.open(path)
            writer.add(axis, recording)
            try:
                step, samples = measure(recording)
            except IotraceError as problem:
                found.unmeasured.append(f"{cell.name}: {problem.message}")
            else:
                found.cells.append(CellResult(cell, recording, step, samples, batch_means(samples)))
                on_done(found.cells[-1])
            if recording.manifest.was_interrupted or stopping.asked():
                return results, True
    return results, False


def _note(folder: Path, results: Sequence[SeriesResult]) -> None:
    names = [one.sweep.path.relative_to(folder).as_posix() for one in results]
    text = json.dumps({"format_version": 1, "series": names}, indent=1) + "\n"
    replace_text(folder / MARK, text, private=True)
