"""Histograms of VMware's ``vscsiStats``, with ``-c`` and without: sizes, distances, queue, latency of virtual disks.

A bin is named by its upper limit, which belongs to it; the last, without one, repeats the limit before it (with ``-c``)
or says ``>``. Least, most, mean and number of all values stand above the bins: they narrow the outermost bins, and the
mean is exact to the whole number that is printed. Nothing tells a time or since when values are gathered.

Sources: VMware's usage text of vscsiStats, and a printout of ESXi in er0080/vscsiStats-helper (doc/algonquin.csv).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from iotrace.capture.counters.names import Meaning
from iotrace.capture.formats.counters_trace import (
    Bin,
    Counters,
    Reading,
    Sample,
    meaning,
    plain,
    quantile_bounds,
)
from iotrace.capture.formats.text_blocks import TextBlocks, head_lines
from iotrace.schemas.units import SECOND_NS

_HEADING: Final = re.compile(
    r'\s*"?Histogram: (?P<what>[^,]{3,120}?)"?(?:,| for )\s*virtual machine worldGroupID\s*[,:]\s*(?P<world>\d{1,12})'
    r"\s*,\s*virtual disk handleID\s*[,:]\s*(?P<handle>\d{1,20})(?:\s*\((?P<disk>[^)]{1,60})\))?\s*\{?\s*"
)
_FACT: Final = re.compile(r"\s*(?P<name>min|max|mean|count)\s*[,:]\s*(?P<value>-?\d{1,18})\s*")
_CSV: Final = re.compile(r"(?P<count>\d{1,15}),(?P<limit>-?\d{1,15})\s*")
_TEXT: Final = re.compile(r"\s*(?P<count>\d{1,15})\s+\(\s*(?P<sign><=|>)\s*(?P<limit>-?\d{1,15})\s*\)\s*")
_MICROSECOND_NS: Final = 1000.0
_METRICS: Final = {
    "IO lengths of commands": "size_bytes",
    "IO lengths of Read commands": "read_size_bytes",
    "IO lengths of Write commands": "write_size_bytes",
    "latency of IOs in Microseconds (us)": "latency_ns",
    "latency of Read IOs in Microseconds (us)": "read_latency_ns",
    "latency of Write IOs in Microseconds (us)": "write_latency_ns",
}
"""Of these the mean is a common metric, of the layer that the guest sees, as esxtop's guest latency is."""


@dataclass(slots=True)
class _Histogram:
    at_s: int
    what: str
    disk: str
    facts: dict[str, int] = field(default_factory=dict)
    bins: list[tuple[int, int]] = field(default_factory=list)
    """Upper limit, count."""
    is_whole: bool = False
    """Whether the bin without an upper limit was read, which comes last."""

    def add(self, limit: int, count: int, *, is_open: bool) -> None:
        self.is_whole = is_open or (bool(self.bins) and limit == self.bins[-1][0])
        self.bins.append((limit, count))

    def is_sound(self) -> bool:
        limits = [limit for limit, _ in self.bins[:-1]]
        return (
            self.is_whole
            and {"min", "max", "mean", "count"} <= self.facts.keys()
            and all(one < other for one, other in pairwise(limits))
            and self.facts["min"] <= self.facts["mean"] <= self.facts["max"]
        )

    def samples(self) -> Iterator[Sample]:
        """Nothing of a histogram without a value."""
        if not sum(count for _, count in self.bins):
            return
        unit, factor = _unit(self.what)
        name = re.sub(r" ?\(in LBNs\)| in Microseconds \(us\)", "", self.what)
        sense = plain(unit, "block")
        mean = _METRICS.get(self.what)
        yield self._sample(f"{name}: number", self.facts["count"], plain("I/Os", "block"))
        yield self._sample(
            f"{name}: mean", self.facts["mean"] * factor, sense if mean is None else meaning(mean, "block")
        )
        yield self._sample(f"{name}: least", self.facts["min"] * factor, sense)
        yield self._sample(f"{name}: most", self.facts["max"] * factor, sense)
        for quantile, least, most in quantile_bounds(self._bounds()):
            place = f"{name}: p{round(quantile * 100)}"
            yield self._sample(f"{place}, at least", least * factor, sense)
            yield self._sample(f"{place}, at most", most * factor, sense)

    def _bounds(self) -> list[Bin]:
        least, most = self.facts["min"], self.facts["max"]
        bounds, above = [], least
        for place, (limit, count) in enumerate(self.bins):
            upper = most if place == len(self.bins) - 1 else limit
            bounds.append(Bin(max(above, least), max(min(upper, most), least), count))
            above = limit + 1
        return bounds

    def _sample(self, counter: str, value: float, sense: Meaning) -> Sample:
        return Sample(self.at_s * SECOND_NS, 0, self.disk, counter, float(value), sense)


def _unit(what: str) -> tuple[str, float]:
    if "Microseconds" in what:
        return "ns", _MICROSECOND_NS
    if "LBNs" in what:
        return "blocks", 1.0
    return ("bytes" if "lengths" in what else "I/Os"), 1.0


def _recognises(head: bytes, _path: Path) -> bool:
    return any(_HEADING.fullmatch(line) for line in head_lines(head, 20))


def _samples(reading: Reading) -> Iterator[Sample]:
    blocks = TextBlocks(reading.path, reading.name, reading.progress)
    current: _Histogram | None = None
    seen: set[tuple[str, str]] = set()
    at_s, prints = 1, 1
    for block in blocks.blocks():
        for line in block.decode().split("\n"):
            if heading := _HEADING.fullmatch(line):
                yield from _told(current, reading)
                disk = f"{heading['disk'] or heading['handle']} of world group {heading['world']}"
                key = (heading["what"], disk)
                if key in seen:
                    seen, at_s, prints = set(), at_s + 1, prints + 1
                seen.add(key)
                current = _Histogram(at_s, heading["what"], disk)
            elif current is None:
                continue
            elif fact := _FACT.fullmatch(line):
                current.facts[fact["name"]] = int(fact["value"])
            elif found := (_CSV.fullmatch(line) or _TEXT.fullmatch(line)):
                is_open = found.groupdict().get("sign") == ">"
                current.add(int(found["limit"]), int(found["count"]), is_open=is_open)
    reading.cut = blocks.cut_tail
    if current is not None and not current.is_whole:
        reading.cut = True
    else:
        yield from _told(current, reading)
    reading.notes.append(
        "the source tells no time: its values are put on 1970-01-01"
        + (f", one second for each of its {prints} printouts" if prints > 1 else "")
        + ", and are about the time since vscsiStats was started or reset"
    )


def _told(histogram: _Histogram | None, reading: Reading) -> Iterator[Sample]:
    if histogram is None:
        return
    if histogram.is_sound():
        yield from histogram.samples()
    else:
        reading.left_out += 1


FORMAT: Final = Counters(
    "vscsistats",
    "vSCSI disk",
    "vscsiStats, printouts",
    None,
    _samples,
    (
        "quantiles are known by bins that end at up to ten times their start: the least and most possible are given",
        "means are cut to whole units",
    ),
    "run vscsiStats -s while the disk is busy, then vscsiStats -p all -c",
    system="VMware ESXi",
).format(_recognises)
