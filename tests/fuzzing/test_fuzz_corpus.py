"""Every reader over the stored corpus, within its bounds; and that the bounds hold what they should."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from iotrace.capture.formats.registry import OURS

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory and time are bounded by what Linux offers"
)

FOLDER = Path(__file__).parent
STORED = FOLDER.parent / "fixtures" / "corpus"
DOORS = set(re.findall(r'Door\("([a-z]+)"', (FOLDER / "doors.py").read_text()))
NATIVE = FOLDER.parents[1] / "capture" / "readers" / "src" / "fuzzing.rs"


def replay(*paths):
    return subprocess.run(
        [sys.executable, FOLDER / "worker.py", "replay", *paths],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        # As in run.py: for each of its threads the C library would reserve 64 MiB of addresses.
        env=os.environ | {"MALLOC_ARENA_MAX": "2"},
    )


def stored(name):
    return [path for path in sorted((STORED / name).glob("*")) if path.is_file()]


def native_targets():
    return set(re.findall(r'^    \("([a-z0-9-]+)", \|data\|', NATIVE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("kind", sorted({entry.name for entry in OURS} | DOORS))
def test_every_format_has_a_corpus(kind):
    assert stored(kind), f"put one small whole file of this format into {STORED / kind}"


def test_every_native_reader_has_a_target_and_a_corpus():
    sources = NATIVE.parent
    modules = {path.stem for path in sources.glob("*.rs")} | {
        path.name for path in sources.iterdir() if path.is_dir()
    }
    plumbing = {"bindings", "crc32", "error", "fuzzing", "hashing", "lib"}
    texts = {"blkparse", "perf"}  # in the folder blktrace
    assert {name.replace("-", "_") for name in native_targets()} == modules - plumbing | texts
    assert all(stored(name) for name in native_targets())


def test_readers_answer_to_all_of_the_stored_corpus():
    names = {entry.name for entry in OURS} | DOORS
    paths = [path for path in STORED.rglob("*") if path.is_file() and path.parent.name in names]
    done = replay(*sorted(paths))
    assert done.returncode == 0, (
        f"at {done.stdout.splitlines()[-1:]}: status {done.returncode}\n{done.stderr[-2000:]}"
    )


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("raise", 1, "KeyError"),
        ("loop", -signal.SIGPROF, ""),
        ("allocate", 1, "MemoryError"),
        ("refuse", 1, "no hint"),
        ("nothing", 0, ""),
    ],
)
def test_the_harness_catches_a_planted_fault(tmp_path, fault, status, words, monkeypatch):
    monkeypatch.setenv("IOTRACE_FUZZ_CPU_S", "1")
    path = tmp_path / f"planted-{fault}" / "input"
    path.parent.mkdir()
    path.write_bytes(b"planted: the reader's name must be in what it says of the file")
    done = replay(path)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
