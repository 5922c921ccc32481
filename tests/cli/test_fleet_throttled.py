"""Two generators on one device of known capacity: the sweep has to find what both have together."""

import json
import subprocess
from pathlib import Path

import pytest

from .fleets import IOTRACE, Processes, many_threads, write_plan
from .test_throttled_device import IOPS, loop_device, throttled_group

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.xdist_group("root")]

__all__ = ["loop_device", "throttled_group"]

SCHEDULER = "tcp://127.0.0.1:18786"


def test_the_knee_of_a_shared_device_is_what_all_have_together(
    loop_device: str,
    throttled_group: Path,
    tmp_path: Path,
) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=500, seconds=20)
    plan = write_plan(
        tmp_path / "plan.toml", source.path, {"gen1": Path(loop_device), "gen2": Path(loop_device)}
    )
    with Processes(tmp_path) as processes:
        processes.start("scheduler", [*IOTRACE, "fleet", "scheduler", "--port", "18786"])
        processes.wait_until_said("scheduler", "scheduler at")
        for name in ("gen1", "gen2"):
            words = [
                *IOTRACE,
                "fleet",
                "generator",
                "--scheduler",
                SCHEDULER,
                "--name",
                name,
                "--folder",
                name,
            ]
            processes.start(name, words, group=throttled_group)
        for name in ("gen1", "gen2"):
            processes.wait_until_said(name, f"generator '{name}' at")
        words = [*IOTRACE, "fleet", "sweep", str(plan), "--scheduler", SCHEDULER, "--json"]
        done = subprocess.run(
            [*words, "--step-seconds", "5", "-o", str(tmp_path / "sweep.iotrace")],
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode in {0, 1}, done.stderr
    found = json.loads(done.stdout)
    assert found["state"] == "reached", done.stderr
    assert found["iops"]["value"] == pytest.approx(IOPS, rel=0.10)
    # Neither alone was offered so much.
    assert found["iops"]["value"] > 0.75 * IOPS
