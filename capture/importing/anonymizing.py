"""Takes out of a recording what could identify people and systems, and keeps what the analysis needs.

Names become pseudonyms: a keyed hash of each part of a path, so that equal names stay equal, folders stay folders, and
nobody without the key can test a guess. With the key of an earlier import the pseudonyms are the same again; without
one a random key is used and forgotten. Roles, sizes, times, drive letters and the endings of database and system files
stay; command lines and free text (of markers and events) go, and so do tables and columns that are not known. Of a text
that tells what something is (a counter, a wait, a kernel, a processor) only what consists of known words stays. A
recording that exists already is copied.
"""

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from iotrace.capture.clocks.alignment import ALIGNED_BY
from iotrace.schemas import Clock, IotraceError, Manifest, Quality, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host
from iotrace.schemas.tables import TABLES
from iotrace.schemas.writer import refuse_over_source

from .known_words import (
    COUNTERS,
    FILE_SYSTEMS,
    FORMAT,
    MARKERS,
    RESULTS,
    SOURCES,
    SYSTEMS,
    WAITS,
    is_made_of,
)

_NAME_BYTES: Final = 5
_ENDINGS: Final = frozenset(
    [
        "mdf",
        "ndf",
        "ldf",
        "bak",
        "trn",
        "dif",
        "xel",
        "etl",
        "blg",
        "exe",
        "dll",
        "sys",
        "log",
        "txt",
        "csv",
        "zip",
    ]
)
_KNOWN: Final = frozenset(
    name.lower()
    for name in (
        "sqlservr.exe", "sqlagent.exe", "System", "Idle", "svchost.exe", "MsMpEng.exe", "postgres", "fio", "master",
        "model", "msdb", "tempdb", "$Mft", "$LogFile", "$Bitmap", "$BitMap", "pagefile.sys", "Windows", "System32",
        "_Total", "",
    )
)  # fmt: skip
"""The same on every system, so they name nobody."""

_DRIVE: Final = re.compile(r"[A-Za-z]:|[0-9]{1,5}( [A-Za-z]:)*|\?+|\.{1,2}|Device|HarddiskVolume[0-9]{1,5}")
_OF_INSTANCE: Final = re.compile(r"(MSSQL|SQLAgent)\$([^:]+)(?::(.*))?", re.DOTALL | re.IGNORECASE)
"""A counter object of a named instance: ``MSSQL$PAYROLL:Databases``."""
_GOVERNORS: Final = frozenset(
    {"", "performance", "powersave", "ondemand", "conservative", "schedutil", "userspace"}
)
_DATABASES: Final = frozenset({"SQL Server", "PostgreSQL", "MySQL", "Oracle"})
_SEPARATORS: Final = re.compile(r"([\\/]+)")
_ROWS: Final = 1 << 18


