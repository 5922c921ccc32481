"""A request to terminate or a terminal that closes, at any moment: what was measured is kept, and nothing else lost.

Signals are real, and come twice: shells and kernels ask more than once. They are sent at planted moments, because the
moments that matter last milliseconds.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from iotrace.cli.characterize_run import check_output
from iotrace.schemas import Recording, Sweep, validate

from ..recordings import write_recording

if os.name == "nt":
    pytest.skip("signals are POSIX's", allow_module_level=True)

STOPPED = 130

PLANTED = """
import importlib, os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, which is respected
module, name, call, number, *words = sys.argv[1:]
owner = importlib.import_module(module)
*path, name = name.split(".")
for part in path:
    owner = getattr(owner, part)
real, calls = getattr(owner, name), []

def planted(*arguments, **options):
    calls.append(name)
    if len(calls) == int(call):
        for _ in range(2):
            os.kill(os.getpid(), int(number))
    return real(*arguments, **options)

setattr(owner, name, planted)
from iotrace.cli.main import main
main(words)
"""

IN_A_CELL = ("iotrace.cli.characterize", "_coarse", 1)
"""What a run says while it goes on asks for it."""
IN_THE_SECOND = ("iotrace.cli.characterize_run", "Characterization.run", 2)
WRITTEN = ("iotrace.schemas", "RecordingWriter.commit", 1)
NOTED = ("iotrace.schemas", "SweepWriter._save", 2)
MEASURED = ("iotrace.cli.characterize_run", "measure", 1)


def run_planted(moment: tuple[str, str, int], number: int, *words: object) -> tuple[int, str]:
    command = [sys.executable, "-c", PLANTED, *moment, int(number), *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def characterize_words(folder: Path, *more: object, seconds: float = 0.3) -> list[object]:
    return [
        "characterize", "--target", folder / "t.bin", "--file-size", "4M", "--seconds", seconds, "--warm-up", "0",
        "--outstanding", "1,2,4", "--buffered", "-o", folder / "a", *more,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("moment", "number", "overwrite"),
    [
        pytest.param(IN_A_CELL, signal.SIGTERM, False, marks=pytest.mark.slow),
        pytest.param(IN_A_CELL, signal.SIGHUP, True, marks=pytest.mark.slow),
        (WRITTEN, signal.SIGTERM, True),
        (NOTED, signal.SIGHUP, False),
        pytest.param(MEASURED, signal.SIGTERM, True, marks=pytest.mark.slow),
        (MEASURED, signal.SIGHUP, False),
        pytest.param(IN_THE_SECOND, signal.SIGTERM, True, marks=pytest.mark.slow),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else str(one),
)
def test_characterize_keeps_what_was_measured(tmp_path, moment, number, overwrite):
    before = None
    if overwrite:
        run_planted(MEASURED, 0, *characterize_words(tmp_path))  # signal 0 is none
        before = (tmp_path / "a").stat().st_ino
    status, said = run_planted(moment, number, *characterize_words(tmp_path, *["--overwrite"][:overwrite]))
    assert status == STOPPED, said
    assert "stopped after 1 of 3 runs; what was measured is kept" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "t.bin"]
    assert (tmp_path / "a").stat().st_ino != before
    check_output(tmp_path / "a", overwrite=True)  # the next command puts right what a killed one left
    sweep = Sweep.open(tmp_path / "a" / "random-read-8K.iotrace")
    assert len(sweep.steps) == 1
    assert validate(sweep.recordings()[0].path) == []


@pytest.mark.parametrize(
    "number",
    [*(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGHUP)), signal.SIGTERM],
)
def test_an_earlier_characterization_stands_until_something_is_measured(tmp_path, number):
    run_planted(MEASURED, 0, *characterize_words(tmp_path))
    before = (tmp_path / "a").stat().st_ino
    moment = ("iotrace.cli.characterize_run", "Characterization.run", 1)
    status, said = run_planted(moment, number, *characterize_words(tmp_path, "--overwrite"))
    assert status == STOPPED, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "t.bin"]
    assert (tmp_path / "a").stat().st_ino == before
    assert len(Sweep.open(tmp_path / "a" / "random-read-8K.iotrace").steps) == 3


@pytest.fixture
def reads(tmp_path):
    issued_ns = np.arange(400) * 1_000_000
    path = tmp_path / "reads.iotrace"
    return write_recording(
        path,
        {
            "issued_ns": issued_ns, "completed_ns": issued_ns + 100_000, "size_bytes": 8192, "device_id": 0,
            "offset_bytes": np.arange(400) % 64 * 8192,
        },
        tables={"devices": {"device_id": [0], "name": ["disk 0"], "kind": ["disk"]}},
        window_end_ns=400_000_000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        (WRITTEN, signal.SIGTERM),
        pytest.param(NOTED, signal.SIGHUP, marks=pytest.mark.slow),
        (("iotrace.cli.sweep_run", "summarise_step", 1), signal.SIGTERM),
    ],
    ids=["written", "noted", "judged"],
)
def test_a_sweep_keeps_its_steps(reads, tmp_path, moment, number):
    words = ("--target", tmp_path / "t.bin", "--buffered", "--scales", "1x,2x,3x", "--step-seconds", "0.5")
    status, said = run_planted(moment, number, "sweep", reads.path, *words, "-o", tmp_path / "s.iotrace")
    assert status == STOPPED, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reads.iotrace", "s.iotrace", "t.bin"]
    sweep = Sweep.open(tmp_path / "s.iotrace")
    assert len(sweep.steps) == 1
    assert sweep.settings.ended == "it was asked to stop"
    assert sweep.recordings()[0].row_count("io") == 800  # twice, to last half a second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_whole_replay_is_written_first(reads, tmp_path, number):
    words = ("replay", reads.path, "--target", tmp_path / "t.bin", "--buffered", "-o", tmp_path / "o.iotrace")
    status, said = run_planted(WRITTEN, number, *words)
    assert validate(tmp_path / "o.iotrace") == [], said
    assert status in {0, 1}  # the answer of a replay that ran to its end, which this one did
    assert "stopped" not in said
    assert Recording.open(tmp_path / "o.iotrace").row_count("io") == 400


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_import_leaves_nothing_half_written(tmp_path, number):
    trace = Path(__file__).parents[1] / "fixtures" / "xperf" / "dumper.csv"
    status, said = run_planted(WRITTEN, number, "import", trace, "-o", tmp_path / "r.iotrace")
    assert status == STOPPED
    assert said == "stopped; nothing was left half-written\n"
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_is_gone_takes_no_report_with_it(tmp_path):
    """Whoever closes the window of a run gets what was measured; nothing that is said then can be written any more."""
    words = characterize_words(tmp_path, seconds=60)
    words[words.index(tmp_path / "a")] = tmp_path / "a.html"
    # A terminal of its own: its other end is closed by the test.
    inside, screen = os.openpty()
    code = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, sys.executable, "-c", PLANTED, *MEASURED, 0, *words]
    run = subprocess.Popen(
        [str(word) for word in command], stdin=screen, stdout=screen, stderr=screen, start_new_session=True
    )
    os.close(screen)
    shown, until = b"", time.monotonic() + 60
    while b"1/3, " not in shown and time.monotonic() < until:
        shown += os.read(inside, 1 << 16)
    os.close(inside)
    assert run.wait(timeout=60) == STOPPED
    assert "random read 8K" in (tmp_path / "a.html").read_text("utf-8")
