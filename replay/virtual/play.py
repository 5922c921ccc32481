"""Plays a plan on a model, and gives what came of it in the shape of a real run (`run.play.Played`)."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _model
from iotrace.replay.options import Progress, ReplayOptions
from iotrace.replay.run.play import Plan, Played
from iotrace.schemas import IotraceError, Recording, stopping
from iotrace.schemas.models import Model
from iotrace.schemas.run import ModelFacts, ModelLimit

from .compiled import Bound, compiled
from .predict import Bracket

_REPORT_SECONDS: Final = 0.1
LASTS_MAX_NS: Final = (1 << 20) * 1_000_000_000
"""The simulator counts by the second up to here."""
_NOTHING: Final = dict.fromkeys(("count", "mean_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns"), None)


def volume_of_files(recording: Recording, model: Model) -> npt.NDArray[np.uint16]:
    """The disk of the model for each file_id, the one without roles for files that no role is known of.

    One entry more than the largest file_id, for I/O of no known file.
    """
    rest = next(number for number, disk in enumerate(model.disks) if not disk.roles)
    of_role = {role: number for number, disk in enumerate(model.disks) for role in disk.roles}
    files = recording.read("files", ["file_id", "role"])
    ids = files["file_id"].to_numpy().astype(np.int64)
    found = np.full(int(ids.max(initial=-1)) + 2, rest, np.uint16)
    for file_id, role in zip(ids, files["role"].to_pylist(), strict=True):
        found[file_id] = of_role.get(role, rest)
    return found


def play_on_model(
    plan: Plan,
    model: Model,
    options: ReplayOptions,
    volume_of: npt.NDArray[np.uint16],
    *,
    sink: Callable[[pa.RecordBatch], None],
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Played, ModelFacts]:
    """Play ``plan`` on ``model`` in virtual time; ``sink`` gets each batch with what came of it.

    Returns the run, and for ``manifest.model`` what the model did. Memory does not grow with the plan.
    """
    made = compiled(model)
    try:
        simulator = _model.Simulator(made.json(), in_flight_max=options.max_in_flight, seed=options.seed)
    except ValueError as problem:
        raise IotraceError(
            f"'{model.title}' cannot be played on: {problem}",
            hint="iotrace model example shows what it takes",
        ) from problem
    has_intervals = model.tested is not None and model.tested.response_p50_ratio
    bracket = Bracket(model, model.tested, options) if model.tested is not None and has_intervals else None
    waiting: deque[pa.RecordBatch] = deque()
    started, reported, cpu_before = time.monotonic(), 0.0, time.process_time()
    planned_ios, first_ns, last_ns = 0, 0, 0

    def hand_on() -> None:
        while (outcome := simulator.take()) is not None:
            sink(_joined(waiting.popleft(), outcome))

    with stopping.deferred():
        for batch in takewhile(lambda _: not stopping.asked(), plan.batches):
            if not batch.num_rows:
                continue
            arrivals = addressed(batch, volume_of)
            waiting.append(arrivals)
            simulator.offer(arrivals)
            if bracket is not None:
                bracket.offer(arrivals)
            first_ns = first_ns if planned_ios else batch["intended_ns"][0].as_py()
            last_ns = batch["intended_ns"][-1].as_py()
            planned_ios += batch.num_rows
            hand_on()
            if progress is not None and time.monotonic() - reported > _REPORT_SECONDS:
                reported = time.monotonic()
                progress(_progress(last_ns, planned_ios, plan))
        ended = "stopped" if stopping.asked() else "normally"
    if ended == "stopped" and not planned_ios:
        raise KeyboardInterrupt  # there is nothing that could be kept
    simulator.end()
    hand_on()
    figures = simulator.figures()
    if (figures["last_completed_ns"] or 0) > LASTS_MAX_NS:
        raise IotraceError(
            f"on '{model.title}' this load takes more than twelve days",
            hint="play a part of it with --window or --busiest, or give the model faster limits",
        )
    played = Played(
        ended={"word": ended, "reason": None, "target": None, "threads_left_behind": 0},
        set_up={
            "backend": "model",
            "reason": None,
            "unregistered": None,
            "start_utc_ns": time.time_ns(),
            "in_flight_max": options.max_in_flight,
            "preferred": False,
            "submitters": 1,
        },
        tally=_tally(figures),
        starved=0,
        waits_for_room=0,
        planned_ios=planned_ios,
        planned_duration_ns=last_ns - first_ns,
        cpu_seconds=time.process_time() - cpu_before,
        feeding_cpu_seconds=0.0,
        spun_ns=0,
        host_load={"others_waited_share": None, "stolen_share": None},
        device_counters={},
    )
    facts = ModelFacts(
        title=model.title,
        source=model.source or None,
        date=model.date or None,
        tested=model.tested,
        predicted=bracket.prediction(figures) if bracket is not None else None,
        limits=[limit_facts(bound, figures) for bound in made.bounds],
        seconds=time.monotonic() - started,
    )
    return played, facts


def limit_facts(bound: Bound, figures: Mapping[str, Any]) -> ModelLimit:
    """What one limit did in a run: for how long it made I/Os wait, and what was left of its credits."""
    gate = figures["gates"][bound.gate]
    held = gate if bound.bucket is None else gate["buckets"][bound.bucket]
    facts = ModelLimit(
        bound.name, bound.counted, bound.rate, held["waited"], held["wait_ns_sum"], held["throttled_ns"] / 1e9
    )
    if bound.credits is not None:
        unit = unit_of(bound)
        facts.credits = bound.credits
        facts.credits_least = min(bound.credits, max(0.0, held["tokens_least"] / unit))
        facts.credits_end = min(bound.credits, max(0.0, held["tokens_end"] / unit))
        facts.overspent = is_over(bound, figures)
    return facts


def unit_of(bound: Bound) -> float:
    """What a limit's rate and credits are multiples of."""
    return 1.0 if bound.counted == "iops" else 1e6


