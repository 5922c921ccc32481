"""The page of `size`: what was tried, and the demand against each limit of the candidate that is named, over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from iotrace.analyze.present import Answer
from iotrace.analyze.units import format_count
from iotrace.schemas import Recording
from iotrace.schemas.arrays import Floats
from iotrace.schemas.replacing import new_file, sealed_text

from .facts import ReportFacts, origin
from .page import render
from .parts import Chart, Section, Table
from .plot import SERIES, Row, figure, line, numbers
from .tables import page_tables

_SLOTS_MAX: Final = 600
_ROWS_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Demand:
    """What was asked of one limit, in ``unit`` (IOPS, MB/s), and the rate that it gives."""

    limit: str
    unit: str
    rate: float
    per_second: Floats
    """The mean of each ``step_s``."""
    step_s: int = 1
    """1 up to an hour or so, more for longer recordings."""

    @property
    def seconds_over(self) -> int:
        """Time in which more was asked for than the limit gives."""
        return int((np.asarray(self.per_second) > self.rate).sum()) * self.step_s


def write_sizing(
    output: Path,
    recording: Recording,
    answer: Answer,
    demands: Sequence[Demand],
    candidate: str,
    *,
    carries: bool,
    overwrite: bool = False,
) -> None:
    """Write the page to ``output``; ``demands`` are those of ``candidate``. Raises `IotraceError` where it is taken."""
    said = [sentence.text for sentence in answer.opening]
    charts = [chart] if demands and (chart := demand_chart(demands, candidate)) is not None else []
    section = Section(
        "Which disks carry it",
        said[0],
        points=said[1:],
        notes=[note for one in answer.sections for note in one.notes],
        lead=page_tables(answer.sections),
        charts=charts,
    )
    facts = ReportFacts(
        title=f"Disks for {recording.manifest.title}",
        created_utc=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        verdict=said[0],
        also=said[1:],
        is_enough=carries,
        origins=[origin(recording)],
    )
    with new_file(output, overwrite=overwrite) as partial:
        partial.write_text(sealed_text(render(facts, [section])), "utf-8", newline="\n")


def demand_chart(demands: Sequence[Demand], candidate: str) -> Chart | None:
    """A row for I/Os and one for bytes: the demand, at its highest second in each step, and the limits as lines."""
    rows, table = [], []
    for unit in dict.fromkeys(one.unit for one in demands):
        mine = [one for one in demands if one.unit == unit and len(one.per_second)]
        if not mine:
            continue
        at_s, most = _steps(max(mine, key=lambda one: float(np.max(one.per_second))))
        traces = [line("read", f"{unit} asked for", x=numbers(at_s.tolist()), y=numbers(most.tolist()))]
        for style, one in zip(SERIES[1:], mine, strict=False):
            ends = [float(at_s[0]), float(at_s[-1])]
            traces.append(line(style, one.limit, x=ends, y=numbers([one.rate, one.rate])))
        rows.append(Row(unit, 200, traces))
        table += [
            (
                one.limit,
                unit,
                format_count(one.rate),
                format_count(float(np.max(one.per_second))),
                format_count(one.seconds_over),
            )
            for one in mine
        ]
    if not rows:
        return None
    over = max(one.seconds_over for one in demands)
    fullest = "second" if demands[0].step_s == 1 else f"{demands[0].step_s} seconds"
    return Chart(
        "demand",
        f"Demand against the limits of {candidate}",
        f"What was asked for in the fullest {fullest} of each step, and what each limit gives for ever: in {over:,} "
        f"seconds more was asked for than some limit gives.",
        figure(rows, {"title": {"text": "seconds"}}),
        Table(
            "Demand against each limit",
            ("limit", "counts", "gives", "asked for at most", "seconds above it"),
            tuple(table[:_ROWS_MAX]),
            2,
        ),
    )


def _steps(demand: Demand) -> tuple[Floats, Floats]:
    """Middles in seconds, and the highest rate, of as many steps as a chart shows."""
    width = -(-len(demand.per_second) // _SLOTS_MAX)
    padded: Floats = np.pad(demand.per_second, (0, -len(demand.per_second) % width))
    most: Floats = padded.reshape(-1, width).max(axis=1)
    middles: Floats = (np.arange(len(most), dtype=np.float64) + 0.5) * width * demand.step_s
    return middles, most
