"""Text of counter logs: its encoding, its header cells, and its lines in pieces of bounded size.

The text is in the code page of the machine that wrote it, which the file does not name; numbers and times are ASCII, so
only the names of counters depend on it. Tools that save such a file again leave UTF-8 or (PowerShell) UTF-16.
"""

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.counters.names import is_known_object
from iotrace.capture.formats.format import Progress
from iotrace.capture.formats.text_times import UTC_NS_MAX
from iotrace.schemas import IotraceError

PIECE_BYTES: Final = 1 << 22
_TIME: Final = r"^\d{2}/\d{2}/\d{4} \d{2}:\d{2}:\d{2}(\.\d{1,9})?$"
_LINE_BYTES_MAX: Final = 1 << 26
HEADER: Final = re.compile(rb'^[ \t]*"?\(PDH-[CT]SV \d', re.MULTILINE)
DATA: Final = re.compile(rb'^[ \t]*"?\d{1,2}/\d{1,2}/\d{4} [^\r\n]*', re.MULTILINE)
_ZONE: Final = re.compile(
    r"\(PDH-[CT]SV [\d.]+\)\s*(?:\((?P<zone>.*?)\))?\s*(?:\((?P<bias>-?\d{1,4})\))?\s*$", re.DOTALL
)
_CYRILLIC: Final = re.compile(rb"[\xa8\xb8\xc0-\xff]{3,}")
_CODE_PAGES: Final = ("cp1252", "cp1251", "cp1250", "cp932", "cp936", "cp949", "cp950", "cp1253", "cp1254")


@dataclass(frozen=True, slots=True)
class CounterPath:
    """A counter path, taken apart. ``host`` is empty where the path names none."""

    host: str
    object_name: str
    instance: str | None
    counter: str


@dataclass(frozen=True, slots=True)
class Header:
    """One header line: what time the data is in, and a counter for each column."""

    zone: str | None
    bias_minutes: int | None
    """Minutes to add to the times for UTC; None where the file does not say."""
    paths: tuple[CounterPath, ...]
    delimiter: str
    encoding: str
    is_guessed: bool
    """Whether ``encoding`` is only the likeliest."""


def looks_like_text_log(head: bytes) -> bool:
    """Whether a header of a text log begins a line near the start of ``head``."""
    return bool(HEADER.search(_plain(head[:8192])))


def _plain(head: bytes) -> bytes:
    encoding = _marked_encoding(head)
    if encoding is None:
        return head
    return head.decode(encoding, "replace").lstrip("\ufeff").encode()


def _marked_encoding(head: bytes) -> str | None:
    """Unicode encoding told by a mark or by its zeros; None for 8-bit text."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return encoding
    return "utf-16-le" if head[1:8:2] == bytes(4) and len(head) > 8 else None


class TextLog:
    """Lines of a log in pieces of about 4 MiB that end with a line, as 8-bit text."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self.truncated = False
        """Whether the file ends within a line; known at the end."""
        self.is_unended = False
        """Whether the piece handed out last is a line without its end, the file's last."""

    def pieces(self, progress: Progress) -> Iterator[tuple[bytes, bool]]:
        """Yield pieces and whether the text is known to be UTF-8. Raises `IotraceError` for a line without end."""
        total = self._path.stat().st_size
        with self._path.open("rb") as file:
            encoding = _marked_encoding(file.read(16))
            file.seek(0)
            decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
            rest = b""
            while raw := file.read(PIECE_BYTES):
                progress(f"reading {self._name}", file.tell(), max(total, file.tell()))
                chunk = decoder.decode(raw).lstrip("\ufeff").encode() if decoder else raw
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield rest + chunk[:end], encoding is not None
                    rest = chunk[end:]
                else:
                    rest += chunk
                if len(rest) > _LINE_BYTES_MAX:
                    raise IotraceError(
                        f"'{self._name}' has a line of more than {_LINE_BYTES_MAX >> 20} MiB",
                        hint="check that it is the counter log and whole",
                    )
        if rest.strip(b"\0 \t\r\n\x1a"):
            if rest.count(b'"') % 2 or not rest.rstrip(b"\0 \t\r\x1a").endswith(b'"'):
                self.truncated = True  # within a cell, whose number may be cut
                return
            self.is_unended = True
            yield rest + b"\n", encoding is not None


