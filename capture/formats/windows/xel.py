"""Extended Events files of SQL Server (.xel): any event, and what events of I/O, waits and checkpoints mean.

Every event is a row of ``xevents``: at_ns, duration_ns (where the unit of its duration is known), package, name,
event_sequence (where collected), and fields and actions as JSON objects, which DuckDB reads with ``fields->>'name'``.
Maps are resolved to their words; binary is hexadecimal text, a call stack a list of addresses. Beside that,
file_read_completed and file_write_completed are I/O of the sql layer, which begins at completion less duration;
wait_info (its ends) and wait_completed are waits; checkpoints, log flushes and automatic growth are markers.

Rows come in order of time. Durations are in the unit that the file's metadata states; where it states none, those of
I/O, waits and log flushes are taken as milliseconds and ``quality.notes`` says so.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.capture import _readers
from iotrace.capture.formats.format import SYSTEM_TICK_NS, Format, Outcome, Progress, naming
from iotrace.capture.roles import TEMPDB_ID, classify
from iotrace.schemas import Clock, IotraceError, Quality, Role, counted
from iotrace.schemas.host import Host

_MAGIC: Final = bytes.fromhex("5a37abef")
_BATCH_EVENTS: Final = 1 << 16
_FILETIME_NS: Final = 100
_UNITS: Final = {1: "nanoseconds", 1_000: "microseconds", 1_000_000: "milliseconds", 1_000_000_000: "seconds"}
_SYSTEM_DATABASES: Final = {1: "master", 2: "tempdb", 3: "model", 4: "msdb", 32767: "mssqlsystemresource"}
_PRIMARY_FILE, _FIRST_LOG = 1, 2

DatabaseFile = tuple[int | None, int | None, str | None, str | None]
"""database_id, file_id within the database, path, name of the database."""


def recognises(head: bytes, path: Path) -> bool:
    """Whether ``head`` begins like an Extended Events file, or the name says that it is one of an older form."""
    return head.startswith(_MAGIC) or path.suffix.lower() in {".xel", ".xem"}


def read(path: Path, name: str, progress: Progress) -> "XelTrace":
    """Open the file at ``path``: walks over it once, to learn which events are in it and when each buffer begins."""
    with naming(name):
        _refuse_metadata_file(path, name)
        return XelTrace(
            name,
            progress,
            _readers.read_xel(
                path, progress=lambda done, total: progress(f"looking through {name}", done, total)
            ),
        )


def inspect(path: Path, name: str) -> dict[str, Any]:
    """What is in the file: packages, kinds of events with their counts and columns, time span, what is missing."""
    with naming(name):
        _refuse_metadata_file(path, name)
        native = _readers.read_xel(path)
    facts, counts = native.facts(), native.counts()
    span = facts["span_utc_ns"]
    return {
        "format": "xel",
        "bytes": facts["bytes"],
        "whole": not (counts["truncated"] or counts["damaged"] or counts["wrong_checksums"]),
        "first_event_utc": _utc_text(span[0]) if span else None,
        "last_event_utc": _utc_text(span[1]) if span else None,
        "clock_zero_utc": None
        if facts["clock_base_utc_ns"] is None
        else _utc_text(facts["clock_base_utc_ns"]),
        "clock_hz": facts["clock_hz"],
        "packages": [package for package, _ in facts["packages"]],
        "events": {kind["name"]: kind["count"] for kind in facts["kinds"]},
        "kinds": facts["kinds"],
        "counts": counts,
        "notes": list(_notes(facts, counts)),
    }


FORMAT: Final = Format("xel", recognises, read, inspect)


def _refuse_metadata_file(path: Path, name: str) -> None:
    with path.open("rb") as file:
        is_events = file.read(len(_MAGIC)) == _MAGIC
    if not is_events and (path.suffix.lower() == ".xem" or name.lower().endswith(".xem")):
        raise IotraceError(
            f"'{name}' is the metadata file that SQL Server 2008 wrote beside its .xel; it holds no events",
            hint="that form is not read; take the trace with SQL Server 2012 or later, whose .xel stands alone",
        )


class XelTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, name: str, progress: Progress, native: "_readers.XelTrace") -> None:
        self._name, self._progress, self._native = name, progress, native
        self._facts = native.facts()
        self.clock = Clock(
            self._facts["start_utc_ns"], _FILETIME_NS, "SQL Server Extended Events", SYSTEM_TICK_NS
        )
        self.host = Host(database="SQL Server")
        if self._facts["clock_base_utc_ns"] is not None:
            # The tick counter's zero: files of one session share it, so their files are known to be the same.
            self.host.boot_utc_ns = self._facts["clock_base_utc_ns"]

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Files, then events in order of time with the I/O, waits and markers they mean."""
        total = sum(kind["count"] for kind in self._facts["kinds"])
        done = 0
        files = self._native.files()
        if files:
            yield "files", _files(files)
        while True:
            with naming(self._name):
                batches = self._native.next(_BATCH_EVENTS)
            if batches is None:
                break
            for table_name, native in batches:
                batch = pa.record_batch(native)
                done += len(batch) if table_name == "xevents" else 0
                yield table_name, batch
            self._progress(f"reading {self._name}", done, total)

    def outcome(self) -> Outcome:
        """The window runs from the first event to the last; nothing tells when the session began or ended."""
        counts, span = self._native.counts(), self._facts["span_utc_ns"]
        end_ns = span[1] - span[0] if span else 0
        quality = Quality(
            events_lost=counts["sequence_lost"],
            sequence_holes=counts["buffer_holes"],
            latencies_dropped=counts["durations_dropped"],
            damaged_buffers=counts["damaged"] + counts["wrong_checksums"],
            truncated_tail=counts["truncated"],
            notes=[*_notes(self._facts, counts), *_file_notes(self._native.files())],
        )
        return Outcome(0, end_ns, quality, counts["events"])


