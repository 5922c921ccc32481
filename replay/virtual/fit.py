"""A model of a real device from what was measured on it, and how good it is.

Every run is held against a model of all others; how far off that was goes into the model, with what no run has covered.
A closed loop is held against one with as many in flight, arrivals against the same arrivals.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _model
from iotrace.replay.options import IN_FLIGHT_MOST
from iotrace.schemas import Recording
from iotrace.schemas.models.model import Disk, Limit, Model
from iotrace.schemas.run import ModelTest
from iotrace.schemas.sections import toml_text
from iotrace.schemas.text import format_share, shortened

from .compiled import compiled
from .service import Run, disk_of, run_of

QUANTILES: Final = {"p50": 0.5, "p99": 0.99}
COVERED: Final = 0.9
"""Share of cases that an interval holds."""
_LEAST: Final = 1.05
"""No interval is narrower than a twentieth to either side: no storage answers twice the same."""
_LOOPS_ONLY: Final = 3.5
"""A loop lets neither processor nor device fall asleep; I/Os that come singly took up to so many times as long here."""
_MOST: Final = 10.0


def fit(recordings: Sequence[Recording], *, limits: tuple[Limit, ...] = (), name: str = "disk") -> Model:
    """A model of the one disk that ``recordings`` were played on, and with two or more how far off it is.

    ``limits`` are put before it, as of a device that was measured without and is to be throttled. Raises
    `IotraceError` where too little was measured.
    """
    runs = [run_of(recording) for recording in recordings]
    model = model_of(runs, name)
    if limits:
        model = replace(model, disks=(replace(model.disks[0], limits=limits),))
    targets = {
        target.name
        for recording in recordings
        if recording.manifest.replay is not None
        for target in recording.manifest.replay.targets
    }
    on = shortened(", ".join(sorted(targets))) or "a device"
    return replace(model, tested=held_out(runs, on) if len(runs) > 1 else None)


def model_of(runs: Sequence[Run], name: str = "disk") -> Model:
    """What ``runs`` say of the disk under them."""
    service, limits = disk_of(runs)
    return Model(title=name, disks=(Disk(name=name, limits=limits, service=service),))


def predicted(model: Model, run: Run, *, seed: int = 0) -> Mapping[str, Any]:
    """What ``model`` makes of the arrivals of ``run``, or of its loop: figures as `_model.Simulator.figures`."""
    simulator = _model.Simulator(
        compiled(model).json(), in_flight_max=run.outstanding or IN_FLIGHT_MOST, seed=seed, keep=False
    )
    simulator.offer(arrivals_of(run))
    simulator.end()
    return simulator.figures()


def arrivals_of(run: Run) -> pa.RecordBatch:
    """For `_model.Simulator.offer`: when each was issued, so that who issued it late is not the storage's fault.

    Those of a loop are all due at once.
    """
    return pa.record_batch(
        {
            "intended_ns": run.issued_ns * (run.outstanding is None),
            "offset_bytes": run.offset_bytes.astype(np.uint64),
            "size_bytes": run.size_bytes.astype(np.uint32),
            "op": run.op,
            "target": np.zeros(len(run.op), np.uint16),
        }
    )


def _reads_words(least: float, most: float) -> str:
    low, high = format_share(least, 0), format_share(most, 0)
    return (
        f"another share of reads than {low}" if low == high else f"reads beyond {low} to {high} of the I/Os"
    )


def _sizes_words(sizes: npt.NDArray[np.uint32]) -> str:
    low, high = sizes.min(initial=1 << 40) / 1024, sizes.max(initial=0) / 1024
    return f"sizes other than {low:g} KiB" if low == high else f"sizes beyond {low:g} to {high:g} KiB"


def held_out(runs: Sequence[Run], on: str) -> ModelTest:
    """Each run against a model of the others: how far off it was, and what no run covers."""
    ratios: dict[str, list[float]] = {name: [] for name in QUANTILES}
    for number, run in enumerate(runs):
        others = [other for place, other in enumerate(runs) if place != number]
        for name, ratio in ratios_of(model_of(others), run).items():
            ratios[name].append(ratio)
    intervals = {name: ratio_interval(of_runs) for name, of_runs in ratios.items()}
    if all(run.outstanding is not None for run in runs):
        intervals = {name: (low, max(high, _LOOPS_ONLY)) for name, (low, high) in intervals.items()}
    sizes = np.concatenate([run.size_bytes[run.op < 2] for run in runs])
    most = max(int(run.in_flight.max()) for run in runs)
    reads = [float((run.op == 0).mean()) for run in runs]
    return ModelTest(
        on=on,
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        runs=len(runs),
        response_p50_error=_largest_error(ratios["p50"]),
        response_p99_error=_largest_error(ratios["p99"]),
        response_p50_ratio=intervals["p50"],
        response_p99_ratio=intervals["p99"],
        read_shares=(round(min(reads), 4), round(max(reads), 4)),
        beyond=f"{_sizes_words(sizes)}, more than {most} in flight, {_reads_words(min(reads), max(reads))}",
    )


def ratios_of(model: Model, run: Run) -> dict[str, float]:
    """Measured over predicted time from issue to end in ``run``, by quantile."""
    said = predicted(model, run)["service"]
    return {
        name: max(float(np.quantile(run.service_ns, quantile)), 1.0) / max(float(said[f"{name}_ns"]), 1.0)
        for name, quantile in QUANTILES.items()
    }


def _largest_error(ratios: Iterable[float]) -> float:
    return round(max(abs(1 / ratio - 1) for ratio in ratios), 4)


def ratio_interval(ratios: Sequence[float], *, least: float = _LEAST) -> tuple[float, float]:
    """Between what the next ratio lies in `COVERED` of cases, if logarithms of ratios are normal; 1 is always within.

    The prediction interval of Student's t: mean and deviation are known only as well as these few tell.
    """
    logs = np.log(ratios)
    mean, half = float(logs.mean()), np.log(_MOST)
    if len(logs) > 1:
        from scipy import stats  # noqa: PLC0415 - it takes long to import, and every command would wait for it

        deviation = float(logs.std(ddof=1))
        half = stats.t.ppf((1 + COVERED) / 2, len(logs) - 1) * deviation * np.sqrt(1 + 1 / len(logs))
    low = min(float(np.exp(mean - half)), 1 / least)
    high = max(float(np.exp(mean + half)), least)
    return round(max(low, 1 / _MOST), 4), round(min(high, _MOST), 4)


def to_toml(model: Model) -> str:
    """The text of a model file, as `iotrace.schemas.models.read_model` reads it."""
    (disk,) = model.disks
    lines = [f"title = {toml_text(model.title)}", "", "[[disk]]", f"name = {toml_text(disk.name)}"]
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
        lines += [
            "",
            "[tested]",
            f"on = {toml_text(tested.on)}",
            f'date = "{tested.date}"',
            f"runs = {tested.runs}",
        ]
        lines += [f"response_p50_error = {tested.response_p50_error!r}"]
        lines += [f"response_p99_error = {tested.response_p99_error!r}"]
        for name in ("response_p50_ratio", "response_p99_ratio", "read_shares"):
            if values := getattr(tested, name):
                lines.append(f"{name} = {list(values)}")
        lines.append(f"beyond = {toml_text(tested.beyond)}")
    return "\n".join(lines) + "\n"
