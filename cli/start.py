"""The program's first step: load the command line, and say in words what keeps it from loading."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final

_STOPPED: Final = 130
_NOT_LOADED: Final = 2


def main() -> None:
    """Load the command line and run it; loading takes half a second, in which a user may stop it, too."""
    _open_what_is_closed()
    # Modules that load swallow an exception here and there: the handler ends the process itself.
    is_asked_to_stop = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_asked_to_stop:
        signal.signal(signal.SIGINT, _stop)
    try:
        from .main import main as run  # noqa: PLC0415 - what fails while it loads ends in words only from here
    except (MemoryError, ImportError, OSError) as problem:
        if "--debug" in sys.argv:
            raise
        _say(_why(problem))
        sys.exit(_NOT_LOADED)
    if is_asked_to_stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _open_what_is_closed() -> None:
    """Of a stream that the shell closed (``>&-``) Python makes None, and a file opened later would take its place."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nothing = Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115 - for good
            setattr(sys, name, nothing)


def _stop(_number: int, _frame: FrameType | None) -> None:
    # OpenBLAS interrupts its own process where it may start no threads.
    is_short = _is_short_of_memory()
    _say(_why(MemoryError()) if is_short else "stopped; nothing was begun")
    os._exit(_NOT_LOADED if is_short else _STOPPED)


def _why(problem: Exception) -> str:
    if isinstance(problem, MemoryError) or _is_short_of_memory():
        return (
            "error: there is not enough memory to load iotrace\n\n"
            "hint: close other programs, or raise the limit: ulimit -a shows the shell's"
        )
    return (
        f"error: iotrace cannot be loaded: {problem}\n\n"
        "hint: install it again; iotrace --debug shows where it failed"
    )


def _is_short_of_memory() -> bool:
    """Whether the shell limits memory: what cannot be mapped fails by many names."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return False
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in kinds)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
