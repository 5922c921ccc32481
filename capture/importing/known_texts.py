"""Texts that DBAs hold and that no I/O can be read from: what each is, and what to bring instead.

Known by a pattern in their first lines, as the tools' documentation and printouts show them.
"""

import re
from dataclasses import dataclass
from typing import Final

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
