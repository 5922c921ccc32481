"""Files as Windows knows them: opened without following links, locked, asked for their allocation, deleted by handle.

Everything works on descriptors of Python's, which own the handles below. Errors are ``OSError`` with ``winerror``.
"""

import ctypes
import msvcrt
import os
import sys
from ctypes import wintypes
from pathlib import Path

assert sys.platform == "win32"  # for the type checker

# fileapi.h, winnt.h, winbase.h
_READ, _WRITE, _DELETE = 0x80000000, 0x40000000, 0x00010000
_SHARE_READ, _SHARE_WRITE = 0x1, 0x2
_CREATE_NEW, _OPEN_EXISTING = 1, 3
_WRITE_THROUGH, _NO_BUFFERING, _OPEN_REPARSE_POINT = 0x80000000, 0x20000000, 0x00200000
_FILE_STANDARD_INFO, _FILE_DISPOSITION_INFO, _FILE_ALLOCATION_INFO, _FILE_STORAGE_INFO = 1, 4, 5, 16
_LOCK_AT_ONCE_ALONE = 0x3
_LOCKED_BYTE = 1 << 62
"""Beyond the end of any file: a lock there keeps off whoever asks for the same lock, and no transfer."""

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel32.CreateFileW.restype = wintypes.HANDLE
_kernel32.CreateFileW.argtypes = [
    wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, wintypes.LPVOID, wintypes.DWORD, wintypes.DWORD, wintypes.HANDLE,
]  # fmt: skip
for _call in (_kernel32.GetFileInformationByHandleEx, _kernel32.SetFileInformationByHandle):
    _call.argtypes = [wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD]


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("internal", ctypes.c_void_p),
        ("internal_high", ctypes.c_void_p),
        ("offset", wintypes.DWORD),
        ("offset_high", wintypes.DWORD),
        ("event", wintypes.HANDLE),
    )


class _Standard(ctypes.Structure):
    _fields_ = (
        ("allocated_bytes", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("links", wintypes.DWORD),
        ("delete_pending", wintypes.BOOLEAN),
        ("folder", wintypes.BOOLEAN),
    )


def open_file(
    path: Path,
    *,
    writes: bool = False,
    new: bool = False,
    follow: bool = False,
    alone: bool = False,
    delete: bool = False,
    direct: bool = False,
) -> int:
    """A descriptor of the file, which nobody can delete or rename meanwhile. A link is opened itself unless ``follow``.

    ``new``: it must not exist. ``alone``: fails while anybody has it open for writing, and keeps writers off.
    ``direct``: past the cache, each write through to the medium.
    """
    access = _READ | (_WRITE if writes else 0) | (_DELETE if delete else 0)
    flags = (0 if follow else _OPEN_REPARSE_POINT) | (_NO_BUFFERING | _WRITE_THROUGH if direct else 0)
    handle = _kernel32.CreateFileW(
        str(path), access, _SHARE_READ | (0 if alone else _SHARE_WRITE), None,
        _CREATE_NEW if new else _OPEN_EXISTING, flags, None,
    )  # fmt: skip
    if handle == wintypes.HANDLE(-1).value:
        raise _failure()
    return msvcrt.open_osfhandle(handle, os.O_BINARY | os.O_NOINHERIT | (0 if writes else os.O_RDONLY))


def handle_of(file: int) -> int:
    """The handle below a descriptor."""
    return msvcrt.get_osfhandle(file)


def lock(file: int) -> None:
    """Take the lock that only one replay can have. Raises ``OSError`` where another has it."""
    where = _Overlapped(offset=_LOCKED_BYTE & 0xFFFFFFFF, offset_high=_LOCKED_BYTE >> 32)
    handle = wintypes.HANDLE(handle_of(file))
    if not _kernel32.LockFileEx(handle, _LOCK_AT_ONCE_ALONE, 0, 1, 0, ctypes.byref(where)):
        raise _failure()


def reserve(file: int, size_bytes: int) -> None:
    """Ask for room for so many bytes; the file does not grow. Raises ``OSError``, for example where there is none."""
    wanted = ctypes.c_int64(size_bytes)
    _set(file, _FILE_ALLOCATION_INFO, wanted)


def delete(file: int) -> None:
    """Delete the file that is open, whatever its name stands for by now, once it is closed."""
    _set(file, _FILE_DISPOSITION_INFO, wintypes.BOOLEAN(1))


def allocated_bytes(file: int) -> int:
    """Bytes that the file has on its volume."""
    found = _Standard()
    if not _ask(file, _FILE_STANDARD_INFO, found):
        raise _failure()
    return int(found.allocated_bytes)


def sector_bytes(file: int) -> tuple[int, int] | None:
    """Logical and physical sector of the disk below; None where the system does not tell."""
    found = (wintypes.DWORD * 7)()
    return (found[0], found[1]) if _ask(file, _FILE_STORAGE_INFO, found) and found[0] else None


def final_path(file: int) -> Path:
    """What the open file is really called."""
    text = ctypes.create_unicode_buffer(32_768)
    length = _kernel32.GetFinalPathNameByHandleW(wintypes.HANDLE(handle_of(file)), text, len(text), 0)
    if not 0 < length < len(text):
        raise _failure()
    return Path(text.value)


def filesystem_of(path: Path) -> str | None:
    """Name of the file system that ``path`` lies on: NTFS, ReFS, FAT32."""
    root, kind = ctypes.create_unicode_buffer(32_768), ctypes.create_unicode_buffer(261)
    told = _kernel32.GetVolumePathNameW(str(path), root, len(root)) and _kernel32.GetVolumeInformationW(
        root, None, 0, None, None, None, kind, len(kind)
    )
    return kind.value if told else None


def _ask(file: int, what: int, answer: ctypes.Structure | ctypes.Array[wintypes.DWORD]) -> bool:
    return bool(
        _kernel32.GetFileInformationByHandleEx(
            handle_of(file), what, ctypes.byref(answer), ctypes.sizeof(answer)
        )
    )


def _set(file: int, what: int, value: ctypes.c_int64 | wintypes.BOOLEAN) -> None:
    if not _kernel32.SetFileInformationByHandle(
        handle_of(file), what, ctypes.byref(value), ctypes.sizeof(value)
    ):
        raise _failure()


def _failure() -> OSError:
    return ctypes.WinError(ctypes.get_last_error())
