"""A recording shared out among generators: every I/O goes to one, streams and logs stay whole."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.replay.options import Shard
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.shards import share_out
from iotrace.replay.plan.source import Source
from iotrace.schemas import IotraceError, Recording

from ..conftest import MakeRecording

RANDOM = np.random.default_rng(20)
ROWS = 4000


@pytest.fixture
def source(make_recording: MakeRecording) -> Recording:
    """Twelve threads on a data file; log writes of all of them on a log."""
    is_log = RANDOM.random(ROWS) < 0.2
    return make_recording(
        files=[(r"D:\a.mdf", "data"), (r"E:\a.ldf", "log")],
        op=["write" if log else "read" for log in is_log],
        issued_ns=np.sort(RANDOM.integers(0, 200_000_000, ROWS)),
        completed_ns=np.full(ROWS, 300_000_000),
        offset_bytes=RANDOM.integers(0, 1000, ROWS) * 8192,
        file_id=is_log.astype(np.int32),
        thread_id=RANDOM.geometric(0.3, ROWS).astype(np.int32) % 12,
    )


def played(
    source: Recording, disk: Path, number: int, weights: tuple[float, ...], **words: object
) -> Recording:
    options = ReplayOptions(targets=(str(disk / f"{number}.bin"),), shard=Shard(number, weights), **words)
    return replay(source, disk / f"{number}-{len(words)}.iotrace", options)


def ios_of(recording: Recording, *names: str) -> Counter[tuple[object, ...]]:
    table = recording.read("io", list(names))
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_every_io_is_played_by_exactly_one_when_it_was_planned(source: Recording, disk: Path) -> None:
    weights = (1.0, 1.0, 1.0)
    parts = [played(source, disk, number, weights) for number in range(3)]
    whole = replay(source, disk / "whole.iotrace", ReplayOptions(targets=(str(disk / "whole.bin"),)))
    columns = ("intended_ns", "op", "size_bytes", "file_id", "thread_id")
    assert sum((ios_of(part, *columns) for part in parts), Counter()) == ios_of(whole, *columns)


def test_streams_and_logs_stay_whole(source: Recording, disk: Path) -> None:
    parts = [played(source, disk, number, (1.0, 1.0, 1.0)) for number in range(3)]
    threads: list[set[object]] = []
    logs = 0
    for part in parts:
        table = part.read("io", ["thread_id", "file_id"]).to_pylist()
        threads.append({row["thread_id"] for row in table if row["file_id"] == 0})
        logs += any(row["file_id"] == 1 for row in table)
    assert not threads[0] & threads[1]
    assert not threads[0] & threads[2]
    assert not threads[1] & threads[2]
    assert logs == 1


def test_copies_are_turned_alike_everywhere(source: Recording, disk: Path) -> None:
    """Superposed copies are shifted at random: all generators have to shift them by the same."""
    words = {"mode": "superpose", "scale": 2.0}
    parts = [played(source, disk, number, (1.0, 1.0), **words) for number in range(2)]
    whole = replay(source, disk / "whole.iotrace", ReplayOptions(targets=(str(disk / "whole.bin"),), **words))
    columns = ("intended_ns", "op", "size_bytes", "file_id", "thread_id", "copy")
    assert sum((ios_of(part, *columns) for part in parts), Counter()) == ios_of(whole, *columns)


def test_shares_are_as_even_as_whole_streams_allow(make_recording: MakeRecording) -> None:
    """100 threads of 10 I/Os each, for weights of 3 to 1."""
    source = make_recording(thread_id=np.repeat(np.arange(100), 10).astype(np.int32))
    options = ReplayOptions(targets=("x",))
    shares = share_out(Source.open(source, select(source, options)), options, (3.0, 1.0))
    assert shares.ios.tolist() == [750, 250]


def test_too_few_streams_are_refused(make_recording: MakeRecording) -> None:
    source = make_recording(thread_id=np.zeros(10, np.int32), issued_ns=np.arange(10))
    options = ReplayOptions(targets=("x",))
    with pytest.raises(IotraceError, match="1 streams, too few for 2 generators"):
        share_out(Source.open(source, select(source, options)), options, (1.0, 1.0))


def test_what_waits_for_what_cannot_be_shared_out(source: Recording) -> None:
    with pytest.raises(IotraceError, match="different machines"):
        ReplayOptions(targets=("x",), mode="think", shard=Shard(0, (1.0, 1.0))).check()
