"""Which format a file has: known by its content, whatever it is called.

Texts that DBAs hold and that no I/O can be read from are known by a pattern in their first lines, as the tools'
documentation and printouts show them: what each is, and what to bring instead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from iotrace.capture.formats import registry
from iotrace.capture.formats.format import Format
from iotrace.schemas import IotraceError

_DMV: Final = (
    "bring snapshots of sys.dm_io_virtual_file_stats and sys.dm_os_wait_stats (queries: docs/formats.md)"
)
_COUNTERS: Final = (
    "record counters with logman, typeperf or Performance Monitor and bring the .blg or .csv; relog turns one into "
    "another"
)
_IOSTAT: Final = "bring iostat -xt 5 -o JSON, or /var/log/sa as text: sadf -d FILE -- -d > sar.csv"
_TRACE: Final = (
    "an event trace (.etl) has each of them: iotrace capture plan writes the scripts that record one"
)
_VDBENCH: Final = "bring flatfile.html of the same folder, or the whole folder"


@dataclass(frozen=True, slots=True)
class KnownText:
    """``what`` a text is, with its article, and what to bring instead."""

    mark: re.Pattern[str]
    what: str
    hint: str


def _known(mark: str, what: str, hint: str) -> KnownText:
    return KnownText(re.compile(mark, re.IGNORECASE | re.MULTILINE), what, hint)


_SEPARATED: Final = r"[ \"\]]*[,;\t|][ \"\[]*"
_KNOWN: Final = (
    _known(
        rf"\bPriority{_SEPARATED}FindingsGroup{_SEPARATED}Finding\b",
        "the findings of sp_BlitzFirst, not its counts",
        "bring the tables that @OutputTableNameFileStats and @OutputTableNameWaitStats name, all lines of them",
    ),
    _known(
        rf"\bobject_name{_SEPARATED}counter_name\b(?=.*\bcntr_value\b)",
        "copies of sys.dm_os_performance_counters, whose values mean something only by their types",
        f"{_COUNTERS}; of files and waits {_DMV.removeprefix('bring ')}",
    ),
    _known(
        r"^(?=.*\bread_?latency\b)(?=.*\bavgbper(?:read|write)\b)",
        "means since SQL Server started, without counts and times",
        _DMV,
    ),
    _known(
        rf"\bTimestamp{_SEPARATED}Path{_SEPARATED}InstanceName{_SEPARATED}CookedValue\b",
        "Get-Counter's samples, a line each",
        "write them with Export-Counter -FileFormat csv; or " + _COUNTERS,
    ),
    _known(
        rf"\bTime of Day{_SEPARATED}Process Name{_SEPARATED}PID{_SEPARATED}Operation\b",
        "a log of Process Monitor: calls of programs, without dates and mostly without durations",
        _TRACE,
    ),
    _known(
        rf"\bRead \(B/sec\){_SEPARATED}Write \(B/sec\)",
        "a view of Resource Monitor: means of the last minute, without a time",
        _COUNTERS,
    ),
    _known(
        r"SQL Server has encountered \d+ occurrence\(s\) of I/O requests taking longer than 15 seconds",
        "SQL Server's error log: it tells that I/Os took over 15 s, not how long any took",
        _DMV,
    ),
    _known(
        r"<title>\s*vdbench|vdbench (?:summary|totals|logfile|histogram)\.html",
        "a page of vdbench that is for reading",
        _VDBENCH,
    ),
    _known(r"^procs -+memory-+.*-+io-+|^ *r +b +swpd +free ", "output of vmstat: no disks are told apart", _IOSTAT),
    _known(r"^ATOP - ", "output of atop", _IOSTAT),
    _known(r'"?(?:Dstat|pcp-dstat) [\d.]+ CSV output', "output of dstat", _IOSTAT),
    _known(r"^(?:\d\d:\d\d:\d\d )?Total DISK READ ?:", "output of iotop: processes, not disks", _IOSTAT),
    _known(r"^AAA,progname,nmon", "a recording of nmon", _IOSTAT),
    _known(
        r"^ *\S+ +alloc +free +read +write +read +write|^ +capacity +operations +bandwidth",
        "output of zpool iostat: no times of a disk in it, and no dates",
        _IOSTAT,
    ),
    _known(
        r"^[2345];fio-\d",
        "fio's terse output (--minimal)",
        "take fio's JSON: --output-format=json+",
    ),
    _known(
        r"^(?:Attaching|Attached) \d+ probes?\.\.\.$",
        "a printout of bpftrace with nothing that is read of it",
        "of bpftrace biolatency's histograms are read where their name tells the unit: @usecs, @msecs or @nsecs",
    ),
)  # fmt: skip

_ALIGNED: Final = re.compile(r"^ *-{2,}(?: -+){3,} *$", re.MULTILINE)
_SEPARATORS: Final = (",", ";", "\t", "|")
_VALUE: Final = re.compile(r'"?(?:[-+]?[\d.,]+|\d[-\d/.]+[ T]\d\d?:\d\d.*|NULL)?"?')


def known_text(text: str) -> tuple[str, str] | None:
    """What ``text``, the beginning of a file, is, and what to bring instead; None where nothing tells."""
    text = text.replace("\r\n", "\n")
    for one in _KNOWN:
        if one.mark.search(text):
            return one.what, one.hint
    if _ALIGNED.search(text):
        return (
            "a table set in columns with blanks, as sqlcmd and SSMS's 'Results to Text' print it",
            'print it with something between its cells: sqlcmd -W -s "|", or in SSMS Save Results As, CSV',
        )
    return _without_header(text)


def _without_header(text: str) -> tuple[str, str] | None:
    """A table whose first line is values already."""
    lines = text.splitlines()[:2]
    separator = max(_SEPARATORS, key=lines[0].count) if lines else ","
    cells = [line.split(separator) for line in lines]
    if len(cells) < 2 or len(cells[0]) < 4 or len(cells[0]) != len(cells[1]):
        return None
    values = [sum(_VALUE.fullmatch(cell.strip()) is not None for cell in row) for row in cells]
    # A header has names in most of its cells; so may a line of values, but then numbers stand in the same places.
    if any(2 * count < len(row) for count, row in zip(values, cells, strict=True)):
        return None
    hint = (
        "export it with its header: in SSMS, Tools, Options, Query Results, SQL Server, Results to Grid, 'Include "
        "column headers when copying or saving the results'; or give it a first line with names (docs/formats.md)"
    )
    return f"a table without names of its columns: {lines[0][:60]}", hint


@dataclass(frozen=True, slots=True)
class Lookalike:
    """``what`` it is, with its article, and what to do instead."""

    what: str
    hint: str


_UNPACK: Final = "unpack it and import what is inside"
_ANYWHERE: Final = Path()
_NO_TRACE: Final = "no I/O can be read from it"
_MAGIC: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (b"MSCF", "a cab archive", _UNPACK),
    (b"Rar!", "a rar archive", _UNPACK),
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ\0", "an xz archive", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (
        b"ElfFile\0",
        "a Windows event log (.evtx)",
        "I/O is in event traces: iotrace capture plan shows how to take one",
    ),
    (b"\x96\xd5", "a binary file of sar", "turn it into text first: sadf -d FILE -- -d > sar.csv"),
    (b"PERFILE2", "the raw file of perf record", "turn it into text first: perf script > perf.txt"),
    (b"PAR1", "a Parquet file", "a recording is a folder; name the folder it lies in"),
    (b"ARROW1", "an Arrow file, not a stream", "write Arrow IPC streams: docs/formats.md shows how"),
    (b"SQLite format 3\0", "a SQLite database", _NO_TRACE),
    (b"MDMP", "a Windows crash dump", _NO_TRACE),
    (b"PAGEDU64", "a Windows crash dump", _NO_TRACE),
    (b"MZ", "a Windows program", _NO_TRACE),
    (b"\x7fELF", "a Linux program", _NO_TRACE),
    (b"%PDF", "a PDF", "import what it was made from"),
    (b"\x89PNG", "a picture", "import what it was made from"),
    (b"\xff\xd8\xff", "a picture", "import what it was made from"),
    (b"\xd0\xcf\x11\xe0", "an old Office document", "save the sheet as CSV"),
    (b"\xd4\xc3\xb2\xa1", "a network capture", _NO_TRACE),
    (b"\xa1\xb2\xc3\xd4", "a network capture", _NO_TRACE),
    (b"\x0a\x0d\x0d\x0a", "a network capture", _NO_TRACE),
    (b"TAPE\0\0", "a SQL Server backup", _NO_TRACE),
)
_ZIP: Final = b"PK\x03\x04"
_OFFICE: Final = b"[Content_Types].xml"
_SQL_PAGE: Final = b"\x01\x0f"
"""The first page of a database file: header version 1, page type 15 (file header)."""


FAMILIES: Final = (
    "Windows traces and counter logs (.etl, .xel, .blg, Perfmon CSV, WPA's tables and other texts), esxtop's CSV, "
    "DMV snapshots, Linux traces and reports (blktrace, perf, biosnoop, iostat, sar, collectl, /proc/diskstats), "
    "monitoring (Prometheus, CloudWatch, Azure Monitor, vscsiStats), public block traces, exports of arrays, and "
    "results of DiskSpd, fio, HammerDB, vdbench and others"
)
"""What can be imported, in plain words."""


def lookalike(head: bytes, path: Path = _ANYWHERE) -> Lookalike | None:
    """What a file at ``path`` that begins with ``head`` looks like; None where nothing is known."""
    for magic, what, hint in _MAGIC:
        if head.startswith(magic):
            return Lookalike(what, hint)
    if head.startswith(_ZIP) and _OFFICE in head[:4096]:
        return Lookalike("an Office document", "save the sheet as CSV")
    if head[8:12] == b"DUCK":
        return Lookalike(
            "a DuckDB database without snapshots of files or waits",
            "it takes tables such as PerformanceMonitor Lite's file_io_stats and wait_stats; views are not run",
        )
    if head.startswith(_SQL_PAGE) and len(head) >= 8192:
        return Lookalike("a database file of SQL Server", _NO_TRACE)
    if not any(head[:4096]):
        return Lookalike("nothing but zeros", "copy it again: its content was never written")
    return _text(head, path)


def _text(head: bytes, path: Path) -> Lookalike | None:
    """What a text is, by its first line."""
    wide = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2])
    text = head[:8192].decode(wide or "utf-8", "replace").lstrip("\ufeff")
    if "\0" in text or text.count("\ufffd") > len(text) // 50:
        return None
    stripped = text.lstrip()
    first = stripped.splitlines()[0].strip() if stripped else ""
    if not first:
        return Lookalike("an empty text", "check that it was saved and copied completely")
    if sessions := _sessions(first):
        return sessions
    if found := known_text(text):
        return Lookalike(*found)
    low = stripped[:200].lower()
    if low.startswith(("<!doctype html", "<html")):
        return Lookalike("a web page", "the download saved an error page, perhaps: fetch the file again")
    if low.startswith(("<?xml", "<")):
        return Lookalike(
            "XML of another kind",
            "of XML it takes tracerpt's (tracerpt x.etl -of XML), ONTAP's polls and DiskSpd's results",
        )
    if low.startswith(("{", "[")):
        return Lookalike(
            "JSON",
            "of JSON it takes fio's results (--output-format=json), iostat's, sadf's, DMV snapshots, and what "
            "Prometheus, CloudWatch and Azure Monitor answer about disks",
        )
    for format_ in registry.candidates(head, path):
        if format_.almost is not None and (nearly := format_.almost(head)):
            return Lookalike(*nearly)
    return _table(first) or Lookalike("some other text", "")


def _sessions(first: str) -> Lookalike | None:
    """Output of sp_WhoIsActive that is no log; its columns may stand in brackets, as those of JSON would."""
    if {"session_id", "sql_text", "wait_info"} <= {
        cell.strip(' []"') for cell in re.split(r"[,;\t|]", first.lower())
    }:
        return Lookalike(
            "output of sp_WhoIsActive without the time of its moments",
            "log it to a table (@destination_table) and export that with its column collection_time; "
            "docs/formats.md has queries of sys.dm_io_virtual_file_stats, which say what files did",
        )
    return None


def _table(first: str) -> Lookalike | None:
    """Any table, by its first line."""
    for separator, name in ((",", "commas"), (";", "semicolons"), ("\t", "tabs")):
        if first.count(separator) >= 2:
            shown = first if len(first) <= 60 else first[:57] + "..."
            return Lookalike(
                f"a table with {name} and unknown columns: {shown}",
                "name the meaning of its columns with --map columns.toml (docs/formats.md): its section io is for a "
                "table of I/Os, its section metrics for one of counters",
            )
    return None


def recognise(head: bytes, path: Path, first: Sequence[Format] = ()) -> Format | None:
    """The format of a file that begins with ``head``; those of ``first`` are asked before all others."""
    for format_ in chain(first, registry.candidates(head, path)):
        if format_.recognises(head, path):
            return format_
    return None


def not_recognised(head: bytes, name: str, path: Path = _ANYWHERE) -> IotraceError:
    """What to tell of a file that nothing recognises."""
    known = f"files are recognised by content; it takes {FAMILIES}, or an archive or folder of them"
    if (found := lookalike(head, path)) is None:
        return IotraceError(f"'{name}' is not a trace that iotrace knows", hint=known)
    return IotraceError(
        f"'{name}' is not a trace that iotrace knows: it looks like {found.what}", hint=found.hint or known
    )
