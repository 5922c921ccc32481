"""The plan as a whole: passes, loops and ramps, what it says of itself before it is made and after."""

import numpy as np
import pytest

from iotrace.schemas import IoFlags, IotraceError

from .planning import plan_of

MS = 1_000_000


@pytest.fixture
def four(make_recording):
    """Reads at 0, 1, 2 and 3 ms, the last one a write: with a mean gap behind it a pass takes 4 ms."""
    return make_recording(op=["read", "read", "read", "write"], size_bytes=[4096, 8192, 4096, 512])


def due(table):
    return table["intended_ns"].to_pylist()


def test_passes_follow_one_another_with_a_mean_gap_between(four):
    plan, rows = plan_of(four, repeat=3)
    assert due(rows) == [at * MS for at in range(12)]
    assert (plan.planned_ios, plan.ios_estimate, plan.length_ns, plan.last_ns) == (12, 12, 12 * MS, 11 * MS)
    assert plan.planned_by_op == {"read": 9, "write": 3, "flush": 0}


def test_the_scale_divides_the_pass_as_it_divides_the_times(four):
    plan, rows = plan_of(four, repeat=2, scale=2.0)
    assert due(rows) == [at * MS // 2 for at in range(8)]
    assert plan.length_ns == 4 * MS


@pytest.mark.parametrize(("seconds", "ios", "repeat"), [(0.010, 10, 3), (0.008, 8, 2), (0.0005, 1, 1)])
def test_a_loop_for_a_time_ends_in_the_middle_of_a_pass(four, seconds, ios, repeat):
    """What is due at its end is beyond it."""
    plan, rows = plan_of(four, loop_seconds=seconds)
    assert (rows.num_rows, plan.repeat) == (ios, repeat)
    assert due(rows)[-1] < seconds * 1e9
    assert plan.ios_estimate == pytest.approx(ios, abs=1)


def test_a_window_is_played_with_the_idle_time_in_it(four):
    plan, rows = plan_of(four, window_ns=(-2 * MS, 10 * MS), repeat=2)
    assert due(rows) == [at * MS for at in (2, 3, 4, 5, 14, 15, 16, 17)]
    assert plan.length_ns == 24 * MS


def test_the_greatest_sizes_are_those_of_reads_and_writes_widened_to_blocks(four):
    """A place is widened at both ends: 8 KiB may touch three blocks of 4 KiB, 512 bytes two."""
    plan, _ = plan_of(four, block_bytes=4096)
    assert (plan.read_bytes_max, plan.write_bytes_max) == (3 * 4096, 2 * 4096)
    assert plan_of(four)[0].write_bytes_max == 2 * 512


def test_only_what_the_source_meant_is_carried_over(make_recording):
    """That an I/O was merged on its way is no fact about the replay; that it was to be durable is."""
    meant, travelled = IoFlags.WRITE_THROUGH | IoFlags.PREFLUSH, IoFlags.MERGED
    recording = make_recording(op=["write", "read"], flags=np.array([int(meant | travelled)] * 2, np.uint32))
    _, rows = plan_of(recording)
    assert rows["flags"].to_pylist() == [int(meant)] * 2
    assert rows["durable"].to_pylist() == [True, False]
    assert rows["preflush"].to_pylist() == [True, False]


def test_a_moved_io_is_marked_and_counted(make_recording):
    plan, rows = plan_of(make_recording(offset_bytes=[0, 512], size_bytes=[4096, 4096]), block_bytes=4096)
    assert [bool(flags & IoFlags.ADJUSTED) for flags in rows["flags"].to_pylist()] == [False, True]
    assert plan.adjusted_ios == 1
    assert (rows["offset_bytes"].to_pylist()[1], rows["size_bytes"].to_pylist()[1]) == (0, 8192)


def test_a_ramp_is_left_out_of_the_shape_of_the_load(four):
    """With a ramp as long as two passes, four passes keep the I/Os behind it in the table of the load."""
    plan, rows = plan_of(four, repeat=4, ramp_seconds=0.008)
    assert rows.num_rows == 16
    behind = sum(at >= 8 * MS for at in due(rows))
    assert 0 < behind < 16
    assert plan.describe()["scaling"].after.ios == behind


def test_a_moment_cannot_be_looped_for_hours(make_recording):
    from iotrace.replay.options import ReplayOptions
    from iotrace.replay.plan.schedule import refuse_endless_loop
    from iotrace.replay.plan.selection import select
    from iotrace.replay.plan.source import Source
    from iotrace.replay.plan.survey import survey

    recording = make_recording(issued_ns=[5])
    asked = ReplayOptions(targets=("t",), loop_seconds=3600)
    source = Source.open(recording, select(recording, asked), file_by_file=False)
    with pytest.raises(IotraceError, match="more than 1,000,000 times"):
        refuse_endless_loop(source, survey(source), asked)
