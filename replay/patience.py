"""Making a file on storage that may fall silent meanwhile: done in a thread of its own, and left behind if it does.

A write to a frozen file system or over a lost path may never return, and not even a signal ends it. So whoever waits
does not make the call itself, and hears Ctrl-C in any case.
"""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

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
        f"target '{name}' fell silent while it was filled: nothing was written for {patience_seconds:g} s",
        hint="a frozen file system (fsfreeze), a lost path or a dead disk does that, and dmesg may name it; "
        "--stall-timeout waits longer",
    )
