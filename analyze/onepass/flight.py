"""I/Os in flight, swept over all their starts and ends.

An I/O is in flight in [issued, completed): of an end and a start at the same nanosecond the end comes first. I/Os
whose end was not seen are never in flight.

The sweep (+1 at each start, -1 at each end) needs them in order only where the most in flight may be reached. So starts
and ends are counted in short bins first: what was in flight before a bin and all its starts together bound what is in
flight in it, and only bins whose bound exceeds the most at any border are swept exactly.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .rows import FIRST_NS, LAST_NS, Int64s
from .streams import Ints


@dataclass(slots=True)
class Flight:
    """I/Os in flight over a stretch of time, relative to those in flight when it begins."""

    net: int = 0
    """Starts less ends."""
    peak: int = 0
    """Most above the beginning."""
    integral_ns: int = 0
    """Time-integral of the number in flight above the beginning, over the stretch."""
    length_ns: int = 0

    def join(self, later: "Flight") -> None:
        """Take in the stretch that follows."""
        self.peak = max(self.peak, self.net + later.peak)
        self.integral_ns += later.integral_ns + self.net * later.length_ns
        self.length_ns += later.length_ns
        self.net += later.net


def flights_of(
    starts_ns: Int64s, start_devices: Ints, ends_ns: Int64s, end_devices: Ints, device_count: int,
    from_ns: int, until_ns: int,
) -> tuple[Flight, list[Flight]]:  # fmt: skip
    """Summarise the starts (ascending) and the ends (in any order) in [from_ns, until_ns): of all, and per device."""
    starts, ends = _Events(starts_ns, start_devices), _Events(ends_ns, end_devices)
    peaks = _peaks(starts, ends, device_count)
    has_integral = from_ns > FIRST_NS and until_ns < LAST_NS
    began, ended = (
        events.distances(until_ns, device_count) if has_integral else [0] * device_count
        for events in (starts, ends)
    )
    net = np.bincount(start_devices, minlength=device_count) - np.bincount(
        end_devices, minlength=device_count
    )
    length = until_ns - from_ns
    found = [
        Flight(int(net[device]), peaks[device + 1], began[device] - ended[device], length)
        for device in range(device_count)
    ]
    whole = Flight(int(net.sum()), peaks[0], sum(began) - sum(ended), length)
    return whole, found


@dataclass(frozen=True, slots=True)
class _Events:
    times: Int64s
    devices: Ints

    def of(self, which: npt.NDArray[Any]) -> "_Events":
        return _Events(self.times[which], self.devices[which])

    def distances(self, until_ns: int, device_count: int) -> list[int]:
        """Sum of the times to ``until_ns``, per device."""
        if not len(self.times):
            return [0] * device_count
        distances = until_ns - self.times
        if int(distances.max()) * len(distances) < 1 << 62:
            sums = np.zeros(device_count, dtype=np.int64)
            np.add.at(sums, self.devices, distances)
            exact: list[int] = sums.tolist()
            return exact
        return [_exact_sum(distances[self.devices == device]) for device in range(device_count)]


def _peaks(starts: _Events, ends: _Events, device_count: int) -> list[int]:
    """Most in flight above the beginning: of all, then per device."""
    if not len(starts.times):
        return [0] * (device_count + 1)
    first, last = int(starts.times[0]), int(starts.times[-1])
    if len(ends.times):
        first, last = min(first, int(ends.times.min())), max(last, int(ends.times.max()))
    # A few events to a bin: narrower bins cost memory, wider ones loosen the bound.
    wanted = max(len(starts.times) // max(2 * device_count, 6), 1)
    shift = max(((last - first) // wanted).bit_length(), 0)
    count = ((last - first) >> shift) + 1
    start_bins, end_bins = (starts.times - first) >> shift, (ends.times - first) >> shift

    def per_device(bins: Int64s, devices: Ints) -> Int64s:
        places = bins if device_count == 1 else bins + devices.astype(np.int64) * count
        return np.bincount(places, minlength=count * device_count).reshape(device_count, count)

    begun, ended = per_device(start_bins, starts.devices), per_device(end_bins, ends.devices)
    if device_count > 1:
        begun, ended = (np.concatenate([part.sum(axis=0)[None], part]) for part in (begun, ended))
    after = np.cumsum(begun - ended, axis=1)
    before = np.zeros_like(after)
    before[:, 1:] = after[:, :-1]
    found = np.maximum(after.max(axis=1), 0)
    is_open = before + begun > found[:, None]
    is_any = is_open.any(axis=0)
    if is_any.any():
        few = [np.flatnonzero(is_any[bins]) for bins in (start_bins, end_bins)]
        start_bins, end_bins = start_bins[few[0]], end_bins[few[1]]
        starts, ends = starts.of(few[0]), ends.of(few[1])
        for number in np.flatnonzero(is_open.any(axis=1)).tolist():
            mine = [is_open[number][bins] for bins in (start_bins, end_bins)]
            if number:
                mine[0] &= starts.devices == number - 1
                mine[1] &= ends.devices == number - 1
            places = np.flatnonzero(is_open[number])
            bins = np.searchsorted(places, np.concatenate([start_bins[mine[0]], end_bins[mine[1]]]))
            swept = _swept(starts.times[mine[0]], ends.times[mine[1]], before[number][places], bins)
            found[number] = max(int(found[number]), swept)
    peaks: list[int] = found.tolist()
    return peaks * 2 if device_count == 1 else peaks


def _swept(starts: Int64s, ends: Int64s, before: Int64s, bins: npt.NDArray[np.signedinteger]) -> int:
    """Most in flight in some bins: starts and ends in them, what was in flight before each, and each event's bin."""
    # The last bit of an event says which it is, so that plain sorting puts ends before starts of the same nanosecond.
    events = np.concatenate([starts * 2 + 1, ends * 2])
    order = np.argsort(events)
    events, bins = events[order], bins[order]
    depth = np.cumsum((events & 1) * 2 - 1)
    firsts = np.searchsorted(bins, np.arange(len(before)))
    base = before - np.where(firsts > 0, depth[firsts - 1], 0)
    return max(int((depth + base[bins]).max()), 0)


def _exact_sum(distances: Int64s) -> int:
    """Sum in two halves: a million distances of a day each overflow int64."""
    return (int((distances >> 31).sum()) << 31) + int((distances & ((1 << 31) - 1)).sum())
