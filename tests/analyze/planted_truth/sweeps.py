"""Sweeps over simulated storage whose sustained rate, burst rate and credits are known.

Every family is a function ``family(folder, seed, **what_to_fix)`` that writes the sweep ``folder`` and returns it with
its `SweepTruth`. What is not fixed is drawn from the seed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from iotrace.schemas import Recording, Sweep, SweepWriter
from iotrace.schemas.sweep import SweepSettings

from .devices import Bucketed, Device, Flat, OneServer, Servers, SlcCache
from .laws import TokenBucket
from .loads import ARRIVALS, Mix, arrivals
from .steps import DiskCounters, Others, Step, play, write_step

Refill = Literal["full", "back_to_back"]
SOURCE_UUID: Final = "00000000-0000-4000-8000-000000000013"
_SETTLE_S: Final = 2.0
_BACKLOG_S: Final = 0.1
_CLEAR: Final = 0.04
"""No step is offered within so much of the sustained rate: what it should show would be a matter of luck."""


@dataclass(frozen=True, slots=True)
class StepTruth:
    """One step, in the order of the sweep. ``not_judged`` says why it tells nothing of the storage."""

    scale: float
    offered_iops: float
    """I/Os planned over the planned time. Others' are not counted."""
    seconds: float
    credits_before: float | None
    """Saved when it began, in the sweep's unit of credits; None where the device saves none."""
    credits_after: float | None
    """Left when its last I/O came due; negative by what waits for credits."""
    unanswered: int
    """I/Os due and not done when its last I/O came due."""
    not_judged: Literal["", "disturbed", "generator-limited"] = ""

    @property
    def backlog_s(self) -> float:
        """How much of its load waits at the end."""
        return self.unanswered / self.offered_iops


@dataclass(frozen=True, slots=True)
class SweepTruth:
    """What is true of a sweep, and what an answer may say. Rates are I/Os a second of the mix that was played."""

    family: str
    seed: int
    arrivals: str
    refill: Refill
    sustained_iops: float
    """What the device carries for ever; infinite where nothing limits it."""
    burst_iops: float
    """What it carries while its credits last; the sustained rate where it saves none."""
    credits_unit: Literal["", "ios", "write_bytes"]
    credits: float | None
    """What it can save: I/Os (bytes written) beyond those that the sustained rate carries meanwhile; of an SLC cache
    all bytes that go to it."""
    sustained_write_bytes_per_second: float | None
    """Where bytes written are what is limited."""
    mean_doubles_iops: float | None
    """Poisson load at which the mean response is twice that of an idle device, by theory. None: no theory, or the
    arrivals are not Poisson."""
    steps: tuple[StepTruth, ...]

    @property
    def judged(self) -> tuple[StepTruth, ...]:
        """The steps that tell of the storage."""
        return tuple(step for step in self.steps if not step.not_judged)

    @property
    def knee_between_iops(self) -> tuple[float, float] | None:
        """Highest judged load not above the sustained rate (0: none is) and lowest above it; None if none is above."""
        above = [step.offered_iops for step in self.judged if step.offered_iops > self.sustained_iops]
        below = [step.offered_iops for step in self.judged if step.offered_iops <= self.sustained_iops]
        return (max(below, default=0.0), min(above)) if above else None

    @property
    def breaks(self) -> tuple[StepTruth, ...]:
        """Judged steps above the sustained rate that fell behind before they ended: only these show where it lies."""
        return tuple(
            step
            for step in self.judged
            if step.offered_iops > self.sustained_iops and step.backlog_s > _BACKLOG_S
        )

    @property
    def shows_saturation(self) -> bool:
        """Whether a knee may be named. If not, credits may still have carried a load above the sustained rate."""
        return bool(self.breaks)

    @property
    def credits_hide_it(self) -> bool:
        """Loads above the sustained rate were run and none fell behind: the answer must not exclude credits."""
        return self.knee_between_iops is not None and not self.shows_saturation

    @property
    def highest_carried_iops(self) -> float:
        """Highest judged load that may be called carried for good."""
        return max(
            (step.offered_iops for step in self.judged if step.offered_iops <= self.sustained_iops),
            default=0.0,
        )

    @property
    def may_say(self) -> tuple[str, ...]:
        """In words, for the failing test's message."""
        rate = f"{self.sustained_iops:,.0f} IOPS"
        said = []
        if self.shows_saturation:
            said.append(f"sustained rate {rate}; knee between {self.knee_between_iops}")
            if self.credits is not None:
                said.append(
                    f"burst rate {self.burst_iops:,.0f} IOPS with credits of {self.credits:,.0f} {self.credits_unit}"
                )
        elif self.credits_hide_it:
            said.append("not reached in steps of this length; credits cannot be excluded for longer bursts")
        elif self.judged:
            said.append(f"no knee; kept up to {self.highest_carried_iops:,.0f} IOPS")
            if self.mean_doubles_iops is not None:
                said.append(
                    f"mean response doubles at {self.mean_doubles_iops:,.0f} IOPS: an onset of queueing"
                )
        else:
            said.append("cannot be judged")
        return tuple(said)

    @property
    def may_not_say(self) -> tuple[str, ...]:
        """In words, for the failing test's message."""
        said = []
        if math.isfinite(self.sustained_iops):
            said.append(f"keeps up with more than {self.sustained_iops:,.0f} IOPS, without naming credits")
        if not self.shows_saturation:
            said.append("knee")
        said += [f"anything of the storage from step {number}: {step.not_judged}"
                 for number, step in enumerate(self.steps) if step.not_judged]  # fmt: skip
        return tuple(said)


