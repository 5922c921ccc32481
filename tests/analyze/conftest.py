"""Tiny recordings, made of rows written out in the test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotrace.analyze.report import ReportFacts, write_report
from iotrace.schemas import Recording, Sweep

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
