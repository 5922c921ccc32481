"""What replay and sweep both take: declared once, shown in groups, turned into `ReplayOptions` in one place."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal, cast, get_type_hints

import typer

from iotrace.replay import ReplayOptions, choose_layer, select
from iotrace.replay.options import IN_FLIGHT, IN_FLIGHT_MOST
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.models import is_model_target

from .amounts import parse_busiest, parse_bytes, parse_ratio, parse_seconds, parse_window
from .options import COUNT_MAX

WHERE: Final = "Where to play"
WHAT: Final = "What to play"
HOW: Final = "How hard"
DATA: Final = "Data on the target"
RUN: Final = "The run"
_FOR_STORAGE: Final = (
    "buffered", "allow_writes", "destroy_data", "compressible", "dedupe", "submitters", "pacing", "max_errors",
    "stall_timeout", "backend",
)  # fmt: skip
"""Options about what is opened, written or waited for: on a model nothing is."""


def _option(panel: str, name: str, meaning: str, **more: Any) -> Any:  # noqa: ANN401 - as typer's own
    return typer.Option(
        name, help=meaning, rich_help_panel=panel, show_default=more.pop("default", False), **more
    )


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """The words of the command line, as they were given."""

    target: Annotated[
        list[str] | None,
        _option(
            WHERE,
            "--target",
            "File or block device to play on; or a folder, for one file each.",
            metavar="T",
        ),
    ] = None
    map_: Annotated[
        list[str] | None,
        _option(
            WHERE,
            "--map",
            "Play one recorded device (id or name) on a target of its own.",
            metavar="DEVICE=TARGET",
        ),
    ] = None
    addresses: Annotated[
        str,
        _option(
            WHERE, "--addresses", "identity; compact (only what is touched, packed); fold (onto a smaller target); or "
                                  "auto: identity if it fits, else compact.", metavar="HOW", default=True,
        ),
    ] = "auto"  # fmt: skip
    buffered: Annotated[
        bool,
        _option(WHERE, "--buffered", "Go through the page cache. This measures memory as well as storage."),
    ] = False
    window: Annotated[
        str | None,
        _option(
            WHAT,
            "--window",
            "Only this part: 02:10..02:25 UTC, or 10m..25m after the start.",
            metavar="FROM..TO",
        ),
    ] = None
    busiest: Annotated[
        str | None,
        _option(WHAT, "--busiest", "Only the busiest part of this length: 30s, 15m.", metavar="TIME"),
    ] = None
    layer: Annotated[
        str | None,
        _option(
            WHAT, "--layer", "Layer of the recording to play.", metavar="LAYER", default="block if recorded"
        ),
    ] = None
    role: Annotated[
        list[str] | None,
        _option(WHAT, "--role", "Only files of this role: data, log, tempdb_data …", metavar="ROLE"),
    ] = None
    file: Annotated[
        list[str] | None,
        _option(WHAT, "--file", "Only files whose path matches: '*.ldf', 'D:\\data\\*'.", metavar="PATTERN"),
    ] = None
    process: Annotated[
        list[str] | None,
        _option(WHAT, "--process", "Only processes of this name or number: 'sqlservr*'.", metavar="PATTERN"),
    ] = None
    op: Annotated[
        list[str] | None, _option(WHAT, "--op", "Only these operations: read, write, flush.", metavar="OP")
    ] = None
    reads_only: Annotated[
        bool, _option(WHAT, "--reads-only", "Only reads; changes nothing on the target.")
    ] = False
    mode: Annotated[
        str,
        _option(
            HOW, "--mode", "compress (all times shorter), superpose (copies at once), or think (keeps which I/O waited "
                           "for which, and shortens the pauses between).", metavar="MODE", default=True,
        ),
    ] = "compress"  # fmt: skip
    footprint: Annotated[
        str,
        _option(
            HOW, "--footprint", "Addresses of superposed copies: disjoint (each its own) or same.",
            metavar="F", default=True,
        ),
    ] = "disjoint"  # fmt: skip
    allow_writes: Annotated[
        bool, _option(DATA, "--allow-writes", "Write to a target that iotrace did not create.")
    ] = False
    destroy_data: Annotated[
        list[str] | None,
        _option(
            DATA,
            "--destroy-data",
            "Repeat a device's name here to let a replay overwrite it.",
            metavar="DEVICE",
        ),
    ] = None
    file_size: Annotated[
        str | None,
        _option(
            DATA, "--file-size", "Size of a target file that iotrace makes: 20G.", metavar="SIZE",
            default="what is needed",
        ),
    ] = None  # fmt: skip
    compressible: Annotated[
        str,
        _option(
            DATA,
            "--compressible",
            "How compressible the fill of target files is: 2:1.",
            metavar="RATIO",
            default=True,
        ),
    ] = "1:1"
    dedupe: Annotated[
        str,
        _option(
            DATA,
            "--dedupe",
            "How often blocks of the fill repeat: 3:1.",
            metavar="RATIO",
            default=True,
        ),
    ] = "1:1"
    submitters: Annotated[
        int | None,
        _option(
            RUN,
            "--submitters",
            "Threads that issue I/Os; by default one, or more if one is too slow for the plan.",
            min=1,
            max=64,
            metavar="N",
        ),
    ] = None
    pacing: Annotated[
        str,
        _option(
            RUN, "--pacing", "precise (spins before each I/O), gentle (sleeps, leaving the processor to the storage), "
                             "or auto: tests which is more exact here.", metavar="HOW", default=True,
        ),
    ] = "auto"  # fmt: skip
    max_in_flight: Annotated[
        int | None,
        _option(
            RUN,
            "--max-in-flight",
            f"Most I/Os in flight; counts those held back. {IN_FLIGHT:,} by default, on a model {IN_FLIGHT_MOST:,}.",
            min=1,
            max=IN_FLIGHT_MOST,
            metavar="N",
        ),
    ] = None
    max_errors: Annotated[
        int | None,
        _option(
            RUN,
            "--max-errors",
            "Stop once more than this many I/Os failed.",
            min=0,
            max=COUNT_MAX,
            metavar="N",
        ),
    ] = None
    stall_timeout: Annotated[
        str,
        _option(
            RUN,
            "--stall-timeout",
            "Stop when a target completes nothing for this long.",
            metavar="TIME",
            default=True,
        ),
    ] = "120s"
    backend: Annotated[
        str, _option(RUN, "--backend", "auto, io_uring or threads.", metavar="NAME", default=True)
    ] = "auto"
    seed: Annotated[
        int,
        _option(
            RUN,
            "--seed",
            "Seed for random choices: shifts, streams.",
            min=0,
            max=COUNT_MAX,
            metavar="N",
            default=True,
        ),
    ] = 0

    def build(self, source: Recording, **more: Any) -> ReplayOptions:  # noqa: ANN401 - fields of ReplayOptions
        """`ReplayOptions`, checked before any target is touched."""
        self._refuse_on_model()
        options = ReplayOptions(
            targets=tuple(self.target or ()),
            maps=_maps(self.map_ or []),
            addresses=self.addresses,
            buffered=self.buffered,
            window_ns=self._window(source),
            layer=self.layer,
            roles=_words("--role", self.role),
            files=_patterns("--file", self.file),
            processes=_patterns("--process", self.process),
            ops=_words("--op", self.op),
            reads_only=self.reads_only,
            mode=self.mode,
            footprint=cast("Literal['disjoint', 'same']", self.footprint),
            allow_writes=self.allow_writes,
            destroy_data=tuple(self.destroy_data or ()),
            file_bytes=None if self.file_size is None else parse_bytes(self.file_size),
            compressible=parse_ratio(self.compressible),
            dedupe=parse_ratio(self.dedupe),
            max_in_flight=self._max_in_flight(),
            submitters=self.submitters,
            pacing=self.pacing,
            max_errors=self.max_errors,
            stall_seconds=float(parse_seconds(self.stall_timeout)),
            backend=cast("Literal['auto', 'io_uring', 'threads']", self.backend),
            seed=self.seed,
            **more,
        )
        options.check()
        select(source, options)
        return options

    def _refuse_on_model(self) -> None:
        if not any(is_model_target([target]) for target in self.target or ()):
            return
        defaults = {field.name: field.default for field in fields(self)}
        given = [name for name in _FOR_STORAGE if getattr(self, name) != defaults[name]]
        if given:
            words = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise IotraceError(
                f"{words}: not on a model, which is played in virtual time and opens and writes nothing",
                hint=f"leave out {words}, or name storage with --target",
            )

    def _max_in_flight(self) -> int:
        if self.max_in_flight is not None:
            return self.max_in_flight
        return IN_FLIGHT_MOST if is_model_target(self.target or ()) else IN_FLIGHT

    def _window(self, source: Recording) -> tuple[int, int] | None:
        if self.window is not None and self.busiest is not None:
            raise IotraceError(
                "--window and --busiest each name the part to play", hint="leave one of them out"
            )
        if self.window is not None:
            return parse_window(self.window, source)
        if self.busiest is None:
            return None
        return parse_busiest(self.busiest, source, layer=choose_layer(source, self.layer))


def _maps(words: list[str]) -> dict[str | int, str]:
    maps: dict[str | int, str] = {}
    for text in words:
        device, equals, path = text.partition("=")
        if not equals or not device or not path:
            raise IotraceError(f"--map '{text}' is not DEVICE=TARGET", hint="for example --map 0=/dev/sdb")
        if maps.setdefault(device, path) != path:
            raise IotraceError(
                f"--map sends '{device}' to '{maps[device]}' and to '{path}'", hint="leave one of them out"
            )
    return maps


def _words(option: str, given: list[str] | None) -> tuple[str, ...]:
    """Options that may be repeated take lists with commas too."""
    words = tuple(word.strip() for text in _patterns(option, given) for word in text.split(","))
    return tuple(word for word in words if word)


def _patterns(option: str, given: list[str] | None) -> tuple[str, ...]:
    """What was given. A script's variable that is empty would else let everything through, writes too."""
    for text in given or ():
        if not text.strip(" ,"):
            raise IotraceError(
                f"{option} '{text}' names nothing", hint=f"leave {option} out to play everything"
            )
    return tuple(given or ())


def takes_play_options(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command take all `PlayOptions`: its parameter ``play`` stands for them, in their place."""
    hints = get_type_hints(PlayOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(PlayOptions)
    ]
    own = inspect.signature(command)
    listed: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        if parameter.name == "play":
            listed += shared
        else:
            listed.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def wrapper(**given: Any) -> int:  # noqa: ANN401 - typer hands over what it parsed
        words = {field.name: given.pop(field.name) for field in fields(PlayOptions)}
        return command(play=PlayOptions(**words), **given)

    wrapper.__signature__ = own.replace(parameters=listed)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
    del wrapper.__wrapped__
    return wrapper


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help shows its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's own types
        """Arguments, then each group under its title."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
        order = ["Arguments", WHERE, WHAT, HOW, DATA, RUN, "Options"]
        for title in sorted(groups, key=order.index):
            with formatter.section(title):
                formatter.write_dl(groups[title])
