"""Tries a recorded load on every candidate of a catalogue, all in one pass over the plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _model
from iotrace.replay.options import ReplayOptions
from iotrace.schemas import IotraceError, Recording, Role
from iotrace.schemas.models import Machine, Model, catalogue
from iotrace.schemas.models.words import combined

from .compiled import Bound, Compiled, compiled
from .play import limit_facts, refuse_what_a_model_lacks
from .predict import planned

COUNTS: Final = (1, 2, 4)
"""Disks of fixed rates are tried alone and with stripes over so many."""
BUSIEST_SECONDS: Final = 60
"""Headroom is against the busiest stretch of this length."""
BEHIND_SECONDS: Final = 1.0
"""A candidate carries a load if it ends no later than this, or a hundredth of its length, after the last I/O is due."""
_CLASSES: Final = 3 * (len(Role) + 1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A share ``quantile`` of the responses of these roles and operations stays under ``limit_ns``."""

    words: str
    roles: tuple[str | None, ...]
    """None is I/O of files whose role is unknown."""
    ops: tuple[int, ...]
    quantile: float
    limit_ns: int

    def classes(self) -> list[int]:
        """Its classes, as the simulator knows them."""
        return [class_of(role, op) for role in self.roles for op in self.ops]


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one candidate."""

    name: str
    carries: bool
    on_credits: bool
    """The mean demand was above what comes back: it carried this recording, and would not do so for ever."""
    why_not: str
    throttled_seconds: float
    response_ns_p50: int | None
    response_ns_p99: int | None
    headroom: float | None
    """Sustained rate over the demand of the busiest stretch, of the limit where that is least."""
    binds: str
    """The limit that made I/Os wait longest, or where none did the one with the least headroom."""
    credits_end_share: float | None
    """Least of what is left of any credits."""
    iops: float
    mb_per_s: float
    """Sustained rates of all its disks together: by these candidates are smaller and larger."""
    model: Model
    made: Compiled = field(repr=False)
    simulator: _model.Simulator = field(repr=False)

    def demand(self) -> Iterator[tuple[Bound, npt.NDArray[np.float64]]]:
        """What was asked of each limit in each second, in I/Os or MB; of limits in slices, and of bursts, none."""
        figures = self.simulator.figures()
        for bound in self.made.bounds:
            if bound.bucket is not None and not bound.is_peak:
                tokens = figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"]
                yield bound, np.asarray(tokens, float) / (1.0 if bound.counted == "iops" else 1e6)


def class_of(role: str | None, op: int) -> int:
    """The class of an I/O."""
    return 3 * (0 if role is None else 1 + list(Role).index(Role(role))) + op


def candidates(provider: str, machine: Machine | None) -> Iterator[Model]:
    """Disks of the catalogue, those of fixed rates with stripes over several too, behind ``machine``."""
    held = catalogue(provider)
    fixed = {disk.name for disk in held.disks}
    for disk in held.candidates():
        for count in COUNTS if disk.name in fixed else (1,):
            name = f"{provider}/{f'{count}x' if count > 1 else ''}{disk.name}"
            yield combined(name if machine is None else f"{name}+{machine.name}", disk, count, machine)


def size(
    recording: Recording,
    options: ReplayOptions,
    models: Sequence[Model],
    wanted: Sequence[Wanted],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Tried]:
    """Play ``recording`` as ``options`` say on each of ``models``, smallest first in what is returned.

    ``progress`` is told I/Os done and all. Two threads; memory does not grow with the recording.
    """
    options.check()
    refuse_what_a_model_lacks(options)
    if not models:
        raise IotraceError("there is no candidate to try", hint="iotrace model list shows what there is")
    plan = planned(recording, options)
    role_of = _class_of_files(recording)
    made = [compiled(model) for model in models]
    simulators = [
        _model.Simulator(one.json(), in_flight_max=options.max_in_flight, classes=_CLASSES, keep=False)
        for one in made
    ]
    done = 0
    first_ns: int | None = None
    last_ns = 0
    with ThreadPoolExecutor(2, "iotrace-size") as pool:
        for batch in plan.batches():
            if not batch.num_rows:
                continue
            first_ns = batch["intended_ns"][0].as_py() if first_ns is None else first_ns
            last_ns = batch["intended_ns"][-1].as_py()
            arrivals = _with_classes(batch, role_of)
            list(pool.map(lambda one, all_=arrivals: one.offer(all_), simulators))
            done += batch.num_rows
            if progress is not None:
                progress(done, plan.ios_estimate)
        list(pool.map(lambda one: one.end(), simulators))
    tried = [
        _tried(model, one, simulator, wanted, first_ns or 0, last_ns)
        for model, one, simulator in zip(models, made, simulators, strict=True)
    ]
    return sorted(tried, key=lambda one: (one.iops, one.mb_per_s, one.name))


def _class_of_files(recording: Recording) -> npt.NDArray[np.uint8]:
    """Three times the role's number by file_id; the last entry is for I/O of no known file."""
    files = recording.read("files", ["file_id", "role"])
    ids = files["file_id"].to_numpy().astype(np.int64)
    found = np.zeros(int(ids.max(initial=-1)) + 2, np.uint8)
    for file_id, role in zip(ids, files["role"].to_pylist(), strict=True):
        found[file_id] = class_of(role, 0)
    return found


