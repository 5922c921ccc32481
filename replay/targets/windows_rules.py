"""What a replay on Windows refuses to touch, as far as names and attributes tell; and Linux's words for its errors.

It asks the system nothing, so that it is tested anywhere.
"""

import os
import sys

from iotrace.schemas import IotraceError

from .refusals import DirectIoRefusedError

# FILE_ATTRIBUTE_* of winnt.h.
_SPARSE, _REPARSE_POINT, _COMPRESSED, _OFFLINE, _ENCRYPTED = 0x200, 0x400, 0x800, 0x1000, 0x4000
_LASTING_FILESYSTEMS = frozenset({"NTFS", "ReFS"})

# Engines tell errors by Linux's numbers on every system; Windows has other words for these.
_LINUX_WORDS = {
    16: "Device or resource busy",
    19: "No such device",
    28: "No space left on device",
    61: "No data available",
    95: "Operation not supported",
    110: "Connection timed out",
    122: "Disk quota exceeded",
    123: "No medium found",
    125: "Operation canceled",
}


def refuse_name(name: str) -> None:
    """Refuse what names a disk, a volume or a part of a file instead of a file.

    Also what Windows would take for another name than it is: it drops dots and blanks at the end.
    """
    plain = name.replace("/", "\\")
    if plain.startswith(("\\\\.\\", "\\\\?\\", "\\??\\")):
        raise IotraceError(
            f"target '{name}' is a disk or a volume, and these are not played on in Windows: "
            "who uses them cannot be found out",
            hint=r"name a file on it, such as D:\iotrace.target, which iotrace creates",
        )
    if ":" in plain[2:] or (":" in plain and not plain[0].isalpha()):
        raise IotraceError(
            f"target '{name}' has a colon where Windows begins the name of a stream",
            hint="choose another name",
        )
    if plain.rstrip("\\").endswith((".", " ")) and plain.rstrip("\\").rpartition("\\")[2] not in {".", ".."}:
        raise IotraceError(
            f"target '{name}' ends in a dot or a blank, which Windows drops", hint="choose another name"
        )


def refuse_attributes(name: str, attributes: int, *, writes: bool, direct: bool) -> None:
    """Refuse links and the like before they are written, and files whose bytes are not on the disk as they are."""
    if writes and attributes & _REPARSE_POINT:
        raise IotraceError(
            f"target '{name}' is a symbolic link or leads to data elsewhere (a reparse point), and is not written",
            hint="name the file itself",
        )
    if direct:
        _refuse_indirect(name, attributes)


def refuse_changed_bytes(name: str, attributes: int, size_bytes: int, allocated_bytes: int) -> None:
    """Refuse a file just made that the file system does not keep as it was written, in full."""
    _refuse_indirect(name, attributes)
    if allocated_bytes < size_bytes:
        raise IotraceError(
            f"target '{name}' was written but only {allocated_bytes:,} of {size_bytes:,} bytes are allocated",
            hint="the file system compresses or deduplicates: choose one that does not, or switch it off",
        )


def _refuse_indirect(name: str, attributes: int) -> None:
    kinds = {_SPARSE: "sparse", _COMPRESSED: "compressed", _ENCRYPTED: "encrypted", _OFFLINE: "moved offline"}
    if found := [word for bit, word in kinds.items() if attributes & bit]:
        raise DirectIoRefusedError(
            f"target '{name}' is {' and '.join(found)}: Windows plays no direct I/O on it as it stands",
            hint="choose a folder without compression and encryption, or play knowingly with --buffered",
        )


def refuse_filesystem(name: str, filesystem: str | None) -> None:
    """Refuse to write where a file has no lasting identity and no exact time of change: iotrace's mark needs both."""
    if filesystem not in _LASTING_FILESYSTEMS:
        raise IotraceError(
            f"target '{name}' lies on {filesystem or 'an unknown file system'}, where iotrace cannot mark its files",
            hint="choose a folder on NTFS or ReFS",
        )


def error_word(number: int) -> str:
    """Linux's words for an error number of the engine."""
    return _LINUX_WORDS.get(number, os.strerror(number)) if sys.platform == "win32" else os.strerror(number)
