"""Requests to end what runs: Ctrl-C, SIGTERM, and SIGHUP of a terminal that closes or a connection that is lost.

A terminal that closes sends several of them, and so does whoever is impatient: what one of them let a command keep, the
next one must not cost. Where a result is written or put in its place they are only noted (`deferred`), elsewhere they
raise ``KeyboardInterrupt`` (`interrupting`). Signals reach the main thread only; elsewhere all of this changes nothing.
"""

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class _Requests:
    """Those since the outermost of the contexts below was entered."""

    count = 0
    depth = 0


_requests = _Requests()


def asked() -> bool:
    """Whether a request came since the outermost context of this module, that of a command, was entered."""
    return _requests.depth > 0 and _requests.count > 0


def signals() -> list[signal.Signals]:
    """Those that ask to end. Under nohup a terminal that closes ends nothing; Windows has no such signal."""
    found = [signal.SIGINT, signal.SIGTERM]
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        found.append(hang_up)
    return found


@contextmanager
def on_request(heed: Callable[[int, int], None], *, besides: signal.Signals | None = None) -> Iterator[None]:
    """Call ``heed`` with each request's signal and how many there have been, from the first one on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, _frame: FrameType | None) -> None:
        _requests.count += 1
        _leave_closed_terminal()
        heed(number, _requests.count)

    if _requests.depth == 0:
        _requests.count = 0
    before = {number: signal.signal(number, note) for number in signals() if number != besides}
    _requests.depth += 1
    try:
        yield
    finally:
        _requests.depth -= 1
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Only note requests, for as long as a result is written; whoever comes next looks at `asked`."""
    with on_request(lambda _number, _count: None):
        yield


@contextmanager
def interrupting(*, besides: signal.Signals | None = None) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` at each request, and at once if one was noted before.

    ``besides`` Ctrl-C, where Python does so itself, unless whoever started it had that ignored.
    """
    with on_request(_interrupt, besides=besides):
        if asked():
            raise KeyboardInterrupt
        yield


def _interrupt(_number: int, _count: int) -> None:
    raise KeyboardInterrupt


def _leave_closed_terminal() -> None:
    """What is still said goes nowhere, where it would fail and end what is about to be kept."""
    if os.name != "posix":
        return
    import termios  # noqa: PLC0415 - Windows has none

    for stream in (1, 2):
        try:
            termios.tcgetattr(stream)
        except termios.error as problem:
            if problem.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)
