"""Whatever ends a recorder, what it had recorded opens, validates and says how it ended."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrace.capture.linux import host, record, recover, snapshot
from iotrace.schemas import IotraceError, Recording, validate

INSTANCES = Path("/sys/kernel/tracing/instances")

pytestmark = [
    pytest.mark.root,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="tracing and loop devices need root"
    ),
    pytest.mark.skipif(not INSTANCES.is_dir(), reason="tracefs is not mounted at /sys/kernel/tracing"),
    pytest.mark.skipif(shutil.which("losetup") is None, reason="losetup is not installed"),
]


def attach(image, size):
    with image.open("wb") as file:
        file.truncate(size)
    command = ["losetup", "--find", "--show", "--direct-io=on", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device to be had: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.fixture
def loop_device(tmp_path):
    device = attach(tmp_path / "disk.img", 64 << 20)
    yield device
    subprocess.run(["losetup", "--detach", device], check=False, capture_output=True)


@pytest.fixture
def load(loop_device):
    """A process that reads 64 KiB at a time: iotrace leaves out what its own process does."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        handle = os.open(loop_device, os.O_RDONLY)
        while True:
            os.pread(handle, 1 << 16, random.randrange(900) << 16)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            time.sleep(0.0005)
    yield child
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)


def start(device, path, hang_up="SIG_DFL", **options):
    words = "".join(f", {name}={value!r}" for name, value in options.items())
    code = (
        f"import signal; signal.signal(signal.SIGHUP, signal.{hang_up});"  # the tests may run under nohup
        f"from iotrace.capture.linux import record; record([{device!r}], {str(path)!r}, seconds=None{words})"
    )
    return subprocess.Popen([sys.executable, "-c", code])


PATIENCE_S = 300
"""Until something is taken for hung: on a machine at work elsewhere a recorder starts in tens of seconds."""


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def unfinished(path):
    return path.with_name(path.name + ".unfinished")


def has_rows(path):
    # A stream's file is there before its first rows are.
    return any(file.stat().st_size for file in unfinished(path).glob("io/*"))


def kill_and_recover(device, path, after_s):
    process = start(device, path)
    wait_for((unfinished(path) / "manifest.json").exists)
    time.sleep(after_s)
    process.kill()
    process.wait()
    recovered = recover(path)
    assert validate(path) == []
    quality = recovered.manifest.quality
    assert "killed" in quality.ended
    assert quality.verdict == "usable"
    return recovered


def test_a_killed_recorder_loses_at_most_five_seconds(loop_device, load, tmp_path):
    path = tmp_path / "r.iotrace"
    process = start(loop_device, path)
    wait_for(lambda: has_rows(path))
    time.sleep(3)
    with pytest.raises(IotraceError, match="still being recorded, or its recording was cut off"):
        Recording.open(path)
    killed_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    process.kill()
    process.wait()
    wait_for(lambda: not list(INSTANCES.glob(f"iotrace-{process.pid}-*")))
    with pytest.raises(IotraceError, match="was cut off") as raised:
        record([loop_device], path, seconds=1)
    assert "capture recover" in raised.value.hint

    recovered = recover(path)
    assert validate(path) == []
    last_ns = max(recovered.read("io", ["completed_ns"])["completed_ns"].to_pylist())
    assert killed_ns - (recovered.manifest.clock.start_utc_ns + last_ns) < 5e9
    assert recovered.manifest.quality.ended.startswith("the recorder was killed")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["disk.img", "r.iotrace"]


def test_killed_at_once(loop_device, load, tmp_path):
    kill_and_recover(loop_device, tmp_path / "r.iotrace", 0)


@pytest.mark.slow
def test_killed_at_fifty_random_moments(loop_device, load, tmp_path):
    for number in range(50):
        kill_and_recover(loop_device, tmp_path / f"{number}.iotrace", random.Random(number).uniform(0, 4))


@pytest.mark.slow
def test_killed_while_it_finishes(loop_device, load, tmp_path):
    """Killed at moments around the end of a recording: it is whole, or can be recovered."""
    for number in range(2):
        path = tmp_path / f"{number}.iotrace"
        process = start(loop_device, path)
        wait_for(lambda path=path: has_rows(path))
        process.send_signal(signal.SIGINT)
        time.sleep(number * 0.06)
        process.kill()
        process.wait()
        if not path.exists():
            recover(path)
        assert validate(path) == []


def test_a_closed_terminal_ends_it_in_order(loop_device, load, tmp_path):
    path = tmp_path / "r.iotrace"
    process = start(loop_device, path)
    wait_for(lambda: has_rows(path))
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert Recording.open(path).manifest.quality.ended == "normally"
    assert validate(path) == []
    assert not list(INSTANCES.glob(f"iotrace-{process.pid}-*"))


def test_a_closed_terminal_does_not_end_it_under_nohup(loop_device, load, tmp_path):
    path = tmp_path / "r.iotrace"
    process = start(loop_device, path, hang_up="SIG_IGN")
    wait_for(lambda: has_rows(path))
    process.send_signal(signal.SIGHUP)
    hung_up_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 0
    manifest = Recording.open(path).manifest
    assert manifest.clock.start_utc_ns + manifest.window_end_ns > hung_up_ns + 1e9


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_it_with_a_clear_last_word(loop_device, load, small_disk):
    path = small_disk / "r.iotrace"
    filler = small_disk / "filler"

    def fill(state):
        # Somebody else takes what room there is.
        if state["elapsed_ns"] > 1e9 and not filler.exists():
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass

    recording = record([loop_device], path, seconds=600, progress=fill)
    assert recording.manifest.quality.ended == "the disk that the recording is written to was full"
    assert recording.manifest.rows["io"] > 0
    assert validate(path) == []


def test_a_device_that_vanishes_ends_it(loop_device, load, tmp_path):
    path = tmp_path / "r.iotrace"
    process = start(loop_device, path)
    wait_for(lambda: has_rows(path))
    # The load holds the device open; it goes when the load lets go.
    subprocess.run(["losetup", "--detach", loop_device], check=True)
    os.kill(load, signal.SIGTERM)
    assert process.wait(timeout=PATIENCE_S) == 0
    name = Path(loop_device).name
    assert Recording.open(path).manifest.quality.ended == f"{name} vanished"
    assert validate(path) == []


def test_a_machine_that_slept_is_told(loop_device, tmp_path, monkeypatch):
    slept = iter([0, 0, 7_000_000_000])
    monkeypatch.setattr(host, "asleep_ns", lambda: next(slept, 7_000_000_000))
    quality = record([loop_device], tmp_path / "r.iotrace", seconds=2.5).manifest.quality
    assert quality.clock_steps == 1
    assert any(note.startswith("the machine slept for 7.0 s") for note in quality.notes)
    assert quality.verdict == "usable"


def test_a_clock_that_was_set_is_told(loop_device, tmp_path, monkeypatch):
    true = host.utc_offset_ns()[0]
    offsets = iter([true, true, true + 3_600_000_000_000])
    monkeypatch.setattr(host, "utc_offset_ns", lambda: (next(offsets, true + 3_600_000_000_000), 100))
    recording = record([loop_device], tmp_path / "r.iotrace", seconds=2.5)
    assert recording.manifest.quality.clock_steps == 1
    assert any("was set by +3,600.000 s" in note for note in recording.manifest.quality.notes)
    assert abs(recording.manifest.clock.start_utc_ns - time.time_ns()) < 60e9


def test_a_snapshot_is_whole_and_the_recorder_goes_on(loop_device, load, tmp_path):
    path = tmp_path / "r.iotrace"
    process = start(loop_device, path)
    wait_for(lambda: has_rows(path))
    rows = []
    for number in range(2):
        frozen = snapshot(path, tmp_path / f"s{number}.iotrace")
        assert validate(frozen.path) == []
        assert frozen.manifest.quality.ended == "normally"
        rows.append(frozen.manifest.rows["io"])
        time.sleep(2)
    with pytest.raises(IotraceError, match="is being recorded just now"):
        recover(path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 0
    rows.append(Recording.open(path).manifest.rows["io"])
    assert 0 < rows[0] < rows[1] < rows[2]
    assert validate(path) == []
    with pytest.raises(IotraceError, match="is not being recorded"):
        snapshot(path, tmp_path / "s2.iotrace")


def test_a_ring_keeps_the_last_of_it(loop_device, load, tmp_path):
    monkey = pytest.MonkeyPatch()
    monkey.setattr("iotrace.capture.linux.limits._RING_PIECE_NS_MIN", 500_000_000)
    path = tmp_path / "r.iotrace"
    with monkey.context():
        recording = record([loop_device], path, seconds=5, ring_seconds=2)
    monkey.undo()
    manifest = recording.manifest
    assert manifest.window_end_ns > 4.5e9
    assert 2e9 <= manifest.window_end_ns - manifest.window_start_ns < 4.5e9
    issued = recording.read("io", ["issued_ns"])["issued_ns"].to_pylist()
    assert manifest.window_start_ns - 1e9 <= min(issued) < manifest.window_start_ns + 1e9
    sampled = recording.read("counters", ["at_ns"])["at_ns"].to_pylist()
    assert min(sampled) > manifest.window_start_ns
    assert validate(path) == []


def test_the_greatest_size_ends_it(loop_device, load, tmp_path):
    sizes = []

    def look(state):
        sizes.append(state["size_bytes"])

    path = tmp_path / "r.iotrace"
    recording = record([loop_device], path, seconds=600, max_bytes=600_000, progress=look)
    assert recording.manifest.quality.ended == "it had reached its greatest size"
    assert sum(file.stat().st_size for file in path.rglob("*")) < 600_000
    assert validate(path) == []
