"""Files of Arrow IPC streams: grown batch by batch, and read as far as they go."""

import os
import zlib
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from .durable import open_private

_PIECES_MAX: Final = 1024
"""As many as one system call takes (``IOV_MAX``)."""
_MESSAGE_BYTES: Final = 1024
"""More than the frame of a dictionary's message, or a checksum and its key, take."""
_READ_BYTES: Final = 1 << 20
_ABOUT: Final = b"iotrace.about"
"""Key of a schema's metadata."""
_CHECKSUM: Final = b"iotrace.crc32"
"""Key of an empty batch's metadata: CRC-32, in hexadecimal, of the bytes since the one before, or the start."""


class StreamFile:
    """A stream that is written to a file.

    Every `write` is whole in the file when it returns, and ends with an empty batch that holds its checksum: of a file
    whose machine went down, parts may never have reached the disk though later ones did. After an error the file ends
    where it ended before, and takes no more.
    """

    def __init__(self, path: Path, schema: pa.Schema, about: str = "") -> None:
        """Create the file. ``about`` is kept in it, for `read_about`. Raises ``OSError``."""
        self._file = open_private(path, "xb")
        self._gathered = _Gathering()
        metadata = (schema.metadata or {}) | {_ABOUT: about.encode()}
        self._schema = schema.with_metadata(metadata)
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._gathered, mode="w"), self._schema)

    def write(self, tables: Sequence[pa.Table]) -> None:
        """Append rows. Raises ``OSError``."""
        start = self._file.tell()
        try:
            for table in tables:
                self._writer.write_table(table.combine_chunks())
            pieces = self._gathered.take()
            checksum = 0
            for piece in pieces:
                checksum = zlib.crc32(piece, checksum)
            told = {_CHECKSUM: f"{checksum:08x}".encode()}
            self._writer.write_batch(_empty(self._schema), custom_metadata=told)
            _write_all(self._file.fileno(), pieces + self._gathered.take())
        except OSError:
            self._file.truncate(start)
            self._file.seek(start)
            raise

    @property
    def size_bytes(self) -> int:
        """Bytes written."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file. No end mark is written: readers take the end of the file as one."""
        self._file.close()


def stream_bytes(table: pa.Table) -> int:
    """Bytes that `StreamFile.write` takes for ``table`` at most, with the start of a stream, but for its ``about``."""
    one = table.combine_chunks()
    dictionaries = [
        column.chunk(0).dictionary.nbytes
        for column in one.columns
        if pa.types.is_dictionary(column.type) and column.num_chunks
    ]
    return int(
        table.schema.serialize().size
        + sum(pa.ipc.get_record_batch_size(batch) for batch in one.to_batches())
        + pa.ipc.get_record_batch_size(_empty(table.schema))
        + sum(dictionaries)
        + _MESSAGE_BYTES * (1 + len(dictionaries))
    )


def read_stream(path: Path) -> pa.Table | None:
    """What of a stream that may be cut off anywhere is known to be as it was written; None if not even its schema is.

    Each `StreamFile.write` is taken as a whole or not at all, and nothing after one that is damaged.
    """
    batches: list[pa.RecordBatch] = []
    pending: list[pa.RecordBatch] = []
    with pa.OSFile(str(path)) as file, path.open("rb") as raw:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            return None
        is_checked = _ABOUT in (reader.schema.metadata or {})
        start = end = 0
        while True:
            try:
                batch, told = reader.read_next_batch_with_custom_metadata()
                batch.validate(full=True)  # a checksum is no proof that its lengths are true
            except (StopIteration, pa.ArrowException, OSError):
                break
            if batch.num_rows or told is None or _CHECKSUM not in told:
                pending.append(batch)
                end = file.tell()
                continue
            if f"{_checksum(raw, start, end):08x}".encode() != told[_CHECKSUM]:
                break
            batches += pending
            pending = []
            start = end = file.tell()
        if not is_checked:  # written by an earlier iotrace
            batches += pending
        schema = reader.schema.remove_metadata()
        return pa.Table.from_batches(
            [batch.replace_schema_metadata(None) for batch in batches], schema=schema
        )


def read_about(path: Path) -> str | None:
    """What `StreamFile` was given as ``about``; None where nothing of it is left."""
    with pa.OSFile(str(path)) as file:
        try:
            metadata = pa.ipc.open_stream(file).schema.metadata or {}
            return bytes(metadata[_ABOUT]).decode() or None
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError):
            return None


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _checksum(file: IO[bytes], start: int, end: int) -> int:
    file.seek(start)
    checksum = 0
    while start < end and (piece := file.read(min(_READ_BYTES, end - start))):
        checksum = zlib.crc32(piece, checksum)
        start += len(piece)
    return checksum


class _Gathering:
    """What a stream writer wrote since the last look, without copies: buffers of Arrow do not change."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[pa.Buffer | bytes] = []

    def write(self, piece: pa.Buffer | bytes) -> int:
        self._pieces.append(piece if isinstance(piece, pa.Buffer) else bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Nothing to do."""

    def take(self) -> list[memoryview]:
        gathered = [memoryview(piece) for piece in self._pieces if len(piece)]
        self._pieces = []
        return gathered


def _write_all(file: int, pieces: Sequence[memoryview]) -> None:
    waiting = deque(pieces)
    while waiting:
        some = list(islice(waiting, _PIECES_MAX))
        written = os.writev(file, some) if hasattr(os, "writev") else os.write(file, some[0])  # Windows
        while written:
            if written < len(waiting[0]):
                waiting[0] = waiting[0][written:]
                break
            written -= len(waiting.popleft())
