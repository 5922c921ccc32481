"""Whose time it was, from sums and layers that are planted."""

import numpy as np
import pytest

from iotrace.analyze.incident.attribution import _Sum, layer_times
from iotrace.analyze.incident.series import LayerSlots, Slots, Stream

SECOND = 1_000_000_000
WORK = [
    {"io_count": 3, "size_bytes": 24_576, "measured_count": 2, "latency_sum_ns": 5_000_000},
    {"io_count": 1, "size_bytes": 512, "measured_count": 1, "latency_sum_ns": 70_000},
]


def test_what_is_taken_in_adds_up_and_can_be_taken_out_again():
    found = _Sum()
    for row in WORK:
        found.add(row)
    assert found == _Sum(4, 25_088, 3, 5_070_000)
    for row in WORK:
        found.add(row, -1)
    assert found == _Sum()


def layer(name, latency_ns, slots=40):
    """Ten reads in each slot."""
    counts = np.full((1, slots), 10.0)
    zero = np.zeros_like(counts)
    return LayerSlots(
        name, [Stream(name, "read")], counts, zero, counts, zero, zero, counts * latency_ns, counts, zero
    )


def times_of(window, **latencies_ns):
    is_normal = np.ones(40, dtype=bool)
    is_normal[slice(*window)] = False
    layers = {name: layer(name, latency_ns) for name, latency_ns in latencies_ns.items()}
    return layer_times(Slots(0, SECOND, 40, layers), window, is_normal, [])


def test_where_no_time_was_added_no_layer_has_a_share_of_it():
    """In the file system reads took 1 ms in the window as outside of it; in the disk below they took less."""
    disk_ns = np.where(np.arange(40) < 20, 400_000.0, 500_000.0)
    times = times_of((0, 20), filesystem=1_000_000.0, block=disk_ns)
    assert [(time.layer, time.share) for time in times] == [("filesystem", None), ("block", None)]


def test_what_took_no_time_at_all_is_left_out_of_the_level():
    """The level is a geometric mean, which a single 0 among the factors would make 0."""
    latency_ns = np.where(np.arange(40) < 20, 3e6, 1e6)
    latency_ns[[5, 30]] = 0.0
    (time,) = times_of((0, 20), block=latency_ns)
    assert (time.normal_ns, time.slow_ns) == pytest.approx((1e6, 3e6))
