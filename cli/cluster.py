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
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

import typer

from iotrace.analyze.fleet import named_recordings, refuse_missing
from iotrace.schemas import IotraceError, distribution
from iotrace.schemas.stored import Place, stored_at

from . import console
from .extras import install

if TYPE_CHECKING:
    from distributed import Client, Security

CA_FILE: Final = "ca.pem"
CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "key.pem"
_TIMEOUT_S: Final = 15
_DASHBOARD_TIMEOUT_S: Final = 2
_NEEDS_BOKEH: Final = b"Dask needs bokeh"
"""What Dask shows in place of its charts."""
LOOPBACK: Final = "127.0.0.1"

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Read the recordings on a Dask cluster: tls://HOST:8786, or tcp://127.0.0.1:8786 on this machine.",
        show_default=False,
    ),
]
Certificates = Annotated[
    Path | None,
    typer.Option(
        "--certificates",
        metavar="FOLDER",
        help=f"Folder with {CA_FILE}, {CERTIFICATE_FILE} and {KEY_FILE}, for TLS.",
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


def checked_address(address: str, security: "Security") -> str:
    """What Dask is to connect to for ``address``.

    Raises `IotraceError` for what is no address, and for one that lies beyond this machine without certificates.
    """
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
    known = without_localhost(host)
    return address if known == host else f"{parts.scheme}://{known}:{port}"


def without_localhost(host: str) -> str:
    """``host``, but this machine for localhost, whatever a name service says of that name (RFC 6761, section 6.3)."""
    return LOOPBACK if host.lower() == "localhost" else host


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine and cannot be reached from another."""
    try:
        found = socket.getaddrinfo(without_localhost(host), None, proto=socket.IPPROTO_TCP)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


@contextmanager
def connected(address: str, certificates: Path | None, *, tell: bool = True) -> Iterator["Client"]:
    """A client of the scheduler at ``address`` that has workers with this version of iotrace.

    With ``tell`` the user hears where its dashboard is. Raises `IotraceError` for an address that may not be used or
    where nobody answers.
    """
    distributed = dask()
    security = security_of(certificates)
    place = checked_address(address, security)
    try:
        client = distributed.Client(
            place,
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
        if tell and (dashboard := _dashboard(client)) is not None:
            console.say(f"dashboard: {dashboard}")
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


def named(words: Sequence[Path], address: str | None, certificates: Path | None) -> list[Place]:
    """The recordings that ``words`` name here or, where this machine lacks one, on the workers of ``address``.

    Raises `IotraceError` for what is nowhere, and where workers see different recordings under the same path.
    """
    if address is None:
        return named_recordings(words)
    try:
        found = named_recordings(words)
        refuse_missing(found)
    except IotraceError:
        with connected(address, certificates, tell=False) as client:
            return _named_on(client, [word if stored_at(word) else word.absolute() for word in words])
    return found


def _named_on(client: "Client", words: Sequence[Path]) -> list[Place]:
    seen: dict[str, list[Place] | str] = client.run(_seen, words)
    if problem := next((one for one in seen.values() if isinstance(one, str)), None):
        raise IotraceError(
            f"{problem}; neither here nor on every worker",
            hint="name what lies here, or what all workers can read",
        )
    (first, found), *others = seen.items()
    for worker, other in others:
        if other != found:
            raise IotraceError(
                f"the workers {first} and {worker} have different recordings at '{words[0]}'",
                hint="put them where all workers see the same ones: a share, or object storage",
            )
    assert not isinstance(found, str)
    return found


def _seen(words: Sequence[Path]) -> list[Place] | str:
    """What the worker that runs this finds, or why it does not."""
    try:
        found = named_recordings(words)
        refuse_missing(found)
    except IotraceError as problem:
        return problem.message
    return found


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
    own = distribution.version()
    found = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != own:
            words = "no iotrace" if isinstance(version, Exception) else f"iotrace {version}"
            raise IotraceError(
                f"the worker {worker} has {words}, and this is iotrace {own}",
                hint="install the same version, with its extra fleet, on every worker",
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


def _dashboard(client: "Client") -> str | None:
    """Where the pages of the cluster are seen; None where it has none.

    Dask makes the link of the scheduler's address, though the pages may listen on the scheduler's own machine alone,
    and leads to its charts, though they may not be installed there.
    """
    if (port := client.scheduler_info(n_workers=0)["services"].get("dashboard")) is None:
        return None
    link: str = client.dashboard_link
    parts = urlsplit(link)
    if parts.scheme != "http" or parts.hostname is None or parts.port != port:
        return link  # as Dask's own settings say, of a proxy
    tables = parts._replace(path="/info/main/workers.html")
    its_own = f"{parts.scheme}://{LOOPBACK}:{port}{parts.path} on the scheduler's machine"
    try:
        if _opens(parts):
            return link
        if _opens(tables):
            return f"{tables.geturl()} (tables only; for charts, install bokeh where the scheduler runs)"
    except OSError:
        return its_own
    except HTTPException:
        return link
    # Another program may have the same port of the address at which the scheduler is asked.
    return None if parts.hostname == LOOPBACK else its_own


def _opens(page: SplitResult) -> bool:
    """Whether something is shown at an address, and not what has to be installed for that."""
    asked = HTTPConnection(page.hostname or "", page.port, timeout=_DASHBOARD_TIMEOUT_S)
    try:
        asked.request("GET", page.path)
        found = asked.getresponse()
        return found.status == HTTPStatus.OK and _NEEDS_BOKEH not in found.read()
    finally:
        asked.close()


def _version() -> str:
    """Of iotrace on the worker that runs this."""
    return distribution.version()


def dask() -> Any:  # noqa: ANN401 - a module
    """Dask, which takes seconds to import. Raises `IotraceError` where it is not installed."""
    try:
        import distributed  # noqa: PLC0415 - most commands do without it
    except ImportError as problem:
        raise IotraceError(
            "--scheduler needs Dask, which is not installed", hint=install("fleet")
        ) from problem
    # What goes wrong is told by whoever asked. Dask gives some of its loggers a level of their own.
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed
