"""Storage that fails, stalls or goes away: recorded, reported, no hang, and never half a recording."""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay import Progress, ReplayOptions, _engine, replay
from iotrace.schemas import IotraceError, Recording, validate

from ..conftest import MakeRecording
from ..playing import run_tool, start, wait_for_play

SECOND_NS = 1_000_000_000


@pytest.fixture
def on_simulated_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let replays play on a simulated disk in simulated time instead of their target."""

    def simulate(**law: object) -> None:
        disk = {"servers": 4, "service": "constant", "service_ns": 1_000_000} | law

        def engine(*files: Any, **words: Any) -> _engine.Engine:
            return _engine.Engine(*files, **words, simulate=disk)

        monkeypatch.setattr(sys.modules["iotrace.replay.run.play"], "_engine", SimpleNamespace(Engine=engine))

    return simulate


@pytest.fixture
def steady(make_recording: MakeRecording) -> Recording:
    """A read every 10 ms for 10 s."""
    return make_recording(issued_ns=np.arange(1000) * 10_000_000)


def played(recording: Recording, disk: Path, output: Path, **more: object) -> Recording:
    plan = ReplayOptions(targets=(str(disk / "target"),), buffered=True, **more)  # type: ignore[arg-type]
    out = replay(recording, output, plan)
    assert validate(output) == []
    return out


def facts_of(out: Recording) -> dict[str, Any]:
    assert out.manifest.replay is not None
    return out.manifest.replay


def test_errors_are_counted_by_name_and_the_run_goes_on(
    steady: Recording, disk: Path, tmp_path: Path, on_simulated_disk: Callable[..., None]
) -> None:
    on_simulated_disk(fail_every=(10, 5))
    out = played(steady, disk, tmp_path / "out.iotrace")
    facts = facts_of(out)
    assert (facts.issued_ios, facts.completed_ios, facts.failed_ios) == (1000, 1000, 100)
    assert facts.errors == {"Input/output error": 100}
    assert "100 I/Os failed" in out.manifest.quality.notes
    assert out.manifest.quality.ended == "normally"
    assert np.count_nonzero(out.read("io")["error"].to_numpy() == 5) == 100


def test_a_stall_of_thirty_seconds_is_in_the_response_times(
    steady: Recording, disk: Path, tmp_path: Path, on_simulated_disk: Callable[..., None]
) -> None:
    on_simulated_disk(stall_ns=(5 * SECOND_NS, 30 * SECOND_NS))
    out = played(steady, disk, tmp_path / "out.iotrace")
    facts = facts_of(out)
    assert facts.ended == "normally"
    assert facts.completed_ios == 1000
    io = out.read("io").sort_by("intended_ns")
    response = io["completed_ns"].to_numpy() - io["intended_ns"].to_numpy()
    # What came during the stall waited for its end: nothing of it is hidden.
    assert (response[:500] == 1_000_000).all()
    expected = 35 * SECOND_NS - io["intended_ns"].to_numpy()[500:]
    assert (response[500:] >= expected).all()
    assert (response[500:] <= expected + 130_000_000).all()


def test_a_stall_for_ever_ends_the_run_and_names_the_target(
    steady: Recording, disk: Path, tmp_path: Path, on_simulated_disk: Callable[..., None]
) -> None:
    on_simulated_disk(stall_ns=(2 * SECOND_NS, 1 << 60))
    out = played(steady, disk, tmp_path / "out.iotrace", stall_seconds=3.0)
    facts, quality = facts_of(out), out.manifest.quality
    assert facts.ended == "stalled"
    assert quality.ended == (
        f"'{disk / 'target'}' completed nothing for 3 s after {facts.issued_ios:,} of 1,000 I/Os"
    )
    assert facts.completed_ios == 200
    # A read every 10 ms for 3 s, and for as long as the engine takes to look.
    assert 300 <= quality.unpaired_issues == facts.issued_ios - 200 <= 305
    assert out.read("io")["completed_ns"].null_count == quality.unpaired_issues


def test_a_device_that_goes_away_fails_what_follows(
    steady: Recording, disk: Path, tmp_path: Path, on_simulated_disk: Callable[..., None]
) -> None:
    on_simulated_disk(removed_at_ns=4 * SECOND_NS)
    facts = facts_of(played(steady, disk, tmp_path / "out.iotrace"))
    assert facts.errors == {"No such device": 600}
    facts = facts_of(played(steady, disk, tmp_path / "few.iotrace", max_errors=20))
    assert (facts.ended, facts.failed_ios) == ("too_many_errors", 21)


def test_a_system_that_takes_no_more_ends_the_run_with_its_words(
    steady: Recording, disk: Path, tmp_path: Path, on_simulated_disk: Callable[..., None]
) -> None:
    on_simulated_disk(breaks_after=300)
    out = played(steady, disk, tmp_path / "out.iotrace")
    assert facts_of(out).ended == "broken"
    assert (
        out.manifest.quality.ended == "the system took no more I/O after 300 of 1,000 I/Os: the ring is gone"
    )


def test_a_call_that_never_returns_ends_the_run_and_leaves_its_thread_behind(
    steady: Recording, disk: Path, tmp_path: Path, on_simulated_disk: Callable[..., None]
) -> None:
    on_simulated_disk(hangs_after=300)
    out = played(steady, disk, tmp_path / "out.iotrace", stall_seconds=1.0)
    facts, quality = facts_of(out), out.manifest.quality
    assert facts.ended == "hung"
    assert quality.ended == f"a system call did not return for 1 s after {facts.issued_ios} of 1,000 I/Os"
    assert "1 thread still hang in the kernel, until the storage answers" in quality.notes
    # A read takes 1 ms and one comes every 10 ms: all but those of the last call were seen to end.
    assert 300 <= facts.issued_ios <= 301
    assert facts.completed_ios == 300


def test_a_write_error_of_the_recording_leaves_nothing(
    steady: Recording, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("iotrace.schemas.writer._TableWriter.append", full)
    with pytest.raises(Exception, match=r"cannot write .*: No space left on device"):
        played(steady, disk, tmp_path / "out.iotrace", window_ns=(0, 100_000_000))
    assert [path.name for path in tmp_path.iterdir()] == ["source.iotrace"]


def test_a_result_that_cannot_fit_is_refused_before_anything_is_played(
    steady: Recording, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand I/Os do not go into a kilobyte."""
    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=1024))
    reports: list[Progress] = []
    with pytest.raises(
        IotraceError, match=r"no room for the result .*out.iotrace': about 1,000 I/Os"
    ) as refusal:
        replay(
            steady,
            tmp_path / "out.iotrace",
            ReplayOptions(targets=(str(disk / "target"),), buffered=True),
            progress=reports.append,
        )
    assert "-o" in refusal.value.hint
    assert [report for report in reports if report.phase == "play"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["source.iotrace"]


def test_a_killed_replay_leaves_no_recording(steady: Recording, disk: Path, tmp_path: Path) -> None:
    run = start(steady, disk / "target", tmp_path / "out.iotrace", buffered=True)
    wait_for_play(run)
    run.kill()
    run.communicate()
    assert not (tmp_path / "out.iotrace").exists()
    # What it left is hidden, and in nobody's way.
    facts = facts_of(played(steady, disk, tmp_path / "out.iotrace", window_ns=(0, 100_000_000)))
    assert facts.completed_ios == 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_replay_asked_to_end_keeps_what_it_measured(
    steady: Recording, disk: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = start(steady, disk / "target", tmp_path / "out.iotrace", buffered=True)
    wait_for_play(run)
    run.send_signal(number)
    stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr
    ended, issued, completed, failed = stdout.strip().split("|")
    assert (ended, failed) == ("stopped", "0")
    assert 0 < int(issued) == int(completed) < 1000
    assert validate(tmp_path / "out.iotrace") == []


@pytest.fixture
def loop(disk: Path) -> Iterator[str]:
    """A loop device of 64 MiB on the file ``image``."""
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("loop devices need root and losetup")
    (disk / "image").write_bytes(b"\x5a" * (64 << 20))
    device = run_tool("losetup", "--find", "--show", "--direct-io=on", disk / "image")
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture
def small_file_system(loop: str, tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 64 MiB."""
    mount = tmp_path / "mount"
    mount.mkdir()
    run_tool("mkfs.ext4", "-q", "-F", loop)
    run_tool("mount", loop, mount)
    yield mount
    # A killed replay's last I/Os hold it for a moment.
    deadline = time.monotonic() + 20
    while subprocess.run(["umount", mount], check=False).returncode and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not mount.is_mount()


@pytest.mark.root
@pytest.mark.xdist_group("root")
def test_a_medium_that_vanishes_under_a_device_gives_errors(
    make_recording: MakeRecording, loop: str, disk: Path, tmp_path: Path
) -> None:
    """The file below a loop device is cut to nothing in the middle of the run."""
    recording = make_recording(issued_ns=np.arange(400) * 2_500_000)

    def cut(report: Progress) -> None:
        if report.completed_ios:
            with (disk / "image").open("r+b") as file:
                file.truncate(0)

    out = replay(recording, tmp_path / "out.iotrace", ReplayOptions(targets=(loop,)), progress=cut)
    facts = facts_of(out)
    assert validate(out.path) == []
    assert facts.ended == "normally"
    assert facts.completed_ios == 400
    assert 0 < facts.failed_ios < 400
    assert facts.errors == {"Input/output error": facts.failed_ios}


@pytest.mark.root
@pytest.mark.xdist_group("root")
def test_a_full_file_system_gives_errors(
    make_recording: MakeRecording, small_file_system: Path, tmp_path: Path
) -> None:
    """Writes into a file of 1 GiB with nothing in it, on a file system of 64 MiB."""
    rows = 600
    recording = make_recording(
        op=["write"] * rows,
        issued_ns=np.arange(rows) * 1_000_000,
        offset_bytes=np.arange(rows) * (1 << 20),
        size_bytes=[1 << 20] * rows,
    )
    file = _engine_file(small_file_system / "sparse", 1 << 30)
    try:
        outcome, ended = engine_plays(recording, file)
    finally:
        os.close(file)
    errors = outcome["error"].to_numpy()
    assert ended["word"] == "normally"
    assert len(errors) == rows
    assert set(errors.tolist()) == {0, 28}
    assert 20 <= np.count_nonzero(errors == 0) <= 64


def _engine_file(path: Path, size: int) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    os.truncate(file, size)
    return file


def engine_plays(recording: Recording, file: int) -> tuple[Any, dict[str, Any]]:
    """The engine alone, without the checks that keep a replay from a target like this."""

    io = recording.read("io")
    rows = io.num_rows
    engine = _engine.Engine(
        [file], in_flight_max=64, read_bytes_max=1 << 20, write_bytes_max=1 << 20, stall_ns=10 * SECOND_NS
    )
    engine.offer(
        pa.record_batch(
            {
                "intended_ns": io["issued_ns"].to_numpy(),
                "offset_bytes": io["offset_bytes"].to_numpy(),
                "size_bytes": io["size_bytes"].to_numpy(),
                "op": np.array([["read", "write"].index(word) for word in io["op"].to_pylist()], np.uint8),
                "target": np.zeros(rows, np.uint16),
                "durable": pa.array(np.zeros(rows, np.bool_)),
            }
        )
    )
    engine.end_plan()
    engine.start()
    while not engine.wait(1.0):
        pass
    return engine.take(), engine.ended()


@pytest.fixture
def crawling_group(loop: str) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A cgroup whose members get one byte per second from the device, and how to let them go."""
    number = Path(loop).stat().st_rdev
    device = f"{os.major(number)}:{os.minor(number)}"
    first, second = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
    if (first / "blkio.throttle.read_bps_device").exists():
        group = first / f"iotrace-fault-{os.getpid()}"
        words = ("blkio.throttle.read_bps_device", f"{device} 1", f"{device} 0")
    elif "io" in (second / "cgroup.subtree_control").read_text().split():
        group = second / f"iotrace-fault-{os.getpid()}"
        words = ("io.max", f"{device} rbps=1", f"{device} rbps=max")
    else:
        pytest.skip("no cgroup here throttles block devices")
    group.mkdir()
    (group / words[0]).write_text(words[1])

    def let_go() -> None:
        (group / words[0]).write_text(words[2])

    yield group, let_go
    let_go()
    deadline = time.monotonic() + 30
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    group.rmdir()


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.xdist_group("root")
@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_a_device_that_hardly_answers_ends_the_run_by_itself(
    make_recording: MakeRecording,
    loop: str,
    crawling_group: tuple[Path, Callable[[], None]],
    tmp_path: Path,
    backend: str,
) -> None:
    """The kernel lets one byte per second through: a read takes hours, and cannot be called back."""
    recording = make_recording(issued_ns=np.arange(200) * 50_000_000)
    group, let_go = crawling_group
    began = time.monotonic()
    run = start(recording, loop, tmp_path / "out.iotrace", group, stall_seconds=2.0, backend=backend)
    wait_for_play(run)
    assert run.stdout is not None
    words = run.stdout.readline().strip()
    took = time.monotonic() - began
    # The process itself cannot leave before its I/Os do.
    let_go()
    run.kill()
    stderr = run.communicate(timeout=60)[1]
    assert words, stderr
    ended, issued, completed, _ = words.split("|")
    assert ended == "stalled"
    assert int(completed) < int(issued) < 200
    assert took < 60, "it ends by itself, long before the device answers"
    assert validate(tmp_path / "out.iotrace") == []


@pytest.mark.root
@pytest.mark.xdist_group("root")
def test_a_target_is_not_made_on_a_frozen_file_system(
    make_recording: MakeRecording, small_file_system: Path, tmp_path: Path
) -> None:
    """The process ends while it is still frozen, though nobody can make a file there and leave."""
    recording = make_recording(issued_ns=[0])
    subprocess.run(["fsfreeze", "--freeze", small_file_system], check=True)
    try:
        run = start(recording, small_file_system / "target", tmp_path / "out.iotrace", stall_seconds=1.0)
        stderr = run.communicate(timeout=60)[1]
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", small_file_system], check=True)
    assert "does not answer" in stderr
    assert "takes more than 1 s" in stderr
    assert list(small_file_system.glob("*target*")) == []
    assert not (tmp_path / "out.iotrace").exists()


FILL = """
import sys
from pathlib import Path
from iotrace.replay.targets.fill import create
from iotrace.schemas import IotraceError

def look(done, total):
    if done:
        print("filling", flush=True)
        sys.stdin.readline()

try:
    create(Path(sys.argv[1]), 16 << 20, direct=False, seed=0, progress=look, patience_seconds=1.0)
except IotraceError as problem:
    print(problem.message, flush=True)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.root
@pytest.mark.xdist_group("root")
@pytest.mark.parametrize("asked", [None, signal.SIGINT], ids=["by itself", "Ctrl-C"])
def test_a_target_that_freezes_while_it_is_filled_is_given_up(
    small_file_system: Path, asked: signal.Signals | None
) -> None:
    """A write hangs in the kernel, out of reach of any signal, and the one who waits for it is told all the same."""
    target = small_file_system / "target"
    run = subprocess.Popen(
        [sys.executable, "-c", FILL, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdin is not None
    assert run.stdout is not None
    assert run.stdout.readline() == "filling\n"
    subprocess.run(["fsfreeze", "--freeze", small_file_system], check=True)
    try:
        run.stdin.write("\n" * 9)
        run.stdin.flush()
        if asked:
            time.sleep(0.3)
            run.send_signal(asked)
        readable = select.select([run.stdout], [], [], 30)[0]
        said = run.stdout.readline() if readable else "nothing within 30 s"
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", small_file_system], check=True)
        run.communicate(timeout=60)
    if asked:
        assert said == "stopped\n"
    else:
        assert (
            said == f"target '{target}' stopped answering while it was filled: nothing was written for 1 s\n"
        )
    assert [entry.name for entry in small_file_system.iterdir()] == ["lost+found"]


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.xdist_group("root")
@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_a_frozen_file_system_ends_the_run_by_itself(
    make_recording: MakeRecording, small_file_system: Path, tmp_path: Path, backend: str
) -> None:
    """Neither the writes nor the note on the file that it is iotrace's own come to an end on it."""
    rows = 2000
    recording = make_recording(op=["write"] * rows, issued_ns=np.arange(rows) * 5_000_000)
    target, words = small_file_system / "target", {"stall_seconds": 2.0, "backend": backend}
    run = start(recording, target, tmp_path / "out.iotrace", allow_writes=True, file_bytes=32 << 20, **words)
    wait_for_play(run)
    subprocess.run(["fsfreeze", "--freeze", small_file_system], check=True)
    try:
        assert run.stdout is not None
        readable = select.select([run.stdout], [], [], 60)[0]
        line = run.stdout.readline().strip() if readable else "still playing after 60 s"
        # Read while the file system is still frozen.
        faults = validate(tmp_path / "out.iotrace") if readable else ["no recording"]
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", small_file_system], check=True)
        run.kill()
        stderr = run.communicate(timeout=60)[1]
    assert line.split("|")[0] == "stalled", line + stderr
    assert faults == []