def is_over(bound: Bound, figures: Mapping[str, Any], span_s: float | None = None) -> bool:
    """Whether more was asked of it than comes back in ``span_s``, by default the seconds from first to last I/O."""
    if bound.bucket is None or bound.is_peak:
        return False
    asked = figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"]
    return bool(asked["sum"] > bound.rate * unit_of(bound) * (asked["seconds"] if span_s is None else span_s))


def addressed(batch: pa.RecordBatch, volume_of: npt.NDArray[np.uint16]) -> pa.RecordBatch:
    """The batch with the model's disk as its target, by the file's role."""
    files = batch["file_id"].fill_null(-1).to_numpy(zero_copy_only=False)
    known = (files >= 0) & (files < len(volume_of) - 1)
    volume = volume_of[np.where(known, files, len(volume_of) - 1)]
    position = batch.schema.get_field_index("target")
    return batch.set_column(position, batch.schema.field(position), pa.array(volume, pa.uint16()))


def _joined(batch: pa.RecordBatch, outcome: pa.RecordBatch) -> pa.RecordBatch:
    """The plan's batch with what came of it, as the engine hands it on."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= dict(zip(outcome.schema.names, outcome.columns, strict=True))
    return pa.record_batch(columns | {"error": pa.array(np.zeros(batch.num_rows, np.int32))})


def _tally(figures: Mapping[str, Any]) -> dict[str, Any]:
    """As `_engine.Engine.tally` has it. What a model issues late, the cap on I/Os in flight held back."""
    own_lateness = _NOTHING | dict.fromkeys(("mean_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns"), 0)
    return {
        **{name: figures[name] for name in ("issued", "completed", "delayed", "bytes")},
        **{name: figures[name] for name in ("first_issued_ns", "last_issued_ns", "last_completed_ns")},
        **{name: figures[name] for name in ("lateness", "response", "service", "own_response")},
        "own_lateness": own_lateness,
        "failed": 0,
        "errors": {},
        "seconds": [
            second
            | {"failed": 0, "processor_ns": None}
            | dict.fromkeys(("lateness_ns_p50", "lateness_ns_p99", "lateness_ns_max"))
            for second in figures["seconds"]
        ],
    }


def _progress(elapsed_ns: int, ios: int, plan: Plan) -> Progress:
    return Progress(
        "play",
        elapsed_ns=elapsed_ns,
        planned_ns=plan.planned_ns,
        planned_ios=plan.planned_ios,
        due_ios=ios,
        issued_ios=ios,
        completed_ios=ios,
    )
