"""Tiny recordings, made of rows written out in the test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.report import ReportFacts, write_report
from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter, Sweep
from iotrace.schemas.run import Replay

from ..recordings import IO_DEFAULTS, write_recording
from .report.report_inputs import write_night, write_sweep

MakeRecording = Callable[..., Recording]

_DEVICES = [
    {"device_id": 0, "name": "sda", "kind": "disk", "mount": "D:"},
    {"device_id": 1, "name": "sdb", "kind": "disk"},
]
_FILES = [
    {"file_id": 0, "path": "D:\\sales.mdf", "role": "data", "device_id": 0},
    {"file_id": 1, "path": "L:\\sales.ldf", "role": "log", "device_id": 1},
]
_UNORDERED_FILES = [0, 7, 90_000, -3]
"""Ids may be anything: in a list, beyond it, below it."""
_SECOND = 10**9
_PROCESSES = [{"process_id": 0, "os_process_id": 4711, "name": "sqlservr.exe"}]


@pytest.fixture
def make_recording(tmp_path: Path) -> MakeRecording:
    """Call with rows of io (a list of dicts or columns); layer, op and size default to block, read and 8 KiB."""
    number = iter(range(1000))

    def make(
        io: list[dict[str, Any]] | dict[str, Any], window_ns: int | None = None, **manifest: Any
    ) -> Recording:
        tables = {"devices": _DEVICES, "files": _FILES, "processes": _PROCESSES} | manifest.pop("tables", {})
        return write_recording(
            tmp_path / f"r{next(number)}.iotrace",
            io,
            tables=tables,
            defaults=IO_DEFAULTS | {"error": 0},
            window_end_ns=window_ns or 0,
            **manifest,
        )

    return make


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep over storage that carries 2,000 IOPS; see ``report_inputs``. Not to be changed."""
    return write_sweep(tmp_path_factory.mktemp("sweep") / "sweep.iotrace")


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A minute of production with eight slow seconds. Not to be changed."""
    return write_night(tmp_path_factory.mktemp("night") / "night.iotrace")


@pytest.fixture(scope="session")
def replayed(night: Recording, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The same minute on storage that takes half the time. Not to be changed."""
    folder = tmp_path_factory.mktemp("replayed")
    return write_night(folder / "candidate.iotrace", replay_of=night.manifest.uuid)


@pytest.fixture(scope="session")
def whole_report(
    sweep: Sweep, night: Recording, replayed: Recording, tmp_path_factory: pytest.TempPathFactory
) -> ReportFacts:
    """A report with every kind of section. Not to be changed."""
    return write_report(
        [night, replayed, sweep], tmp_path_factory.mktemp("whole") / "report.html", slo="p95<15ms"
    )


@pytest.fixture(params=[False, True], ids=["captured", "replayed"])
def unordered(request, tmp_path, monkeypatch):
    """A second of I/Os at two layers, in several row groups that overlap; some fail, some never end."""
    monkeypatch.setattr("iotrace.schemas.writer.ROW_GROUP_ROWS", 2000)
    random = np.random.default_rng(11)
    with RecordingWriter(tmp_path / "x.iotrace") as writer:
        writer.append(
            "files",
            pa.table(
                {
                    "file_id": _UNORDERED_FILES,
                    "path": list("abcd"),
                    "role": ["data", "log", "other", "backup"],
                }
            ),
        )
        for _ in range(5):
            count = 3000
            issued = random.integers(-_SECOND // 10, _SECOND, count)
            took = random.lognormal(np.log(200_000), 2, count).astype(np.int64)
            never = random.random(count) < 0.05
            columns = {
                "layer": pa.DictionaryArray.from_arrays(
                    random.integers(0, 2, count).astype(np.int8), ["block", "device"]
                ),
                "op": pa.DictionaryArray.from_arrays(
                    random.integers(0, 3, count).astype(np.int8), ["read", "write", "flush"]
                ),
                "issued_ns": issued,
                "completed_ns": pa.array(issued + took - 50_000, mask=never),
                "size_bytes": random.choice([0, 512, 4096, 4097, 65536, 1 << 20, (1 << 20) + 1], count),
                "offset_bytes": random.integers(0, 1 << 30, count),
                "device_id": pa.array(random.integers(0, 2, count).astype(np.int32), mask=never),
                "file_id": pa.array(
                    random.choice([*_UNORDERED_FILES, 5], count).astype(np.int32), mask=never
                ),
                "error": (random.random(count) < 0.05).astype(np.int32),
            }
            if request.param:
                due = issued - random.integers(0, 10_000_000, count)
                columns["intended_ns"] = pa.array(due, mask=random.random(count) < 0.05)
            writer.append("io", pa.table(columns))
        replay = Replay(scale=1.0) if request.param else None
        kind = "replayed" if request.param else "captured"
        return writer.commit(Manifest(kind, "x", Clock(0, 1.0, "test"), window_end_ns=_SECOND, replay=replay))
