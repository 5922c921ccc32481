"""Answers to planted recordings as they were last looked at, a line for each figure: `tests/fixtures/answers`.

They do not say what is right: the planted truth does (`planted_truth`). They notice that an answer changed, by however
little, in code whose limits and conditions no other test could hold one by one. Who means a change writes them anew
(`make answers`) and reads the difference.
"""

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from inline_snapshot import external_file

from iotrace.analyze.present import plain

FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "answers"
_LONG: Final = 3
"""Lists of more are kept as their count, their sum, and their sum weighted by place, a line for each column."""
_DIGITS: Final = 5
_RANDOM: Final = {"uuid", "path"}


def hold(name: str, answer: Any) -> None:
    """Assert that ``answer``, a dataclass or what JSON takes, is what is kept as ``name``."""
    now = "".join(f"{line}\n" for line in lines(plain(answer)))
    assert now == external_file(FOLDER / f"{name}.txt", format=".txt")


def hold_each(name: str, answers: Mapping[str, Any]) -> None:
    """The same of many answers to what was drawn by chance: a line for each, with the checksum of its lines."""
    now = "".join(f"{key}: {_checksum(one)}\n" for key, one in answers.items())
    assert now == external_file(FOLDER / f"{name}.txt", format=".txt")


def _checksum(answer: Any) -> str:
    found = list(lines(plain(answer)))
    return f"{len(found)} lines, {zlib.crc32(repr(found).encode()):08x}"


def lines(value: Any, at: str = "") -> Iterator[str]:
    """``value`` as lines of a place in it and what stands there."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in _RANDOM or one is None:
                continue
            yield from lines(one, f"{at}.{key}" if at else str(key))
    elif isinstance(value, list | tuple) and len(value) > _LONG:
        yield from _digest(value, at)
    elif isinstance(value, list | tuple):
        if not value:
            yield f"{at}: none"
        for index, one in enumerate(value):
            yield from lines(one, f"{at}.{index}")
    else:
        yield f"{at}: {_text(value)}"


def _digest(values: list[Any], at: str) -> Iterator[str]:
    if all(isinstance(one, Mapping) for one in values):
        for key in dict.fromkeys(key for one in values for key in one if key not in _RANDOM):
            yield from _digest([one.get(key) for one in values], f"{at}.*.{key}")
        return
    if all(isinstance(one, list | tuple) and one for one in values):
        for index in range(min(map(len, values))):
            yield from _digest([one[index] for one in values], f"{at}.*.{index}")
        return
    if all(one is None or isinstance(one, Mapping) for one in values) and any(values):
        # One of them may be missing, and all columns with it.
        yield from _digest([one or {} for one in values], at)
        return
    numbers = [(index, one) for index, one in enumerate(values, 1) if isinstance(one, int | float)]
    others = [one for one in values if one is not None and not isinstance(one, int | float)]
    said = [f"{len(values)} entries"]
    if numbers:
        total, weighted = sum(one for _, one in numbers), sum(index * one for index, one in numbers)
        said += [f"{len(numbers)} numbers", f"sum {_text(total)}", f"weighted {_text(weighted)}"]
    if others:
        # Numbers in a list in a list have digits that only one kind of processor comes to.
        said += [f"words {zlib.crc32(repr([_rounded(one) for one in others]).encode()):08x}"]
    if numbers or others:
        yield f"{at}: {', '.join(said)}"


def _rounded(value: Any) -> Any:
    return list(lines(value)) if isinstance(value, list | tuple | Mapping) else value


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return repr(value)
    return f"{value:.{_DIGITS}g}"
