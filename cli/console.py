"""Where words and data go: tables and JSON to stdout, everything said along the way to stderr, and both to a log."""

import json
import logging
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.segment import Segment, Segments
from rich.table import Column, Table
from rich.text import Text

from iotrace.analyze.present import ProgramAnswer, plain
from iotrace.schemas import IotraceError, Quality, Recording
from iotrace.schemas.models import model_words
from iotrace.schemas.text import printable, shortened

LOGGER: Final = logging.getLogger("iotrace")
LOGGER.propagate = False
_GLUE: Final = "\ue000"
"""Stands for a blank at which no line may end: between a figure and its unit."""
_FIGURE: Final = re.compile(
    r"(?<=≤) |(?<=min) (?=\d\d s)|(?<=\d h) (?=\d\d min)"
    r"|(?<=\d) (?=(?:%|ns|µs|ms|s|min|h|B|[KMGT]i?B|[KMG]B/s|IOPS)(?![\w/]))"
)
_LONG_WORD: Final = re.compile(r"\S{40,}")

LOGGER.addHandler(logging.NullHandler())


def note(text: str, level: int = logging.INFO) -> None:
    """Add a line to the log, if one is kept."""
    LOGGER.log(level, "%s", printable(" ".join(text.split())))


class _Data(Console):
    has_printed = False

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:  # noqa: ANN401 - as rich's
        """Print without the blanks that rich leaves at the ends of lines."""
        self.has_printed = True
        if soft_wrap or not objects:
            super().print(*objects, soft_wrap=soft_wrap, **options)
            return
        for line in self.render_lines(Group(*objects), pad=False):
            super().print(Segments([*_trimmed(line), Segment.line()]), **options | {"end": ""})

    def on_broken_pipe(self) -> None:
        """Leave it to `main` to end quietly: rich would end with status 1, which says that the answer is no."""
        raise BrokenPipeError


class _Words(Console):
    """What cannot be said, as where stderr leads to a full disk, changes nothing of what is done."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - as rich's
        """Print, or do without."""
        with suppress(OSError):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Do without, too: rich would end with status 1, which says that the answer is no."""


def _trimmed(line: Sequence[Segment]) -> list[Segment]:
    kept = list(line)
    while kept and not kept[-1].text.rstrip(" "):
        kept.pop()
    if kept:
        kept[-1] = Segment(kept[-1].text.rstrip(" "), kept[-1].style, kept[-1].control)
    return [Segment(one.text.replace(_GLUE, " "), one.style, one.control) for one in kept]


# A terminal of no size, as some programs set it: rich would print nothing.
if not os.environ.get("COLUMNS", "80").strip("0"):
    del os.environ["COLUMNS"]
# markup=False: a file name may hold square brackets, and the text of a trace must never style the screen.
data = _Data(markup=False, highlight=False, emoji=False)
words = _Words(stderr=True, markup=False, highlight=False, emoji=False)

_TEXT_CHARACTERS_MAX: Final = 1000
BAR_CHARACTERS: Final = 24
_BAR_CHARACTERS_MIN: Final = 6
_ELAPSED_CHARACTERS: Final = len("0:00:00")
_BEYOND_ASCII: Final = re.compile(r"[^\n\x20-\x7e]")


def print_json(value: Any) -> None:  # noqa: ANN401 - JSON is whatever the answer is
    """Write ``value`` as JSON to stdout; NaN and infinities, which JSON lacks, become null."""
    sys.stdout.write(json_text(value, indent=1) + "\n")


def print_answer(answer: ProgramAnswer) -> None:
    """Write an answer for programs to stdout."""
    print_json(plain(answer))


def json_text(value: Any, indent: int | None = None) -> str:  # noqa: ANN401
    """``value`` as JSON that is safe to look at."""
    text = json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    """JSON's escape for a character that could drive the terminal; letters of any language stay as they are."""
    return (
        found[0]
        if found[0].isprintable()
        else json.dumps(found[0])[1:-1]
        if found[0] != "\x7f"
        else "\\u007f"
    )


