"""Recordings in which something went wrong, or nothing did, and what a right answer says of them.

Every family is a function ``family(seed, **what_to_fix)`` that returns a `Host` and its `IncidentTruth`; `write` makes
a recording of it: of its I/Os, or of what counters would have shown. What is not fixed is drawn from the seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from iotrace.schemas import Recording

from .counters import write_dmv, write_perfmon
from .hosts import Host, Ios, LayerName, OpName, Rates, disks_of, normal_ios, write_ios
from .laws import Floats
from .loads import Mix, poisson

Span = tuple[float, float]
Shape = Literal["none", "ramp", "ramp and back", "creep", "jump", "hang", "freeze", "broken pattern"]
_ROWS_MAX: Final = 400_000


@dataclass(frozen=True, slots=True)
class IncidentTruth:
    """What is true of a recording. Times are seconds since its start."""

    family: str
    seed: int
    seconds: int
    shape: Shape = "none"
    spans: tuple[Span, ...] = ()
    """When something was wrong; empty where nothing was."""
    built_s: float | None = None
    """When the slowdown had reached its full factor."""
    factor: float | None = None
    """How many times longer an I/O took at its worst than the same I/O would have, at ``layer``, in the mean. Planted,
    not measured. None for what did not end."""
    layer: LayerName | None = None
    """The layer that slowed; layers below it did not, those above it wait for it."""
    devices: tuple[str, ...] = ()
    op: OpName | None = None
    """The operation that slowed; None for all."""
    explained: tuple[Span, ...] = ()
    """When latency rose for a reason that is no fault of the storage; load-driven windows may be reported there."""
    explained_by: Literal["", "load", "size", "periodic writes"] = ""
    period_s: float | None = None
    """Of work that recurs, from start to start; likewise the rest."""
    period_length_s: float | None = None
    period_factor: float | None = None
    period_starts_s: tuple[float, ...] = ()

    @property
    def is_incident(self) -> bool:
        """Whether the storage, or the way to it, was at fault at any time."""
        return bool(self.spans)

    @property
    def may_not_say(self) -> tuple[str, ...]:
        """In words, for the failing test's message."""
        said = []
        if not self.is_incident:
            said.append("the storage got slower at the same load")
        if self.is_incident:
            said.append("no slow window was found")
        if self.layer in {"block", "filesystem"}:
            said.append("the device, or the storage, was slower: it was not")
        if self.period_s is not None:
            said.append("a window for each period")
        if self.shape in {"creep", "ramp", "ramp and back"}:
            said.append("a normal that the slow part itself moved")
        return tuple(said)


Planted = tuple[Host, IncidentTruth]
Form = Literal["ios", "perfmon 5 s", "perfmon 15 s", "dmv 15 s"]
FORMS: Final[tuple[Form, ...]] = ("ios", "perfmon 5 s", "perfmon 15 s", "dmv 15 s")


def write(path: Path, host: Host, form: Form = "ios") -> Recording:
    """The recording of a host as I/Os, or as counters alone.

    Of a hang, PhysicalDisk shows a queue and nothing done; SQL Server's own totals show nothing done, as of rest.
    """
    if form == "ios":
        return write_ios(path, host)
    word, interval, _ = form.split()
    return (write_perfmon if word == "perfmon" else write_dmv)(path, host, float(interval))


def right_layer(truth: IncidentTruth, form: Form) -> str | None:
    """The layer that a right answer names from this form; None where the form does not show the incident.

    PhysicalDisk times what lies below the file system, in one figure. SQL Server times all of it, and shows what ended.
    """
    if form == "ios" or truth.layer is None:
        return truth.layer
    if form == "dmv 15 s":
        return None if truth.shape == "hang" else "sql"
    return None if truth.layer == "filesystem" else "block"


def ramp(
    seed: int,
    *,
    build_s: float | None = None,
    back: bool | None = None,
    factor: float | None = None,
    **settings: Any,
) -> Planted:
    """Slower and slower for ``build_s``, then so to the end, or back again as slowly after a while."""
    rng = _rng(seed, 1)
    build = float(rng.choice([30, 60, 120, 300, 600])) if build_s is None else build_s
    back = bool(rng.random() < 0.4) if back is None else back
    most = float(rng.uniform(1.8, 4.5)) if factor is None else factor
    onset = float(rng.uniform(150, 350) + 0.4 * build)
    stays = float(rng.uniform(0, 120) if back else rng.uniform(200, 700))
    over = onset + build + stays + (build if back else 0)
    seconds = int(over + (rng.uniform(150, 350) if back else 0))
    shape = trapezium(onset, build, stays if back else np.inf, build, most)
    span = (onset, over if back else float(seconds))
    return _slowed(
        "ramp",
        seed,
        rng,
        seconds,
        shape,
        "ramp and back" if back else "ramp",
        span,
        onset + build,
        most,
        settings,
    )


