"""What one pass over a recording finds out, as `describe` takes it."""

from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iotrace.analyze._tally import Tally
from iotrace.analyze.rows import LAYERS
from iotrace.schemas import LOAD_OPS
from iotrace.schemas.run import PEAK_WIDTHS

from .description import TouchedSlice
from .streams import Numbering

GRANULE_BYTES: Final = 4096
"""Granularity of what was touched."""
FIRST_BLOCK_BYTES: Final = 64 * 1024
PAGE_BLOCKS: Final = 256


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How reads and writes arrived; defined in schemas/load/src/arrivals.rs."""

    count: int
    coefficient_of_variation: float | None
    """Standard deviation over mean of the gaps: 1 for random (Poisson) arrivals, 0 for a metronome; None below 100."""
    _peaks: Listed[float | None]

    @property
    def peak_to_mean(self) -> dict[str, float | None]:
        """The fullest stretch of each of `PEAK_WIDTHS` over the mean one; None with fewer than ten of them."""
        return dict(zip(PEAK_WIDTHS, self._peaks, strict=True))

    def by_clock(self, step_ns: float, length_ns: int) -> Self:
        """Without what a clock that counts in steps of ``step_ns`` cannot show.

        That is how arrivals vary if several share a step on average, and stretches of less than two steps.
        """
        peaks = [
            None if 2 * step_ns > width_ns else peak
            for width_ns, peak in zip(PEAK_WIDTHS.values(), self._peaks, strict=True)
        ]
        is_coarse = is_coarse_clock(step_ns, self.count, length_ns)
        return replace(
            self, coefficient_of_variation=None if is_coarse else self.coefficient_of_variation, _peaks=peaks
        )


def is_coarse_clock(step_ns: float, io_count: int, length_ns: int) -> bool:
    """Whether more than one I/O shares a step of the clock on average."""
    return step_ns * io_count > length_ns


@dataclass(frozen=True, slots=True)
class Flight:
    """I/Os in flight over a window of time: the most at once, and the time-integral of their number."""

    peak: int
    integral_ns: int
    length_ns: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """Per stream: I/Os with a place, and those of them that are sequential (schemas/load/src/sequence.rs)."""

    placed_count: npt.NDArray[np.int64]
    sequential_count: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HotPage:
    """A stretch of blocks in which many I/Os began: where, how many, and how many of them in each slice of time."""

    device_id: int | None
    file_id: int | None
    """None at the block layer and below."""
    offset_bytes: int
    size_bytes: int
    io_count: int
    io_count_by_slice: list[int]


class Measured:
    """What one pass finds out of a recording; figures of load are those of one layer.

    ``arrivals`` of reads and writes are per device and role (None: all of them), ``flight`` per device,
    ``group_flight_ns`` (its integral) per device and role, ``sequence`` per stream. ``busiest`` is as `Tally.busiest`.
    """

    def __init__(
        self,
        tally: Tally,
        numbering: Numbering,
        window_ns: tuple[int, int],
        borders_ns: Listed[int],
        clock_step_ns: float = 1.0,
    ) -> None:
        """``tally`` has taken in everything; ``borders_ns`` are those of its slices of time."""
        self._tally = tally
        self._numbering = numbering
        self._borders_ns = borders_ns
        length_ns = max(window_ns[1] - window_ns[0], 0)
        groups, devices, everything = tally.arrivals()
        length_ns = max(window_ns[1] - window_ns[0], 0)
        every: list[tuple[int | None, str | None]] = [*numbering.groups]
        every += [(device, None) for device in numbering.devices]
        seen = [
            Arrivals(*figures).by_clock(clock_step_ns, length_ns)
            for figures in (*groups, *devices, everything)
        ]
        self.arrivals = dict(zip(every, seen[:-1], strict=True))
        self.all_arrivals = seen[-1]
        flights, flight = tally.flight()
        self.flight = {
            device: Flight(*figures, length_ns)
            for device, figures in zip(numbering.devices, flights, strict=True)
        }
        self.all_flight = Flight(*flight, length_ns)
        self.group_flight_ns = dict(zip(numbering.groups, tally.group_flight_ns(), strict=True))
        self.busiest = tally.busiest()
        self.sequence = Sequence(*np.array(tally.sequences(), dtype=np.int64).reshape(-1, 2).T)

    def sequential_shares(self) -> dict[str, float | None]:
        """By operation that moves data: the share of its I/Os of known place that are sequential."""
        shares: dict[str, float | None] = {}
        for op in LOAD_OPS:
            numbers = [number for number, one in enumerate(self._numbering.streams) if one.op == op]
            placed = int(self.sequence.placed_count[numbers].sum())
            sequential = int(self.sequence.sequential_count[numbers].sum())
            if numbers:
                shares[op.value] = sequential / placed if placed else None
        return shares

    def seconds(self) -> pa.Table:
        """As query ``io_per_second``."""
        columns = _columns(self._tally.seconds(), ("layer", "second", "io_count", "size_bytes", "read_count",
                                                   "measured_count", "latency_sum_ns"))  # fmt: skip
        layer = pa.array([str(layer) for layer in LAYERS]).take(columns.pop("layer"))
        return pa.table({"layer": layer} | columns)

    def histogram_table(self, metric: str) -> pa.Table:
        """As query ``latency_histogram``, but for sums and maxima, which stand in the first row of a group."""
        groups = self._numbering.latency_groups
        layers, devices, roles, ops = zip(*groups, strict=True) if groups else ([],) * 4
        words = {"layer": pa.array(layers, pa.string()), "device_id": pa.array(devices, pa.int32()),
                 "role": pa.array(roles, pa.string()), "op": pa.array(ops, pa.string())}  # fmt: skip
        columns = _columns(self._tally.histogram(metric), ("group", "bucket_ns", "io_count", "latency_sum_ns",
                                                           "latency_max_ns"))  # fmt: skip
        group = columns.pop("group")
        return pa.table({name: column.take(group) for name, column in words.items()} | columns)

    @property
    def block_bytes(self) -> int:
        """Granularity of hot spots: `FIRST_BLOCK_BYTES`, or larger where that would take too much room."""
        return self._tally.block_bytes()

    def touched_bytes(
        self, device_id: int | None, role: str | None, ops: Listed[str], *, is_total: bool
    ) -> int:
        """Bytes touched at least once, in whole 4 KiB, by one role or by all, on one device or on all."""
        kinds = self._numbering.kinds(self._numbering.roles if role is None else [role], ops)
        areas = None if is_total else self._numbering.areas_of.get(device_id, [])
        return self._tally.touched_bytes(kinds, areas)

    def touched_slices(self) -> list[TouchedSlice]:
        """What each slice of time touched."""
        return [
            TouchedSlice(start, end, *figures)
            for start, end, figures in zip(
                self._borders_ns[:-1], self._borders_ns[1:], self._tally.slices(), strict=True
            )
        ]

    def busiest_hundredth_share(self) -> float | None:
        """Share of all I/Os that began in the busiest hundredth of the blocks in which any did; None below 100."""
        return self._tally.share_of_busiest()

    def hot_pages(self, count: int) -> list[HotPage]:
        """The stretches of `PAGE_BLOCKS` blocks in which most I/Os began, the busiest first."""
        size_bytes = PAGE_BLOCKS * self.block_bytes
        return [
            HotPage(*self._numbering.areas[area], offset_bytes, size_bytes, io_count, by_slice)
            for area, offset_bytes, io_count, by_slice in self._tally.hot_pages(count)
        ]


def _columns(rows: bytes, names: tuple[str, ...]) -> dict[str, pa.Array]:
    """Columns of rows of int64."""
    values = np.frombuffer(rows, dtype=np.int64).reshape(-1, len(names)).T
    return {name: pa.array(column) for name, column in zip(names, values, strict=True)}