def _finite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124 - NaN differs from itself
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def use_colors(wanted: bool) -> None:
    """Print in colours where the terminal has them, or not at all."""
    words.no_color = data.no_color = not wanted or "NO_COLOR" in os.environ


def say(text: str) -> None:
    """A remark for the person at the terminal."""
    note(text)
    _tell(Text(printable(text)))


def warn(text: str) -> None:
    """Something the reader must know before trusting the figures."""
    note(text, logging.WARNING)
    _tell(Text.assemble(("warning: ", "yellow"), printable(text)))


def warn_of_model(recordings: Sequence[Recording]) -> None:
    """A warning where no storage answered what a recording holds, before its rows are handed on as they are."""
    if (words := model_words(recordings)) != "":
        warn(f"a model answered, not storage: every time is {words}")


def fail(message: str, hint: str) -> None:
    """Print an error as design §7 wants it: what, on which word, and after a blank line what to do next."""
    note(f"{message} (hint: {hint})" if hint else message, logging.ERROR)
    _tell(Text.assemble(("error: ", "bold red"), printable(message)))
    if hint:
        words.print()
        _tell(Text.assemble(("hint: ", "bold cyan"), printable(hint)))


def end(problem: IotraceError) -> None:
    """Print an error and end the process at once with status 2, for what can be ended in no other way."""
    try:
        with suppress(OSError):
            sys.stdout.flush()
        words.show_cursor()
        fail(problem.message, problem.hint or "")
        note("status 2")
    finally:
        os._exit(2)


def _tell(text: Text) -> None:
    """Break lines between words on a terminal, and not at all in a pipe, where a line is what a program looks for."""
    words.print(text, soft_wrap=not words.is_terminal)


def heading(text: str) -> None:
    """Title of the table or paragraph that follows, below an empty line unless it is the first that is printed."""
    if data.has_printed:
        data.print()
    data.print(Text(printable(shortened(text)), style="bold"), soft_wrap=True)


def paragraph(text: str, *, style: str = "", indent: int = 0, hanging: int = 0) -> None:
    """Text that belongs to the answer; further lines of it are indented like the first, and ``hanging`` cells more.

    No line ends between a figure and its unit.
    """
    note(text)
    told = _FIGURE.sub(_GLUE, printable(shortened(text, _TEXT_CHARACTERS_MAX)))
    told = _LONG_WORD.sub(partial(_at_separators, data.width - indent - hanging), told)
    first, rest = Text(told[:hanging], style=style), Text(told[hanging:], style=style)
    shown: RenderableType = rest
    if hanging:
        grid = Table.grid()
        grid.add_column(width=hanging)
        grid.add_column(overflow="fold")
        grid.add_row(first, rest)
        shown = grid
    # Padding fills wrapped lines up with spaces, so it is used only where there is something to indent.
    data.print(Padding(shown, (0, 0, 0, indent), expand=False) if indent else shown)


