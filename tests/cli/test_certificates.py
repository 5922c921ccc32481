"""Certificates of a fleet, held against OpenSSL."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.cli.fleet_hosts import make_certificates
from iotrace.schemas import IotraceError


def test_openssl_verifies_each_and_its_key_fits(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("the test needs openssl")
    for folder in make_certificates(tmp_path / "keys", ["conductor", "gen1"]):
        for purpose in ("sslclient", "sslserver"):
            subprocess.run(
                ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", folder / "ca.pem",
                 folder / "certificate.pem"],
                check=True, capture_output=True,
            )  # fmt: skip
        of_key, of_certificate = (
            subprocess.run(["openssl", *words], check=True, capture_output=True).stdout
            for words in (
                ["pkey", "-in", folder / "key.pem", "-pubout"],
                ["x509", "-in", folder / "certificate.pem", "-noout", "-pubkey"],
            )
        )
        assert of_key == of_certificate


def test_keys_are_the_users_alone_and_the_authoritys_is_not_kept(tmp_path: Path) -> None:
    make_certificates(tmp_path / "keys", ["one", "two"])
    for path in [tmp_path / "keys", *(tmp_path / "keys").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert sorted(path.name for path in (tmp_path / "keys").rglob("*.pem")) == sorted(
        2 * ["ca.pem", "certificate.pem", "key.pem"]
    )


def test_keys_are_never_written_over(tmp_path: Path) -> None:
    make_certificates(tmp_path / "keys", ["one"])
    before = (tmp_path / "keys" / "one" / "key.pem").read_bytes()
    with pytest.raises(IotraceError, match="exists"):
        make_certificates(tmp_path / "keys", ["one"])
    assert (tmp_path / "keys" / "one" / "key.pem").read_bytes() == before


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a..b", "-o", "a\nb", "x" * 64])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IotraceError, match="no name for a machine"):
        make_certificates(tmp_path / "keys", [name])
    assert not list(tmp_path.iterdir())


def test_two_machines_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IotraceError, match="same name"):
        make_certificates(tmp_path / "keys", ["gen", "GEN"])


def test_one_that_cannot_be_written_whole_is_not_said_to_be_written(tmp_path):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        "from iotrace.cli.main import main; main(['fleet', 'certificates', 'gen1', '-o', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "keys"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "keys" in done.stderr
