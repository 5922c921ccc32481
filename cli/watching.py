"""The Linux recorder beside a replay: what the block and device layers of its target saw, step by step.

A recorder leaves its own process out, so it is a process of its own: this program again, as `iotrace capture linux`.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError

START_SECONDS: Final = 30.0
END_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 0.3
_TRACING: Final = Path("/sys/kernel/tracing/instances")


@contextmanager
def watched(targets: Sequence[str], output: Path) -> Iterator[None]:
    """Record the block and device layers of the targets' devices into ``output`` while the block runs.

    The recording is whole when the block is left. Raises `IotraceError` with the recorder's own words where it cannot
    record: not root, no tracefs, a target on no block device.
    """
    # A file that the replay is still to make will lie on the device of its folder.
    places = dict.fromkeys(one if Path(one).exists() else str(Path(one).absolute().parent) for one in targets)
    command = [sys.executable, "-m", "iotrace.cli", "capture", "linux", *places, "-o", str(output)]
    # In a process group of its own: Ctrl-C is for the replay, and would end the recorder at once, then a second time.
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0
    ) as recorder:
        try:
            _wait_until_recording(recorder)
            yield
            # I/Os end before their replay does, but the recorder reads them a moment later.
            time.sleep(_SETTLE_SECONDS)
            recorder.send_signal(signal.SIGINT)
            _, said = recorder.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired as problem:
            raise IotraceError("the recorder does not end", hint="sweep without --watch") from problem
        finally:
            if recorder.poll() is None:
                recorder.terminate()
                _end(recorder)
    if recorder.returncode and not (output / "manifest.json").is_file():
        raise IotraceError(
            f"the recorder beside the replay failed: {_last_line(said)}", hint="sweep without --watch"
        )


def _wait_until_recording(recorder: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not list(_TRACING.glob(f"iotrace-{recorder.pid}-*/events")):
        if recorder.poll() is not None:
            _, said = recorder.communicate()
            raise IotraceError(
                f"the target's layers cannot be recorded: {_last_line(said)}",
                hint="iotrace capture doctor tells what this machine allows; or sweep without --watch",
            )
        if time.monotonic() > deadline:
            raise IotraceError("the recorder does not start", hint="sweep without --watch")
        time.sleep(0.05)
    time.sleep(_SETTLE_SECONDS)


def _end(recorder: subprocess.Popen[str]) -> None:
    try:
        recorder.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        recorder.kill()


def _last_line(said: str) -> str:
    lines = (
        [line for line in said.splitlines() if line.startswith("error")]
        or said.splitlines()
        or ["no reason given"]
    )
    return lines[0].removeprefix("error: ")
