"""The plan of a load that several machines play together: TOML, read and checked before anybody is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

from iotrace.analyze.units import is_dated
from iotrace.replay import ReplayOptions, parse_scale
from iotrace.replay.fleet import Part
from iotrace.replay.options import Shard
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.models import is_model_target
from iotrace.schemas.sections import (
    Reader,
    flag,
    key,
    list_of,
    one_of,
    positive,
    read_text,
    sections,
    text,
    whole,
)

from .amounts import parse_loop, parse_seconds
from .play_options import PlayOptions

MAKE: Final = "iotrace fleet plan --example > plan.toml makes one to edit"
_SILENCE_SECONDS: Final = (2, 3600)


@dataclass(frozen=True, slots=True)
class GeneratorPlan:
    """``[[generator]]``: one machine."""

    name: str = key(text)
    target: str = key(text, "")
    map: tuple[str, ...] = key(list_of(text), ())
    share: float = key(positive, 1.0)
    recording: str = key(text, "")
    allow_writes: bool = key(flag, False)
    destroy_data: tuple[str, ...] = key(list_of(text), ())
    file_size: str = key(text, "")
    submitters: int = key(whole, 0)
    max_in_flight: int = key(whole, 0)
    pacing: str = key(text, "")
    backend: str = key(text, "")


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The file."""

    recording: str = key(text, "")
    scale: str = key(text, "1x")
    mode: str = key(text, "")
    footprint: str = key(text, "")
    window: str = key(text, "")
    busiest: str = key(text, "")
    layer: str = key(text, "")
    role: tuple[str, ...] = key(list_of(text), ())
    file: tuple[str, ...] = key(list_of(text), ())
    process: tuple[str, ...] = key(list_of(text), ())
    op: tuple[str, ...] = key(list_of(text), ())
    reads_only: bool = key(flag, False)
    addresses: str = key(text, "")
    buffered: bool = key(flag, False)
    compressible: str = key(text, "")
    dedupe: str = key(text, "")
    stall_timeout: str = key(text, "")
    seed: int = key(whole, 0)
    loop: str = key(text, "")
    ramp: str = key(text, "")
    silence: str = key(text, "5s")
    align: str = key(one_of("time", "start"), "time")
    generators: tuple[GeneratorPlan, ...] = sections(GeneratorPlan)


@dataclass(frozen=True, slots=True)
class FleetLoad:
    """What the generators are to play. ``options``: what they have in common; ``source``: what they share, or None."""

    parts: list[Part]
    options: ReplayOptions
    source: Recording | None
    silence_seconds: float
    load: str
    """What 1x is."""

    @property
    def first(self) -> Recording:
        """The recording, or the first of several."""
        return self.source or self.parts[0].recording

    @property
    def name(self) -> str:
        """What is played, in words."""
        return self.first.manifest.title if self.source is not None else f"{len(self.parts)} recordings"


def example() -> str:
    """A commented plan to edit."""
    return resources.files(__package__).joinpath("fleet_plan.toml").read_text("utf-8")


def read_plan(path: Path) -> FleetPlan:
    """Raises `IotraceError` naming the key for whatever means nothing."""
    reader = Reader(str(path), MAKE)
    plan = reader.one(FleetPlan, reader.parse(read_text(path, what="plan", hint=MAKE)), "", "")
    if not plan.generators:
        raise IotraceError(f"'{path}' names no generator", hint=f"it needs a [[generator]] for each; {MAKE}")
    names = [one.name for one in plan.generators]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise IotraceError(
            f"'{path}' names the generator '{twice[0]}' twice", hint="each has one [[generator]]"
        )
    for one in plan.generators:
        if bool(plan.recording) == bool(one.recording):
            which = "both the plan and its generator name one" if one.recording else "it has none"
            raise IotraceError(
                f"'{path}': which recording '{one.name}' is to play is not clear: {which}",
                hint="name one recording at the top, which all share, or one for each generator",
            )
        if is_model_target([one.target]):
            raise IotraceError(
                f"'{path}': '{one.target}' is a model, which no generator is needed for",
                hint="iotrace replay --target model:… plays on a model",
            )
    return plan


