"""What one load step measured: load offered and carried, latencies, and whether the step may be judged at all.

An I/O's *response* runs from the moment the replay wanted it (``intended_ns``, or ``issued_ns`` where nothing was
planned) to its completion; its *service* from issue to completion. Reads and writes count as load; failed ones do not.

Offered and achieved load are the rates at which the first 99 % of the I/Os were wanted and had completed, both from the
first I/O on, so that one straggler does not make a step look slow. They differ by the backlog that the storage had
built up: a step is *saturated* when it carried less than 97 % of what was offered, when the backlog was growing, when a
part of the I/Os fell behind (`parts`), or when it broke: from then on it was never idle, and carried less than before
(`flow`). A backlog is the bursts' own where
the storage, while never idle and to the end, carried more than what was offered on the whole: no load was too much.

Latency that breaks within a step although the step carries all of its load.

A write cache or an SLC cache that fills up below what the slow medium carries slows every I/O down, and no backlog
shows it. The medians of a step's stretches are split into levels (`incident.change_points`); the step broke where every
level from there on is at least twice every one before. Storage that slows down and recovers did not break, nor did a
step whose load rose meanwhile.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.analyze import library
from iotrace.analyze.incident.change_points import segment
from iotrace.analyze.present.program import MaybeNaN, figure
from iotrace.analyze.stats import histogram
from iotrace.analyze.validity.subject import apart, lost, others_bytes
from iotrace.schemas import LOAD_OPS, IotraceError, Layer, Recording, counted
from iotrace.schemas.arrays import Floats, Int64s
from iotrace.schemas.run import ClosedLoop, Run
from iotrace.schemas.vocabulary import load_layer

from .flow import SLOTS_PER_BLOCK, Carried, Flow, carried
from .layers import Layers, measure_layers
from .parts import SLOW_SPAN_SHARE, Cells, slowest_part

TIMES_MIN: Final = 2.0
"""A level this many times the one before is another; below, caches and neighbours vary as much."""
SHARE_MIN: Final = 0.1
"""A level lasts for this share of the step at least: less is an incident, or a beginning."""
_LOAD_RISE_MAX: Final = 1.2
_BREAK_STRETCHES_MIN: Final = 12


@dataclass(frozen=True, slots=True)
class LatencyBreak:
    """From ``at_share`` of the step on its median response was ``after_ns``, before it ``before_ns``."""

    at_share: float
    before_ns: float
    after_ns: float


def latency_break(median_ns: Floats, wanted_per_s: Floats) -> LatencyBreak | None:
    """Where latency broke, from the median response and the load of each stretch in turn [stretches]; None if nowhere.

    Stretches without an I/O have a median of 0 and do not count.
    """
    filled = np.flatnonzero(median_ns > 0)
    if len(filled) < _BREAK_STRETCHES_MIN:
        return None
    medians, load = median_ns[filled], wanted_per_s[filled]
    borders = segment(np.log(medians), np.zeros(len(medians))).borders
    levels = [float(np.exp(np.log(medians[begin:end]).mean())) for begin, end in pairwise(borders)]
    for place in range(1, len(levels)):
        at = borders[place]
        is_long = SHARE_MIN * len(medians) <= at <= (1 - SHARE_MIN) * len(medians)
        is_slower = min(levels[place:]) >= TIMES_MIN * max(levels[:place])
        if is_long and is_slower and load[at:].mean() <= _LOAD_RISE_MAX * load[:at].mean():
            return LatencyBreak(
                float(filled[at]) / len(median_ns),
                float(np.median(medians[:at])),
                float(np.median(medians[at:])),
            )
    return None


CARRIED_SHARE_MIN: Final = 0.97
"""Below this share of the load offered it is not carried, and two loads are not the same."""
LATENESS_SHARE_MAX: Final = 0.1
"""Lateness p99 above this share of the p99 of response: the generator, not the storage, was measured."""
ERROR_SHARE_MAX: Final = 0.01
LAW_ERROR_MAX: Final = 0.1
"""A step further from Little's law than this was cut off, or its I/Os were not all seen to end."""
IOS_MIN: Final = 100
"""With fewer I/Os even a rate is not known to 10 % (Poisson)."""
BLOCKS: Final = 48
"""Stretches a step is cut into for trend and bootstrap."""
_FLOW_SLOTS_MAX: Final = 1 << 22
"""32 MiB a column; I/Os are spread over as many slots as their last end asks for, however late it is."""
BLOCK_IOS_MIN: Final = 25
_BUSY_SHARE_MIN: Final = 0.5
_BEYOND_CAPACITY: Final = 1.02
_QUEUEING_SHARE_MIN: Final = 0.05
_STRETCHES_MIN: Final = 8
"""A rate known from fewer stretches than this has no interval."""
_QUANTILES: Final = ("p50", "p95", "p99", "p99_9")


