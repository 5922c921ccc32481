"""A disk whose power can be cut: a file system in a file on XFS, of which a reflink copy is what a cut would leave.

A reflink copy (FICLONE) is atomic, and holds what the file system had sent to its disk and nothing of what it only had
in memory. Mounting the copy replays the journal, as the next start of the machine would.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .playing_on import attached, mounted, run

TOOLS = ("mkfs.xfs", "mkfs.ext4", "mkfs.btrfs", "losetup")
FILESYSTEMS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], []),
    "xfs": (["mkfs.xfs", "-q", "-f"], ["-o", "nouuid"]),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], []),
}
"""How each is made, and what a second mount of a copy needs."""


@contextmanager
def mounted_image(image: Path, folder: Path, options: list[str]) -> Iterator[Path]:
    with attached(image) as device, mounted(device, folder, *options):
        yield folder


def sparse(path: Path, size: int) -> None:
    with path.open("xb") as file:
        file.truncate(size)


@dataclass
class Disk:
    """A mounted file system; `cut` notes what a power cut at this moment would leave, `after` shows it.

    ``folder`` is there until `unplug`; cuts can be looked at only after it: btrfs mounts no two of one identity.
    """

    filesystem: str
    room: Path
    folder: Path
    cuts: int = 0

    def __post_init__(self) -> None:
        sparse(self.image, 640 << 20)
        run(*FILESYSTEMS[self.filesystem][0], self.image)
        self._mounted = mounted_image(self.image, self.folder, [])
        self._mounted.__enter__()
        self._plugged = True

    @property
    def image(self) -> Path:
        return self.room / f"{self.filesystem}.img"

    def cut(self) -> Path:
        copy = self.room / f"{self.filesystem}-{self.cuts:03}.img"
        run("cp", "--reflink=always", self.image, copy)
        self.cuts += 1
        return copy

    def unplug(self) -> None:
        if self._plugged:
            self._plugged = False
            self._mounted.__exit__(None, None, None)
            if self.filesystem == "btrfs":
                subprocess.run(["btrfs", "device", "scan", "--forget"], check=False, capture_output=True)

    @contextmanager
    def after(self, copy: Path) -> Iterator[Path]:
        assert not self._plugged
        with mounted_image(
            copy, self.folder.with_name(f"{self.folder.name}-cut"), FILESYSTEMS[self.filesystem][1]
        ) as folder:
            yield folder
        if self.filesystem == "btrfs":
            subprocess.run(["btrfs", "device", "scan", "--forget"], check=False, capture_output=True)
        copy.unlink()


@contextmanager
def power(filesystem: str, tmp_path: Path) -> Iterator[Disk]:
    """A disk of ``filesystem`` in a file on XFS."""
    outer = tmp_path / "outer.img"
    sparse(outer, 8 << 30)
    run("mkfs.xfs", "-q", "-m", "reflink=1", outer)
    with mounted_image(outer, tmp_path / "outer", []) as room:
        disk = Disk(filesystem, room, tmp_path / filesystem)
        try:
            yield disk
        finally:
            disk.unplug()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