def creep(seed: int, *, factor: float | None = None, seconds: int | None = None, **settings: Any) -> Planted:
    """A little slower all the time, 1.3 to 3 times at the end."""
    rng = _rng(seed, 2)
    most = float(rng.uniform(1.3, 3)) if factor is None else factor
    length = int(rng.choice([600, 1200, 1800, 3600])) if seconds is None else seconds
    shape = trapezium(0, length, np.inf, 1, most)
    return _slowed(
        "creep", seed, rng, length, shape, "creep", (0.0, float(length)), float(length), most, settings
    )


def jump(
    seed: int,
    *,
    factor: float | None = None,
    length_s: float | None = None,
    stays: bool | None = None,
    **settings: Any,
) -> Planted:
    """Slow from one moment to the next, for 10 to 300 s or to the end."""
    rng = _rng(seed, 3)
    most = float(rng.uniform(1.6, 6)) if factor is None else factor
    stays = bool(rng.random() < 0.3) if stays is None else stays
    length = float(np.exp(rng.uniform(np.log(10), np.log(300)))) if length_s is None else length_s
    onset = float(rng.uniform(120, 500))
    seconds = int(onset + length + (0 if stays else rng.uniform(120, 400)))
    over = float(seconds) if stays else onset + length
    shape = trapezium(onset, 1e-6, over - onset, 1e-6, most)
    return _slowed("jump", seed, rng, seconds, shape, "jump", (onset, over), onset, most, settings)


def stall_above(
    seed: int, *, layer: LayerName | None = None, sudden: bool | None = None, **settings: Any
) -> Planted:
    """The way to the device holds I/Os back, in the host's queue or the file system; the device is as fast as ever."""
    rng = _rng(seed, 4)
    chosen: LayerName = layer or ("block" if rng.random() < 0.5 else "filesystem")
    sudden = bool(rng.random() < 0.5) if sudden is None else sudden
    layers: tuple[LayerName, ...] = (
        ("filesystem", "block", "device") if chosen == "filesystem" else ("block", "device")
    )
    host, truth = (jump if sudden else ramp)(seed + 100_000, layer=chosen, **{"layers": layers, **settings})
    return host, replace(truth, family="stall above", seed=seed)


def hang(
    seed: int, *, last_s: float | None = None, layer: LayerName | None = None, all_devices: bool | None = None,
    **settings: Any,
) -> Planted:  # fmt: skip
    """For the last seconds nothing is answered any more: those I/Os have no end."""
    rng = _rng(seed, 5)
    last = float(rng.uniform(10, 60)) if last_s is None else last_s
    return _stopped("hang", seed, rng, int(rng.uniform(200, 900)), last, layer, all_devices, settings)


def freeze(
    seed: int, *, length_s: float | None = None, layer: LayerName | None = None, all_devices: bool | None = None,
    **settings: Any,
) -> Planted:  # fmt: skip
    """For 5 to 60 s nothing completes; then all that waited does."""
    rng = _rng(seed, 6)
    length = float(rng.uniform(5, 60)) if length_s is None else length_s
    return _stopped("freeze", seed, rng, int(rng.uniform(300, 900)), length, layer, all_devices, settings)


