"""The report as a workbook: figures as numbers with their unit in the heading, and charts that Excel draws itself.

Words from traces are written as text: none becomes a formula, a link or a number.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any, Final

from iotrace.analyze.describe.description import Flow
from iotrace.analyze.units import is_dated
from iotrace.schemas.text import shortened

from .charts_time import COURSE
from .facts import Origin, RecordingFacts, ReportFacts
from .parts import Chart, Section, plain

_CHARACTERS_MAX: Final = 2000
_OPTIONS: Final = {
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    "in_memory": True,
    "nan_inf_to_errors": True,
}
_NUMBER: Final = "[<1]0.000;[<1000]#,##0.00;#,##0"
"""What is shown of a figure; the cell holds all of it."""
_QUANTILES: Final = ("p50", "p95", "p99")
Cell = str | float | int | datetime | None


def write_workbook(path: Path, facts: ReportFacts, sections: Sequence[Section]) -> None:
    """Write a sheet for each kind of fact that there is, Summary first and Provenance last."""
    import xlsxwriter  # noqa: PLC0415 - an extra, which only this needs

    book = xlsxwriter.Workbook(str(path), _OPTIONS)
    writer = _Writer(book)
    _summary(writer, facts)
    _recordings(writer, facts.recordings)
    _latencies(writer, facts.recordings)
    _files(writer, facts.recordings)
    _sizes(writer, facts.recordings)
    _steps(writer, facts)
    _windows(writer, facts.recordings)
    _over_time(writer, sections)
    _provenance(writer, facts.origins)
    book.close()


class _Writer:
    """A workbook with sheets of one shape: a head that stays in sight, then rows."""

    def __init__(self, book: Any) -> None:  # noqa: ANN401 - XlsxWriter is untyped here
        self.book = book
        self.bold = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        self.wrapped = book.add_format({"text_wrap": True, "valign": "top"})
        self.number = book.add_format({"num_format": _NUMBER})
        self.count = book.add_format({"num_format": "#,##0"})
        self.moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss", "align": "left"})
        self.large = book.add_format({"bold": True, "font_size": 14})

    def sheet(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Any:  # noqa: ANN401
        """A sheet of ``rows`` below ``columns``."""
        sheet = self.book.add_worksheet(name)
        for place, column in enumerate(columns):
            sheet.write_string(0, place, column, self.bold)
        for number, row in enumerate(rows, 1):
            for place, value in enumerate(row):
                self.write(sheet, number, place, value)
        sheet.freeze_panes(1, 1)
        sheet.autofilter(0, 0, max(len(rows), 1), len(columns) - 1)
        sheet.set_column(0, 0, 26)
        sheet.set_column(1, len(columns) - 1, 15)
        for place, column in enumerate(columns):
            if column.endswith("(UTC)"):
                sheet.set_column(place, place, 20)
        return sheet

    def write(self, sheet: Any, row: int, column: int, value: Cell, look: Any = None) -> None:  # noqa: ANN401
        """A number as a number, a time as a time, text as text."""
        if isinstance(value, str):
            sheet.write_string(row, column, shortened(plain(value), _CHARACTERS_MAX), look)
        elif isinstance(value, datetime):
            sheet.write_datetime(row, column, value, self.moment)
        elif value is not None:
            sheet.write_number(row, column, value, self.count if isinstance(value, int) else self.number)


def _summary(writer: _Writer, facts: ReportFacts) -> None:
    sheet = writer.book.add_worksheet("Summary")
    sheet.set_column(0, 0, 14)
    sheet.set_column(1, 1, 110)
    writer.write(sheet, 0, 0, facts.title, writer.large)
    rows = [("written", f"{facts.created_utc} by iotrace")]
    rows += [("answer", facts.answer)] if facts.answer else []
    rows += [] if facts.needs else [("verdict", facts.verdict)]
    rows += [("", one) for one in facts.also]
    rows += [
        (one.level, f"{one.title} in {one.name}: {one.detail}. {one.hint} ({one.rule})")
        for one in facts.findings
    ]
    for number, (name, text) in enumerate(rows, 2):
        writer.write(sheet, number, 0, name, writer.bold)
        writer.write(sheet, number, 1, text, writer.wrapped)


def _recordings(writer: _Writer, recordings: Sequence[RecordingFacts]) -> None:
    rows = []
    for one in recordings:
        described, total = one.description, one.description.total
        rows.append(
            (
                described.title,
                described.kind,
                _moment(described.start_utc_ns),
                described.window_ns / 1e9,
                *(
                    (None,) * 6
                    if total is None
                    else (
                        total.ios_per_s,
                        total.bytes_per_s / 1e6,
                        total.read_share_of_ios,
                        total.queue_length_mean,
                        _mean_ms(total.read, described.headline_metric),
                        _mean_ms(total.write, described.headline_metric),
                    )
                ),
            )
        )
    columns = ("recording", "kind", "from (UTC)", "length (s)", "IOPS", "MB/s", "read share", "mean in flight",
               "mean read (ms)", "mean write (ms)")  # fmt: skip
    if rows:
        writer.sheet("Recordings", columns, rows)


def _moment(utc_ns: int) -> datetime | None:
    """A time as Excel has them, which know no zone; None where the sources named no date."""
    if not is_dated(utc_ns):
        return None
    return datetime.fromtimestamp(utc_ns // 1_000_000_000, UTC).replace(tzinfo=None)


def _latencies(writer: _Writer, recordings: Sequence[RecordingFacts]) -> None:
    rows = [
        (
            one.description.title,
            entry.layer,
            entry.op,
            entry.metric,
            entry.latency.io_count,
            _ms(entry.latency.mean_ns),
            *(_ms(entry.latency.quantiles_ns[name]) for name in _QUANTILES),
            _ms(entry.latency.max_ns),
        )
        for one in recordings
        for entry in one.description.layer_latencies
    ]
    columns = ("recording", "layer", "operation", "latency", "I/Os", "mean (ms)",
               *(f"{name} (ms)" for name in _QUANTILES), "longest (ms)")  # fmt: skip
    if rows:
        writer.sheet("Latency by layer", columns, rows)


def _provenance(writer: _Writer, origins: Sequence[Origin]) -> None:
    rows = [
        (
            one.name,
            one.title,
            one.kind,
            one.host,
            one.recorded_utc,
            one.duration_ns / 1e9,
            one.uuid,
            "; ".join([one.quality, *one.reasons]),
            one.replay,
            ", ".join(f"{name} {version}" for name, version in one.tools.items()),
            "; ".join(f"{source['name']} ({source['sha256'] or 'not hashed'})" for source in one.sources),
        )
        for one in origins
    ]
    columns = ("recording", "title", "kind", "host", "from", "length (s)", "identity", "recorded", "replay",
               "written by", "made from (SHA-256)")  # fmt: skip
    if rows:
        writer.sheet("Provenance", columns, rows)


def _mean_ms(flow: Flow, metric: str) -> float | None:
    latency = flow.latency.get(metric)
    return None if latency is None or latency.mean_ns is None else latency.mean_ns / 1e6


def _files(writer: _Writer, recordings: Sequence[RecordingFacts]) -> None:
    rows = [
        (
            one.description.title,
            file["path"],
            file["role"],
            file["read_count"],
            file["write_count"],
            file["read_bytes"],
            file["written_bytes"],
            _ms(file["read_latency_mean_ns"]),
            _ms(file["write_latency_mean_ns"]),
        )
        for one in recordings
        for file in one.description.top_files
    ]
    columns = ("recording", "file", "role", "reads", "writes", "read (bytes)", "written (bytes)", "mean read (ms)",
               "mean write (ms)")  # fmt: skip
    if rows:
        writer.sheet("Files", columns, rows)


def _sizes(writer: _Writer, recordings: Sequence[RecordingFacts]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for one in recordings:
        counts: dict[tuple[str, int], dict[str, int]] = {}
        for entry in one.description.sizes:
            by_op = counts.setdefault((entry.role, entry.size_bytes), {})
            by_op[entry.op] = by_op.get(entry.op, 0) + entry.io_count
        rows += [
            (one.description.title, role, size, by_op.get("read", 0), by_op.get("write", 0))
            for (role, size), by_op in sorted(counts.items())
        ]
    if not rows:
        return
    sheet = writer.sheet("Sizes", ("recording", "role", "size (bytes)", "reads", "writes"), rows)
    chart = writer.book.add_chart({"type": "column"})
    last = sum(1 for row in rows if row[0] == rows[0][0])
    for column in (3, 4):
        chart.add_series(
            {
                "name": ["Sizes", 0, column],
                "categories": ["Sizes", 1, 1, last, 2],
                "values": ["Sizes", 1, column, last, column],
            }
        )
    chart.set_title({"name": "I/Os by role and size"})
    chart.set_y_axis({"name": "I/Os"})
    sheet.insert_chart(1, 6, chart, {"x_scale": 1.6, "y_scale": 1.4})


def _steps(writer: _Writer, facts: ReportFacts) -> None:
    rows: list[tuple[Cell, ...]] = []
    for sweep in facts.sweeps:
        for step in sweep.knee.steps:
            # No storage answers in no time: a model that states none does.
            latencies = (_ms(step.response_ns[name] or None) for name in _QUANTILES)
            rows.append(
                (
                    sweep.title,
                    step.load_text,
                    "yes" if step.is_judged else "; ".join(step.left_out_because),
                    "yes" if step.is_saturated else "no",
                    step.offered_iops,
                    step.achieved_iops,
                    step.achieved_mb_per_s,
                    step.in_flight_mean,
                    *latencies,
                    step.io_count,
                )
            )
    if not rows:
        return
    columns = ("sweep", "load", "judged", "saturated", "offered IOPS", "carried IOPS", "carried MB/s",
               "mean in flight", "p50 (ms)", "p95 (ms)", "p99 (ms)", "I/Os")  # fmt: skip
    sheet = writer.sheet("Steps", columns, rows)
    last = sum(1 for row in rows if row[0] == rows[0][0])
    chart = writer.book.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
    for column in (8, 9, 10):
        if any(row[column] is not None for row in rows[:last]):
            chart.add_series(
                {
                    "name": ["Steps", 0, column],
                    "categories": ["Steps", 1, 4, last, 4],
                    "values": ["Steps", 1, column, last, column],
                }
            )
    chart.set_title({"name": "Response time over load"})
    chart.set_x_axis({"name": "offered IOPS"})
    chart.set_y_axis({"name": "ms", "log_base": 10})
    if chart.series:  # none where a tool gave no latencies
        sheet.insert_chart(len(rows) + 2, 0, chart, {"x_scale": 1.8, "y_scale": 1.4})


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


def _windows(writer: _Writer, recordings: Sequence[RecordingFacts]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for one in recordings:
        found = one.slow_times
        for window in [] if found is None else [*found.windows, *found.drifts]:
            start_ns = 0 if found is None else found.start_ns
            rows.append(
                (
                    one.description.title,
                    window.number,
                    _moment(one.description.start_utc_ns + window.start_ns),
                    (window.start_ns - start_ns) / 1e9,
                    (window.end_ns - window.start_ns) / 1e9,
                    window.layer,
                    window.cause,
                    window.factor,
                    *window.factor_interval,
                    window.lost_ns / 1e9,
                    window.headline,
                )
            )
    columns = ("recording", "window", "at (UTC)", "from (s)", "for (s)", "layer", "driven by", "times slower",
               "at least", "at most", "time lost (s)", "what happened")  # fmt: skip
    if rows:
        writer.sheet("Slow windows", columns, rows)


def _over_time(writer: _Writer, sections: Sequence[Section]) -> None:
    number = 0
    for section in sections:
        for chart in section.charts:
            if chart.name == COURSE:
                number += 1
                _course(writer, f"Over time {number}" if number > 1 else "Over time", section.heading, chart)


def _course(writer: _Writer, name: str, heading: str, chart: Chart) -> None:
    """The lines of a chart, step by step, and two of them drawn."""
    lines = [trace for trace in chart.figure["data"] if trace["type"] == "scatter" and "x0" in trace]
    steps = len(lines[0]["y"])
    unit_s = 1e-3 if chart.figure["layout"]["xaxis"].get("type") == "date" else 1.0
    step_s = lines[0]["dx"] * unit_s
    columns = ["seconds since the start"]
    columns += [
        f"{trace['name']} (ms)" if trace["name"] in _LATENCIES else unescape(trace["name"]) for trace in lines
    ]
    rows = [[place * step_s, *(trace["y"][place] for trace in lines)] for place in range(steps)]
    sheet = writer.sheet(name, columns, rows)
    drawn = writer.book.add_chart({"type": "line"})
    for place, trace in enumerate(lines, 1):
        if trace["name"] in (*_LATENCIES, "in flight"):
            drawn.add_series(
                {
                    "name": [name, 0, place],
                    "categories": [name, 1, 0, steps, 0],
                    "values": [name, 1, place, steps, place],
                    "y2_axis": trace["name"] == "in flight",
                }
            )
    drawn.set_title({"name": _title(heading)})
    drawn.set_x_axis({"name": columns[0]})
    drawn.set_y_axis({"name": "ms", "log_base": 10})
    drawn.set_y2_axis({"name": "in flight"})
    if drawn.series:
        sheet.insert_chart(1, len(columns) + 1, drawn, {"x_scale": 2.2, "y_scale": 1.6})


def _title(heading: str) -> str:
    """A heading as a chart's title. XlsxWriter takes a title with an exclamation mark in it for a reference."""
    return shortened(plain(heading).replace("!", "\N{FULLWIDTH EXCLAMATION MARK}"), 100)


_LATENCIES: Final = ("median", "p95", "longest")