@dataclass(frozen=True, slots=True)
class Transactions:
    """What a test of transactions measured at one number of users."""

    new_orders_per_minute: float | None
    transactions_per_minute: float | None
    new_order_ns_mean: float | None


@dataclass(slots=True)
class Step:
    """One load step. Rates are I/Os or 10^6 bytes per second; latencies nanoseconds, None with too few I/Os."""

    name: str
    uuid: str
    scale: float | None
    layer: str
    io_count: int
    error_count: int
    delayed_count: int
    duration_s: float
    offered_iops: float
    achieved_iops: float
    offered_mb_per_s: float
    achieved_mb_per_s: float
    in_flight_mean: MaybeNaN
    littles_law_ratio: MaybeNaN
    """Time-averaged number in flight over arrival rate x mean response; below 1 when a backlog was left at the end."""
    response_ns_mean: float
    response_ns: dict[str, int | None]
    service_ns: dict[str, int | None]
    lateness_ns_p99: int
    generator_limited: bool
    is_steady: bool
    is_saturated: bool
    notes: list[str] = field(default_factory=list)
    outstanding: int | None = None
    """I/Os kept in flight by a closed loop; None where the load was a rate."""
    service_ns_mean: float = 0.0
    is_warming: bool = False
    """Latency was still falling: caches filled, or a backlog from before drained. Such a step is not steady."""
    layers: Layers | None = None
    """Where the time went, where the device layer shows."""
    load_word: str = "outstanding"
    """What ``outstanding`` counts: I/Os, or a load test's threads or virtual users."""
    law_error_max: float = LAW_ERROR_MAX
    transactions: Transactions | None = None
    """What a test of transactions came to; it knows of no I/Os."""
    generator_busy_share: float | None = None
    """Share of its time that a closed loop's submitting threads spent on a processor; None where that is not known."""
    started_utc_ns: int = 0
    sustained_iops: float | None = None
    """What it carried while it was never idle, since it broke if it did; None where it was never that busy."""
    busy_s: float = 0.0
    """For how long it was."""
    break_s: float | None = None
    """Seconds into the step when it stopped carrying what it had until then; None where it did not."""
    burst_iops: float | None = None
    """What it carried until then."""
    credits_ios: float | None = None
    """I/Os it carried until then beyond the sustained rate."""
    limited_op: str | None = None
    """The operation that was held back where the other was not."""
    slow_part: str | None = None
    """The part of the I/Os that fell behind while the others kept up, in words (`parts`)."""
    latency_break: LatencyBreak | None = None
    """Where latency rose for good within a step that carried all of its load."""
    others_bytes: int | None = None
    """What others moved on the device meanwhile; None where its counters are not known."""
    is_on_credits: bool = False
    """It kept up, but carried more than is sustained (`judged_steps`)."""
    overspent: list[str] = field(default_factory=list)
    """Limits of the model that answered of which more was asked than comes back: saved credits carried the rest."""
    set_aside: list[str] = field(default_factory=list)
    """Why the other steps speak against this one (`judged_steps`)."""

    not_together: str = ""
    """Why several generators did not play one load, where they did not."""

    @property
    def lives_on_credits(self) -> bool:
        """Whether saved credits carried part of it: by what other steps show, or by the model's own account."""
        return self.is_on_credits or (bool(self.overspent) and not self.is_saturated)

    @property
    def littles_law_holds(self) -> bool:
        """Whether what was under way agrees with arrivals and latency, as far as both are known."""
        return not abs(self.littles_law_ratio - 1) > self.law_error_max

    @property
    def has_few_ios(self) -> bool:
        """Whether there are too few I/Os to tell anything; a tool that counts none may still know a rate."""
        return self.outstanding is None and 0 < self.io_count < IOS_MIN

    @property
    def is_too_short(self) -> bool:
        """Whether the same load, run for longer, would tell more."""
        is_overload = self.is_saturated and self.outstanding is None
        cut_off = not self.littles_law_holds and not self.generator_limited
        return self.has_few_ios or (not is_overload and (self.is_warming or cut_off))

    @figure
    def left_out_because(self) -> list[str]:
        """Why the step says nothing about the storage; empty where it does.

        The generator was late, I/Os failed, there are too few, or it was out of balance: neither saturated, nor steady
        with Little's law holding. Or the other steps speak against it.
        """
        reasons = []
        if self.generator_limited:
            reasons.append("the load generator was late")
        if self.not_together:
            reasons.append(f"the generators did not play together: {self.not_together}")
        if self.error_count > ERROR_SHARE_MAX * (self.io_count + self.error_count):
            reasons.append(
                f"{self.error_count:,} of {counted(self.io_count + self.error_count, 'I/O')} failed"
            )
        if self.has_few_ios:
            reasons.append(f"it was too short: {counted(self.io_count, 'I/O')}, and it takes {IOS_MIN}")
        # What an overload leaves under way at its end is no fault of the step; a closed loop cannot be overloaded.
        if not (self.is_saturated and self.outstanding is None):
            if self.is_warming:
                reasons.append("it was too short to settle: latency was still falling at its end")
            elif not self.littles_law_holds and not self.generator_limited:
                reasons.append(
                    f"Little's law is off by {100 * (self.littles_law_ratio - 1):+.0f} %: it was too short for I/Os "
                    "that take so long, or I/Os were not seen to end"
                )
        return [*reasons, *self.set_aside]

    @figure
    def is_judged(self) -> bool:
        """Whether the step says something about the storage."""
        return not self.left_out_because

    @property
    def load_text(self) -> str:
        """The load as its user named it: ``4x``, ``32 outstanding``, or the rate offered."""
        if self.outstanding is not None:
            return f"{self.outstanding:,} {self.load_word}"
        return f"{self.offered_iops:,.0f} IOPS" if self.scale is None else f"{self.scale:g}x"


