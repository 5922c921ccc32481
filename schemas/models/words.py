"""What a model is called among the targets, and what is said wherever one is quoted: defined here, once."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from iotrace.schemas.errors import IotraceError
from iotrace.schemas.recording import Recording
from iotrace.schemas.run import ModelFacts
from iotrace.schemas.text import format_share
from iotrace.schemas.vocabulary import Role

from .catalogue import catalogue_names, find_disk, find_machine
from .files import read_model
from .model import Disk, Machine, Model, refuse_nonsense

PREFIX: Final = "model:"
_NAMED: Final = re.compile(r"(?P<provider>[a-z0-9-]+)/(?P<disks>[^+]+)(?:\+(?P<machine>.+))?")
_PART: Final = re.compile(r"(?:(?P<role>[a-z_]+)=)?(?:(?P<count>\d{1,3})x)?(?P<disk>[^=]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """So many disks of the catalogue, with stripes over them, for the files of one role; None is for all the rest."""

    disk: Disk
    count: int = 1
    role: str | None = None

    @property
    def words(self) -> str:
        """``log=2xP10``, as in a model's name."""
        return f"{f'{self.role}=' if self.role else ''}{f'{self.count}x' if self.count > 1 else ''}{self.disk.name}"


def is_model_target(targets: Iterable[str]) -> bool:
    """Whether what is played on is a model. Raises `IotraceError` where it is one and something else too."""
    names = list(targets)
    models = [name for name in names if name.startswith(PREFIX)]
    if models and len(names) > 1:
        raise IotraceError(
            f"'{models[0]}' and other targets: a model stands for all storage",
            hint="a model file says with roles what lies on which of its disks",
        )
    return bool(models)


def model_named(target: str) -> Model:
    """The model that ``model:FILE.toml`` or ``model:PROVIDER/[COUNTx]DISK[,ROLE=[COUNTx]DISK...][+MACHINE]`` names.

    Raises `IotraceError` for what is in no catalogue.
    """
    name = target.removeprefix(PREFIX)
    if name.endswith(".toml"):
        return read_model(Path(name))
    named = _NAMED.fullmatch(name)
    parts = [_PART.fullmatch(part) for part in named["disks"].split(",")] if named is not None else []
    if named is None or None in parts:
        raise IotraceError(
            f"'{name}' names no model",
            hint=f"a file ends in .toml; the catalogue has names like azure/4xP30,log=P10+Standard_E16bds_v5, of "
            f"{', '.join(catalogue_names())}",
        )
    provider = named["provider"]
    machine = find_machine(f"{provider}/{named['machine']}", name) if named["machine"] else None
    found = [
        Part(find_disk(f"{provider}/{part['disk']}", name), int(part["count"] or 1), part["role"])
        for part in parts
        if part is not None
    ]
    unknown = sorted({part.role for part in found if part.role is not None} - set(Role))
    if unknown:
        raise IotraceError(f"'{name}': there is no role '{unknown[0]}'", hint=f"there are {', '.join(Role)}")
    return combined(name, found, machine)


def combined(name: str, parts: Sequence[Part], machine: Machine | None) -> Model:
    """Disks of the catalogue behind a machine of it, as a model called ``name``.

    Raises `IotraceError` for a disk that the machine does not take, and where not exactly one part takes the rest.
    """
    disks = []
    for part in parts:
        if machine is not None and not machine.takes(part.disk):
            raise IotraceError(
                f"'{name}': {machine.name} does not take {part.disk.name}",
                hint=f"its figures are for {', '.join(machine.disks)}",
            )
        disk = replace(part.disk, count=part.count)
        if part.role is not None:
            disk = replace(disk, name=f"{part.role} {disk.name}", roles=(part.role,))
        disks.append(disk)
    cited: list[Disk | Machine] = [*disks, *([machine] if machine is not None else [])]
    model = Model(
        title=name,
        source="; ".join(dict.fromkeys(one.source for one in cited)),
        date=min(one.date for one in cited),
        machine=machine,
        disks=tuple(disks),
    )
    refuse_nonsense(model, name)
    return model


def model_words(recordings: Iterable[Recording]) -> str:
    """`tested_words` of the first recording that a model answered; empty where storage answered all."""
    models = (one.manifest.model for one in recordings)
    return next((tested_words(model) for model in models if model is not None), "")


def tested_words(facts: ModelFacts) -> str:
    """What must be said beside every figure of a model, from ``manifest.model``."""
    tested = facts.tested
    of = f" of {facts.date}" if facts.date else ""
    if tested is None:
        return f"from the model '{facts.title}'{of}, which was never held against real storage"
    beyond = f"; not tested: {tested.beyond}" if tested.beyond else ""
    return (
        f"from the model '{facts.title}'{of}; held against {tested.runs} runs on {tested.on} "
        f"({tested.date}) it was off by up to {format_share(tested.response_p50_error, 0)} at the p50 and "
        f"{format_share(tested.response_p99_error, 0)} at the p99 of response{beyond}"
    )