Planted = tuple[Sweep, SweepTruth]


def token_bucket(
    folder: Path,
    seed: int,
    *,
    rate: float = 2000.0,
    credits_seconds: float | None = None,
    refill: Refill | None = None,
    **settings: Any,
) -> Planted:
    """A cloud disk: ``rate`` for ever, more while credits of so many seconds of ``rate`` last."""
    rng = np.random.default_rng([seed, 1])
    seconds = float(rng.choice([0.2, 0.5, 1, 2, 5, 10, 30])) if credits_seconds is None else credits_seconds
    device = Bucketed(
        base_s=rng.uniform(2e-4, 1e-3),
        bucket=TokenBucket(rate, rate * seconds),
        peak_iops=rate * rng.uniform(3, 8),
    )
    return _sweep("token bucket", folder, seed, device, "ios", rate * seconds, refill=refill, **settings)


def write_cache(folder: Path, seed: int, *, refill: Refill | None = None, **settings: Any) -> Planted:
    """A controller with a write cache: writes are fast until it is full, then as fast as it drains."""
    rng = np.random.default_rng([seed, 2])
    mix = settings.pop("mix", None) or _writing_mix(rng)
    drain = float(rng.uniform(10e6, 40e6))
    size = drain * float(rng.choice([0.5, 1, 2, 5, 10]))
    peak = drain / mix.mean_bytes(writes_only=True) * rng.uniform(3, 8)
    device = Bucketed(rng.uniform(1e-4, 4e-4), 0.3, TokenBucket(drain, size), peak, "write_bytes")
    return _sweep(
        "write cache", folder, seed, device, "write_bytes", size, mix=mix, refill=refill, **settings
    )


def slc_cache(folder: Path, seed: int, *, refill: Refill | None = None, **settings: Any) -> Planted:
    """Consumer flash: writes are fast until the SLC region is full; it recovers when nothing is asked."""
    rng = np.random.default_rng([seed, 3])
    mix = settings.pop("mix", None) or _writing_mix(rng)
    slow = float(rng.uniform(10e6, 30e6))
    size = slow * float(rng.choice([3, 10, 30]))
    device = SlcCache(
        rng.uniform(5e-5, 2e-4), 0.3, size, slow * rng.uniform(4, 10), slow, slow * rng.uniform(1, 3)
    )
    return _sweep("SLC cache", folder, seed, device, "write_bytes", size, mix=mix, refill=refill, **settings)


def throttle(folder: Path, seed: int, *, rate: float | None = None, **settings: Any) -> Planted:
    """A limit in IOPS that lets nothing be saved: its bucket holds 10 ms."""
    rng = np.random.default_rng([seed, 4])
    rate = float(rng.uniform(800, 4000)) if rate is None else rate
    device = Bucketed(
        rng.uniform(2e-4, 1e-3), 0.3, TokenBucket(rate, max(2, rate / 100)), rate * 10, saves=False
    )
    return _sweep("throttle", folder, seed, device, "", None, **settings)


def one_server(folder: Path, seed: int, *, rate: float | None = None, **settings: Any) -> Planted:
    """M/D/1 under Poisson arrivals."""
    rng = np.random.default_rng([seed, 5])
    device = OneServer(1 / (float(rng.uniform(800, 4000)) if rate is None else rate))
    return _sweep("M/D/1", folder, seed, device, "", None, **settings)


def many_servers(folder: Path, seed: int, *, rate: float | None = None, **settings: Any) -> Planted:
    """M/M/c under Poisson arrivals, c from 2 to 32."""
    rng = np.random.default_rng([seed, 6])
    servers = int(rng.choice([2, 4, 8, 16, 32]))
    device = Servers(servers / (float(rng.uniform(1000, 4000)) if rate is None else rate), servers)
    return _sweep("M/M/c", folder, seed, device, "", None, **settings)


