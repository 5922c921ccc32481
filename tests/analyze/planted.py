"""Recordings with a known truth: latencies of a known distribution, dependent on their neighbours in a known way."""

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.signal import lfilter

from iotrace.analyze.compare.class_latency import QUANTITIES, ClassLatency, SlotCounts
from iotrace.analyze.stats.bootstrap import SLOTS_MAX
from iotrace.analyze.stats.histogram import Histogram, bucket_limits_ns, latency_bucket_ns

SECOND = 1_000_000_000


LOGNORMAL = stats.lognorm(0.5, scale=400_000)
HEAVY = stats.pareto(1.5, scale=200_000)
"""A tail so heavy that it has no variance."""


@dataclass(frozen=True)
class Planted:
    """``correlation`` is that of neighbouring I/Os in the ranks' normal scores (an AR(1)); times are Poisson."""

    distribution: object = LOGNORMAL
    correlation: float = 0.0
    io_count: int = 20_000
    length_ns: int = 20 * SECOND

    def draw(self, seed, factor=1.0, scores=None):
        """Times and latencies in nanoseconds; the latter ``factor`` times those of the distribution."""
        source = np.random.default_rng(seed)
        times = np.sort(source.integers(0, self.length_ns, self.io_count))
        if scores is None:
            scores = self.scores(source)
        latency = factor * self.distribution.ppf(stats.norm.cdf(scores))
        return times, np.maximum(latency, 1).astype(np.int64)

    def scores(self, source):
        """Standard normal, neighbours correlated."""
        noise = source.normal(0, np.sqrt(1 - self.correlation**2), self.io_count)
        noise[0] /= np.sqrt(1 - self.correlation**2)
        return lfilter([1.0], [1.0, -self.correlation], noise)

    def truth_ns(self, quantity):
        """The mean or quantile that was planted."""
        return self.distribution.mean() if quantity == "mean" else self.distribution.ppf(QUANTITIES[quantity])

    def class_latency(self, times, latency_ns):
        """As a comparison sees it: a histogram, and what each slot of time has of it."""
        buckets, counts = np.unique(latency_bucket_ns(latency_ns), return_counts=True)
        histogram = Histogram(buckets, counts, int(latency_ns.sum()), int(latency_ns.max()))
        slot = times * SLOTS_MAX // self.length_ns
        below = []
        for quantile in QUANTITIES.values():
            rank = int(np.ceil(quantile * len(latency_ns) - 1e-9)) - 1
            limit = bucket_limits_ns(buckets[np.searchsorted(np.cumsum(counts), rank + 1)])[1]
            below.append(np.bincount(slot, latency_ns <= limit, SLOTS_MAX))
        return ClassLatency(
            histogram,
            SlotCounts(
                np.bincount(slot, minlength=SLOTS_MAX).astype(float),
                np.bincount(slot, latency_ns, SLOTS_MAX),
                np.stack(below, axis=1),
            ),
        )