@dataclass(slots=True)
class Samples:
    """What the bootstrap resamples: per block of the step, histograms of response and counts of completions.

    ``response`` has columns block, role, op, bucket_ns, io_count.
    """

    response: pa.Table
    block_count: int
    completed_iops: Floats
    """Completion rate of each block while at least 1 % of the I/Os were still to come."""
    completed_bytes_per_s: Floats
    """The same in bytes."""
    rate_error: float = 0.0
    """How well the rates are known whatever their scatter, relative: those of a part of the I/Os, by their number."""
    summary_ns: dict[float, float] | None = None
    """Latency by quantile where that is all there is: another tool's figures, with no I/O behind them."""

    def by_block(self, quantile_of: "Selection") -> tuple[Int64s, Int64s]:
        """Bucket values in ns, ascending [m], and counts [block, m] of the I/Os the selection covers."""
        table = self.response
        keep = quantile_of.mask(table)
        block = np.asarray(table["block"], dtype=np.int64)[keep]
        bucket = np.asarray(table["bucket_ns"], dtype=np.int64)[keep]
        count = np.asarray(table["io_count"], dtype=np.int64)[keep]
        values, position = np.unique(bucket, return_inverse=True)
        counts = np.zeros((self.block_count, len(values)), dtype=np.int64)
        np.add.at(counts, (np.clip(block, 0, self.block_count - 1), position), count)
        return values, counts


