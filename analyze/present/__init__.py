"""What an answer is made of, whatever it is drawn with: a terminal, a page, a file for programs."""

from .answer import (
    Answer,
    Bytes,
    Cell,
    Column,
    Count,
    Duration,
    Instant,
    Number,
    Offset,
    Rate,
    Ratio,
    Section,
    Sentence,
    Share,
    Strip,
    Table,
)
from .program import ProgramAnswer, plain

__all__ = [
    "Answer",
    "Bytes",
    "Cell",
    "Column",
    "Count",
    "Duration",
    "Instant",
    "Number",
    "Offset",
    "ProgramAnswer",
    "Rate",
    "Ratio",
    "Section",
    "Sentence",
    "Share",
    "Strip",
    "Table",
    "plain",
]
