"""What a reader of a file format hands over, and how it is found: the seam between `importing` and the formats."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from iotrace.capture import _readers
from iotrace.schemas import Clock, IotraceError, Quality
from iotrace.schemas.host import Host

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def unreported(_what: str, _done: int, _total: int) -> None:
    """`Progress` that nobody wants to hear of."""


SYSTEM_TICK_NS = 15_625_000
"""Windows' system time moves in ticks of 0.5 to 15.625 ms and is as exact as one of them (KeQuerySystemTimePrecise)."""

HEAD_BYTES = 1 << 17
"""How much of a file's start `Format.recognises` is shown."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a trace once all its rows are handed over. Times are since the trace's own start."""

    window_start_ns: int
    window_end_ns: int
    quality: Quality
    events: int
    """Events of every kind in the file, kept or not."""


class Trace(Protocol):
    """One opened file. Rows come in batches, so a trace larger than memory need not be held as Python objects."""

    clock: Clock
    host: Host

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield table names and rows for them, as `iotrace.schemas.conform` takes them.

        Times are since the trace's own start, ids dense from 0 in this trace; a row comes before any row that
        names it.
        """
        ...

    def outcome(self) -> Outcome:
        """What remains to be told; only to be asked when `batches` is exhausted."""
        ...


@runtime_checkable
class LocalTimes(Protocol):
    """A trace whose times may be local, in a zone that its file does not name."""

    def settle_zone(self, timezone: str | None) -> None:
        """Take the zone that the user named, if it is needed; before the clock or rows are asked for.

        Raises `IotraceError` if it is needed and None.
        """
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """Files of one folder that are one trace together, such as one for each processor."""

    member: Callable[[str], tuple[str, int] | None]
    """From a file's name: what all of its family have in common, and its place among them; None if it is of none."""
    read: Callable[[Sequence[Path], Sequence[str], Progress], Trace]
    """Given where the members lie and the user's words for them, in order; the first is the trace's name."""
    inspect: Callable[[Sequence[Path], Sequence[str]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file. ``read`` raises `IotraceError` naming the file by its second argument, the user's word for it.

    A format with a ``family`` is given all members at once, wherever the user names one of them, their folder or a zip
    of it; ``recognises`` then need only know one.
    """

    name: str
    recognises: Callable[[bytes, Path], bool]
    read: Callable[[Path, str, Progress], Trace]
    inspect: Callable[[Path, str], dict[str, Any]] | None = None
    """What is in the file and whether it is whole, without importing it; raises as ``read`` does."""
    family: Family | None = None
    has_ios: bool = True
    """Whether its traces can hold single I/Os, by which clocks are compared."""
    knows_files: bool = False
    """Whether it tells of files what others guess from their paths, and so goes before them."""
    almost: Callable[[bytes], tuple[str, str] | None] | None = None
    """Of a file that nothing recognises: what it is, with its article, and what to do, if it is nearly one of these."""


def undated(first: str) -> str:
    """The note on a source whose times have no date, where the ``first`` of them (I/O, event) becomes 1970."""
    return f"the source has no date: its first {first} is put at 1970-01-01 00:00 UTC"


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn what the operating system or a native reader says of a file into words that name it as the user does."""
    try:
        yield
    except _readers.UnreadableError as problem:
        what, hint = problem.args
        raise IotraceError(f"'{name}' {what}", hint=hint) from problem
    except FileNotFoundError as problem:
        raise IotraceError(f"no file '{name}'", hint="check the path") from problem
    except PermissionError as problem:
        raise IotraceError(f"may not read '{name}'", hint="check its permissions") from problem
    except OSError as problem:
        raise IotraceError(
            f"cannot read '{name}': {problem.strerror or problem}", hint="check that it is there and whole"
        ) from problem
