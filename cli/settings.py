"""What people would otherwise type again and again: a file of settings, and environment variables that go before it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from iotrace.analyze.present import ProgramAnswer
from iotrace.analyze.slo import parse
from iotrace.analyze.units import DASH
from iotrace.schemas import IotraceError
from iotrace.schemas.sections import Check, Reader, list_of, one_of, read_text, text

from . import console
from .options import Json

FILE_VARIABLE: Final = "IOTRACE_CONFIG"
_HINT: Final = "iotrace config --example shows what it takes"


def _limits(value: object) -> str:
    try:
        parse(text(value))
    except IotraceError as problem:
        raise ValueError("limits such as 'p99<15ms' or 'read p95<5ms, log write p99<2ms'") from problem
    return text(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """What ``commands`` take as their ``--option`` where nobody gives it."""

    name: str
    meaning: str
    example: str
    """As the file has it."""
    check: Check
    commands: tuple[str, ...] = ()
    option: str = ""
    is_list: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that goes before the file."""
        return f"IOTRACE_{self.name.upper()}"


SETTINGS: Final = (
    Setting(
        "slo", "What the business needs", '"p99<15ms"', _limits, ("sweep", "knee", "report", "view", "size"), "slo"
    ),
    Setting("catalogue", "Catalogue of disks and machines", '"azure"', text, ("size",), "catalogue"),
    Setting(
        "roles", "What devices hold", '["/dev/sdb=data", "/dev/sdc=log"]', list_of(text), ("capture linux",), "role",
        is_list=True,
    ),
    Setting("color", "auto, or never", '"never"', one_of("auto", "never")),
    Setting("log", "A file to which each run adds what it was and what it said", '"/var/log/iotrace.log"', text),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting's value, several where it takes a list; None where nobody set it. ``origin`` says who did."""

    setting: Setting
    value: str | tuple[str, ...] | None = None
    origin: str = ""

    @property
    def words(self) -> str:
        """The value for people."""
        return ", ".join(self.value) if isinstance(self.value, tuple) else self.value or ""


def settings_file() -> Path:
    """Where the file of settings is looked for."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else Path(typer.get_app_dir("iotrace")) / "config.toml"


def chosen() -> list[Chosen]:
    """Every setting, as the environment or else the file has it. Raises `IotraceError` for what cannot be used."""
    path = settings_file()
    reader = Reader(str(path), _HINT)
    held: dict[str, Any] = {}
    if FILE_VARIABLE in os.environ or os.access(path, os.R_OK):
        held = reader.parse(
            read_text(path, what="file of settings", hint=f"{FILE_VARIABLE} may name another")
        )
        reader.refuse_unknown(held, {one.name for one in SETTINGS}, "")
    return [_chosen(one, held, reader) for one in SETTINGS]


def _chosen(setting: Setting, held: dict[str, Any], reader: Reader) -> Chosen:
    said = os.environ.get(setting.variable)
    if said:
        value = [one.strip() for one in said.split(",")] if setting.is_list else said
        origin = setting.variable
        return Chosen(setting, Reader(origin, "").checked(setting.check, value, setting.name), origin)
    if setting.name not in held:
        return Chosen(setting)
    return Chosen(setting, reader.checked(setting.check, held[setting.name], setting.name), reader.name)


def named(settings: Sequence[Chosen], name: str) -> str | None:
    """The value of a setting that takes one."""
    value = next(one.value for one in settings if one.setting.name == name)
    return value if isinstance(value, str) else None


def defaults(settings: Sequence[Chosen]) -> dict[str, Any]:
    """The same as what the commands' options are where nobody gives them."""
    found: dict[str, Any] = {}
    for one in settings:
        for command in one.setting.commands if one.value is not None else ():
            *groups, name = command.split()
            place = found
            for group in (*groups, name):
                place = place.setdefault(group, {})
            place[one.setting.option] = one.value
    return found


def say_defaults(settings: Sequence[Chosen], arguments: Sequence[str]) -> None:
    """Name the settings that stand for options which ``arguments`` do not give: none is to surprise."""
    words = [argument for argument in arguments if not argument.startswith("-")]
    for one in settings:
        applies = any(words[: len(command.split())] == command.split() for command in one.setting.commands)
        option = f"--{one.setting.option}"
        is_given = any(word == option or word.startswith(f"{option}=") for word in arguments)
        if one.value is not None and applies and not is_given and "--help" not in arguments:
            console.say(f"{option} {one.words}, as {one.origin} says")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("config")(config_command)


@dataclass(frozen=True, slots=True)
class SettingFacts:
    """A setting, its value if it has one, and who set it."""

    name: str
    variable: str
    value: str | tuple[str, ...] | None
    origin: str


@dataclass(frozen=True, kw_only=True)
class ConfigAnswer(ProgramAnswer):
    """What `config` answers."""

    schema: Literal["iotrace.config/1"] = "iotrace.config/1"
    file: Path
    is_there: bool
    settings: list[SettingFacts]


def config_command(
    example_: Annotated[bool, typer.Option("--example", help="Print a commented file to edit.")] = False,
    json: Json = False,
) -> None:
    """Show the settings that apply where you give no option.

    Also shows which file or variable each comes from.

    An option overrides an environment variable, which overrides the file.

    Example: iotrace config
    """
    if example_:
        typer.echo(_example(), nl=False)
        return
    path, found = settings_file(), chosen()
    if json:
        facts = [SettingFacts(one.setting.name, one.setting.variable, one.value, one.origin) for one in found]
        console.print_answer(ConfigAnswer(file=path, is_there=path.is_file(), settings=facts))
        return
    state = "read" if path.is_file() else f"not there; {_HINT.replace('it takes', 'it may hold')}"
    console.paragraph(f"{path}: {state}")
    rows = [[one.setting.name, one.words or DASH, _set_by(one, path)] for one in found]
    console.table(["", "value", "set by"], rows, left=3)


def _set_by(one: Chosen, path: Path) -> str:
    if one.value is None:
        return f"nothing yet; {one.setting.variable}, or the file"
    return "the file" if one.origin == str(path) else one.origin


def _example() -> str:
    """A file to edit; nothing in it is in force."""
    lines = [
        "# Settings of iotrace: the values of options that you do not give.",
        f"# Save it as {settings_file()}, or name it with {FILE_VARIABLE}.",
    ]
    for one in SETTINGS:
        lines += ["", f"# {one.meaning}; {one.variable} overrides it.", f"# {one.name} = {one.example}"]
    return "\n".join(lines) + "\n"
