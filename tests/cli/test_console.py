"""What is shown while work goes on, on a terminal of 80 columns."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import iotrace.cli
from iotrace.cli import console
from iotrace.cli.characterize import _Watch
from iotrace.cli.live import live
from iotrace.replay import Progress
from iotrace.replay.characterize import PRESETS

from .conftest import Result


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns is sent."""
    sent = io.StringIO()
    terminal = Console(file=sent, force_terminal=True, width=80, color_system=None, markup=False)
    monkeypatch.setattr(console, "words", terminal)
    return sent


def last_line(sent: io.StringIO) -> str:
    """The bar as it stood last, without what drives the terminal."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.getvalue()).replace("\r", "\n").splitlines()
    return [line for line in lines if line.strip()][-1]


@pytest.mark.parametrize("name", ["[/x].bin", "[red]hot", "a[bold", ":warning: {0}"])
def test_a_name_of_any_signs_is_shown_as_it_is(screen: io.StringIO, name: str) -> None:
    with console.progress(name) as meter:
        meter.update(1, 2, f"filling {name}")
    assert last_line(screen).startswith(f"{name} ")
    assert f"filling {name} " in last_line(screen)


def test_the_bar_gives_way_to_the_words(screen: io.StringIO) -> None:
    detail = "step 12 at 1.5x: 35,560 of 35,560 IOPS, 0.39 ms, 1,024"
    with console.progress("sweep") as meter:
        meter.update(1, 2, detail)
    assert f" {detail} 0:00:00" in last_line(screen)


def test_words_that_are_too_long_leave_the_rest_in_place(screen: io.StringIO) -> None:
    with console.progress("replay") as meter:
        meter.update(1, 2, "x" * 200)
    assert re.fullmatch(r"replay [━╸╺ ]{6} x+… 0:00:00", last_line(screen))


def test_every_run_of_the_largest_matrix_is_named_within_80_columns(screen: io.StringIO) -> None:
    cells = [cell for one in PRESETS["sqlio"].series() for cell in one.cells]
    with live("") as meter:
        watch = _Watch(meter, len(cells), 12.0)
        for number, cell in enumerate(cells, start=1):
            watch.start(cell)(Progress("play", elapsed_ns=11_999_000_000, rate_per_s=123_456.7))
            detail = meter.detail
            assert f"{number}/220, " in detail
            assert f"{cell.pattern} {cell.op}" in detail
            assert len(detail) <= 80 - len("0:00:00") - 6 - 3, detail
        assert detail.startswith("220/220, 0 s left: ")


@pytest.mark.parametrize("command", [[], ["capture"]])
def test_without_arguments_help_is_shown(iotrace: Callable[..., Result], command: list[str]) -> None:
    told = iotrace(*command)
    assert told.status == 0
    assert told.out.startswith("Usage: iotrace")
    assert "\n  describe " in told.out or "\n  linux " in told.out
    assert told.err == ""


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
def test_a_reader_that_goes_away_is_no_answer(unbuffered: str) -> None:
    """``iotrace describe X | head -1``: status 1 would say that the answer is no."""
    bundled = Path(iotrace.cli.__file__ or "").parent / "bundled" / "pgbench.iotrace"
    with subprocess.Popen(
        [sys.executable, "-m", "iotrace.cli", "describe", bundled],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as told:
        assert told.stdout is not None
        told.stdout.close()
        assert told.wait() == 0
        assert told.stderr is not None
        assert told.stderr.read() == b""


def test_no_line_ends_between_a_figure_and_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the width, and a point of a list is indented below its dash."""
    for width in range(18, 40):
        shown = console._Data(width=width, file=io.StringIO())
        monkeypatch.setattr(console, "data", shown)
        console.paragraph("- it moved by -12 % to 250 MB/s, ≤ 4 KiB, in 3 min 20 s", hanging=2)
        assert isinstance(shown.file, io.StringIO)
        lines = shown.file.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert [line[:2] for line in lines[1:]] == ["  "] * (len(lines) - 1)
        assert "\ue000" not in "".join(lines)
        for whole in ("-12 %", "250 MB/s", "≤ 4 KiB", "3 min 20 s"):
            assert any(whole in line for line in lines)


def test_a_path_longer_than_a_line_is_broken_between_names(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = io.StringIO()
    monkeypatch.setattr(console, "data", console._Data(file=sent, width=40, markup=False))
    path = "'night.zip/2026/11/28/host-sql-production-01/counters_of_the_night.csv'"
    console.paragraph(f"{path} is empty")
    assert sent.getvalue().splitlines() == [
        "'night.zip/2026/11/28/",
        "host-sql-production-01/",
        "counters_of_the_night.csv' is empty",
    ]
