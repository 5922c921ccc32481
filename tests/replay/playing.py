"""Replays in a process of their own, and the tools that prepare storage for them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from iotrace.schemas import Recording

PLAY = """
import os, signal, sys
from pathlib import Path
from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Recording

source, target, output, group, words = sys.argv[1:]
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, which a replay respects

seen = []

def look(report):
    if report.phase == "play" and report.completed_ios and not seen:
        # Not before the run: the checks of the target read it too.
        if group:
            (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
        print("playing", flush=True)
        seen.append(report)

out = replay(Recording.open(source), output, ReplayOptions(targets=(target,), **eval(words)), progress=look)
facts = out.manifest.replay
print(facts.ended, facts.issued_ios, facts.completed_ios, facts.failed_ios, sep="|", flush=True)
"""


def start(
    recording: Recording,
    target: Path | str,
    output: Path,
    group: Path | str = "",
    within: Sequence[str] = (),
    **words: object,
) -> subprocess.Popen[str]:
    """A replay in a process of its own, perhaps in a cgroup, or run by the command ``within``."""
    command = [*within, sys.executable, "-c", PLAY, recording.path, target, output, group, repr(words)]
    return subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_play(run: subprocess.Popen[str]) -> None:
    """Until its first I/Os have completed."""
    assert run.stdout is not None
    if run.stdout.readline() != "playing\n":
        pytest.fail(run.communicate()[1])


def run_tool(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{words[0]} does not work here: {done.stderr.strip()}")
    return done.stdout.strip()
