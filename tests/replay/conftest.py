"""Small recordings to replay, and places to replay them on."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrace.schemas import Clock, Recording

from ..recordings import write_recording

MakeRecording = Callable[..., Recording]


@pytest.fixture
def make_recording(tmp_path: Path) -> MakeRecording:
    """Write a recording whose ``io`` table has the columns given; what is not given is a read of 8 KiB on device 0.

    ``files`` are paths and roles, ``processes`` names and numbers, whose keys count from 0.
    """

    def make(
        name: str = "source",
        files: Sequence[tuple[str, str]] = (),
        processes: Sequence[tuple[str, int]] = (),
        kind: str = "synthetic",
        **columns: Any,
    ) -> Recording:
        rows = max((len(column) for column in columns.values()), default=0)
        io: dict[str, Any] = {
            "issued_ns": np.arange(rows) * 1_000_000,
            "offset_bytes": np.arange(rows) * 8192,
            "device_id": [0] * rows,
        } | columns
        devices = sorted({device for device in io["device_id"] if device is not None})
        ids = sorted({int(file) for file in io.get("file_id", []) if file is not None})
        known = files or [(rf"D:\data\{file}.mdf", "data") for file in ids]
        tables = {
            "devices": {
                "device_id": devices, "name": [f"sd{'abcdef'[device]}" for device in devices], "kind": "disk",
            },
            "files": {
                "file_id": pa.array(range(len(files)) if files else ids, pa.int32()),
                "path": pa.array([path for path, _ in known], pa.string()),
                "role": pa.array([role for _, role in known], pa.string()),
                "device_id": pa.array([0] * len(known), pa.int32()),
            },
            "processes": {
                "process_id": pa.array(range(len(processes)), pa.int32()),
                "os_process_id": pa.array([number for _, number in processes], pa.int64()),
                "name": pa.array([process for process, _ in processes], pa.string()),
            },
        }  # fmt: skip
        return write_recording(
            tmp_path / f"{name}.iotrace",
            io,
            tables=tables,
            kind=kind,
            title=name,
            clock=Clock(start_utc_ns=0, resolution_ns=1, name="planted"),
            window_end_ns=int(max(io["issued_ns"], default=0)),
        )

    return make


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on the checkout's file system, where direct I/O works more often than in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix=".replay-test-", dir=Path(__file__).parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
