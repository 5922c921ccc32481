"""The answer of `characterize`: where it saturates, and a table a series, as users of SQLIO and DiskSpd expect it."""

from collections.abc import Iterator, Sequence
from typing import Final

from iotrace.analyze.present import Answer, Cell, Number, Section, Sentence, Table
from iotrace.analyze.present.answer import columns, section
from iotrace.analyze.present.trust import disqualified, findings_section, trust_of_findings
from iotrace.analyze.units import DASH, format_figure, format_share
from iotrace.analyze.validity import Finding
from iotrace.replay.characterize import kind_text, size_text

from .characterize_run import CellResult, SeriesResult, common_ceilings

_LAW_ERROR_NOTED: Final = 0.05
_TOLD: Final = 3
"""Series whose answer stands in the opening; each has its own below."""


def characterize_answer(target: str, results: Sequence[SeriesResult], findings: Sequence[Finding]) -> Answer:
    """The whole answer on ``target``: what each series came to, and what they have in common."""
    measured = [one for one in results if one.cells]
    said = [Sentence(words, "answer") for one in measured for words in _sentences(one)[:1]]
    is_told = len(said) <= _TOLD and not disqualified({target: findings})
    causes = [Sentence(cause.sentence) for cause in common_ceilings(results)]
    contrasted = [Sentence(words) for words in contrasts(results)]
    return Answer(
        opening=[
            *disqualified({target: findings}),
            *(said if is_told else []),
            *trust_of_findings(findings),
        ],
        sections=[
            *_saturation(measured),
            *(
                [Section("What they have in common", sentences=[*causes, *contrasted])]
                if causes or contrasted
                else []
            ),
            *(part for one in measured for part in _series(one, is_told=is_told)),
            *findings_section(target, None, findings),
        ],
    )


def _saturation(measured: Sequence[SeriesResult]) -> Iterator[Section]:
    judged = [(one, found) for one in measured if (found := one.saturation()) is not None]
    rows = [
        (
            one.series.name,
            DASH if found.outstanding is None else f"{found.outstanding.value:.3g}",
            DASH
            if found.outstanding is None
            else f"{found.outstanding.low:.3g}..{found.outstanding.high:.3g}",
            Number(None if found.iops is None else found.iops.value),
            found.state.replace("_", " "),
        )
        for one, found in judged
    ]
    if len(rows) > 1:
        heads = columns("series", "outstanding", "95 %", "IOPS", "state")
        yield from section("Saturation", heads, rows)


def contrasts(results: Sequence[SeriesResult]) -> list[str]:
    """What more outstanding I/Os would gain where a log, which has one at a time, cannot have them."""
    by_size = [one for one in results if one.series.axis == "size" and one.cells]
    single = next((one for one in by_size if one.series.cells[0].outstanding == 1), None)
    sentences = []
    for other in by_size:
        count = other.series.cells[0].outstanding
        if (
            single is None
            or other is single
            or kind_text(other.series.cells[0]) != kind_text(single.series.cells[0])
        ):
            continue
        moved = {one.cell.size_bytes: one.step.achieved_mb_per_s for one in other.cells if one.step.is_judged}
        pairs = [
            (one.cell.size_bytes, one.step.achieved_mb_per_s, moved[one.cell.size_bytes])
            for one in single.cells
            if one.step.is_judged and moved.get(one.cell.size_bytes) and one.step.achieved_mb_per_s
        ]
        if pairs:
            (small, one_small, many_small), (large, one_large, many_large) = pairs[0], pairs[-1]
            gains = (
                f"{many_small / one_small:.3g} times the MB/s of 1 at {size_text(small)} and "
                f"{many_large / one_large:.3g} times at {size_text(large)}"
            )
            sentences.append(
                f"{count} outstanding move {gains}: what only a queue gets, and one log never has."
            )
    return sentences


def _series(result: SeriesResult, *, is_told: bool) -> Iterator[Section]:
    """The table of a series, and what it came to, as far as that ``is_told`` above only in part."""
    by_size = result.series.axis == "size"
    heads = columns(
        "size" if by_size else "outstanding",
        "flushes/s" if by_size and result.series.cells[0].op == "write" else "IOPS",
        "± % (95 %)", "MB/s", "avg ms", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "CPU µs/IO",
        text=0,
    )  # fmt: skip
    yield Section(
        result.series.name,
        Table(heads, [_row(cell, by_size=by_size) for cell in result.cells]),
    )
    said = [Sentence(words) for words in _sentences(result)[1 if is_told else 0 :]]
    said += [Sentence(f"- {note}") for note in _notes(result)]
    if said:
        yield Section("", sentences=said)


def _sentences(result: SeriesResult) -> list[str]:
    knee, size = result.knee(), result.best_size()
    if knee is not None:
        return [knee.sentence, *(cause.sentence for cause in knee.causes)]
    return [size.sentence] if size is not None else []


def _row(one: CellResult, *, by_size: bool) -> list[Cell]:
    step, reach = one.step, one.iops_interval
    return [
        size_text(one.cell.size_bytes) if by_size else str(one.cell.outstanding),
        format_figure(step.achieved_iops),
        DASH if reach is None else format_share((reach[1] - reach[0]) / 2 / max(step.achieved_iops, 1e-9)),
        f"{step.achieved_mb_per_s:,.1f}",
        _ms(step.response_ns_mean),
        *(_ms(step.service_ns[name]) for name in ("p50", "p95", "p99", "p99_9")),
        DASH if one.cpu_ns_per_io is None else f"{one.cpu_ns_per_io / 1e3:.1f}",
    ]


def _notes(result: SeriesResult) -> list[str]:
    notes = list(result.unmeasured)
    for one in result.cells:
        notes += [f"{_where(result, one)}: {note}" for note in one.step.notes]
        off = one.step.in_flight_mean / one.cell.outstanding - 1
        if abs(off) > _LAW_ERROR_NOTED:
            notes.append(
                f"{_where(result, one)}: {one.step.in_flight_mean:.3g} in flight on average, not "
                f"{one.cell.outstanding}"
            )
        error = one.step.littles_law_ratio - 1
        if abs(error) > _LAW_ERROR_NOTED:
            notes.append(
                f"{_where(result, one)}: Little's law is off by {format_share(error, 0, signed=True)}"
            )
    return notes


def _where(result: SeriesResult, one: CellResult) -> str:
    if result.series.axis == "size":
        return size_text(one.cell.size_bytes)
    return f"{one.cell.outstanding} outstanding"


def _ms(value_ns: float | None) -> str:
    if value_ns is None:
        return DASH
    value = value_ns / 1e6
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"
