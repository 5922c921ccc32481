"""btreplay, a peer of the replay: plays a trace of blktrace's format on a device, by asynchronous I/O of the kernel."""

import shutil
import subprocess
from pathlib import Path

import numpy as np

from iotrace.schemas import Recording

SECTOR_BYTES = 512
QUEUED, READ, WRITE = 1, 0x11 << 16, 0x12 << 16
"""The action of an I/O that is queued, and the categories (queue, and read or write) beside it."""
RECORD = np.dtype(
    [("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4"), ("action", "<u4"),
     ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2"), ("payload", "<u2")]
)  # fmt: skip
"""One event (struct blk_io_trace of the kernel's include/uapi/linux/blktrace_api.h)."""


def has_btreplay() -> bool:
    """Whether it is installed."""
    return shutil.which("btreplay", path="/usr/sbin:/usr/bin") is not None


def write_trace(played: Recording, folder: Path) -> None:
    """Reads and writes that a replay played, as what btrecord makes of a trace: ``folder/peer.replay.0``.

    One I/O a bunch: usually btrecord joins up to eight of 10 ms, which btreplay then issues at once.
    """
    io = played.read("io", ["intended_ns", "op", "offset_bytes", "size_bytes"]).sort_by("intended_ns")
    op = np.array(io["op"].cast("string").to_pylist())
    io, op = io.filter(np.isin(op, ["read", "write"])), op[np.isin(op, ["read", "write"])]
    record = np.zeros(len(io), RECORD)
    record["magic"] = 0x65617407
    record["sequence"] = np.arange(len(io))
    record["time"] = io["intended_ns"].to_numpy()
    record["sector"] = io["offset_bytes"].to_numpy() // SECTOR_BYTES
    record["bytes"] = io["size_bytes"].to_numpy()
    record["action"] = QUEUED | np.where(op == "write", WRITE, READ)
    folder.mkdir()
    (folder / "peer.blktrace.0").write_bytes(record.tobytes())
    subprocess.run(
        ["btrecord", "-d", folder, "-D", folder, "-M", "1", "peer"], check=True, stdout=subprocess.DEVNULL
    )


def play_trace(folder: Path, device: Path) -> None:
    """btreplay plays ``folder`` on ``device``; an error if it fails. Its own map of devices (-M) ends it (1.0.0)."""
    shutil.copyfile(folder / "peer.replay.0", folder / f"{device.name}.replay.0")
    subprocess.run(["btreplay", "-W", "-d", folder, device.name], check=True, stdout=subprocess.DEVNULL)
