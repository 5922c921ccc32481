"""Takes out of a recording what could identify people and systems, and keeps what the analysis needs.

Names become pseudonyms: a keyed hash of each part of a path, so that equal names stay equal, folders stay folders, and
nobody without the key can test a guess. With the key of an earlier import the pseudonyms are the same again; without
one a random key is used and forgotten. Roles, sizes, times, drive letters and the endings of database and system files
stay; command lines and free text (of markers and events) go. A recording that exists already is copied.
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

from iotrace.schemas import IotraceError, Manifest, Quality, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host
from iotrace.schemas.writer import refuse_over_source

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

_DRIVE: Final = re.compile(r"[A-Za-z]:|[0-9]+( [A-Za-z]:)*|\?+|\.{1,2}|Device|HarddiskVolume[0-9]+")
_OF_INSTANCE: Final = re.compile(r"([^$:]*\$)([^:]+)(.*)", re.DOTALL)
"""A counter object of a named instance: ``MSSQL$PAYROLL:Databases``."""
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

    def batch(self, table_name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a table with its names replaced; columns of numbers are not touched."""
        replaced = _COLUMNS.get(table_name)
        columns = []
        for name in batch.schema.names:
            column = batch.column(name)
            if replaced is None:
                # A table that is not known may hold anything.
                column = column if _is_number(column.type) else self._column(column, "drop")
            elif name in replaced:
                column = self._column(column, replaced[name])
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def path(self, path: str) -> str:
        """A path with each part replaced; drive letters, separators and known endings stay."""
        return "".join(
            part if _SEPARATORS.fullmatch(part) else self.name(part) for part in _SEPARATORS.split(path)
        )

    def name(self, name: str) -> str:
        """A pseudonym such as ``n4f1c09ab27.mdf``; what is the same on every system stays."""
        if name.lower() in _KNOWN or _DRIVE.fullmatch(name):
            return name
        return self._name(name)

    def counter_object(self, name: str) -> str:
        """The object of a counter with the name of the instance in it replaced."""
        found = _OF_INSTANCE.fullmatch(name)
        return f"{found[1]}{self.name(found[2])}{found[3]}" if found else name

    def host(self, host: Host) -> Host:
        """The host without its name."""
        return replace(host, name=host.name and self.name(host.name))

    def sources(self, sources: list[Source], quality: Quality) -> None:
        """Take names out of what the manifest says of the sources; notes may quote them, so they go."""
        for source in sources:
            source.name = self.path(source.name)
            if source.alignment and source.alignment.reference:
                source.alignment.reference = self.path(source.alignment.reference)
        quality.shared_time = [
            "two sources cover little or none of the same time" for _ in quality.shared_time
        ]
        quality.notes = ["names are replaced and notes left out: this recording was anonymized"]

    def _hashed(self, name: str) -> str:
        # Windows knows names in any case, and so does the pseudonym.
        digest = hashlib.blake2b(name.lower().encode(), key=self._key, digest_size=_NAME_BYTES).hexdigest()
        _, dot, ending = name.rpartition(".")
        return f"n{digest}.{ending.lower()}" if dot and ending.lower() in _ENDINGS else f"n{digest}"

    def _column(self, column: pa.Array, how: str) -> pa.Array:
        if how == "drop":
            return pa.nulls(len(column), column.type)
        change: Callable[[str], str] = {"path": self.path, "name": self.name, "object": self.counter_object}[
            how
        ]
        values = [None if value is None else change(value) for value in column.to_pylist()]
        return pa.array(values, pa.string())


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_temporal)
    return any(is_kind(type_) for is_kind in kinds)


_COLUMNS: Final[dict[str, dict[str, str]]] = {
    "io": {},
    "devices": {"name": "path", "mount": "path"},
    "files": {"path": "path", "database": "name"},
    "processes": {"name": "name", "command_line": "drop"},
    "waits": {"database": "name"},
    "counters": {"source": "name", "object": "object", "instance": "path"},
    "markers": {"text": "drop"},
    "results": {"test": "name", "target": "drop", "command": "drop"},
}


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
                        writer.append(name, anonymizer.batch(name, batch))
        sources = [replace(one, alignment=one.alignment and replace(one.alignment)) for one in told.sources]
        quality = replace(told.quality)
        anonymizer.sources(sources, quality)
        if quality.ended != "normally":
            quality.ended = "early; the words for it are left out"
        manifest = Manifest(
            kind=told.kind,
            title=title or "anonymous copy",
            clock=replace(told.clock),
            window_start_ns=told.window_start_ns,
            window_end_ns=told.window_end_ns,
            host=anonymizer.host(told.host),
            sources=sources,
            quality=quality.judge(writer.rows("io")),
        )
        return writer.commit(manifest)
