"""What a characterization runs: series of cells, each a closed loop of one kind of I/O.

The matrix is the one that SQLIO's users run; the profiles are the I/O of SQL Server by what causes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from iotrace.schemas import IotraceError, run
from iotrace.schemas.units import KIB, MIB

PATTERNS: Final = ("random", "sequential")
OPS: Final = ("read", "write", "mix")
MIX_READ_SHARE: Final = 0.6
"""Of a mix where nothing else is said."""
OUTSTANDING_MAX: Final = 16384
SIZE_BYTES_MAX: Final = 64 << 20


class Cell(run.Cell):
    """One run, with what people call it."""

    __slots__ = ()

    @property
    def op(self) -> str:
        """read, write or mix."""
        return {1.0: "read", 0.0: "write"}.get(self.read_share, "mix")

    @property
    def name(self) -> str:
        """For people: ``random read 8K, 16 outstanding``."""
        return f"{kind_text(self)} {size_text(self.size_bytes)}, {self.outstanding} outstanding"


@dataclass(frozen=True, slots=True)
class Series:
    """Cells that differ in one parameter only, the ``axis``, by which they rise."""

    axis: Literal["outstanding", "size"]
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """For people: ``random read 8K`` or ``sequential write, 1 outstanding``."""
        first = self.cells[0]
        if self.axis == "size":
            return f"{kind_text(first)}, {first.outstanding} outstanding"
        return f"{kind_text(first)} {size_text(first.size_bytes)}"

    @property
    def folder(self) -> str:
        """For files: ``random-read-8K``."""
        return self.name.replace(",", "").replace(" ", "-").replace(":", "-").replace("%", "pct")


def kind_text(cell: Cell) -> str:
    """``random read``, ``random mix 70:30``, ``sequential write``."""
    mix = "" if cell.op != "mix" else f" {cell.read_share * 100:.0f}:{100 - cell.read_share * 100:.0f}"
    return f"{cell.pattern} {cell.op}{mix}"


def size_text(size_bytes: int) -> str:
    """A size as SQLIO and DiskSpd write it: ``512``, ``8K``, ``1M``."""
    for unit, letter in ((MIB, "M"), (KIB, "K")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}"
    return str(size_bytes)


@dataclass(frozen=True, slots=True)
class Matrix:
    """All combinations of some values; each combination of the others is a series along ``axis``."""

    patterns: tuple[str, ...] = ("random",)
    ops: tuple[str, ...] = ("read",)
    sizes_bytes: tuple[int, ...] = (8 * KIB,)
    outstanding: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    read_share: float = MIX_READ_SHARE
    axis: Literal["outstanding", "size"] = "outstanding"
    durable: bool = True

    def check(self) -> None:
        """Raise `IotraceError` for values that mean nothing."""
        strangers = [word for word in self.patterns if word not in PATTERNS]
        if strangers:
            raise IotraceError(
                f"there is no pattern '{strangers[0]}'", hint=f"patterns are {' and '.join(PATTERNS)}"
            )
        strangers = [word for word in self.ops if word not in OPS]
        if strangers:
            raise IotraceError(f"there is no op '{strangers[0]}'", hint=f"ops are {', '.join(OPS)}")
        sizes = [size for size in self.sizes_bytes if not 512 <= size <= SIZE_BYTES_MAX or size % 512]
        if sizes:
            raise IotraceError(
                f"an I/O cannot have {sizes[0]:,} bytes",
                hint=f"--size takes multiples of 512 bytes up to {size_text(SIZE_BYTES_MAX)}",
            )
        counts = [count for count in self.outstanding if not 1 <= count <= OUTSTANDING_MAX]
        if counts:
            raise IotraceError(
                f"{counts[0]:,} outstanding I/Os are not possible", hint=f"give 1 to {OUTSTANDING_MAX:,}"
            )
        if not 0 < self.read_share < 1:
            raise IotraceError(
                f"a mix of {self.read_share * 100:g} % reads is not a mix",
                hint="use --op read or --op write instead",
            )
        if not all((self.patterns, self.ops, self.sizes_bytes, self.outstanding)):
            raise IotraceError(
                "there is nothing to run", hint="give at least one size, op and number outstanding"
            )

    def series(self) -> tuple[Series, ...]:
        """In the order they are run: a pattern and op at a time, the axis rising."""
        self.check()
        sizes, counts = sorted(set(self.sizes_bytes)), sorted(set(self.outstanding))
        return tuple(
            Series(self.axis, tuple(cells))
            for pattern in dict.fromkeys(self.patterns)
            for op in dict.fromkeys(self.ops)
            for cells in self._grouped(pattern, op, sizes, counts)
        )

    def _grouped(
        self, pattern: str, op: str, sizes: Sequence[int], counts: Sequence[int]
    ) -> Iterator[list[Cell]]:
        share = {"read": 1.0, "write": 0.0}.get(op, self.read_share)

        def cell(size: int, count: int) -> Cell:
            return Cell(pattern, share, size, count, self.durable and share < 1)

        if self.axis == "size":
            yield from ([cell(size, count) for size in sizes] for count in counts)
        else:
            yield from ([cell(size, count) for count in counts] for size in sizes)


SQLIO: Final = Matrix(
    patterns=("random", "sequential"),
    ops=("read", "write"),
    sizes_bytes=(8 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB),
    outstanding=tuple(1 << power for power in range(11)),
)
"""2 patterns x 2 ops x 5 sizes x 11 numbers of outstanding I/Os: 220 runs."""

PRESETS: Final[Mapping[str, Matrix]] = {"sqlio": SQLIO}

PROFILES: Final[Mapping[str, Matrix]] = {
    "oltp": Matrix(ops=("mix",)),
    "oltp-read": Matrix(),
    "oltp-write": Matrix(ops=("write",)),
    "read-ahead": Matrix(
        patterns=("sequential",),
        sizes_bytes=(64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB),
        outstanding=(1, 2, 4, 8, 16, 32, 64),
    ),
    "log": Matrix(
        patterns=("sequential",),
        ops=("write",),
        sizes_bytes=(512, 1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 60 * KIB),
        outstanding=(1, 64),
        axis="size",
    ),
    "backup": Matrix(
        patterns=("sequential",), sizes_bytes=(1 * MIB, 2 * MIB, 4 * MIB), outstanding=(1, 2, 4, 8, 16, 32)
    ),
}
"""What SQL Server asks of storage, by what causes it.

oltp: pages at random, six reads to four writes; oltp-read: pages that were not in memory; oltp-write: pages that a
checkpoint writes; read-ahead: scans; log: flushes one after another, growing as transactions do, and for contrast the
same with 64 outstanding, which SQL Server's log never has on one file; backup: what a backup reads.
"""


def aligned(series: Sequence[Series], block_bytes: int) -> tuple[list[Series], list[int]]:
    """The series without sizes that a target of such a block cannot take, and those sizes."""
    kept: list[Series] = []
    left_out: set[int] = set()
    for one in series:
        cells = tuple(cell for cell in one.cells if cell.size_bytes % block_bytes == 0)
        left_out |= {cell.size_bytes for cell in one.cells} - {cell.size_bytes for cell in cells}
        if cells:
            kept.append(replace(one, cells=cells))
    return kept, sorted(left_out)
