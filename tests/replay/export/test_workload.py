"""What a recording is to a load tool, on planted recordings whose classes are known."""

from collections.abc import Callable

import numpy as np
import pytest

from iotrace.replay.export import measure, parse_targets
from iotrace.replay.export.workload import coverage, dominant, outstanding
from iotrace.schemas import IotraceError, Recording

MakeRecording = Callable[..., Recording]


def test_classes_have_their_rate_and_are_told_apart(make_recording: MakeRecording) -> None:
    # Each millisecond for a second: a random read of 8 KiB of a data file; every other one a log write of 4 KiB in
    # sequence as well.
    reads, writes = 1000, 500
    random = np.random.default_rng(1)
    places = random.permutation(100_000)[:reads] * 16_384
    workload = measure(
        make_recording(
            files=[("D:\\a.mdf", "data"), ("L:\\a.ldf", "log")],
            op=["read"] * reads + ["write"] * writes,
            issued_ns=np.concatenate([np.arange(reads) * 1_000_000, np.arange(writes) * 2_000_000]),
            completed_ns=np.concatenate(
                [np.arange(reads) * 1_000_000 + 3_000_000, np.arange(writes) * 2_000_000 + 500_000]
            ),
            offset_bytes=np.concatenate([places, np.arange(writes) * 4096]),
            size_bytes=[8192] * reads + [4096] * writes,
            file_id=[0] * reads + [1] * writes,
        )
    )
    data, log, first = workload.classes
    assert (data.group, data.op, data.size_bytes, data.pattern, data.ios) == (
        "data",
        "read",
        8192,
        "random",
        1000,
    )
    assert (log.group, log.op, log.size_bytes, log.pattern, log.ios) == (
        "log",
        "write",
        4096,
        "sequential",
        499,
    )
    assert (first.pattern, first.ios) == ("random", 1)
    # 1,000 a second, each 3 ms long: three in flight (Little).
    assert data.in_flight == pytest.approx(3, rel=0.01)
    assert workload.seconds == pytest.approx(1, rel=0.01)
    assert workload.touched_bytes == {"data": 1000 * 8192, "log": 500 * 4096}
    assert workload.read_share == pytest.approx(2 / 3)


def test_a_log_that_rewrites_its_last_page_is_one_stream(make_recording: MakeRecording) -> None:
    offsets = np.cumsum([0, *[8192, 0, 8192] * 20])
    recording = make_recording(
        files=[("pg_wal", "log")],
        op=["write"] * 61,
        issued_ns=np.arange(61) * 1_000_000,
        offset_bytes=offsets,
        size_bytes=[16_384] * 61,
        file_id=[0] * 61,
    )
    assert {one.pattern: one.ios for one in measure(recording).classes} == {"sequential": 60, "random": 1}


def test_what_no_tool_can_be_told_is_counted(make_recording: MakeRecording) -> None:
    workload = measure(
        make_recording(
            op=["read", "flush", "discard", "write"],
            issued_ns=[0, 1, 2, 3],
            offset_bytes=[0, 0, 0, 100],
            size_bytes=[512, 0, 512, 700],
        )
    )
    assert dict(workload.left_out) == {"flushes": 1, "discards": 1}
    # 100 to 800 lie in two sectors.
    assert workload.widened_ios == 1
    assert [one.size_bytes for one in workload.classes if one.op == "write"] == [1024]


def test_the_window_is_the_time_the_rate_is_over(make_recording: MakeRecording) -> None:
    workload = measure(make_recording(op=["read"] * 1000), window_ns=(0, 2_000_000_000))
    assert (workload.ios, workload.seconds) == (1000, 2.0)


def test_flushes_alone_are_no_load(make_recording: MakeRecording) -> None:
    with pytest.raises(IotraceError, match="no reads or writes to export"):
        measure(make_recording(op=["flush"], issued_ns=[0], size_bytes=[0]))


def test_the_dominant_classes_cover_what_they_say(make_recording: MakeRecording) -> None:
    # 90 of 100 I/Os are small; the 10 large ones hold most bytes; one is neither.
    sizes = [8192] * 89 + [1 << 20] * 10 + [4096]
    workload = measure(make_recording(op=["read"] * 100, size_bytes=sizes, offset_bytes=np.arange(100) << 22))
    one, both = dominant(workload, 1), dominant(workload, 16)
    assert [entry.size_bytes for entry in both] == [1 << 20, 8192]
    assert coverage(workload, one).ios == 0.10
    assert coverage(workload, both).ios == 0.99
    assert coverage(workload, both).bytes == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize(("in_flight", "expected"), [(0, 4), (0.3, 4), (1.1, 8), (3, 16), (1000, 256)])
def test_room_in_flight(in_flight: float, expected: int) -> None:
    assert outstanding(in_flight) == expected


def test_targets_are_for_all_or_for_a_group() -> None:
    groups = ["data", "log"]
    assert parse_targets([r"D:\x.dat", r"log=L:\a=b.dat"], groups) == {
        None: r"D:\x.dat",
        "log": r"L:\a=b.dat",
    }
    assert parse_targets(["/mnt/a=b"], groups) == {None: "/mnt/a=b"}
    assert parse_targets(["./lgo=b"], groups) == {None: "./lgo=b"}
    for words in (["a", "b"], ["log=a", "log=b"], ["log="], ["a\nb"], ["lgo=/dev/sdb"]):
        with pytest.raises(IotraceError, match="--target"):
            parse_targets(words, groups)


def test_the_rate_of_a_single_moment_is_that_over_the_recording(make_recording: MakeRecording) -> None:
    """Two reads at once, the last thing in four seconds: not two in a nanosecond."""
    recording = make_recording(issued_ns=[4_000_000_000] * 2, completed_ns=[4_000_100_000] * 2)
    assert measure(recording).seconds == 4.0
