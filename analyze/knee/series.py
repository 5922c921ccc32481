"""The knee of a series of loads: of a sweep's steps, of closed loops, or of results that another tool printed.

Whether the recordings are one series is asked first: a knee over loads on different storage, or of different work, is
none.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from iotrace.analyze import slo as slo_module
from iotrace.schemas import IotraceError, Recording, Sweep, counted
from iotrace.schemas.run import Prediction, Replay

from .answer import Knee
from .closed_loop import is_closed, knee_closed
from .predicted import predicted_of
from .results import is_tested, knee_results
from .step import measure
from .sweep import knee_of

_USE: Final = (
    "a knee takes replays of one recording at several loads, as iotrace sweep makes them; iotrace compare A B holds "
    "two recordings against each other, iotrace describe shows one"
)

_SAME: Final[dict[str, Callable[[Replay], Any]]] = {
    "recordings that were replayed": lambda replay: replay.source_uuid,
    "targets": lambda replay: [target.name for target in replay.targets] or None,
    "parts of the recording": lambda replay: replay.window_ns,
    "modes": lambda replay: replay.mode,
    "filters": lambda replay: replay.filters,
}
"""What steps have in common, where their manifests say it."""


def refuse_unless_series(steps: Sequence[Recording], *, has_scales: bool) -> None:
    """Raise `IotraceError` where ``steps`` are no steps of one sweep.

    ``has_scales``: a sweep says what their loads are.
    """
    seen: dict[str, Recording] = {}
    for step in steps:
        twin = seen.setdefault(step.manifest.uuid, step)
        if twin is not step:
            raise IotraceError(
                f"'{twin.path}' and '{step.path}' are the same recording, given twice", hint=_USE
            )
        if not step.manifest.is_played:
            raise IotraceError(
                f"'{step.path}' is not a step of a sweep: it was {step.manifest.kind}, not replayed",
                hint=_USE,
            )
    for name, fact in _SAME.items():
        known = [(step, value) for step in steps if (value := fact(step.manifest.open_replay)) is not None]
        for step, value in known:
            if value != known[0][1]:
                raise IotraceError(
                    f"'{known[0][0].path}' and '{step.path}' are not steps of one sweep: their {name} differ",
                    hint=_USE,
                )
    scales = [step.manifest.open_replay.scale for step in steps]
    if not has_scales and len(steps) > 1 and None not in scales and len(set(scales)) == 1:
        raise IotraceError(
            f"these {len(steps)} replays are all at {scales[0]:g}x, so there is no load to find a knee over",
            hint=_USE,
        )


def knee_of_sweep(
    sweep: Sweep, *, slo: str | Sequence[slo_module.Objective] | None = None, seed: int = 0
) -> Knee:
    """`knee` of a sweep's steps, with all that the sweep says of them; a note where it was never finished.

    Raises `IotraceError` as `knee` does.
    """
    if not sweep.steps:
        raise IotraceError(
            f"'{sweep.path}' has no finished step",
            hint="run the sweep again and let at least one step finish",
        )
    steps = sweep.recordings()
    found = knee(
        steps,
        slo=slo,
        scales=[step.scale for step in sweep.steps],
        watched=sweep.watched(),
        baseline=sweep.settings.load,
        predicted=[step.predicted for step in sweep.steps],
        seed=seed,
    )
    if sweep.is_cut_off and not steps[-1].manifest.was_interrupted:
        found.notes.append(
            "This sweep was not finished: its command still runs, or was killed. "
            f"This is what {counted(len(steps), 'step')} so far tell{'s' if len(steps) == 1 else ''}."
        )
    return found


def knee(
    steps: Sequence[Recording],
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    scales: Sequence[float] | None = None,
    watched: Sequence[Recording | None] | None = None,
    baseline: str = "1x",
    predicted: Sequence[Prediction | None] = (),
    seed: int = 0,
) -> Knee:
    """Find the knee of a sweep's steps, in any order, and the load at which each objective of ``slo`` is crossed.

    ``slo`` is text as `slo.parse` takes it, or its result. ``scales`` are the steps' loads relative to the recording
    they replay; by default what each replay noted. ``watched`` has for each step what a recorder saw of its target
    meanwhile, if anything; it shows which layer saturated. ``baseline`` says what 1x is, ``predicted`` what was
    said of each step before it was played. Runs of closed loops go by
    their numbers outstanding instead (`closed_loop`), imported results by what they differ in (`results`). The
    same steps and ``seed`` give the same answer. Raises `IotraceError` for no steps, unreadable ones, recordings that
    are no steps of one sweep, or a bad objective.
    """
    objectives = slo_module.parse(slo) if isinstance(slo, str) else tuple(slo or ())
    if not steps:
        raise IotraceError(
            "there is no step to find a knee in", hint="iotrace sweep writes one recording per step"
        )
    if scales is not None and len(scales) != len(steps):
        raise ValueError(f"{len(scales)} scales for {len(steps)} steps")
    watched = watched or [None] * len(steps)
    if any(is_tested(one) for one in steps):
        return knee_results(steps, objectives=objectives, seed=seed)
    if any(is_closed(one) for one in steps):
        return knee_closed(steps, objectives=objectives, seed=seed)
    refuse_unless_series(steps, has_scales=scales is not None)
    measured = [
        measure(one, None if scales is None else scales[index], beside)
        for index, (one, beside) in enumerate(zip(steps, watched, strict=True))
    ]
    found = knee_of(measured, objectives=objectives, baseline=baseline, seed=seed)
    found.predicted = predicted_of(
        [(step, said) for (step, _), said in zip(measured, predicted, strict=False)]
    )
    return found
