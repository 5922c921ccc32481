"""Which Dask scheduler may be talked to: one on this machine alone, or one that shows and asks for a certificate."""

import importlib.util
import json
import re
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pytest
from distributed import LocalCluster, Security

from iotrace.analyze.fleet import describe_fleet, read_each
from iotrace.analyze.fleet.summary import HostSummary, Unread, summarise
from iotrace.cli import cluster
from iotrace.cli.main import run
from iotrace.schemas import Clock, IotraceError, Manifest, RecordingWriter
from iotrace.schemas.host import Host

sys.path.append(str(Path(__file__).parent))  # processes and workers import by its name what they are to run
import reads_that_die

from .emulated_network import needs_namespaces
from .fleets import Processes


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
        cluster.checked_address(address, Security())
    assert address in refused.value.message


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_this_machine_needs_no_certificates(host):
    cluster.checked_address(f"tcp://{host}:8786", Security())


def test_localhost_is_this_machine_whatever_the_name_service_says(workers, monkeypatch):
    """A root without /etc/hosts does not know it, and a wrong one leads elsewhere."""
    asked = socket.getaddrinfo

    def lookup(host, *others, **more):
        assert str(host).lower() != "localhost"
        return asked(host, *others, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    port = workers.scheduler_address.rpartition(":")[2]
    with cluster.connected(f"tcp://LocalHost:{port}", None, tell=False) as client:
        assert client.scheduler.address == workers.scheduler_address


@pytest.mark.parametrize("host", ["192.0.2.1", "0.0.0.0", "[2001:db8::1]", "nowhere.invalid", "10.0.0.4"])
def test_another_machine_is_refused_without_tls_whatever_certificates_there_are(host, certificates):
    for security in (Security(), cluster.security_of(certificates)):
        with pytest.raises(IotraceError, match="lies beyond this machine") as refused:
            cluster.checked_address(f"tcp://{host}:8786", security)
        assert "--certificates" in refused.value.hint


def test_tls_needs_certificates(certificates):
    with pytest.raises(IotraceError, match="needs certificates"):
        cluster.checked_address("tls://192.0.2.1:8786", Security())
    cluster.checked_address("tls://192.0.2.1:8786", cluster.security_of(certificates))


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


def two_workers() -> LocalCluster:
    """Two processes of this machine."""
    return LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", memory_limit=0
    )


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalCluster]:
    """Two processes that no test kills."""
    with two_workers() as started:
        yield started


