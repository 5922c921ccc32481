"""Text files in blocks of whole lines: bounded memory whatever the bytes, and a last line without an end kept out."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from .format import Progress, naming

BLOCK_BYTES: Final = 16 << 20
_LINE_BYTES_MAX: Final = 1 << 20


class TextBlocks:
    """Reads a file once. ``cut_tail`` and ``overlong_lines`` are final when `blocks` is exhausted."""

    def __init__(self, path: Path, name: str, progress: Progress) -> None:
        self.cut_tail = False
        self.overlong_lines = 0
        self._path, self._name, self._progress = path, name, progress

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of whole lines, valid UTF-8, without carriage returns."""
        encoding = text_encoding(self._head())
        carry = b""
        skipping = False
        done = 0
        with naming(self._name), self._path.open("rb") as file:
            total = self._path.stat().st_size
            decoder = _Recoder(encoding)
            while raw := file.read(BLOCK_BYTES):
                done += len(raw)
                self._progress(f"reading {self._name}", min(done, total), total)
                data = carry + decoder.recode(raw)
                cut = data.rfind(b"\n") + 1
                whole, carry = data[:cut], data[cut:]
                if skipping and whole:
                    whole = whole[whole.find(b"\n") + 1 :]
                    skipping = False
                if skipping or len(carry) > _LINE_BYTES_MAX:
                    self.overlong_lines += not skipping
                    carry, skipping = b"", True
                if whole:
                    yield whole
        self.cut_tail = bool(carry.strip()) or skipping

    def _head(self) -> bytes:
        with naming(self._name), self._path.open("rb") as file:
            return file.read(4)


class _Recoder:
    """Brings what Windows tools write (UTF-16, stray bytes of code pages) to UTF-8."""

    def __init__(self, encoding: str) -> None:
        self._plain = encoding == "utf-8"
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._first = True

    def recode(self, raw: bytes) -> bytes:
        if self._plain and not self._first and raw.isascii() and not self._decoder.getstate()[0]:
            return raw.replace(b"\r", b"") if b"\r" in raw else raw
        text = self._decoder.decode(raw)
        if self._first:
            text = text.removeprefix("\ufeff")
            self._first = False
        return text.replace("\r", "").encode()


def text_encoding(head: bytes) -> str:
    """UTF-16 where a byte-order mark says so, else UTF-8."""
    return {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2], "utf-8")


def head_lines(head: bytes, count: int) -> list[str]:
    """The first whole lines of a file that are not empty; none if it is no text."""
    text = head.decode(text_encoding(head), "replace").removeprefix("\ufeff")
    if "\0" in text[:4096]:
        return []
    lines: list[str] = []
    start = 0
    while len(lines) < count and (end := text.find("\n", start)) >= 0:
        line = text[start:end].strip("\r")
        lines += [line] if line.strip() else []
        start = end + 1
    return [text.strip("\r")] if not start and text.strip() else lines


def lines_of(block: bytes) -> pa.Array:
    """The lines of one of `TextBlocks.blocks`.

    Only a line feed ends one: names of files and programs hold other signs that Python takes for a line's end.
    """
    return pa.array(block.decode("utf-8", "replace").removesuffix("\n").split("\n"), pa.string())


def columns_of(block: bytes, names: list[str], delimiter: str) -> tuple[dict[str, pa.Array], int]:
    """Fields of a block as strings, by column, and how many lines have another number of fields. No quoting."""
    rejected = 0

    def skip(_row: object) -> str:
        nonlocal rejected
        rejected += 1
        return "skip"

    table = pa_csv.read_csv(
        pa.BufferReader(block),
        pa_csv.ReadOptions(use_threads=False, block_size=max(len(block), 1 << 20), column_names=names),
        pa_csv.ParseOptions(delimiter=delimiter, quote_char=False, invalid_row_handler=skip),
        pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
    )
    return {name: table.column(name).combine_chunks() for name in names}, rejected


def inspect_text(path: Path, name: str, kind: str) -> dict[str, Any]:
    """Lines of a text file and whether its last one is whole."""
    blocks = TextBlocks(path, name, lambda *_: None)
    lines = sum(block.count(b"\n") for block in blocks.blocks())
    return {
        "format": kind,
        "bytes": path.stat().st_size,
        "lines": lines,
        "whole": not blocks.cut_tail,
    }
