"""What is shown while a run goes on: figures of the time since the last look, a history, and the curve of a sweep."""

import io
import threading

import pytest
from rich.console import Console

from iotrace.analyze.knee.next_load import StepSummary
from iotrace.analyze.units import DASH
from iotrace.cli import console, live
from iotrace.cli.live import LiveMeter, Load, Point, show_replay, sparkline
from iotrace.cli.sweep import point_of
from iotrace.replay import Progress

SECOND_NS = 1_000_000_000


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns is sent."""
    sent = io.StringIO()
    terminal = Console(file=sent, force_terminal=True, width=80, color_system=None, markup=False)
    monkeypatch.setattr(console, "words", terminal)
    return sent


def drawn(meter: LiveMeter) -> list[str]:
    sent = io.StringIO()
    Console(file=sent, width=80, color_system=None).print(meter.drawn())
    return sent.getvalue().splitlines()


def test_figures_are_of_the_time_since_the_last_look() -> None:
    load = Load()
    load.take(SECOND_NS, 100, 5e6, due=100, in_flight=1)
    load.look()
    # In the next two seconds 300 I/Os of 1 ms and 100 of 5 ms complete, and 600 were due: 2 ms in the mean.
    load.take(2 * SECOND_NS, 400, 1e6, due=500, in_flight=7)
    load.take(3 * SECOND_NS, 500, 5e6, due=700, in_flight=9)
    assert [(gauge.label, gauge.words) for gauge in load.look()] == [
        ("load", "200 of 300/s with flushes"),
        ("latency", "2.00 ms"),
        ("in flight", "9"),
    ]
    assert load.look() == []


def test_a_step_that_starts_again_counts_from_nought() -> None:
    load = Load()
    load.take(10 * SECOND_NS, 10_000, 1e6)
    load.look()
    load.take(SECOND_NS, 50, 1e6)
    assert load.look()[0].words == "50 IOPS"


def test_a_second_without_an_io_is_a_gap() -> None:
    load = Load()
    load.take(SECOND_NS, 0, None, due=0)
    assert [gauge.value for gauge in load.look()] == [0, None]
    assert sparkline([4.0, None, 0.0, 2.0]) == "█ ▁▅"


def test_the_curve_grows_in_order_of_load(screen: io.StringIO) -> None:
    meter = LiveMeter("sweep")
    for point in (
        Point(4, 390, 400, 9e6),
        Point(1, 100, 100, 1e6),
        Point(2, 200, 200, 1e6),
        Point(2, 200, 200, 3e6),
    ):
        meter.point(point)
    rows = [line for line in drawn(meter) if "IOPS" in line]
    assert [row.split()[0] for row in rows] == ["1x", "2x", "4x"]
    # Bars as long as the latencies: 1, 3 and 9 ms; of 2x the later run counts.
    bars = [row.count("█") for row in rows]
    assert bars[1] == pytest.approx(3 * bars[0], abs=2)
    assert bars[2] == pytest.approx(9 * bars[0], abs=5)
    assert max(map(len, rows)) <= 80


def test_who_runs_does_not_draw(screen: io.StringIO) -> None:
    """A thousand reports between two looks draw nothing."""
    drawing: set[str] = set()
    write = screen.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "DRAWN_EVERY_SECONDS", 3600.0)
        with live.live("replay") as meter:
            patch.setattr(
                screen, "write", lambda text: (drawing.add(threading.current_thread().name), write(text))[1]
            )
            for number in range(1000):
                meter.load.take(number * SECOND_NS // 10, number, 1e6)
                meter.update(number, 1000)
            assert not drawing


def test_in_a_pipe_there_are_plain_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meter = LiveMeter("sweep")
    assert meter.line() == ""
    meter.update(1, 2, "step 1 at 1x")
    meter.load.take(SECOND_NS, 90, 4e5, due=100, in_flight=3)
    meter.look()
    assert meter.line() == "sweep: step 1 at 1x, load 90 of 100/s with flushes, latency 0.40 ms, in flight 3"
    meter.point(Point(1, 90, 100, 4e5, " (too short to tell)"))
    assert capsys.readouterr().err == "1x (too short to tell): 90 of 100 IOPS, median response 0.40 ms\n"


def test_a_file_that_is_made_is_said_once_with_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    meter = LiveMeter("replay")
    for done in (0, 0, 1 << 20):
        for name in ("/new/data.target", "/new/log.target"):
            show_replay(meter, Progress("fill", target=name, fill_bytes=done, fill_bytes_total=800 << 20))
    assert capsys.readouterr().err.splitlines() == [
        "making the test file /new/data.target (800 MiB)",
        "making the test file /new/log.target (800 MiB)",
    ]


def test_a_model_that_states_no_latency_does_not_answer_in_0_ns():
    """Where a limit held a few I/Os back, their mean is 5 ns, and the median is still none."""

    def said(p50: float | None, latency_ns: float) -> str:
        step = StepSummary(2, 200, 200, latency_ns, False, True, False, response_ns_p50=p50)
        return str(point_of(step)).partition("IOPS, ")[2]

    assert said(0, 5) == f"median response {DASH}"
    assert said(1e6, 1e6) == "median response 1.00 ms"
    assert said(None, 5.55e6) == "mean response 5.55 ms"
