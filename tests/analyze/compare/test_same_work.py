"""Whether two recordings did the same work, what differs, and what that does to the answer."""

import numpy as np
import pytest

from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.compare.same_work import Work, check_same_work, mix_distance
from iotrace.schemas.run import run_of

MS = 1_000_000
SECOND = 1_000_000_000
PLAYED = {
    "scale": 1,
    "planned_ios": 1000,
    "planned_duration_ns": SECOND,
    "issued_span_ns": SECOND,
    "mode": "compress",
}


@pytest.mark.parametrize(
    ("mix", "span_ns", "replay", "warning"),
    [
        ({("read", 8192): 1000}, SECOND, {"scale": 1}, None),
        ({("read", 8192): 999}, SECOND, {"scale": 1}, "999 reads were replayed, 1,000 were to be"),
        ({("read", 8192): 1000}, SECOND // 2, {"scale": 2, "mode": "compress"}, None),
        ({("read", 8192): 2000}, SECOND, {"scale": 1, "repeat": 2}, None),
        (
            {("read", 8192): 1000},
            SECOND,
            {"scale": 1, "repeat": 2},
            "1,000 reads were replayed, 2,000 were to be",
        ),
        (
            {("read", 8192): 1000},
            SECOND,
            {"scale": 2, "mode": "compress", "planned_duration_ns": SECOND // 2, "issued_span_ns": SECOND},
            "issued its I/Os in 1.00 s; 500 ms were planned at 2x",
        ),
        (
            {("read", 8192): 900, ("read", 512): 100},
            SECOND,
            {"scale": 1},
            "mix of operations and sizes differs: 10 % of the I/Os",
        ),
        ({("write", 8192): 1000}, SECOND, {"scale": 1}, "0 reads were replayed, 1,000 were to be"),
        ({("write", 8192): 1000}, SECOND, None, "100 % of the I/Os have no counterpart"),
        ({("read", 8192): 1200}, SECOND, None, "rate: 1,200 I/Os per second instead of 1,000"),
        ({("read", 8192): 10_000}, 10 * SECOND, None, "length: 10.0 s instead of 1.00 s"),
        ({("read", 8192): 1000}, SECOND, PLAYED, None),
        (
            {("read", 8192): 1000},
            SECOND,
            PLAYED | {"issued_span_ns": 2 * SECOND},
            "rate: 500 I/Os per second instead of 1,000: B carried less load",
        ),
        ({("read", 8192): 1000}, SECOND, PLAYED | {"issued_span_ns": 2 * SECOND, "mode": "think"}, None),
    ],
)
def test_different_work_is_said(mix, span_ns, replay, warning):
    a, b = Work("a", "block", SECOND, {("read", 8192): 1000}), Work("b", "block", span_ns, mix)
    warnings = check_same_work(a, b, None if replay is None else run_of(replay)).warnings
    assert warnings == [] if warning is None else any(warning in words for words in warnings), warnings


@pytest.mark.parametrize(
    ("mix", "distance"),
    [({"read": 4}, 0.0), ({"read": 1, "write": 1}, 0.5), ({"write": 1}, 1.0), ({}, 0.5)],
)
def test_the_distance_of_two_mixes_is_their_total_variation(mix, distance):
    """Half the sum of what the shares differ by (Levin, Peres & Wilmer 2009, Markov Chains and Mixing Times, 4.1)."""
    a = {"read": 3}
    assert (mix_distance(a, mix), mix_distance(mix, a)) == (distance, distance)


@pytest.mark.parametrize(
    ("roles", "share"),
    [
        ({("read", "data"): 700, ("read", "tempdb_data"): 300}, None),
        ({("read", "data"): 660, ("read", "tempdb_data"): 340}, None),
        ({("read", "data"): 640, ("read", "tempdb_data"): 360}, "6 %"),
        ({("read", "data"): 100, ("read", "tempdb_data"): 900}, "60 %"),
        (None, None),
    ],
)
def test_work_that_moved_to_other_files_is_said(roles, share):
    """With the same operations and sizes: an hour in which tempdb is busy is another load."""
    a, b = (
        Work("w", "block", SECOND, {("read", 8192): 1000}, roles=one)
        for one in ({("read", "data"): 700, ("read", "tempdb_data"): 300}, roles)
    )
    found = check_same_work(a, b, None)
    said = f"the mix of roles of files differs: {share} of the I/Os have no counterpart"
    assert found.warnings == ([] if share is None else [said])
    assert check_same_work(a, b, run_of(PLAYED)).warnings == []


def test_faster_for_another_mix_of_files_alone_is_not_to_be_relied_on(make_recording):
    """Data takes 4 ms and the log 0.4 ms on both sides; of the reads 70 and 10 % are data's."""
    random = np.random.default_rng(2)

    def planted(data_share):
        issued = np.sort(random.integers(0, 60 * SECOND, 30_000))
        file = (random.random(len(issued)) >= data_share).astype(int)
        took = (np.where(file, 0.4, 4.0) * random.gamma(9, MS / 9, len(issued))).astype(np.int64)
        return make_recording(
            {"issued_ns": issued, "completed_ns": issued + took, "file_id": file.tolist()},
            window_ns=60 * SECOND,
        )

    found = compare(planted(0.7), planted(0.1))
    assert found.mix_distance == pytest.approx(0.6, abs=0.02)
    assert not found.same_work


@pytest.mark.parametrize(
    ("name", "changes", "favours"),
    [
        ("footprint", {"footprint_bytes": 50 << 20}, "b"),
        ("footprint", {"footprint_bytes": 200 << 20}, "a"),
        ("sequential reads", {"sequential_share": {"read": 0.8}}, "b"),
        ("sequential reads", {"sequential_share": {"read": 0.1}}, "a"),
        ("gaps CV", {"interarrival_cv": 1.0}, "b"),
        ("rate", {"span_ns": 2 * SECOND}, "b"),
        ("bytes per read", {"mix": {("read", 4096): 1000}}, "b"),
        ("read share", {"mix": {("read", 8192): 500, ("write", 8192): 500}}, None),
    ],
)
def test_a_difference_says_whom_it_flatters(name, changes, favours):
    work = {
        "title": "w",
        "layer": "block",
        "span_ns": SECOND,
        "mix": {("read", 8192): 1000},
        "footprint_bytes": 100 << 20,
        "sequential_share": {"read": 0.5},
        "interarrival_cv": 3.0,
    }
    found = check_same_work(Work(**work), Work(**work | changes), None)
    (aspect,) = [one for one in found.aspects if one.name == name]
    assert aspect.differs
    assert aspect.favours == favours
    assert any(aspect.meaning in words for words in found.warnings)
    assert not any(one.differs for one in check_same_work(Work(**work), Work(**work), None).aspects)


@pytest.mark.parametrize("unknown", ["planned_duration_ns", "issued_span_ns", "planned_ios"])
def test_without_the_figures_of_a_plan_no_rate_was_to_be(unknown):
    a = Work("a", "block", SECOND, {("read", 8192): 1000})
    b = Work("b", "block", 2 * SECOND, {("read", 8192): 1000})
    known, lacking = (check_same_work(a, b, run_of(PLAYED | facts)) for facts in ({}, {unknown: 0}))
    rates = [next(one for one in found.aspects if one.name == "rate") for found in (known, lacking)]
    assert [one.expected for one in rates] == [1000, None]


def test_what_was_to_be_none_at_all_is_said_as_0():
    a, b = (Work("w", "block", SECOND, {("read", 8192): 1000}, None, {"read": share}) for share in (0.0, 0.8))
    (warning,) = check_same_work(a, b, None).warnings
    assert "sequential reads: 80 % instead of 0 %" in warning


def test_scaling_says_what_footprint_and_bursts_were_to_become():
    """Three copies in addresses of their own, whose sum is more even, as the replay planned."""
    scaling = {
        "before": {"ios": 1, "span_ns": 1, "footprint_bytes": 100, "cv_interarrival": 3.0},
        "after": {"ios": 1, "span_ns": 1, "footprint_bytes": 300, "cv_interarrival": 1.8},
    }
    a = Work("a", "block", SECOND, {("read", 8192): 1000}, 100 << 20, {}, 6.0)
    b = Work("b", "block", SECOND, {("read", 8192): 3000}, 300 << 20, {}, 3.6)
    replay = {
        "scale": 3,
        "mode": "superpose",
        "copies": 3,
        "planned_by_op": {"read": 3000},
        "scaling": scaling,
    }
    assert check_same_work(a, b, None if replay is None else run_of(replay)).warnings == []


@pytest.mark.parametrize(("before", "after"), [(None, 300), (0, 300), (100, None), (100, 0), (None, None)])
def test_a_footprint_that_the_replay_did_not_know_is_to_be_the_recordings(before, after):
    figures = {"ios": 1, "span_ns": 1}
    scaling = {
        "before": figures | {"footprint_bytes": before},
        "after": figures | {"footprint_bytes": after},
    }
    a = Work("a", "block", SECOND, {("read", 8192): 1000}, 100 << 20)
    replay = run_of(PLAYED | {"scaling": scaling})
    assert check_same_work(a, a, replay).warnings == []


def _reads(make_recording, latency_ns, *, spread, every=MS, count=4000):
    source = np.random.default_rng(latency_ns)
    at = np.arange(count) * every
    return make_recording(
        {
            "issued_ns": at,
            "completed_ns": at + (latency_ns * source.lognormal(0, 0.1, count)).astype(np.int64),
            "offset_bytes": source.integers(0, spread, count) * 65536,
        },
        window_ns=count * every,
    )


def test_faster_with_less_work_is_said_to_be_flattered(make_recording):
    a = _reads(make_recording, 900_000, spread=10_000)
    easier = compare(a, _reads(make_recording, 300_000, spread=100)).verdicts[0]
    assert easier.direction == "faster"
    assert easier.reservation == "B had it easier (footprint): this may flatter it."
    harder = compare(a, _reads(make_recording, 300_000, spread=10_000, every=MS // 2)).verdicts[0]
    assert harder.direction == "faster"
    assert "harder (rate) and is faster all the same" in harder.reservation
    alike = compare(a, _reads(make_recording, 300_000, spread=10_000)).verdicts[0]
    assert alike.reservation == ""


def test_footprint_and_order_are_counted(make_recording):
    """100 reads of 64 KiB one after another, then 100 back at the start: 100 blocks, 198 in sequence."""
    rows = [
        {
            "issued_ns": i * MS,
            "completed_ns": i * MS + 1000,
            "offset_bytes": (i % 100) << 16,
            "size_bytes": 65536,
        }
        for i in range(200)
    ]
    side = compare(make_recording(rows), make_recording(rows)).a
    assert side.footprint_bytes == 100 * 65536
    assert side.sequential_share == {"read": 198 / 200}
    assert side.interarrival_cv == pytest.approx(0, abs=1e-6)


def test_what_a_workload_lacks_has_no_size_and_what_moved_nothing_no_share():
    reads = Work("reads", "block", SECOND, {("read", 8192): 3, ("read", 4096): 1, ("flush", 0): 2})
    assert (reads.bytes_per("read"), reads.bytes_per("write")) == (7168, None)
    assert (reads.read_share(), reads.ios_per_s(), reads.size_bytes()) == (1.0, 4.0, 28_672)
    flushes = Work("flushes", "block", 0, {("flush", 0): 2})
    assert (flushes.read_share(), flushes.ios_per_s(), flushes.bytes_per("flush")) == (None, 0.0, 0.0)


@pytest.mark.parametrize(
    ("mix", "share"),
    [({("write", 8192): 9}, 0.0), ({("read", 512): 1, ("write", 8192): 3}, 0.25), ({("flush", 0): 3}, None)],
)
def test_the_share_of_reads_is_of_reads_and_writes(mix, share):
    assert Work("w", "block", SECOND, mix).read_share() == share