@dataclass(frozen=True, slots=True)
class Selection:
    """The I/Os of one role and operation; None takes all roles, and reads and writes."""

    role: str | None = None
    op: str | None = None

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Rows of a response table that are meant."""
        ops = np.asarray(table["op"].cast(pa.string()).to_pylist(), dtype=object)
        keep = (ops == self.op) if self.op else np.isin(ops, LOAD_OPS)
        if self.role:
            keep &= np.asarray(table["role"].cast(pa.string()).to_pylist(), dtype=object) == self.role
        return np.asarray(keep, dtype=np.bool_)


def summary_samples(step: Step, latency_ns: dict[float, float]) -> Samples:
    """Samples of a step of which only its rates and some quantiles of latency are known."""
    nothing = pa.table({name: pa.array([], pa.int64()) for name in ("block", "bucket_ns", "io_count")})
    words = pa.array([], pa.string())
    return Samples(
        nothing.append_column("role", words).append_column("op", words),
        1,
        np.array([step.achieved_iops]),
        np.array([step.achieved_mb_per_s * 1e6]),
        summary_ns=latency_ns,
    )


def is_carried(achieved_iops: float, offered_iops: float) -> bool:
    """Whether all of a load was carried that was offered."""
    return achieved_iops >= CARRIED_SHARE_MIN * offered_iops


def measure(
    recording: Recording, scale: float | None = None, watched: Recording | None = None
) -> tuple[Step, Samples]:
    """Measure one step. ``scale`` defaults to what the replay noted in its manifest.

    ``watched`` is what a recorder saw of the same I/Os on their way through the host (see `layers`).
    Raises `IotraceError` naming the recording when it holds no completed reads or writes.
    """
    manifest = recording.manifest
    if scale is None:
        scale = manifest.open_replay.scale
    with library.opened(recording) as connection:
        seen = library.run(connection, "knee_layers")
        layer = _layer(seen, recording)
        load = library.run(connection, "knee_load", layer=layer).to_pylist()[0]
        if load["io_count"] < 2 or load["wanted_end_ns"] <= load["start_ns"]:
            raise IotraceError(
                f"'{recording.path}' has too few successful I/Os to be a load step",
                hint="record or replay for longer",
            )
        span_ns = load["wanted_end_ns"] - load["start_ns"]
        block_count = int(np.clip(load["io_count"] // BLOCK_IOS_MIN, 1, BLOCKS))
        slot_ns = span_ns // (block_count * SLOTS_PER_BLOCK) + 1
        block_ns = slot_ns * SLOTS_PER_BLOCK
        window = {"layer": layer, "start_ns": load["start_ns"]}
        response = library.run(connection, "knee_response", **window, block_ns=block_ns)
        slow_ns = int(SLOW_SPAN_SHARE * span_ns)
        table = library.run(connection, "knee_flow", **window, slot_ns=slot_ns, slow_ns=slow_ns)
        service = library.run(connection, "knee_service", layer=layer)
    if table.num_rows and pc.max(table["slot"]).as_py() > _FLOW_SLOTS_MAX:
        raise IotraceError(
            f"'{recording.path}' has I/Os that took over {_FLOW_SLOTS_MAX // (block_count * SLOTS_PER_BLOCK):,} times "
            "as long as the load lasted",
            hint=f"iotrace validate {recording.path} tells whether it is damaged; leave this step out",
        )
    flows = _flows(table, slot_ns)
    total = Flow.sum(flows.values())
    # Until 99 % had completed: the last blocks would be empty but for stragglers.
    last = max(int((load["completed_ns_p99"] - load["start_ns"]) // block_ns), 1)
    samples = Samples(
        response, block_count, total.per_second("completed", last), total.per_second("size_bytes", last)
    )
    # A closed loop always has as much waiting as it keeps in flight: that says nothing of the storage.
    found = None if manifest.is_closed_loop else carried(flows, total, (unloaded_ns(samples) or 0) / 1e9)
    slowest = None if manifest.is_closed_loop else _slowest_part(recording, table, slot_ns, load)
    # What all I/Os together were carried at says nothing of a part that falls behind while the others keep up.
    found = slowest or found
    if found is not None and (found.part or found.is_break or len(found.rates) >= _STRETCHES_MIN):
        # Storage that was never idle shows what it carries; what saved credits let through first is not that.
        samples.completed_iops, samples.completed_bytes_per_s = found.rates, found.bytes_per_s
        samples.rate_error = found.share_error
    wanted = total.per_second("wanted", block_count)
    step = _step(recording, scale, layer, load, samples, service, wanted, found)
    if watched is not None or (layer != Layer.DEVICE and Layer.DEVICE in seen["layer"].to_pylist()):
        step.layers = measure_layers(
            recording, watched, name=step.load_text, io_count=step.io_count, total_ns=step.service_ns_mean
        )
    return step, samples


def _step(
    recording: Recording,
    scale: float | None,
    layer: str,
    load: dict[str, Any],
    samples: Samples,
    service: pa.Table,
    wanted: Floats,
    found: Carried | None,
) -> Step:
    io_count, start_ns = load["io_count"], load["start_ns"]
    offered = _offered_iops(load)
    achieved = 0.99 * io_count / (max(load["completed_ns_p99"] - start_ns, 1) / 1e9)
    achieved = min(offered, achieved)
    bytes_per_io = load["size_bytes"] / io_count
    span_ns = load["wanted_end_ns"] - start_ns
    span_s = span_ns / 1e9
    in_flight = load["in_flight_ns_sum"] / span_ns
    law = load["response_ns_sum"] / span_ns
    buckets, counts = samples.by_block(Selection())
    totals = counts.sum(axis=0)
    response = {name: _quantile(buckets, totals, name) for name in _QUANTILES}
    trend, words = _trend(buckets, counts, wanted, span_ns)
    slower = latency_break(
        np.array([_any_quantile(buckets, row, 0.5) for row in counts], dtype=float), wanted
    )
    law_ratio = in_flight / law if law else 1.0
    manifest = recording.manifest
    late = load["lateness_ns_p99"] > LATENESS_SHARE_MAX * _any_quantile(buckets, totals, 0.99)
    told = manifest.replay.generator_limited if manifest.replay else None
    limited = bool(late if told is None else told)
    notes = []
    if limited:
        notes.append("the load generator was late: not a measurement of the storage")
    if load["error_count"]:
        notes.append(f"{counted(load['error_count'], 'I/O')} failed")
    if load["delayed_count"]:
        notes.append(
            f"{counted(load['delayed_count'], 'I/O was', 'I/Os were')} held back by the cap on I/Os in flight "
            "or a full disk queue"
        )
    # A closed loop offers no load of its own: what is missing there was still under way at the end.
    if not is_carried(achieved, offered) and not manifest.is_closed_loop:
        notes.append(f"carried {100 * achieved / offered:.0f} % of the load offered")
    if words:
        notes.append(words)
    if found is not None and found.part is not None:
        notes.append(f"{found.part} fell behind, the others did not")
    # A load that overruns its credits in its own bursts only is carried all the same.
    broke = found is not None and found.is_break and not limited and offered > found.iops
    if found is not None and found.burst_iops is not None and broke:
        notes.append(
            f"carried {found.burst_iops:,.0f} IOPS for {found.from_s:.3g} s, then {found.iops:,.0f}: saved credits "
            "were spent, or it was disturbed"
        )
    if abs(law_ratio - 1) > LAW_ERROR_MAX:
        notes.append(
            f"Little's law is off by {100 * (law_ratio - 1):+.0f} %: too much was under way at the end"
        )
    return Step(
        name=recording.manifest.title or recording.name,
        uuid=recording.manifest.uuid,
        scale=scale,
        layer=layer,
        io_count=io_count,
        error_count=load["error_count"],
        delayed_count=load["delayed_count"],
        duration_s=span_s,
        offered_iops=offered,
        achieved_iops=achieved,
        offered_mb_per_s=offered * bytes_per_io / 1e6,
        achieved_mb_per_s=achieved * bytes_per_io / 1e6,
        in_flight_mean=in_flight,
        littles_law_ratio=law_ratio,
        response_ns_mean=load["response_ns_sum"] / io_count,
        response_ns=response,
        service_ns={
            name: _quantile(np.asarray(service["bucket_ns"]), np.asarray(service["io_count"]), name)
            for name in _QUANTILES
        },
        lateness_ns_p99=load["lateness_ns_p99"],
        generator_limited=limited,
        is_steady=trend == 0,
        is_saturated=not limited
        and (
            broke
            or (found is not None and found.part is not None)
            or _is_full(found, offered, span_s)
            or ((not is_carried(achieved, offered) or trend > 0) and not carries_more_than(offered, found))
        ),
        notes=notes,
        service_ns_mean=load["service_ns_sum"] / io_count,
        is_warming=trend < 0,
        generator_busy_share=_busy_share(manifest.replay),
        started_utc_ns=recording.manifest.clock.start_utc_ns,
        overspent=[one.name for one in manifest.model.limits if one.overspent] if manifest.model else [],
        sustained_iops=found.iops if found is not None else None,
        busy_s=found.busy_s if found is not None else 0.0,
        break_s=found.from_s if found is not None and broke else None,
        burst_iops=found.burst_iops if found is not None else None,
        credits_ios=found.credits_ios if found is not None else None,
        limited_op=found.limited_op if found is not None else None,
        slow_part=found.part if found is not None and not limited else None,
        latency_break=None if trend or limited or broke or _was_queueing(found, span_s) else slower,
        others_bytes=others_bytes(manifest.replay, load["size_bytes"]),
        not_together=lost(manifest.open_replay) or apart(manifest.open_replay) or "",
    )


def _offered_iops(load: dict[str, Any]) -> float:
    return float(0.99 * load["io_count"] / (max(load["wanted_ns_p99"] - load["start_ns"], 1) / 1e9))


def _slowest_part(
    recording: Recording, table: pa.Table, slot_ns: int, load: dict[str, Any]
) -> Carried | None:
    names = [
        {row[id_name]: row[name] for row in recording.read(kind).to_pylist() if row[name]}
        for kind, id_name, name in (("devices", "device_id", "name"), ("files", "file_id", "path"))
    ]
    return slowest_part(Cells.of(table, slot_ns / 1e9), _offered_iops(load), *names)


def _is_full(found: Carried | None, offered: float, span_s: float) -> bool:
    """Whether most of the step was spent at a rate below what was offered, however slowly it fell behind."""
    return (
        found is not None
        and found.busy_s > _BUSY_SHARE_MIN * span_s
        and offered > _BEYOND_CAPACITY * found.iops
    )


def carries_more_than(offered: float, found: Carried | None) -> bool:
    """Whether the storage, while never idle, carried more than what was offered, in all and in the later half.

    In all, or a stall whose backlog drained fast would count; in the later half, or saved credits would.
    """
    if found is None or len(found.rates) < _STRETCHES_MIN:
        return False
    later = found.rates[len(found.rates) // 2 :]
    return min(found.iops, float(later.mean())) > _BEYOND_CAPACITY * offered


def _was_queueing(found: Carried | None, span_s: float) -> bool:
    """Whether storage was never idle for so much of a step that its queue alone may explain what latency did."""
    return found is not None and found.busy_s > _QUEUEING_SHARE_MIN * span_s


def _busy_share(run: Run | None) -> float | None:
    """Only an engine whose few threads submit without blocking is as busy as its processor time says."""
    if not isinstance(run, ClosedLoop) or run.backend != "io_uring" or run.interrupted:
        return None
    if run.cpu_seconds is None or run.seconds is None or run.warm_up_seconds is None or not run.submitters:
        return None
    length = (run.seconds + run.warm_up_seconds) * run.submitters
    return run.cpu_seconds / length if length > 0 else None


def _trend(buckets: Int64s, counts: Int64s, wanted: Floats, span_ns: int) -> tuple[int, str]:
    """Whether latency rose (1), kept its level (0) or fell (-1), and words on it if it did not keep it.

    A queue that grows shows as a rising trend of the block medians (Mann 1945, Kendall's tau at p < 0.01) that more
    than doubles them from the first third to the last and adds up to 0.5 % of the step's length: the delay itself is
    the backlog. The same downwards is a step that had not settled yet. A trend that follows the offered load is the
    workload's own and not held against the storage.
    """
    filled = counts.sum(axis=1) > 0
    if filled.sum() < 9:
        return 0, ""
    medians = np.array([_any_quantile(buckets, row, 0.5) for row in counts[filled]], dtype=np.float64)
    from scipy import stats  # noqa: PLC0415 - it takes half a second to import, and every command would wait for it

    tau, p_value = stats.kendalltau(np.arange(len(medians)), medians)
    thirds = [
        _any_quantile(buckets, part.sum(axis=0), 0.5) for part in np.array_split(counts, 3) if part.sum() > 0
    ]
    if len(thirds) < 3 or not (abs(tau) > 0.3 and p_value < 0.01):
        return 0, ""
    loads = [part.mean() for part in np.array_split(wanted, 3)]
    words = (
        f"median response {thirds[0] / 1e6:.3g} ms in the first third, {thirds[2] / 1e6:.3g} ms in the last"
    )
    if _grew(thirds, loads, span_ns):
        return 1, f"still getting slower at the end: {words}"
    if _grew(thirds[::-1], loads[::-1], span_ns):
        return -1, f"still getting faster at the end, so not settled: {words}"
    return 0, ""


def _grew(thirds: list[int], loads: list[Any], span_ns: int) -> bool:
    first, middle, last = thirds
    grew = last > 2 * first and last > 1.2 * middle and last - first > 0.005 * span_ns
    return bool(grew and loads[2] <= 1.2 * loads[0])


def _flows(table: pa.Table, slot_ns: int) -> dict[str, Flow]:
    """What came and went, by operation, in slots from the first I/O wanted to the last completed."""
    slot = np.asarray(table["slot"], dtype=np.int64)
    count = int(slot.max()) + 1
    encoded = table["op"].cast(pa.string()).combine_chunks().dictionary_encode()
    ops = np.array(encoded.dictionary.to_pylist(), dtype=object)[np.asarray(encoded.indices)]
    flows = {}
    for op in sorted(set(ops.tolist())):
        mine = (ops == op) & (slot >= 0)
        columns = []
        for name in ("wanted_count", "completed_count", "completed_bytes"):
            column = np.zeros(count)
            np.add.at(column, slot[mine], np.asarray(table[name], dtype=np.float64)[mine])
            columns.append(column)
        flows[op] = Flow(slot_ns / 1e9, *columns)
    return flows


def unloaded_ns(samples: Samples) -> int | None:
    """Latency of the storage where this step loads it least: the lowest median of a block; None without single I/Os."""
    buckets, counts = samples.by_block(Selection())
    medians = [_any_quantile(buckets, row, 0.5) for row in counts if row.sum() >= BLOCK_IOS_MIN // 2]
    return min(medians, default=None)


def _layer(layers: pa.Table, recording: Recording) -> str:
    """The layer a step is measured at: the one that was replayed, else the nearest to the storage's user."""
    with recording.reading("io"):
        rows = [(str(Layer(row["layer"])), bool(row["planned_count"])) for row in layers.to_pylist()]
    if layer := load_layer(name for name, is_planned in rows if is_planned) or load_layer(dict(rows)):
        return layer
    raise IotraceError(
        f"'{recording.path}' has no completed reads or writes", hint="iotrace describe shows what it has"
    )


def _quantile(buckets: npt.ArrayLike, counts: npt.ArrayLike, name: str) -> int | None:
    return histogram.quantile_ns(buckets, counts, histogram.QUANTILES[name])


def _any_quantile(buckets: Int64s, counts: Int64s, quantile: float) -> int:
    """A quantile for internal comparison, however few I/Os there are; never printed as such."""
    total = int(counts.sum())
    rank = min(max(int(np.ceil(quantile * total - 1e-9)), 1), total)
    return int(buckets[np.searchsorted(np.cumsum(counts), rank)]) if total else 0


def scales_relative(steps: Iterable[Step]) -> float | None:
    """IOPS offered at 1x: the median of offered over scale, or None where no scale is known."""
    ratios = [step.offered_iops / step.scale for step in steps if step.scale]
    return float(np.median(ratios)) if ratios else None
