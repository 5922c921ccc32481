"""Whether storage answers at all, asked before anything is trusted to it.

A call to a frozen file system or a dead disk may never return, and not even a signal ends it: whoever makes it hangs.
So a process of its own makes the first calls, and is left behind if they do not come back. The watchdog of the engine
looks after everything later.

Making a file on storage that may fall silent meanwhile: done in a thread of its own, and left behind if it does.

A write to a frozen file system or over a lost path may never return, and not even a signal ends it. So whoever waits
does not make the call itself, and hears Ctrl-C in any case.
"""

import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from iotrace.schemas import IotraceError

Report = Callable[[int, int], None]
"""Told bytes done and bytes in all."""

PATIENCE_SECONDS = 120.0
_GLANCE_SECONDS = 0.3
_LAST_WORD_SECONDS = 2.0


class _GivenUpError(Exception):
    """Nobody waits for the work any more: it is to tidy up and end."""


def patiently(
    name: str,
    work: Callable[[Report], None],
    *,
    progress: Report | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Run ``work`` on the target ``name``, which is to report every step that storage may take long for.

    ``progress`` is called from the calling thread while the work waits. What ``work`` raises, and what ``progress``
    raises, is raised here; in the second case, and on Ctrl-C, the work ends at its next report. Raises `IotraceError`
    if nothing is reported within ``patience_seconds``.
    """
    reports: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
    heard, given_up = threading.Semaphore(0), threading.Event()
    problems: list[BaseException] = []

    def report(done: int, total: int) -> None:
        reports.put((done, total))
        heard.acquire()
        if given_up.is_set():
            raise _GivenUpError

    def run() -> None:
        try:
            work(report)
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits
            problems.append(problem)
        finally:
            reports.put(None)

    worker = threading.Thread(target=run, name=f"fill {name}", daemon=True)
    worker.start()
    try:
        while (told := _next(reports, name, patience_seconds)) is not None:
            if progress is not None:
                progress(*told)
            heard.release()
    except BaseException:
        given_up.set()
        heard.release()
        worker.join(_LAST_WORD_SECONDS)
        raise
    worker.join()
    if problems:
        raise problems[0]


def _next(
    reports: "queue.SimpleQueue[tuple[int, int] | None]", name: str, patience_seconds: float
) -> tuple[int, int] | None:
    until = time.monotonic() + patience_seconds
    while (left := until - time.monotonic()) > 0:
        # Briefly each time: on Windows no signal ends a wait.
        with suppress(queue.Empty):
            return reports.get(timeout=min(left, _GLANCE_SECONDS))
    raise IotraceError(
        f"target '{name}' stopped answering while it was filled: nothing was written for {patience_seconds:g} s",
        hint="a frozen file system (fsfreeze), a lost path or a dead disk does that, and dmesg may show it; "
        "--stall-timeout waits longer",
    )


_LOOK = """
import mmap, os, stat, sys
path, writes, direct = sys.argv[1], sys.argv[2] == "1", sys.argv[3] == "1"
def ask(call):
    try:
        return call()
    except OSError:
        return None
found = ask(lambda: os.stat(path))
if found is not None and (stat.S_ISREG(found.st_mode) or stat.S_ISBLK(found.st_mode)):
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    file = ask(lambda: os.open(path, flags | (os.O_DIRECT if direct else 0)))
    if file is not None:
        size = ask(lambda: os.lseek(file, 0, os.SEEK_END)) or 0
        with mmap.mmap(-1, 65536) as page:
            for offset in {0, max(0, size - 65536) // 65536 * 65536}:
                ask(lambda: os.preadv(file, [page], offset))
if found is None or (writes and stat.S_ISREG(found.st_mode)):
    ask(lambda: os.open(os.path.dirname(path) or ".", os.O_RDWR | os.O_TMPFILE, 0o600))
"""
"""Opens, reads the first and the last of it, and where files will be written makes one without a name. What is refused
is no matter here: the checks that come after it say why."""


def refuse_silent(
    name: str,
    *,
    writes: bool,
    direct: bool,
    patience_seconds: float,
    waiting: Callable[[], None] | None = None,
) -> None:
    """Raise `IotraceError` if the storage of the target ``name`` does not answer within ``patience_seconds``.

    ``waiting`` is called a few times a second while it does not. On Windows nothing is asked.
    """
    if sys.platform == "win32" or not sys.executable:
        return
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _LOOK,
        str(Path(name).absolute()),
        f"{writes:d}",
        f"{direct:d}",
    ]
    # The pipe closes when the process ends: nothing has to wait for the process itself.
    ends, held = os.pipe()
    try:
        os.set_inheritable(held, True)  # noqa: FBT003 - takes no name
        # Whoever reads what this process says must not have to wait for the other.
        silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        process = os.posix_spawn(sys.executable, command, os.environ, file_actions=silent)
    finally:
        os.close(held)
    answered = False
    try:
        until = time.monotonic() + patience_seconds
        while not answered and (left := until - time.monotonic()) > 0:
            answered = bool(select.select([ends], [], [], min(left, _GLANCE_SECONDS))[0])
            if not answered and waiting is not None:
                waiting()
    finally:
        os.close(ends)
        if not answered:
            os.kill(process, signal.SIGKILL)
        _collect(process, wait=answered)
    if not answered:
        raise IotraceError(
            f"target '{name}' does not answer: opening it, reading from it or making a file beside it "
            f"takes more than {patience_seconds:g} s",
            hint="a frozen file system (fsfreeze), a lost path or a dead disk does that, and dmesg may show it; "
            "--stall-timeout waits longer",
        )


def _collect(process: int, *, wait: bool) -> None:
    """Let the system forget the process: at once where it has ended, if it can where it was killed."""
    until = time.monotonic() + 0.2
    while os.waitpid(process, 0 if wait else os.WNOHANG)[0] == 0 and time.monotonic() < until:
        time.sleep(0.01)
