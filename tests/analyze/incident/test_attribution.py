"""Whose time it was, from sums and layers that are planted."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.incident.attribution import Blame, _Grown, _Sum, _time, _typical, layer_times
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


def test_of_times_of_a_nanosecond_the_level_is_as_that_of_any():
    """A model that states limits only says that its I/Os wait for none."""
    assert _typical(np.array([1.0, 4.0]), np.ones(2), np.ones(2, dtype=bool)) == pytest.approx(2.0)


def test_what_grew_by_a_nanosecond_grew():
    grown = _Grown("block", 1.0, 2.0, 10)
    assert _time(grown, [], grown).share == 1.0


def test_rates_of_several_windows_are_over_all_of_their_time():
    """Fifty I/Os in a window of two seconds and one of three are ten a second."""
    windows_ns = [(0, 2 * SECOND), (50 * SECOND, 90 * SECOND), (5 * SECOND, 8 * SECOND)]
    sums = {"a": _Sum(50, 0, 50, 0)}, {"a": _Sum(0, 0, 0, 0), "b": _Sum(1, 0, 1, 0)}
    told = SimpleNamespace(
        _windows_ns=windows_ns, _normal_s=100.0, _sums=lambda *_: sums, _work=lambda _layer: None
    )
    rows = Blame.of(told, [0, 2], by_load=True, layer="block")
    assert {row.slow_ios_per_s for row in rows if row.name == "a"} == {10.0}
