"""Feeds a plan to the engine while it plays, and hands on what came of it, batch by batch.

Several load generators start at one instant, and end together: a `Gate` stands between a replay and who conducts it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from iotrace.replay import _engine
from iotrace.replay.options import Progress, ReplayOptions
from iotrace.replay.targets import block_device
from iotrace.replay.targets.target import Target, refuse_changed
from iotrace.schemas import IotraceError, stopping
from iotrace.schemas.run import DeviceLook

from .pacing import HostLoad

_GLANCE_SECONDS = 0.1
_PAUSE_SECONDS = 0.05
"""Between two looks at what is finished or wanted. Each takes processor time that the storage may need, and the plan is
ready for much longer."""


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


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is over. For the words of each part see `_engine.Engine`."""

    ended: dict[str, Any]
    set_up: dict[str, Any]
    tally: dict[str, Any]
    starved: int
    """Times that the engine was not given the plan soon enough."""
    waits_for_room: int
    """Times that the kernel made a submitter wait, because the queue of a disk was full."""
    planned_ios: int
    """I/Os of the plan, and the time from its first deadline to its last; estimates where the run ended early."""
    planned_duration_ns: int
    cpu_seconds: float
    """Processor time of this process from the run's start to its end, without what setting up took."""
    feeding_cpu_seconds: float
    """Of that, what making the plan and writing the recording took, both in the calling thread."""
    spun_ns: int
    """Time that the submitters spun before deadlines."""
    host_load: dict[str, float | None]
    """See `pacing.HostLoad`."""
    device_counters: dict[str, DeviceLook]
    """The targets' own counters before and after, by device."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan to be played: its batches, and what must be known before the first."""

    batches: Iterator[pa.RecordBatch]
    read_bytes_max: int
    write_bytes_max: int
    planned_ns: int
    """How long it lasts, and how many I/Os it has, about: for the eyes."""
    planned_ios: int
    submitters: int = 1
    pacing: Literal["precise", "gentle"] = "precise"


def play(
    plan: Plan,
    targets: Sequence[Target],
    options: ReplayOptions,
    *,
    sink: Callable[[pa.RecordBatch], None],
    progress: Callable[[Progress], None] | None = None,
    closed_loop_ns: int | None = None,
    gate: Gate | None = None,
) -> Played:
    """Play ``plan`` on ``targets``. ``sink`` gets each batch with what came of it; memory does not grow with the plan.

    ``closed_loop_ns`` ignores the plan's deadlines: for so long, as many I/Os as ``options.max_in_flight`` are kept in
    flight, and the plan may be endless.
    Ctrl-C ends the run and keeps what was measured; a second one does not wait for I/Os in flight. So do SIGTERM and
    SIGHUP, a terminal that closes or a connection that is lost. Before the first I/O they raise ``KeyboardInterrupt``.
    ``gate`` says when to start, and may end the run; targets are looked at once more behind it.
    Raises `IotraceError` when the backend cannot start; what ``plan`` and ``sink`` raise ends the run.
    """
    devices = {target.device_number: target.facts.name for target in targets if target.facts.name}
    engine = _engine.Engine(
        [target.engine_file for target in targets],
        in_flight_max=options.max_in_flight,
        read_bytes_max=plan.read_bytes_max,
        write_bytes_max=plan.write_bytes_max,
        paced=closed_loop_ns is None,
        issue_for_ns=closed_loop_ns,
        errors_max=options.max_errors,
        drain_ns=round(options.drain_seconds * 1e9),
        stall_ns=round(options.stall_seconds * 1e9),
        backend=options.backend,
        submitters=plan.submitters,
        pacing=plan.pacing,
        seed=options.seed,
        direct=not options.buffered,
    )
    pump = _Pump(engine, plan, sink)
    try:
        pump.feed()
        start_ns = None
        if gate is not None:
            start_ns = gate.wait()
            refuse_changed(targets)
        before = {number: block_device.counters(number) for number in devices}
        try:
            engine.start(start_ns)
        except OSError as problem:
            raise IotraceError(
                f"the backend '{options.backend}' does not start: {problem.strerror or problem}",
                hint="--backend auto falls back to threads",
            ) from problem
        load, cpu_before, feeding_before = HostLoad(), time.process_time(), time.thread_time()
        if gate is not None:
            gate.playing(engine.stop)
        with _interruptible(engine):
            _watch(pump, progress)
            cpu_seconds = time.process_time() - cpu_before
            feeding_cpu_seconds = time.thread_time() - feeding_before
            pump.drain()
    except BaseException:
        engine.abandon()
        while not engine.wait(_GLANCE_SECONDS):
            pass
        raise
    counted, host_load = engine.snapshot(), load.shares()
    ended = engine.ended()
    if stopping.asked() and not engine.tally()["issued"]:
        raise KeyboardInterrupt  # nothing was measured that could be kept
    if gate is not None and gate.why and ended["word"] == "stopped":
        ended["reason"] = gate.why
    return Played(
        ended=ended,
        set_up=engine.set_up(),
        tally=engine.tally(),
        starved=counted["starved"],
        waits_for_room=counted["waits_for_room"],
        planned_ios=pump.offered_ios if pump.exhausted else max(plan.planned_ios, pump.offered_ios),
        planned_duration_ns=pump.offered_ns if pump.exhausted else max(plan.planned_ns, pump.offered_ns),
        cpu_seconds=cpu_seconds,
        feeding_cpu_seconds=feeding_cpu_seconds,
        spun_ns=counted["spun_ns"],
        host_load=host_load,
        device_counters={
            name: DeviceLook(before[number], block_device.counters(number))
            for number, name in devices.items()
        },
    )


