"""The inspect command: what is in a trace, in words first."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from iotrace.analyze.present import Answer, ProgramAnswer, Section, Sentence
from iotrace.analyze.present.answer import Tone
from iotrace.analyze.units import format_bytes, format_duration_ns, format_moment, format_share
from iotrace.capture.formats.format import Certainty
from iotrace.capture.importing.inspecting import Contents, Inspection, LayerContents, inspect_path
from iotrace.schemas import Op, Quality, counted
from iotrace.schemas.vocabulary import load_layer

from . import console
from .options import Full, Json
from .show import show

_FACTS_SHOWN: Final = 6
_DEVICES_SHOWN: Final = 3
_TOLD_ABOVE: Final = re.compile(
    r"format|bytes|whole|problems|notes|values|runs|kinds|counts|dated|((clock )?(zero|first|last|start|end)s?\b.*)"
)
"""Facts that the first lines tell in words, and lists that are for ``--full``."""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("inspect")(inspect_command)


@dataclass(frozen=True, kw_only=True)
class InspectAnswer(ProgramAnswer):
    """What `inspect` answers."""

    schema: Literal["iotrace.inspect/1"] = "iotrace.inspect/1"
    traces: list[Inspection]
    notes: list[str]


def inspect_command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Trace files, or folders or zips of them.", show_default=False),
    ],
    full: Full = False,
    json: Json = False,
) -> int:
    """Say what is in a file, and whether it is complete.

    Reads the file to its end and imports nothing. Exit status 1 if a trace in it cannot be read.

    Example: iotrace inspect kernel.etl
    """
    with console.working("inspecting"):
        inspected = [inspect_path(path) for path in files]
    found = [entry for at in inspected for entry in at.traces]
    notes = [note for at in inspected for note in at.notes]
    if json:
        console.print_answer(InspectAnswer(traces=found, notes=notes))
    else:
        for place, entry in enumerate(found):
            if place:
                console.data.print()
            show(triage(entry), full=full, tells_of_more=place == len(found) - 1)
        for note in notes:
            console.paragraph(f"note: {note}")
    return 1 if any(entry.problem for entry in found) else 0


def triage(found: Inspection) -> Answer:
    """What is in a trace, when that was, and what it is good for; the format's own facts below."""
    name = Path(found.name).name
    doubt = "" if found.certainty == Certainty.CERTAIN else f"{found.certainty}: "
    what = f"{name} ({doubt}{found.what}, {format_bytes(found.bytes)})"
    if found.problem is not None:
        return Answer([Sentence(f"{what} cannot be read: {found.problem}", "bad")], [])
    if found.contents is None:
        opening = [Sentence(f"{what}: facts on the host, used by the traces it is imported with", "answer")]
    else:
        opening = _opening(what, found.contents, found.facts or {})
    return Answer(opening, list(_facts(found.facts or {})))


def _opening(what: str, contents: Contents, facts: Mapping[str, Any]) -> list[Sentence]:
    layer = load_layer(contents.layers)
    held = ", ".join(_held(contents, None if layer is None else contents.layers[layer], facts))
    lines = [Sentence(f"{what}: {held or 'nothing that an import would keep'}", "answer")]
    if when := _when(contents):
        lines.append(Sentence(when))
    lines.append(_use(contents, layer))
    if contents.needs_timezone:
        zone = "Its times are local and name no zone; the times above are as if it were UTC: import with --timezone"
        lines.append(Sentence(zone, "doubt"))
    return [*lines, *_trust(contents.quality)]


def _held(contents: Contents, layer: LayerContents | None, facts: Mapping[str, Any]) -> Iterable[str]:
    if layer is not None:
        counts = [
            counted(ios, noun, many)
            for op, noun, many in (
                (Op.READ, "read", ""),
                (Op.WRITE, "write", ""),
                (Op.FLUSH, "flush", "flushes"),
                (Op.DISCARD, "discard", ""),
            )
            if (ios := layer.ops.get(op, 0))
        ]
        told = f"{', '.join(counts[:-1])} and {counts[-1]}" if len(counts) > 1 else counts[0]
        yield f"{told}{_where(layer)}"
    if contents.rows.get("waits"):
        yield counted(contents.rows["waits"], "wait")
    if contents.rows.get("counters"):
        yield counted(contents.rows["counters"], "counter value")
    if contents.rows.get("markers"):
        yield counted(contents.rows["markers"], "event")
    if contents.rows.get("results"):
        runs, tool = facts.get("runs"), facts.get("tool")
        of_what = counted(runs, "test run") if isinstance(runs, int) else "test runs"
        yield f"results of {of_what}{f' of {tool}' if tool else ''}"


def _where(layer: LayerContents) -> str:
    names = list(layer.devices)
    more = len(names) - _DEVICES_SHOWN
    told = ", ".join(names[:_DEVICES_SHOWN])
    return f" on {told}{f' and {more} more' if more > 0 else ''}" if names else ""


