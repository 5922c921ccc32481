"""A live recording keeps within its greatest size however much comes at once."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.capture.linux.limits import Keeper
from iotrace.schemas import TABLES, Clock, GrowingRecording, Manifest, growing, validate
from iotrace.schemas.streams import StreamFile, stream_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder is Linux's")

MAX_BYTES = 2_000_000
LOOKS = 5
SECOND = 1_000_000_000
MANIFEST = Manifest("captured", "planted", Clock(0, 1.0, "test"))


def ios(rows: int, from_ns: int, seed: int = 0) -> pa.Table:
    """Rows that compress badly, in one second; those that began first end last."""
    random = np.random.default_rng(seed)
    table = pa.table(
        {
            "layer": pa.array(["block"] * rows, pa.string()).dictionary_encode(),
            "op": pa.array(["read"] * rows, pa.string()).dictionary_encode(),
            "issued_ns": from_ns + np.sort(random.integers(0, SECOND // 2, rows)),
            "completed_ns": from_ns + SECOND - 1 - np.arange(rows, dtype="int64") * 1000,
            "offset_bytes": random.integers(0, 1 << 62, rows, dtype="uint64"),
            "size_bytes": random.integers(0, 1 << 31, rows, dtype="uint32"),
        }
    )
    columns = [
        table[name].cast(TABLES["io"].field(name).type)
        if name in table.column_names
        else pa.array([0] * rows, TABLES["io"].field(name).type)
        for name in TABLES["io"].names
        if name not in {"device_id", "file_id", "process_id"}
    ]
    names = [name for name in TABLES["io"].names if name not in {"device_id", "file_id", "process_id"}]
    return pa.table(columns, names=names)


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.name != "reserve")


@pytest.fixture
def sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size after whatever made the recording larger."""
    found: list[int] = []

    def measured(function):
        def call(*words, **options):
            result = function(*words, **options)
            found.append(on_disk(tmp_path))
            return result

        return call

    for name in ("flush", "encode"):
        monkeypatch.setattr(growing._Table, name, measured(getattr(growing._Table, name)))
    monkeypatch.setattr(GrowingRecording, "replace", measured(GrowingRecording.replace))
    return found


def record(path: Path, keeper_of, burst_rows: int):
    """A few quiet seconds, one that brings ``burst_rows``, and one more read that comes when it is over."""
    with GrowingRecording.create(path) as grown:
        keeper = keeper_of(grown)
        for second in range(LOOKS):
            grown.append_fast("io", keeper.admit(ios(1000, second * SECOND, second)))
            keeper.keep((second + 1) * SECOND, MANIFEST)
        assert not keeper.is_full
        for at in (LOOKS, LOOKS + 1):
            grown.append_fast("io", keeper.admit(ios(burst_rows, at * SECOND, at)))
        keeper.keep((LOOKS + 2) * SECOND, MANIFEST)
        return keeper, grown.commit(MANIFEST)


def test_more_at_once_than_there_is_room_for(tmp_path: Path, sizes: list[int]) -> None:
    """Some 10 MB in a second in which 2 MB are allowed."""
    rows = 100_000
    keeper, recording = record(
        tmp_path / "r.iotrace", lambda grown: Keeper(grown, max_bytes=MAX_BYTES, ring_ns=None), rows
    )
    assert max(sizes) <= MAX_BYTES
    assert keeper.is_full
    assert validate(recording.path) == []
    ended = recording.read("io", ["completed_ns"])["completed_ns"].to_numpy()
    assert len(ended) == LOOKS * 1000 + 2 * rows - keeper.left_out
    # Whole until it ends: every I/O that ended before then, and none after.
    assert LOOKS * SECOND < keeper.end_ns < (LOOKS + 1) * SECOND
    planned = np.concatenate([ios(1000, at * SECOND, at)["completed_ns"] for at in range(LOOKS)])
    burst = ios(rows, LOOKS * SECOND, LOOKS)["completed_ns"].to_numpy()
    planned = np.concatenate([planned, burst[burst < keeper.end_ns]])
    assert sorted(ended) == sorted(planned)
    # The bound is used: less is left than the part, beside its tail, and what finishing takes.
    assert max(sizes) > MAX_BYTES / 2


def test_in_a_ring_the_oldest_makes_way_first(tmp_path: Path, sizes: list[int], monkeypatch) -> None:
    monkeypatch.setattr("iotrace.capture.linux.limits._RING_PIECE_NS_MIN", SECOND)
    keeper, recording = record(
        tmp_path / "r.iotrace",
        lambda grown: Keeper(grown, max_bytes=MAX_BYTES // 2, ring_ns=20 * SECOND),
        2000,
    )
    assert max(sizes) <= MAX_BYTES // 2
    assert keeper.window_start_ns > 0
    assert keeper.left_out == 0
    ended = recording.read("io", ["completed_ns"])["completed_ns"].to_numpy()
    assert (ended >= LOOKS * SECOND).sum() == 4000


@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_a_stream_takes_no_more_than_foretold(tmp_path: Path, rows: int) -> None:
    io = ios(2000, 0).slice(13, rows)
    stream = StreamFile(tmp_path / "tail.arrows", io.schema)
    stream.write([io])
    stream.close()
    assert stream_bytes(io) - 8192 < (tmp_path / "tail.arrows").stat().st_size <= stream_bytes(io)