def _notes(facts: dict[str, Any], counts: dict[str, Any]) -> Iterator[str]:
    kinds = facts["kinds"]
    if not counts["events"]:
        yield "the file holds no event"
    elif not counts["has_sequence"]:
        yield "event_sequence was not collected: events that the session lost do not show"
    if counts["sequence_uncertain"]:
        yield (
            f"{counts['sequence_uncertain']:,} numbers of event_sequence are missing near the file's ends: lost, "
            "or in the files before and after it"
        )
    yield from _unit_notes(kinds)
    for count, words in (
        ("unchecked_buffers", "buffers have another checksum than is known; they are read all the same"),
        ("broken_metadata", "parts of the metadata cannot be read"),
        ("undescribed", "events left out: the file does not describe them"),
        ("timeless", "events left out: their time cannot be"),
        ("unreadable_events", "events left out: their fields overlap"),
        ("unusable_io", "I/O events have no size or no duration and are rows of xevents only"),
        ("unplaceable", "I/Os left out: their size is missing or over 4 GiB"),
        ("durations_zero", "I/Os took less than the unit of their duration; it is shown as 0"),
    ):
        if counts[count]:
            yield f"{counts[count]:,} {words}"


def _unit_notes(kinds: list[dict[str, Any]]) -> Iterator[str]:
    assumed: dict[int, list[str]] = {}
    for kind in kinds:
        if kind["duration_unit_ns"] is not None and not kind["duration_is_stated"]:
            assumed.setdefault(kind["duration_unit_ns"], []).append(kind["name"])
    for unit_ns, names in assumed.items():
        of = ", ".join(sorted(set(names)))
        yield f"the file states no unit for the durations of {of}: taken as {_UNITS[unit_ns]}"
    for kind in kinds:
        if kind["name"] in {"file_read_completed", "file_write_completed"} and kind["duration_unit_ns"]:
            unit = _UNITS[kind["duration_unit_ns"]]
            yield f"{kind['name']} gives durations in whole {unit}: single latencies are no finer"


def _file_notes(files: list[DatabaseFile]) -> Iterator[str]:
    nameless = sum(path is None for _, _, path, _ in files)
    if nameless:
        yield (
            f"{counted(nameless, 'file is', 'files are')} known by number only (collect_path was off): file 1 is taken "
            "as data and file 2 as log, others have no role unless they are tempdb's"
        )


def _files(files: list[DatabaseFile]) -> pa.RecordBatch:
    rows = [_file(*entry) for entry in files]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(len(rows)), pa.int32()),
            pa.array([path for path, _, _ in rows], pa.string()),
            pa.array([str(role) for _, role, _ in rows], pa.string()),
            pa.array([database for _, _, database in rows], pa.string()),
        ],
        names=["file_id", "path", "role", "database"],
    )


def _file(
    database_id: int | None, number: int | None, path: str | None, database: str | None
) -> tuple[str, Role, str | None]:
    """Path, role and database. tempdb is always database 2; of a new database file 1 is data and file 2 its log."""
    guessed_role, guessed_database = classify(path) if path else (Role.OTHER, None)
    database = database or _SYSTEM_DATABASES.get(database_id or 0) or guessed_database
    role = guessed_role
    is_log = role == Role.LOG or (role != Role.DATA and number == _FIRST_LOG)
    if database_id == TEMPDB_ID:
        role = Role.TEMPDB_LOG if is_log else Role.TEMPDB_DATA
    elif path is None and number == _PRIMARY_FILE:
        role = Role.DATA
    elif path is None and number == _FIRST_LOG:
        role = Role.LOG
    return path or f"database {database_id} file {number}", role, database


def _utc_text(utc_ns: int) -> str:
    seconds, fraction_ns = divmod(utc_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{fraction_ns // 100:07}Z"
