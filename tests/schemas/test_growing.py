"""A recording that grows: what a killed writer leaves at any moment becomes a recording."""

import errno
import os
import subprocess
import sys

import pytest

from iotrace.capture.linux import recover
from iotrace.schemas import GrowingRecording, IotraceError, validate
from iotrace.schemas.growing import _link_or_copy

WRITER = """
import os, sys
import pyarrow as pa
from iotrace.schemas import Clock, GrowingRecording, Manifest
growing = GrowingRecording.create(sys.argv[1])
disk = {"device_id": 0, "name": "sda", "kind": "disk", "size_bytes": 1 << 30, "logical_block_bytes": 512}
growing.replace("devices", pa.Table.from_pylist([disk]))
row = {"layer": "block", "op": "read", "issued_ns": 5, "completed_ns": 9, "offset_bytes": 0, "size_bytes": 4096}
growing.append("io", pa.Table.from_pylist([row | {"device_id": 0}]))
growing.flush(Manifest("captured", "killed", Clock(0, 1.0, "test"), window_end_ns=10))
os._exit(1)
"""


@pytest.mark.parametrize("name", ["manifest.json", "devices.parquet", "io/part-00000000.parquet"])
def test_killed_while_a_small_file_is_replaced(name, tmp_path):
    """The file that was to take its place is there, whole or not."""
    path = tmp_path / "r.iotrace"
    subprocess.run([sys.executable, "-c", WRITER, path], check=False)
    whole = path.with_name("r.iotrace.unfinished") / name
    whole.parent.mkdir(exist_ok=True)
    whole.with_name(f".{whole.name}.new").write_bytes(b"{")
    recovered = recover(path)
    assert recovered.read("io", ["completed_ns"])["completed_ns"].to_pylist() == [9]
    assert validate(path) == []
    assert not [file for file in path.rglob("*") if file.name.startswith(".")]


def test_whether_its_writer_lives_is_said_to_who_wants_its_name(tmp_path):
    path = tmp_path / "r.iotrace"
    alive = GrowingRecording.create(path)
    with pytest.raises(IotraceError, match="is being recorded just now"):
        GrowingRecording.create(path)
    alive.discard()
    subprocess.run([sys.executable, "-c", WRITER, path], check=False)
    with pytest.raises(IotraceError, match="was cut off"):
        GrowingRecording.create(path)


def test_a_copy_on_another_file_system_is_made_where_links_cannot_be(tmp_path, monkeypatch):
    """What cannot be linked is copied; what has gone meanwhile is said to have."""

    def no_link(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    (tmp_path / "part.parquet").write_bytes(b"rows")
    _link_or_copy(tmp_path / "part.parquet", tmp_path / "copy.parquet")
    assert (tmp_path / "copy.parquet").read_bytes() == b"rows"
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        _link_or_copy(tmp_path / "gone.parquet", tmp_path / "other.parquet")
