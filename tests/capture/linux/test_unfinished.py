"""What is left of recordings that were cut off, where it is nothing."""

import pytest

from iotrace.capture.linux import recover
from iotrace.schemas import Clock, GrowingRecording, IotraceError, Manifest, Recording

from ...recordings import write_recording


def left_of(path, *, rows):
    """What a writer that is gone left of another recording of that name."""
    with GrowingRecording.create(path, overwrite=True) as growing:
        if rows:
            growing.append("io", Recording.open(path).read("io"))
        growing.flush(Manifest("captured", "cut off", Clock(0, 1, "test")))


def test_a_remainder_without_rows_does_not_replace_a_recording(tmp_path):
    path = tmp_path / "r.iotrace"
    write_recording(path, {"issued_ns": [1, 2], "completed_ns": [3, 4]})
    before = Recording.open(path).manifest.uuid
    left_of(path, rows=False)
    with pytest.raises(IotraceError) as caught:
        recover(path, overwrite=True)
    assert "holds no I/O, no counters and no waits: the recording of that name stays" in caught.value.message
    assert Recording.open(path).manifest.uuid == before
    (path.parent / "r.iotrace.unfinished").rename(tmp_path / "other.iotrace.unfinished")
    assert recover(tmp_path / "other.iotrace").manifest.title == "cut off"
    left_of(path, rows=True)
    assert recover(path, overwrite=True).manifest.rows["io"] == 2
