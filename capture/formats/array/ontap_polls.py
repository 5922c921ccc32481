"""Raw performance counters of NetApp ONTAP, as its management interface answers polls (XML), one file for each poll.

The values are running totals; NetApp's SDK documentation ("APIs in Category: perf") says how two samples are read: of a
counter with the property *rate* the difference is divided by the seconds between them, of one with *average* by the
difference of its base counter. Properties and bases are the array's own, as its counter list gives them for LUNs.
Polls ``NAME1.xml``, ``NAME2.xml``, … of one folder are read together. Times are whole seconds.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.capture.formats.format import Family, Format, Outcome, Progress, naming
from iotrace.schemas import Clock, IotraceError, Quality, counted
from iotrace.schemas.host import Host
from iotrace.schemas.text import format_share
from iotrace.schemas.units import SECOND_NS

_NAME: Final = re.compile(r"(.*?)([0-9]{1,9})\.xml", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\s*([0-9]{1,19})\s*")
_FILE_BYTES_MAX: Final = 256 << 20
_BLOCK_BYTES: Final = 1 << 16
_INSTANCES_MAX: Final = 100_000
_LEAVES: Final = frozenset({"name", "uuid", "value", "timestamp"})
_DEPTH_MAX: Final = 64
_TEXT_CHARACTERS_MAX: Final = 4096
_AT_S_MAX: Final = 1 << 33  # in nanoseconds it still fits


@dataclass(frozen=True, slots=True)
class _Counter:
    counter: str
    unit: str
    metric: str
    scale: float = 1.0
    base: str | None = None
    """Where the property is *average*: what its difference is divided by; else the seconds."""


COUNTERS: Final = {
    "read_ops": _Counter("reads per second", "1/s", "read_iops"),
    "write_ops": _Counter("writes per second", "1/s", "write_iops"),
    "read_data": _Counter("read bytes per second", "bytes/s", "read_bytes_per_second"),
    "write_data": _Counter("write bytes per second", "bytes/s", "write_bytes_per_second"),
    "avg_read_latency": _Counter("mean read latency", "ns", "read_latency_ns", 1000.0, "read_ops"),
    "avg_write_latency": _Counter("mean write latency", "ns", "write_latency_ns", 1000.0, "write_ops"),
}


def _member(name: str) -> tuple[str, int] | None:
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def _recognises(head: bytes, _path: Path) -> bool:
    return b"<instance-data>" in head and b"<counter-data>" in head and b"<results" in head[:512]


@dataclass(frozen=True, slots=True)
class _Poll:
    at_s: int
    totals: dict[tuple[str, str], dict[str, int]]
    """By name and uuid of the instance."""


def _poll(path: Path, name: str) -> _Poll | None:
    """One file; None if it is no whole poll."""
    found = _Elements()
    with naming(name), path.open("rb") as file:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise IotraceError(f"'{name}' is over 256 MiB", hint="it is more than one poll")
        if b"<!" in file.read(4096).replace(b"<!--", b""):
            raise IotraceError(
                f"'{name}' defines a document type of its own", hint="polls of ONTAP have none"
            )
        file.seek(0)
        parser = ET.XMLParser(target=found)  # noqa: S314 - no document type, bounded size, and no tree is built
        try:
            while block := file.read(_BLOCK_BYTES):
                parser.feed(block)
                if len(found.totals) > _INSTANCES_MAX:
                    raise IotraceError(
                        f"'{name}' tells of over {_INSTANCES_MAX:,} instances",
                        hint="that is not a poll of LUNs",
                    )
            parser.close()
        except (ET.ParseError, LookupError, ValueError):  # no XML, or in an encoding that there is not
            return None
    at_s = _number(found.timestamp)
    return None if at_s is None or at_s > _AT_S_MAX else _Poll(at_s, found.totals)


class _Elements:
    """Takes the elements of a poll as they come and keeps what is wanted: a tree of all of them may not fit."""

    def __init__(self) -> None:
        self.timestamp = ""
        self.totals: dict[tuple[str, str], dict[str, int]] = {}
        self._path: list[str] = []
        self._depth = 0
        self._instance: dict[str, str] = {}
        self._counters: dict[str, int] = {}
        self._counter: dict[str, str] = {}
        self._text: list[str] | None = None
        self._text_characters = 0

    def start(self, tag: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth <= _DEPTH_MAX:
            self._path.append(tag)
        if tag == "instance-data":
            self._instance, self._counters = {}, {}
        elif tag == "counter-data":
            self._counter = {}
        self._text = [] if tag in _LEAVES else None
        self._text_characters = 0

    def data(self, text: str) -> None:
        self._text_characters += len(text)
        if self._text is not None and self._text_characters <= _TEXT_CHARACTERS_MAX:
            self._text.append(text)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._depth >= _DEPTH_MAX:
            return
        self._path.pop()
        text, self._text = "".join(self._text or ()), None
        within = self._path[-1] if self._path else ""
        if tag == "timestamp":
            self.timestamp = text
        elif tag == "instance-data":
            if self._counters:
                self.totals[self._instance.get("name", ""), self._instance.get("uuid", "")] = self._counters
        elif tag == "counter-data":
            name, number = self._counter.get("name", ""), _number(self._counter.get("value"))
            if name in COUNTERS and number is not None:
                self._counters[name] = number
        elif tag in _LEAVES and within == "instance-data":
            self._instance.setdefault(tag, text)
        elif tag in _LEAVES and within == "counter-data":
            self._counter.setdefault(tag, text)


def _number(text: str | None) -> int | None:
    """A whole number; None where there is none. Python takes digits for digits that no number is made of."""
    digits = _DIGITS.fullmatch(text or "")
    return int(digits[1]) if digits else None


def _read(paths: Sequence[Path], names: Sequence[str], progress: Progress) -> "OntapTrace":
    return OntapTrace(paths, names, progress)


class OntapTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, paths: Sequence[Path], names: Sequence[str], progress: Progress) -> None:
        self._name, self._progress = names[0], progress
        polls = [_poll(path, name) for path, name in zip(paths, names, strict=True)]
        self._broken = [name for name, poll in zip(names, polls, strict=True) if poll is None]
        self.polls = sorted((poll for poll in polls if poll is not None), key=lambda poll: poll.at_s)
        if not self.polls:
            raise IotraceError(
                f"'{names[0]}' is a poll of ONTAP that is cut off or has no timestamp",
                hint="save the whole answer, with its timestamp at the end",
            )
        self._fell = 0
        self.clock = Clock(self.polls[0].at_s * SECOND_NS, float(SECOND_NS), "ONTAP polls", SECOND_NS)
        self.host = Host()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Counters for each interval between two polls."""
        for number, (before, after) in enumerate(pairwise(self.polls), 1):
            rows = [row for key in after.totals for row in self._rows(key, before, after)]
            self._progress(f"reading {self._name}", number, len(self.polls) - 1)
            if rows:
                yield "counters", pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    def outcome(self) -> Outcome:
        """The window runs from the first poll to the last."""
        end_ns = (self.polls[-1].at_s - self.polls[0].at_s) * SECOND_NS
        return Outcome(0, end_ns, Quality(notes=list(self._notes())), len(self.polls))

    def _rows(self, key: tuple[str, str], before: _Poll, after: _Poll) -> Iterator[dict[str, Any]]:
        earlier, now = before.totals.get(key), after.totals[key]
        seconds = after.at_s - before.at_s
        if earlier is None or seconds <= 0:
            return
        change = {name: now[name] - earlier[name] for name in now if name in earlier}
        if any(value < 0 for value in change.values()):
            self._fell += 1
            return
        for name, value in change.items():
            about = COUNTERS[name]
            over = seconds if about.base is None else change.get(about.base, 0)
            if over:
                yield {
                    "at_ns": (after.at_s - self.polls[0].at_s) * SECOND_NS,
                    "interval_ns": seconds * SECOND_NS,
                    "source": "ONTAP",
                    "object": "LUN",
                    "instance": key[0] or key[1],
                    "counter": about.counter,
                    "value": value * about.scale / over,
                    "unit": about.unit,
                    "layer": "array",
                    "metric": about.metric,
                }

    def _notes(self) -> Iterator[str]:
        if len(self.polls) < 2:
            yield "there is one poll only: differences need two, NAME1.xml and NAME2.xml of one folder"
        else:
            shortest = min(after.at_s - before.at_s for before, after in pairwise(self.polls))
            if shortest > 0:
                yield f"polls are stamped in whole seconds: rates are within {format_share(1 / shortest)}"
        if self._fell:
            times = counted(self._fell, "time")
            yield f"{times} totals of a LUN began again between polls; these intervals are left out"
        for name in self._broken:
            yield f"left out: '{name}' is cut off or has no timestamp"


_SCHEMA: Final = pa.schema(
    [
        ("at_ns", pa.int64()),
        ("interval_ns", pa.int64()),
        ("source", pa.string()),
        ("object", pa.string()),
        ("instance", pa.string()),
        ("counter", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("layer", pa.string()),
        ("metric", pa.string()),
    ]
)


def _inspect(paths: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    polls = _read(paths, names, lambda *_: None).polls
    return {
        "format": "ontap",
        "whole": len(polls) == len(paths),
        "polls": len(polls),
        "instances": len({key for poll in polls for key in poll.totals}),
        "starts_utc_s": polls[0].at_s,
        "ends_utc_s": polls[-1].at_s,
    }


FORMAT: Final = Format(
    "ontap",
    _recognises,
    lambda path, name, progress: _read([path], [name], progress),
    lambda path, name: _inspect([path], [name]),
    Family(_member, _read, _inspect),
    has_ios=False,
)