def _at_separators(width: int, found: re.Match[str]) -> str:
    """A path that is longer than a line, on lines of its own that end after a separator, not within a name."""
    if cell_len(found[0]) <= width:
        return found[0]
    lines = [""]
    for name in re.findall(r"[^/\\]*[/\\]?", found[0]):
        if cell_len(lines[-1] + name) > width and lines[-1]:
            lines.append("")
        lines[-1] += name
    return "\n".join(lines)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print a table; the first ``left`` columns hold text, the others figures, which line up at their right end."""
    grid = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        text_column = position < left
        grid.add_column(
            name,
            justify="left" if text_column else "right",
            no_wrap=not text_column,
            overflow="fold" if text_column else "ellipsis",
        )
    for row in rows:
        grid.add_row(*(Text(printable(shortened(cell))) for cell in row))
    data.print(grid)


def print_whole(grid: Table, width: int) -> None:
    """Print a table of a known width as it is: in a pipe there is no screen that it had to fit."""
    Console(
        file=data.file, width=max(width, data.width), markup=False, highlight=False, emoji=False,
        force_terminal=data.is_terminal, no_color=data.no_color,
    ).print(grid)  # fmt: skip


def bars(rows: Sequence[Sequence[str]]) -> None:
    """Print label, figure and bar per row."""
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    for justify in ("left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(printable(shortened(cell))) for cell in row))
    data.print(grid)


def quality(name: str, found: Quality) -> None:
    """State how whole a recording is, next to figures taken from it; nothing of what the figures are worth."""
    style = {"good": "green", "usable": "yellow", "poor": "bold red"}[found.verdict]
    reasons = shortened(f": {'; '.join(found.reasons)}" if found.reasons else "", _TEXT_CHARACTERS_MAX)
    data.print(Text.assemble(f"{printable(name)}: ", (f"recorded {found.words}", style), printable(reasons)))


def check(level: str, name: str, found: str, advice: str) -> None:
    """One thing that was examined; further lines stand below its text."""
    style = {"ok": "green", "warning": "yellow", "problem": "bold red"}[level]
    opening = f"{level:<8} {name:<13}"
    room = max(data.width - len(opening), 20) if data.is_terminal else 10**6
    lines = [
        *textwrap.wrap(printable(found), room),
        *textwrap.wrap(f"→ {printable(advice)}" if advice else "", room),
    ]
    for number, line in enumerate(lines):
        start = Text(opening) if number == 0 else Text(" " * len(opening))
        if number == 0:
            start.stylize(style, 0, len(level))
        data.print(start.append(line), soft_wrap=True)


@contextmanager
def working(title: str) -> Iterator[None]:
    """Show on a terminal that work goes on whose length is not known."""
    with progress(title):
        yield


@contextmanager
def progress(title: str) -> Iterator["Meter"]:
    """Show a bar on a terminal, and nothing when stderr is piped."""
    bar = BarColumn(bar_width=BAR_CHARACTERS, table_column=Column(no_wrap=True))
    lines = Progress(*bar_columns(bar), console=words, transient=True, disable=not words.is_terminal)
    # rich before 15 ends a bar that nobody sees with an empty line.
    with lines if words.is_terminal else nullcontext():
        yield Meter(lines, title, bar)


@contextmanager
def counting(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar over so many recordings; gives what is to be told how many are done."""
    with progress(title) as meter:
        yield lambda count: meter.update(count, total, f"{count:,} of {total:,} recordings")


def bar_columns(bar: BarColumn) -> tuple[ProgressColumn, ...]:
    """What stands on the line of a bar."""
    elapsed = TimeElapsedColumn(table_column=Column(no_wrap=True))
    return TextColumn("{task.description}", markup=False), bar, _Detail(), elapsed


class _Detail(ProgressColumn):
    """What a meter says, word for word: a target's name may hold square brackets. It gives way where room is scarce."""

    def render(self, task: Task) -> Text:
        """On one line."""
        return Text(task.fields["detail"], no_wrap=True, overflow="ellipsis")


class Meter:
    """One bar. `update` may be called as often as the work likes."""

    def __init__(self, lines: Progress, title: str, bar: BarColumn) -> None:
        self._lines, self._bar = lines, bar
        self._title = printable(title)
        self._task = lines.add_task(self._title, total=None, detail="")
        self.detail = ""
        """What it said last."""

    def update(self, done: float, total: float | None, detail: str = "") -> None:
        """Set how far the work is; an unknown ``total`` shows a moving bar."""
        self.detail = detail = printable(detail)
        # The bar gives way to the words. It never grows again, or the words would jump about.
        room = words.width - cell_len(self._title) - cell_len(detail) - _ELAPSED_CHARACTERS - 3
        width = min(self._bar.bar_width or BAR_CHARACTERS, room)
        self._bar.bar_width = max(width, _BAR_CHARACTERS_MIN)
        self._lines.update(self._task, completed=done, total=total, detail=detail)
