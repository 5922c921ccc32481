"""Model files: read, with what they name of the catalogue put in."""

from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

from iotrace.schemas.errors import IotraceError
from iotrace.schemas.sections import Reader, read_text

from .catalogue import find_disk, find_machine
from .model import Disk, Machine, Model, refuse_nonsense

LOOK: Final = "iotrace model example shows what it takes"


def example() -> str:
    """A commented TOML that is read as it stands."""
    return resources.files(__package__).joinpath("example.toml").read_text("utf-8")


def read_model(path: Path) -> Model:
    """Read the model file at ``path``. Raises `IotraceError` naming the file and the key."""
    return parse_model(read_text(path, what="model", hint=LOOK), str(path))


def parse_model(toml: str, name: str) -> Model:
    """Read the text of a model file called ``name``."""
    reader = Reader(name, LOOK)
    model = reader.one(Model, reader.parse(toml), "the model", "model")
    if not model.disks:
        raise IotraceError(f"'{name}' has no [[disk]]", hint=LOOK)
    model = replace(
        model,
        title=model.title or Path(name).stem,
        machine=model.machine and _resolved_machine(model.machine, name),
        disks=tuple(_resolved_disk(disk, name) for disk in model.disks),
    )
    refuse_nonsense(model, name)
    return model


def _resolved_disk(disk: Disk, name: str) -> Disk:
    return disk if disk.like is None else _laid_over(find_disk(disk.like, name), disk)


def _resolved_machine(machine: Machine, name: str) -> Machine:
    return machine if machine.like is None else _laid_over(find_machine(machine.like, name), machine)


def _laid_over(base: Any, own: Any) -> Any:  # noqa: ANN401 - both disks, or both machines
    """``base`` with what ``own`` says otherwise than by default."""
    given = {one.name: getattr(own, one.name) for one in fields(own) if getattr(own, one.name) != one.default}
    return replace(base, **given)
