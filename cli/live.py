"""What is shown of a run while it goes on: how far it is, the load and the latency of this second and the last minute.

The thread that runs only leaves what it knows; a thread that sleeps draws it, once a second, so that drawing does not
disturb what is measured. Where no terminal is, it writes a line every 10 s, after a minute every minute. What a replay
shows, and which test files it leaves, stands at the end.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress
from rich.text import Text

from iotrace.analyze.units import format_bytes, format_duration_ns
from iotrace.replay import Progress as ReplayProgress
from iotrace.replay.targets.fill import was_ours
from iotrace.schemas.text import printable

from . import console
from .show import BARS

DRAWN_EVERY_SECONDS: Final = 1.0
LINE_EVERY_SECONDS: Final = 10.0
_LINES_A_MINUTE_LATER: Final = 60.0
_HISTORY: Final = 60
_POINTS_SHOWN: Final = 12
_LABEL_CELLS: Final = 10
_WORDS_CELLS: Final = 30


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure as it is now: its name, its words, and its value for the history; None where nothing completed."""

    label: str
    words: str
    value: float | None


@dataclass(slots=True)
class Load:
    """Totals of a run as they come in, and from them what was done since the last look."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _now: tuple[int, int, int, float] = (0, 0, 0, 0.0)
    _seen: tuple[int, int, int, float] = (0, 0, 0, 0.0)
    _in_flight: int | None = None
    _is_offered: bool = False

    def take(
        self,
        elapsed_ns: int,
        completed: int,
        latency_ns_mean: float | None,
        *,
        due: int | None = None,
        in_flight: int | None = None,
    ) -> None:
        """Note totals since the start; the mean latency is that since the last call. A run that starts again is new."""
        with self._lock:
            if elapsed_ns < self._now[0]:
                self._now = self._seen = (0, 0, 0, 0.0)
            new = completed - self._now[1]
            latency_sum = self._now[3] + (latency_ns_mean or 0.0) * new
            self._now = (elapsed_ns, completed, due or 0, latency_sum)
            self._in_flight, self._is_offered = in_flight, due is not None

    def look(self) -> list[Gauge]:
        """What was done since the last look; nothing if no time has passed."""
        with self._lock:
            elapsed, completed, due, latency = (
                now - seen for now, seen in zip(self._now, self._seen, strict=True)
            )
            self._seen = self._now
        if elapsed <= 0:
            return []
        achieved, offered = completed * 1e9 / elapsed, due * 1e9 / elapsed
        # A replay counts its flushes, too, which the load in its answer leaves out.
        unit = f" of {offered:,.0f}/s with flushes" if self._is_offered else " IOPS"
        mean = latency / completed if completed else None
        gauges = [
            Gauge("load", f"{achieved:,.0f}{unit}", achieved),
            Gauge("latency", format_duration_ns(mean), mean),
        ]
        if self._in_flight is not None:
            gauges.append(Gauge("in flight", f"{self._in_flight:,}", self._in_flight))
        return gauges


@dataclass(frozen=True, slots=True)
class Point:
    """A step of a sweep that is done."""

    scale: float
    achieved_iops: float
    offered_iops: float
    latency_ns: float | None
    remark: str = ""
    is_mean: bool = False

    def __str__(self) -> str:
        load = f"{self.achieved_iops:,.0f} of {self.offered_iops:,.0f} IOPS"
        figure = "mean" if self.is_mean else "median"
        return (
            f"{self.scale:g}x{self.remark}: {load}, {figure} response {format_duration_ns(self.latency_ns)}"
        )


class LiveMeter(console.Meter):
    """A bar, gauges with their history, and the curve of a sweep. All may be called as often as the work likes."""

    def __init__(self, title: str) -> None:
        self._columns = console.bar_columns(bar := BarColumn(bar_width=console.BAR_CHARACTERS))
        self._lines = Progress(*self._columns, console=console.words, auto_refresh=False)
        super().__init__(self._lines, title, bar)
        self.load = Load()
        self._points: dict[float, Point] = {}
        self._gauges: list[Gauge] = []
        self._history: dict[str, deque[float | None]] = {}
        self._filled: set[str] = set()

    def fills(self, target: str, size_bytes: int) -> None:
        """Say once of each target that it is being made: it takes room, in a folder under a name of its own."""
        if target not in self._filled:
            self._filled.add(target)
            console.say(f"making the test file {target} ({format_bytes(size_bytes)})")

    def point(self, point: Point) -> None:
        """Add a step to the curve; run again it takes the place of the earlier one. In a pipe it is a line."""
        self._points[point.scale] = point
        if not console.words.is_terminal:
            console.say(str(point))

    def look(self) -> None:
        """Take a reading of the load."""
        if not (found := self.load.look()):
            return
        self._gauges = found
        for gauge in found:
            self._history.setdefault(gauge.label, deque(maxlen=_HISTORY)).append(gauge.value)

    def line(self) -> str:
        """The last reading in words; empty where there is nothing to say yet."""
        gauges = ", ".join(f"{gauge.label} {gauge.words}" for gauge in self._gauges)
        said = ", ".join(part for part in (self.detail, gauges) if part)
        return f"{self._title}: {said}" if said and self._title else said

    def drawn(self) -> Group:
        """The last reading as a picture."""
        points = sorted(self._points.values(), key=lambda one: one.offered_iops)
        return Group(
            *_curve(points[-_POINTS_SHOWN:], console.words.width),
            self._lines.get_renderable(),
            *(self._gauge(gauge) for gauge in self._gauges),
        )

    def _gauge(self, gauge: Gauge) -> Text:
        room = min(max(console.words.width - _LABEL_CELLS - _WORDS_CELLS - 5, 0), _HISTORY)
        history = list(self._history[gauge.label])[-room:] if room else []
        words = f"  {gauge.label:<{_LABEL_CELLS}} {gauge.words:<{_WORDS_CELLS}}"
        return Text.assemble((words, ""), (f" {sparkline(history)}", "cyan"), no_wrap=True, overflow="crop")


def sparkline(values: Sequence[float | None]) -> str:
    """A row of bars from nought to the largest value; a blank where there is none."""
    top = max((value for value in values if value is not None), default=0.0)
    return "".join(
        " " if value is None else BARS[min(int(value / top * len(BARS)), len(BARS) - 1) if top else 0]
        for value in values
    )


def _curve(points: Sequence[Point], width: int) -> Iterator[Text]:
    """Response time over load, a line a step."""
    if not points:
        return
    top = max(point.latency_ns or 0.0 for point in points)
    loads = [f"{point.achieved_iops:,.0f} of {point.offered_iops:,.0f} IOPS" for point in points]
    widest = max(map(len, loads))
    for point, load in zip(points, loads, strict=True):
        words = f"{point.scale:>6g}x  {load:>{widest}}  {format_duration_ns(point.latency_ns):>8}"
        room = max(width - len(words) - len(point.remark) - 2, 0)
        length = max(round((point.latency_ns or 0.0) / top * min(room, 40)), 1) if top else 0
        bar = "█" * min(length, room)
        yield Text.assemble(
            words, (f"  {bar}", "cyan"), (printable(point.remark), "yellow"), no_wrap=True, overflow="crop"
        )


@contextmanager
def live(title: str) -> Iterator[LiveMeter]:
    """Show a run on a terminal while the block runs, or write a line now and then where none is."""
    meter = LiveMeter(title)
    over = threading.Event()
    shows = _drawing(meter, over) if console.words.is_terminal else _writing(meter, over)
    with shows:
        yield meter


@contextmanager
def _drawing(meter: LiveMeter, over: threading.Event) -> Iterator[None]:
    picture = Live(meter.drawn(), console=console.words, auto_refresh=False, transient=True)

    def draw() -> None:
        meter.look()
        picture.update(meter.drawn(), refresh=True)

    def watch() -> None:
        while not over.wait(DRAWN_EVERY_SECONDS):
            draw()

    with picture:
        thread = threading.Thread(target=watch, name="live display", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            draw()


@contextmanager
def _writing(meter: LiveMeter, over: threading.Event) -> Iterator[None]:
    def watch() -> None:
        waited = 0.0
        while not over.wait(every := LINE_EVERY_SECONDS if waited < 60 else _LINES_A_MINUTE_LATER):
            waited += every
            meter.look()
            if line := meter.line():
                console.say(line)

    thread = threading.Thread(target=watch, name="live lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def show_replay(meter: LiveMeter, state: ReplayProgress, prefix: str = "") -> None:
    """Elapsed over planned, and the load, latency and I/Os in flight; or how far a target is filled."""
    if state.phase == "survey":
        detail = f"reading the recording, {state.due_ios:,} I/Os"
        meter.update(state.due_ios, state.planned_ios, prefix + detail)
        return
    if state.phase == "check":
        meter.update(0, 1, f"{prefix}waiting for {state.target} to answer")
        return
    if state.phase == "fill":
        meter.fills(str(state.target), state.fill_bytes_total)
        detail = f"filling {state.target}, {format_bytes(state.fill_bytes)}"
        meter.update(state.fill_bytes, state.fill_bytes_total, prefix + detail)
        return
    meter.load.take(
        state.elapsed_ns,
        state.completed_ios,
        state.response_ns_mean,
        due=state.due_ios,
        in_flight=state.in_flight,
    )
    detail = prefix.rstrip(": ")
    if state.failed_ios:
        detail = ", ".join(part for part in (detail, f"{state.failed_ios:,} errors") if part)
    meter.update(min(state.elapsed_ns, state.planned_ns), state.planned_ns, detail)


def say_what_stays(targets: Iterable[str]) -> None:
    """Name the test files of iotrace that are there after a run: a person may want the space back."""
    for target in targets if sys.platform != "win32" else ():
        if not Path(target).is_file():
            continue
        with Path(target).open("rb") as file:
            size, is_ours = os.fstat(file.fileno()).st_size, was_ours(file.fileno())
        if is_ours:
            console.say(
                f"the test file {target} ({format_bytes(size)}) stays for the next run; delete it when done"
            )
