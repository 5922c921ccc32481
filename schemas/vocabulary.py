"""The closed word lists of a recording.

The order of each enumeration is part of the format: native code writes the position, `conform` turns it into the
word. Append, never insert. `recording.json` is the language-neutral copy.
"""

from collections.abc import Iterable, Sequence
from enum import IntFlag, StrEnum
from typing import Final


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: ``1 hole``, ``1,204 holes``. ``many`` is given where it is not ``one`` and an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``reads``, ``reads and writes``, ``reads, writes and flushes``."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


class Layer(StrEnum):
    """A place where a clock starts and stops, from the database down."""

    SQL = "sql"
    FILESYSTEM = "filesystem"
    BLOCK = "block"
    DEVICE = "device"


LOAD_LAYERS: Final = (Layer.BLOCK, Layer.DEVICE, Layer.FILESYSTEM, Layer.SQL)
"""Load is counted and played at the first of these that saw any I/O."""


def load_layer(layers: Iterable[str]) -> str | None:
    """The one of these layers whose I/Os are the load, so that none counts twice; None of none."""
    present = set(layers)
    return next((str(layer) for layer in LOAD_LAYERS if layer in present), None)


def layers_above(layer: str, layers: Iterable[str]) -> list[str]:
    """Which of these layers lie above ``layer``, from the top down."""
    order = [str(one) for one in Layer]
    present = set(layers)
    return [one for one in order[: order.index(layer)] if one in present]


class Op(StrEnum):
    """What was asked of the storage."""

    READ = "read"
    WRITE = "write"
    FLUSH = "flush"
    DISCARD = "discard"


LOAD_OPS: Final = (Op.READ, Op.WRITE)
"""What counts as load: flushes and discards move no data, and are stated beside it."""


class Role(StrEnum):
    """What a file is to the database."""

    DATA = "data"
    LOG = "log"
    TEMPDB_DATA = "tempdb_data"
    TEMPDB_LOG = "tempdb_log"
    BACKUP = "backup"
    SYSTEM = "system"
    OTHER = "other"

    @property
    def is_log(self) -> bool:
        """Whether it is a transaction log, a database's or tempdb's: written in order, and flushed by commits."""
        return self in {Role.LOG, Role.TEMPDB_LOG}


UNATTRIBUTED: Final = "unattributed"
"""The role of I/O whose file the recording does not tell."""


RUN_AXES: Final = ("virtual_users", "offered_iops", "outstanding", "threads")
"""What a load tool's runs may differ in, the surest sign of a series first; columns of ``runs``."""


class Kind(StrEnum):
    """How a recording came to be."""

    CAPTURED = "captured"
    REPLAYED = "replayed"
    SYNTHETIC = "synthetic"
    TESTED = "tested"
    """Another tool put the load on and measured it: what there is lies in ``results``."""
    SIMULATED = "simulated"
    """Replayed on a model, in virtual time: no storage took part."""


class DeviceKind(StrEnum):
    """What a row of ``devices`` is: I/O addresses disks; partitions say where in them."""

    DISK = "disk"
    PARTITION = "partition"
    FILE = "file"


class IoFlags(IntFlag):
    """Bits of ``io.flags``, the same for every operating system a recording comes from."""

    NO_CACHE = 0x1
    PAGING = 0x2
    SYNCHRONOUS = 0x4
    WRITE_THROUGH = 0x8
    """Forced unit access: the write is on stable media when it completes."""
    READAHEAD = 0x10
    METADATA = 0x20
    PREFLUSH = 0x40
    """The device's cache is flushed before this write."""
    BACKGROUND = 0x80
    SPLIT = 0x100
    """A part of a larger request that a layer above cut up."""
    MERGED = 0x200
    """Travelled to the device inside a larger request."""
    DELAYED = 0x400
    """A replay held it back because too many were in flight."""
    ADJUSTED = 0x800
    """A replay moved or resized it to fit the target's alignment."""
    PRIORITY_LOW = 0x1000
    PRIORITY_HIGH = 0x2000
    UNALIGNED = 0x4000
    """Offset or size is no multiple of the device's logical block, or the size is 0: not replayable as it is."""
