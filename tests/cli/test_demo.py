"""The demo tells the whole story wherever a user may try it, and leaves one file."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "iotrace.cli", "demo", "--step-seconds", "0.5"]


def run_demo(folder: Path, *wrapper: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*wrapper, *DEMO],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def assert_whole_story(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert done.returncode == 0, done.stderr
    for chapter in ("Latency by layer", "Steps", "Verdict"):
        assert f"\n{chapter}\n" in done.stdout
    assert re.search(r"\n(Knee|What the figures would say if .*)\n", done.stdout)
    assert "The same on azure/P10, which nobody has bought: a model, in virtual time" in done.stdout
    assert "never held against real storage" in " ".join(done.stdout.split())
    assert [entry.name for entry in folder.iterdir()] == ["iotrace-demo-report.html"]
    assert "iotrace-demo-report.html" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr, "colours or cursor movements in a pipe"
    assert "\N{REPLACEMENT CHARACTER}" not in done.stdout + done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


@pytest.mark.slow
def test_on_a_disk_in_a_pipe(tmp_path: Path) -> None:
    assert_whole_story(run_demo(tmp_path), tmp_path)


@pytest.fixture
def memory_folder() -> Path:
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        pytest.skip("no folder in memory here")
    folder = memory / f"iotrace-demo-test-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    yield folder
    for entry in folder.iterdir():
        entry.unlink()
    folder.rmdir()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_in_a_container_like_place(memory_folder: Path) -> None:
    """No io_uring, a folder that refuses direct I/O, no colours; and no root where another user can reach Python."""
    wrapper = [sys.executable, str(Path(__file__).with_name("without_io_uring.py"))]
    user = ["--user", "65534"] if os.geteuid() == 0 and everyone_reaches(sys.executable) else []
    done = run_demo(memory_folder, *wrapper, *user, NO_COLOR="1")
    assert_whole_story(done, memory_folder)
    said = " ".join(done.stdout.split())
    assert "the host's cache was in the way" in said
    # On a machine too busy to drive any step the answer is that it cannot be judged.
    answer = re.search("What the figures would say|Where the storage breaks cannot be judged", said)
    assert answer
    assert said.index("Not to be relied on: the sweep") < answer.start()
    assert "threads played the I/O" in (memory_folder / "iotrace-demo-report.html").read_text("utf-8")
    assert "measures memory and not storage" in " ".join(done.stderr.split())


def everyone_reaches(path: str) -> bool:
    places = [Path(path).resolve(), Path(__file__).resolve(), Path(path).absolute()]
    return all(folder.stat().st_mode & 0o001 for place in places for folder in place.parents)


def test_a_report_of_somebody_else_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "iotrace-demo-report.html").write_text("<title>Not ours</title>")
    done = run_demo(tmp_path)
    assert done.returncode == 2
    assert "iotrace-demo-report.html' is not as iotrace wrote it" in done.stderr
    assert (tmp_path / "iotrace-demo-report.html").read_text() == "<title>Not ours</title>"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_for_programs(tmp_path: Path) -> None:
    done = subprocess.run([*DEMO, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["verdict"]