def checkpoints(
    seed: int,
    *,
    broken: Literal["", "longer", "slower", "between"] = "",
    period_s: float | None = None,
    **settings: Any,
) -> Planted:
    """Every 30 to 300 s writes come for 2 to 10 s and slow the reads; that is no incident.

    ``broken``: once it takes several times as ``long``, or is several times as ``slow``, or reads are slow where no
    checkpoint is; that is one.
    """
    rng = _rng(seed, 7)
    period = float(np.exp(rng.uniform(np.log(30), np.log(300)))) if period_s is None else period_s
    length = float(rng.uniform(2, min(10, period / 5)))
    cost = float(rng.uniform(1.6, 4))
    # A checkpoint that is broken cannot be known before some that are not.
    seconds = int(max(600, period * rng.uniform(8, 14)))
    starts = np.arange(rng.uniform(0.2, 1) * period, seconds - length - 1, period)
    starts = starts + rng.normal(0, 0.01 * period, len(starts))
    lengths, costs = np.full(len(starts), length), np.full(len(starts), cost)
    odd = int(rng.integers(len(starts) // 2, len(starts) - 1))
    spans: tuple[Span, ...] = ()
    between: tuple[Span, float] | None = None
    if broken == "longer":
        lengths[odd] = min(length * rng.uniform(4, 6), 0.7 * period)
        spans = ((float(starts[odd]), float(starts[odd] + lengths[odd])),)
    elif broken == "slower":
        costs[odd] = cost * rng.uniform(3, 5)
        spans = ((float(starts[odd]), float(starts[odd] + length)),)
    elif broken == "between":
        since = float(starts[odd] + length + 0.2 * period)
        between = (since, since + float(rng.uniform(0.2, 0.45)) * period), cost * float(rng.uniform(1.2, 2))
        spans = (between[0],)
    devices, layers = _devices(rng, seconds, settings)
    data = devices[0]
    read_factor = np.ones(len(data.at_s))
    for start, long, much in zip(starts, lengths, costs, strict=True):
        read_factor[(data.at_s >= start) & (data.at_s < start + long)] = much
    factor = cost
    if between is not None:
        read_factor[(data.at_s >= between[0][0]) & (data.at_s < between[0][1])] = between[1]
    if spans:
        factor = between[1] if between else float(costs[odd])
    data.device_s *= np.where(data.is_read, read_factor, 1.0)
    rate = data.disk.iops * float(rng.uniform(1, 3))
    devices[0] = _with_writes(
        rng, data, [(start, long, rate) for start, long in zip(starts, lengths, strict=True)]
    )
    marked = rng.random() < 0.5
    markers = [
        (float(start), float(long), "checkpoint", "planted")
        for start, long in zip(starts, lengths, strict=True)
    ]
    for ios in devices:
        ios.settle()
    name = f"checkpoints, {broken}" if broken else "checkpoints"
    host = Host(seconds, devices, layers, markers if marked else [], title=f"planted {name}, seed {seed}")
    regular = tuple(
        (float(one), float(one + length))
        for number, one in enumerate(starts)
        if number != odd or broken in {"", "between"}
    )
    return host, IncidentTruth(
        name, seed, seconds, "broken pattern" if broken else "none", spans, spans[0][0] if spans else None,
        factor if spans else None, "device" if spans else None, (data.disk.name,) if spans else (),
        "read" if spans else None, regular, "periodic writes", period, length, cost, tuple(map(float, starts)),
    )  # fmt: skip


def broken_checkpoints(seed: int, **settings: Any) -> Planted:
    """`checkpoints`, one way of breaking them drawn from the seed."""
    ways: tuple[Literal["longer", "slower", "between"], ...] = ("longer", "slower", "between")
    return checkpoints(seed, broken=ways[int(_rng(seed, 8).integers(3))], **settings)


def quiet(seed: int, *, seconds: int | None = None, **settings: Any) -> Planted:
    """Nothing happens; latency wavers as it does."""
    rng = _rng(seed, 9)
    return _calm(
        "quiet", seed, rng, int(rng.choice([300, 600, 1200, 1800])) if seconds is None else seconds, settings
    )


def diurnal(
    seed: int, *, seconds: int | None = None, peak_utilisation: float | None = None, **settings: Any
) -> Planted:
    """The load swings as over a day, in one to three hours, and latency follows it by the queue's law."""
    rng = _rng(seed, 10)
    length = int(rng.choice([3600, 7200, 10800])) if seconds is None else seconds
    swing, phase = float(rng.uniform(0.5, 0.85)), float(rng.uniform(0, 2 * np.pi))
    peak = float(rng.uniform(0.55, 0.75)) if peak_utilisation is None else peak_utilisation
    settings = {"utilisation": peak / (1 + swing), **settings}
    load: Rates = lambda at: 1 + swing * np.sin(2 * np.pi * at / length + phase)  # noqa: E731
    return _calm(
        "diurnal", seed, rng, length, settings, load=load, explained=((0.0, float(length)),), by="load"
    )


def bursty(seed: int, *, seconds: int | None = None, **settings: Any) -> Planted:
    """Bursts of 5 to 60 s at two to three times the load, which is why latency rises in them."""
    rng = _rng(seed, 11)
    length = int(rng.choice([600, 1200, 1800])) if seconds is None else seconds
    bursts = [
        (float(start), float(start + rng.uniform(5, 60)), float(rng.uniform(2, 3)))
        for start in np.sort(rng.uniform(60, length - 60, int(rng.integers(4, 12))))
    ]

    def load(at: Floats) -> Floats:
        relative = np.ones(len(at))
        for start, end, height in bursts:
            relative[(at >= start) & (at < end)] = height
        return relative

    settings = {"utilisation": float(rng.uniform(0.18, 0.26)), **settings}
    spans = tuple((start, min(end, float(length))) for start, end, _ in bursts)
    return _calm("bursty", seed, rng, length, settings, load=load, explained=spans, by="load")


def size_change(seed: int, *, seconds: int | None = None, **settings: Any) -> Planted:
    """From a moment on the data device is asked for larger I/Os, which take longer."""
    rng = _rng(seed, 12)
    length = int(rng.choice([600, 1200, 1800])) if seconds is None else seconds
    since = float(rng.uniform(0.4, 0.6) * length)
    large = Mix(0.7, ((65536, 0.5), (262144, 0.3), (524288, 0.2)), ((65536, 1.0),))
    return _calm(
        "size change",
        seed,
        rng,
        length,
        settings,
        explained=((since, float(length)),),
        by="size",
        late=(since, large),
    )


INCIDENTS: Final[dict[str, Callable[..., Planted]]] = {
    "ramp": ramp, "creep": creep, "jump": jump, "hang": hang, "freeze": freeze, "stall_above": stall_above,
    "broken_checkpoints": broken_checkpoints,
}  # fmt: skip
CALM: Final[dict[str, Callable[..., Planted]]] = {
    "quiet": quiet, "diurnal": diurnal, "bursty": bursty, "checkpoints": checkpoints, "size_change": size_change,
}  # fmt: skip


def trapezium(
    onset_s: float, build_s: float, stays_s: float, back_s: float, factor: float
) -> Callable[[Floats], Floats]:
    """1, rising evenly from ``onset_s`` to ``factor``, staying, and falling as evenly."""

    def at(moments: Floats) -> Floats:
        up = np.clip((moments - onset_s) / build_s, 0, 1)
        down = np.clip((moments - onset_s - build_s - stays_s) / back_s, 0, 1)
        return 1 + (factor - 1) * (up - down)

    return at


def _rng(seed: int, family: int) -> np.random.Generator:
    return np.random.default_rng([seed, 13, family])


def _devices(
    rng: np.random.Generator,
    seconds: int,
    settings: dict[str, Any],
    *,
    load: Rates | None = None,
    late: tuple[float, Mix] | None = None,
) -> tuple[list[Ios], tuple[LayerName, ...]]:
    """The healthy host. Of ``settings`` it knows iops, devices, layers, noise, burstiness and utilisation."""
    settings = dict(settings)
    three = rng.random() < 0.4
    layers = settings.pop("layers", ("filesystem", "block", "device") if three else ("block", "device"))
    iops = float(settings.pop("iops", min(rng.uniform(300, 1000), _ROWS_MAX / seconds)))
    disks = disks_of(rng, iops, int(settings.pop("devices", rng.integers(1, 4))))
    utilisation = settings.pop("utilisation", None)
    noise = float(settings.pop("noise", rng.uniform(0.04, 0.12)))
    burstiness = float(settings.pop("burstiness", rng.uniform(0.05, 0.25)))
    assert not settings, f"unknown settings {settings}"
    made = [
        normal_ios(
            rng, disk if utilisation is None else replace(disk, utilisation=utilisation), seconds,
            load=load, noise=noise, burstiness=burstiness, late_mix=late if number == 0 else None,
        )
        for number, disk in enumerate(disks)
    ]  # fmt: skip
    return made, layers


def _chosen(rng: np.random.Generator, devices: Sequence[Ios]) -> tuple[list[Ios], OpName | None]:
    """What is hit: the data device, its reads alone, or all devices."""
    draw = rng.random()
    if draw < 0.3:
        return list(devices), None
    return [devices[0]], ("read" if draw < 0.5 else None)


def _slowed(
    family: str,
    seed: int,
    rng: np.random.Generator,
    seconds: int,
    shape: Callable[[Floats], Floats],
    word: Shape,
    span: Span,
    built_s: float,
    most: float,
    settings: dict[str, Any],
) -> Planted:
    settings = dict(settings)
    layer: LayerName = settings.pop("layer", "device")
    devices, layers = _devices(rng, seconds, settings)
    hit, op = _chosen(rng, devices)
    for ios in hit:
        more = np.where(ios.is_read, 1.0, 0.0) if op == "read" else np.ones(len(ios.at_s))
        factor = 1 + more * (shape(ios.at_s) - 1)
        longer = (factor - 1) * ios.normal_s(layer)
        if layer == "device":
            ios.device_s += longer
        elif layer == "block":
            ios.host_s += longer
        else:
            ios.filesystem_s += longer
    for ios in devices:
        ios.settle()
    host = Host(seconds, devices, layers, title=f"planted {family}, seed {seed}")
    names = tuple(ios.disk.name for ios in hit)
    return host, IncidentTruth(family, seed, seconds, word, (span,), built_s, most, layer, names, op)


def _stopped(
    word: Literal["hang", "freeze"],
    seed: int,
    rng: np.random.Generator,
    seconds: int,
    length_s: float,
    layer: LayerName | None,
    all_devices: bool | None,
    settings: dict[str, Any],
) -> Planted:
    """Nothing passes a layer for a while, or any more. Who asks stops asking at 16 to 256 I/Os without an answer."""
    chosen: LayerName = layer or ("device" if rng.random() < 0.7 else "block")
    settings = (
        {"layers": ("filesystem", "block", "device")} | settings if chosen == "filesystem" else settings
    )
    devices, layers = _devices(rng, seconds, settings)
    everywhere = bool(rng.random() < 0.5) if all_devices is None else all_devices
    start = seconds - length_s if word == "hang" else float(rng.uniform(0.25, 0.7) * (seconds - length_s))
    end = np.inf if word == "hang" else start + length_s
    drained = end
    outstanding = int(np.exp(rng.uniform(np.log(16), np.log(256))))
    for ios in devices:
        ios.settle()
    hit = devices if everywhere else devices[:1]
    for ios in hit:
        drained = max(drained, _hold(ios, chosen, start, end, outstanding, rng))
    span = (start, float(seconds) if word == "hang" else drained)
    host = Host(seconds, devices, layers, title=f"planted {word}, seed {seed}")
    names = tuple(ios.disk.name for ios in hit)
    return host, IncidentTruth(word, seed, seconds, word, (span,), start, None, chosen, names)


def _hold(
    ios: Ios, layer: LayerName, start: float, end: float, outstanding: int, rng: np.random.Generator
) -> float:
    """Let nothing pass ``layer`` from ``start`` to ``end``; returns when the last of what waited is done."""
    passes = {"filesystem": ios.reaches_block_s, "block": ios.reaches_device_s, "device": ios.ends_s}[layer]
    held = (passes >= start) & (ios.started_s(layer) < end)
    ios.keep(~held | (np.cumsum(held) <= outstanding))
    passes = {"filesystem": ios.reaches_block_s, "block": ios.reaches_device_s, "device": ios.ends_s}[layer]
    held = (passes >= start) & (ios.started_s(layer) < end)
    freed = end + np.arange(int(held.sum())) / (5 * ios.disk.iops)
    if layer == "device":
        ios.ends_s[held] = freed
        return float(freed.max(initial=end))
    ios.reaches_device_s[held] = freed
    if layer == "filesystem":
        ios.reaches_block_s[held] = freed
        ios.reaches_device_s[held] += ios.host_s[held]
    ios.ends_s[held] = ios.reaches_device_s[held] + ios.device_s[held]
    return float(ios.ends_s[held].max(initial=end))


def _with_writes(rng: np.random.Generator, ios: Ios, bursts: Sequence[tuple[float, float, float]]) -> Ios:
    """The same with writes of 8 to 64 KiB added: moment, length and rate of each burst."""
    at = np.concatenate([start + poisson(rng, rate, length) for start, length, rate in bursts])
    size = rng.choice([8192, 16384, 65536], len(at), p=[0.5, 0.3, 0.2])
    took = (
        (ios.disk.write_s + size / ios.disk.bytes_per_second)
        * np.exp(0.4 * rng.standard_normal(len(at)))
        * 1.5
    )
    order = np.argsort(np.concatenate([ios.at_s, at]), kind="stable")

    def both(mine: Any, added: Any) -> Any:
        return np.concatenate([mine, added])[order]

    merged = Ios(
        ios.disk, both(ios.at_s, at), both(ios.is_read, np.zeros(len(at), np.bool_)), both(ios.size_bytes, size),
        both(ios.normal_device_s, took), both(ios.host_s, np.full(len(at), 8e-6)),
        both(ios.filesystem_s, np.full(len(at), 15e-6)),
    )  # fmt: skip
    merged.device_s = both(ios.device_s, took)
    return merged


def _calm(
    family: str,
    seed: int,
    rng: np.random.Generator,
    seconds: int,
    settings: dict[str, Any],
    *,
    load: Rates | None = None,
    late: tuple[float, Mix] | None = None,
    explained: tuple[Span, ...] = (),
    by: Literal["", "load", "size"] = "",
) -> Planted:
    devices, layers = _devices(rng, seconds, settings, load=load, late=late)
    for ios in devices:
        ios.settle()
    host = Host(seconds, devices, layers, title=f"planted {family}, seed {seed}")
    return host, IncidentTruth(family, seed, seconds, explained=explained, explained_by=by)