class Anonymizer:
    """Replaces names in batches on their way into a recording."""

    def __init__(self, key: str | None = None) -> None:
        self.__setstate__(
            hashlib.blake2b(key.encode(), digest_size=32).digest() if key else secrets.token_bytes(32)
        )

    def __getstate__(self) -> bytes:
        """Its key: another process gives the same pseudonyms."""
        return self._key

    def __setstate__(self, key: bytes) -> None:
        self._key = key
        self._name = lru_cache(maxsize=1 << 16)(self._hashed)

    def batch(self, table_name: str, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Rows of a table with its names replaced; None for a table that is not known, which may hold anything.

        Columns that the table should not have go, whose names alone may tell something.
        """
        if table_name not in _COLUMNS:
            return None
        replaced, numbers = _COLUMNS[table_name], _NUMBERS[table_name]
        columns = {}
        for name in batch.schema.names:
            if name in replaced:
                columns[name] = self._column(batch.column(name), replaced[name])
            elif name in numbers:
                columns[name] = batch.column(name)
        return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])

    def path(self, path: str) -> str:
        """A path with each part replaced; drive letters, separators and known endings stay."""
        return "".join(
            part if _SEPARATORS.fullmatch(part) else self.name(part) for part in _SEPARATORS.split(path)
        )

    def source_path(self, path: str) -> str:
        """A path with every part replaced: a folder may be called by its host, and that one ``12`` or ``master``."""
        return "".join(
            part if _SEPARATORS.fullmatch(part) or re.fullmatch("[A-Za-z]:|", part) else self._name(part)
            for part in _SEPARATORS.split(path)
        )

    def name(self, name: str) -> str:
        """A pseudonym such as ``n4f1c09ab27.mdf``; what is the same on every system stays."""
        if name.lower() in _KNOWN or _DRIVE.fullmatch(name):
            return name
        return self._name(name)

    def host_name(self, name: str) -> str:
        """A pseudonym whatever the host is called: one named ``model`` or ``12`` is a host all the same."""
        return self._name(name)

    def counter_object(self, name: str) -> str:
        """The object of a counter with the name of the instance in it replaced."""
        found = _OF_INSTANCE.fullmatch(name)
        if not found:
            return self.words(name, COUNTERS)
        return f"{found[1]}${self.name(found[2])}" + (
            f":{self.words(found[3], COUNTERS)}" if found[3] else ""
        )

    def words(self, text: str, known: frozenset[str]) -> str:
        """A text of known words as it is, and a pseudonym in place of any other."""
        return text if is_made_of(text, known) else self._name(text)

    def host(self, host: Host) -> Host:
        """The host without its name, and without what may hold one."""
        return replace(
            host,
            name=host.name and self.host_name(host.name),
            system=_only(host.system, SYSTEMS),
            kernel=_only(host.kernel, SYSTEMS),
            machine=_only(host.machine, SYSTEMS),
            cpu_model=_only(host.cpu_model, SYSTEMS),
            cpu_governor=host.cpu_governor if host.cpu_governor in _GOVERNORS else None,
            database=host.database if host.database in _DATABASES else None,
            io_limits=[
                replace(limit, cgroup=self.source_path(limit.cgroup), device=self.path(limit.device))
                for limit in host.io_limits
            ],
        )

    def clock(self, clock: Clock) -> Clock:
        """The clock; its name only where that is one that iotrace gives."""
        return replace(clock, name=self.words(clock.name, SOURCES))

    def sources(self, sources: list[Source], quality: Quality) -> None:
        """Take names out of what the manifest says of the sources; notes may quote them, so they go."""
        for source in sources:
            source.name = self.source_path(source.name)
            source.kind = self.words(source.kind, SOURCES)
            if source.alignment:
                source.alignment.basis = ALIGNED_BY[source.alignment.method]
                if source.alignment.reference:
                    source.alignment.reference = self.source_path(source.alignment.reference)
        quality.losses = [
            replace(loss, source=loss.source and self.source_path(loss.source)) for loss in quality.losses
        ]
        if quality.ended != "normally":
            quality.ended = "early; the words for it are left out"
        quality.shared_time = [
            "two sources cover little or none of the same time" for _ in quality.shared_time
        ]
        quality.left_out = ["a part of a source could not be read" for _ in quality.left_out]
        quality.notes = ["names are replaced and notes left out: this recording was anonymized"]

    def _hashed(self, name: str) -> str:
        # Windows knows names in any case, and so does the pseudonym.
        digest = hashlib.blake2b(name.lower().encode(), key=self._key, digest_size=_NAME_BYTES).hexdigest()
        _, dot, ending = name.rpartition(".")
        return f"n{digest}.{ending.lower()}" if dot and ending.lower() in _ENDINGS else f"n{digest}"

    def _column(self, column: pa.Array, how: "_How") -> pa.Array:
        values = [None if value is None else how(self, str(value)) for value in column.to_pylist()]
        return pa.array(values, pa.string())


def _only(text: str | None, known: frozenset[str]) -> str | None:
    return text if text is not None and is_made_of(text, known) else None


_How = Callable[[Anonymizer, str], str | None]
_path: Final[_How] = Anonymizer.path
_name: Final[_How] = Anonymizer.name
_object: Final[_How] = Anonymizer.counter_object


def _gone(_anonymizer: Anonymizer, _text: str) -> None:
    return None


def _word(known: frozenset[str]) -> _How:
    return lambda anonymizer, text: anonymizer.words(text, known)


def _known_or_gone(known: frozenset[str]) -> _How:
    return lambda _, text: _only(text, known)


_COLUMNS: Final[dict[str, dict[str, _How]]] = {
    "io": {},
    "devices": {"name": _path, "mount": _path, "filesystem": _word(FILE_SYSTEMS), "model": _name},
    "files": {"path": _path, "database": _name},
    "processes": {"name": _name, "command_line": _gone},
    "waits": {"wait_type": _word(WAITS), "database": _name},
    "counters": {
        "source": _name, "object": _object, "instance": _path, "counter": _word(COUNTERS),
        "unit": _known_or_gone(COUNTERS), "layer": lambda _, text: text if text in FORMAT else None,
        "metric": lambda _, text: text if text in FORMAT else None,
    },
    "markers": {"kind": lambda anonymizer, text: text if text in MARKERS else anonymizer.name(text), "text": _gone},
    "results": {
        "test": _name, "tool": _word(SOURCES), "tool_version": _known_or_gone(SOURCES), "target": _gone,
        "op": _word(RESULTS), "access": _known_or_gone(RESULTS), "latency_clock": _known_or_gone(RESULTS),
        "command": _gone,
    },
    "xevents": {},
}  # fmt: skip
"""What becomes of the text of each table that is known."""

_NUMBERS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(field.name for field in schema if field.type != pa.string())
    for name, schema in TABLES.items()
} | {"xevents": frozenset({"at_ns", "duration_ns", "event_sequence"})}
"""Its other columns: numbers, and words of lists that the format closes (`conform` refuses any other)."""


def is_recording(path: Path) -> bool:
    """Whether ``path`` is a folder that has a recording's tables."""
    return (path / "manifest.json").is_file() and (
        (path / "io.parquet").is_file() or any(path.glob("*/part-*.parquet"))
    )


def copy_anonymously(
    path: Path,
    output: Path | str,
    anonymizer: Anonymizer,
    *,
    overwrite: bool = False,
    title: str | None = None,
) -> Recording:
    """Write the recording at ``path`` once more to ``output``, without names and free text; ``path`` stays as it is.

    Raises `IotraceError` for what is no captured or imported recording, is damaged, or cannot be written.
    """
    source = Recording.open(path)
    told = source.manifest
    if told.replay is not None:
        raise IotraceError(
            f"'{path}' is a replay, whose settings name targets and files",
            hint="make an anonymous copy of the recording that was played, and replay that",
        )
    refuse_over_source(Path(output), [path])
    with RecordingWriter(output, overwrite=overwrite) as writer:
        for name in source.table_names():
            for file in source.parquet_paths(name):
                with source.reading(name):
                    for batch in pq.ParquetFile(file).iter_batches(batch_size=_ROWS):
                        rows = anonymizer.batch(name, batch)
                        if rows is not None:
                            writer.append(name, rows)
        sources = [replace(one, alignment=one.alignment and replace(one.alignment)) for one in told.sources]
        quality = replace(told.quality)
        anonymizer.sources(sources, quality)
        manifest = Manifest(
            kind=told.kind,
            title=title or "anonymous copy",
            clock=anonymizer.clock(told.clock),
            window_start_ns=told.window_start_ns,
            window_end_ns=told.window_end_ns,
            host=anonymizer.host(told.host),
            sources=sources,
            quality=quality.judge(writer.rows("io")),
        )
        return writer.commit(manifest)
