"""A file whose every read and write takes the same time, however many are under way: a device that never saturates.

A FUSE file system of one file, spoken in the kernel's own protocol (include/uapi/linux/fuse.h); needs root. Run as
``python slow_file.py PATH SIZE_BYTES DELAY_S``: it is mounted over the folder of PATH, in which it has this one file,
until SIGTERM.
"""

import ctypes
import heapq
import os
import select
import signal
import stat
import struct
import sys
import time
from pathlib import Path

LOOKUP, GETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 1, 3, 14, 15, 16, 17, 18, 20, 25, 26
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42
IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
ASYNC_READ, BIG_WRITES, ASYNC_DIO = 1 << 0, 1 << 5, 1 << 15
DIRECT_IO = 1
FOLDER, FILE = 1, 2
ENOSYS = 38


def attributes(node: int, size_bytes: int) -> bytes:
    """struct fuse_attr."""
    mode, size_bytes = (stat.S_IFDIR | 0o700, 0) if node == FOLDER else (stat.S_IFREG | 0o600, size_bytes)
    moments = (0,) * 6
    owners_device_block = (0, 0, 0, 4096, 0)
    return struct.pack(
        "<QQQQQQIIIIIIIIII", node, size_bytes, size_bytes // 512, *moments, mode, 1, *owners_device_block
    )


def answer(operation: int, node: int, body: bytes, size_bytes: int) -> bytes | None:
    """What the request is answered with; None for what this file system does not do."""
    if operation == INIT:
        flags = ASYNC_READ | BIG_WRITES | ASYNC_DIO
        # Protocol 7.31, up to 1,024 requests in the background at a time, writes of up to 128 KiB.
        return struct.pack("<IIIIHHII", 7, 31, 131_072, flags, 1024, 1024, 131_072, 1) + bytes(32)
    if operation == LOOKUP:
        return struct.pack("<QQQQII", FILE, 0, 3600, 3600, 0, 0) + attributes(FILE, size_bytes)
    if operation == GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + attributes(node, size_bytes)
    if operation == OPEN:
        return struct.pack("<QII", 1, DIRECT_IO, 0)
    if operation == READ:
        return bytes(struct.unpack_from("<QQI", body)[2])
    if operation == WRITE:
        return struct.pack("<II", struct.unpack_from("<QQI", body)[2], 0)
    if operation == STATFS:
        return struct.pack("<QQQQQIIII", 1 << 20, 1 << 20, 1 << 20, 1, 0, 4096, 255, 4096, 0) + bytes(24)
    return b"" if operation in {RELEASE, FSYNC, FLUSH} else None


def serve(device: int, size_bytes: int, delay_s: float) -> None:
    due: list[tuple[float, int, bytes]] = []
    while True:
        wait_s = max(due[0][0] - time.monotonic(), 0) if due else None
        if select.select([device], [], [], wait_s)[0]:
            try:
                request = os.read(device, 1 << 20)
            except OSError:
                return
            _, operation, unique, node, *_ = IN_HEADER.unpack_from(request)
            if operation not in {FORGET, INTERRUPT, BATCH_FORGET}:
                data = answer(operation, node, request[IN_HEADER.size :], size_bytes)
                error, data = (-ENOSYS, b"") if data is None else (0, data)
                reply = OUT_HEADER.pack(OUT_HEADER.size + len(data), error, unique) + data
                after_s = delay_s if operation in {READ, WRITE} else 0.0
                heapq.heappush(due, (time.monotonic() + after_s, unique, reply))
        while due and due[0][0] <= time.monotonic():
            os.write(device, heapq.heappop(due)[2])


def main() -> None:
    folder, size_bytes, delay_s = Path(sys.argv[1]).parent, int(sys.argv[2]), float(sys.argv[3])
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"slow", bytes(folder), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    # Unmounting ends the reads of the device.
    signal.signal(signal.SIGTERM, lambda *_: libc.umount2(bytes(folder), 2))
    serve(device, size_bytes, delay_s)


if __name__ == "__main__":
    main()