def load_of(plan: FleetPlan, folder: Path, *, title: str | None = None) -> FleetLoad:
    """Open the recordings, whose paths are relative to ``folder``, and work out what each generator plays.

    Raises `IotraceError` for recordings that cannot be read, and for words that mean nothing.
    """
    seconds = float(parse_seconds(plan.silence))
    if not _SILENCE_SECONDS[0] <= seconds <= _SILENCE_SECONDS[1]:
        raise IotraceError(f"silence '{plan.silence}' is not possible", hint="it takes 2s to 1h")
    repeat, loop_seconds = parse_loop(plan.loop) if plan.loop else (1, None)
    more: dict[str, Any] = {
        "scale": parse_scale(plan.scale),
        "repeat": repeat,
        "loop_seconds": loop_seconds,
        "ramp_seconds": float(parse_seconds(plan.ramp)) if plan.ramp else 0.0,
        "title": title,
    }
    shared = Recording.open(folder / plan.recording) if plan.recording else None
    if shared is None and plan.busiest:
        raise IotraceError(
            "the busiest part of each recording is at another time", hint="name the time with window"
        )
    weights = tuple(one.share for one in plan.generators)
    parts = []
    window_ns: tuple[int, int] | None = None
    for number, one in enumerate(plan.generators):
        recording = shared or Recording.open(folder / one.recording)
        options = _words(plan, one, is_first=shared is None or number == 0).build(recording, **more)
        if shared is not None:
            # Found once: the busiest part takes a pass over the recording.
            window_ns = options.window_ns if number == 0 else window_ns
            options = replace(
                options, window_ns=window_ns, shard=Shard(number, weights) if len(weights) > 1 else None
            )
            options.check()
        parts.append(Part(one.name, recording, options, str(recording.path.absolute())))
    if shared is None:
        parts = _aligned(parts, plan.align)
    first = parts[0].options
    common = replace(
        first,
        shard=None,
        targets=tuple(f"{one.host}:{where}" for one in parts for where in one.options.all_targets),
        maps={},
    )
    load = (
        "1x"
        if not (plan.window or plan.busiest)
        else f"1x ({plan.window or f'the busiest {plan.busiest} recorded'})"
    )
    return FleetLoad(parts, common, shared, seconds, load)


def _words(plan: FleetPlan, one: GeneratorPlan, *, is_first: bool) -> PlayOptions:
    """The words of the command line that the plan stands for."""
    known = {field.name for field in fields(PlayOptions)}
    given: dict[str, Any] = {}
    for table in (plan, one):
        for field in fields(table):
            value = getattr(table, field.name)
            name = "map_" if field.name == "map" else field.name
            if name in known and value not in ("", 0, ()):
                given[name] = list(value) if isinstance(value, tuple) else value
    given["target"] = [one.target] if one.target else None
    if not is_first:
        given.pop("busiest", None)
        given.pop("window", None)
    return PlayOptions(**given)


def _aligned(parts: Sequence[Part], align: str) -> list[Part]:
    """Give all parts stretches of one length: of the same time, or from each one's start."""
    spans = []
    for part in parts:
        manifest = part.recording.manifest
        own = part.options.window_ns or (manifest.window_start_ns, manifest.window_end_ns + 1)
        spans.append((manifest.clock.start_utc_ns if align == "time" else -own[0], own))
    if align == "time":
        undated = [part for part, (start, _) in zip(parts, spans, strict=True) if not is_dated(start)]
        if undated:
            raise IotraceError(
                f"'{undated[0].recording.path}' has no date, so what happened at the same time is not known",
                hint='align = "start" lets all begin with their first I/O',
            )
    first = min(start + own[0] for start, own in spans)
    last = max(start + own[1] for start, own in spans)
    if max(start + own[0] for start, own in spans) >= min(start + own[1] for start, own in spans):
        raise IotraceError(
            "the recordings have no moment in common",
            hint='align = "start" lets all begin with their first I/O',
        )
    return [
        replace(part, options=replace(part.options, window_ns=(first - start, last - start)))
        for part, (start, _) in zip(parts, spans, strict=True)
    ]
