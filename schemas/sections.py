"""TOML that people write, read into dataclasses: every error names the file, the section and the key.

A field says by `key` what it takes, by `section` that it is a table, by `sections` that it is a list of tables.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from .errors import IotraceError
from .plain_files import read_plain
from .text import shortened

_BYTES_MAX: Final = 1 << 20
_KEY_PARTS_MAX: Final = 32
_TEXTS_AND_REMARKS: Final = re.compile(
    r"""
    "{3}(?:\\.|[^\\])*?"{3} | '{3}.*?'{3} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | \#[^\n]*
    """,
    re.DOTALL | re.VERBOSE,
)
_KEY_OF_MANY_PARTS: Final = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{_KEY_PARTS_MAX}}}")
Check = Callable[[object], Any]


def positive(value: object) -> float:
    """A number above 0. Raises ``ValueError`` in words that end "it takes …"."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError("a number above 0")
    return float(value)


def not_negative(value: object) -> float:
    """A number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError("a number of 0 or more")
    return float(value)


def whole(value: object) -> int:
    """A whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**6:
        raise ValueError("a whole number above 0")
    return value


def share(value: object) -> float:
    """A part of a whole."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return float(value)


def text(value: object) -> str:
    """A text of a line or so."""
    if not isinstance(value, str) or not value.strip() or len(value) > 400:
        raise ValueError("a text in quotation marks")
    return value


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 - as the others
    return value


def one_of(*words: str) -> Check:
    """One of ``words``."""

    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return str(value)

    return check


def list_of(check: Check) -> Check:
    """A list of what ``check`` takes."""

    def checked_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError("a list in brackets")
        return tuple(check(entry) for entry in value)

    return checked_all


def key(check: Check, default: Any = MISSING) -> Any:  # noqa: ANN401 - a dataclass field of any type
    """A field that holds what ``check`` makes of the key's value."""
    metadata = {"check": check}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def section(kind: type, default: Any = MISSING) -> Any:  # noqa: ANN401 - as `key`
    """A field that is a table of its own."""
    metadata = {"section": kind}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def sections(kind: type) -> Any:  # noqa: ANN401 - as `key`
    """A field that is any number of tables."""
    return field(default=(), metadata={"sections": kind})


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the tables of the file that the user calls ``name``; ``hint`` says where to see how it looks."""

    name: str
    hint: str

    def table(self, kind: type[_T], data: Mapping[str, Any], name: str) -> _T | None:
        """The table ``name``; None where there is none."""
        return self.one(kind, data[name], name, name) if name in data else None

    def tables(self, kind: type[_T], data: Mapping[str, Any], name: str, within: str = "") -> tuple[_T, ...]:
        """All tables ``name``."""
        entries = data.get(name, [])
        if not isinstance(entries, list):
            raise IotraceError(
                f"{within}{name} in '{self.name}' is not a list of sections",
                hint=f"write [[{name}]], in two pairs of brackets",
            )
        return tuple(
            self.one(kind, entry, f"{within}{name} {number}", f"[{name}]")
            for number, entry in enumerate(entries, start=1)
        )

    def one(self, kind: type[_T], entry: object, where: str, heading: str) -> _T:
        """One table. Raises `IotraceError` for what it lacks, and for what means nothing."""
        if not isinstance(entry, dict):
            raise IotraceError(
                f"{where} in '{self.name}' is not a section", hint=f"write [{heading}] and its keys below it"
            )
        known = fields(kind)  # type: ignore[arg-type]
        names = {one.name.removesuffix("s") if "sections" in one.metadata else one.name: one for one in known}
        self.refuse_unknown(entry, set(names), where)
        values = {}
        for name, one in names.items():
            if "sections" in one.metadata:
                values[one.name] = self.tables(one.metadata["sections"], entry, name, f"{where}: ")
            elif name in entry and "section" in one.metadata:
                values[one.name] = self.one(one.metadata["section"], entry[name], f"{where}: {name}", name)
            elif name in entry:
                values[one.name] = self.checked(one.metadata["check"], entry[name], f"{where}: {name}")
            elif one.default is MISSING:
                raise IotraceError(f"{where} in '{self.name}' has no {name}", hint=self.hint)
        return kind(**values)

    def checked(self, check: Check, value: object, where: str) -> Any:  # noqa: ANN401 - what the check makes
        """The value of a key."""
        try:
            return check(value)
        except ValueError as problem:
            raise IotraceError(
                f"{where} in '{self.name}' is {_told(value)}", hint=f"it takes {problem}"
            ) from problem

    def refuse_unknown(self, entry: Mapping[str, Any], known: set[str], where: str) -> None:
        """Raise `IotraceError` for a key that is not among ``known``."""
        for name in entry:
            if name not in known:
                raise IotraceError(
                    f"'{self.name}' has a key {f'{where}: ' if where else ''}{shortened(name)}, which is not a known "
                    "key",
                    hint=f"{where or 'it'} takes {', '.join(sorted(known))}",
                )

    def parse(self, toml: str) -> dict[str, Any]:
        """The file's text as data."""
        try:
            return toml_data(toml)
        except ValueError as problem:
            raise IotraceError(f"'{self.name}' is not TOML: {problem}", hint=self.hint) from problem


def toml_data(toml: str) -> dict[str, Any]:
    """The text of a TOML file as data. Raises ``ValueError`` in a few words.

    For a dotted key ``tomllib`` takes memory by the square of its parts: keys of many are refused unread.
    """
    if _KEY_OF_MANY_PARTS.search(_TEXTS_AND_REMARKS.sub("x", toml)):
        raise ValueError(f"it has a key of more than {_KEY_PARTS_MAX} parts")
    try:
        return tomllib.loads(toml)
    except RecursionError as problem:
        raise ValueError("its values are nested too deeply") from problem
    except ValueError as problem:
        raise ValueError(shortened(str(problem), 200)) from problem


def _told(value: object) -> str:
    """A value that a key has, and should not, however large it is."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    try:
        return shortened(repr(value))
    except ValueError:
        return "a number of thousands of digits"


def toml_text(text: str) -> str:
    """``text`` as a TOML string, in quotation marks, whatever it holds; half a character becomes its mark."""
    return '"' + "".join(_toml_character(char) for char in text) + '"'


def _toml_character(char: str) -> str:
    if char in {'"', "\\"}:
        return f"\\{char}"
    if "\ud800" <= char <= "\udfff":
        return "\N{REPLACEMENT CHARACTER}"
    return char if char.isprintable() else f"\\U{ord(char):08X}"


def read_text(path: Path, *, what: str, hint: str) -> str:
    """The text of the file at ``path``, which is a ``what``. Raises `IotraceError`."""
    try:
        data = read_plain(path, _BYTES_MAX)
        if len(data) > _BYTES_MAX:
            raise IotraceError(f"'{path}' is over 1 MiB, no {what}", hint=hint)
        return data.decode("utf-8")
    except OSError as problem:
        raise IotraceError(f"cannot read '{path}': {problem.strerror}", hint=hint) from problem
    except UnicodeDecodeError as problem:
        raise IotraceError(f"'{path}' is not UTF-8 text", hint="save it as UTF-8") from problem
