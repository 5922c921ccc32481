"""Machines on a slow network, whose clocks differ: started at one instant, and ended together whatever happens."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrace.schemas import Recording

from .emulated_network import Network, needs_namespaces
from .fleets import IOTRACE, Processes, many_threads, shards_of, write_plan

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.xdist_group("root")]

GENERATORS = ("gen1", "gen2", "gen3")
CLOCKS_AHEAD_S = {"gen1": 0, "gen2": 1234, "gen3": 86_400}
"""How far each one's monotonic clock is before that of the machine that conducts."""
SECONDS = 20


class Fleet:
    """A scheduler and three generators, with certificates, on a network with 20 ms ± 5 ms each way."""

    def __init__(self, network: Network, processes: Processes, folder: Path) -> None:
        self.network, self.processes, self.folder = network, processes, folder
        self.scheduler = f"tls://{network.address('conductor')}:8786"
        self.recording = many_threads(folder / "prod.iotrace", ios_per_second=300, seconds=SECONDS)

    def start(self) -> None:
        words = [*IOTRACE, "fleet", "certificates", "conductor", *GENERATORS, "-o", str(self.folder / "keys")]
        subprocess.run(words, check=True, capture_output=True)
        listen = ["--host", self.network.address("conductor"), "--certificates", "keys/conductor"]
        self.processes.start(
            "scheduler", self.network.command("conductor", *IOTRACE, "fleet", "scheduler", *listen)
        )
        self.processes.wait_until_said("scheduler", "scheduler at")
        for name in GENERATORS:
            words = [*IOTRACE, "fleet", "generator", "--scheduler", self.scheduler, "--name", name]
            words += ["--certificates", f"keys/{name}", "--folder", f"at-{name}"]
            ahead = CLOCKS_AHEAD_S[name]
            self.processes.start(name, self.network.command(name, *words, clock_ahead_s=ahead))
        for name in GENERATORS:
            self.processes.wait_until_said(name, f"generator '{name}' at")

    def replay(self, silence: str = "3s") -> "subprocess.Popen[bytes]":
        targets = {name: self.folder / f"{name}.bin" for name in GENERATORS}
        write_plan(self.folder / "plan.toml", self.recording.path, targets, silence=silence)
        words = [*IOTRACE, "fleet", "replay", "plan.toml", "--scheduler", self.scheduler]
        words += ["--certificates", "keys/conductor", "-o", "new.iotrace"]
        return self.processes.start("replay", self.network.command("conductor", *words))

    def wait_until_playing(self) -> None:
        """Until the first line of what it plays, ten seconds after its start."""
        self.processes.wait_until_said("replay", "IOPS")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    needs_namespaces()
    with (
        Network(["conductor", *GENERATORS], delay_s=0.02, jitter_s=0.005) as network,
        Processes(tmp_path) as processes,
    ):
        made = Fleet(network, processes, tmp_path)
        made.start()
        yield made


def planned(recording: Recording) -> Counter[tuple[object, ...]]:
    """Every I/O of a recording at 1x, by when it is due after the first."""
    rows = recording.read("io", ["issued_ns", "thread_id", "size_bytes"]).to_pylist()
    first = min(row["issued_ns"] for row in rows)
    return Counter((row["issued_ns"] - first, row["thread_id"], row["size_bytes"]) for row in rows)


def test_all_start_at_one_instant_and_play_the_plan(fleet: Fleet) -> None:
    run = fleet.replay(silence="1m")  # a busy machine is silent for longer than the others here may be
    run.wait()

    said = fleet.processes.said("replay")
    assert (fleet.folder / "new.iotrace").is_dir(), said
    result = Recording.open(fleet.folder / "new.iotrace")
    assert {shard.ended for shard in shards_of(result.path).values()} == {"normally"}, said
    rows = result.read("io", ["intended_ns", "thread_id", "size_bytes"]).to_pylist()
    played = Counter((row["intended_ns"], row["thread_id"], row["size_bytes"]) for row in rows)
    assert played == planned(fleet.recording)

    shards = shards_of(result.path)
    assert set(shards) == set(GENERATORS)
    for name, shard in shards.items():
        ahead_ns = CLOCKS_AHEAD_S[name] * 10**9
        assert abs(shard.clock_offset_ns - ahead_ns) <= shard.start_skew_bound_ns
        # What is stated must hold what is true: no clock of these machines really differs from the conductor's.
        true_ns = shard.start_ns - ahead_ns
        told_ns = shard.start_ns - shard.clock_offset_ns
        assert abs(true_ns - told_ns) <= shard.start_skew_bound_ns
        assert shard.start_skew_bound_ns >= 20_000_000 - 5_000_000


def test_a_killed_generator_ends_it_for_all(fleet: Fleet) -> None:
    run = fleet.replay()
    fleet.wait_until_playing()
    fleet.processes.kill("gen2")
    run.wait()

    assert run.returncode == 1, fleet.processes.said("replay")
    assert "'gen2'" in fleet.processes.said("replay")
    result = Recording.open(fleet.folder / "new.iotrace")
    shards = shards_of(result.path)
    assert shards["gen2"].ended == "lost"
    assert 0 < result.manifest.rows["io"] < fleet.recording.manifest.rows["io"]
    for name in ("gen1", "gen3"):
        assert 0 < shards[name].issued_ios < shards[name].planned_ios
        assert "'gen2'" in shards[name].said


