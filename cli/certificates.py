"""Certificates for a fleet: an authority of its own, and one certificate and key for each machine.

Whoever holds a key that this authority signed may command every generator; nobody else can. Everything is made anew
and kept in a folder that is the user's alone; the authority's own key is not kept, so that nothing more can be signed.
"""

import datetime as dt
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from iotrace.schemas import IotraceError
from iotrace.schemas.durable import create_private_folder, sync_folder
from iotrace.schemas.partials import Partial, rename_to_free

from .cluster import CA_FILE, CERTIFICATE_FILE, KEY_FILE
from .extras import install

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

DAYS: Final = 90
_EARLIER: Final = dt.timedelta(days=1)
"""Clocks of hosts differ, and a certificate of tomorrow is refused."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


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
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