def record(path: Path, number: int) -> None:
    """Ten minutes of a host; the first two are slow in the same half minute."""
    random = np.random.default_rng(number)
    issued = np.sort(random.integers(0, 600_000_000_000, 12_000))
    took = random.lognormal(np.log(200_000), 0.5, len(issued)).astype(np.int64)
    took[(issued > 300_000_000_000) & (issued < 330_000_000_000)] *= 30 if number < 2 else 1
    columns = {
        "layer": ["block"] * len(issued),
        "op": random.choice(["read", "write"], len(issued)),
        "issued_ns": issued,
        "completed_ns": issued + took,
        "offset_bytes": random.integers(0, 1 << 20, len(issued)) * 8192,
        "size_bytes": random.choice([8192, 65536], len(issued)),
        "device_id": [0] * len(issued),
    }
    with RecordingWriter(path) as writer:
        writer.append("devices", pa.table({"device_id": [0], "name": ["disk 0"], "kind": ["disk"]}))
        writer.append("io", pa.table(columns))
        clock = Clock(1_790_000_000_000_000_000 + number * 50_000_000, 100, "QPC")
        manifest = Manifest("captured", "test", clock, host=Host(name=f"sql{number}"))
        manifest.window_end_ns = 600_000_000_000
        writer.commit(manifest)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of five hosts."""
    folder = tmp_path_factory.mktemp("fleet")
    for number in range(5):
        record(folder / f"sql{number}.iotrace", number)
    return folder


def answer(capsys, *words: object) -> str:
    """What a command prints on stdout, whose exit status says that it worked."""
    assert run([*map(str, words)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["describe"],
        pytest.param(["incident"], marks=pytest.mark.slow),
        pytest.param(["query", "size_distribution"], marks=pytest.mark.slow),
        ["query", "SELECT host, op, count(*) AS n, sum(size_bytes) AS b FROM io GROUP BY ALL ORDER BY ALL"],
    ],
)
def test_a_cluster_answers_what_this_machine_answers(workers, fleet, capsys, command):
    name, *options = command
    here = answer(capsys, name, fleet, *options, "--json")
    there = answer(capsys, name, fleet, *options, "--json", "--scheduler", workers.scheduler_address)
    assert json.loads(here)
    assert there == here


def test_a_report_says_what_describe_and_incident_say(workers, fleet, capsys, tmp_path):
    """On one page, whoever read the recordings."""
    said = []
    for name, options in (("here.md", []), ("there.md", ["--scheduler", workers.scheduler_address])):
        answer(capsys, "report", fleet, "-o", tmp_path / name, *options)
        said.append((tmp_path / name).read_text("utf-8").split("by iotrace.", 1)[1].rsplit("<!--", 1)[0])
    assert said[0] == said[1]
    assert said[0].count("2 of 5 hosts slowed together") == 1
    assert all(f"| sql{number} |" in said[0] for number in range(5))


def test_one_recording_needs_no_cluster(fleet, capsys):
    one = fleet / "sql0.iotrace"
    for command in ("describe", "incident", "knee"):
        assert run([command, str(one), "--scheduler", "tcp://127.0.0.1:1"]) == 2
        assert "'--scheduler" not in (said := capsys.readouterr().err)
        assert "--scheduler lets many recordings be read at once" in " ".join(said.split())


@pytest.fixture(params=["processes", "cluster"])
def pool(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    """Where recordings are read: here, or on two workers of the test's own, as it kills them."""
    if request.param == "processes":
        yield None
        return
    with two_workers() as started, cluster.executor(started.scheduler_address, None) as executor:
        yield executor


def test_a_lost_worker_costs_a_retry_and_not_the_answer(pool, fleet, tmp_path):
    paths = sorted(fleet.glob("*.iotrace"))
    told = []
    found = read_each(partial(reads_that_die.unless_first, tmp_path), paths, told.append, pool)
    assert (tmp_path / "dead").exists()
    assert describe_fleet(found) == describe_fleet([summarise(path) for path in paths])
    assert told[-1] == len(paths)


def test_what_kills_every_worker_is_left_out_by_name(pool, fleet):
    paths = sorted(fleet.glob("*.iotrace"))
    found = read_each(reads_that_die.never, paths, executor=pool)
    [lost] = [one for one in found if isinstance(one, Unread)]
    assert "sql2.iotrace" in lost.problem
    assert [one.host for one in found if isinstance(one, HostSummary)] == ["sql0", "sql1", "sql3", "sql4"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders for two machines, and for one of another authority, as `iotrace fleet certificates` makes them."""
    folder = tmp_path_factory.mktemp("keys")
    assert run(["fleet", "certificates", "workers", "desk", "-o", str(folder / "ours")]) == 0
    assert run(["fleet", "certificates", "thief", "-o", str(folder / "others")]) == 0
    return folder


@pytest.fixture(scope="module")
def tls_workers(keys: Path) -> Iterator[LocalCluster]:
    """Two workers that know one another, and who asks, by certificates. Their pages are on 127.0.0.1 alone."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        protocol="tls",
        host="127.0.0.2",
        security=cluster.security_of(keys / "ours" / "workers"),
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    ) as started:
        yield started


def test_a_cluster_knows_who_asks_by_certificate(tls_workers, keys, fleet, capsys):
    address = tls_workers.scheduler_address
    assert address.startswith("tls://127.0.0.2:")
    shown = ["--scheduler", address, "--certificates", keys / "ours" / "desk"]
    here = answer(capsys, "describe", fleet, "--json")
    assert answer(capsys, "describe", fleet, "--json", *shown) == here


