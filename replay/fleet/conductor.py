"""Conducts several load generators as one: all are checked before any is made ready, all start at one instant.

It speaks to the workers of a Dask cluster, which answer the operations of `generator`, over the client's own
connections. Nobody is waited for longer than a generator may be silent. Everything here runs on the client's event
loop, but for what `Conductor` offers.
"""

import asyncio
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from iotrace.replay.options import Progress, ReplayOptions
from iotrace.replay.run.play import CalledOffError
from iotrace.schemas import IotraceError, Recording, distribution, stopping
from iotrace.schemas.durable import create_private, create_private_folder

from .clocks import Exchange, Offset, at_instant, offset_of
from .generator import PREFIX, refused

if TYPE_CHECKING:
    from distributed import Client

SILENCE_SECONDS: Final = 5.0
"""A generator, or a conductor, that is not heard of for so long counts as gone."""
_PIECE_BYTES: Final = 4 << 20
_EXCHANGE_SECONDS: Final = 2.0
_EXCHANGES_AT_ONCE: Final = 4
_EXCHANGES_MAX: Final = 400
_LEAD_SECONDS: Final = 1.5
"""From the word to the start: the engine gets its memory and threads in it."""
_GLANCE_SECONDS: Final = 0.1
_END_SECONDS: Final = 60.0
"""Beyond the time for I/Os in flight, for a generator to have written what it measured."""

_Result = TypeVar("_Result")


def _first_or_ctrl_c(number: int, count: int) -> None:
    """Who will not wait for the generators says so at the keyboard: a terminal that closes asks several times, too."""
    if count == 1 or number == signal.SIGINT:
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Part:
    """What one generator is to play: ``options`` are its own, ``path`` is where its recording may lie there."""

    host: str
    recording: Recording
    options: ReplayOptions
    path: str = ""


@dataclass(slots=True)
class PlayedPart:
    """What one generator did. ``recording`` is what it measured, fetched; None where that could not be had."""

    host: str
    recording: Recording | None = None
    before: Offset | None = None
    after: Offset | None = None
    said: str = ""
    """How it ended, where that was not as planned."""
    kernel: str = ""
    """Which running kernel it plays on."""

    def at(self, ours_ns: int) -> Offset | None:
        """The offset of its clock at an instant of the conductor's."""
        return at_instant(self.before, self.after, ours_ns) if self.before is not None else None


@dataclass(slots=True)
class Together:
    """A run of all: the instant agreed on, by the conductor's monotonic clock and in its UTC, and what came of it."""

    start_ns: int
    start_utc_ns: int
    parts: list[PlayedPart]
    why: str = ""
    """Why it ended before its end; empty where it did not."""
    is_interrupted: bool = False
    """By the user."""


@dataclass(slots=True)
class _Peer:
    """A generator, as it was last heard of."""

    host: str
    address: str
    phase: str = "idle"
    problem: tuple[str, str] | None = None
    progress: Progress | None = None
    early: str = ""
    """How it ended, where that was before its end."""
    lost: str = ""
    """Why it counts as gone."""
    kernel: str = ""

    def take(self, state: Mapping[str, Any]) -> None:
        """Note what it said of itself."""
        self.phase, self.early = state["phase"], state["early"]
        self.problem = tuple(state["problem"]) if state["problem"] else None
        self.progress = Progress(**state["progress"]) if state["progress"] else None


