"""Where the time goes, layer by layer: mean latencies and what each layer adds to the one below it.

A residual is a difference of means, so it needs no matching of single I/Os across layers; but it means what it seems to
only where both layers saw the same I/Os. Where the counts differ (a cache answered, requests were merged or split) that
is said instead of believing the difference. A negative residual between equal counts cannot be: an I/O spends no less
time in a layer than in the one below. It is a clock error. With even slightly different counts it may also be that a
request was split: its parts each count below, and slow large ones weigh more there.
"""

from collections.abc import Iterable
from typing import Final

from .comparison import WaterfallStep
from .histogram import Histograms

_TOP_DOWN: Final = ("sql", "filesystem", "block", "device")
_COUNT_TOLERANCE: Final = 0.05


def waterfall(histograms: Histograms, layers: Iterable[str]) -> list[WaterfallStep]:
    """Steps from the top layer down, for reads, then for writes; from result of query ``latency_histogram``."""
    present = set(layers)
    steps = []
    for op in ("read", "write"):
        merged = {layer: histograms.merged(layer=layer, op=op) for layer in _TOP_DOWN if layer in present}
        seen = [(layer, histogram) for layer, histogram in merged.items() if histogram.total]
        for index, (layer, histogram) in enumerate(seen):
            mean_ns = histogram.latency_sum_ns / histogram.total
            if index + 1 == len(seen):
                steps.append(WaterfallStep(layer, op, histogram.total, mean_ns, None, None, None))
                continue
            below, lower = seen[index + 1]
            residual_ns = mean_ns - lower.latency_sum_ns / lower.total
            problem = None
            if abs(histogram.total - lower.total) > _COUNT_TOLERANCE * max(histogram.total, lower.total):
                problem = f"{layer} saw {histogram.total:,} {op}s, {below} {lower.total:,}: not the same I/Os"
            elif residual_ns < 0 and histogram.total == lower.total:
                problem = f"clock error: {layer} cannot take less time than {below} within it"
            elif residual_ns < 0:
                problem = (
                    f"{layer} saw {histogram.total:,} {op}s, {below} {lower.total:,}: "
                    "requests were split or merged, or the clocks disagree"
                )
            steps.append(WaterfallStep(layer, op, histogram.total, mean_ns, below, residual_ns, problem))
    return steps
