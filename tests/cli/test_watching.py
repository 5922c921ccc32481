"""The recorder beside a replay, with a stand-in for it: what it is told, and when."""

import os
import sys
from itertools import chain, repeat
from pathlib import Path

import pytest

from iotrace.cli import watching
from iotrace.schemas import Clock, IotraceError, Recording
from iotrace.schemas.run import Replay

from ..recordings import write_recording

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder is Linux's")

RECORDER = """#!/bin/sh
echo "$@" > {folder}/words
trap 'echo INT >> {folder}/signals; exit 0' INT
instance={folder}/instances/iotrace-$$-1
mkdir -p $instance/events
echo 1 > $instance/tracing_on
echo 0 > $instance/events/enable
sleep 0.2
echo 0 > $instance/tracing_on
echo X > $instance/events/enable
sleep 0.2
echo 1 > $instance/tracing_on
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


def test_the_replay_begins_when_events_are_let_in(recorder: Path, tmp_path: Path) -> None:
    """Making the instance and enabling its events takes seconds where the processors are busy."""
    with watching.watched(["/dev/sdz"], tmp_path / "seen.iotrace"):
        (instance,) = (tmp_path / "instances").iterdir()
        assert (instance / "events" / "enable").read_text() == "X\n"
        assert (instance / "tracing_on").read_text() == "1\n"


def test_a_recorder_that_fails_at_once_is_quoted(recorder: Path, tmp_path: Path) -> None:
    recorder.write_text("#!/bin/sh\necho 'error: tracing needs root' >&2; exit 2\n")
    with (
        pytest.raises(IotraceError, match="cannot be recorded: tracing needs root"),
        watching.watched(["/dev/sdz"], tmp_path / "seen.iotrace"),
    ):
        pytest.fail("nothing is recorded")


def test_a_recorder_that_begins_late_is_waited_for(recorder: Path, tmp_path: Path, monkeypatch) -> None:
    """On a host under load a minute may pass before it records; a clock that leaps stands for that."""
    recorder.write_text(RECORDER.format(folder=tmp_path).replace("mkdir", "sleep 0.2; mkdir"))
    times = chain([0.0], repeat(60.0))
    monkeypatch.setattr(watching.time, "monotonic", lambda: next(times))
    with watching.watched(["/dev/sdz"], tmp_path / "seen.iotrace"):
        assert list((tmp_path / "instances").glob("*/events"))


def test_what_was_watched_says_which_replay_it_was_and_when(tmp_path: Path) -> None:
    """The replay began 3 s after the recorder, by the clock of the day, and lasted 20 s."""
    seen = write_recording(tmp_path / "seen.iotrace", clock=Clock(7 * SECOND, 1.0, "test"))
    played = write_recording(
        tmp_path / "played.iotrace",
        kind="replayed",
        clock=Clock(10 * SECOND, 1.0, "test"),
        window_end_ns=20 * SECOND,
        replay=Replay(scale=1.0),
    )
    watching.note_watched(seen, played)
    noted = Recording.open(tmp_path / "seen.iotrace").manifest.watched
    assert noted is not None
    assert noted.replay_uuid == played.manifest.uuid
    assert noted.replay == Replay(scale=1.0)
    from_ns, until_ns = noted.load_ns
    assert 3 * SECOND - 5_000_000 < from_ns < 3 * SECOND
    assert 23 * SECOND < until_ns < 23 * SECOND + 5_000_000


SECOND = 1_000_000_000
