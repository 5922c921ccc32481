"""Response before it is played, with intervals: of a fitted model, and step by step of a sweep on real storage.

An interval holds what the model says, and what it says of a disk that is as much faster and slower as held-out runs
were: near the limit of the disk that is far more than the same share of the response. Where more I/Os than
lie beyond a quantile were larger, or met more in flight, than was ever measured, that quantile is refused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.replay import _model
from iotrace.replay.options import IN_FLIGHT_MOST, ReplayOptions
from iotrace.replay.plan.assignment import assign, needed_bytes
from iotrace.replay.plan.schedule import Schedule, schedule
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.source import Source, space_names
from iotrace.replay.plan.survey import survey
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.models.model import Disk, Model
from iotrace.schemas.run import ModelTest, PredictedNs, Prediction
from iotrace.schemas.text import format_share

from .compiled import ModelTarget, compiled
from .fit import QUANTILES, arrivals_of, held_out, model_of, predicted
from .service import Run, run_of

BEYOND_SHARE: Final = 0.05
"""Of the I/Os so many, and no more than lie beyond the quantile, may leave what was measured."""
MIX_SLACK: Final = 0.1
"""Reads may be so much more or less of the I/Os than in any run."""
BEHIND_SHARE: Final = 0.03
"""A load is carried if what is late at its end is no more than this share of it."""
HIGHER_LOAD: Final = {"p50": 1.25, "p99": 1.5}
"""Least width to either side for a load above any that was played: no run tells how the disk bends there."""
_WALL_ROUNDS: Final = 5
_IOS_MAX: Final = 3_000_000
"""Of a step: predicting a larger one takes longer than it is worth."""
_RECORDED_IOS_MAX: Final = 10_000_000
"""Of a recording: planning goes through all of it, several times for a step."""
_LEARNT_IOS_MAX: Final = 200_000
"""Of each run, from its start."""
_LEARNT_RUNS_MAX: Final = 8
"""Those at the loads nearest to what is asked."""


def planned(recording: Recording, options: ReplayOptions) -> Schedule:
    """The plan of a replay whose targets are not opened. Raises `IotraceError` for several targets."""
    source = Source.open(recording, select(recording, options))
    found = survey(source)
    names = space_names(source)
    assignment = assign(source, found, names, options)
    if len(assignment.names) > 1:
        raise IotraceError("several targets", hint="name one")
    needed, _ = needed_bytes(assignment.stretches[0], options, whole_files=assignment.whole_files)
    target = ModelTarget.of("model", max(needed, 4096))
    return schedule(source, found, names, assignment, [target], options)[0]


class Bracket:
    """Simulators beside the one that answers: of a disk as fast, and as slow, as tests say it may be."""

    def __init__(self, model: Model, tested: ModelTest, options: ReplayOptions) -> None:
        """For a model with tests that have intervals."""
        self.tested = tested
        self.ratios = {"p50": tested.response_p50_ratio, "p99": tested.response_p99_ratio}
        self._beside = {
            name: [
                _model.Simulator(
                    compiled(_slower(model, factor)).json(),
                    in_flight_max=options.max_in_flight,
                    seed=options.seed,
                    keep=False,
                )
                for factor in ratio
            ]
            for name, ratio in self.ratios.items()
        }
        self._reads = self._ios = 0

    def offer(self, batch: pa.RecordBatch) -> None:
        """What the simulator that answers is offered."""
        ops = batch["op"].to_numpy()
        self._reads += int((ops == 0).sum())
        self._ios += len(ops)
        for simulators in self._beside.values():
            for one in simulators:
                one.offer(batch)

    def prediction(self, figures: Mapping[str, Any]) -> Prediction:
        """After the last batch: what is predicted, where ``figures`` are those of the simulator that answers."""
        found = Prediction(runs=self.tested.runs)
        share = self._reads / max(1, self._ios)
        shares = self.tested.read_shares
        if shares and not min(shares) - MIX_SLACK <= share <= max(shares) + MIX_SLACK:
            tested = f"{format_share(min(shares), 0)} to {format_share(max(shares), 0)}"
            found.refused = f"{format_share(share, 0)} of the I/Os are reads; it was tested with {tested}"
            return found
        beyond = sum(disk["beyond_ios"] for disk in figures["disks"]) / max(1, self._ios)
        for name, quantile in QUANTILES.items():
            if beyond > min(BEYOND_SHARE, 1 - quantile):
                more = format_share(beyond)
                found.refused = f"{more} of the I/Os are larger, or meet more in flight, than was measured"
                continue
            value = int(figures["response"][f"{name}_ns"] or 0)
            edges = [value * ratio for ratio in self.ratios[name]]
            for one in self._beside[name]:
                one.end()
                edges.append(float(one.figures()["response"][f"{name}_ns"] or 0))
            setattr(found, f"response_ns_{name}", PredictedNs(value, round(min(edges)), round(max(edges))))
        return found


def _slower(model: Model, factor: float) -> Model:
    """The model with service times of ``factor`` times the length; limits are as they are."""
    disks: list[Disk] = []
    for disk in model.disks:
        cells = tuple(
            replace(cell, quantiles_us=tuple(us * factor for us in cell.quantiles_us))
            for cell in disk.service.cells
        )
        disks.append(replace(disk, service=replace(disk.service, cells=cells)))
    return replace(model, disks=tuple(disks))


def predict(model: Model, run: Run) -> Prediction:
    """What a fitted ``model`` says of the arrivals of ``run``. Raises `IotraceError` for one without intervals."""
    if model.tested is None or not model.tested.response_p50_ratio:
        raise IotraceError(f"the model '{model.title}' has no intervals", hint="fit it to two runs or more")
    bracket = Bracket(model, model.tested, ReplayOptions(max_in_flight=IN_FLIGHT_MOST))
    bracket.offer(arrivals_of(run))
    return bracket.prediction(predicted(model, run))


@dataclass(slots=True)
class Predictor:
    """What the next step of a sweep will come to, from the steps that were played."""

    recording: Recording
    options: ReplayOptions
    runs: list[Run] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    _fitted: dict[tuple[int, ...], Model] = field(default_factory=dict)

    def learn(self, step: Recording, scale: float) -> None:
        """A step that was played; one without I/O tells nothing."""
        try:
            run = run_of(step)
        except IotraceError:
            return
        self.runs.append(run.part(np.arange(len(run.op)) < _LEARNT_IOS_MAX))
        self.scales.append(scale)
        self._fitted.clear()

    def predict(self, scale: float, repeat: int = 1) -> Prediction:
        """Response at ``scale``."""
        try:
            model = self._model(scale)
            figures, bracket = self._play(model, scale, repeat)
        except IotraceError as problem:
            return Prediction(refused=problem.message, runs=len(self.runs))
        assert bracket is not None
        return bracket.prediction(figures)

    def wall(self, held: float, failed: float) -> float | None:
        """Between two loads the highest that is carried, by the model; None where it carries both, or neither."""
        try:
            model = replace(self._model(math.sqrt(held * failed)), tested=None)
            if not self._carries(model, held) or self._carries(model, failed):
                return None
            for _ in range(_WALL_ROUNDS):
                middle = math.sqrt(held * failed)
                if self._carries(model, middle):
                    held = middle
                else:
                    failed = middle
        except IotraceError:
            return None
        return math.sqrt(held * failed)

    def _carries(self, model: Model, scale: float) -> bool:
        figures, _ = self._play(model, scale, 1)
        span = max(1, figures["last_issued_ns"] - figures["first_issued_ns"])
        return bool(figures["last_completed_ns"] - figures["last_issued_ns"] <= BEHIND_SHARE * span)

    def _model(self, scale: float) -> Model:
        """A model of the runs about ``scale``, with how far off models of some of them are on the others."""
        by_distance = sorted(
            range(len(self.runs)), key=lambda place: abs(math.log(self.scales[place] / scale))
        )
        nearest = tuple(sorted(by_distance[:_LEARNT_RUNS_MAX]))
        if nearest not in self._fitted:
            if not nearest:
                raise IotraceError("nothing was played", hint="play a step")
            runs = [self.runs[place] for place in nearest]
            tested = held_out(runs if len(runs) > 1 else runs[0].quarters(), "the steps before")
            self._fitted[nearest] = replace(model_of(runs), tested=replace(tested, runs=len(runs)))
        return self._fitted[nearest]

    def _play(self, model: Model, scale: float, repeat: int) -> tuple[Mapping[str, Any], Bracket | None]:
        """The simulator's figures, and with a tested model what is beside it."""
        options = replace(self.options, scale=scale, repeat=repeat)
        if self.recording.manifest.rows.get("io", 0) > _RECORDED_IOS_MAX:
            raise IotraceError("too many I/Os were recorded to predict in time", hint="sweep a part of it")
        plan = planned(self.recording, options)
        if plan.ios_estimate > _IOS_MAX:
            raise IotraceError("too many I/Os to predict in time", hint="play shorter steps")
        bracket = Bracket(model, self._widened(model.tested, scale), options) if model.tested else None
        simulator = _model.Simulator(
            compiled(model).json(), in_flight_max=options.max_in_flight, seed=options.seed, keep=False
        )
        for batch in plan.batches():
            if batch.num_rows:
                simulator.offer(batch)
                if bracket is not None:
                    bracket.offer(batch)
        simulator.end()
        return simulator.figures(), bracket

    def _widened(self, tested: ModelTest, scale: float) -> ModelTest:
        if scale <= max(self.scales):
            return tested
        return replace(
            tested,
            response_p50_ratio=_at_least(tested.response_p50_ratio, HIGHER_LOAD["p50"]),
            response_p99_ratio=_at_least(tested.response_p99_ratio, HIGHER_LOAD["p99"]),
        )


def _at_least(ratio: Sequence[float], width: float) -> tuple[float, float]:
    return min(ratio[0], 1 / width), max(ratio[1], width)