class Conductor:
    """The generators of a run, as a context: claimed at its start, released at its end.

    Raises `IotraceError` naming the generator for one that is missing, refuses, or was lost before the start.
    """

    def __init__(
        self,
        client: "Client",
        hosts: Sequence[str],
        *,
        silence_seconds: float = SILENCE_SECONDS,
        progress: Callable[[Mapping[str, Progress]], None] = lambda _states: None,
    ) -> None:
        """``progress`` is called from the thread that waits, several times a second."""
        self._client, self._silence = client, silence_seconds
        self._hosts, self._report = list(hosts), progress
        self._run = f"run-{secrets.token_hex(4)}"
        self._peers: dict[str, _Peer] = {}
        self._beats: list[asyncio.Task[None]] = []
        self._left: set[asyncio.Task[Any]] = set()
        self._stop = ""

    def __enter__(self) -> Self:
        try:
            self._wait(self._claim())
        except BaseException:
            self._wait(self._release())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._release())

    def check(self, parts: Sequence[Part]) -> int:
        """Send what recordings are missing, and have every generator look whether it can play. Returns the I/Os of all.

        Nothing is made or changed on any target. All are asked, and all that refuse are named.
        """
        return self._wait(self._check(parts))

    def play(self, parts: Sequence[Part], room: Path) -> Together:
        """Play all parts together; what each generator measured is fetched into the folder ``room``.

        A generator that is lost, or ends before its end, ends the run on all. Ctrl-C does, too.
        """
        return self._wait(self._play(parts, room))

    def _wait(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run ``work`` on the client's event loop. Ctrl-C is told to the generators, and waited for, the first time."""
        running: Future[_Result] = asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)
        with stopping.on_request(_first_or_ctrl_c):
            return self._waited_for(running)

    def _waited_for(self, running: "Future[_Result]") -> _Result:
        while True:
            try:
                try:
                    return running.result(timeout=_GLANCE_SECONDS)
                except StillRunning:
                    if running.done():
                        raise
                    states = {
                        one.host: one.progress for one in self._peers.values() if one.progress is not None
                    }
                    self._report(states)
            except CalledOffError:
                raise KeyboardInterrupt from None
            except KeyboardInterrupt:
                if self._stop:
                    running.cancel()
                    raise
                self._stop = "interrupted"

    async def _ask(self, peer: _Peer, operation: str, *, seconds: float | None = None, **words: Any) -> Any:  # noqa: ANN401 - what the operation returns
        """Raises ``TimeoutError`` or ``OSError`` where it does not answer."""
        if self._client.status == "closed":  # it was without its scheduler for too long
            raise ConnectionError("the scheduler is gone")
        call = getattr(self._client.rpc(peer.address), PREFIX + operation)
        return await self._within(call(**words), seconds or self._silence)

    async def _must(self, peer: _Peer, operation: str, **words: Any) -> Any:  # noqa: ANN401 - as `_ask`
        """Ask before anything is played. Raises `IotraceError` where it does not answer."""
        try:
            return await self._ask(peer, operation, **words)
        except (OSError, TimeoutError) as problem:
            raise self._unreachable(peer) from problem

    def _unreachable(self, peer: _Peer) -> IotraceError:
        if self._client.status != "running":
            return _no_scheduler()
        return IotraceError(
            f"'{peer.host}' does not answer at {peer.address}",
            hint="this machine must reach every generator, and they the scheduler: "
            "look at firewalls and at its terminal",
        )

    async def _within(self, work: Awaitable[_Result], seconds: float) -> _Result:
        # A call that is cancelled first closes its connection, which may wait for the other side: it is left behind.
        task = asyncio.ensure_future(work)
        self._left.add(task)
        task.add_done_callback(self._forget_task)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            task.cancel()
            raise TimeoutError
        return task.result()

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()

    async def _claim(self) -> None:
        info = await self._client.scheduler.identity(n_workers=-1)
        known = {str(one["name"]): address for address, one in info["workers"].items()}
        missing = [host for host in self._hosts if host not in known]
        if missing:
            raise IotraceError(
                f"there is no generator {' or '.join(map(repr, missing))} at this scheduler",
                hint=f"it has {', '.join(sorted(known)) or 'none'}; "
                f"iotrace fleet generator --name {missing[0]} starts one",
            )
        self._peers = {host: _Peer(host, known[host]) for host in self._hosts}
        own = distribution.version()
        for peer in self._peers.values():
            try:
                hello = await self._must(peer, "hello")
            except IotraceError:
                raise
            except Exception as problem:
                raise IotraceError(
                    f"'{peer.host}' is a Dask worker, but no load generator",
                    hint=f"start it with iotrace fleet generator --name {peer.host}",
                ) from problem
            peer.kernel = hello["kernel"]
            if hello["version"] != own:
                raise IotraceError(
                    f"'{peer.host}' has iotrace {hello['version']}, and this is {own}",
                    hint="install the same version on every machine",
                )
        for peer in self._peers.values():
            refused(await self._must(peer, "claim", run=self._run, silence_seconds=self._silence))
        self._beats = [asyncio.ensure_future(self._beat(peer)) for peer in self._peers.values()]

    async def _release(self) -> None:
        for beat in self._beats:
            beat.cancel()
        calls = [
            self._ask(peer, "release", run=self._run, is_over=True)
            for peer in self._peers.values()
            if not peer.lost
        ]
        await asyncio.gather(*calls, return_exceptions=True)

    async def _beat(self, peer: _Peer) -> None:
        """Hear of a generator again and again, and let it hear of us."""
        every = min(0.5, self._silence / 5)
        heard = time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                state = await self._ask(peer, "hear", run=self._run)
            except TimeoutError:
                peer.lost = f"'{peer.host}' was not heard of for {self._silence:g} s"
                return
            except OSError:
                # Refused or reset: the process is gone, or the network flickers.
                if time.monotonic() - heard > self._silence / 2:
                    peer.lost = f"'{peer.host}' died: nothing answers at {peer.address}"
                    return
            except Exception as problem:  # noqa: BLE001 - nobody else would hear of it
                words = getattr(problem, "message", "") or f"{type(problem).__name__}: {problem}"
                peer.lost = f"'{peer.host}' was lost: {words}"
                return
            else:
                heard = time.monotonic()
                peer.take(state)
            await asyncio.sleep(max(0.0, every - (time.monotonic() - begun)))

    async def _check(self, parts: Sequence[Part]) -> int:
        for part in parts:
            await self._send(part)
        await self._begin("check", "checking", parts)
        await self._until(parts, "checked")
        states = [await self._must(self._peers[part.host], "hear", run=self._run) for part in parts]
        return sum(int(state["ios"]) for state in states)

    async def _begin(self, operation: str, phase: str, parts: Sequence[Part]) -> None:
        from distributed.protocol import to_serialize  # noqa: PLC0415 - of an extra

        for part in parts:
            peer = self._peers[part.host]
            peer.phase, peer.problem = phase, None
            answer = await self._must(
                peer,
                operation,
                run=self._run,
                path=part.path,
                uuid=part.recording.manifest.uuid,
                options=to_serialize(part.options),
            )
            refused(answer)
            # Heartbeats tell of the phase before for a moment.
            peer.take(await self._must(peer, "hear", run=self._run))

    async def _send(self, part: Part) -> None:
        """Send the recording, file by file, where it does not lie there already."""
        peer, recording = self._peers[part.host], part.recording
        uuid = recording.manifest.uuid
        if await self._must(peer, "find", run=self._run, path=part.path, uuid=uuid):
            return
        for path in sorted(path for path in recording.path.rglob("*") if path.is_file()):
            name = path.relative_to(recording.path).as_posix()
            with path.open("rb") as file:
                is_new = True
                while (data := file.read(_PIECE_BYTES)) or is_new:
                    words = {"run": self._run, "uuid": uuid, "name": name, "data": data, "is_new": is_new}
                    refused(await self._must(peer, "receive", seconds=60.0, **words))
                    is_new = False

    async def _until(self, parts: Sequence[Part], phase: str) -> None:
        """Wait until all are in ``phase``. Raises `IotraceError` with what those say that cannot be."""
        peers = [self._peers[part.host] for part in parts]
        while True:
            lost = next((peer for peer in peers if peer.lost), None)
            failed = [peer for peer in peers if peer.phase == "failed"]
            busy = [peer for peer in peers if peer.phase not in {phase, "failed"}]
            if lost is not None or self._stop or (failed and not (busy and phase == "checked")):
                await self._call_off(lost.lost if lost is not None else self._stop or "another refused")
                if self._stop:
                    raise CalledOffError("nothing was played: interrupted")
                raise _together(failed, lost, has_scheduler=self._client.status == "running")
            if not busy:
                return
            await asyncio.sleep(_GLANCE_SECONDS / 2)

    async def _call_off(self, why: str) -> None:
        calls = [
            self._ask(peer, "stop", run=self._run, why=why) for peer in self._peers.values() if not peer.lost
        ]
        await asyncio.gather(*calls, return_exceptions=True)

    async def _play(self, parts: Sequence[Part], room: Path) -> Together:
        await self._begin("prepare", "preparing", parts)
        await self._until(parts, "ready")
        peers = [self._peers[part.host] for part in parts]
        played = {peer.host: PlayedPart(peer.host, kernel=peer.kernel) for peer in peers}
        for host, offset in zip(played, await self._offsets(peers), strict=True):
            if offset is None:
                await self._call_off("a clock could not be compared")
                raise self._unreachable(self._peers[host])
            played[host].before = offset
        slowest = max(one.before.round_trip_ns for one in played.values() if one.before is not None)
        lead_ns = round(_LEAD_SECONDS * 1e9) + 4 * slowest
        start_ns = time.monotonic_ns() + lead_ns
        run = Together(start_ns, time.time_ns() + lead_ns, list(played.values()))
        starts = [
            self._ask(
                peer, "go", run=self._run, start_ns=start_ns + (before.offset_ns if before is not None else 0)
            )
            for peer in peers
            for before in [played[peer.host].before]
        ]
        for peer, answer in zip(peers, await asyncio.gather(*starts, return_exceptions=True), strict=True):
            words = (
                "" if not isinstance(answer, BaseException) else f"'{peer.host}' did not answer at the start"
            )
            if isinstance(answer, Mapping) and answer.get("problem"):
                words = answer["problem"][0]
            run.why = run.why or words
            if not words:
                peer.phase = "playing"
        await self._watch(peers, run)
        alive = [peer for peer in peers if not peer.lost]
        for peer, offset in zip(alive, await self._offsets(alive), strict=True):
            played[peer.host].after = offset
        for peer in peers:
            await self._fetch(peer, room, played[peer.host])
        return run

    async def _watch(self, peers: Sequence[_Peer], run: Together) -> None:
        """Until all have ended; the first that is lost or fails ends it for all."""
        until: float | None = None
        if run.why:
            await self._call_off(run.why)
            until = time.monotonic() + _END_SECONDS
        while True:
            lost = [peer for peer in peers if peer.lost]
            failed = [peer for peer in peers if peer.phase == "failed"]
            still = [peer for peer in peers if not peer.lost and peer.phase not in {"done", "failed"}]
            early = [peer for peer in peers if peer.early and peer.phase == "done"]
            if until is None and (lost or failed or early or self._stop):
                run.is_interrupted = bool(self._stop)
                said = [_why_ended(peer) for peer in (*lost, *failed, *early)]
                if lost and self._client.status != "running":
                    said.insert(0, "the scheduler is gone")
                run.why = self._stop or "; ".join(said)
                await self._call_off(run.why)
                until = time.monotonic() + _END_SECONDS
            if not still or (until is not None and time.monotonic() > until):
                return
            await asyncio.sleep(_GLANCE_SECONDS / 2)

    async def _fetch(self, peer: _Peer, room: Path, played: PlayedPart) -> None:
        """Fetch what a generator measured into ``room``; where that fails, say so."""
        played.said = peer.lost or (peer.problem[0] if peer.problem else "")
        if peer.phase != "done" and not peer.lost:
            played.said = played.said or f"'{peer.host}' did not end"
            return
        target = room / f"{peer.host}.iotrace"
        try:
            files = await self._ask(peer, "files", run=self._run)
            if not files:
                return
            create_private_folder(target)
            for name, size in files:
                await self._fetch_file(peer, target, str(name), int(size))
            played.recording = Recording.open(target)
        except (OSError, TimeoutError, IotraceError) as problem:
            words = getattr(problem, "message", None) or "it does not answer"
            played.said = (
                played.said
                or f"what '{peer.host}' measured could not be fetched ({words}), and lies in its folder"
            )
            return
        with suppress(OSError, TimeoutError):
            await self._ask(peer, "release", run=self._run, is_over=False)

    async def _fetch_file(self, peer: _Peer, target: Path, name: str, size: int) -> None:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts:
            raise IotraceError(f"'{peer.host}' named a file '{name}'", hint="find out what runs there")
        path = target / pure
        if not path.parent.is_dir():
            create_private_folder(path.parent)
        create_private(path)
        with path.open("wb") as file:
            while file.tell() < size:
                piece = {"name": name, "offset": file.tell(), "size": min(_PIECE_BYTES, size - file.tell())}
                data = await self._ask(peer, "read", seconds=60.0, run=self._run, **piece)
                if not data:
                    raise OSError(f"'{name}' is shorter than it was")
                file.write(data)

    async def _offsets(self, peers: Sequence[_Peer]) -> list[Offset | None]:
        return list(await asyncio.gather(*(self._offset(peer) for peer in peers)))

    async def _offset(self, peer: _Peer) -> Offset | None:
        """Their clock against ours, by exchanges for `_EXCHANGE_SECONDS`; None where none succeeds."""
        exchanges: list[Exchange] = []
        until = time.monotonic() + _EXCHANGE_SECONDS

        async def exchange() -> None:
            while time.monotonic() < until and len(exchanges) < _EXCHANGES_MAX and not peer.lost:
                sent_ns = time.monotonic_ns()
                try:
                    there_ns = await self._ask(peer, "clock")
                except (OSError, TimeoutError):
                    return
                exchanges.append(Exchange(sent_ns, int(there_ns), time.monotonic_ns()))

        await asyncio.gather(*(exchange() for _ in range(_EXCHANGES_AT_ONCE)))
        return offset_of(exchanges) if exchanges else None


def _why_ended(peer: _Peer) -> str:
    if peer.lost:
        return peer.lost
    return f"'{peer.host}': {peer.early or (peer.problem or ('it failed', ''))[0]}"


def _no_scheduler() -> IotraceError:
    return IotraceError(
        "nobody started: the scheduler is gone", hint="start it and its generators again, then the replay"
    )


def _together(failed: Sequence[_Peer], lost: _Peer | None, *, has_scheduler: bool) -> IotraceError:
    """One error of all that failed."""
    if not has_scheduler:
        return _no_scheduler()
    if not failed:
        return IotraceError(
            f"nobody started: {lost.lost if lost else 'the run was called off'}",
            hint="start that generator again",
        )
    said = "; ".join(f"on '{peer.host}': {(peer.problem or ('it failed', ''))[0]}" for peer in failed)
    hint = next((peer.problem[1] for peer in failed if peer.problem), "")
    return IotraceError(f"nobody started; {said}", hint=hint)
