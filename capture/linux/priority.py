"""The recorder gives way to what it records, and ends when it is asked to."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

import psutil

_NICENESS: Final = 10


class Priority:
    """Context manager: processor and disk go to others first; the kernel's buffers bridge the time.

    For the thread that enters it. Restored afterwards, if allowed.
    """

    def __enter__(self) -> Self:
        self._thread = threading.get_native_id()
        self._before = os.getpriority(os.PRIO_PROCESS, self._thread)
        os.setpriority(os.PRIO_PROCESS, self._thread, min(19, self._before + _NICENESS))
        self._disk = _lower_disk_priority()
        self._disk.__enter__()
        return self

    def restore(self) -> None:
        """Take the processor as others do: whoever gives way for too long loses events."""
        with suppress(PermissionError):  # only root may take priority back
            os.setpriority(os.PRIO_PROCESS, self._thread, self._before)

    def __exit__(self, *_: object) -> None:
        self.restore()
        self._disk.__exit__(None, None, None)


@contextmanager
def _lower_disk_priority() -> Iterator[None]:
    """For the main thread, the only one that can be named to the kernel from here."""
    process = psutil.Process()
    if threading.get_native_id() != process.pid:
        yield
        return
    before = process.ionice()
    with suppress(psutil.Error, OSError):
        process.ionice(psutil.IOPRIO_CLASS_BE, 7)
    try:
        yield
    finally:
        with suppress(psutil.Error, OSError, ValueError):
            process.ionice(before.ioclass, before.value)


@contextmanager
def ends_on_signals(ended: threading.Event) -> Iterator[None]:
    """The first signal sets ``ended``; the next one does what it would have done without us.

    Under nohup a terminal that closes ends nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]

    def end(number: int, _frame: object) -> None:
        ended.set()
        signal.signal(number, signal.default_int_handler)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
