"""Ctrl-C in the middle of a run: what was measured is kept, and the exit status says that it was stopped."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotrace.cli import demo, replay, sweep
from iotrace.replay import Progress
from iotrace.schemas import Recording, Sweep, validate

from .conftest import Result

STOPPED = 130


@pytest.fixture(autouse=True)
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as the first I/Os have completed."""

    def stop(_meter: object, state: Progress, *_: Any) -> None:
        if state.phase == "play" and state.completed_ios:
            signal.raise_signal(signal.SIGINT)

    for command in (demo, replay, sweep):
        monkeypatch.setattr(command, "show_replay", stop)


def test_a_replay(iotrace: Callable[..., Result], reads: Recording, tmp_path: Path) -> None:
    output = tmp_path / "out.iotrace"
    result = iotrace("replay", reads.path, "--target", tmp_path / "t.bin", "--buffered", "-o", output)
    assert result.status == STOPPED, result.err
    assert validate(output) == []
    played = Recording.open(output).row_count("io")
    assert 0 < played < reads.row_count("io")
    assert result.out.startswith(
        f"STOPPED EARLY: {played / 8:.1f} % of the load was played (stopped by you after"
    )
    load = " ".join(line for line in result.out.splitlines() if line.startswith("I/Os  ")).split()
    assert load[:3] == ["I/Os", "800", f"{played}"]
    assert "Recorded against played" not in result.out
    said = f"stopped early: {played / 8:.1f} % of the load was played"
    page = tmp_path / "report.html"
    for words in (
        ("describe", output),
        ("compare", reads.path, output),
        ("report", reads.path, output, "-o", page),
    ):
        opening = " ".join(iotrace(*words).out.split())[:300]
        assert opening.startswith("Not to be relied on: "), opening
        assert said in opening
    assert said in page.read_text("utf-8")
    assert "the run is not: it was stopped early" in " ".join(iotrace("validate", output).out.split())


def test_a_sweep(iotrace: Callable[..., Result], reads: Recording, tmp_path: Path) -> None:
    words = ("--target", tmp_path / "t.bin", "--buffered", "--scales", "1x,2x", "-o", tmp_path / "s.iotrace")
    result = iotrace("sweep", reads.path, *words)
    assert result.status == STOPPED, result.err
    assert len(Sweep.open(tmp_path / "s.iotrace").steps) == 1
    knee = iotrace("knee", tmp_path / "s.iotrace").out
    assert "stopped early: " in knee[: knee.index("\n\n")].replace("\n", " ")


def test_the_demo_tells_no_story_of_half_a_step(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    result = iotrace("demo", "--folder", tmp_path)
    assert result.status == STOPPED
    assert "Verdict" not in result.out
    assert list(tmp_path.iterdir()) == []
