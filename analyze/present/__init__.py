"""What an answer is made of, whatever it is drawn with: a terminal, a page, a file for programs."""

from .answer import Answer, Column, Section, Sentence, Strip, Table
from .cells import Bytes, Cell, Count, Duration, Instant, Number, Offset, Rate, Ratio, Share
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
