"""Several load generators start at one instant, and end together: what stands between a replay and who conducts it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from iotrace.schemas import IotraceError


class CalledOffError(IotraceError):
    """The run was called off before it began."""


@dataclass(slots=True)
class Gate:
    """A replay stops at it when all is ready (targets open, plan at hand), and goes on at the instant it is told.

    `open_at` and `stop` may be called from any thread, at any time.
    """

    ready: threading.Event = field(default_factory=threading.Event)
    """Set once the replay waits for its start."""
    why: str = ""
    """Why it was told to stop, in words that "after so many I/Os" goes on from."""
    _told: threading.Event = field(default_factory=threading.Event)
    _start_ns: int | None = None
    _engine_stop: Callable[[], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open_at(self, start_ns: int) -> None:
        """Start when this machine's monotonic clock reads ``start_ns``."""
        with self._lock:
            self._start_ns = start_ns
        self._told.set()

    def stop(self, why: str) -> None:
        """End the run, or call it off where it has not begun."""
        with self._lock:
            self.why = self.why or why
            engine_stop = self._engine_stop
        if engine_stop is not None:
            engine_stop()
        self._told.set()

    def wait(self) -> int:
        """Wait for the start; returns its instant. Raises `CalledOffError` where there is to be none."""
        self.ready.set()
        self._told.wait()
        with self._lock:
            if self._start_ns is None or self.why:
                raise CalledOffError(f"nothing was played: {self.why or 'the run was called off'}")
            return self._start_ns

    def playing(self, engine_stop: Callable[[], None]) -> None:
        """Note how the run that has begun is stopped."""
        with self._lock:
            self._engine_stop = engine_stop
            is_over = bool(self.why)
        if is_over:
            engine_stop()
