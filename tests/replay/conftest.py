"""Small recordings to replay, and places to replay them on."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

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
            "layer": ["block"] * rows,
            "op": ["read"] * rows,
            "issued_ns": np.arange(rows) * 1_000_000,
            "offset_bytes": np.arange(rows) * 8192,
            "size_bytes": [8192] * rows,
            "device_id": [0] * rows,
        } | columns
        devices = sorted({device for device in io["device_id"] if device is not None})
        with RecordingWriter(tmp_path / f"{name}.iotrace") as writer:
            writer.append("io", pa.table(io))
            writer.append(
                "devices",
                pa.table(
                    {
                        "device_id": devices,
                        "name": [f"sd{'abcdef'[device]}" for device in devices],
                        "kind": ["disk"] * len(devices),
                    }
                ),
            )
            ids = sorted({int(file) for file in io.get("file_id", []) if file is not None})
            known = files or [(rf"D:\data\{file}.mdf", "data") for file in ids]
            keys = range(len(files)) if files else ids
            writer.append(
                "files",
                pa.table(
                    {
                        "file_id": pa.array(keys, pa.int32()),
                        "path": pa.array([path for path, _ in known], pa.string()),
                        "role": pa.array([role for _, role in known], pa.string()),
                        "device_id": pa.array([0] * len(known), pa.int32()),
                    }
                ),
            )
            writer.append(
                "processes",
                pa.table(
                    {
                        "process_id": pa.array(range(len(processes)), pa.int32()),
                        "os_process_id": pa.array([number for _, number in processes], pa.int64()),
                        "name": pa.array([process for process, _ in processes], pa.string()),
                    }
                ),
            )
            clock = Clock(start_utc_ns=0, resolution_ns=1, name="planted")
            last_ns = int(max(io["issued_ns"], default=0))
            return writer.commit(Manifest(kind=kind, title=name, clock=clock, window_end_ns=last_ns))

    return make


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on the checkout's file system, where direct I/O works more often than in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix=".replay-test-", dir=Path(__file__).parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
