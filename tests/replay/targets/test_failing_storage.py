"""Storage that is pulled, falls silent or fails to flush: a file system that a test answers for."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay import _engine
from iotrace.schemas import Recording, validate

from ..conftest import MakeRecording
from ..fuse import OneFile, Operation
from ..playing import start, wait_for_play

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("root")]

MIB = 1 << 20
READ, WRITE, FLUSH = range(3)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[OneFile]:
    """A file of 64 MiB."""
    mount = tmp_path / "storage"
    mount.mkdir()
    with ExitStack() as stack:
        try:
            mounted = stack.enter_context(OneFile(mount, 64 * MIB))
        except OSError as problem:
            pytest.skip(f"no file system of our own can be mounted here: {problem}")
        yield mounted


@pytest.fixture
def steady(make_recording: MakeRecording) -> Recording:
    """A read every 5 ms for 1 s."""
    return make_recording(issued_ns=np.arange(200) * 5_000_000)


@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_storage_pulled_in_the_middle_of_a_run_fails_what_follows(
    storage: OneFile, steady: Recording, tmp_path: Path, backend: str
) -> None:
    run = start(steady, storage.disk, tmp_path / "out.iotrace", backend=backend)
    wait_for_play(run)
    storage.vanish()
    stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 0, stderr
    ended, issued, completed, failed = stdout.strip().split("|")
    assert (ended, issued, completed) == ("normally", "200", "200")
    assert 0 < int(failed) < 200
    assert validate(tmp_path / "out.iotrace") == []
    errors = set(Recording.open(tmp_path / "out.iotrace").read("io")["error"].to_pylist())
    assert errors <= {0, errno.ENOTCONN, errno.ECONNABORTED, errno.EIO}


@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_storage_that_falls_silent_ends_the_run(
    storage: OneFile, steady: Recording, tmp_path: Path, backend: str
) -> None:
    run = start(steady, storage.disk, tmp_path / "out.iotrace", backend=backend, stall_seconds=1.0)
    wait_for_play(run)
    storage.obey = lambda _operation, _offset: None
    assert run.stdout is not None
    ended, issued, completed, failed = run.stdout.readline().strip().split("|")
    storage.vanish()  # only then the process can leave
    stderr = run.communicate(timeout=60)[1]
    # Here a read through io_uring blocks the thread that asks for it, unlike one from a disk.
    assert ended == {"io_uring": "hung", "threads": "stalled"}[backend], stderr
    assert 0 < int(completed) < int(issued) <= 200
    assert failed == "0"
    assert validate(tmp_path / "out.iotrace") == []
    notes = Recording.open(tmp_path / "out.iotrace").manifest.quality.notes
    assert any("hang in the kernel" in note for note in notes) == (backend == "io_uring")


def test_storage_that_never_answers_is_refused_before_the_run(
    storage: OneFile, steady: Recording, tmp_path: Path
) -> None:
    """The process leaves by itself, while the storage is still silent."""
    storage.obey = lambda _operation, _offset: None
    run = start(steady, storage.disk, tmp_path / "out.iotrace", stall_seconds=1.0)
    stderr = run.communicate(timeout=60)[1]
    assert f"target '{storage.disk}' does not answer" in stderr
    assert not (tmp_path / "out.iotrace").exists()
    assert Operation.READ in [operation for operation, _ in storage.told]


@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_a_flush_goes_before_its_write(storage: OneFile, backend: str) -> None:
    """Forty writes with a flush before each: no write arrives before as many flushes as there are writes by then."""
    offsets = [number * 8192 for number in range(40)]
    assert errors_of(storage, backend, [(WRITE, offset, True) for offset in offsets]) == [0] * 40
    assert sorted(offset for operation, offset in storage.told if operation is Operation.WRITE) == offsets
    flushed = 0
    for operation, _ in storage.told:
        flushed += 1 if operation is Operation.FSYNC else -1
        assert flushed >= 0


@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_a_flush_that_fails_fails_its_write_and_no_other(storage: OneFile, backend: str) -> None:
    storage.obey = lambda operation, _offset: errno.EIO if operation is Operation.FSYNC else 0
    plan = [(WRITE, 0, False), (WRITE, 8192, True), (FLUSH, 0, False), (READ, 16384, False)]
    assert errors_of(storage, backend, plan) == [0, errno.EIO, errno.EIO, 0]
    written = [offset for operation, offset in storage.told if operation is Operation.WRITE]
    # Through io_uring the kernel goes on to the write; it counts as failed all the same.
    assert written == {"io_uring": [0, 8192], "threads": [0]}[backend]


def errors_of(storage: OneFile, backend: str, plan: list[tuple[int, int, bool]]) -> list[int]:
    """The errors of ops at offsets, with a flush before them or not, one every 10 ms."""
    file = os.open(storage.disk, os.O_RDWR)
    engine = _engine.Engine(
        [file],
        in_flight_max=8,
        read_bytes_max=8192,
        write_bytes_max=8192,
        backend=backend,  # type: ignore[arg-type]
        stall_ns=10_000_000_000,
    )
    ops, offsets, before = zip(*plan, strict=True)
    engine.offer(
        pa.record_batch(
            {
                "intended_ns": np.arange(len(plan)) * 10_000_000,
                "offset_bytes": np.array(offsets, np.uint64),
                "size_bytes": np.full(len(plan), 8192, np.uint32),
                "op": np.array(ops, np.uint8),
                "target": np.zeros(len(plan), np.uint16),
                "durable": pa.array(np.zeros(len(plan), np.bool_)),
                "preflush": pa.array(np.array(before, np.bool_)),
            }
        )
    )
    engine.end_plan()
    try:
        engine.start()
        while not engine.wait(1.0):
            pass
    finally:
        os.close(file)
    assert engine.ended()["word"] == "normally"
    outcome = engine.take()
    assert outcome is not None
    return outcome["error"].to_pylist()
