"""Answers for programs: the figures themselves, unrounded, and the JSON Schema that says what to expect.

An answer is a dataclass. Its fields are what a program gets, and so are those properties that are marked `figure`.
"""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

INLINE: Final = "its figures stand in its place"
"""``Annotated[Knee, INLINE]``: what programs get of the field is as if it were the answer's own."""
HIDDEN: Final = "not for programs"
"""``Annotated[…, HIDDEN]``: a field that programs do not get."""
MaybeNaN = Annotated[float, "NaN where it is not known"]
"""A float that may be NaN, which JSON does not have: null for programs."""


class figure(property):  # noqa: N801 - a decorator, as property is
    """A property that programs get beside the fields of its dataclass."""


class ProgramAnswer:
    """What a command with ``--json`` answers: a dataclass whose field ``schema`` has a name and a version."""


def plain(value: Any) -> Any:  # noqa: ANN401
    """``value`` as JSON takes it: dataclasses as dictionaries of their figures, tuples as lists, paths as text."""
    if isinstance(value, float):  # first: the series of a long recording hold a million
        return value if value == value else None  # noqa: PLR0124 - NaN
    if is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for name, one in _figures(type(value)):
            figures = plain(getattr(value, name))
            found |= figures if _is(one, INLINE) else {name: figures}
        return found
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value.value if isinstance(value, Enum) else str(value) if isinstance(value, Path) else value


@cache
def _figures(kind: type) -> Sequence[tuple[str, "Field[Any] | None"]]:
    """Names of what programs get of a dataclass, with the fields among them."""
    own = [(one.name, one) for one in fields(kind) if not _is(one, HIDDEN)]
    return [*own, *((name, None) for name, one in vars(kind).items() if isinstance(one, figure))]


def _is(one: "Field[Any] | None", mark: str) -> bool:
    return one is not None and mark in getattr(one.type, "__metadata__", ())


def json_schema_text() -> str:
    """The JSON Schema of every answer, as ``schemas/answers.schema.json`` has it: a line for each definition."""
    schema = any_answer().json_schema()
    definitions = ",\n".join(
        f"  {_line(name)}: {_line(one)}" for name, one in sorted(schema.pop("$defs").items())
    )
    rest = "".join(f" {_line(name)}: {_line(one)},\n" for name, one in sorted(schema.items()))
    return f'{{\n{rest} "$defs": {{\n{definitions}\n }}\n}}\n'


def any_answer(config: "ConfigDict | None" = None) -> "TypeAdapter[Any]":
    """What reads any command's answer, told apart by ``schema``; ``config`` is pydantic's."""
    from pydantic import Field as Described  # noqa: PLC0415
    from pydantic import TypeAdapter  # noqa: PLC0415 - only for schemas and tests

    kinds: list[Any] = ProgramAnswer.__subclasses__()
    every: Any = reduce(or_, map(typed_dictionary, kinds))
    return TypeAdapter(Annotated[every, Described(discriminator="schema")], config=config)


def _line(value: Any) -> str:  # noqa: ANN401
    return json.dumps(value, ensure_ascii=False)


@cache
def typed_dictionary(kind: type) -> Any:  # noqa: ANN401 - a TypedDict
    """What `plain` makes of the dataclass ``kind`` as a TypedDict, with its docstrings as words for pydantic."""
    from typing_extensions import TypedDict  # noqa: PLC0415 - pydantic's own, and only for schemas and tests

    found = TypedDict(kind.__name__, dict(_members(kind)))  # type: ignore[misc]  # noqa: UP013 - built, not written
    found.__doc__ = inspect.getdoc(kind)
    return found


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    from pydantic import Field as Described  # noqa: PLC0415

    hints, words = get_type_hints(kind, include_extras=True), _docstrings(kind)
    for name, one in _figures(kind):
        if one is None:
            getter = vars(kind)[name].fget
            hint, said = get_type_hints(getter, include_extras=True)["return"], inspect.getdoc(getter)
        else:
            hint, said = hints[name], words.get(name)
        if _is(one, INLINE):
            yield from _members(get_args(hint)[0])
        else:
            yield name, Annotated[_in_json(hint), Described(description=said)]


def _in_json(hint: Any) -> Any:  # noqa: ANN401
    """The type that JSON has for a Python type: dictionaries for dataclasses, text for paths."""
    if hint == MaybeNaN:
        return float | None
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return typed_dictionary(hint)
    if hint is Path:
        return str
    if origin in {Union, UnionType}:
        return reduce(or_, (_in_json(one) for one in arguments))
    if origin in {list, tuple, dict} or (isinstance(origin, type) and issubclass(origin, Sequence | Mapping)):
        inner = tuple(one if one is ... else _in_json(one) for one in arguments)
        return {Sequence: list, Mapping: dict}.get(origin, origin)[inner]
    return hint


@cache
def _docstrings(kind: type) -> dict[str, str]:
    """The text below each field of a class, by its name."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body[0]
    found = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for one, below in pairwise(statements):
        if (
            isinstance(one, ast.AnnAssign)
            and isinstance(one.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[one.target.id] = inspect.cleandoc(str(below.value.value))
    return found
