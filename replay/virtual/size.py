"""Tries a recorded load on every candidate of a catalogue, all in one pass over the plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.replay import _model
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.schedule import allowed_processors
from iotrace.schemas import IotraceError, Recording, Role
from iotrace.schemas.models import Disk, Limit, Machine, Model, catalogue
from iotrace.schemas.models.model import DEPTH_MS
from iotrace.schemas.models.words import Part, combined

from .compiled import Bound, Compiled, compiled
from .play import addressed, is_over, limit_facts, unit_of, volume_of_files
from .predict import planned

COUNTS: Final = (1, 2, 4)
"""Disks of fixed rates are tried alone and with stripes over so many."""
BEHIND_SECONDS: Final = 1.0
"""A candidate carries a load if it ends no later than this, or a hundredth of its length, after the last I/O is due."""
COMBINED: Final = 3
"""So many of the smallest disks, log disks and machines are combined."""
_ALL: Final = "all"
_REST: Final = "all but the log"
_LOG: Final = "the log"
_SPLITS: Final = "splits"
_MACHINES: Final = "machines"
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
    ios_min: int = 0
    """With fewer I/Os it cannot be judged."""

    def classes(self) -> list[int]:
        """Its classes, as the simulator knows them."""
        return [class_of(role, op) for role in self.roles for op in self.ops]


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one candidate."""

    name: str
    ios: int
    carries: bool
    on_credits: bool
    """The mean demand was above what comes back: it carried this recording, and would not do so for ever."""
    why_not: str
    throttled_seconds: float
    response_ns_p50: int | None
    """Of reads and writes."""
    response_ns_p99: int | None
    response_ns_slo: int | None
    """Of the I/Os, and at the percentile, of what is wanted first."""
    headroom: float | None
    """Sustained rate over the demand of the busiest minute, of the limit where that is least."""
    binds: str
    """The limit that made I/Os wait longest, or where none did the one with the least headroom."""
    credits_end_share: float | None
    """Least of what is left of any credits."""
    credits_last_seconds: float | None
    """For how long full credits would carry the mean demand; None where what comes back carries it."""
    iops: float
    mb_per_s: float
    """Sustained rates of all its disks together: by these candidates are smaller and larger."""
    model: Model
    made: Compiled = field(repr=False)
    simulator: _model.Simulator = field(repr=False)

    def demand(self) -> Iterator[tuple[Bound, npt.NDArray[np.float64], int]]:
        """What was asked of each limit a second, in I/Os or MB, and for how many seconds each of these figures stands.

        Of limits in slices, and of bursts, there is none.
        """
        figures = self.simulator.figures()
        for bound in self.made.bounds:
            if bound.bucket is not None and not bound.is_peak:
                asked = figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"]
                points = np.asarray(asked["points"], float) / unit_of(bound) / asked["step_s"]
                yield bound, points, asked["step_s"]


def class_of(role: str | None, op: int) -> int:
    """The class of an I/O."""
    return 3 * (0 if role is None else 1 + list(Role).index(Role(role))) + op


def candidates(provider: str, machine: Machine | None) -> Iterator[Model]:
    """Disks of the catalogue, those of fixed rates with stripes over several too, behind ``machine``."""
    for part in _parts(provider):
        if machine is None or machine.takes(part.disk):
            yield _combined(provider, [part], machine)


def _parts(provider: str) -> Iterator[Part]:
    held = catalogue(provider)
    fixed = {disk.name for disk in held.disks}
    for disk in held.candidates():
        for count in COUNTS if disk.name in fixed else (1,):
            yield Part(disk, count)


def _combined(provider: str, parts: Sequence[Part], machine: Machine | None) -> Model:
    words = ",".join(part.words for part in parts)
    return combined(f"{provider}/{words}{f'+{machine.name}' if machine else ''}", parts, machine)


