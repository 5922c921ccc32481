"""Is every byte of a file on the disk? What is not, an array or a file system answers without touching media."""

import importlib
import os
import struct

# linux/fiemap.h: FS_IOC_FIEMAP, struct fiemap and struct fiemap_extent, and the flags that mean "no data there yet".
_FS_IOC_FIEMAP = 0xC020660B
_HEADER = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQ16xI12x")
_FLAG_SYNC = 0x1
_LAST, _UNKNOWN, _DELAYED, _UNWRITTEN = 0x1, 0x2, 0x4, 0x800
_EXTENTS_AT_ONCE = 512


def unallocated_bytes(file: int) -> int:
    """Bytes of the open file that have no data on the disk: holes, and space reserved but never written.

    Asks for holes (SEEK_HOLE) and, where the file system tells, for its map of extents (FIEMAP).
    """
    size = os.fstat(file).st_size
    return max(_holes_bytes(file, size), _unwritten_bytes(file, size))


def _holes_bytes(file: int, size: int) -> int:
    holes, at = 0, 0
    try:
        while at < size:
            hole = os.lseek(file, at, os.SEEK_HOLE)
            if hole >= size:
                break
            try:
                at = os.lseek(file, hole, os.SEEK_DATA)
            except OSError:  # ENXIO: no data behind it
                at = size
            holes += min(at, size) - hole
    except OSError:
        return 0  # this file system tells nothing of holes
    return holes


def _unwritten_bytes(file: int, size: int) -> int:
    fcntl = importlib.import_module("fcntl")  # not at the top: other systems import this package too
    written, at = 0, 0
    while at < size:
        request = bytearray(_HEADER.size + _EXTENTS_AT_ONCE * _EXTENT.size)
        _HEADER.pack_into(request, 0, at, size - at, _FLAG_SYNC, 0, _EXTENTS_AT_ONCE, 0)
        try:
            fcntl.ioctl(file, _FS_IOC_FIEMAP, request)
        except OSError:
            return 0  # this file system tells nothing of its extents
        count = _HEADER.unpack_from(request, 0)[3]
        last = count == 0
        for number in range(count):
            start, _, length, flags = _EXTENT.unpack_from(request, _HEADER.size + number * _EXTENT.size)
            end = min(start + length, size)
            if not flags & (_UNKNOWN | _DELAYED | _UNWRITTEN):
                written += max(0, end - max(start, at))
            at = max(at, end)
            last |= bool(flags & _LAST)
        if last:
            break
    return size - written
