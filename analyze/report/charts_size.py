"""How large the I/Os were: a histogram for each role, reads beside writes."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from iotrace.analyze.describe.description import SizeCount
from iotrace.analyze.knee.words import percent_text
from iotrace.analyze.units import format_bytes, format_count, format_share

from .parts import Chart, Table
from .plot import LIGHT, Row, figure, numbers

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
        figure(
            [_row(role, counts, totals, classes, is_first=role == shown[0]) for role in shown],
            {
                "title": {"text": "transfer size"},
                "tickmode": "array",
                "tickvals": list(range(len(classes))),
                "ticktext": [_class_name(size) for size in classes],
                "showgrid": False,
                "automargin": True,
            },
        ),
        _table(streams, exact, totals),
    )


def stream_name(role: str, op: str) -> str:
    """``log writes``."""
    return f"{role.replace('_', ' ')} {op}s"


def _row(
    role: str,
    counts: dict[Stream, dict[int, int]],
    totals: dict[Stream, int],
    classes: Sequence[int],
    *,
    is_first: bool,
) -> Row:
    traces = []
    for op, shift, pattern in (("read", -0.36, ""), ("write", 0.02, "/")):
        # An operation that the first role lacks still has to have its entry in the legend.
        if (role, op) not in totals and not is_first:
            continue
        shares = [
            100 * counts.get((role, op), {}).get(size, 0) / max(totals.get((role, op), 0), 1)
            for size in classes
        ]
        traces.append(
            {
                "type": "bar",
                "name": f"{op}s",
                "x": list(range(len(classes))),
                "offset": shift,
                "y": numbers(shares),
                "width": 0.34,
                "marker": {
                    "color": LIGHT[op],
                    "pattern": {
                        "shape": pattern,
                        "fillmode": "overlay",
                        "fgcolor": LIGHT["paper"],
                        "size": 6,
                    },
                },
                "legendgroup": op,
                "showlegend": is_first,
                "hovertemplate": f"%{{y:.3~g}} % of the {op}s",
            }
        )
    return Row(f"{role.replace('_', ' ')} (% of its I/Os)", 110, traces)


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
