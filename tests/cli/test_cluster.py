"""Which Dask scheduler may be talked to: one on this machine alone, or one that shows and asks for a certificate."""

import socket
from pathlib import Path

import pytest
from distributed import Security

from iotrace.cli import cluster
from iotrace.schemas import IotraceError


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A folder as `security_of` takes it; what its files hold is not looked at before a connection."""
    for name in (cluster.CA_FILE, cluster.CERTIFICATE_FILE, cluster.KEY_FILE):
        (tmp_path / name).write_text("of no use\n")
    return tmp_path


@pytest.mark.parametrize(
    "address",
    ["", "here", "127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://[::1", "tcp://:8786"],
)
def test_what_is_no_address_is_refused_in_the_users_words(address):
    with pytest.raises(IotraceError, match="is not the address of a Dask scheduler") as refused:
        cluster.check_address(address, Security())
    assert address in refused.value.message


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_this_machine_needs_no_certificates(host):
    cluster.check_address(f"tcp://{host}:8786", Security())


@pytest.mark.parametrize("host", ["192.0.2.1", "0.0.0.0", "[2001:db8::1]", "nowhere.invalid", "10.0.0.4"])
def test_another_machine_is_refused_without_tls_whatever_certificates_there_are(host, certificates):
    for security in (Security(), cluster.security_of(certificates)):
        with pytest.raises(IotraceError, match="lies beyond this machine") as refused:
            cluster.check_address(f"tcp://{host}:8786", security)
        assert "--certificates" in refused.value.hint


def test_tls_needs_certificates(certificates):
    with pytest.raises(IotraceError, match="needs certificates"):
        cluster.check_address("tls://192.0.2.1:8786", Security())
    cluster.check_address("tls://192.0.2.1:8786", cluster.security_of(certificates))


def test_both_sides_have_to_show_a_certificate(certificates):
    security = cluster.security_of(certificates)
    assert security.require_encryption
    for role in ("client", "scheduler", "worker"):
        assert security.get_tls_config_for_role(role)["ca_file"] == str(certificates / cluster.CA_FILE)


@pytest.mark.parametrize("missing", [cluster.CA_FILE, cluster.CERTIFICATE_FILE, cluster.KEY_FILE])
def test_a_folder_that_lacks_a_file_is_named(certificates, missing):
    (certificates / missing).unlink()
    with pytest.raises(IotraceError, match=f"has no {missing}"):
        cluster.security_of(certificates)


@pytest.mark.parametrize(
    ("scheduler", "worker"),
    [("tcp://192.0.2.1:8786", "tcp://127.0.0.1:1"), ("tcp://127.0.0.1:8786", "tcp://192.0.2.1:1")],
)
def test_a_cluster_that_others_can_reach_is_refused(scheduler, worker):
    """A scheduler that listens to all is reached over the loopback, too: what it says of itself tells."""
    with pytest.raises(IotraceError, match="can be reached from other machines"):
        cluster.refuse_open({"address": scheduler, "workers": {worker: {}}}, "tcp://127.0.0.1:8786")
    safe = {"address": "tcp://127.0.0.1:8786", "workers": {"tcp://127.0.0.1:1": {}, "tls://192.0.2.1:1": {}}}
    cluster.refuse_open(safe, "tcp://127.0.0.1:8786")


def test_nobody_there_is_said(monkeypatch):
    monkeypatch.setattr(cluster, "_TIMEOUT_S", 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        refused = pytest.raises(IotraceError, match=f"no Dask scheduler answers at {address}")
        with refused, cluster.connected(address, None):
            pass


def test_certificates_without_a_scheduler_are_a_slip(tmp_path):
    with (
        pytest.raises(IotraceError, match="--certificates belong to --scheduler"),
        cluster.executor(None, tmp_path),
    ):
        pass
