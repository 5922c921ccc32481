"""Fleets of local processes, and recordings with many streams for them to share."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

IOTRACE = (sys.executable, "-m", "iotrace.cli")
START_SECONDS = 120
"""For a process to say that it is ready; on a busy machine Dask alone takes seconds to import."""


def many_threads(
    path: Path, *, ios_per_second: int, seconds: float, threads: int = 30, op: str = "read"
) -> Recording:
    """I/Os of 8 KiB at random times by many threads, each in a place of its own; each thread's share is its own."""
    random = np.random.default_rng(11)
    count = int(ios_per_second * seconds)
    thread = random.integers(0, threads, count).astype(np.int32)
    issued_ns = np.sort(random.uniform(0, seconds * 1e9, count)).astype(np.int64)
    with RecordingWriter(path) as writer:
        writer.append("devices", pa.table({"device_id": [0], "name": ["disk 0"], "kind": ["disk"]}))
        writer.append("io", pa.table({
            "layer": ["block"] * count,
            "op": [op] * count,
            "issued_ns": issued_ns,
            "completed_ns": issued_ns + 200_000,
            "offset_bytes": (thread * 64 + random.integers(0, 64, count)).astype(np.int64) * 8192,
            "size_bytes": [8192] * count,
            "device_id": [0] * count,
            "thread_id": thread,
        }))  # fmt: skip
        manifest = Manifest("captured", "Many threads", Clock(1_790_000_000_000_000_000, 100, "planted"))
        manifest.window_end_ns = int(seconds * 1e9)
        return writer.commit(manifest)


def write_plan(path: Path, recording: Path, targets: dict[str, Path], **words: object) -> Path:
    """A plan in which all share ``recording``."""
    lines = [f"recording = {json.dumps(str(recording))}"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in words.items()]
    for name, target in targets.items():
        lines += ["[[generator]]", f'name = "{name}"', f"target = {json.dumps(str(target))}"]
    path.write_text("\n".join(lines) + "\n")
    return path


class Processes:
    """A context: what is started in it is ended with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            self._signal(process, signal.SIGKILL)
            process.wait()

    def start(self, name: str, words: Sequence[str], *, group: Path | None = None) -> subprocess.Popen[bytes]:
        """``group`` is a cgroup to run it in."""
        if group is not None:
            joining = 'echo $$ > "$0" && exec "$@"'
            words = ["sh", "-c", joining, str(group / "cgroup.procs"), *words]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, cwd=self.folder)
        self._running[name] = process
        return process

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def wait_until_said(self, name: str, word: str) -> str:
        until = time.monotonic() + START_SECONDS
        while word not in self.said(name):
            assert self._running[name].poll() is None, f"{name} ended: {self.said(name)}"
            assert time.monotonic() < until, f"{name} said only: {self.said(name)}"
            time.sleep(0.05)
        return self.said(name)

    def kill(self, name: str) -> None:
        """As the kernel does it, without a word; what it started with it."""
        self._signal(self._running[name], signal.SIGKILL)

    def stop(self, name: str) -> None:
        """As Ctrl-C does."""
        self._signal(self._running[name], signal.SIGINT)

    def freeze(self, name: str) -> None:
        """It stands still until it is killed."""
        self._signal(self._running[name], signal.SIGSTOP)

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def shards_of(path: Path) -> dict[str, Any]:
    """Each generator's part, by name."""
    return {shard.host: shard for shard in Recording.open(path).manifest.open_replay.shards}
