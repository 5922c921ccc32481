"""The processes of a fleet that users start: the scheduler, and the load generators, which are workers of Dask.

Without certificates they listen to this machine alone. The pages that Dask serves over plain HTTP are for this machine
in any case.
"""

import asyncio
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from iotrace.replay.fleet import Generator
from iotrace.schemas import IotraceError
from iotrace.schemas.durable import create_private_folder

from .cluster import check_address, dask, is_loopback, security_of

if TYPE_CHECKING:
    from distributed import Security

_AGAIN_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 15
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HERE: Final = "127.0.0.1"


def own_name() -> str:
    """This machine's, as far as it can be a generator's."""
    return (
        re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname().partition(".")[0])[:63].lstrip(".-_")
        or "generator"
    )


def serve_scheduler(host: str, port: int, certificates: Path | None, say: Callable[[str], None]) -> None:
    """Run a scheduler until it is told to stop. Raises `IotraceError` where it may not or cannot listen."""
    _refuse_windows()
    security = security_of(certificates)
    if certificates is None and not is_loopback(host):
        raise IotraceError(
            f"a scheduler on {host} could be commanded by anybody who reaches it",
            hint="add --certificates FOLDER, which iotrace fleet certificates makes; or leave --host out",
        )
    protocol = "tls" if certificates is not None else "tcp"

    async def serve() -> None:
        scheduler = dask().Scheduler(
            host=host,
            port=port,
            protocol=protocol,
            security=security,
            dashboard_address=f"{_HERE}:0",
            dashboard=True,
        )
        async with scheduler:
            say(f"scheduler at {scheduler.address}")
            await _until_told(scheduler.finished())

    _run(serve(), f"{host}:{port}")


def serve_generator(
    address: str,
    certificates: Path | None,
    name: str,
    folder: Path,
    host: str | None,
    say: Callable[[str], None],
) -> None:
    """Run the load generator ``name`` at the scheduler at ``address`` until it is told to stop.

    Where the scheduler goes away it is waited for. Raises `IotraceError` where it does not answer at first, for an
    address beyond this machine without TLS, and for a name that is none.
    """
    _refuse_windows()
    if not _NAME.fullmatch(name):
        raise IotraceError(
            f"--name '{name}' is no name for a generator",
            hint="letters, digits, '.', '-' and '_', such as gen1",
        )
    security = security_of(certificates)
    check_address(address, security)
    host = _listening(address, host)
    _make(folder)
    generator = Generator(name, folder.absolute(), say)

    async def serve() -> None:
        told = asyncio.ensure_future(_told())
        is_first = True
        while not told.done():
            try:
                async with _worker(address, security, host, name, generator) as worker:
                    say(f"generator '{name}' at {worker.address}, for {address}")
                    is_first = False
                    gone = asyncio.ensure_future(worker.finished())
                    await asyncio.wait({told, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if told.done():
                        await generator.end(f"'{name}' was stopped on its machine")
            except (OSError, TimeoutError, ValueError, RuntimeError) as problem:
                if is_first:
                    reason = str(problem).splitlines()[0][:200].rstrip(".") if str(problem) else "no answer"
                    raise IotraceError(
                        f"the scheduler at {address} does not take this generator: {reason}",
                        hint="is it running (iotrace fleet scheduler), is the name free, and are the certificates "
                        "of one authority?",
                    ) from problem
            if not told.done():
                say(f"the scheduler at {address} is gone; it is waited for")
                await asyncio.wait({told}, timeout=_AGAIN_SECONDS)

    _run(serve(), address)


def _refuse_windows() -> None:
    if sys.platform == "win32":
        raise IotraceError(
            "a fleet's machines run Linux", hint="start it there; iotrace replay plays on Windows"
        )


def _listening(address: str, host: str | None) -> str | None:
    """Where to listen: on this machine alone where the scheduler is on it, or anybody could command from elsewhere."""
    if is_loopback(urlsplit(address).hostname or ""):
        host = host or _HERE
    if urlsplit(address).scheme == "tcp" and not is_loopback(host or ""):
        raise IotraceError(
            f"a generator on {host} could be commanded by anybody who reaches it",
            hint="use tls:// with --certificates FOLDER; or leave --host out",
        )
    return host


def _make(folder: Path) -> None:
    try:
        if not folder.is_dir():
            create_private_folder(folder)
    except OSError as problem:
        raise IotraceError(
            f"cannot make '{folder}': {problem.strerror}", hint="choose another folder with --folder"
        ) from problem


def _worker(address: str, security: "Security", host: str | None, name: str, generator: Generator) -> Any:  # noqa: ANN401 - Dask's
    distributed = dask()
    from dask import config  # noqa: PLC0415 - of an extra

    config.set({"distributed.worker.http.routes": []})
    worker = distributed.Worker(
        address,
        name=name,
        nthreads=1,
        host=host,
        security=security,
        memory_limit=0,
        dashboard_address=f"{_HERE}:0",
        dashboard=False,
        death_timeout=_ANSWER_SECONDS,
    )
    worker.handlers.update(generator.operations())
    return worker


async def _told() -> None:
    """Until somebody wants this process to end."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()


async def _until_told(finished: Awaitable[None]) -> None:
    waiting = {asyncio.ensure_future(_told()), asyncio.ensure_future(finished)}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


def _run(work: Any, where: str) -> None:  # noqa: ANN401 - a coroutine
    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(work)
    except OSError as problem:
        raise IotraceError(
            f"cannot listen at {where}: {problem.strerror or problem}", hint="choose another --host or --port"
        ) from problem