def test_a_generator_that_is_stopped_on_its_machine_ends_it_for_all_and_loses_nothing(fleet: Fleet) -> None:
    run = fleet.replay()
    fleet.wait_until_playing()
    fleet.processes.stop("gen2")
    run.wait()

    assert run.returncode == 1, fleet.processes.said("replay")
    shards = shards_of(fleet.folder / "new.iotrace")
    assert "'gen2' was stopped on its machine" in shards["gen2"].said
    for shard in shards.values():
        assert 0 < shard.issued_ios < shard.planned_ios
        assert shard.ended == "stopped"


def test_a_generator_that_is_cut_off_stops_by_itself_and_keeps_what_it_measured(fleet: Fleet) -> None:
    run = fleet.replay()
    fleet.wait_until_playing()
    fleet.network.cut_off.add("gen3")
    run.wait()

    assert run.returncode == 1, fleet.processes.said("replay")
    assert "'gen3' was not heard of for 3 s" in fleet.processes.said("replay")
    fleet.processes.wait_until_said("gen3", "what was measured lies in")
    (kept,) = (fleet.folder / "at-gen3").glob("*.iotrace")
    alone = Recording.open(kept)
    assert 0 < alone.manifest.open_replay.issued_ios < alone.manifest.open_replay.planned_ios
    assert "the conductor was not heard of" in alone.manifest.quality.ended
    shards = shards_of(fleet.folder / "new.iotrace")
    assert shards["gen3"].ended == "lost"
    assert 0 < shards["gen1"].issued_ios < shards["gen1"].planned_ios


def test_generators_end_when_nobody_conducts_them(fleet: Fleet) -> None:
    fleet.replay()
    fleet.wait_until_playing()
    fleet.processes.kill("replay")
    for name in GENERATORS:
        fleet.processes.wait_until_said(name, "what was measured lies in")


def test_who_has_no_certificate_is_turned_away(fleet: Fleet, tmp_path: Path) -> None:
    """Neither plain TCP, nor TLS without a certificate, nor with one of another authority."""
    other = tmp_path / "others"
    subprocess.run(
        [*IOTRACE, "fleet", "certificates", "thief", "-o", str(other)], check=True, capture_output=True
    )
    targets = {"gen1": tmp_path / "x.bin"}
    write_plan(tmp_path / "plan.toml", fleet.recording.path, targets)
    address = fleet.scheduler.removeprefix("tls://")
    words = [*IOTRACE, "fleet", "replay", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "stolen.iotrace")]
    for more in (
        ["--scheduler", f"tcp://{address}"],
        ["--scheduler", f"tls://{address}"],
        ["--scheduler", f"tls://{address}", "--certificates", str(other / "thief")],
    ):
        turned_away = fleet.network.run("gen1", *words, *more)
        assert turned_away.returncode == 2
    # And beneath what iotrace itself refuses: nothing is answered to who shows no certificate.
    script = (
        "import socket, ssl, sys; context = ssl.create_default_context(cafile=sys.argv[1]);"
        "context.check_hostname = False; host, port = sys.argv[2].split(':');"
        "peer = context.wrap_socket(socket.create_connection((host, int(port)), 10));"
        "peer.settimeout(10); print(len(peer.recv(10)))"
    )
    authority = str(fleet.folder / "keys" / "gen1" / "ca.pem")
    done = fleet.network.run("gen1", IOTRACE[0], "-c", script, authority, address)
    assert done.returncode != 0
    assert "CERTIFICATE_REQUIRED" in done.stderr.upper() or "alert" in done.stderr.lower(), done.stderr
    assert not (tmp_path / "stolen.iotrace").exists()


def test_without_certificates_nothing_listens_beyond_this_machine(tmp_path: Path) -> None:
    needs_namespaces()
    with Network(["one"]) as network, Processes(tmp_path) as processes:
        processes.start("scheduler", network.command("one", *IOTRACE, "fleet", "scheduler"))
        processes.wait_until_said("scheduler", "scheduler at")
        words = [*IOTRACE, "fleet", "generator", "--scheduler", "tcp://127.0.0.1:8786", "--name", "gen1"]
        processes.start("gen1", network.command("one", *words))
        processes.wait_until_said("gen1", "generator 'gen1' at")

        listening = [line.split()[4] for line in network.run("one", "ss", "-Hltun").stdout.splitlines()]

        assert len(listening) >= 2
        assert all(place.rsplit(":", 1)[0] in {"127.0.0.1", "[::1]"} for place in listening), listening
        away = network.address("one")
        refused = network.run("one", *IOTRACE, "fleet", "scheduler", "--host", away)
        assert refused.returncode == 2
        assert "--certificates" in refused.stderr
        refused = network.run(
            "one", *IOTRACE, "fleet", "generator", "--scheduler", f"tcp://{away}:8786", "--name", "g"
        )
        assert refused.returncode == 2
        assert "tls://" in refused.stderr
