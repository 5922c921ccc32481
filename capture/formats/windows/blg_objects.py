"""Whole objects in a counter log: every counter of every instance, as winperf.h lays a PERF_DATA_BLOCK out.

Titles of objects and counters are numbers. Those of the disk objects are the same in every language, so disk counters
get their meaning from the number even where their names are not English.
"""

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.capture.counters.names import DISK_COUNTER_TITLES, DISK_OBJECT_TITLES, Meaning, meaning
from iotrace.capture.counters.samples import RULES, Rule, Second, is_base, numbered
from iotrace.capture.counters.series import Integers, Series

_SIGNATURE: Final = "PERF".encode("utf-16-le")
_DEFINITION_BYTES: Final = 40
_DEFINITIONS_MAX: Final = 4096
_INSTANCE_BYTES: Final = 24
_NO_UNIQUE_ID: Final = -1


@dataclass(slots=True)
class RawValues:
    """Raw values of one sample: arrays of one length, and the sample's 100-ns UTC clock where it holds one."""

    numbers: list[Integers] = field(default_factory=list)
    rules: list[Integers] = field(default_factory=list)
    first: list[Integers] = field(default_factory=list)
    second: list[Integers] = field(default_factory=list)
    hertz: list[Integers] = field(default_factory=list)
    utc_100ns: int | None = None
    instances: dict[int, list[str]] = field(default_factory=dict)
    """Object title → names of its instances: those of other objects name them as parents."""

    def add(
        self, numbers: Integers, rules: Integers, first: Integers, second: Integers, hertz: Integers
    ) -> None:
        """Append values; arrays of one length each."""
        self.numbers.append(numbers)
        self.rules.append(rules)
        self.first.append(first)
        self.second.append(second)
        self.hertz.append(hertz)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Counters of an object that are kept: where their values stand in a counter block, and what they mean."""

    number: int
    titles: list[int]
    rules: Integers
    seconds: Integers
    offsets: Integers
    is_long: npt.NDArray[np.bool_]
    base_offsets: Integers
    base_is_long: npt.NDArray[np.bool_]
    reach_bytes: int


@dataclass(frozen=True, slots=True)
class _Clocks:
    perf: int
    perf_hertz: int
    utc_100ns: int
    object_: int
    object_hertz: int


class ObjectBlocks:
    """Reads blocks and numbers their series; layouts and instances met before are found again by their bytes."""

    def __init__(self, series: Series, unknown_types: Counter[int], log_name: str) -> None:
        self._series, self._unknown_types, self._log_name = series, unknown_types, log_name
        self._names: dict[str, dict[int, str]] = {}
        self._layouts: dict[bytes, _Layout] = {}
        self._layout_count = 0
        self._first_numbers: dict[tuple[str, int, int, str | None], int] = {}

    def use_names(self, machine: str, names: dict[int, str]) -> None:
        """Learn names of title numbers."""
        self._names.setdefault(machine.lower(), {}).update(names)

    def read(self, machine: str, data: bytes, values: RawValues) -> bool:
        """Add the raw values of all objects in one block; whether it was whole."""
        if len(data) < 88 or data[:8] != _SIGNATURE:
            return False
        total, header, count = struct.unpack_from("<III", data, 20)
        perf, perf_hertz, utc_100ns = struct.unpack_from("<qqq", data, 56)
        if total > len(data) or header < 88:
            return False
        if values.utc_100ns is None and utc_100ns > 0:
            values.utc_100ns = utc_100ns
        at = header
        for _ in range(min(count, 1024)):
            if at + 64 > total:
                return False
            (length,) = struct.unpack_from("<I", data, at)
            if length < 64 or at + length > total:
                return False
            object_clock, object_hertz = struct.unpack_from("<qq", data, at + 48)
            clocks = _Clocks(perf, perf_hertz, utc_100ns, object_clock, object_hertz)
            if not self._read_object(machine, data[at : at + length], clocks, values.instances, values):
                return False
            at += length
        return True

    def _read_object(
        self, machine: str, data: bytes, clocks: _Clocks, known: dict[int, list[str]], values: RawValues
    ) -> bool:
        definition_bytes, header_bytes, title = struct.unpack_from("<III", data, 4)
        counters, _, instance_count, code_page = struct.unpack_from("<IiiI", data, 32)
        if not 64 <= header_bytes <= definition_bytes <= len(data) or counters > _DEFINITIONS_MAX:
            return False
        layout = self._layout(title, counters, data[header_bytes:definition_bytes])
        if layout is None:
            return False
        names: list[str | None]
        blocks: list[int] = []
        whole = True
        if instance_count < 0:
            names, blocks = [None], [definition_bytes]
        else:
            found, blocks, whole = _instances(data, definition_bytes, instance_count, code_page, known)
            known[title] = found
            names = list(numbered(found))
        if not layout.titles:
            return whole
        fitting = [number for number, at in enumerate(blocks) if at + layout.reach_bytes <= len(data)]
        if fitting:
            firsts = np.array(
                [self._first_number(machine, title, layout, names[number]) for number in fitting]
            )
            self._add(layout, data, firsts, np.array([blocks[number] for number in fitting]), clocks, values)
        return whole and len(fitting) == len(blocks)

    def _add(
        self,
        layout: _Layout,
        data: bytes,
        firsts: Integers,
        blocks: Integers,
        clocks: _Clocks,
        values: RawValues,
    ) -> None:
        rows, columns = len(blocks), len(layout.titles)
        numbers = firsts[:, None] + np.arange(columns)
        first = _gather(data, blocks[:, None] + layout.offsets, layout.is_long)
        base = _gather(data, blocks[:, None] + layout.base_offsets, layout.base_is_long)
        clock = np.array([0, 0, clocks.perf, clocks.utc_100ns, clocks.object_], np.int64)[layout.seconds]
        second = np.where(layout.seconds == Second.BASE, base, clock)
        hertz = np.where(layout.rules == Rule.ELAPSED, clocks.object_hertz, clocks.perf_hertz)
        shape = (rows, columns)
        values.add(
            numbers.ravel(),
            np.broadcast_to(layout.rules, shape).ravel(),
            first.ravel(),
            second.ravel(),
            np.broadcast_to(hertz, shape).ravel(),
        )

    def _layout(self, title: int, counters: int, definitions: bytes) -> _Layout | None:
        key = title.to_bytes(4, "little") + definitions
        layout = self._layouts.get(key)
        if layout is not None:
            return layout
        fields = []
        at = 0
        for _ in range(counters):
            if at + _DEFINITION_BYTES > len(definitions):
                return None
            (length,) = struct.unpack_from("<I", definitions, at)
            if length < _DEFINITION_BYTES or at + length > len(definitions):
                return None
            (name,) = struct.unpack_from("<I", definitions, at + 4)
            kind, size, offset = struct.unpack_from("<III", definitions, at + 28)
            fields.append((name, kind, size, offset))
            at += length
        kept = []
        for position, (name, kind, size, offset) in enumerate(fields):
            if is_base(kind):
                continue
            rule, second = RULES.get(kind, (Rule.NONE, Second.NONE))
            following = fields[position + 1] if position + 1 < len(fields) else None
            has_base = following is not None and is_base(following[1])
            if rule == Rule.NONE or size not in {4, 8} or (second == Second.BASE and not has_base):
                self._unknown_types[kind] += 1
                continue
            base_size, base_offset = (
                (following[2], following[3]) if has_base and following else (size, offset)
            )
            kept.append((name, rule, second, offset, size == 8, base_offset, base_size == 8))
        columns: list[tuple[int, ...]] = [
            tuple(int(part) for part in row) for row in zip(*kept, strict=True)
        ] or [()] * 7
        titles, rules, seconds, offsets, is_long, base_offsets, base_is_long = (
            np.array(column, np.int64) for column in columns
        )
        reach = [max(row[3] + (8 if row[4] else 4), row[5] + (8 if row[6] else 4)) for row in kept]
        self._layout_count += 1
        if len(self._layouts) >= 4096:  # no machine has so many; damaged logs may
            self._layouts.clear()
        layout = _Layout(
            self._layout_count,
            titles.tolist(),
            rules,
            seconds,
            offsets,
            is_long.astype(bool),
            base_offsets,
            base_is_long.astype(bool),
            max(reach, default=0),
        )
        self._layouts[key] = layout
        return layout

    def _first_number(self, machine: str, title: int, layout: _Layout, instance: str | None) -> int:
        """Number of the first counter of an instance; its others follow."""
        key = (machine, title, layout.number, instance)
        number = self._first_numbers.get(key)
        if number is None:
            names = self._names.get(machine.lower()) or next(iter(self._names.values()), {})
            object_name = names.get(title) or DISK_OBJECT_TITLES.get(title) or f"object {title}"
            source = machine or self._log_name
            number = len(self._series)
            for counter_title in layout.titles:
                counter = (
                    names.get(counter_title)
                    or DISK_COUNTER_TITLES.get(counter_title)
                    or f"counter {counter_title}"
                )
                self._series.add(
                    source, object_name, instance, counter, _sense(title, counter_title, object_name, counter)
                )
            self._first_numbers[key] = number
        return number


def _sense(object_title: int, counter_title: int, object_name: str, counter: str) -> Meaning:
    disk = DISK_OBJECT_TITLES.get(object_title)
    if disk and counter_title in DISK_COUNTER_TITLES:
        return meaning(disk, DISK_COUNTER_TITLES[counter_title])
    return meaning(object_name, counter)


def _gather(data: bytes, at: Integers, is_long: npt.NDArray[np.bool_]) -> Integers:
    """Integers of 8 or, unsigned, 4 bytes at the positions ``at``; all within ``data``."""
    raw = np.frombuffer(data + bytes(8), np.uint8)
    wide = raw[at[..., None] + np.arange(8)].view("<i8")[..., 0]
    result: Integers = np.where(is_long, wide, wide & 0xFFFFFFFF)
    return result


def _instances(
    data: bytes, at: int, count: int, code_page: int, known: dict[int, list[str]]
) -> tuple[list[str], list[int], bool]:
    """Names of the instances, where their counter blocks begin, and whether all of them were there."""
    names: list[str] = []
    blocks: list[int] = []
    for _ in range(count):
        if at + _INSTANCE_BYTES > len(data):
            return names, blocks, False
        length, parent_title, parent, unique, name_at, name_bytes = struct.unpack_from("<IIIiII", data, at)
        block = at + length
        if length < _INSTANCE_BYTES or block + 4 > len(data) or name_at + name_bytes > length:
            return names, blocks, False
        (block_bytes,) = struct.unpack_from("<I", data, block)
        if block_bytes < 4 or block + block_bytes > len(data):
            return names, blocks, False
        if unique != _NO_UNIQUE_ID:
            name = str(unique)
        else:
            name = _decoded(data[at + name_at : at + name_at + name_bytes], code_page)
        parents = known.get(parent_title, []) if parent_title else []
        names.append(f"{parents[parent]}/{name}" if parent < len(parents) else name)
        blocks.append(block)
        at = block + block_bytes
    return names, blocks, True


def _decoded(name: bytes, code_page: int) -> str:
    if code_page:
        try:
            return name.decode(f"cp{code_page}", "replace").partition("\0")[0]
        except LookupError:
            return name.decode("cp1252", "replace").partition("\0")[0]
    return name[: len(name) // 2 * 2].decode("utf-16-le", "replace").partition("\0")[0]