class _Pump:
    """Between a plan, the engine, and who wants to know."""

    def __init__(self, engine: _engine.Engine, plan: Plan, sink: Callable[[pa.RecordBatch], None]) -> None:
        self.engine, self.plan, self._sink = engine, plan, sink
        self.exhausted = False
        self.offered_ios = 0
        self._first_ns = self._last_ns = 0

    @property
    def offered_ns(self) -> int:
        """Time from the first deadline offered to the last."""
        return self._last_ns - self._first_ns

    def feed(self) -> None:
        """Offer as much of the plan as the engine wants.

        What is finished is handed on in between: an engine that plays as fast as it is fed would never be fed enough.
        """
        while not self.exhausted and self.engine.wanted() > 0:
            self.drain(1)
            batch = next(self.plan.batches, None)
            if batch is None:
                self.exhausted = True
                self.engine.end_plan()
            elif batch.num_rows:
                self.engine.offer(batch)
                if not self.offered_ios:
                    self._first_ns = batch["intended_ns"][0].as_py()
                self._last_ns = batch["intended_ns"][-1].as_py()
                self.offered_ios += batch.num_rows

    def drain(self, most: int | None = None) -> bool:
        """Hand on what is finished, at most so many batches. True if there may be more."""
        while most is None or most > 0:
            outcome = self.engine.take()
            if outcome is None:
                return False
            self._sink(outcome)
            most = None if most is None else most - 1
        return True


def _watch(pump: _Pump, progress: Callable[[Progress], None] | None) -> None:
    """Keep the plan flowing to the end, and report on the way."""
    engine = pump.engine
    last, reported, over = engine.snapshot(), time.monotonic(), False
    while not over:
        # One batch at a time, so that writing never keeps the engine waiting for its plan.
        pump.feed()
        over = engine.wait(_GLANCE_SECONDS / 10 if pump.drain(most=1) else _PAUSE_SECONDS)
        if progress is not None and time.monotonic() - reported >= _GLANCE_SECONDS:
            now = engine.snapshot()
            progress(_progress(now, last, pump.plan))
            last, reported = now, time.monotonic()


@contextmanager
def _interruptible(engine: _engine.Engine) -> Iterator[None]:
    """Turn Ctrl-C, a request to terminate and a terminal that closes into an end that keeps what was measured.

    Nothing is raised in the middle of writing. A second one does not wait for I/Os in flight.
    """

    def end(_number: int, count: int) -> None:
        if count == 1:
            engine.stop()
        else:
            engine.abandon()

    with stopping.on_request(end):
        if stopping.asked():  # before there was anything to keep
            raise KeyboardInterrupt
        yield


def _progress(now: dict[str, int], last: dict[str, int], plan: Plan) -> Progress:
    since = {name: now[name] - last[name] for name in now}
    seconds, completed = since["elapsed_ns"] / 1e9, since["completed"]
    return Progress(
        "play",
        elapsed_ns=now["elapsed_ns"],
        planned_ns=plan.planned_ns,
        planned_ios=plan.planned_ios,
        due_ios=now["due"],
        issued_ios=now["issued"],
        completed_ios=now["completed"],
        in_flight=now["issued"] - now["completed"],
        failed_ios=now["failed"],
        delayed_ios=now["delayed"],
        bytes=now["bytes"],
        rate_per_s=completed / seconds if seconds > 0 else None,
        offered_per_s=since["due"] / seconds if seconds > 0 else None,
        response_ns_mean=since["response_ns_sum"] / completed if completed else None,
        service_ns_mean=since["service_ns_sum"] / completed if completed else None,
    )
