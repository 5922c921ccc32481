"""What a model is called among the targets, and what is said wherever one is quoted: defined here, once."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from iotrace.schemas.errors import IotraceError
from iotrace.schemas.recording import Recording
from iotrace.schemas.run import ModelFacts

from .catalogue import catalogue_names, find_disk, find_machine
from .files import read_model
from .model import Disk, Machine, Model

PREFIX: Final = "model:"
_NAMED: Final = re.compile(
    r"(?P<provider>[a-z0-9-]+)/(?:(?P<count>\d{1,3})x)?(?P<disk>[^+]+)(?:\+(?P<machine>.+))?"
)


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
    """The model that ``model:FILE.toml`` or ``model:PROVIDER/[COUNTx]DISK[+MACHINE]`` names.

    Raises `IotraceError` for what is in no catalogue.
    """
    name = target.removeprefix(PREFIX)
    if name.endswith(".toml"):
        return read_model(Path(name))
    named = _NAMED.fullmatch(name)
    if named is None:
        raise IotraceError(
            f"'{name}' names no model",
            hint=f"a file ends in .toml; the catalogue has names like azure/4xP30+Standard_E16bds_v5, of "
            f"{', '.join(catalogue_names())}",
        )
    provider = named["provider"]
    machine = find_machine(f"{provider}/{named['machine']}", name) if named["machine"] else None
    return combined(name, find_disk(f"{provider}/{named['disk']}", name), int(named["count"] or 1), machine)


def combined(name: str, disk: Disk, count: int, machine: Machine | None) -> Model:
    """``count`` disks of the catalogue behind a machine of it, as a model called ``name``."""
    fields = {one: getattr(disk, one) for one in disk.__slots__} | {"count": count}
    dates = [one.date for one in (disk, machine) if one is not None]
    sources = list(dict.fromkeys(one.source for one in (disk, machine) if one is not None))
    return Model(
        title=name, source="; ".join(sources), date=min(dates), machine=machine, disks=(Disk(**fields),)
    )


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
        f"({tested.date}) it was off by up to {tested.response_p50_error:.0%} at the p50 and "
        f"{tested.response_p99_error:.0%} at the p99 of response{beyond}"
    )
