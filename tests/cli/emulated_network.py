"""Machines made of network namespaces, on a network that takes its time, loses what it is told to, and is ours.

Each namespace has a TUN device whose other end is held here: every packet is kept for a delay and some jitter, as
netem does, which not every kernel has. Each machine's monotonic clock is set off by a time namespace.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_PI = 0x0001 | 0x1000
_CLONE_NEWNET = 0x40000000


def needs_namespaces() -> None:
    """Skip where they cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None or not Path("/dev/net/tun").exists():
        pytest.skip("network namespaces need iproute2 and /dev/net/tun")


class Network:
    """A context: the machines of ``names``, the first at 10.99.0.1, each a delay away from every other."""

    def __init__(self, names: Sequence[str], *, delay_s: float = 0.0, jitter_s: float = 0.0) -> None:
        self.names = list(names)
        self.delay_s, self.jitter_s = delay_s, jitter_s
        self.cut_off: set[str] = set()
        """Machines that nothing reaches, and that reach nobody."""
        self._prefix = f"iotrace{os.getpid()}"
        self._ends: dict[str, int] = {}
        self._over = threading.Event()
        self._random = random.Random(20)
        self._carrier = threading.Thread(target=self._carry, daemon=True)

    def address(self, name: str) -> str:
        return f"10.99.0.{self.names.index(name) + 1}"

    def namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def command(self, name: str, *words: str, clock_ahead_s: int = 0) -> list[str]:
        """``words`` to be run on the machine ``name``."""
        clock = ["unshare", "--time", f"--monotonic={clock_ahead_s}", "--fork", "--kill-child", "--"]
        return [
            "ip", "netns", "exec", self.namespace(name), *(clock if clock_ahead_s else []), *words,
        ]  # fmt: skip

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(name, *words), capture_output=True, text=True, check=False)

    def __enter__(self) -> Self:
        try:
            for name in self.names:
                self._make(name)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self._carrier.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._carrier.is_alive():
            self._carrier.join()
        for end in self._ends.values():
            os.close(end)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True, check=False)

    def _make(self, name: str) -> None:
        subprocess.run(["ip", "netns", "add", self.namespace(name)], check=True)
        opening = threading.Thread(target=self._open_end, args=(name,))
        opening.start()
        opening.join()
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{self.address(name)}/24", "dev", "iotrace0"],
            ["link", "set", "iotrace0", "up"],
        ):
            subprocess.run(["ip", "-n", self.namespace(name), *words], check=True)

    def _open_end(self, name: str) -> None:
        """In a thread of its own, whose namespace alone changes."""
        with Path(f"/run/netns/{self.namespace(name)}").open("rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH14s", b"iotrace0", _IFF_TUN_NO_PI, b""))
        self._ends[name] = end

    def _carry(self) -> None:
        by_end = {end: name for name, end in self._ends.items()}
        under_way: list[tuple[float, int, str, bytes]] = []
        count = 0
        while not self._over.is_set():
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, name, packet = heapq.heappop(under_way)
                if name not in self.cut_off:
                    with suppress(OSError):  # as a full queue drops it
                        os.write(self._ends[name], packet)
            wait = max(0.0, under_way[0][0] - now) if under_way else 0.05
            for end in select.select(list(by_end), [], [], min(wait, 0.05))[0]:
                packet = os.read(end, 65536)
                to = packet[19] - 1 if packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x63\x00" else -1
                if by_end[end] in self.cut_off or not 0 <= to < len(self.names):
                    continue
                late = self.delay_s + self._random.uniform(-self.jitter_s, self.jitter_s)
                heapq.heappush(under_way, (time.monotonic() + late, count, self.names[to], packet))
                count += 1