def size(
    recording: Recording,
    options: ReplayOptions,
    models: Sequence[Model],
    wanted: Sequence[Wanted],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Tried]:
    """Play ``recording`` as ``options`` say on each of ``models``, smallest first in what is returned.

    ``progress`` is told I/Os done and all. A thread for each processor; memory does not grow with the recording.
    """
    if not models:
        raise IotraceError("there is no candidate to try", hint="iotrace model list shows what there is")
    return _try_all(recording, options, {_ALL: models}, wanted, progress)[_ALL]


@dataclass(frozen=True, slots=True)
class Sized:
    """What was tried of a catalogue, smallest first; behind the machine that was asked for, if one was."""

    disks: list[Tried]
    splits: list[Tried]
    """The log on a disk of its own, where one was recorded."""
    machines: list[Tried]
    """The smallest disks that carry the load, and the smallest splits, behind the smallest machines that do."""
    machines_tried: int


def size_catalogue(
    recording: Recording,
    options: ReplayOptions,
    provider: str,
    machine: Machine | None,
    wanted: Sequence[Wanted],
    *,
    rank: Callable[[Tried], float] = lambda _: 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Sized:
    """Every disk of the catalogue, then those combinations that make sense, in up to three passes over the plan.

    A log gets a disk of its own where the recording has files of that role: what carries the log alone beside what
    carries the rest, the smallest of each. Without ``machine`` each machine is tried alone, before disks that hold
    nothing back, and the smallest that carry the load are tried with the smallest disks that do. ``rank``, such as a
    price, comes before size there. Raises `IotraceError`
    where the machine takes none of the disks.
    """
    parts = list(_parts(provider))
    behind = [part for part in parts if machine is None or machine.takes(part.disk)]
    first = {_ALL: [_combined(provider, [part], machine) for part in behind]}
    if not first[_ALL]:
        raise IotraceError("there is no candidate to try", hint="iotrace model list shows what there is")
    if Role.LOG in recording.read("files", ["role"])["role"].to_pylist():
        first[_REST] = [_combined(provider, [part], None) for part in behind]
        first[_LOG] = [_combined(provider, [part], None) for part in behind if part.count == 1]
    machines = []
    if machine is None:
        held = catalogue(provider)
        machines = [cited for one in held.machines if (cited := held.machine(one.name)) is not None]
        first[_MACHINES] = [_machine_alone(provider, one) for one in machines]
    found = _try_all(recording, options, first, wanted, progress)
    part_of = {_combined(provider, [part], None).title: part for part in parts}
    splits = [
        [part_of[rest.name], Part(part_of[log.name].disk, role=Role.LOG)]
        for rest in _smallest(found.get(_REST, []), rank)
        for log in _smallest(found.get(_LOG, []), rank)
    ]
    of_name = {one.name: one for one in machines}
    able = [of_name[alone.name.partition("/")[2]] for alone in _carrying(found.get(_MACHINES, []), rank)]
    singles = [[part_of[one.name]] for one in _carrying(found[_ALL], rank) if machine is None]
    combined_of = {_combined(provider, split, machine).title: split for split in splits}
    models = [_combined(provider, split, machine) for split in splits]
    tried = _try_all(recording, options, {_SPLITS: models}, wanted, progress) if models else {}
    carrying = [combined_of[one.name] for one in _carrying(tried.get(_SPLITS, []), rank)]
    with_machine = [
        _combined(provider, chosen, one)
        for chosen, taking in (*_taken(singles, able), *_taken(carrying, able))
        for one in taking[:COMBINED]
    ]
    if with_machine:
        tried |= _try_all(recording, options, {_MACHINES: with_machine}, wanted, progress)
    return Sized(found[_ALL], tried.get(_SPLITS, []), tried.get(_MACHINES, []), len(machines))


def _machine_alone(provider: str, machine: Machine) -> Model:
    return Model(
        title=f"{provider}/{machine.name}",
        source=machine.source,
        date=machine.date,
        machine=machine,
        disks=(Disk(),),
    )


def _smallest(tried: Sequence[Tried], rank: Callable[[Tried], float]) -> list[Tried]:
    """The first that carry the load, those that do so for ever before those that live on credits."""
    return _carrying(tried, rank)[:COMBINED]


def _carrying(tried: Sequence[Tried], rank: Callable[[Tried], float]) -> list[Tried]:
    able = (one for one in tried if one.carries and one.ios)
    return sorted(able, key=lambda one: (one.on_credits, rank(one)))


def _taken(
    disks: Sequence[list[Part]], machines: Sequence[Machine]
) -> list[tuple[list[Part], list[Machine]]]:
    """The first disks that any of the machines takes, each with those that do: their limits are for some types only."""
    taken = (
        (chosen, [machine for machine in machines if all(machine.takes(part.disk) for part in chosen)])
        for chosen in disks
    )
    return list(islice(((chosen, taking) for chosen, taking in taken if taking), COMBINED))


def _order(one: Tried) -> tuple[float, float, float, str]:
    machine = one.model.machine
    return one.iops, one.mb_per_s, _least(machine.limits if machine else (), "iops"), one.name


def _least(limits: Sequence[Limit], rate: str) -> float:
    return min((value for limit in limits if (value := getattr(limit, rate))), default=np.inf)


def _try_all(
    recording: Recording,
    options: ReplayOptions,
    groups: Mapping[str, Sequence[Model]],
    wanted: Sequence[Wanted],
    progress: Callable[[int, int], None] | None,
) -> dict[str, list[Tried]]:
    """One pass over the plan; ``_LOG`` gets the I/O of logs, ``_REST`` all other, every other group all of it."""
    options.check()
    plan = planned(recording, options)
    role_of = _class_of_files(recording)
    made = {name: [compiled(model) for model in models] for name, models in groups.items()}
    simulators = {
        name: [_simulator(one, options.max_in_flight) for one in models] for name, models in made.items()
    }
    like = {_roles(model): model for models in groups.values() for model in models}
    volumes = {roles: volume_of_files(recording, model) for roles, model in like.items()}
    spans: dict[str, tuple[int, int]] = {}
    done = 0
    with ThreadPoolExecutor(allowed_processors(), "iotrace-size") as pool:
        for batch in plan.batches():
            part_of = {
                roles: _with_classes(addressed(batch, volume), role_of) for roles, volume in volumes.items()
            }
            work: list[tuple[_model.Simulator, pa.RecordBatch]] = []
            for name, models in groups.items():
                parts = {roles: _part(name, arrivals) for roles, arrivals in part_of.items()}
                anyone = next(iter(parts.values()))
                if not anyone.num_rows or not models:
                    continue
                first_ns, last_ns = anyone["intended_ns"][0].as_py(), anyone["intended_ns"][-1].as_py()
                spans[name] = spans.get(name, (first_ns, 0))[0], last_ns
                work += zip(simulators[name], (parts[_roles(model)] for model in models), strict=True)
            list(pool.map(lambda one: one[0].offer(one[1]), work))
            done += batch.num_rows
            if progress is not None:
                progress(done, plan.ios_estimate)
        list(pool.map(lambda one: one.end(), [one for ones in simulators.values() for one in ones]))
    if simulators.get(_ALL):
        _refuse_untold(simulators[_ALL][0], wanted)
    return {
        name: sorted(
            (
                _tried(model, one, simulator, wanted, *spans.get(name, (0, 0)))
                for model, one, simulator in zip(models, made[name], simulators[name], strict=True)
            ),
            key=_order,
        )
        for name, models in groups.items()
    }


def _refuse_untold(simulator: _model.Simulator, wanted: Sequence[Wanted]) -> None:
    """Raises `IotraceError` for what too few I/Os can show, on whichever disk."""
    for one in wanted:
        if (count := simulator.count_of(one.classes())) < one.ios_min:
            raise IotraceError(
                f"whether a disk {one.words} cannot be told: {count:,} such I/Os are played, and it takes "
                f"{one.ios_min:,}",
                hint="ask for a lower percentile, for other I/Os, or of a longer recording",
            )


def _roles(model: Model) -> tuple[tuple[str, ...], ...]:
    """Models of which this is the same have each I/O on the same of their disks."""
    return tuple(disk.roles for disk in model.disks)


def _part(group: str, arrivals: pa.RecordBatch) -> pa.RecordBatch:
    if group not in {_LOG, _REST}:
        return arrivals
    is_log = arrivals["class"].to_numpy() // 3 == class_of(Role.LOG, 0) // 3
    return arrivals.filter(pa.array(is_log if group == _LOG else ~is_log))


def _simulator(made: Compiled, in_flight_max: int) -> _model.Simulator:
    return _model.Simulator(made.json(), in_flight_max=in_flight_max, classes=_CLASSES, keep=False)


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
    responses_ns = [simulator.response_ns_of(one.classes(), [one.quantile])[0] for one in wanted]
    missed = [
        one.words
        for one, response_ns in zip(wanted, responses_ns, strict=True)
        if response_ns is not None and response_ns > one.limit_ns
    ]
    behind_s = ((figures["last_completed_ns"] or last_ns) - last_ns) / 1e9
    if behind_s > max(BEHIND_SECONDS, (last_ns - first_ns) / 1e11):
        missed.append(f"ends {behind_s:,.1f} s late")
    span_s = (last_ns - first_ns) / 1e9 + DEPTH_MS / 1e3
    missed += [
        f"the load is always above {bound.name}"
        for bound in made.bounds
        if bound.credits is None and is_over(bound, figures, span_s)
    ]
    facts = [limit_facts(bound, figures) for bound in made.bounds]
    rooms = [_headroom(bound, figures) for bound in made.bounds]
    known = [(room, number) for number, room in enumerate(rooms) if room is not None]
    waited = max(range(len(facts)), key=lambda number: facts[number].wait_ns_sum, default=None)
    if waited is not None and facts[waited].waited_ios:
        binds = facts[waited].name
    else:
        binds = facts[min(known)[1]].name if known else ""
    gates = [gate["throttled_ns"] for gate in figures["gates"]]
    reads_and_writes = [class_of(role, op) for role in (None, *Role) for op in (0, 1)]
    p50_ns, p99_ns = simulator.response_ns_of(reads_and_writes, [0.5, 0.99])
    left = [(one.credits_end or 0.0) / one.credits for one in facts if one.credits]
    lasting = [
        bound.credits / (_mean_demand(bound, figures) - bound.rate)
        for bound in made.bounds
        if bound.credits is not None and is_over(bound, figures)
    ]
    iops, mb_per_s = (
        sum(disk.count * _least(disk.limits, rate) for disk in model.disks) for rate in ("iops", "mb_per_s")
    )
    return Tried(
        name=model.title,
        ios=figures["issued"],
        carries=not missed,
        on_credits=bool(lasting),
        why_not="; ".join(missed),
        throttled_seconds=max(gates, default=0) / 1e9,
        response_ns_p50=p50_ns,
        response_ns_p99=p99_ns,
        response_ns_slo=next(iter(responses_ns), None),
        headroom=min((room for room, _ in known), default=None),
        binds=binds,
        credits_end_share=min(left, default=None),
        credits_last_seconds=min(lasting, default=None),
        iops=iops,
        mb_per_s=mb_per_s,
        model=model,
        made=made,
        simulator=simulator,
    )


def _mean_demand(bound: Bound, figures: Mapping[str, Any]) -> float:
    """I/Os or MB a second that were asked of it."""
    asked = figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"]
    return float(asked["sum"] / asked["seconds"] / unit_of(bound))


def _headroom(bound: Bound, figures: Mapping[str, Any]) -> float | None:
    """Rate over demand in the busiest minute; None for bursts, slices, and where nothing was asked for."""
    if bound.bucket is None or bound.is_peak:
        return None
    asked = figures["gates"][bound.gate]["buckets"][bound.bucket]["demand"]
    most = asked["busiest"]
    return float(bound.rate * unit_of(bound) * asked["busiest_seconds"] / most) if most > 0 else None