def _with_classes(batch: pa.RecordBatch, role_of: npt.NDArray[np.uint8]) -> pa.RecordBatch:
    files = batch["file_id"].fill_null(-1).to_numpy(zero_copy_only=False)
    known = (files >= 0) & (files < len(role_of) - 1)
    classes = role_of[np.where(known, files, len(role_of) - 1)] + np.minimum(batch["op"].to_numpy(), 2)
    names = ("intended_ns", "offset_bytes", "size_bytes", "op", "target", "durable")
    return pa.record_batch(
        {name: batch[name] for name in names} | {"class": pa.array(classes.astype(np.uint8))}
    )


def _tried(
    model: Model,
    made: Compiled,
    simulator: _model.Simulator,
    wanted: Sequence[Wanted],
    first_ns: int,
    last_ns: int,
) -> Tried:
    figures = simulator.figures()
    missed = [
        one.words
        for one in wanted
        if (worst := simulator.response_ns_of(one.classes(), [one.quantile])[0]) is not None
        and worst > one.limit_ns
    ]
    behind_s = ((figures["last_completed_ns"] or last_ns) - last_ns) / 1e9
    if behind_s > max(BEHIND_SECONDS, (last_ns - first_ns) / 1e11):
        missed.append(f"ends {behind_s:,.1f} s late")
    facts = [limit_facts(bound, figures) for bound in made.bounds]
    rooms = [_headroom(bound, figures) for bound in made.bounds]
    known = [(room, number) for number, room in enumerate(rooms) if room is not None]
    waited = max(range(len(facts)), key=lambda number: facts[number].wait_ns_sum, default=None)
    if waited is not None and facts[waited].waited_ios:
        binds = facts[waited].name
    else:
        binds = facts[min(known)[1]].name if known else ""
    gates = [gate["throttled_ns"] for gate in figures["gates"]]
    left = [(one.credits_end or 0.0) / one.credits for one in facts if one.credits]
    disk = model.disks[0]
    iops = disk.count * min((one.iops for one in disk.limits if one.iops), default=np.inf)
    mb_per_s = disk.count * min((one.mb_per_s for one in disk.limits if one.mb_per_s), default=np.inf)
    return Tried(
        name=model.title,
        carries=not missed,
        on_credits=any(_is_over(bound, figures) for bound in made.bounds if bound.credits is not None),
        why_not="; ".join(missed),
        throttled_seconds=max(gates, default=0) / 1e9,
        response_ns_p50=figures["response"]["p50_ns"],
        response_ns_p99=figures["response"]["p99_ns"],
        headroom=min((room for room, _ in known), default=None),
        binds=binds,
        credits_end_share=min(left, default=None),
        iops=iops,
        mb_per_s=mb_per_s,
        model=model,
        made=made,
        simulator=simulator,
    )


def _is_over(bound: Bound, figures: Mapping[str, Any]) -> bool:
    """Whether the mean demand is above the rate that comes back."""
    demand = figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"]
    return bool(demand) and sum(demand) / len(demand) > bound.rate * (1.0 if bound.counted == "iops" else 1e6)


def _headroom(bound: Bound, figures: Mapping[str, Any]) -> float | None:
    """Rate over demand in the busiest stretch; None for bursts, slices, and where nothing was asked for."""
    if bound.bucket is None or bound.is_peak:
        return None
    demand = np.asarray(figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"], float)
    length = min(BUSIEST_SECONDS, len(demand))
    if not length:
        return None
    sums = np.convolve(demand, np.ones(length), "valid")
    rate = bound.rate * (1.0 if bound.counted == "iops" else 1e6)
    return float(rate * length / sums.max()) if sums.max() > 0 else None
