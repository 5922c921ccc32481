"""The recorder beside a sweep, with a stand-in for it: what it is told, and when."""

import os
import sys
from pathlib import Path

import pytest

from iotrace.cli import watching
from iotrace.schemas import IotraceError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder is Linux's")

RECORDER = """#!/bin/sh
echo "$@" > {folder}/words
trap 'echo INT >> {folder}/signals; exit 0' INT
mkdir -p {folder}/instances/iotrace-$$-1/events
while :; do sleep 0.05; done
"""


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that only waits to be ended."""
    program = tmp_path / "recorder"
    program.write_text(RECORDER.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setattr(watching.sys, "executable", str(program))
    monkeypatch.setattr(watching, "_TRACING", tmp_path / "instances")
    return program


def test_ctrl_c_at_the_terminal_does_not_reach_the_recorder(recorder: Path, tmp_path: Path) -> None:
    """A terminal sends it to the whole group of processes; the recorder hears of the end from the sweep, once."""
    with watching.watched(["/dev/sdz"], tmp_path / "seen.iotrace"):
        (instance,) = (tmp_path / "instances").iterdir()
        number = int(instance.name.split("-")[1])
        assert os.getpgid(number) != os.getpgid(0)
        assert not (tmp_path / "signals").exists()
    assert (tmp_path / "signals").read_text() == "INT\n"


def test_a_file_that_is_still_to_be_made_is_watched_at_its_folder(recorder: Path, tmp_path: Path) -> None:
    with watching.watched([str(tmp_path / "new.bin"), str(recorder)], tmp_path / "seen.iotrace"):
        pass
    words = (tmp_path / "words").read_text().split()
    assert words[2:6] == ["capture", "linux", str(tmp_path), str(recorder)]


def test_a_recorder_that_fails_at_once_is_quoted(recorder: Path, tmp_path: Path) -> None:
    recorder.write_text("#!/bin/sh\necho 'error: tracing needs root' >&2; exit 2\n")
    with (
        pytest.raises(IotraceError, match="cannot be recorded: tracing needs root"),
        watching.watched(["/dev/sdz"], tmp_path / "seen.iotrace"),
    ):
        pytest.fail("nothing is recorded")
