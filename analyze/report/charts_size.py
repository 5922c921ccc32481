"""How large the I/Os were: a histogram for each role, reads beside writes."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from iotrace.analyze.describe.description import SizeCount
from iotrace.analyze.knee.words import percent_text
from iotrace.analyze.units import format_bytes, format_count, format_share

from .axes import categories, linear
from .charts import Boxes, Chart, Key, Panel, Readout, Table

_CLASSES: Final = tuple(512 << power for power in range(16))
"""Upper ends of the size classes: 512 B, 1 KiB … 16 MiB."""
_ROLES_MAX: Final = 6
_ROWS_MAX: Final = 8
Stream = tuple[str, str]


def size_chart(sizes: Sequence[SizeCount]) -> Chart | None:
    """Share of each role's reads and writes in each size class; None without reads or writes."""
    counts: dict[Stream, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    exact: dict[Stream, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for entry in sizes:
        if entry.op in ("read", "write"):
            counts[entry.role, entry.op][_class(entry.size_bytes)] += entry.io_count
            exact[entry.role, entry.op][entry.size_bytes] += entry.io_count
    if not counts:
        return None
    totals = {stream: sum(by_size.values()) for stream, by_size in counts.items()}
    by_role: dict[str, int] = defaultdict(int)
    for (role, _), total in totals.items():
        by_role[role] += total
    roles = sorted(by_role, key=lambda role: (-by_role[role], role))
    present = [size for size in _CLASSES if any(size in by_size for by_size in counts.values())]
    classes = [size for size in _CLASSES if present[0] <= size <= present[-1]]
    streams = sorted(totals, key=lambda stream: (-totals[stream], stream))
    left_out = (
        f" The {len(roles) - _ROLES_MAX} rarest roles are in the table only."
        if len(roles) > _ROLES_MAX
        else ""
    )
    said = "; ".join(_said(stream, exact[stream], totals[stream]) for stream in streams[:4])
    shown = roles[:_ROLES_MAX]
    return Chart(
        "sizes",
        "Transfer sizes by role",
        f"Share of each role's reads and of its writes by size, each bar up to and including the size named: "
        f"{said}.{left_out}",
        categories("transfer size", [_class_name(size) for size in classes]),
        tuple(_panel(role, counts, totals, classes) for role in shown),
        _table(streams, exact, totals),
        (Key("read", "reads", "box"), Key("write", "writes", "box")),
        tuple(_readout(place, size, shown, counts, totals) for place, size in enumerate(classes)),
    )


def stream_name(role: str, op: str) -> str:
    """``log writes``."""
    return f"{role.replace('_', ' ')} {op}s"


def _panel(
    role: str, counts: dict[Stream, dict[int, int]], totals: dict[Stream, int], classes: Sequence[int]
) -> Panel:
    marks, top = [], 0.0
    for op, shift in (("read", -0.36), ("write", 0.02)):
        if (role, op) not in totals:
            continue
        shares = [100 * counts[role, op].get(size, 0) / totals[role, op] for size in classes]
        top = max(top, *shares)
        boxes = tuple(
            (place + shift, place + shift + 0.34, 0.0, share)
            for place, share in enumerate(shares)
            if share > 0
        )
        marks.append(Boxes(op, boxes))
    title = role.replace("_", " ")
    return Panel(linear(f"{title[:16]} (%)", min(top, 100.0), ticks_wanted=3), tuple(marks), 110)


def _readout(
    place: int,
    size: int,
    roles: Sequence[str],
    counts: dict[Stream, dict[int, int]],
    totals: dict[Stream, int],
) -> Readout:
    parts = [
        f"{stream_name(role, op)} {100 * counts[role, op].get(size, 0) / totals[role, op]:.3g} %"
        for role in roles
        for op in ("read", "write")
        if counts.get((role, op), {}).get(size)
    ]
    return Readout(place - 0.5, place + 0.5, f"{_class_name(size)}: {', '.join(parts) or 'none'}")


def _table(
    streams: Sequence[Stream], exact: dict[Stream, dict[int, int]], totals: dict[Stream, int]
) -> Table:
    rows = []
    for stream in streams:
        ordered = sorted(exact[stream].items(), key=lambda pair: (-pair[1], pair[0]))
        rows += [
            (
                stream_name(*stream),
                format_bytes(size),
                format_count(count),
                format_share(count / totals[stream]),
            )
            for size, count in ordered[:_ROWS_MAX]
        ]
        rest = ordered[_ROWS_MAX:]
        if rest:
            others = sum(count for _, count in rest)
            rows.append(
                (
                    stream_name(*stream),
                    f"{len(rest):,} other sizes",
                    format_count(others),
                    format_share(others / totals[stream]),
                )
            )
    return Table("The most frequent sizes", ("I/Os of", "size", "I/Os", "share"), tuple(rows), 1)


def _said(stream: Stream, exact: dict[int, int], total: int) -> str:
    size, count = max(exact.items(), key=lambda pair: pair[1])
    return f"{percent_text(count / total)} of the {stream_name(*stream)} are {format_bytes(size)}"


def _class(size_bytes: int) -> int:
    return next((upper for upper in _CLASSES if size_bytes <= upper), _CLASSES[-1])


def _class_name(size_bytes: int) -> str:
    return format_bytes(size_bytes).replace(".0 ", " ")
