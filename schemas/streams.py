"""Files of Arrow IPC streams: grown batch by batch, and read as far as they go."""

import os
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

_PIECES_MAX: Final = 1024
"""As many as one system call takes (``IOV_MAX``)."""


class StreamFile:
    """A stream that is written to a file.

    Every `write` is whole in the file when it returns. After an error the file ends where it ended before, and takes no
    more.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Create the file. Raises ``OSError``."""
        self._file = path.open("xb", buffering=0)
        self._gathered = _Gathering()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._gathered, mode="w"), schema)

    def write(self, tables: Sequence[pa.Table]) -> None:
        """Append rows. Raises ``OSError``."""
        start = self._file.tell()
        try:
            for table in tables:
                self._writer.write_table(table.combine_chunks())
            _write_all(self._file.fileno(), self._gathered.take())
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


def read_stream(path: Path) -> pa.Table | None:
    """The whole batches of a stream that may be cut off anywhere; None if not even its schema is there."""
    batches: list[pa.RecordBatch] = []
    with pa.OSFile(str(path)) as file:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError):
            return None
        while True:
            try:
                batches.append(reader.read_next_batch())
            except (StopIteration, pa.ArrowInvalid, OSError):
                return pa.Table.from_batches(batches, schema=reader.schema)


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
