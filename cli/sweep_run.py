"""A sweep, conducted: replay plays a step, analyze says where to step next, until the bend is known."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from iotrace.analyze.knee.next_load import (
    NextStep,
    StepSummary,
    is_too_much,
    next_step,
    summarise_step,
    why_ended,
)
from iotrace.analyze.units import format_duration_ns
from iotrace.replay import Progress, ReplayOptions, refuse_output_as_target, replay
from iotrace.replay.virtual.predict import Predictor
from iotrace.schemas import IotraceError, Recording, Sweep, SweepWriter, stopping
from iotrace.schemas.models import is_model_target
from iotrace.schemas.run import Prediction
from iotrace.schemas.sweep import SweepSettings, watched_path
from iotrace.schemas.writer import refuse_over_source

from .watching import watched

STEP_SECONDS: Final = 10.0
"""Shorter steps have too few I/Os for a p99 at ordinary rates."""
_SECONDS_MIN: Final = 1e-3
STEPS_MAX: Final = 24
"""Enough to double the load a dozen times, close in on the knee, and run some steps again."""

StepStarts = Callable[[int, float, float, Prediction | None], Callable[[Progress], None] | None]
"""Called with a step's number, its scale, its planned seconds and what is predicted of it; returns what to call with
its progress."""
Play = Callable[[Path, ReplayOptions, Callable[[Progress], None] | None], Recording]
"""Plays a step with these options, and writes it to this path."""
_STOPPED: Final = "it was asked to stop"
_WRONG_MAX: Final = 2
"""After so many loads that came out otherwise than was said the walk goes by itself."""


def run_sweep(
    recording: Recording,
    output: Path,
    options: ReplayOptions,
    *,
    scales: Sequence[float] | None = None,
    step_seconds: float = STEP_SECONDS,
    steps_max: int = STEPS_MAX,
    resolution: float = 0.05,
    scale_max: float | None = None,
    title: str | None = None,
    overwrite: bool = False,
    watch: bool = False,
    load: str = "1x",
    play: Play | None = None,
    on_start: StepStarts = lambda _number, _scale, _seconds, _said: None,
    on_done: Callable[[StepSummary, Recording], None] = lambda _summary, _recording: None,
) -> Sweep:
    """Walk the load up on the targets of ``options`` and keep each step as a recording of the sweep ``output``.

    A step plays the recording, or the part ``options.window_ns`` names, again and again until it has lasted
    ``step_seconds``, or some times that (`knee.next_load`); a higher load therefore repeats it more often, and
    every step does the same kind of work (copies of mode superpose last as long as the recording at any load). An
    interrupted step is kept and ends the sweep. What those before it say of a step is kept beside it, and
    tells where to look for the knee (`Predictor`). With ``watch`` the Linux recorder runs beside every step, and its
    recording is kept beside it. ``load`` says what 1x is. ``play`` plays a step where this machine does not; nothing is
    predicted then. Why the sweep ended is kept in its settings, as ``ended``.
    """

    def here(path: Path, asked: ReplayOptions, progress: Callable[[Progress], None] | None) -> Recording:
        return replay(recording, path, asked, progress=progress)

    refuse_over_source(output, [recording.path])
    refuse_output_as_target(options.all_targets, output)
    first, last = options.window_ns or (0, recording.manifest.window_end_ns)
    window_seconds = (last - first) / 1e9
    if window_seconds < _SECONDS_MIN:
        raise IotraceError(
            f"'{recording.path}' lasts {format_duration_ns(last - first)}, too short to be played again and again",
            hint=f"iotrace validate {recording.path} tells whether it is whole; choose a longer part",
        )
    done: list[StepSummary] = []
    is_guided = play is None and not is_model_target(options.all_targets)
    guide = _Guide(Predictor(recording, options) if is_guided else None)
    is_whole = scales is None and options.mode == "superpose"
    with ExitStack() as stack:
        stack.enter_context(stopping.deferred())
        writer = stack.enter_context(
            SweepWriter(
                output,
                title=title or f"Sweep of {recording.manifest.title}",
                source_uuid=recording.manifest.uuid,
                settings=SweepSettings(
                    targets=list(options.targets),
                    window_ns=[first, last],
                    step_seconds=step_seconds,
                    load=load,
                ),
                overwrite=overwrite,
            )
        )
        while True:
            following = next_step(
                done,
                scales=scales,
                steps_max=steps_max,
                resolution=resolution,
                scale_max=scale_max,
                wall=guide.wall,
            )
            if following is not None and is_whole:
                following = _of_whole_copies(following, done)
            if following is None:
                writer.end(why_ended(done, scales=scales, steps_max=steps_max, scale_max=scale_max))
                return writer.sweep
            scale, times = following.scale, following.times
            speed = 1.0 if options.mode == "superpose" else scale
            repeat = max(1, math.ceil(step_seconds * times * speed / window_seconds - 1e-9))
            said = guide.predict(scale, repeat)
            path = writer.step_path(scale)
            beside = watched(options.all_targets, watched_path(path)) if watch else nullcontext()
            asked = replace(
                options, scale=scale, repeat=repeat, title=f"{recording.manifest.title} at {scale:g}x"
            )
            try:
                with stopping.interrupting(), beside:
                    starts = on_start(len(done) + 1, scale, window_seconds * repeat / speed, said)
                    step = (play or here)(path, asked, starts)
            except KeyboardInterrupt:
                if not path.exists():
                    if not writer.sweep.steps:
                        raise
                    writer.end(_STOPPED)
                    return writer.sweep
                step = Recording.open(path)
            writer.add(scale, step, said)
            if _is_interrupted(step) or stopping.asked():
                writer.end(_STOPPED)
                return writer.sweep
            done.append(summarise_step(step, scale, times=times))
            guide.learn(step, done[-1])
            on_done(done[-1], step)


@dataclass(slots=True)
class _Guide:
    """Predictions for the walk; without a predictor (on a model, which needs no prediction) it says nothing."""

    predictor: Predictor | None
    wrong: int = 0
    """Loads that were said to be held, or not, and came out otherwise."""
    expected: float | None = None

    def wall(self, held: float, failed: float) -> float | None:
        """`next_load.Wall`."""
        if self.predictor is not None and self.wrong < _WRONG_MAX:
            self.expected = self.predictor.wall(held, failed)
        return self.expected

    def predict(self, scale: float, repeat: int) -> Prediction | None:
        """What the steps before say of the next; None before the first."""
        if self.predictor is None or not self.predictor.runs:
            return None
        return self.predictor.predict(scale, repeat)

    def learn(self, step: Recording, summary: StepSummary) -> None:
        """From a step that was played."""
        if self.predictor is not None:
            self.predictor.learn(step, summary.scale)
        if self.expected is not None:
            self.wrong += is_too_much(summary) != (summary.scale > self.expected)
        self.expected = None


def _of_whole_copies(step: NextStep, done: Sequence[StepSummary]) -> NextStep | None:
    """The step in whole copies, as not every fraction can be made of whole streams; None where that ran already."""
    scale = float(max(1, round(step.scale)))
    is_new = all(one.scale != scale for one in done) or step.times > max(
        one.times for one in done if one.scale == scale
    )
    return NextStep(scale, step.times) if is_new or done[-1].is_disturbed else None


def was_interrupted(sweep: Sweep) -> bool:
    """Whether its last step was stopped before its end, or it was asked to stop between two."""
    return stopping.asked() or (bool(sweep.steps) and _is_interrupted(sweep.recordings()[-1]))


def _is_interrupted(step: Recording) -> bool:
    return step.manifest.was_interrupted
