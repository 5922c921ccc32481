"""Records of a binary counter log: the catalog of what is logged, the names of titles, and the raw values of a sample.

Three forms of raw values are read: single counters (``PDH_RAW_COUNTER`` of pdh.h), all instances of a wildcard counter,
and whole objects (``PERF_DATA_BLOCK`` of winperf.h). Lengths are checked against the bytes there are before anything is
taken; what does not fit ends that part of the sample and is counted.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from iotrace.capture.counters.names import Meaning, meaning
from iotrace.capture.counters.samples import RULES, Rule, Second, numbered
from iotrace.capture.counters.series import Integers, Series

from .blg_objects import ObjectBlocks, RawValues

_SINGLE, _WILDCARD, _OBJECT = 0x01034C42, 0x02034C42, 0x05034C42
_SAMPLE_TAG: Final = 0x00034C42
_ENTRY_BYTES: Final = 52
_INSTANCE_WILDCARD, _WHOLE_OBJECT = 1, 0x10
_ITEM: Final = np.dtype([("name", "<u4"), ("zero", "<u4"), ("first", "<i8"), ("second", "<i8")])
_SINGLE_BYTES: Final = 48
_SINGLES: Final = np.dtype(
    [("tag", "<u4"), ("length", "<u4"), ("status", "<u4"), ("zero", "<u4"), ("local", "<i8"), ("first", "<i8"),
     ("second", "<i8"), ("count", "<u4"), ("end", "<u4")]
)  # fmt: skip
_ZONES_MAX_100NS: Final = 15 * 3600 * 10**7


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the catalog. ``machine`` is without leading backslashes."""

    kind: int
    counter_type: int
    hertz: int
    machine: str
    object_name: str
    instance: str | None
    counter: str


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring single counters of the catalog, taken from a sample in one go."""

    numbers: Integers
    rules: Integers
    hertz: Integers
    is_cooked: npt.NDArray[np.bool_]
    has_utc: npt.NDArray[np.bool_]


@dataclass(slots=True)
class RecordCounts:
    """What was met in the records and could not be used."""

    damaged_samples: int = 0
    invalid_values: int = 0
    unknown_types: Counter[int] = field(default_factory=Counter)


def read_catalog(data: bytes) -> list[Entry]:
    """Entries of a catalog record, as far as their lengths make sense."""
    entries = []
    at = 8
    while at + _ENTRY_BYTES <= len(data):
        length, kind, _, counter_type, hertz = struct.unpack_from("<IIIIq", data, at)
        if length < _ENTRY_BYTES or at + length > len(data):
            break
        machine, object_, instance, parent = struct.unpack_from("<4i", data, at + 28)
        (index, counter) = struct.unpack_from("<Ii", data, at + 44)
        area = data[at + _ENTRY_BYTES : at + length]
        name = _string(area, instance) or None
        if name and (parent_name := _string(area, parent)):
            name = f"{parent_name}/{name}"
        if name and 0 < index < 0xFFFFFFFF:
            name = f"{name}#{index}"
        entries.append(
            Entry(
                kind,
                counter_type,
                hertz,
                _string(area, machine).lstrip("\\"),
                _string(area, object_),
                name,
                _string(area, counter),
            )
        )
        at += length
    return entries


def read_names(data: bytes) -> tuple[str, dict[int, str]]:
    """Machine and the names of title numbers, in the language of the machine."""
    machine, *words = data[: len(data) // 2 * 2].decode("utf-16-le", "replace").split("\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    return machine.lstrip("\\"), {
        int(number): name for number, name in pairs if number.isdecimal() and len(number) < 10
    }


def _string(area: bytes, offset: int) -> str:
    if not 0 <= offset < len(area):
        return ""
    text = area[offset : offset + (len(area) - offset) // 2 * 2].decode("utf-16-le", "replace")
    return text.partition("\0")[0]


class SampleReader:
    """Takes samples apart by the catalog; numbers their series as they are met."""

    def __init__(self, series: Series, log_name: str) -> None:
        self.entries: list[Entry] = []
        self.counts = RecordCounts()
        self._series, self._log_name = series, log_name
        self._objects = ObjectBlocks(series, self.counts.unknown_types, log_name)
        self._numbers: dict[tuple[str, str, str | None, str], int] = {}
        self._wildcards: dict[tuple[int, bytes], Integers] = {}
        self._runs: dict[int, _Run] = {}

    def use_catalog(self, entries: list[Entry]) -> None:
        """Read samples by this catalog from now on; series that it shares with an earlier one go on."""
        self.entries = entries
        self._wildcards.clear()
        self._runs = {start: self._run(entries[start:end]) for start, end in _single_runs(entries)}
        for entry in entries:
            if entry.kind in {0, _INSTANCE_WILDCARD} and entry.counter_type not in RULES:
                self.counts.unknown_types[entry.counter_type] += 1

    def use_names(self, machine: str, names: dict[int, str]) -> None:
        """Learn what the title numbers of a machine are called."""
        self._objects.use_names(machine, names)

    def read(self, data: bytes, local_100ns: int) -> RawValues | None:
        """Raw values of one sample; None if it is no sample or damaged from its start."""
        if len(data) < 8 or struct.unpack_from("<I", data, 0)[0] != _SAMPLE_TAG:
            self.counts.damaged_samples += 1
            return None
        values = RawValues()
        at, number = 8, 0
        while number < len(self.entries):
            run = self._runs.get(number)
            if run is not None and self._read_run(run, data, at, values, local_100ns):
                number += len(run.numbers)
                at += _SINGLE_BYTES * len(run.numbers)
                continue
            tag, length = struct.unpack_from("<II", data, at) if at + 8 <= len(data) else (0, 0)
            block = data[at : at + length]
            is_whole = length >= 8 and len(block) == length
            if not is_whole or not self._read_block(number, tag, block, values, local_100ns):
                self.counts.damaged_samples += 1
                break
            number += 1
            at += length
        return values

    def _run(self, entries: list[Entry]) -> _Run:
        rules = [RULES.get(entry.counter_type, (Rule.NONE, Second.NONE)) for entry in entries]
        return _Run(
            np.array([self._number(entry, entry.instance) for entry in entries], np.int64),
            np.array([rule for rule, _ in rules], np.int64),
            np.array([entry.hertz for entry in entries], np.int64),
            np.array([rule != Rule.NONE for rule, _ in rules], np.bool_),
            np.array([second == Second.CLOCK_100NS for _, second in rules], np.bool_),
        )

    def _read_run(self, run: _Run, data: bytes, at: int, values: RawValues, local_100ns: int) -> bool:
        """Whether all counters of the run are there, in the form that single ones have."""
        if at + _SINGLE_BYTES * len(run.numbers) > len(data):
            return False
        records = np.frombuffer(data, _SINGLES, len(run.numbers), at)
        if (records["tag"] != _SINGLE).any() or (records["length"] != _SINGLE_BYTES).any():
            return False
        is_valid = records["status"] <= 1  # PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA are 0 and 1
        self.counts.invalid_values += int(np.count_nonzero(run.is_cooked & ~is_valid))
        kept = run.is_cooked & is_valid
        first, second = records["first"][kept], records["second"][kept]
        values.add(run.numbers[kept], run.rules[kept], first, second, run.hertz[kept])
        clocks = second[run.has_utc[kept]]
        if values.utc_100ns is None and len(clocks) and abs(int(clocks[0]) - local_100ns) <= _ZONES_MAX_100NS:
            values.utc_100ns = int(clocks[0])
        return True

    def _read_block(self, number: int, tag: int, block: bytes, values: RawValues, local_100ns: int) -> bool:
        """Whether the block is of the form its tag tells."""
        entry = self.entries[number]
        if tag == _SINGLE and len(block) >= 44:
            return self._read_single(entry, block, values, local_100ns)
        if tag == _WILDCARD and len(block) >= 32:
            return self._read_wildcard(number, entry, block, values, local_100ns)
        if tag == _OBJECT:
            return self._objects.read(entry.machine, block[8:], values)
        return False

    def _read_single(self, entry: Entry, block: bytes, values: RawValues, local_100ns: int) -> bool:
        if entry.counter_type not in RULES:
            return True
        (status,) = struct.unpack_from("<I", block, 8)
        first, second = struct.unpack_from("<qq", block, 24)
        if status > 1:  # PDH_CSTATUS_VALID_DATA and PDH_CSTATUS_NEW_DATA are 0 and 1
            self.counts.invalid_values += 1
            return True
        number = self._number(entry, entry.instance)
        self._add(entry, np.array([number]), np.array([first]), np.array([second]), values, local_100ns)
        return True

    def _read_wildcard(
        self, number: int, entry: Entry, block: bytes, values: RawValues, local_100ns: int
    ) -> bool:
        (count,) = struct.unpack_from("<I", block, 12)
        names_at = 32 + 24 * count
        if names_at > len(block):
            return False
        if entry.counter_type not in RULES or not count:
            return True
        items = np.frombuffer(block, _ITEM, count, 32)
        key = (number, items["name"].tobytes() + block[names_at:])
        numbers = self._wildcards.get(key)
        if numbers is None:
            names = numbered(_string(block, 8 + int(offset)) for offset in items["name"])
            numbers = np.array([self._number(entry, name) for name in names], np.int64)
            if len(self._wildcards) >= 256:  # instances that come and go without end
                self._wildcards.clear()
            self._wildcards[key] = numbers
        self._add(entry, numbers, items["first"].copy(), items["second"].copy(), values, local_100ns)
        return True

    def _add(
        self,
        entry: Entry,
        numbers: Integers,
        first: Integers,
        second: Integers,
        values: RawValues,
        local_100ns: int,
    ) -> None:
        rule, clock = RULES[entry.counter_type]
        size = len(numbers)
        values.add(numbers, np.full(size, int(rule)), first, second, np.full(size, entry.hertz, np.int64))
        if values.utc_100ns is None and clock == Second.CLOCK_100NS:
            clock_100ns = int(second[0])
            if abs(clock_100ns - local_100ns) <= _ZONES_MAX_100NS:
                values.utc_100ns = clock_100ns

    def _number(self, entry: Entry, instance: str | None) -> int:
        key = (entry.machine, entry.object_name, instance, entry.counter)
        number = self._numbers.get(key)
        if number is None:
            sense: Meaning = meaning(entry.object_name, entry.counter)
            number = self._series.add(
                entry.machine or self._log_name, entry.object_name, instance, entry.counter, sense
            )
            self._numbers[key] = number
        return number


def _single_runs(entries: list[Entry]) -> Iterator[tuple[int, int]]:
    """Begin and end of each stretch of single counters."""
    start = None
    for number, entry in enumerate(entries):
        if entry.kind == 0 and start is None:
            start = number
        elif entry.kind != 0 and start is not None:
            yield start, number
            start = None
    if start is not None:
        yield start, len(entries)
