"""A sweep: a folder ``NAME.iotrace/`` with one recording per load step and a ``sweep.json`` that orders them.

A recorder that watched the target meanwhile leaves a second recording beside the step (`watched_path`).

Steps are kept as they finish, so an interrupted sweep still holds every completed step. Any recording can be a
step; replays at rising scale are the usual ones.

Imported results of another tool's tests are steps too, one run in each (kind ``tested``, table ``results``), in order
of load, and ``scale`` is what they differ by (`SweepSettings.axis`).
"""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import TracebackType
from typing import Any, Literal, Self

from .contract import ContractError, load
from .durable import create_private_folder, replace_text, sync_folder
from .errors import IotraceError
from .partials import Partial
from .plain_files import read_plain
from .recording import Recording
from .replacing import INDEX_BYTES_MAX, grow_in_place, refuse_nameless, seal_folder
from .run import Prediction
from .tables import FORMAT_VERSION
from .writer import RECORDING, check_replaceable


@dataclass(slots=True)
class SweepStep:
    """One load: ``scale`` relative to the source recording and the step's folder relative to the sweep's."""

    scale: float
    folder: str
    predicted: Prediction | None = None
    """What was said of it before it was played."""


@dataclass(slots=True)
class SweepSettings:
    """What the steps had in common, and why there are no more; None where it does not apply."""

    targets: list[str] = field(default_factory=list)
    window_ns: list[int] | None = None
    """From when until when of the recording."""
    step_seconds: float | None = None
    load: str = "1x"
    """What 1x is, in words."""
    loop: Literal["closed"] | None = None
    """Of characterize."""
    tool: str | None = None
    """Of another tool's results: which."""
    axis: str | None = None
    """By what the runs differ: ``outstanding``, ``size``, ``virtual_users``, ``offered_iops`` or ``threads``; ``run``
    where they differ by none of them, and the scale counts from 1."""
    unlike: str | None = None
    """In what runs of another tool differ besides."""
    ended: str | None = None


@dataclass(slots=True)
class Sweep:
    """The steps in the order they were run. ``settings`` holds what they had in common."""

    path: Path
    title: str
    source_uuid: str | None
    steps: list[SweepStep] = field(default_factory=list)
    settings: SweepSettings = field(default_factory=SweepSettings)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the sweep folder at ``path``. Raises `IotraceError` naming ``path``."""
        folder = Path(path)
        if not folder.exists():
            raise IotraceError(f"no sweep at '{path}'", hint="check the path; iotrace sweep writes one")
        if not (folder / "sweep.json").is_file():
            what = "a recording, not a sweep" if (folder / "manifest.json").is_file() else "not a sweep"
            raise IotraceError(
                f"'{path}' is {what}", hint="iotrace sweep RECORDING --target T -o NAME.iotrace makes one"
            )
        try:
            text = read_plain(folder / "sweep.json", INDEX_BYTES_MAX)
            if len(text) > INDEX_BYTES_MAX:
                raise IotraceError(
                    f"'{path}' has a sweep.json over 16 MiB", hint="it is damaged, or not a sweep"
                )
            data = json.loads(text)
            if data["format_version"] > FORMAT_VERSION:
                raise IotraceError(
                    f"'{path}' was written by a newer iotrace", hint="update iotrace on this machine"
                )
            steps = [_step(step) for step in data["steps"]]
            settings = load(SweepSettings, data.get("settings", {}))
            sweep = cls(folder, str(data["title"]), data.get("source_uuid"), steps, settings)
        except (
            ContractError,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as problem:
            raise IotraceError(
                f"'{path}' has a damaged sweep.json: {problem}",
                hint="its steps are recordings and can be used alone",
            ) from problem
        for step in sweep.steps:
            if _leads_out(step.folder):
                raise IotraceError(
                    f"'{path}' names a step outside its folder: {step.folder}", hint="it is damaged"
                )
        return sweep

    @property
    def is_cut_off(self) -> bool:
        """Whether the walk of ``iotrace sweep`` never came to its end; it notes why it ended."""
        return not (self.settings.ended or self.settings.tool or self.settings.loop)

    def watched(self) -> list[Recording | None]:
        """What a recorder saw of each step's target meanwhile, in the order of `recordings`; None where none ran."""
        paths = [watched_path(self.path / step.folder) for step in self.steps]
        return [Recording.open(path) if (path / "manifest.json").is_file() else None for path in paths]

    def recordings(self) -> list[Recording]:
        """Open the recordings of all steps, in order."""
        return [Recording.open(self.path / step.folder) for step in self.steps]


def _step(data: dict[str, Any]) -> SweepStep:
    said, scale = data.get("predicted"), float(data["scale"])
    if not math.isfinite(scale):
        raise ValueError(f"the scale of step {data['folder']} is {scale}")
    return SweepStep(scale, str(data["folder"]), None if said is None else load(Prediction, said))


def _leads_out(folder: str) -> bool:
    """Whether a path leaves its folder on any system; on Windows ``/x`` and ``C:x`` do, and are not absolute."""
    paths = (PurePosixPath(folder), PureWindowsPath(folder))
    return any(path.anchor or ".." in path.parts for path in paths)


def watched_path(step: Path) -> Path:
    """Where a recorder beside a step writes: ``000-1x.watched.iotrace`` beside ``000-1x.iotrace``.

    Raises `IotraceError` where ``step`` ends in no name.
    """
    refuse_nameless(step)
    return step.with_name(f"{step.name.removesuffix('.iotrace')}.watched.iotrace")


class SweepWriter:
    """Creates the sweep's folder, hands out a path for each step, and keeps ``sweep.json`` current.

    As a context it leaves nothing where no step was finished: what stood there before is back then.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        title: str,
        source_uuid: str | None,
        settings: SweepSettings | None = None,
        overwrite: bool = False,
    ) -> None:
        """Start a sweep at ``path``. Raises `IotraceError` if it is taken or cannot be written."""
        folder = Path(path)
        check_replaceable(folder, overwrite=overwrite)
        try:
            with Partial.folder(folder, private=True) as partial:
                create_private_folder(partial.path / "steps")
                self.sweep = Sweep(partial.path, title, source_uuid, [], settings or SweepSettings())
                self._save()
                self._earlier = grow_in_place(partial, folder, RECORDING)
            sync_folder(folder.parent)
        except OSError as problem:
            raise IotraceError(
                f"cannot write '{path}': {problem.strerror}", hint="choose a folder you may write to with -o"
            ) from problem
        self.sweep.path = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seal()
        self._earlier.settle(replaced=bool(self.sweep.steps))

    def seal(self) -> None:
        """No more steps come: from here on a change shows."""
        seal_folder(self.sweep.path)

    def step_path(self, scale: float) -> Path:
        """Where the recording of the next step belongs."""
        return self.sweep.path / "steps" / f"{len(self.sweep.steps):03}-{scale:g}x.iotrace"

    def add(self, scale: float, recording: Recording, predicted: Prediction | None = None) -> None:
        """Note a finished step, written to `step_path`, and what was said of it before."""
        folder = recording.path.relative_to(self.sweep.path).as_posix()
        self.sweep.steps.append(SweepStep(scale, folder, predicted))
        self._save()

    def end(self, why: str) -> None:
        """Note in the settings why the sweep ended."""
        self.sweep.settings.ended = why
        self._save()

    def _save(self) -> None:
        data = asdict(self.sweep) | {"format_version": FORMAT_VERSION}
        del data["path"]
        text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        replace_text(self.sweep.path / "sweep.json", text, private=True)