def read_header(line: bytes, *, is_utf8: bool, name: str) -> Header:
    """Take a header line apart. Raises `IotraceError` if no counter is in it."""
    encoding, is_guessed = ("utf-8", False) if is_utf8 else _code_page(line)
    text = line.decode(encoding, "replace").strip("\r\n \t")
    delimiter = "\t" if "(PDH-TSV" in text[:16] else ","
    if delimiter == "," and text.count(";") > text.count(","):
        delimiter = ";"  # saved again by a spreadsheet on a system whose lists are so
    try:
        cells = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        cells = [cell.strip('"') for cell in text.split(delimiter)]
    while cells and not cells[-1].strip():
        cells.pop()
    if len(cells) < 2:
        raise IotraceError(
            f"'{name}' has a header without counters", hint="record again with at least one counter"
        )
    zone = _ZONE.match(cells[0].strip())
    bias = zone["bias"] if zone else None
    is_bias = bias is not None and abs(int(bias)) <= 24 * 60
    return Header(
        zone["zone"] or None if zone else None,
        int(bias) if bias is not None and is_bias else None,
        tuple(split_path(cell) for cell in cells[1:]),
        delimiter,
        encoding,
        is_guessed,
    )


def split_path(path: str) -> CounterPath:
    r"""Take ``\\HOST\Object(Instance)\Counter`` apart; host and instance may be missing."""
    path = path.strip()
    host = ""
    if path.startswith("\\\\"):
        host, _, path = path[2:].partition("\\")
    path = path.removeprefix("\\")
    # Instances may hold backslashes (mount points) and parentheses, and counters slashes and parentheses.
    found = re.match(r"(?P<object>[^(\\]*)\((?P<instance>.*)\)\\(?P<counter>[^\\]*)$", path, re.DOTALL)
    if found:
        return CounterPath(host, found["object"].strip(), found["instance"], found["counter"].strip())
    object_name, _, counter = path.rpartition("\\")
    return CounterPath(host, object_name.strip() or "unknown", None, counter.strip())


def _code_page(line: bytes) -> tuple[str, bool]:
    """The code page in which a header makes sense, and whether that is a guess."""
    if line.isascii():
        return "ascii", False
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8", False
    for code_page in _CODE_PAGES:
        try:
            text = line.decode(code_page)
        except UnicodeDecodeError:
            continue
        if any(is_known_object(part) for part in re.findall(r"\\([^\\(]+)\(", text[:1_000_000])):
            return code_page, False
    # Words in Cyrillic are runs of high bytes; Western languages have single ones among ASCII.
    runs = sum(len(run) for run in _CYRILLIC.findall(line))
    high = sum(byte > 127 for byte in line[: 1 << 16])
    return ("cp1251" if 2 * runs > high else "cp1252"), True


def milliseconds(times: pa.Array) -> pa.Array:
    """Local milliseconds since 1970 for ``MM/DD/YYYY HH:MM:SS.mmm``; null for what is none.

    Nor is a year before 1970 or after 2261 one: nanoseconds between two times have to fit into 64 bits.
    """
    # Spreadsheets drop leading zeros and what is zero at the end.
    text = pc.utf8_trim(times, ' "')
    for short, full in ((r"^(\d)/", r"0\1/"), (r"/(\d)/", r"/0\1/"), (r" (\d):", r" 0\1:")):
        text = pc.replace_substring_regex(text, short, full)
    text = pc.replace_substring_regex(text, r"^(\S+ \d{2}:\d{2})$", r"\1:00")
    text = pc.if_else(pc.match_substring_regex(text, _TIME), text, None)
    parts = [
        pc.utf8_slice_codeunits(text, start, stop) for start, stop in ((6, 10), (0, 2), (3, 5), (11, 19))
    ]
    whole = pc.binary_join_element_wise(pc.binary_join_element_wise(*parts[:3], "-"), parts[3], "T")
    fraction = pc.utf8_slice_codeunits(
        pc.binary_join_element_wise(pc.utf8_slice_codeunits(text, 20, 23), "000", ""), 0, 3
    )
    try:
        seconds = whole.cast(pa.timestamp("s")).cast(pa.int64())
    except pa.ArrowInvalid:
        seconds = pa.array([_seconds(one) for one in whole.to_pylist()], pa.int64())
    fits = pc.and_(pc.greater_equal(seconds, 0), pc.less(seconds, UTC_NS_MAX // 10**9))
    seconds = pc.if_else(fits, seconds, pa.scalar(None, pa.int64()))
    result = pc.add(pc.multiply(seconds, 1000), fraction.cast(pa.int64()))
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
