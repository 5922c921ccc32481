"""What libblkid finds on a disk: the library of util-linux, on nearly every Linux, asked where it is there.

It is loaded from the system when it is first asked. Values of its constants are those of its public header, blkid.h.
"""

import ctypes
import sys
from functools import cache
from typing import Final

_SUPERBLOCK_TYPE, _SUPERBLOCK_USAGE, _SUPERBLOCK_DAMAGED = 1 << 5, 1 << 7, 1 << 10
_MAGIC_OF_PARTITIONS = 1 << 3
_FOUND, _NOTHING_MORE = 0, 1
_KINDS: Final = {
    "filesystem": "a file system",
    "raid": "a member of a RAID or volume manager",
    "crypto": "an encrypted volume",
}


class UnknownSignatureError(OSError):
    """libblkid could not read what it was to look at."""


def find(file: int) -> str | None:
    """What an open file or device holds, in words; None where libblkid finds nothing or is not there.

    Raises ``OSError`` where it cannot read.
    """
    library = _library()
    if library is None:
        return None
    probe = library.blkid_new_probe()
    if not probe:
        raise UnknownSignatureError("libblkid cannot be asked")
    try:
        if library.blkid_probe_set_device(probe, file, 0, 0):
            raise UnknownSignatureError("libblkid cannot read it")
        library.blkid_probe_enable_superblocks(probe, 1)
        library.blkid_probe_set_superblocks_flags(
            probe, _SUPERBLOCK_TYPE | _SUPERBLOCK_USAGE | _SUPERBLOCK_DAMAGED
        )
        library.blkid_probe_enable_partitions(probe, 1)
        library.blkid_probe_set_partitions_flags(probe, _MAGIC_OF_PARTITIONS)
        answer = library.blkid_do_probe(probe)
        if answer == _NOTHING_MORE:
            return None
        if answer != _FOUND:
            raise UnknownSignatureError("libblkid cannot read it")
        kind = _value(library, probe, b"TYPE")
        if kind is not None:
            return f"{_KINDS.get(_value(library, probe, b'USAGE') or '', 'data')} ({kind})"
        return f"a partition table ({_value(library, probe, b'PTTYPE') or 'of an unknown kind'})"
    finally:
        library.blkid_free_probe(probe)


def _value(library: ctypes.CDLL, probe: int, name: bytes) -> str | None:
    told = ctypes.c_char_p()
    if library.blkid_probe_lookup_value(probe, name, ctypes.byref(told), None) or told.value is None:
        return None
    return told.value.decode("utf-8", "replace")


@cache
def _library() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL("libblkid.so.1")
        library.blkid_new_probe.restype = ctypes.c_void_p
        for call, more in (
            (library.blkid_probe_set_device, [ctypes.c_int, ctypes.c_int64, ctypes.c_int64]),
            (library.blkid_probe_enable_superblocks, [ctypes.c_int]),
            (library.blkid_probe_set_superblocks_flags, [ctypes.c_int]),
            (library.blkid_probe_enable_partitions, [ctypes.c_int]),
            (library.blkid_probe_set_partitions_flags, [ctypes.c_int]),
            (library.blkid_do_probe, []),
            (library.blkid_probe_lookup_value, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]),
            (library.blkid_free_probe, []),
        ):
            call.argtypes = [ctypes.c_void_p, *more]
        library.blkid_free_probe.restype = None
    except (OSError, AttributeError):
        return None
    return library
