"""Where and when: the working set over time, its hot spots, and what counters show for each drive or file."""

from typing import Any, Final

from iotrace.analyze.describe.description import Description, grade
from iotrace.analyze.units import DASH, format_bytes, format_count, format_duration_ns, format_share
from iotrace.schemas.text import shortened

from . import console

_SLICES_SHOWN: Final = 12
_DRIVES_SHOWN: Final = 20
_NAME_CELLS: Final = 26
_SPARKS: Final = " ▁▂▃▄▅▆▇█"


def print_working_set(found: Description) -> None:
    """What was touched in each slice of time, and where most I/Os began; nothing where no place is known."""
    slices = [entry for entry in found.touched_slices if entry.io_count]
    if not slices:
        return
    console.heading("Working set over time")
    # Neighbours are added up only in what can be added: distinct blocks of two slices cannot.
    step = -(-len(found.touched_slices) // _SLICES_SHOWN)
    shown = found.touched_slices[::step]
    rows = [
        [
            f"{clock(entry.from_ns)} for {format_duration_ns(entry.until_ns - entry.from_ns)}",
            format_count(entry.io_count),
            format_bytes(entry.touched_bytes),
            format_bytes(entry.new_bytes),
            format_share(entry.hottest_share),
        ]
        for entry in shown
    ]
    console.table(["from", "I/Os", "touched", "for the first time", "in busiest 1 %"], rows)
    if step > 1:
        console.paragraph(
            f"every {_ordinal(step)} slice of {len(found.touched_slices)}; --json has all", style="dim"
        )
    if found.hot_spots:
        console.heading("Hot spots, and when they were hot")
        rows = [
            [
                _place(spot.path or spot.device),
                f"{format_bytes(spot.offset_bytes)} + {format_bytes(spot.size_bytes)}",
                format_share(spot.share),
                _sparks(spot.io_count_by_slice),
            ]
            for spot in found.hot_spots[:5]
        ]
        console.table(["", "offset + length", "of I/Os", "over time"], rows)
    if found.busiest_hundredth_share is not None:
        block = format_bytes(found.block_bytes).replace(".0", "")
        console.paragraph(
            f"{format_share(found.busiest_hundredth_share)} of the I/Os began in the busiest 1 % of the blocks "
            f"({block} each)",
            style="dim",
        )


def print_drives(found: Description) -> None:
    """The table that perfmon's users know, from counters; nothing where none speak of drives or files."""
    for title, drives in _by_object(found.drives).items():
        console.heading(title)
        rows = [_drive(entry) for entry in drives[:_DRIVES_SHOWN]]
        heads = [
            "",
            "reads\n/s",
            "writes\n/s",
            "read\nMB/s",
            "write\nMB/s",
            "KiB/\nread",
            "KiB/\nwrite",
            "queue",
        ]
        console.table([*heads, "read\nmean", "write\nmean"], rows)
        if len(drives) > _DRIVES_SHOWN:
            console.paragraph(f"{len(drives) - _DRIVES_SHOWN:,} more: see --json", style="dim")
        graded = [
            f"{_place(entry['instance'])} {op}s {grade(entry[f'{op}_latency_mean_ns'])}"
            for entry in drives[:_DRIVES_SHOWN]
            for op in ("read", "write")
            if entry[f"{op}_latency_mean_ns"] and entry["instance"] != "_Total"
        ]
        if graded:
            console.paragraph(f"grades of the means: {', '.join(graded[:8])}", style="dim")


def _by_object(drives: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Drives of each source and object, the busiest first; what is the sum of the others comes last."""
    has_sources = len({entry["source"] for entry in drives}) > 1
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in drives:
        source = f" of {shortened(str(entry['source']), 40)}" if has_sources else ""
        layer = f", {entry['layer']} layer" if entry["layer"] else ""
        title = f"Counters: {shortened(str(entry['object']), 40)}{source}{layer}, means over time"
        found.setdefault(title, []).append(entry)
    for entries in found.values():
        entries.sort(key=lambda entry: (entry["instance"] == "_Total", -(entry["ios_per_s"] or 0)))
    return found


def _drive(entry: dict[str, Any]) -> list[str]:
    def number(name: str, divisor: float, digits: int) -> str:
        return DASH if entry[name] is None else f"{entry[name] / divisor:,.{digits}f}"

    return [
        _place(entry["instance"]),
        *(number(f"{op}_ios_per_s", 1, 0) for op in ("read", "write")),
        number("read_bytes_per_s", 1e6, 1),
        number("written_bytes_per_s", 1e6, 1),
        *(number(f"{op}_size_bytes", 1024, 1) for op in ("read", "write")),
        number("queue_length_mean", 1, 2),
        *(format_duration_ns(entry[f"{op}_latency_mean_ns"] or None) for op in ("read", "write")),
    ]


def _place(name: str | None) -> str:
    return shortened(name or "unknown", _NAME_CELLS)


def _sparks(counts: list[int]) -> str:
    most = max(counts, default=0) or 1
    return "".join(_SPARKS[-(-count * (len(_SPARKS) - 1) // most)] for count in counts)


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def clock(at_ns: int) -> str:
    """Time since the recording's start: ``1:02:03``."""
    minutes, seconds = divmod(at_ns // 1_000_000_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
