"""The answer of `ceiling`: the lowest limit, every other, and where the figures are from."""

from iotrace.analyze.present import Cell, Column, Number, Section, Sentence, Table
from iotrace.analyze.units import DASH, format_bytes

from .against_knee import BesideKnee
from .limits import Ceiling, Limit


def ceiling_sections(found: Ceiling, *, sources_are_detail: bool = False) -> list[Section]:
    """What the hardware can do at most; that nothing limits, where nothing does.

    Where ``sources_are_detail``, only those who ask for everything see where the figures are from.
    """
    heading = f"Ceiling of {found.title}" if found.title else "Ceiling"
    if found.binding is None:
        return [
            Section(heading, sentences=[Sentence("nothing in the description limits anything", "answer")])
        ]
    sources = list(dict.fromkeys(limit.source for limit in found.limits))
    heads = (
        Column("limit", is_text=True), Column("MB/s", "rated"), Column("one way"), Column("this mix"),
        Column("IOPS of", format_bytes(found.size_bytes)), Column("x the lowest"),
        Column("", detail=sources_are_detail),
    )  # fmt: skip
    remarks = list(found.notes)
    if found.one_at_a_time_iops:
        one = found.one_at_a_time_iops
        remarks.append(
            f"one I/O at a time: {one:,.0f} IOPS, {one * found.size_bytes / 1e6:,.0f} MB/s; more takes more in flight"
        )
    numbered = [f"[{number}] {source}" for number, source in enumerate(sources, start=1)]
    if not sources_are_detail:
        remarks += numbered
    limits = Section(
        heading,
        Table(heads, [_row(limit, found, sources) for limit in found.limits]),
        sentences=[Sentence(_sentence(found), "answer")],
        notes=remarks,
    )
    if not sources_are_detail:
        return [limits]
    return [limits, Section("Where the figures of the ceiling are from", notes=numbered, detail=True)]


def beside_knee_sections(found: BesideKnee) -> list[Section]:
    """A knee held against the ceiling: the sentence, where to look, and the limits."""
    said = [Sentence(found.sentence), *(Sentence(f"- {one.sentence}") for one in found.suggestions)]
    return [
        Section("Beside the ceiling of the path", sentences=said),
        *ceiling_sections(found.ceiling, sources_are_detail=True),
    ]


def _sentence(found: Ceiling) -> str:
    assert found.binding is not None
    share = found.read_share
    mix = "all one way" if share is None else f"{share * 100:.0f} % reads, by bytes"
    assumed = ", a size nobody stated" if found.size_assumed else ""
    return (
        f"At most {found.binding.mb_per_s:,.0f} MB/s, {found.binding.iops:,.0f} IOPS of "
        f"{format_bytes(found.size_bytes)}{assumed} ({mix}). Limited by: {found.binding.name}."
    )


def _row(limit: Limit, found: Ceiling, sources: list[str]) -> tuple[Cell, ...]:
    assert found.binding is not None
    share = "lowest" if limit is found.binding else f"{limit.mb_per_s / found.binding.mb_per_s:,.1f}x"
    return (
        f"  {limit.name}" if limit.part else limit.name,
        Number(limit.by_name_mb_per_s),
        Number(limit.stated_mb_per_s),
        Number(limit.mb_per_s),
        Number(limit.iops),
        DASH if limit.part else share,
        f"[{sources.index(limit.source) + 1}]",
    )
