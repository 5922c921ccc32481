"""What `iotrace incident` makes of the recording that the flight recorder kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files

from .windows import AGENT, BUILT

TESTS = BUILT / "obj" / "bin" / "iotrace-agent.Tests" / "release" / "iotrace-agent.Tests.dll"
SECOND = 1_000_000_000


@pytest.mark.slow
def test_the_hang_that_was_planted_in_ten_hours_is_the_one_slow_window(tmp_path: Path) -> None:
    if not TESTS.exists():
        pytest.skip(f"{TESTS} is not built: make agent-test builds it, with a .NET 10 SDK")
    played = subprocess.run(
        ["sh", AGENT / "with-dotnet.sh", "dotnet", TESTS, "-method", "*A_hang_of_half_a_minute*"],
        env=os.environ | {"IOTRACE_KEPT": str(tmp_path / "kept")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout
    recording = import_files([tmp_path / "kept"], tmp_path / "kept.iotrace")
    told = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", "incident", recording.path, "--json"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    (window,) = json.loads(told.stdout)["windows"]
    # Five hours in nothing was completed for 30 s; what was issued then took 30 s.
    assert (window["start_ns"], window["end_ns"]) == (18_001 * SECOND, 18_031 * SECOND)
    assert (window["layer"], window["cause"]) == ("block", "service-driven")
