"""The processes of a fleet that users start, and their certificates.

The processes are the scheduler, and the load generators, which are workers of Dask. Without certificates they listen to
this machine alone. The pages that Dask serves over plain HTTP are for this machine in any case.

Certificates come from an authority of their own, one certificate and key for each machine. Whoever holds a key that
this authority signed may command every generator; nobody else can. Everything is made anew and kept in a folder that is
the user's alone; the authority's own key is not kept, so that nothing more can be signed.
"""

import asyncio
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from iotrace.replay.fleet import Generator
from iotrace.schemas import IotraceError, stopping
from iotrace.schemas.durable import create_private_folder

from .cluster import LOOPBACK, checked_address, dask, is_loopback, security_of, without_localhost

if TYPE_CHECKING:
    from distributed import Security
import datetime as dt
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from iotrace.schemas.durable import sync_folder
from iotrace.schemas.partials import Partial, rename_to_free

from .cluster import CA_FILE, CERTIFICATE_FILE, KEY_FILE
from .extras import install

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_AGAIN_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 15
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DAYS: Final = 90
_EARLIER: Final = dt.timedelta(days=1)
"""Clocks of hosts differ, and a certificate of tomorrow is refused."""


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
            host=without_localhost(host),
            port=port,
            protocol=protocol,
            security=security,
            dashboard_address=f"{LOOPBACK}:0",
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
    place = checked_address(address, security)
    host = _listening(place, host)
    _make(folder)
    generator = Generator(name, folder.absolute(), say)

    async def serve() -> None:
        told = asyncio.ensure_future(_told())
        is_first = True
        while not told.done():
            try:
                async with _worker(place, security, host, name, generator) as worker:
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
        host = host or LOOPBACK
    if urlsplit(address).scheme == "tcp" and not is_loopback(host or ""):
        raise IotraceError(
            f"a generator on {host} could be commanded by anybody who reaches it",
            hint="use tls:// with --certificates FOLDER; or leave --host out",
        )
    return host and without_localhost(host)


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
        dashboard_address=f"{LOOPBACK}:0",
        dashboard=False,
        death_timeout=_ANSWER_SECONDS,
    )
    worker.handlers.update(generator.operations())
    return worker


async def _told() -> None:
    """Until somebody wants this process to end."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stopping.signals():
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


def make_certificates(folder: Path, hosts: Sequence[str], days: int = DAYS) -> list[Path]:
    """Make ``folder`` with a folder for each of ``hosts``, which are returned.

    Each holds `CA_FILE`, `CERTIFICATE_FILE` and `KEY_FILE`. Keys are P-256; folders have mode 0700, files 0600. Raises
    `IotraceError` where ``folder`` exists, or a name is none.
    """
    for host in hosts:
        if not _NAME.fullmatch(host) or ".." in host:
            raise IotraceError(
                f"'{host}' is no name for a machine", hint="letters, digits, '.', '-' and '_', such as gen1"
            )
    if len(set(map(str.lower, hosts))) < len(hosts):
        raise IotraceError("two machines have the same name", hint="name each once")
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - of an extra
    except ImportError as problem:
        raise IotraceError(
            "certificates need the package cryptography, which is not installed",
            hint=install("fleet"),
        ) from problem
    if folder.exists() or folder.is_symlink():
        raise IotraceError(
            f"'{folder}' exists, and keys are never written over", hint="choose another folder with -o"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("iotrace fleet")
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    authority = _signed(name, name, key, key, until, is_authority=True)
    try:
        with Partial.folder(folder, private=True) as partial:
            for host in hosts:
                own = ec.generate_private_key(ec.SECP256R1())
                certificate = _signed(_subject(host), name, own, key, until, is_authority=False)
                create_private_folder(partial.path / host)
                _write(partial.path / host / CA_FILE, _pem(authority))
                _write(partial.path / host / CERTIFICATE_FILE, _pem(certificate))
                _write(partial.path / host / KEY_FILE, _pem_of_key(own))
            rename_to_free(partial.path, folder)
        sync_folder(folder.parent)
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{folder}': {problem.strerror or problem}",
            hint="choose a folder you may write to with -o",
        ) from problem
    return [folder / host for host in hosts]


def _subject(name: str) -> "x509.Name":
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    subject: "x509.Name",
    issuer: "x509.Name",
    key: "ec.EllipticCurvePrivateKey",
    signing: "ec.EllipticCurvePrivateKey",
    until: dt.datetime,
    *,
    is_authority: bool,
) -> "x509.Certificate":
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime.now(dt.UTC) - _EARLIER)
        .not_valid_after(until)
        .add_extension(
            x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True
        )
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
    )
    if not is_authority:
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        name = subject.rfc4514_string().removeprefix("CN=")
        builder = builder.add_extension(both, critical=False).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
    return builder.sign(signing, hashes.SHA256())


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM)


def _pem_of_key(key: "ec.EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as whole:  # a single write may leave a part out
        whole.write(content)
        whole.flush()
        os.fsync(file)
