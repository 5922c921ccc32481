"""Recordings as a failing disk, a careless program or an attacker leaves them.

`damages` names every damage that is done here to a whole recording, a sweep or an unfinished recording, and how.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Damage = Callable[[Path], None]

INT64 = (-(1 << 63), (1 << 63) - 1)
DEEP = json.loads("[" * 200 + "]" * 200)
JSON_VALUES = {
    "nothing": None,
    "a negative number": -1,
    "a great number": 1 << 70,
    "text": "\x1b[31m9e99",
    "a list": [],
    "an object": {},
    "a number that is none": float("nan"),
    "a fraction": 0.5,
    "depth": DEEP,
}


def damages(whole: Path) -> Iterator[tuple[str, Damage]]:
    """Each damage by name, as what makes it of a copy of ``whole``."""
    for path in sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file()):
        for word, change in (BYTES | ENTRIES).items():
            yield f"{path} {word}", lambda copy, path=path, change=change: change(copy / path)
        if path.suffix == ".parquet":
            for name, change in _of_a_table(whole / path):
                yield f"{path} {name}", lambda copy, path=path, change=change: change(copy / path)
        if path.suffix == ".json":
            for name, change in _of_json(whole / path):
                yield f"{path} {name}", lambda copy, path=path, change=change: change(copy / path)


def _bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _flipped(data: bytes, start: int, count: int) -> bytes:
    piece = bytes(byte ^ 0x55 for byte in data[start : start + count])
    return data[:start] + piece + data[start + count :]


def _sprinkled(data: bytes) -> bytes:
    chance, made = random.Random(len(data)), bytearray(data)
    for _ in range(20 if made else 0):
        made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made)


BYTES: dict[str, Damage] = {
    "is empty": _bytes(lambda _: b""),
    "is cut in half": _bytes(lambda data: data[: len(data) // 2]),
    "is cut by a byte": _bytes(lambda data: data[:-1]),
    "is zeros": _bytes(lambda data: bytes(len(data))),
    "has zeros in its second half": _bytes(lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2)),
    "has zeros at its start": _bytes(lambda data: bytes(min(512, len(data))) + data[512:]),
    "is damaged in the middle": _bytes(lambda data: _flipped(data, len(data) // 2, 64)),
    "is damaged before its end": _bytes(lambda data: _flipped(data, max(0, len(data) - 200), 100)),
    "is damaged here and there": _bytes(_sprinkled),
    "is text": _bytes(lambda _: b"not what you think\n" * 100),
    "has more after its end": _bytes(lambda data: data + data[:1000]),
}  # fmt: skip


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _as_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


ENTRIES: dict[str, Damage] = {
    "is missing": Path.unlink,
    "is a folder": _as_folder,
    "is a link to itself": _as_link_to_itself,
}


def _of_a_table(path: Path) -> Iterator[tuple[str, Damage]]:
    table = pq.read_table(path)

    def rewritten(made: pa.Table) -> Damage:
        return lambda path: pq.write_table(made, path)

    yield "has no rows", rewritten(table.slice(0, 0))
    yield "has every row twice", rewritten(pa.concat_tables([table, table]))
    yield "has no columns", rewritten(table.select([]))
    yield "is another table", rewritten(pa.table({"a": [1, 2], "b": ["x", None]}))
    for at, name in enumerate(table.column_names):
        for word, column in _columns(table.column(name)).items():
            made = (
                table.remove_column(at)
                if column is None
                else table.set_column(at, pa.field(name, column.type), column)
            )
            yield f"{name} {word}", rewritten(made)


def _columns(column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray | None]:
    """What may stand for a column; None for nothing."""
    rows = len(column)
    made: dict[str, Any] = {
        "is missing": None,
        "is null": pa.nulls(rows, column.type),
        "is text": pa.array(["\x1b[31mtext"] * rows),
        "is nested": pa.array([[{"a": 1}]] * rows),
        "is of extremes": pa.array([INT64[row % 2] for row in range(rows)], pa.int64()),
        "is of numbers that are none": pa.array(
            [(float("nan"), float("inf"), -1e308)[row % 3] for row in range(rows)]
        ),
        "is binary": pa.array([b"\xff\xfe\x00"] * rows, pa.binary()),
    }
    if pa.types.is_integer(column.type):
        bits = column.type.bit_width - (not str(column.type).startswith("u"))
        made["is as great as it can be"] = pa.array([(1 << bits) - 1] * rows, column.type)
        made["is all the same"] = pa.array([0] * rows, column.type)
    return made


def _of_json(path: Path) -> Iterator[tuple[str, Damage]]:
    whole = json.loads(path.read_text("utf-8"))

    def rewritten(made: Any) -> Damage:
        return lambda path: path.write_text(json.dumps(made), "utf-8") and None

    for word, value in JSON_VALUES.items():
        yield f"is {word}", rewritten(value)
    for keys in _places(whole):
        place = ".".join(map(str, keys))
        yield f"lacks {place}", rewritten(_changed(whole, keys, lambda holder, key: holder.pop(key)))
        for word, value in JSON_VALUES.items():
            yield (
                f"has {word} for {place}",
                rewritten(
                    _changed(whole, keys, lambda holder, key, value=value: holder.__setitem__(key, value))
                ),
            )


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to each value; of a list only to its first."""
    inside = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, below in inside:
        yield (*above, key)
        yield from _places(below, (*above, key))


def _changed(whole: Any, keys: tuple[Any, ...], change: Callable[[Any, Any], object]) -> Any:
    made = json.loads(json.dumps(whole))
    holder = made
    for key in keys[:-1]:
        holder = holder[key]
    change(holder, keys[-1])
    return made


def copy_of(whole: Path, to: Path, damage: Damage) -> Path:
    """A copy of ``whole``, damaged."""
    shutil.copytree(whole, to)
    damage(to)
    return to
