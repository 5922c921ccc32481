"""The doctor's advice as root, as an ordinary user, and where tracefs is not mounted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TRACING = Path("/sys/kernel/tracing")
UNMOUNTED = ("unshare", "--mount", "sh", "-c", f'umount -l {TRACING}; exec "$@"', "sh")

pytestmark = [
    pytest.mark.root,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="plays all users, so needs root"),
    pytest.mark.skipif(not (TRACING / "instances").is_dir(), reason=f"tracefs is not mounted at {TRACING}"),
]

EXAMINE = """
import dataclasses, json, os, sys
from iotrace.capture.linux import examine
if sys.argv[1] != "0":
    examine()  # loads everything an ordinary user may not be able to read here
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    os.environ["USER"] = "nobody"
print(json.dumps([dataclasses.asdict(check) for check in examine()]))
"""


def examined(user, *before):
    command = [*before, sys.executable, "-c", EXAMINE, str(user)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {check["name"]: check for check in json.loads(text)}


def test_root_may_record():
    checks = examined(0)
    assert {check["level"] for check in checks.values()} <= {"ok", "warning"}
    assert os.uname().release in checks["kernel"]["found"]
    assert checks["permission"]["level"] == checks["block events"]["level"] == "ok"
    assert not list((TRACING / "instances").glob("*doctor"))


def test_an_ordinary_user_is_told_the_least_to_ask_for():
    checks = examined(65534)
    assert [name for name, check in checks.items() if check["level"] == "problem"] == ["permission"]
    advice = checks["permission"]["advice"]
    assert "sudo chown nobody /sys/kernel/tracing/instances" in advice
    assert "with sudo" in advice


def test_what_an_ordinary_user_is_told_to_ask_for_is_enough():
    instances = TRACING / "instances"
    before = TRACING.stat().st_mode
    try:
        TRACING.chmod(before | 0o001)
        os.chown(instances, 65534, -1)
        assert examined(65534)["permission"]["level"] == "ok"
    finally:
        os.chown(instances, 0, -1)
        TRACING.chmod(before)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_without_tracefs_it_is_told_how_to_mount_it():
    checks = examined(0, *UNMOUNTED)
    assert [name for name, check in checks.items() if check["level"] == "problem"] == ["tracefs"]
    assert f"mount -t tracefs nodev {TRACING}" in checks["tracefs"]["advice"]


def test_the_recorder_says_of_tracefs_what_the_doctor_says():
    advice = examined(0, *UNMOUNTED)["tracefs"]["advice"]
    command = [
        *UNMOUNTED,
        sys.executable,
        "-m",
        "iotrace.cli",
        "capture",
        "linux",
        "/",
        "-o",
        "/tmp/never.iotrace",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"hint: {advice}" in " ".join(done.stderr.split())


CLOCK_APART = ("unshare", "--time", "--monotonic=-5", "--fork", "--")


def test_where_the_clock_is_not_the_kernels_nobody_records(tmp_path):
    if subprocess.run([*CLOCK_APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here")
    clock = examined(0, *CLOCK_APART)["clock"]
    assert (clock["level"], clock["advice"]) == ("problem", "record on its host, outside of the container")
    assert "clock is set 5 s behind the kernel's" in clock["found"]

    words = ("capture", "linux", "/", "-o", tmp_path / "never.iotrace")
    command = [*CLOCK_APART, sys.executable, "-m", "iotrace.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert clock["found"] in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_the_doctor_mounts_tracefs_when_asked_to():
    command = [*UNMOUNTED, sys.executable, "-m", "iotrace.cli", "capture", "doctor", "--mount", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = {check["name"]: check["level"] for check in json.loads(done.stdout)["checks"]}
    assert "tracefs" not in told
    assert told["permission"] == "ok"


def test_what_killed_recorders_left_is_removed():
    leftover = TRACING / "instances" / f"iotrace-{2**22 + 2}-abcdef"  # beyond the largest process number
    leftover.mkdir()
    try:
        assert leftover.name in examined(0)["leftovers"]["found"]
        assert not leftover.exists()
    finally:
        if leftover.exists():
            leftover.rmdir()


def test_the_command_line_says_it_in_json_and_by_its_status():
    command = [sys.executable, "-m", "iotrace.cli", "capture", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["can_record"]) == (0, True)
    assert {"kernel", "lockdown", "permission"} <= {check["name"] for check in answer["checks"]}
