"""One load from two generators on this machine: played once, as planned, on what may be written to, or not at all."""

import asyncio
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.replay.fleet.generator import Generator
from iotrace.schemas import Recording, Sweep

from .fleets import IOTRACE, Processes, many_threads, shards_of, write_plan

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="generators play on Linux"),
    pytest.mark.xdist_group("fleet"),
]

GENERATORS = ("gen1", "gen2")


@contextmanager
def generators(folder: Path) -> Iterator[tuple[Processes, str]]:
    """A scheduler with two generators, and where it is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with Processes(folder) as processes:
        processes.start("scheduler", [*IOTRACE, "fleet", "scheduler", "--port", str(port)])
        processes.wait_until_said("scheduler", "scheduler at")
        for name in GENERATORS:
            words = [*IOTRACE, "fleet", "generator", "--scheduler", address, "--name", name, "--folder", name]
            processes.start(name, words)
        for name in GENERATORS:
            processes.wait_until_said(name, f"generator '{name}' at")
        yield processes, address


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with generators(tmp_path_factory.mktemp("fleet")) as (_, address):
        yield address


def fleet(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*IOTRACE, "fleet", *map(str, words)], capture_output=True, text=True, check=False, timeout=300
    )


def test_every_io_is_played_once_and_known_by_its_host(scheduler: str, tmp_path: Path) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=400, seconds=2)
    targets = {name: tmp_path / f"{name}.bin" for name in GENERATORS}
    plan = write_plan(tmp_path / "plan.toml", source.path, targets)

    done = fleet("replay", plan, "--scheduler", scheduler, "-o", tmp_path / "new.iotrace", "--json")

    assert done.returncode in {0, 1}, done.stderr
    result = Recording.open(tmp_path / "new.iotrace")
    rows = source.read("io", ["issued_ns", "thread_id"]).to_pylist()
    first = min(row["issued_ns"] for row in rows)
    planned = Counter((row["issued_ns"] - first, row["thread_id"]) for row in rows)
    rows = result.read("io", ["intended_ns", "thread_id"]).to_pylist()
    assert Counter((row["intended_ns"], row["thread_id"]) for row in rows) == planned
    told = {shard["host"]: shard["issued_ios"] for shard in json.loads(done.stdout)["replay"]["shards"]}
    sql = "SELECT host, count(*) AS ios, count(DISTINCT thread_id) AS threads FROM io GROUP BY host"
    asked = subprocess.run(
        [*IOTRACE, "query", str(result.path), sql, "--json"], capture_output=True, text=True, check=True
    )
    found = {row["host"]: row for row in json.loads(asked.stdout)}
    assert {host: row["ios"] for host, row in found.items()} == told
    assert sum(row["threads"] for row in found.values()) == 30
    # Both are on this machine: its monotonic clock is one, and what is told of it has to hold 0.
    for shard in shards_of(result.path).values():
        assert abs(shard.clock_offset_ns) <= shard.start_skew_bound_ns


def test_where_one_refuses_nobody_starts(scheduler: str, tmp_path: Path) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=400, seconds=2)
    fresh = tmp_path / "gen1.bin"
    plan = write_plan(
        tmp_path / "plan.toml", source.path, {"gen1": fresh, "gen2": tmp_path / "nowhere" / "x"}
    )

    done = fleet("replay", plan, "--scheduler", scheduler, "-o", tmp_path / "new.iotrace")

    assert done.returncode == 2
    assert "nobody started" in done.stderr
    assert "on 'gen2'" in done.stderr
    assert not fresh.exists()
    assert not (tmp_path / "new.iotrace").exists()


@pytest.mark.parametrize("name", ["sent", "sent.iotrace"])
def test_what_lies_where_a_generator_keeps_what_it_is_sent_stays(tmp_path: Path, name: str) -> None:
    mine = tmp_path / name / "letter.txt"
    mine.parent.mkdir()
    mine.write_text("ten years of work")

    async def serve() -> None:
        generator = Generator("gen1", tmp_path)
        await generator.claim("r1", 60)
        assert await generator.receive("r1", "u1", "manifest.json", b"{}", is_new=True) == {}
        assert await generator.receive("r1", "u1", "io/part-00000000.parquet", b"PAR1", is_new=True) == {}
        assert len(list(tmp_path.iterdir())) == 2
        await generator.release("r1", is_over=True)

    asyncio.run(serve())
    assert mine.read_text() == "ten years of work"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_what_iotrace_did_not_make_is_not_written_to(scheduler: str, tmp_path: Path) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=400, seconds=1, op="write")
    foreign = tmp_path / "others.bin"
    foreign.write_bytes(b"\1" * (64 << 20))
    plan = write_plan(tmp_path / "plan.toml", source.path, {"gen1": tmp_path / "a.bin", "gen2": foreign})

    done = fleet("replay", plan, "--scheduler", scheduler, "-o", tmp_path / "new.iotrace")

    assert done.returncode == 2
    assert "on 'gen2'" in done.stderr
    assert "others.bin" in done.stderr
    assert foreign.read_bytes() == b"\1" * (64 << 20)
    assert not (tmp_path / "a.bin").exists()


def test_a_generator_that_is_not_there_is_named(scheduler: str, tmp_path: Path) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=400, seconds=1)
    plan = write_plan(tmp_path / "plan.toml", source.path, {"gen1": tmp_path / "a", "gen7": tmp_path / "b"})
    done = fleet("replay", plan, "--scheduler", scheduler, "-o", tmp_path / "new.iotrace")
    assert done.returncode == 2
    assert "'gen7'" in done.stderr
    assert "gen1, gen2" in done.stderr


def test_a_sweep_is_walked_by_all(scheduler: str, tmp_path: Path) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=300, seconds=1)
    targets = {name: tmp_path / f"{name}.bin" for name in GENERATORS}
    plan = write_plan(tmp_path / "plan.toml", source.path, targets)
    output = tmp_path / "sweep.iotrace"

    done = fleet(
        "sweep",
        plan,
        "--scheduler",
        scheduler,
        "-o",
        output,
        "--scales",
        "1x,2x",
        "--step-seconds",
        "1",
        "--json",
    )

    assert done.returncode in {0, 1}, done.stderr
    offered: dict[float | None, int] = {}
    for step in Sweep.open(output).steps:  # one that was disturbed is run again
        recording = Recording.open(output / step.folder)
        offered.setdefault(step.scale, recording.manifest.rows["io"])
        assert set(shards_of(recording.path)) == set(GENERATORS)
    assert (offered[1], offered[2]) == (300, 600)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_ends_the_run_in_words_and_nothing_measured_is_lost(tmp_path: Path) -> None:
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=100, seconds=60)
    plan = write_plan(
        tmp_path / "plan.toml",
        source.path,
        {name: tmp_path / f"{name}.bin" for name in GENERATORS},
        silence="3s",
    )
    with generators(tmp_path) as (processes, address):
        words = ["fleet", "replay", str(plan), "--scheduler", address, "-o", "new.iotrace"]
        run = processes.start("replay", [*IOTRACE, *words])
        processes.wait_until_said("replay", "IOPS")
        processes.kill("scheduler")
        assert run.wait() == 2
        for name in GENERATORS:
            processes.wait_until_said(name, "what was measured lies in")
    said = processes.said("replay")
    assert (
        "error: nothing that was measured has arrived: the scheduler is gone; 'gen1' was not heard of for 3 s"
        in said
    )
    assert "Traceback" not in said
    assert "itself went wrong" not in said
    for name in GENERATORS:
        (kept,) = (tmp_path / name).glob("*.iotrace")
        assert 0 < Recording.open(kept).manifest.open_replay.issued_ios < 6000


@pytest.mark.slow
def test_a_scheduler_that_is_lost_before_the_start_is_named(tmp_path: Path) -> None:
    """One generator stands still, so that nothing can start before the scheduler is gone."""
    source = many_threads(tmp_path / "prod.iotrace", ios_per_second=100, seconds=5)
    targets = {name: tmp_path / f"{name}.bin" for name in GENERATORS}
    plan = write_plan(tmp_path / "plan.toml", source.path, targets, silence="3s")
    with generators(tmp_path) as (processes, address):
        words = ["fleet", "replay", str(plan), "--scheduler", address, "-o", "new.iotrace"]
        run = processes.start("replay", [*IOTRACE, *words])
        processes.wait_until_said("gen2", "claimed")
        processes.freeze("gen2")
        processes.kill("scheduler")
        assert run.wait() == 2
    said = processes.said("replay")
    assert "error: nobody started: the scheduler is gone" in said
    assert "itself went wrong" not in said
    assert "Traceback" not in said