def flat(folder: Path, seed: int, **settings: Any) -> Planted:
    """Nothing saturates at any load that was tried."""
    rng = np.random.default_rng([seed, 7])
    device = Flat(rng.uniform(1e-4, 2e-3), rng.uniform(0.1, 0.6))
    return _sweep("flat", folder, seed, device, "", None, **settings)


SATURATING: Final[dict[str, Callable[..., Planted]]] = {
    "throttle": throttle, "one_server": one_server, "many_servers": many_servers,
}  # fmt: skip
WITH_CREDITS: Final[dict[str, Callable[..., Planted]]] = {
    "token_bucket": token_bucket, "write_cache": write_cache, "slc_cache": slc_cache,
}  # fmt: skip


def short(
    folder: Path,
    seed: int,
    *,
    family: str | None = None,
    highest: float | None = None,
    arrival: str | None = None,
    **settings: Any,
) -> Planted:
    """A sweep that stops at 0.5 to 0.95 of the capacity of a device without credits: no load saturates it.

    The bundled load's own bursts last seconds, so it stops at 0.3 to 0.57.
    """
    rng = np.random.default_rng([seed, 8])
    make = SATURATING[family or str(rng.choice(list(SATURATING)))]
    arrival = arrival or str(rng.choice(ARRIVALS))
    highest = highest or float(rng.uniform(0.5, 0.95)) * (0.6 if arrival == "bundled" else 1)
    return make(folder, seed, highest=highest, arrival=arrival, **settings)


def disturbed(
    folder: Path, seed: int, *, step: int | None = None, highest: float | None = None, **settings: Any
) -> Planted:
    """During one step somebody else writes to the disk, which its own counters show and the replay does not.

    By default the sweep ends far below saturation, so that the disturbance is all there is to see.
    """
    rng = np.random.default_rng([seed, 9])
    return one_server(
        folder, seed, disturbed_step=int(rng.integers(0, 3)) if step is None else step,
        highest=float(rng.uniform(0.3, 0.5)) if highest is None else highest, **settings,
    )  # fmt: skip


def generator_limited(
    folder: Path, seed: int, *, generator_share: float | None = None, **settings: Any
) -> Planted:
    """The replay cannot issue more than a share of the capacity: from there on its steps tell nothing of the disk."""
    rng = np.random.default_rng([seed, 10])
    share = float(rng.uniform(0.2, 0.8)) if generator_share is None else generator_share
    return one_server(folder, seed, generator_share=share, **settings)


def overload(
    folder: Path, seed: int, *, offered: float = 1000.0, capacity: float | None = None, **settings: Any
) -> tuple[Recording, StepTruth, float]:
    """One replay offered more than the device carries; returns recording, truth and the device's capacity.

    Of a load of rate r on a capacity of c for T seconds (r - c)·T I/Os wait when the last one comes due.
    """
    rng = np.random.default_rng([seed, 11])
    rate = float(rng.choice([900, 800, 500])) if capacity is None else capacity
    sweep, truth = throttle(
        folder, seed, rate=rate, loads=[offered / rate], base_iops=offered,
        step_seconds=settings.pop("step_seconds", 30.0), clear=0.0, **settings,
    )  # fmt: skip
    return sweep.recordings()[0], truth.steps[0], rate


def _writing_mix(rng: np.random.Generator) -> Mix:
    return Mix(float(rng.choice([0.0, 0.3, 0.5])), ((8192, 1.0),), ((int(rng.choice([8192, 16384])), 1.0),))


