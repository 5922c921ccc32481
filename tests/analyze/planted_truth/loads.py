"""When I/Os arrive and what they ask for."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from iotrace.schemas import Recording

from .laws import Floats

BUNDLED = Path(__file__).parents[3] / "cli" / "bundled" / "pgbench.iotrace"
ARRIVALS = ("poisson", "bursty", "bundled")


def poisson(rng: np.random.Generator, rate: float, seconds: float) -> Floats:
    """Arrivals at random times."""
    return np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds)))


def at_rates(rng: np.random.Generator, rates: Floats, width_s: float) -> Floats:
    """Poisson arrivals whose rate is ``rates[i]`` during the ``i``-th stretch of ``width_s``."""
    counts = rng.poisson(np.maximum(rates, 0) * width_s)
    starts = np.repeat(np.arange(len(rates)) * width_s, counts)
    return np.sort(starts + rng.uniform(0, width_s, len(starts)))


def bursty(rng: np.random.Generator, rate: float, seconds: float, *, peak: float, burst_s: float) -> Floats:
    """A source that is on at ``peak`` times ``rate`` or off, in exponential stretches; on for ``burst_s`` on average.

    An interrupted Poisson process (Kuczura 1973). The mean rate is ``rate`` over a long time, not in each second.
    """
    stretches = int(2 * seconds / burst_s / peak + 20)
    on = rng.exponential(burst_s, stretches)
    off = rng.exponential(burst_s * (peak - 1), stretches)
    edges = np.concatenate([[0.0], np.cumsum(np.column_stack([off, on]).ravel())])
    shift = rng.uniform(0, edges[2])
    starts, ends = edges[1:-1:2] - shift, edges[2::2] - shift
    keep = (ends > 0) & (starts < seconds)
    starts, ends = np.maximum(starts[keep], 0), np.minimum(ends[keep], seconds)
    if not len(starts) or (ends - starts).sum() < seconds / peak / 10:
        return poisson(rng, rate, seconds)
    # The stretches of this step rarely add up to their share exactly; the rate within them makes up for it.
    counts = rng.multinomial(rng.poisson(rate * seconds), (ends - starts) / (ends - starts).sum())
    return np.sort(
        np.repeat(starts, counts) + rng.uniform(0, 1, counts.sum()) * np.repeat(ends - starts, counts)
    )


@cache
def bundled_times() -> tuple[Floats, float]:
    """Times of the block layer's reads and writes in the bundled recording, and how long it is."""
    recording = Recording.open(BUNDLED)
    table = recording.read("io", ["layer", "op", "issued_ns"])
    wanted = pc.and_(
        pc.equal(table["layer"].cast("string"), "block"),
        pc.is_in(table["op"].cast("string"), value_set=pc.cast(["read", "write"], "string")),
    )
    times = np.sort(table.filter(wanted)["issued_ns"].to_numpy() / 1e9)
    return times[times >= 0], recording.manifest.window_end_ns / 1e9


PART_S = 30.0
"""Length of the part of the bundled recording that a sweep plays."""


def of_bundled_shape(rate: float, seconds: float, part: int) -> Floats:
    """Part number ``part`` of the bundled recording, compressed to ``rate``, in whole passes for at least ``seconds``.

    What a sweep of mode ``compress`` plays: order and relative gaps stay, all times are divided by the same number.
    """
    times, length_s = bundled_times()
    first = part % int(length_s // PART_S) * PART_S
    chosen = times[(times >= first) & (times < first + PART_S)] - first
    factor = rate * PART_S / len(chosen)
    passes = math.ceil(seconds * factor / PART_S - 1e-9)
    return (chosen[None, :] + np.arange(passes)[:, None] * PART_S).ravel() / factor


def arrivals(rng: np.random.Generator, kind: str, rate: float, seconds: float, part: int = 0) -> Floats:
    """Arrivals of one of `ARRIVALS`, at ``rate`` on average, for ``seconds`` (bundled: at least that)."""
    if kind == "poisson":
        return poisson(rng, rate, seconds)
    if kind == "bursty":
        return bursty(rng, rate, seconds, peak=3.0, burst_s=20 / rate)  # compressed with the load
    assert kind == "bundled", kind
    return of_bundled_shape(rate, seconds, part)


@dataclass(frozen=True, slots=True)
class Mix:
    """What the I/Os ask for: shares of reads, and sizes with their shares, each for reads and writes."""

    read_share: float = 0.7
    read_sizes: tuple[tuple[int, float], ...] = ((8192, 1.0),)
    write_sizes: tuple[tuple[int, float], ...] = ((8192, 1.0),)

    def draw(
        self, rng: np.random.Generator, count: int
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Whether each of ``count`` I/Os is a read, and its bytes."""
        is_read = rng.random(count) < self.read_share
        reads, writes = (
            rng.choice([size for size, _ in sizes], count, p=[share for _, share in sizes])
            for sizes in (self.read_sizes, self.write_sizes)
        )
        return is_read, np.where(is_read, reads, writes).astype(np.int64)

    def mean_bytes(self, *, writes_only: bool = False) -> float:
        """Bytes that an I/O moves on average; ``writes_only`` counts the bytes written, over all I/Os."""
        read, write = (
            sum(size * share for size, share in sizes) for sizes in (self.read_sizes, self.write_sizes)
        )
        return (0.0 if writes_only else self.read_share * read) + (1 - self.read_share) * write


SQL_MIX = Mix(
    0.65,
    ((8192, 0.7), (65536, 0.25), (524288, 0.05)),
    ((512, 0.15), (4096, 0.15), (8192, 0.5), (65536, 0.2)),
)
"""Random pages, read-ahead, log writes and a few checkpoints' gathered writes."""