def _when(contents: Contents) -> str:
    first, last = format_moment(contents.start_utc_ns), format_moment(contents.end_utc_ns)
    length_ns = contents.end_utc_ns - contents.start_utc_ns
    if not first or not last:
        return f"{format_duration_ns(length_ns)} long; it names no date" if length_ns else ""
    if not length_ns:
        return first
    (day, start, zone), (last_day, end, _) = first.split(), last.split()
    until = end if day == last_day else f"{last_day} {end}"
    return f"{day} {start} to {until} {zone} ({format_duration_ns(length_ns)})"


def _use(contents: Contents, layer: str | None) -> Sentence:
    if layer is None:
        for_what = {
            "results": "import makes a recording of it; knee and report show several runs as a curve",
            "counters": "describe and incident read it; import it with an I/O trace to add context",
        }
        use = next((words for table, words in for_what.items() if contents.rows.get(table)), "")
        return Sentence(
            f"Usable for replay: no, it holds no individual I/Os{f'; {use}' if use else ''}", "doubt"
        )
    found = contents.layers[layer]
    total = sum(found.ops.values())
    transfers = found.ops.get(Op.READ, 0) + found.ops.get(Op.WRITE, 0)
    names = (
        "File names not known"
        if not found.with_file
        else "File names known"
        if found.with_file == total
        else f"File names known for {format_share(found.with_file / total)} of the I/Os"
    )
    if not found.playable:
        why = "no I/O tells where it went" if transfers else "it holds no reads and no writes"
        return Sentence(f"{names}; usable for replay: no, {why}", "doubt")
    if found.playable < transfers:
        part = f"{counted(transfers - found.playable, 'I/O')} of {transfers:,} without a place are left out"
        return Sentence(f"{names}; usable for replay: yes, but {part}", "doubt")
    return Sentence(f"{names}; usable for replay: yes")


_TONES: Final[Mapping[str, Tone]] = {"good": "good", "usable": "doubt", "poor": "bad"}


def _trust(quality: Quality) -> list[Sentence]:
    reasons = f": {'; '.join(quality.reasons)}" if quality.reasons else ""
    said = [Sentence(f"Trust: recorded {quality.words}{reasons}", _TONES[quality.verdict])]
    return said + [Sentence(f"  note: {note}", "aside") for note in quality.notes]


def _facts(facts: Mapping[str, Any]) -> Iterable[Section]:
    telling = {
        name: value
        for name, value in facts.items()
        if value not in (None, False, 0, "", [], {}) and not _TOLD_ABOVE.fullmatch(name.replace("_", " "))
    }
    if told := [Sentence(_fact(name, value, _FACTS_SHOWN)) for name, value in telling.items()]:
        yield Section("The file", sentences=told)
    if whole := [Sentence(_fact(name, value, None)) for name, value in facts.items()]:
        yield Section("All that the file says of itself", sentences=whole, detail=True)


_UNITS: Final = {"minutes": "min", "hz": "Hz", "mhz": "MHz"}
"""Last words of the names of facts, and how they are written after a figure."""


def _fact(name: str, value: object, most: int | None) -> str:
    """A fact in words: times as dates or lengths, and units after figures, as their names say."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    unit = next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")
    if found := re.fullmatch(r"(.+)_utc_(n?)s", name):
        utc_ns = None if number is None else int(number if found[2] else number * 1e9)
        label, words = found[1], format_moment(utc_ns) or "no date"
    elif found := re.fullmatch(r"(.+)_(n?)s", name):
        length_ns = None if number is None else number if found[2] else number * 1e9
        label, words = found[1], "unknown" if length_ns is None else format_duration_ns(length_ns)
    elif name.endswith("_bytes") and number is not None:
        label, words = name.removesuffix("_bytes"), format_bytes(number)
    elif unit and number is not None:
        label, words = name.removesuffix(f"_{unit}"), f"{_short(value, most)} {_UNITS[unit]}"
    else:
        label, words = name, _short(value, most)
    return f"{label.replace('_', ' ')}: {words}"


def _short(value: object, most: int | None) -> str:
    """A fact in at most a few lines; what has facts of its own is counted."""
    if isinstance(value, list | tuple) and any(isinstance(entry, dict) for entry in value):
        return f"{len(value):,}, which --json describes"
    if isinstance(value, dict | list | tuple):
        entries = (
            [f"{key.replace('_', ' ')} {_short(entry, most)}" for key, entry in value.items()]
            if isinstance(value, dict)
            else [_short(entry, most) for entry in value]
        )
        more = 0 if most is None else len(entries) - most
        return ", ".join(entries[:most]) + (f", and {more} more" if more > 0 else "") if entries else "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "unknown"}[value]
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10**12 else str(value)
