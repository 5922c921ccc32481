"""The flight recorder as a service, from its installation to its removal, under Wine.

The service manager is Wine's. It knows no delayed start, and no restart after a failure of the service's own: the
agent says that they were refused.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

from . import plays, windows
from .plays import HERTZ, READ
from .windows import Host, windows_path

pytestmark = [pytest.mark.xdist_group("wine"), pytest.mark.slow]


def test_the_service_is_installed_runs_makes_a_recording_and_is_removed(
    host: Callable[..., Host], tmp_path: Path
) -> None:
    reads = b"".join(
        plays.disk_io(READ, ticks=(place + 1) * HERTZ // 100, key=0xA000) for place in range(1500)
    )
    machine = host(reads, lost_events=7, lost_after=300)
    machine.prefix = windows.BUILT / "wine-service"
    kept = tmp_path / "kept"
    words = [
        "--output", windows_path(kept), "--last", "1m", "--after", "2s", "--when", "lost > 0", "--most", "1",
    ]  # fmt: skip
    with windows.services_of(machine):
        absent = machine.run("service", "status")
        assert (absent.status, absent.out.strip()) == (1, "the service is not installed")
        gone = machine.run("service", "remove")
        assert gone.status == 2
        assert gone.error.startswith("error: the service iotrace-agent is not installed")

        installed = machine.run("service", "install", *words)
        assert installed.status == 0, installed
        assert "installed and started the service" in installed.error
        again = machine.run("service", "install", *words)
        assert again.status == 2
        assert "installed already" in again.error
        assert "service remove" in again.error
        running = machine.run("service", "status")
        assert (running.status, running.out.strip()) == (0, "the service runs")
        assert machine.sessions >= {"iotrace-agent"}

        until = time.monotonic() + 120
        while not any(kept.glob("incident-*")) and time.monotonic() < until:
            time.sleep(0.5)
        removed = machine.run("service", "remove")
        assert removed.status == 0, removed
        assert machine.run("service", "status").status == 1
        assert machine.sessions == set()

    (folder,) = list(kept.iterdir())
    recording = import_files([folder], tmp_path / "kept.iotrace")
    assert validate(recording.path) == []
    assert recording.manifest.quality.events_lost == 7
    assert recording.read("io").num_rows > 300
