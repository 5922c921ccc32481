"""A file system of one file that does as it is told: answers, stays silent, fails, or is gone. Needs root.

The protocol is that of linux/fuse.h, version 7.31: a request is a header of 40 bytes and what the operation takes, an
answer a header of 16 bytes and what it gives.
"""

import ctypes
import errno
import os
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Self


class Operation(IntEnum):
    """What a file system is asked; the numbers are the kernel's."""

    LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE = 1, 2, 3, 14, 15, 16
    STATFS, RELEASE, FSYNC, FLUSH, INIT, INTERRUPT, DESTROY, FORGET_MANY = 17, 18, 20, 25, 26, 36, 38, 42


_ROOT, _FILE = 1, 2
_OPEN_DIRECT = 1
_MNT_FORCE = 1
_FOLDER_MODE, _FILE_MODE = 0o040700, 0o100600


@dataclass
class OneFile:
    """Mounted on ``mount``, with the file ``disk`` in it; ``told`` are reads, writes and flushes in order of arrival.

    ``obey`` is asked about each of these: 0 to do it, an error to fail with, None never to answer.
    """

    mount: Path
    size_bytes: int
    obey: Callable[[Operation, int], int | None] = lambda _operation, _offset: 0
    told: list[tuple[Operation, int]] = field(default_factory=list)
    """Operation and offset."""
    _device: int = -1
    _thread: threading.Thread | None = None

    @property
    def disk(self) -> Path:
        """The file."""
        return self.mount / "disk"

    def __enter__(self) -> Self:
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        words = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"iotrace", bytes(self.mount), b"fuse", 6, words.encode()):
            problem = ctypes.get_errno()
            os.close(self._device)
            raise OSError(problem, os.strerror(problem))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.vanish()
        subprocess.run(["umount", "--lazy", self.mount], stderr=subprocess.DEVNULL, check=False)
        assert self._thread is not None
        self._thread.join(10)

    def vanish(self) -> None:
        """Go away as a pulled disk does: what is in flight and all that follows fails."""
        ctypes.CDLL(None).umount2(
            bytes(self.mount), _MNT_FORCE
        )  # of a file system in use this fails, and cuts it off

    def _serve(self) -> None:
        buffer_bytes = (1 << 20) + 4096
        while True:
            try:
                request = os.read(self._device, buffer_bytes)
            except OSError as problem:
                if problem.errno in {errno.EINTR, errno.EAGAIN, errno.ENOENT}:
                    continue
                os.close(self._device)
                return
            _, operation, unique, node, *_ = struct.unpack_from("<IIQQIIII", request)
            answer = self._answer(operation, node, request[40:])
            if answer is not None:
                number, content = answer
                try:
                    os.write(self._device, struct.pack("<IiQ", 16 + len(content), -number, unique) + content)
                except OSError as problem:
                    if problem.errno != errno.ENOENT:  # given up meanwhile
                        continue

    def _answer(self, operation: int, node: int, body: bytes) -> tuple[int, bytes] | None:
        """Error and content; None for no answer."""
        match operation:
            case Operation.READ | Operation.WRITE | Operation.FSYNC:
                return self._transfer(Operation(operation), body)
            case Operation.LOOKUP if body.rstrip(b"\0") == b"disk":
                return 0, struct.pack("<QQQQII", _FILE, 0, 0, 0, 0, 0) + self._attributes(_FILE)
            case Operation.LOOKUP:
                return errno.ENOENT, b""
            case Operation.GETATTR:
                return 0, struct.pack("<QII", 0, 0, 0) + self._attributes(node)
            case Operation.OPEN:
                return 0, struct.pack("<QII", 0, _OPEN_DIRECT, 0)
            case Operation.INIT:
                limits = struct.pack("<IIIIHHIIHHI", 7, 31, 1 << 20, 0, 16, 12, 1 << 20, 1, 256, 0, 0)
                return 0, limits + bytes(24)
            case Operation.RELEASE | Operation.FLUSH:
                return 0, b""
            case Operation.FORGET | Operation.FORGET_MANY | Operation.INTERRUPT | Operation.DESTROY:
                return None
            case _:
                return errno.ENOSYS, b""

    def _transfer(self, operation: Operation, body: bytes) -> tuple[int, bytes] | None:
        offset, size = (0, 0) if operation is Operation.FSYNC else struct.unpack_from("<8xQI", body)
        self.told.append((operation, offset))
        problem = self.obey(operation, offset)
        if problem is None:
            return None
        if problem or operation is Operation.FSYNC:
            return problem, b""
        size = min(size, max(0, self.size_bytes - offset))
        return 0, bytes(size) if operation is Operation.READ else struct.pack("<II", size, 0)

    def _attributes(self, node: int) -> bytes:
        mode, size = (_FOLDER_MODE, 0) if node == _ROOT else (_FILE_MODE, self.size_bytes)
        return struct.pack(
            "<QQQQQQIIIIIIIIII", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )
