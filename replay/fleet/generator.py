"""A load generator: what it does for whoever conducts a run, and that it stops by itself when nobody does.

Its methods are the operations that a Dask worker answers (`serving`). They run on the worker's event loop and return at
once: what takes time is done by a thread, and `hear` tells how far it is. Every operation but `hello` and `clock` names
the run that it belongs to, and counts as a sign of life of its conductor.
"""

import asyncio
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from iotrace.replay.options import Progress, ReplayOptions
from iotrace.replay.run.play import CalledOffError, Gate
from iotrace.replay.run.replay import check_targets, replay
from iotrace.schemas import IotraceError, Recording, distribution
from iotrace.schemas.durable import create_private, create_private_folder
from iotrace.schemas.partials import Partial
from iotrace.schemas.replacing import remove_written
from iotrace.schemas.writer import RECORDING

PREFIX: Final = "iotrace_"
"""Of the operations' names."""
_GLANCE_SECONDS: Final = 0.1

Phase = Literal["idle", "checking", "checked", "preparing", "ready", "playing", "done", "failed"]


class BusyError(IotraceError):
    """Somebody else conducts this generator."""


class Generator:
    """One machine's part in runs, one run at a time."""

    def __init__(self, name: str, folder: Path, say: Callable[[str], None] = lambda _words: None) -> None:
        """What it is sent, and results that were not fetched, lie in ``folder``; ``say`` tells who is at it."""
        self.name, self.folder, self._say = name, folder, say
        self._run = ""
        self._silence_seconds = 0.0
        self._heard = 0.0
        self._phase: Phase = "idle"
        self._problem: tuple[str, str] | None = None
        self._progress: Progress | None = None
        self._gate = Gate()
        self._thread: threading.Thread | None = None
        self._played: Path | None = None
        self._received: Partial | None = None
        self._early = ""
        self._checked_ios = 0

    def operations(self) -> dict[str, Callable[..., Any]]:
        """What a worker has to answer, by name."""
        names = (
            "hello",
            "clock",
            "claim",
            "hear",
            "find",
            "receive",
            "check",
            "prepare",
            "go",
            "stop",
            "files",
        )
        return {f"{PREFIX}{name}": getattr(self, name) for name in (*names, "read", "release")}

    async def hello(self) -> dict[str, Any]:
        """Who this is."""
        return {"name": self.name, "version": distribution.version(), "kernel": _kernel()}

    async def clock(self) -> int:
        """This machine's monotonic clock, by which the engine plays."""
        return time.monotonic_ns()

    async def claim(self, run: str, silence_seconds: float) -> dict[str, Any]:
        """Serve the run called ``run``, and no other until it is released or its conductor has fallen silent."""
        if self._run and self._run != run and (self._is_at_work or not self._is_silent):
            return _refusal(
                f"'{self.name}' plays for somebody else", "wait for the end of that run, or stop it there"
            )
        self._forget()
        self._run, self._silence_seconds = run, silence_seconds
        self._heard = time.monotonic()
        self._say(f"run {run}: claimed")
        return {}

    async def hear(self, run: str) -> dict[str, Any]:
        """A sign of life of the conductor; how far this generator is in return."""
        self._of(run)
        return {
            "phase": self._phase_now,
            "problem": list(self._problem) if self._problem else None,
            "early": self._early,
            "progress": asdict(self._progress) if self._progress else None,
            "ios": self._checked_ios,
        }

    async def find(self, run: str, path: str, uuid: str) -> bool:
        """Whether the recording called ``uuid`` lies here, under the conductor's own path or as it was sent."""
        self._of(run)
        return self._recording(path, uuid) is not None

    async def receive(self, run: str, uuid: str, name: str, data: bytes, *, is_new: bool) -> dict[str, Any]:
        """A piece of a file of a recording, appended to what is there."""
        self._of(run)
        try:
            if self._received is None:
                self._received = Partial.folder(self.folder / "sent", private=True)
            path = _inside(self._received.path / f"{_plain(uuid)}.iotrace", name)
            if is_new:
                for parent in reversed([path.parent, *path.parent.parents]):
                    if parent.is_relative_to(self.folder) and not parent.is_dir():
                        create_private_folder(parent)
                path.unlink(missing_ok=True)
                create_private(path)
            with path.open("ab") as file:
                file.write(data)
        except OSError as problem:
            return _refusal(
                f"'{self.name}' cannot keep the recording in '{self.folder}': {problem.strerror}",
                "free some room there, or lay the recording where the plan names it",
            )
        return {}

    async def check(self, run: str, path: str, uuid: str, options: ReplayOptions) -> dict[str, Any]:
        """Begin to look whether everything could be played; nothing is made or changed."""
        self._of(run)
        return self._begin(
            "checking",
            lambda: self._check(path, uuid, options),
        )

    async def prepare(self, run: str, path: str, uuid: str, options: ReplayOptions) -> dict[str, Any]:
        """Begin to open the targets and make the plan ready. It then waits for `go`."""
        self._of(run)
        return self._begin("preparing", lambda: self._play(path, uuid, options))

    async def go(self, run: str, start_ns: int) -> dict[str, Any]:
        """Play from when this machine's monotonic clock reads ``start_ns``."""
        self._of(run)
        if self._phase_now != "ready":
            return _refusal(f"'{self.name}' is not ready to play", "run it again")
        self._phase = "playing"
        self._gate.open_at(start_ns)
        return {}

    async def stop(self, run: str, why: str) -> None:
        """End the run and keep what was measured."""
        self._of(run)
        self._gate.stop(why)

    async def files(self, run: str) -> list[tuple[str, int]]:
        """Names and sizes of the files of what was measured; none where nothing was."""
        self._of(run)
        if self._played is None:
            return []
        paths = sorted(path for path in self._played.rglob("*") if path.is_file())
        return [(path.relative_to(self._played).as_posix(), path.stat().st_size) for path in paths]

    async def read(self, run: str, name: str, offset: int, size: int) -> bytes:
        """A piece of such a file."""
        self._of(run)
        if self._played is None:
            raise FileNotFoundError(name)
        with _inside(self._played, name).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    async def release(self, run: str, *, is_over: bool) -> None:
        """What was measured has arrived: remove it; and everything else of the run, if that ``is_over``."""
        self._of(run)
        self._drop_result()
        if is_over:
            self._forget()
            self._say(f"run {run}: over")

    async def end(self, why: str) -> None:
        """Stop what is played, and wait until what was measured is fetched, or its conductor has fallen silent."""
        self._gate.stop(why)
        while self._is_at_work or (self._played is not None and not self._is_silent):
            await asyncio.sleep(_GLANCE_SECONDS)

    def _of(self, run: str) -> None:
        if run != self._run:
            raise BusyError(f"'{self.name}' plays for somebody else")
        self._heard = time.monotonic()

    @property
    def _phase_now(self) -> Phase:
        return "ready" if self._phase == "preparing" and self._gate.ready.is_set() else self._phase

    @property
    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard > self._silence_seconds

    @property
    def _is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _recording(self, path: str, uuid: str) -> Recording | None:
        sent = [self._received.path / f"{_plain(uuid)}.iotrace"] if self._received else []
        for place in (Path(path), *sent):
            with suppress(IotraceError, OSError):
                found = Recording.open(place)
                if found.manifest.uuid == uuid:
                    return found
        return None

    def _begin(self, phase: Phase, work: Callable[[], None]) -> dict[str, Any]:
        if self._is_at_work:
            return _refusal(f"'{self.name}' is still at work", "wait for its end")
        self._drop_result()
        self._gate, self._problem, self._progress, self._early, self._phase = Gate(), None, None, "", phase
        self._thread = threading.Thread(
            target=self._work, args=(work,), name="iotrace-generator", daemon=True
        )
        self._thread.start()
        threading.Thread(target=self._watch, args=(self._thread, self._gate), daemon=True).start()
        return {}

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except IotraceError as problem:
            self._problem, self._phase = (problem.message, problem.hint), "failed"
        except Exception as problem:  # noqa: BLE001 - it is told to who conducts
            self._problem, self._phase = (f"{type(problem).__name__}: {problem}", ""), "failed"

    def _watch(self, thread: threading.Thread, gate: Gate) -> None:
        """Stop when the conductor is not heard of any more, whatever the event loop or the replay are busy with."""
        while thread.is_alive():
            if self._is_silent and not gate.why:
                self._say(f"run {self._run}: the conductor was not heard of for {self._silence_seconds:g} s")
                gate.stop(f"the conductor was not heard of for {self._silence_seconds:g} s")
            thread.join(_GLANCE_SECONDS)
        if gate.why and self._played is not None:
            self._say(f"run {self._run}: what was measured lies in {self._played}")

    def _check(self, path: str, uuid: str, options: ReplayOptions) -> None:
        self._checked_ios = check_targets(self._found(path, uuid), options, self._note)
        self._phase = "checked"

    def _play(self, path: str, uuid: str, options: ReplayOptions) -> None:
        output = self.folder / f"{_plain(self._run)}-{_plain(self.name)}.iotrace"
        result = replay(
            self._found(path, uuid), output, options, progress=self._note, gate=self._gate, overwrite=True
        )
        self._played = result.path
        if result.manifest.open_replay.ended != "normally":
            self._early = result.manifest.quality.ended
        self._phase = "done"

    def _found(self, path: str, uuid: str) -> Recording:
        found = self._recording(path, uuid)
        if found is None:
            raise IotraceError(f"'{path}' is not there", hint="run it again")
        return found

    def _note(self, progress: Progress) -> None:
        self._progress = progress
        if progress.phase != "play" and self._gate.why:
            raise CalledOffError(f"nothing was played: {self._gate.why}")

    def _drop_result(self) -> None:
        if self._played is not None and not self._is_silent:
            remove_written(self._played, RECORDING)
        self._played = None

    def _forget(self) -> None:
        self._gate.stop("the run is over")
        self._drop_result()
        if self._received is not None:
            self._received.close()
            self._received = None
        self._run, self._phase = "", "idle"


def _refusal(message: str, hint: str) -> dict[str, Any]:
    return {"problem": [message, hint]}


def refused(answer: Mapping[str, Any]) -> None:
    """Raise what an operation refused as `IotraceError`."""
    if problem := answer.get("problem"):
        raise IotraceError(problem[0], hint=problem[1])


def _kernel() -> str:
    """Which running kernel this is: generators on one machine see the same devices and counters."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return platform.node()


def _plain(word: str) -> str:
    """A word that can be a name of a file and nothing else."""
    if not word or word.startswith(".") or any(not (sign.isalnum() or sign in "-_.") for sign in word):
        raise ValueError(f"{word!r} is no plain name")
    return word


def _inside(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    return folder.joinpath(*(_plain(part) for part in parts))
