"""How long I/Os took: percentile curves, and the time each layer adds."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ..description import Description
from ..histogram import IOS_BEYOND_MIN, Histogram
from ..units import format_count, format_duration_ns
from .charts import OP_COLOURS, SERIES, Chart, Table, axis, figures, latency_axis, legend_below

_TICKS: Final = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
_POINTS_PER_DECADE: Final = 24
Floats = npt.NDArray[np.float64]
_LAYERS_FROM_BELOW: Final = ("device", "block", "filesystem", "sql")


def percentile_chart(histograms: dict[str, Histogram], metric: str, layer: str) -> Chart | None:
    """Curves of latency over percentile, one per operation, as far as 100 I/Os lie beyond; None without any."""
    data, rows = [], []
    lowest, highest, widest = np.inf, 0.0, 0.5
    for op, histogram in histograms.items():
        if histogram.total < 2 * IOS_BEYOND_MIN:
            continue
        top = 1 - IOS_BEYOND_MIN / histogram.total
        decades = -np.log10(1 - top)
        shares = 1 - 10 ** -np.linspace(0, decades, max(int(decades * _POINTS_PER_DECADE), 8))
        latency_ms = _at(histogram, shares) / 1e6
        lowest, highest, widest = min(lowest, latency_ms[0]), max(highest, latency_ms[-1]), max(widest, top)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{op}s",
                "x": figures((-np.log10(1 - shares)).tolist()),
                "y": figures(latency_ms.tolist()),
                "customdata": [f"{share:.5%}".rstrip("%").rstrip("0").rstrip(".") for share in shares],
                "line": {"color": OP_COLOURS[op], "width": 2},
                "hovertemplate": f"%{{customdata}} % of {op}s within %{{y:.3~g}} ms<extra></extra>",
            }
        )
        given = [share for share in _TICKS[1:] if share <= top + 1e-12]
        within_ns = _at(histogram, np.array(given))
        rows += [
            (f"{op}s", f"p{share * 100:g}", format_duration_ns(latency_ns))
            for share, latency_ns in zip(given, within_ns, strict=True)
        ]
    if not data:
        return None
    ticks = [share for share in _TICKS if share <= widest + 1e-12]
    return Chart(
        "percentiles",
        f"{metric.capitalize()} time by percentile",
        f"How long the given share of reads and writes took at most, at the {layer} layer. The further right, "
        f"the rarer; a curve ends where fewer than {IOS_BEYOND_MIN} I/Os lie beyond.",
        data,
        {
            "xaxis": axis(
                "share of I/Os (%)",
                tickvals=[float(-np.log10(1 - tick)) for tick in ticks],
                ticktext=[f"{tick * 100:g}" for tick in ticks],
            ),
            "yaxis": latency_axis(f"{metric} time (ms)", float(lowest), float(highest)),
            "legend": legend_below(),
        },
        Table(
            f"{metric.capitalize()} time by percentile", ("operation", "percentile", "within"), tuple(rows), 2
        ),
    )


def layer_chart(description: Description) -> Chart | None:
    """Mean latency of reads and writes cut into what each layer adds; None unless two layers were recorded."""
    means: dict[str, dict[str, float]] = {}
    counts: dict[str, dict[str, int]] = {}
    for entry in description.layer_latencies:
        if entry.metric == "service" and entry.op in ("read", "write") and entry.latency.mean_ns is not None:
            means.setdefault(entry.op, {})[entry.layer] = entry.latency.mean_ns
            counts.setdefault(entry.op, {})[entry.layer] = entry.latency.io_count
    layers = [layer for layer in _LAYERS_FROM_BELOW if any(layer in by_layer for by_layer in means.values())]
    if len(layers) < 2:
        return None
    ops = [op for op in ("read", "write") if len(means.get(op, {})) >= 2]
    data, rows, negative = [], [], []
    for position, layer in enumerate(layers):
        widths = []
        for op in ops:
            below = _below(means[op], layers[:position])
            mean = means[op].get(layer)
            residual = None if mean is None else mean - (below or 0.0)
            widths.append(None if residual is None else max(residual, 0.0) / 1e6)
            if mean is not None and residual is not None:
                rows.append(
                    (
                        f"{op}s",
                        layer,
                        format_count(counts[op][layer]),
                        format_duration_ns(mean),
                        format_duration_ns(residual),
                    )
                )
                if residual < 0:
                    negative.append(f"{layer} {op}s")
        name = layer if position == 0 else f"added by {layer}"
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": [f"{op}s" for op in ops],
                "x": figures(widths),
                "marker": {"color": SERIES[position]},
                "hovertemplate": f"%{{y}}: %{{x:.3~g}} ms<extra>{name}</extra>",
            }
        )
    said = (
        f" Negative for {', '.join(negative)}: the layers did not see the same I/Os, or their clocks differ."
        if negative
        else ""
    )
    return Chart(
        "layers",
        "Where the time goes, by layer",
        "Mean service time of reads and writes, cut into the time of the lowest layer recorded and what each layer "
        f"above adds to it.{said}",
        data,
        {
            "barmode": "stack",
            "xaxis": axis("mean service time (ms)", rangemode="tozero"),
            "yaxis": axis("", autorange="reversed"),
            "legend": legend_below() | {"traceorder": "normal"},
        },
        Table(
            "Mean service time by layer",
            ("operation", "layer", "I/Os", "mean", "more than the layer below"),
            tuple(sorted(rows)),
            2,
        ),
        260,
    )


def _below(means: dict[str, float], layers: Sequence[str]) -> float | None:
    return next((means[layer] for layer in reversed(layers) if layer in means), None)


def _at(histogram: Histogram, shares: Floats) -> Floats:
    counts = np.asarray(histogram.io_count, dtype=np.int64)
    ranks = np.clip(np.ceil(shares * counts.sum() - 1e-9), 1, counts.sum())
    values: Floats = np.asarray(histogram.bucket_ns, dtype=np.float64)
    found: Floats = values[np.searchsorted(np.cumsum(counts), ranks)]
    return found
