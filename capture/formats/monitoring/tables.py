"""Tables of metrics as consoles, portals and command lines of clouds give them, and what their values are of: disks.

Three forms, in text with commas, semicolons or tabs, or set in columns with blanks (``-o table``):

- wide: a column of times and one for each metric, with any number of lines above that say what a column is (a label,
  an identifier, a statistic, a period);
- long: a line for each value, with columns for the time, the metric's name, one for each statistic, and others that
  name the disk;
- the lines of ``aws cloudwatch get-metric-data --output text``.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from iotrace.capture.counters.names import Meaning
from iotrace.capture.formats.counters_trace import Reading, meaning, plain, real
from iotrace.capture.formats.text_blocks import text_encoding
from iotrace.schemas import IotraceError
from iotrace.schemas.units import SECOND_NS

_LAYER: Final = "array"
_BYTES_MAX: Final = 128 << 20
_HEAD_LINES: Final = 40
_RULE: Final = re.compile(r"-{3,}(?: +-{2,})+")
_MOMENT: Final = re.compile(r'\s*"?\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[T ,]+\d{1,2}:\d\d')
_TIMES: Final = frozenset(
    {"timestamp", "time", "datetime", "date", "timeutc", "timestamputc", "timegenerated"}
)
_NAMES: Final = frozenset({"name", "metric", "metricname", "label"})
_STATISTICS: Final = {
    "average": "average", "avg": "average", "mean": "average", "sum": "total", "total": "total",
    "minimum": "minimum", "min": "minimum", "maximum": "maximum", "max": "maximum",
}  # fmt: skip
_SAID: Final = re.compile(rf"\b({'|'.join(_STATISTICS)})\b", re.IGNORECASE)
_PERIOD_MAX_S: Final = 10_000_000


def of_array(metric: str, factor: float = 1.0) -> Meaning:
    """What a cloud's metric of a disk is that has a common name; ``factor`` brings it to that one's unit."""
    return meaning(metric, _LAYER, factor)


def untold(unit: str) -> Meaning:
    """What one is that has none."""
    return plain(unit, _LAYER)


@dataclass(slots=True)
class MetricSeries:
    """Values of one column, or of one name in a long table."""

    words: str
    """All that stands above them or beside them: metric, disk, statistic."""
    statistic: str | None
    """average, total, minimum or maximum; None where nothing tells it."""
    period_ns: int = 0
    """0 where it is not told."""
    points: list[tuple[int, float]] = field(default_factory=list)

    def step_ns(self) -> int:
        """The period: as told, else the shortest time between two values. Puts them in order of time."""
        self.points.sort()
        steps = [later - at_ns for (at_ns, _), (later, _) in pairwise(self.points) if later > at_ns]
        return self.period_ns or min(steps, default=0)


def is_table(head: bytes, metric: re.Pattern[str]) -> bool:
    """Whether a text that begins with ``head`` is such a table with a metric that ``metric`` knows."""
    text = head[:65536].decode(text_encoding(head), "replace").lstrip("\ufeff")
    if not metric.search(text) or text.lstrip().startswith(("{", "[", "<")) or "PDH-" in text[:200]:
        return False
    lines = text.splitlines()[:_HEAD_LINES]
    return any(line.startswith("METRICDATARESULTS\t") for line in lines) or any(
        _MOMENT.match(cell) for line in lines if len(cells := _split(line)) > 1 for cell in cells[:3]
    )


def series_in(reading: Reading) -> list[MetricSeries]:
    """All series of the table; those that tell no period have the shortest step of all.

    Raises `IotraceError` naming a file that is too big.
    """
    found = _series_in(reading)
    steps = [step for series in found if (step := series.step_ns())]
    for series in found:
        series.period_ns = series.period_ns or min(steps, default=0)
    return found


def _series_in(reading: Reading) -> list[MetricSeries]:
    if reading.path.stat().st_size > _BYTES_MAX:
        raise IotraceError(f"'{reading.name}' is over {_BYTES_MAX >> 20} MiB", hint="export a shorter time")
    lines = _lines(reading)
    if any(line.startswith("METRICDATARESULTS\t") for line in lines[:_HEAD_LINES]):
        return list(_answers(lines, reading))
    rows = _rows(lines)
    reading.times.learn((cell for row in rows for cell in row[:3] if _MOMENT.match(cell)), reading.name)
    for place, row in enumerate(rows[:_HEAD_LINES]):
        plain_cells = [_plain(cell) for cell in row]
        has_values = any(cell in _STATISTICS or cell == "value" for cell in plain_cells)
        if _TIMES & {*plain_cells} and _NAMES & {*plain_cells} and has_values:
            return _long(row, rows[place + 1 :], reading)
    return _wide(rows, reading)


def _wide(rows: Sequence[Sequence[str]], reading: Reading) -> list[MetricSeries]:
    first = next((place for place, row in enumerate(rows) if row and _MOMENT.match(row[0])), len(rows))
    body = rows[first:]
    width = max((len(row) for row in body), default=0)
    found = [_column([*rows[:first]], place, width) for place in range(1, width)]
    for row in body:
        at_ns = reading.times.utc_ns(row[0]) if row else None
        if at_ns is None:
            reading.left_out += bool(row)
            continue
        for series, cell in zip(found, row[1:], strict=False):
            _add(series, at_ns, cell, reading)
    return [series for series in found if series.points]


def _column(heads: Sequence[Sequence[str]], place: int, width: int) -> MetricSeries:
    """What the lines above say of one column: a line with fewer cells is about all of them."""
    words: list[str] = []
    statistic: str | None = None
    period_ns = 0
    for row in heads:
        name = _plain(row[0]) if row else ""
        cells = [row[place]] if len(row) == width else list(row[1:] or row)
        told = " ".join(cell.strip() for cell in cells if cell.strip())
        if name in {"statistic", "stat", "aggregation"}:
            statistic = _STATISTICS.get(_plain(told), statistic)
        elif name == "period" and told.isdecimal() and 0 < int(told) < _PERIOD_MAX_S:
            period_ns = int(told) * SECOND_NS
        elif name != "unit":
            words.append(told)
    text = " ".join(dict.fromkeys(words))
    return MetricSeries(text, statistic or _said(text), period_ns)


def _long(header: Sequence[str], rows: Sequence[Sequence[str]], reading: Reading) -> list[MetricSeries]:
    names = [_plain(cell) for cell in header]
    time = next(place for place, name in enumerate(names) if name in _TIMES)
    stated = {place: _STATISTICS[name] for place, name in enumerate(names) if name in _STATISTICS}
    value = names.index("value") if "value" in names else None
    statistic = next(
        (place for place, name in enumerate(names) if name in {"statistic", "stat", "aggregation"}), None
    )
    no_words = {time, value, *stated}
    others = [
        place
        for place, name in enumerate(names)
        if place not in no_words and name not in {"unit", "period", "samplecount", "count"}
    ]
    found: dict[tuple[str, str | None], MetricSeries] = {}
    for row in rows:
        at_ns = reading.times.utc_ns(row[time]) if len(row) == len(names) else None
        if at_ns is None:
            reading.left_out += any(row) and not (len(row) > time and _plain(row[time]) in {"", names[time]})
            continue
        words = " ".join(row[place].strip() for place in others if row[place].strip())
        cells = {told: row[place] for place, told in stated.items()}
        if value is not None:
            told = _STATISTICS.get(_plain(row[statistic])) if statistic is not None else _said(words)
            cells |= {told: row[value]} if told else {"": row[value]}
        for told, cell in cells.items():
            key = (words, told or None)
            series = found.get(key) or found.setdefault(key, MetricSeries(words, told or None))
            _add(series, at_ns, cell, reading)
    return [series for series in found.values() if series.points]


def _answers(lines: Sequence[str], reading: Reading) -> Iterator[MetricSeries]:
    """``get-metric-data --output text``: a line that names a series, then its times, then its values."""
    series: MetricSeries | None = None
    moments: list[str] = []
    values: list[str] = []

    def whole() -> Iterator[MetricSeries]:
        if series is not None:
            for moment, cell in zip(moments, values, strict=False):
                at_ns = reading.times.utc_ns(moment)
                if at_ns is None:
                    reading.left_out += 1
                else:
                    _add(series, at_ns, cell, reading)
            if series.points:
                yield series

    for line in lines:
        kind, _, rest = line.partition("\t")
        if kind == "METRICDATARESULTS":
            yield from whole()
            words = rest.replace("\t", " ")
            series, moments, values = MetricSeries(words, _said(words)), [], []
        elif kind == "TIMESTAMPS":
            moments += rest.split("\t")
        elif kind == "VALUES":
            values += rest.split("\t")
    yield from whole()


def _add(series: MetricSeries, at_ns: int, cell: str, reading: Reading) -> None:
    text = cell.strip()
    if not text or text.lower() in {"-", "null", "none", "nan"}:
        return
    number = real(text.replace(",", ".") if re.fullmatch(r"-?\d+,\d+", text) else text)
    if number is None:
        reading.left_out += 1
    else:
        series.points.append((at_ns, number))


def _said(words: str) -> str | None:
    found = _SAID.search(words)
    return _STATISTICS[found[1].lower()] if found else None


def _lines(reading: Reading) -> list[str]:
    data = reading.path.read_bytes()
    text = data.decode(text_encoding(data), "replace").lstrip("\ufeff")
    whole, _, rest = text.rpartition("\n")
    reading.cut = bool(rest.strip("\0\x1a \t\r"))
    return [line.rstrip("\r\0\x1a") for line in whole.split("\n")]


def _split(line: str) -> list[str]:
    """Cells of one line, whatever stands between them."""
    separator = max(",;\t", key=line.count)
    if not line.count(separator):
        return re.split(r" {2,}", line.strip())
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return line.split(separator)


def _rows(lines: Sequence[str]) -> list[list[str]]:
    rule = next(
        (place for place, line in enumerate(lines[:_HEAD_LINES]) if _RULE.fullmatch(line.strip())), None
    )
    if rule:
        starts = [found.start() for found in re.finditer(r"-+", lines[rule])]
        ends = [*starts[1:], None]
        kept = [*lines[rule - 1 : rule], *lines[rule + 1 :]]
        return [
            [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            for line in kept
            if line
        ]
    moments = [
        line for line in lines[: 4 * _HEAD_LINES] if any(_MOMENT.match(cell) for cell in _split(line)[:3])
    ]
    separator = max(",;\t", key=lambda one: sum(line.count(one) for line in moments))
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return [[cell.strip(' "') for cell in line.split(separator)] for line in lines if line.strip()]


def _plain(cell: str) -> str:
    return "".join(character for character in cell.lower() if character.isalnum())
