"""What is said to be written is there after a power cut, and of a live recording all but its last half minute."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.linux import recover
from iotrace.schemas import IotraceError, Recording, Sweep, validate

from . import sweep_of_steps
from .cut_power import FILESYSTEMS, TOOLS, contents, power, sparse
from .playing_on import attached

pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounting needs root"),
    *(pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed") for tool in TOOLS),
]

PROMISED_NS = 30_000_000_000
LIVE_CUTS = 24
RECORDED_S = 96

RECORDER = """
import sys
from iotrace.capture.linux import limits, record
limits._SEAL_BYTES = 1 << 20  # parts are made, and tails removed, every few seconds
record([sys.argv[1]], sys.argv[2], seconds=None)
"""
# Processes come and go: the table of them is replaced every second.
LOAD = """
import os, random, sys, time
while True:
    if os.fork() == 0:
        handle = os.open(sys.argv[1], os.O_RDONLY)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            os.pread(handle, 4096, random.randrange(8000) << 12)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            time.sleep(0.0003)
        os._exit(0)
    os.wait()
"""


def completed_ns(recording):
    return np.sort(recording.read("io", ["completed_ns"])["completed_ns"].drop_null().to_numpy())


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_live_recording(filesystem, tmp_path):
    chance = random.Random(filesystem)
    pauses = [chance.uniform(0.2, 1.8) * RECORDED_S / LIVE_CUTS for _ in range(LIVE_CUTS)]
    image = tmp_path / "recorded.img"
    sparse(image, 64 << 20)
    cuts = []
    with power(filesystem, tmp_path) as disk, attached(image) as device:
        path = disk.folder / "r.iotrace"
        load = subprocess.Popen([sys.executable, "-c", LOAD, device])
        recorder = subprocess.Popen([sys.executable, "-c", RECORDER, device, str(path)])
        try:
            unfinished = path.with_name("r.iotrace.unfinished")
            until = time.monotonic() + 600  # on a machine at work elsewhere
            while not (unfinished / "manifest.json").exists():
                assert time.monotonic() < until
                assert recorder.poll() is None
                time.sleep(0.02)
            for pause in pauses:
                time.sleep(pause)
                at_ns = time.time_ns()
                cuts.append((at_ns, disk.cut()))
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(timeout=120) == 0
        finally:
            for process in (recorder, load):
                process.kill()
                process.wait()
        # What commit said is done is there as well.
        whole = contents(path)
        finished = disk.cut()
        truth = completed_ns(Recording.open(path))
        start_ns = Recording.open(path).manifest.clock.start_utc_ns
        disk.unplug()

        with disk.after(finished) as folder:
            left = contents(folder / "r.iotrace")
            left.pop("writer.lock", None)  # removed after the recording was in its place
            assert left == whole
        kept = 0
        for at_ns, copy in cuts:
            with disk.after(copy) as folder:
                kept += check_recovered(folder, truth, at_ns - start_ns)
    assert kept >= LIVE_CUTS * 0.8, "hardly anything of these was there at all"


def check_recovered(folder, truth, cut_ns):
    promised = np.searchsorted(truth, cut_ns - PROMISED_NS)
    path = folder / "r.iotrace"
    if not promised:
        with suppress(IotraceError):  # nothing was saved so early: that is said, in words
            recover(path)
        if not path.exists():
            return 0
    recovered = Recording.open(path) if path.exists() else recover(path)
    assert validate(path) == []
    found = completed_ns(recovered)
    assert np.array_equal(found[:promised], truth[:promised])
    # Nothing was made up, and the window claims no time whose rows are lost.
    assert np.array_equal(found, truth[: len(found)]) or np.isin(found, truth).all()
    manifest = recovered.manifest
    last_ns = int(found[-1]) if len(found) else manifest.window_start_ns
    assert manifest.window_end_ns - last_ns < 1.5e9 or len(found) == np.searchsorted(
        truth, manifest.window_end_ns
    )
    assert "went down" in manifest.quality.ended
    print(f"cut at {cut_ns / 1e9:.1f} s: recovered up to {(cut_ns - last_ns) / 1e9:.1f} s before it")
    return 1


def cuts_of_a_sweep(disk, *options):
    """A cut after each step that was said to be done."""
    command = [sys.executable, str(Path(sweep_of_steps.__file__)), str(disk.folder / "s.iotrace"), *options]
    cuts = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        while child.stdout.readline():
            cuts.append(disk.cut())
            child.stdin.write("\n")
            child.stdin.flush()
    assert child.returncode == 0
    assert len(cuts) == sweep_of_steps.STEPS
    return cuts


def steps_left(folder):
    """Steps of the sweep that open and are whole."""
    try:
        sweep = Sweep.open(folder / "s.iotrace")
        return sum(validate(recording.path) == [] for recording in sweep.recordings())
    except IotraceError:
        return 0


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_a_sweep(filesystem, tmp_path):
    with power(filesystem, tmp_path) as disk:
        cuts = cuts_of_a_sweep(disk)
        disk.unplug()
        for number, copy in enumerate(cuts):
            with disk.after(copy) as folder:
                assert steps_left(folder) == number + 1


def test_these_cuts_show_what_is_not_forced_to_the_disk(tmp_path):
    with power("xfs", tmp_path) as disk:
        cuts = cuts_of_a_sweep(disk, "--no-sync")
        disk.unplug()
        lost = 0
        for number, copy in enumerate(cuts):
            with disk.after(copy) as folder:
                lost += steps_left(folder) < number + 1
    assert lost > 0


def results(bundled, folder):
    """Commands each of which says that it wrote something, and what."""
    fixtures = Path(__file__).parents[1] / "fixtures"
    trace = next((fixtures / "corpus" / "blktrace").glob("*"))
    recording = folder / "imported.iotrace"
    return [
        (["import", trace, "-o", recording], "imported.iotrace"),
        (["export", bundled, "--to", "csv", "-o", folder / "io.csv"], "io.csv"),
        (["export", bundled, "--to", "parquet", "-o", folder / "io.parquet"], "io.parquet"),
        (["export", bundled, "--to", "fio", "-o", folder / "for-fio"], "for-fio"),
        (["export", bundled, "--to", "diskspd", "-o", folder / "for-diskspd"], "for-diskspd"),
        (["report", bundled, "-o", folder / "report.html"], "report.html"),
        (["capture", "plan", "-o", folder / "plan", "--minutes", "5"], "plan"),
        (["report", bundled, "-o", folder / "report.html", "--overwrite"], "report.html"),
        (["import", trace, "-o", folder / "deep" / "er" / "again.iotrace"], "deep"),
        (["import", trace, "-o", recording, "--overwrite"], "imported.iotrace"),
    ]


@pytest.mark.parametrize("filesystem", FILESYSTEMS)
def test_finished_results(filesystem, tmp_path):
    from iotrace.cli import bundled as package

    bundled = Path(package.__file__).parent / "pgbench.iotrace"
    with power(filesystem, tmp_path) as disk:
        cuts = []
        for command, name in results(bundled, disk.folder):
            words = [str(word) for word in command]
            done = subprocess.run(
                [sys.executable, "-m", "iotrace.cli", *words], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            cuts.append((disk.cut(), name, read(disk.folder / name)))
        disk.unplug()
        for copy, name, written in cuts:
            with disk.after(copy) as folder:
                assert read(folder / name) == written


def read(path):
    return contents(path) if path.is_dir() else path.read_bytes()