@pytest.mark.parametrize(
    ("protocol", "folder"), [("tls", None), ("tls", "others/thief"), ("tcp", None), ("tcp", "ours/desk")]
)
def test_who_shows_no_certificate_of_its_authority_is_turned_away(
    tls_workers, keys, fleet, capsys, monkeypatch, protocol, folder
):
    monkeypatch.setattr(cluster, "_TIMEOUT_S", 3)
    address = tls_workers.scheduler_address.replace("tls", protocol)
    shown = [] if folder is None else ["--certificates", str(keys / folder)]
    assert run(["describe", str(fleet), "--scheduler", address, *shown]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "certificates" in said.err


def test_the_dashboard_named_is_a_page_that_opens(workers, fleet, capsys):
    """Dask's charts where bokeh is installed, its tables where it is not."""
    port = workers.scheduler.services["dashboard"].port
    assert run(["describe", str(fleet), "--json", "--scheduler", workers.scheduler_address]) == 0
    said = " ".join(capsys.readouterr().err.split())
    [link] = re.findall(r"dashboard: (\S+)", said)
    charts = importlib.util.find_spec("bokeh") is not None
    assert link == f"http://127.0.0.1:{port}/{'status' if charts else 'info/main/workers.html'}"
    assert ("install bokeh" in said) is not charts
    with urlopen(link) as page:
        assert b"Dask needs bokeh" not in page.read()


def test_a_dashboard_that_only_the_schedulers_machine_shows_is_said_to_be_there(
    tls_workers, keys, fleet, capsys
):
    port = tls_workers.scheduler.services["dashboard"].port
    shown = ["--certificates", str(keys / "ours" / "desk")]
    assert run(["describe", str(fleet), "--json", "--scheduler", tls_workers.scheduler_address, *shown]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"dashboard: http://127.0.0.1:{port}/status on the scheduler's machine" in said


def test_another_program_at_the_dashboards_port_is_not_taken_for_it(tls_workers, keys, fleet, capsys):
    port = tls_workers.scheduler.services["dashboard"].port
    shown = ["--certificates", str(keys / "ours" / "desk")]
    with HTTPServer(("127.0.0.2", port), BaseHTTPRequestHandler) as other:  # it has no page at all
        Thread(target=other.serve_forever, daemon=True).start()
        try:
            assert (
                run(["describe", str(fleet), "--json", "--scheduler", tls_workers.scheduler_address, *shown])
                == 0
            )
        finally:
            other.shutdown()
    said = " ".join(capsys.readouterr().err.split())
    assert f"dashboard: http://127.0.0.1:{port}/status on the scheduler's machine" in said


@pytest.mark.root
@pytest.mark.xdist_group("root")
def test_recordings_that_only_the_workers_have(fleet, capsys, tmp_path):
    """Two workers to whom a folder shows the fleet that is empty for everybody else."""
    needs_namespaces()
    away, file = tmp_path / "away", tmp_path / "scheduler.json"
    away.mkdir()
    dask = str(Path(sys.executable).with_name("dask"))
    with Processes(tmp_path) as processes:
        words = [dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        processes.start("scheduler", [*words, "--scheduler-file", str(file)])
        processes.wait_until_said("scheduler", "Scheduler at")
        mounted = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', fleet, away]
        options = ["--scheduler-file", file, "--host", "127.0.0.1", "--nworkers", "2", "--nthreads", "1"]
        processes.start("workers", [*map(str, mounted), dask, "worker", *map(str, options), "--no-dashboard"])
        processes.wait_until_said("workers", "Registered to")
        address = ["--scheduler", json.loads(file.read_text())["address"]]

        some = [away / f"sql{number}.iotrace" for number in range(3)]
        sql = "SELECT host, count(*) AS n FROM io GROUP BY host ORDER BY host"
        for command, named, options in (
            ("describe", [away], []),
            ("incident", some, []),
            ("query", [away], [sql]),
            ("query", [away], ["size_distribution"]),
        ):
            there = answer(capsys, command, *named, *options, "--json", *address)
            seen_here = [fleet / one.relative_to(away) for one in named]
            assert there.replace(str(away), str(fleet)) == answer(
                capsys, command, *seen_here, *options, "--json"
            )

        assert run(["describe", str(tmp_path / "nowhere"), *address]) == 2
        assert "neither here nor on every worker" in " ".join(capsys.readouterr().err.split())
