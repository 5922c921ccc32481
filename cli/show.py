"""Draws an answer on a terminal, and the same in a pipe: nothing is wider than the screen or split within a word."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from iotrace.analyze.present import Answer, Column, Section, Sentence, Strip, Table
from iotrace.schemas.text import printable, shortened

from . import console

TONES: Final = {
    "plain": "", "answer": "bold", "good": "green", "doubt": "yellow", "bad": "bold red", "aside": "dim"
}  # fmt: skip
BARS: Final = "▁▂▃▄▅▆▇█"
_GAP: Final = "  "
_TEXT_CELLS_MIN: Final = 16
"""A column of text is made no narrower than this for the sake of the others."""
_TEXT_CELLS_MAX: Final = 48


def show(answer: Answer, *, full: bool = False, tells_of_more: bool = True) -> None:
    """Print what is said first, then the sections; ``full`` adds those, and the columns and rows, that few need.

    That there is more is told at the end, unless it is told once for several answers.
    """
    for sentence in answer.opening:
        say(sentence)
    for section in answer.sections:
        if full or not section.detail:
            show_section(section, full=full)
    if tells_of_more and not full and _has_more(answer):
        console.data.print()
        console.paragraph("--full shows more tables and columns", style="dim")


def show_section(section: Section, *, full: bool = False) -> None:
    """Print a heading and what belongs to it."""
    if section.heading:
        console.heading(shortened(section.heading, console.data.width, cell_len))
    for sentence in section.sentences:
        say(sentence)
    if section.strip is not None:
        _show_strip(section.strip)
    if section.table is not None:
        show_table(section.table, full=full)
    for note in section.notes:
        console.paragraph(note, style="dim")


def say(sentence: Sentence) -> None:
    """Print a sentence; blanks before it indent all of its lines."""
    words = sentence.text.lstrip(" ")
    indent = len(sentence.text) - len(words)
    console.paragraph(
        words, style=TONES[sentence.tone], indent=indent, hanging=2 if words.startswith("- ") else 0
    )


def show_table(table: Table, *, full: bool = False) -> None:
    """Print a table in as many blocks, one below the other, as its columns need."""
    chosen = [place for place, one in enumerate(table.columns) if full or not one.detail]
    rows = table.rows if full or table.shown is None else table.rows[: table.shown]
    heads = [table.columns[place] for place in chosen]
    cells = [[_plain(str(row[place])) for place in chosen] for row in rows]
    for block in _blocks(heads, cells, console.data.width):
        for line, is_head in _lines(heads, cells, block):
            console.data.print(Text(line, style="dim" if is_head else ""), soft_wrap=True)
    if len(rows) < len(table.rows):
        console.paragraph(f"{len(table.rows) - len(rows):,} more: --full", style="dim")


def _show_strip(strip: Strip) -> None:
    bars = Text("  ")
    for height, is_marked in zip(strip.heights, strip.marked, strict=True):
        place = -1 if height is None else min(int(max(height, 0) * len(BARS)), len(BARS) - 1)
        bars.append(" " if place < 0 else BARS[place], style=TONES["bad"] if is_marked else "")
    console.data.print(bars)
    if strip.labels:
        console.data.print(Text(f"  {strip.labels}", style=TONES["bad"]))
    if strip.axis:
        console.data.print(Text(f"  {strip.axis}", style="dim"))


def _has_more(answer: Answer) -> bool:
    tables = [section.table for section in answer.sections if section.table is not None]
    return any(section.detail for section in answer.sections) or any(
        column.detail for table in tables for column in table.columns
    )


def _plain(text: str) -> str:
    return printable(text) if text.isprintable() else printable(" ".join(text.split()))


def _blocks(heads: list[Column], cells: list[list[str]], width: int) -> Iterator[dict[int, int]]:
    """Which columns stand side by side, and how wide each is; those that name the row begin every block."""
    widths = [
        max([_head_cells(one.head), *(cell_len(row[place]) for row in cells)])
        for place, one in enumerate(heads)
    ]
    keys = [place for place, one in enumerate(heads) if one.is_text]
    keys = [place for number, place in enumerate(keys) if place == number]
    for place, one in enumerate(heads):
        if one.is_text:
            widths[place] = min(widths[place], _TEXT_CELLS_MAX)
    least = [
        min(widths[place], _TEXT_CELLS_MIN) if one.is_text else widths[place]
        for place, one in enumerate(heads)
    ]
    rest = [place for place in range(len(heads)) if place not in keys]
    while True:
        block = list(keys)
        while rest and (block == keys or _total(least, [*block, rest[0]]) <= width):
            block.append(rest.pop(0))
        yield _fitted(heads, widths, least, block, width)
        if not rest:
            return


def _total(widths: Sequence[int], places: Sequence[int]) -> int:
    return sum(widths[place] for place in places) + len(_GAP) * (len(places) - 1)


def _fitted(
    heads: list[Column], widths: list[int], least: list[int], block: list[int], width: int
) -> dict[int, int]:
    """The width of each column of a block: the widest text gives way until all of it fits."""
    found = {place: widths[place] for place in block}
    while (over := sum(found.values()) + len(_GAP) * (len(block) - 1) - width) > 0:
        text = [place for place in block if heads[place].is_text and found[place] > least[place]]
        if not text:
            break
        widest = max(text, key=lambda place: found[place])
        found[widest] = max(found[widest] - over, least[widest])
    return found


def _head_cells(head: str) -> int:
    """How wide a head is that may be broken once, between words."""
    return max(map(cell_len, _halves(head)))


def _halves(head: str) -> tuple[str, str]:
    """A head broken where that makes it narrowest."""
    words = head.split(" ")
    halves = [(" ".join(words[:place]), " ".join(words[place:])) for place in range(len(words))]
    return min(halves, key=lambda pair: max(map(cell_len, pair)))


def _lines(heads: list[Column], cells: list[list[str]], block: dict[int, int]) -> Iterator[tuple[str, bool]]:
    broken = [
        ("", heads[place].head) if cell_len(heads[place].head) <= width else _halves(heads[place].head)
        for place, width in block.items()
    ]
    if any(one.head for one in heads):
        for line in range(2):
            texts = [pair[line] for pair in broken]
            if line == 1 or any(texts):
                yield _line(heads, texts, block), True
    for row in cells:
        yield _line(heads, [row[place] for place in block], block), False


def _line(heads: list[Column], texts: list[str], block: dict[int, int]) -> str:
    parts = []
    for text, (place, width) in zip(texts, block.items(), strict=True):
        shown = shortened(text, width, cell_len)
        blanks = " " * (width - cell_len(shown))
        parts.append(shown + blanks if heads[place].is_text else blanks + shown)
    return _GAP.join(parts).rstrip()
