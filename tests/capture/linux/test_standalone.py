"""The recorder without Python, on a loop device: what it writes is imported and held against fio and the kernel."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.capture.linux import examine
from iotrace.schemas import validate

from .test_recorder import (
    INSTANCES,
    ask,
    assert_nothing_is_missing,
    fio,
    loop_device,  # noqa: F401 - a fixture
    needs_fio,
    pytestmark,  # noqa: F401 - its needs are ours
    statistics,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def recorder():
    """The program: the one that IOTRACE_RECORDER names, such as a static one, else as cargo builds it."""
    if named := os.environ.get("IOTRACE_RECORDER"):
        return named
    if shutil.which("cargo") is None:
        pytest.skip("no Rust toolchain: cargo is not on the PATH")
    command = ["cargo", "build", "--quiet", "--locked", "-p", "iotrace-standalone", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    built = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return next(path for path in built if path)


@contextmanager
def running(recorder, *words, rights=()):
    """While the block runs it records; it is interrupted at the end, unless it is gone by then.

    ``rights`` is a command that takes rights away and starts it in its own place.
    """
    process = subprocess.Popen(
        [*rights, recorder, "linux", *words], stderr=subprocess.PIPE, text=True, env={}
    )
    own = f"iotrace-{process.pid}-alone"
    try:
        started = time.monotonic()
        while time.monotonic() < started + 60 and process.poll() is None:
            switches = [
                INSTANCES / own / name for name in ("tracing_on", "events/block/block_rq_issue/enable")
            ]
            if all(switch.exists() and switch.read_text().strip() == "1" for switch in switches):
                break
            time.sleep(0.05)
        time.sleep(0.2)  # it looks at the kernel's counters next
        yield process
        time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stderr.close()
    for _ in range(100):
        if not (INSTANCES / own).exists():
            break
        time.sleep(0.05)
    assert not (INSTANCES / own).exists()


def test_a_recording_that_cannot_begin_says_only_why(recorder, loop_device, tmp_path):  # noqa: F811
    command = [recorder, "linux", loop_device, "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: '{tmp_path}' is there already\n")


@needs_fio
def test_every_io_comes_through_the_import(recorder, loop_device, tmp_path):  # noqa: F811
    folder = tmp_path / "streams"
    with running(recorder, loop_device, "-o", str(folder), "--role", f"{loop_device}=data") as process:
        before = statistics(loop_device)
        job = fio(loop_device, "--rw=randrw", "--bs=4k", "--size=64M", "--io_size=8M", "--iodepth=8",
                  "--ioengine=libaio", "--fsync=64")  # fmt: skip
        after = statistics(loop_device)
        copy = shutil.copytree(folder, tmp_path / "copied-meanwhile")
    assert process.returncode == 0
    recording = import_files([folder], tmp_path / "whole.iotrace")
    assert validate(recording.path) == []
    assert recording.manifest.quality.ended == "normally"
    assert_nothing_is_missing(recording)
    rows = ask(
        recording.path,
        """SELECT op, count(*), sum(io.size_bytes)::BIGINT FROM io JOIN files USING (file_id)
        WHERE layer = 'block' AND role = 'data' AND op IN ('read', 'write') GROUP BY op ORDER BY op""",
    )
    assert rows == [(op, job[op]["total_ios"], job[op]["io_bytes"]) for op in ("read", "write")]
    (device,) = ask(recording.path, "SELECT name, model, size_bytes FROM devices")
    assert device[0] == Path(loop_device).name
    assert device[1].startswith("loop device over ")
    assert device[2] == 256 << 20
    programs = ask(
        recording.path, "SELECT DISTINCT name FROM io JOIN processes USING (process_id) WHERE op = 'read'"
    )
    assert ("fio",) in programs
    # Requests, as the kernel counts them over the same time and a little before it.
    (merged,) = ask(recording.path, "SELECT count(*) FROM io WHERE layer = 'device' AND op = 'read'")
    assert merged[0] == after["reads"] - before["reads"]
    early = import_files([copy], tmp_path / "copied.iotrace")
    assert validate(early.path) == []
    assert early.manifest.quality.ended != "normally"


@needs_fio
def test_a_killed_recorder_leaves_what_it_saw(recorder, loop_device, tmp_path):  # noqa: F811
    folder = tmp_path / "streams"
    with running(recorder, loop_device, "-o", str(folder)) as process:
        fio(loop_device, "--rw=randread", "--bs=8k", "--size=4M")
        time.sleep(1.5)  # rows are written four times a second, what they refer to once
        process.kill()
    recording = import_files([folder], tmp_path / "cut.iotrace")
    assert validate(recording.path) == []
    assert "killed" in recording.manifest.quality.ended
    assert ask(recording.path, "SELECT count(*) FROM io WHERE layer = 'block' AND op = 'read'") == [(512,)]


def test_doctor_says_what_the_python_command_says(recorder):
    done = subprocess.run([recorder, "doctor", "--json"], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    levels = {check["name"]: check["level"] for check in told["checks"]}
    expected = {check.name: check.level for check in examine()}
    assert levels.items() <= expected.items()
    assert {"kernel", "permission", "block events", "buffers"} <= levels.keys()
    assert (done.returncode, told["can_record"]) == (0, True)


def test_where_the_clock_is_not_the_kernels_nobody_records(recorder, tmp_path):
    apart = ("unshare", "--time", "--monotonic=5", "--fork", "--")
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here")
    doctor, record = (
        subprocess.run([*apart, recorder, *words], capture_output=True, text=True, check=False)
        for words in (["doctor", "--json"], ["linux", "/", "-o", tmp_path / "never"])
    )
    (clock,) = [check for check in json.loads(doctor.stdout)["checks"] if check["name"] == "clock"]
    assert (doctor.returncode, clock["level"]) == (1, "problem")
    assert (record.returncode, clock["found"] in record.stderr) == (2, True), record.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["linux", "/nowhere", "-o", "{free}"], "no device '/nowhere'"),
        (["linux", "/dev/null", "-o", "{free}"], "is a character device"),
        (["linux", "/proc", "-o", "{free}"], "no block device lies behind '/proc'"),
        (["linux", "{device}", "-o", "{taken}"], "is there already"),
        (["linux", "{device}", "-o", "{free}", "--role", "/proc=log"], "'/proc'"),
        (["linux", "{device}", "-o", "/nowhere/x"], "cannot write '/nowhere/x'"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(recorder, loop_device, tmp_path, words, told):  # noqa: F811
    free, taken = tmp_path / "free", tmp_path / "taken"
    taken.mkdir()
    words = [word.format(free=free, taken=taken, device=loop_device) for word in words]
    done = subprocess.run([recorder, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert told in done.stderr
    assert "\nhint: " in done.stderr
    assert not free.exists()
    assert not list(taken.iterdir())
    assert not list(INSTANCES.glob("iotrace-*-alone"))


UNIT = ROOT / "tools/standalone/iotrace-recorder.service"


@needs_fio
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_it_records_with_the_rights_of_its_service_and_no_more(recorder, loop_device, tmp_path):  # noqa: F811
    """As systemd would start it: the unit's own command line, no capability, none to be had, and no network."""
    unit = UNIT.read_text()
    for line in ("CapabilityBoundingSet=", "NoNewPrivileges=yes", "PrivateNetwork=yes"):
        assert f"\n{line}\n" in unit
    words = (
        next(line for line in unit.splitlines() if line.startswith("ExecStart=")).partition("=")[2].split()
    )
    settings = {
        "$DEVICES": loop_device,
        "$MINUTES": "60",
        "$SIZE": "64M",
        "/var/lib/iotrace/ring": str(tmp_path / "ring"),
    }
    assert words[:2] == ["/usr/bin/iotrace-recorder", "linux"]
    assert set(settings) <= set(words)
    bare = [
        "/usr/bin/unshare",
        "--net",
        "/usr/bin/setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--no-new-privs",
    ]
    with running(recorder, *(settings.get(word, word) for word in words[2:]), rights=bare) as process:
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1"
        before = statistics(loop_device)
        fio(
            loop_device,
            "--rw=randwrite",
            "--bs=4k",
            "--size=64M",
            "--io_size=4M",
            "--iodepth=4",
            "--ioengine=libaio",
        )
        after = statistics(loop_device)
    assert process.returncode == 0
    recording = import_files([tmp_path / "ring"], tmp_path / "ring.iotrace")
    assert_nothing_is_missing(recording)
    rows = ask(recording.path, "SELECT count(*) FROM io WHERE layer = 'device' AND op = 'write'")
    assert rows[0][0] == after["writes"] - before["writes"] >= 1024
