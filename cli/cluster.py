"""A Dask cluster that commands work on: which one may be talked to, and what the user is told of it.

Whoever reaches a scheduler commands its workers. So it is reached by TLS with certificates on either side, or it lies
on this machine and listens to nothing else.
"""

import ipaddress
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from iotrace.schemas import IotraceError
from iotrace.schemas.stored import Place

from . import console

if TYPE_CHECKING:
    from distributed import Client, Security

CA_FILE: Final = "ca.pem"
CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "key.pem"
_TIMEOUT_S: Final = 15

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Let a Dask cluster do it: tls://HOST:8786, or tcp://127.0.0.1:8786 on this machine.",
        show_default=False,
    ),
]
Certificates = Annotated[
    Path | None,
    typer.Option(
        "--certificates",
        metavar="FOLDER",
        help=f"What --scheduler is to know you by: {CA_FILE}, {CERTIFICATE_FILE} and {KEY_FILE} are in it.",
        show_default=False,
    ),
]


def security_of(certificates: Path | None) -> "Security":
    """TLS in which both sides show a certificate of the same authority; without a folder what Dask's own settings say.

    Raises `IotraceError` where the folder lacks one of `CA_FILE`, `CERTIFICATE_FILE` and `KEY_FILE`.
    """
    distributed = dask()
    if certificates is None:
        found: Security = distributed.Security()
        return found
    files = [certificates / name for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE)]
    for file in files:
        if not file.is_file():
            raise IotraceError(
                f"'{certificates}' has no {file.name}",
                hint=f"it needs {CA_FILE}, {CERTIFICATE_FILE} and {KEY_FILE}; iotrace fleet certificates makes them",
            )
    authority, certificate, key = map(str, files)
    made: Security = distributed.Security(
        require_encryption=True,
        tls_ca_file=authority,
        tls_client_cert=certificate,
        tls_client_key=key,
        tls_scheduler_cert=certificate,
        tls_scheduler_key=key,
        tls_worker_cert=certificate,
        tls_worker_key=key,
    )
    return made


def check_address(address: str, security: "Security") -> None:
    """Raises `IotraceError` for what is no address, and for one that lies beyond this machine without certificates."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in {"tcp", "tls"} or not host or not port:
        raise IotraceError(
            f"--scheduler {address} is not the address of a Dask scheduler",
            hint="it is tls://HOST:8786, or tcp://127.0.0.1:8786 on this machine",
        )
    if parts.scheme == "tls":
        if security.tls_client_cert is None or security.tls_ca_file is None:
            raise IotraceError(
                f"--scheduler {address} needs certificates",
                hint="add --certificates FOLDER; iotrace fleet certificates makes one",
            )
    elif not is_loopback(host):
        raise IotraceError(
            f"--scheduler {address} lies beyond this machine, and over tcp:// anybody there could command it",
            hint="use tls:// with --certificates FOLDER; iotrace fleet certificates makes one",
        )


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine and cannot be reached from another."""
    try:
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


@contextmanager
def connected(address: str, certificates: Path | None) -> Iterator["Client"]:
    """A client of the scheduler at ``address`` that has workers with this version of iotrace.

    Says where its dashboard is. Raises `IotraceError` for an address that may not be used or where nobody answers.
    """
    distributed = dask()
    security = security_of(certificates)
    check_address(address, security)
    try:
        client = distributed.Client(
            address,
            security=security if security.tls_client_cert else None,
            timeout=_TIMEOUT_S,
            set_as_default=False,
        )
    except (OSError, ValueError, RuntimeError) as problem:
        raise IotraceError(
            f"no Dask scheduler answers at {address}: {str(problem).splitlines()[0][:200].rstrip('.')}",
            hint="is it running (dask scheduler), and are your certificates of its authority?",
        ) from problem
    try:
        _check_cluster(client, address)
        console.say(f"dashboard: {client.dashboard_link}")
        yield client
    finally:
        client.close(timeout=_TIMEOUT_S)


@contextmanager
def executor(address: str | None, certificates: Path | None) -> Iterator[Executor | None]:
    """Where recordings are read: on the cluster at ``address``, or None, which is processes of this machine."""
    if address is None:
        if certificates is not None:
            raise IotraceError("--certificates belong to --scheduler", hint="add --scheduler tls://HOST:8786")
        yield None
        return
    with connected(address, certificates) as client:
        pool: Executor = client.get_executor(pure=False, retries=0)
        try:
            yield pool
        finally:
            pool.shutdown(wait=False)


def refuse_for_one(places: Sequence[Place], address: str | None) -> None:
    """Raises `IotraceError` where a cluster was named to read a single recording."""
    if address is not None and len(places) == 1:
        raise IotraceError(
            f"--scheduler lets many recordings be read at once, and '{places[0]}' is one", hint="leave it out"
        )


def as_workers_see(places: Sequence[Place], pool: Executor | None) -> list[Place]:
    """``places`` for who runs elsewhere, and does not know the folder that this command was given in."""
    return [one.absolute() if isinstance(one, Path) and pool is not None else one for one in places]


def _check_cluster(client: "Client", address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_TIMEOUT_S)
    except TimeoutError as problem:
        raise IotraceError(
            f"the Dask scheduler at {address} has no workers",
            hint=f"dask worker {address} --nthreads 1 starts one",
        ) from problem
    refuse_open(client.scheduler_info(n_workers=-1), address)
    own = metadata.version("iotrace")
    found = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != own:
            words = "no iotrace" if isinstance(version, Exception) else f"iotrace {version}"
            raise IotraceError(
                f"the worker {worker} has {words}, and this is iotrace {own}",
                hint="install the same version, with iotrace[fleet], on every worker",
            )


def refuse_open(info: Mapping[str, Any], address: str) -> None:
    """Raises `IotraceError` where a scheduler or worker without TLS can be reached from another machine."""
    for one in (info["address"], *info["workers"]):
        parts = urlsplit(one)
        if parts.scheme != "tls" and not (parts.scheme == "inproc" or is_loopback(parts.hostname or "")):
            raise IotraceError(
                f"{one} of the cluster at {address} can be reached from other machines, and without TLS",
                hint="start scheduler and workers with --host 127.0.0.1, or with TLS; see docs/fleet.md",
            )


def _version() -> str:
    """Of iotrace on the worker that runs this."""
    return metadata.version("iotrace")


def dask() -> Any:  # noqa: ANN401 - a module
    """Dask, which takes seconds to import. Raises `IotraceError` where it is not installed."""
    try:
        import distributed  # noqa: PLC0415 - most commands do without it
    except ImportError as problem:
        raise IotraceError(
            "--scheduler needs Dask, which is not installed", hint="pip install 'iotrace[fleet]'"
        ) from problem
    # What goes wrong is told by whoever asked.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed
