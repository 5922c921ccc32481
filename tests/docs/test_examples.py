"""The tutorial's commands and the Python examples, run as they stand on the page."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.schemas import Recording, Sweep, SweepWriter

from .pages import ROOT, blocks

TUTORIAL = ROOT / "docs" / "tutorial.md"
PYTHON = ROOT / "docs" / "python.md"


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: the place for temporary files may lie in memory."""
    with tempfile.TemporaryDirectory(prefix=".docs-test-", dir=Path(__file__).parent) as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the tutorial replays, as it says, on Linux")
def test_the_tutorial_works_as_written(disk: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    commands = [line for block in blocks(TUTORIAL, "sh") for line in block.replace("\\\n", " ").splitlines()]
    assert len(commands) >= 8
    said = {}
    for command in commands:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=disk, env=environment, capture_output=True, text=True, check=False
        )
        # 1 is the answer "no", which a busy machine gives.
        assert done.returncode in {0, 1}, f"{command}\n{done.stderr}"
        said[command] = done.stdout
    text = " ".join(said.values())
    counted = re.findall(
        r"^(\w+) +([\d,]+) ", said[next(one for one in commands if "count(*)" in one)], re.MULTILINE
    )
    # The README of the bundled recording gives the same sums.
    assert {op: int(count.replace(",", "")) for op, count in counted} == {
        "read": 37_105 + 18,
        "write": 32_818 + 16_458,
        "flush": 57 + 16_154,
    }
    assert "\nSteps\n" in text
    assert (disk / "report.html").stat().st_size < 5_000_000


def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "cli" / "bundled" / "pgbench.iotrace", tmp_path / "prod.iotrace")
    bundled = Recording.open(tmp_path / "prod.iotrace")
    writer = SweepWriter(tmp_path / "sweep.iotrace", title="two", source_uuid=None)
    for scale in (1.0, 2.0):
        shutil.copytree(bundled.path, writer.step_path(scale))
        writer.add(scale, Recording.open(writer.step_path(scale)))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(PYTHON, "python"):
        exec(compile(block, str(PYTHON), "exec"), names)
    assert isinstance(names["sweep"], Sweep)
    assert names["writes"].height == 98_077  # type: ignore[attr-defined]  # both layers, both devices, as the README sums
    assert Recording.open(tmp_path / "mine.iotrace").row_count("io") == 3
