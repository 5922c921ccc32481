"""Attacks on a replay's targets: everything is permitted, and still nothing of anybody's may be written."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import Target, open_target
from iotrace.schemas import IotraceError

from .evidence import evidence

MIB = 1 << 20
NEEDED_BYTES = MIB


def everything(name: Path | str) -> Permission:
    """All that a user can permit."""
    return Permission(allow_writes=True, destroy_data=(str(name),))


def opened(name: Path | str, permission: Permission | None = None) -> Target:
    """A target opened for writing, through the cache: what is refused does not depend on it."""
    return open_target(
        str(name),
        writes=True,
        permission=everything(name) if permission is None else permission,
        direct=False,
        needed_bytes=NEEDED_BYTES,
        least_bytes=4096,
    )


def overwrite(target: Target) -> None:
    """What a replay would do to it, at both ends and between."""
    reason = target.change()
    if reason is not None:
        raise IotraceError(f"target '{target.name}' is not written: {reason}", hint="no")
    for offset in (0, target.bytes // 2 // 4096 * 4096, target.bytes - 4096):
        os.pwrite(target.file, b"\xdb" * 4096, offset)


def refused(name: Path | str, message: str = "", *, at: Path | None = None) -> IotraceError:
    """Refused with nothing, and with everything permitted; nothing changes, and no hint says how to go on.

    ``at`` is the folder in which nothing may change, by default the one that ``name`` lies in.
    """
    folder = at or Path(name).parent
    before = evidence(folder)
    problem: IotraceError | None = None
    for permission in (Permission(), Permission(allow_writes=True), everything(name)):
        with pytest.raises(IotraceError) as caught:
            overwrite(opened(name, permission))
        problem = caught.value
        assert f"'{name}'" in problem.message
        assert problem.hint
        if message:
            assert message in problem.message
            assert "--destroy-data" not in problem.hint
            assert "--allow-writes" not in problem.hint
    assert evidence(folder) == before
    assert problem is not None
    return problem


def own_file(path: Path, permission: Permission = Permission()) -> Path:  # noqa: B008 - frozen
    """A file as a replay leaves it."""
    target = opened(path, permission)
    os.pwrite(target.file, os.urandom(65536), 0)
    target.close()
    return path


def tool(name: str) -> str:
    """Where a program is; the test is skipped without it."""
    beside = [str(folder) for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin", *beside]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(name: str, *words: str | Path, **more: str) -> str:
    """What a program prints; the test fails if it does."""
    done = subprocess.run(
        [tool(name), *map(str, words)], capture_output=True, text=True, check=False, input=more.get("input")
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def attached(image: Path, *words: str) -> Iterator[str]:
    """A loop device on ``image``."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    device = run("losetup", "--find", "--show", *words, image)
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextmanager
def frozen(place: Path) -> Iterator[None]:
    """A mounted file system that writes nothing of its own, so that every change of its disk is somebody else's."""
    run("fsfreeze", "--freeze", place)
    try:
        yield
    finally:
        run("fsfreeze", "--unfreeze", place)


@contextmanager
def mounted(device: Path | str, at: Path, *words: str) -> Iterator[Path]:
    """A file system, mounted at ``at``."""
    at.mkdir(exist_ok=True)
    run("mount", *words, device, at)
    try:
        yield at
    finally:
        unmount(at)


def unmount(at: Path, *, seconds: float = 30.0) -> None:
    """Unmount what other programs of a host may look into for a moment."""
    until = time.monotonic() + seconds
    while subprocess.run([tool("umount"), at], capture_output=True, check=False).returncode:
        if time.monotonic() > until:
            run("umount", at)
            return
        time.sleep(0.2)
