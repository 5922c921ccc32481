"""How large the I/Os were, per role and operation."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from ..description import SizeCount
from ..knee_words import percent_text
from ..units import format_bytes, format_count, format_share
from .charts import SERIES, Chart, Table, axis, figures, label, legend_below

_CLASSES: Final = tuple(512 << power for power in range(16))
"""Upper ends of the size classes: 512 B, 1 KiB … 16 MiB."""
_SERIES_MAX: Final = 7


def size_chart(sizes: Sequence[SizeCount]) -> Chart | None:
    """Share of each role's and operation's I/Os in each size class; None without reads or writes."""
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    exact: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for entry in sizes:
        if entry.op in ("read", "write"):
            counts[entry.role, entry.op][_class(entry.size_bytes)] += entry.io_count
            exact[entry.role, entry.op][entry.size_bytes] += entry.io_count
    if not counts:
        return None
    streams = sorted(counts, key=lambda stream: -sum(counts[stream].values()))
    shown = streams[:_SERIES_MAX]
    present = [size for size in _CLASSES if any(size in counts[stream] for stream in streams)]
    classes = [size for size in _CLASSES if present[0] <= size <= present[-1]]
    data, rows = [], []
    for position, stream in enumerate(shown):
        total = sum(counts[stream].values())
        name = label(stream_name(*stream))
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [_class_name(size) for size in classes],
                "y": figures([100 * counts[stream][size] / total for size in classes]),
                "customdata": [counts[stream][size] for size in classes],
                "marker": {"color": SERIES[position % len(SERIES)]},
                "hovertemplate": f"%{{x}}: %{{y:.3~g}} % (%{{customdata:,}} I/Os)<extra>{name}</extra>",
            }
        )
    for stream in streams:
        total = sum(exact[stream].values())
        for size, count in sorted(exact[stream].items(), key=lambda pair: -pair[1])[:8]:
            rows.append(
                (stream_name(*stream), format_bytes(size), format_count(count), format_share(count / total))
            )
    left_out = (
        f" The {len(streams) - len(shown)} rarest are in the table only." if len(streams) > len(shown) else ""
    )
    first = shown[0]
    size, count = max(exact[first].items(), key=lambda pair: pair[1])
    return Chart(
        "sizes",
        "Transfer sizes",
        f"Share of the I/Os of each role and operation by size, each bar up to and including the size named. The most "
        f"frequent kind, {stream_name(*first)}, are mostly {format_bytes(size)} "
        f"({percent_text(count / sum(exact[first].values()))} of them).{left_out}",
        data,
        {
            "barmode": "group",
            "bargap": 0.15,
            "xaxis": axis("transfer size", type="category"),
            "yaxis": axis("share of the I/Os (%)", rangemode="tozero"),
            "legend": legend_below(),
        },
        Table("The most frequent sizes", ("I/Os of", "size", "I/Os", "share"), tuple(rows), 1),
    )


def stream_name(role: str, op: str) -> str:
    """``log writes``."""
    return f"{role.replace('_', ' ')} {op}s"


def _class(size_bytes: int) -> int:
    return next((upper for upper in _CLASSES if size_bytes <= upper), _CLASSES[-1])


def _class_name(size_bytes: int) -> str:
    return format_bytes(size_bytes).replace(".0 ", " ")
