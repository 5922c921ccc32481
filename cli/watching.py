"""The Linux recorder beside a replay: what the block and device layers of its target saw, step by step.

A recorder leaves its own process out, so it is a process of its own: this program again, as `iotrace capture linux`.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.models import is_model_target
from iotrace.schemas.run import Watched
from iotrace.schemas.writer import rewrite_manifest

START_SECONDS: Final = 300.0
"""A recorder that lives is waited for: on a host under load it takes long to begin, and one that cannot says so."""
END_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 0.3
_ANCHOR_NS: Final = 2_000_000
"""How far two clocks anchored to UTC may be apart. A run begins 5 ms after its target was looked at last."""
_TRACING: Final = Path("/sys/kernel/tracing/instances")


@contextmanager
def watched(targets: Sequence[str], output: Path, *, overwrite: bool = False) -> Iterator[None]:
    """Record the block and device layers of the targets' devices into ``output`` while the block runs.

    The recording is whole when the block is left. Raises `IotraceError` with the recorder's own words where it cannot
    record: not root, no tracefs, a target on no block device.
    """
    if is_model_target(targets):
        raise IotraceError(
            "--watch records what storage does, and a model is not storage", hint="leave out --watch"
        )
    # A file that the replay is still to make will lie on the device of its folder.
    places = dict.fromkeys(one if Path(one).exists() else str(Path(one).absolute().parent) for one in targets)
    command = [sys.executable, "-m", "iotrace.cli", "capture", "linux", *places, "-o", str(output)]
    command += ["--end-with-input", *(["--overwrite"] if overwrite else [])]
    # Its input is a pipe that nobody writes to: it ends with this process, even one that is killed, and so does the
    # recorder. In a process group of its own: Ctrl-C is for the replay, and would end the recorder at once, then again.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as recorder:
        try:
            _wait_until_recording(recorder)
            yield
            # I/Os end before their replay does, but the recorder reads them a moment later.
            time.sleep(_SETTLE_SECONDS)
            recorder.send_signal(signal.SIGINT)
            _, said = recorder.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired as problem:
            raise IotraceError("the recorder does not stop", hint="leave out --watch") from problem
        finally:
            if recorder.poll() is None:
                recorder.terminate()
                _end(recorder)
    if recorder.returncode and not (output / "manifest.json").is_file():
        raise IotraceError(
            f"the recorder beside the replay failed: {_last_line(said)}", hint="leave out --watch"
        )


def stop_with_input() -> threading.Event:
    """For the recorder: set when standard input ends, as that of `watched` does with its process, however it dies."""
    stop = threading.Event()

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop


def note_watched(seen: Recording, played: Recording) -> Recording:
    """Write into what a recorder saw which replay it was, and when its load was: the rest is its look at the target."""
    shift_ns = played.manifest.clock.start_utc_ns - seen.manifest.clock.start_utc_ns
    seen.manifest.watched = Watched(
        played.manifest.uuid,
        [shift_ns - _ANCHOR_NS, shift_ns + played.manifest.window_end_ns + _ANCHOR_NS],
        played.manifest.open_replay,
    )
    return rewrite_manifest(seen)


def _wait_until_recording(recorder: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not any(map(_lets_events_in, _TRACING.glob(f"iotrace-{recorder.pid}-*"))):
        if recorder.poll() is not None:
            _, said = recorder.communicate()
            raise IotraceError(
                f"the target's layers cannot be recorded: {_last_line(said)}",
                hint="iotrace capture doctor shows what this machine allows; or leave out --watch",
            )
        if time.monotonic() > deadline:
            raise IotraceError(
                f"the recorder beside the replay has not begun after {START_SECONDS:g} s",
                hint="stop what keeps the processors busy, or leave out --watch",
            )
        time.sleep(0.05)


def _lets_events_in(instance: Path) -> bool:
    """The recorder shuts its instance, enables its events, then opens it; an instance is made open, without events."""
    try:
        has_events = (instance / "events" / "enable").read_text().strip() != "0"
        return has_events and (instance / "tracing_on").read_text().strip() == "1"
    except OSError:  # the kernel is still making it, or has already removed it
        return False


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