def _sweep(
    family: str,
    folder: Path,
    seed: int,
    device: Device,
    unit: Literal["", "ios", "write_bytes"],
    savings: float | None,
    *,
    mix: Mix | None = None,
    arrival: str | None = None,
    refill: Refill | None = None,
    step_seconds: float | None = None,
    order: Literal["climb", "refine"] | None = None,
    loads: Sequence[float] | None = None,
    base_iops: float | None = None,
    highest: float | None = None,
    disturbed_step: int | None = None,
    generator_share: float | None = None,
    clear: float = _CLEAR,
) -> Planted:
    """Play the loads and write them.

    ``loads``: shares of the sustained rate (of 1,000/s on a device without one), in the order they are run.
    ``highest``: the share at which loads drawn from the seed end. ``order``: ``climb`` runs rising loads; ``refine``
    doubles until it is past the sustained rate, then halves the interval around it. ``refill``: what the device has
    saved is full at the start of each step, or what the one before left of it, 2 s later.
    """
    rng = np.random.default_rng([seed, 0, *family.encode()])
    mix = mix or Mix(float(rng.choice([0.5, 0.7, 0.9])))
    arrival = arrival or str(rng.choice(ARRIVALS))
    refill = refill or ("full" if rng.random() < 0.5 else "back_to_back")
    step_s = step_seconds or float(rng.choice([5, 10, 10, 10, 20, 30]))
    order = order or ("climb" if rng.random() < 0.5 else "refine")
    sustained = device.sustained_iops(mix)
    unit_iops = sustained if math.isfinite(sustained) else 1000.0
    shares = (
        list(loads) if loads is not None else _loads(rng, order, highest, unlimited=math.isinf(sustained))
    )
    shares = [_off(share, clear) for share in shares] if math.isfinite(sustained) else shares
    base = base_iops or shares[0] * unit_iops
    starts_s, told, disk = 0.0, [], DiskCounters()
    window_ns = (0, round(step_s * 1e9))
    writer = SweepWriter(
        folder, title=f"planted {family}, seed {seed}", source_uuid=SOURCE_UUID,
        settings=SweepSettings(["/data/test.bin"], window_ns=list(window_ns), step_seconds=step_s),
    )  # fmt: skip
    with writer:
        for number, share in enumerate(shares):
            offered = share * unit_iops
            if refill == "full":
                starts_s += device.refill_seconds()
            before = device.credits(starts_s)
            intended = arrivals(rng, arrival, offered, step_s, seed)
            limit = None if generator_share is None else generator_share * unit_iops
            late = limit is not None and offered > limit
            others = Others(unit_iops * rng.uniform(0.7, 1.0), 524288) if number == disturbed_step else None
            step = play(
                rng,
                device,
                intended,
                mix,
                starts_s=starts_s,
                generator_iops=limit if late else None,
                others=others,
            )
            scale = float(f"{offered / base:.6g}")
            path = writer.step_path(scale)
            recording = write_step(
                path, step, rng=rng, scale=scale, source_uuid=SOURCE_UUID, counters=disk, starts_s=starts_s,
                title=f"planted {family}", window_ns=window_ns, repeat=max(1, math.ceil(scale)),
            )  # fmt: skip
            writer.add(scale, recording)
            told.append(
                _told(step, scale, before, device.credits(starts_s + step.planned_seconds), others, late)
            )
            starts_s += step.ended_s + _SETTLE_S
        writer.end("all planted loads were played")
    doubles = device.mean_doubles_iops(mix) if arrival == "poisson" else None
    limited = sustained * mix.mean_bytes(writes_only=True) if unit == "write_bytes" else None
    truth = SweepTruth(
        family, seed, arrival, refill, sustained, device.burst_iops(mix) if unit else sustained, unit, savings, limited,
        doubles, tuple(told),
    )  # fmt: skip
    return writer.sweep, truth


def _told(
    step: Step, scale: float, before: float | None, after: float | None, others: Others | None, late: bool
) -> StepTruth:
    why: Literal["", "disturbed", "generator-limited"] = ""
    if others is not None:
        why = "disturbed"
    elif late:
        why = "generator-limited"
    return StepTruth(
        scale, step.offered_iops, step.planned_seconds, before, after, step.unanswered_at_the_end, why
    )


def _off(share: float, clear: float) -> float:
    """The load, moved away from the sustained rate if it is too near."""
    return share if abs(share - 1) >= clear else 1 + math.copysign(clear, share - 1)


def _loads(rng: np.random.Generator, order: str, highest: float | None, *, unlimited: bool) -> list[float]:
    """Loads as shares of the sustained rate."""
    if unlimited:
        return [float(rng.uniform(0.2, 0.5)) * 2**step for step in range(4)]
    if highest is not None:
        steps = int(rng.integers(4, 8))
        return [float(one) for one in np.geomspace(highest / rng.uniform(4, 10), highest, steps)]
    first = float(rng.uniform(0.12, 0.3))
    if order == "climb":
        ratio, top = float(rng.uniform(1.25, 1.5)), float(rng.uniform(1.5, 2.2))
        return [first * ratio**step for step in range(int(math.log(top / first) / math.log(ratio)) + 2)]
    doubled = [first]
    while doubled[-1] < 1.2:
        doubled.append(doubled[-1] * 2)
    low = max(share for share in doubled if share <= 1)
    high = min(share for share in doubled if share > 1)
    for _ in range(4):
        middle = math.sqrt(low * high)
        doubled.append(middle)
        low, high = (middle, high) if middle <= 1 else (low, middle)
    return doubled
