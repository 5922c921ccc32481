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
    assert 0 < Recording.open(output).row_count("io") < reads.row_count("io")


def test_a_sweep(iotrace: Callable[..., Result], reads: Recording, tmp_path: Path) -> None:
    words = ("--target", tmp_path / "t.bin", "--buffered", "--scales", "1x,2x", "-o", tmp_path / "s.iotrace")
    result = iotrace("sweep", reads.path, *words)
    assert result.status == STOPPED, result.err
    assert len(Sweep.open(tmp_path / "s.iotrace").steps) == 1


def test_the_demo_tells_no_story_of_half_a_step(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    result = iotrace("demo", "--folder", tmp_path)
    assert result.status == STOPPED
    assert "Verdict" not in result.out
    assert list(tmp_path.iterdir()) == []
