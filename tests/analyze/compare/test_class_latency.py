"""Latencies of a class, from histograms and courses that are planted."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze import library
from iotrace.analyze.compare.class_counts import Chosen, class_latency
from iotrace.analyze.compare.class_latency import (
    ClassKey,
    ClassLatency,
    SlotCounts,
    limits_ns,
    slots_by_class,
)
from iotrace.analyze.compare.side import ComparedSide, span_of
from iotrace.analyze.stats.histogram import Histogram


def histogram(*buckets):
    """So many I/Os of each latency."""
    latency, count = (np.array(column, dtype=np.int64) for column in zip(*buckets, strict=True))
    return Histogram(latency, count, int(latency @ count), int(latency.max()))


@pytest.mark.parametrize(("buckets", "limits"), [([(500, 1)], [500] * 3), ([(7, 1), (9, 1)], [7, 9, 9])])
def test_quantiles_of_one_io_and_of_two_are_theirs(buckets, limits):
    """The quantile is the smallest latency that at least so great a share does not exceed."""
    assert limits_ns(histogram(*buckets)) == limits


def test_ios_that_took_no_time_have_a_mean_of_zero_and_a_steepness():
    course = SlotCounts(np.full(20, 50.0), np.zeros(20), np.full((20, 3), 50.0))
    one = ClassLatency(histogram((0, 1000)), course)
    assert one.value_ns("mean") == 0
    assert np.isfinite(one.steepness("mean", 0.1))
    assert one.series("mean").tolist() == [0.0] * 20


@pytest.mark.parametrize(
    ("quantity", "spread", "shares"),
    [
        ("p50", 0.25, 0.5),
        # No share is below none of the I/Os, nor above all of them.
        ("p95", 0.5, 0.55),
        ("p50", 0.6, 1.0),
        # An error that is none changes nothing.
        ("p50", 0.0, np.inf),
    ],
)
def test_the_steepness_of_a_quantile_is_the_change_of_its_logarithm_for_each_share(quantity, spread, shares):
    """From 1 ns, the shortest there is, for the first half of the I/Os to 7 ns for the others."""
    course = SlotCounts(np.full(20, 50.0), np.zeros(20), np.full((20, 3), 50.0))
    one = ClassLatency(histogram((1, 500), (7, 500)), course)
    assert one.steepness(quantity, spread) == pytest.approx(np.log(7) / shares)


@pytest.mark.parametrize(("error", "is_known"), [(-0.5, False), (-0.49, True), (0.49, True), (0.5, False)])
def test_a_quantile_whose_error_reaches_its_end_has_no_interval(error, is_known):
    """What lies beyond the fastest and the slowest I/O was not recorded."""
    one = ClassLatency(histogram((1, 500), (7, 500)), SlotCounts(np.zeros(0), np.zeros(0), np.zeros((0, 3))))
    assert (one.replicates_ns("p50", np.full(50, error)) is not None) is is_known


def test_what_lies_outside_of_the_slots_counts_in_the_nearest():
    slots = [-3, 0, 1, 2, 3, 9]
    below = pa.FixedSizeListArray.from_arrays(pa.array(range(18)), 3)
    table = pa.table(
        {
            "class_key": [0] * 6, "slot": slots, "io_count": [1, 2, 4, 8, 16, 32],
            "latency_sum_ns": [10, 20, 40, 80, 160, 320], "below_class_count": below, "below_op_count": below,
        }
    )  # fmt: skip
    classes = [{"class_key": 0, "op": "read", "role": "data", "size_class_bytes": 8192}]
    doublings = pa.table(
        {"op": ["read"] * 6, "slot": slots, "latency_bits": [3] * 6, "io_count": [1, 2, 4, 8, 16, 32]}
    )
    found = slots_by_class(table, doublings, classes, 4)
    assert found[ClassKey("read", None, None)].doubling_count[:, 3].tolist() == [3, 4, 8, 48]
    assert set(found) == {ClassKey("read", None, None), ClassKey("read", "data", 8192)}
    for course in found.values():
        assert course.io_count.tolist() == [3, 4, 8, 48]
        assert course.latency_sum_ns.tolist() == [30, 40, 80, 480]
        assert course.below_count.tolist() == [[3, 5, 7], [6, 7, 8], [9, 10, 11], [27, 29, 31]]


def test_sizes_fall_into_powers_of_two_from_4_kib_to_1_mib_and_what_is_larger(make_recording):
    sizes = [512, 4096, 4097, 8192, 1 << 20, (1 << 20) + 1]
    rows = [
        {"issued_ns": at, "completed_ns": at + 5, "size_bytes": size, "device_id": 0}
        for at, size in enumerate(sizes)
    ]
    chosen = Chosen("block", "service", (0, 10), with_roles=False)
    found = class_latency(make_recording(rows), chosen).to_pylist()
    counts = {}
    for row in found:
        counts[row["size_class_bytes"]] = counts.get(row["size_class_bytes"], 0) + row["io_count"]
    assert counts == {4096: 2, 8192: 2, 1 << 20: 1, 0: 1}


def test_the_mix_is_that_of_the_layer_within_the_span_whatever_another_layer_did(make_recording):
    """The device's I/Os all lie within the span, those of the block layer do not."""
    rows = [
        {"issued_ns": at, "completed_ns": at + 1, "layer": layer, "size_bytes": size, "device_id": 0}
        for layer, size, times in (("block", 8192, range(0, 100, 10)), ("device", 4096, range(40, 60, 2)))
        for at in times
    ]
    recording = make_recording(rows)
    with library.opened(recording) as connection:

        def ask(query_name, **parameters):
            return library.run(connection, query_name, **parameters)

        for layer, expected in (("block", {("read", 8192): 4}), ("device", {("read", 4096): 10})):
            side = ComparedSide(ask, recording, (layer, 30, 70), seed=0, number=0)
            assert side._mix() == expected


@pytest.mark.parametrize(("scale", "slot_ns"), [(1.0, 4_000_000), (2.0, 2_000_000)])
def test_slots_of_a_replay_are_shorter_as_its_load_is_denser(make_recording, scale, slot_ns):
    """960 I/Os a millisecond apart make 240 slots; what is played in step has as many, of the same I/Os."""
    at = np.arange(960) * 1_000_000
    source = make_recording({"issued_ns": at, "completed_ns": at + 1_000_000})
    replay = {"source_uuid": source.manifest.uuid, "scale": scale, "mode": "compress", "layer": "block"}
    denser = (at / scale).astype(np.int64)
    columns = {"intended_ns": denser, "issued_ns": denser, "completed_ns": denser + 1_000_000}
    played = make_recording(columns, kind="replayed", replay=replay)
    with library.opened(source) as one, library.opened(played) as other:
        asks = [partial(library.run, connection) for connection in (one, other)]
        a = ComparedSide(asks[0], source, span_of(asks[0], source), seed=0, number=0)
        b = ComparedSide(asks[1], played, span_of(asks[1], played), seed=0, number=1, alongside=a)
    assert (a.slots, b.slots) == (240, 240)
    assert (a.slot_ns, b.slot_ns) == (pytest.approx(4_000_000, rel=0.01), pytest.approx(slot_ns, rel=0.01))
