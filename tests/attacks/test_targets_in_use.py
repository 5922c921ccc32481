"""Targets that somebody uses: behind loop devices, mounted, swap, open or locked elsewhere."""

import fcntl
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.cli.main import run as iotrace
from iotrace.replay.targets import holders
from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import changes_of, open_target, refuse_changed
from iotrace.schemas import IotraceError, SweepWriter

from ..ordinary import reads_this_checkout
from .evidence import device_sum, evidence
from .playing_on import (
    MIB,
    attached,
    everything,
    frozen,
    mounted,
    opened,
    overwrite,
    own_file,
    refused,
    run,
    tool,
    unmount,
)

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("root")]

FILESYSTEMS = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
IMAGE_BYTES = 320 * MIB


def image(path: Path, size_bytes: int = 32 * MIB) -> Path:
    path.write_bytes(b"")
    os.truncate(path, size_bytes)
    return path


def formatted(path: Path, kind: str) -> Path:
    image(path, IMAGE_BYTES)
    program, *words = FILESYSTEMS[kind]
    run(program, *words, path)
    return path


def foreign(path: Path) -> Path:
    path.write_bytes(b"somebody's only copy\n" * 100_000)
    return path


# ---- loop devices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FILESYSTEMS)
def test_the_file_behind_a_mounted_loop_device(tmp_path: Path, kind: str) -> None:
    path = formatted(tmp_path / "disk.img", kind)
    with attached(path) as device, mounted(device, tmp_path / "mount") as place:
        (place / "precious").write_text("ten years of work")
        os.sync()
        with frozen(place):
            before = device_sum(device)
            for name in (path, Path(device)):
                for permission in (Permission(), everything(name)):
                    with pytest.raises(IotraceError, match="is not written") as caught:
                        overwrite(opened(name, permission))
                    assert "--allow-writes" not in caught.value.hint
                    assert "--destroy-data" not in caught.value.hint
            assert device_sum(device) == before
        assert (place / "precious").read_text() == "ten years of work"


@pytest.mark.parametrize(
    "options", [(), ("--read-only",), ("--offset", "1048576")], ids=["whole", "read-only", "offset"]
)
def test_the_file_behind_an_idle_loop_device(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path, *options) as device:
        refused(path, f"it is the disk behind the loop device {Path(device).name}")


def test_the_same_renamed_and_under_another_mount(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    (tmp_path / "bound").mkdir()
    with attached(path) as device, mounted(tmp_path, tmp_path / "bound", "--bind") as place:
        path.rename(tmp_path / "renamed")
        refused(tmp_path / "renamed", f"the loop device {Path(device).name}", at=tmp_path / "renamed")
        refused(place / "renamed", "it is the disk behind the loop device", at=tmp_path / "renamed")


def test_an_own_file_behind_a_loop_device(tmp_path: Path) -> None:
    path = own_file(tmp_path / "own")
    with attached(path):
        refused(path, "it is the disk behind the loop device")
        with pytest.raises(IotraceError, match="is not written"):  # nor is it made anew
            opened_larger(path)
        assert path.exists()


def opened_larger(path: Path) -> None:
    open_target(str(path), writes=True, permission=Permission(), direct=False, needed_bytes=4 * MIB)


@pytest.mark.parametrize("offset", [0, 64 * MIB, 300 * MIB])
def test_a_second_loop_device_into_a_mounted_image(tmp_path: Path, offset: int) -> None:
    path = formatted(tmp_path / "disk.img", "ext4")
    with (
        attached(path) as first,
        mounted(first, tmp_path / "mount") as place,
        frozen(place),
        attached(path, "--offset", str(offset)) as second,
    ):
        before = device_sum(first)
        refused(second, at=path)
        assert device_sum(first) == before


@pytest.mark.parametrize("offset", [64 * MIB, 300 * MIB])
def test_a_loop_device_into_an_image_that_holds_something(tmp_path: Path, offset: int) -> None:
    path = formatted(tmp_path / "disk.img", "ext4")
    with attached(path, "--offset", str(offset)) as device:
        refused(device, "as a whole it holds an ext2/3/4 file system", at=path)


def test_a_loop_device_over_a_mounted_device(tmp_path: Path) -> None:
    path = formatted(tmp_path / "disk.img", "ext4")
    with attached(path) as first, mounted(first, tmp_path / "mount"), attached(Path(first)) as second:
        refused(second, f"it is another name of '{first}': it is mounted on", at=path)


def with_partitions(path: Path) -> Path:
    """A disk with two partitions, from 1 MiB and from 17 MiB on."""
    run("sfdisk", "--quiet", image(path), input="label: dos\n2048,16MiB\n34816,\n")
    return path


@contextmanager
def partitions_of(device: str) -> Iterator[list[str]]:
    """Its partitions by name, which no udev may make here."""
    run("partx", "--update", device)
    names = []
    for told in sorted(Path("/sys/block", Path(device).name).glob("*/partition")):
        name = Path("/dev", told.parent.name)
        if not name.exists():
            major, minor = map(int, (told.parent / "dev").read_text().split(":"))
            os.mknod(name, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
        names.append(str(name))
    try:
        yield names
    finally:
        run("partx", "--delete", device)
        for name in names:
            Path(name).unlink(missing_ok=True)


def test_a_device_with_a_mounted_loop_device_over_a_part_of_it(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as disk, attached(Path(disk), "--offset", str(MIB)) as over:
        run("mkfs.ext4", "-q", over)
        with mounted(over, tmp_path / "mount") as place, frozen(place):
            refused(disk, f"it is the disk behind the loop device {Path(over).name}", at=path)


@pytest.mark.parametrize("options", [(), ("--read-only",)], ids=["idle", "read-only"])
def test_a_device_behind_another_loop_device(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as disk, attached(Path(disk), *options) as over:
        refused(disk, f"it is the disk behind the loop device {Path(over).name}", at=path)


def test_a_device_whose_second_loop_device_is_swap(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as disk, attached(Path(disk), "--offset", str(MIB)) as over:
        run("mkswap", over)
        if subprocess.run([tool("swapon"), over], capture_output=True, check=False).returncode:
            pytest.skip("swapping is not possible here")
        try:
            refused(disk, f"it is the disk behind the loop device {Path(over).name}", at=path)
        finally:
            run("swapoff", over)


def test_a_disk_with_a_loop_device_over_a_partition(tmp_path: Path) -> None:
    path = with_partitions(tmp_path / "disk.img")
    with attached(path) as disk, partitions_of(disk) as (first, second):
        with attached(Path(first)) as over:
            behind = f"is the disk behind the loop device {Path(over).name}"
            refused(disk, f"its partition {Path(first).name} {behind}", at=path)
            refused(first, f"it {behind}", at=path)
            opened(second).close()
        with attached(Path(disk), "--offset", str(MIB)) as over:
            refused(
                first,
                f"its disk {Path(disk).name} is the disk behind the loop device {Path(over).name}",
                at=path,
            )


def test_a_loop_device_that_is_laid_over_the_target_after_it_was_opened(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as disk:
        target = opened(disk)
        with attached(Path(disk)) as over, pytest.raises(IotraceError, match=Path(over).name):
            overwrite(target)
        target.close()
        assert not any(path.read_bytes())


def test_a_loop_device_whose_image_another_program_writes(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device, elsewhere(path, "os.open(path, os.O_RDWR)"):
        refused(device, f"the disk behind it, '{path}': process", at=path)


def test_a_loop_device_whose_image_is_gone(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device:
        path.unlink()
        refused(device, "cannot be looked at", at=tmp_path)


def test_an_empty_loop_device_is_written(tmp_path: Path) -> None:
    """The rules leave something to play on."""
    path = image(tmp_path / "disk.img")
    with attached(path) as device:
        target = opened(device)
        overwrite(target)
        target.close()
        assert path.read_bytes()[:4096] == b"\xdb" * 4096


# ---- swap and mounts ------------------------------------------------------------------------------------------------


def test_a_swap_file(tmp_path: Path) -> None:
    path = tmp_path / "swap"
    path.write_bytes(bytes(8 * MIB))
    path.chmod(0o600)
    run("mkswap", path)
    refused(path, "it holds swap space")
    if subprocess.run([tool("swapon"), str(path)], capture_output=True, check=False).returncode:
        pytest.skip("swapping is not possible here")
    try:
        with pytest.raises(IotraceError, match=r"is not written: it is swap space in use|Text file busy"):
            opened(path)
    finally:
        run("swapoff", path)


@pytest.mark.parametrize("name", ["shown", "a\fb", "a\rb", "a\u2028b", "a b\tc\\d\ne"])
def test_a_file_that_is_mounted_over_another(tmp_path: Path, name: str) -> None:
    """As containers are given single files."""
    real, shown = foreign(tmp_path / "real"), tmp_path / name
    shown.touch()
    run("mount", "--bind", real, shown)
    try:
        for either in (real, shown):
            refused(either, f"it is mounted on {shown}")
    finally:
        run("umount", shown)


def test_a_file_that_is_mounted_over_another_where_only_a_container_sees_it(tmp_path: Path) -> None:
    path, hidden = foreign(tmp_path / "real"), tmp_path / "hidden"
    hidden.mkdir()
    script = 'mount -t tmpfs none "$2" && touch "$2/f" && mount --bind "$1" "$2/f" && echo ready && read word'
    words = [tool("unshare"), "--mount", "sh", "-c", script, "sh", str(path), str(hidden)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        refused(path, f"it is mounted on {hidden}/f for process {process.pid}")
        with attached(path) as device:
            refused(device, f"it is mounted on {hidden}/f for process {process.pid}", at=path)
        process.communicate("\n")
    opened(path).close()


SHUT_IN = "import os, sys; os.chroot(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"


def test_a_program_that_is_shut_in_a_folder_does_not_hide_what_its_container_mounts(tmp_path: Path) -> None:
    """It is told of no mount outside of that folder, and comes first among the container's processes."""
    path, shown = foreign(tmp_path / "real"), tmp_path / "shown"
    shown.touch()
    (cell := tmp_path / "cell").mkdir()
    script = 'mount --bind "$1" "$2"; sleep 60 & exec "$3" -c "$4" "$5"'
    words = [
        tool("unshare"),
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        path,
        shown,
        sys.executable,
        SHUT_IN,
        cell,
    ]
    with subprocess.Popen(
        list(map(str, words)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            refused(path, f"it is mounted on {shown} for process")
        finally:
            os.killpg(process.pid, signal.SIGKILL)


# ---- open elsewhere -------------------------------------------------------------------------------------------------

HOLDER = """
import ctypes, fcntl, mmap, os, struct, sys, threading, time
path = sys.argv[1]
def in_thread(prepare):
    opened = threading.Event()
    def hold():
        prepare()
        os.open(path, os.O_RDWR)
        opened.set()
        os.read(0, 1)
        os._exit(0)
    threading.Thread(target=hold).start()
    opened.wait()
def end_this_thread():
    print("ready", flush=True)
    ctypes.CDLL(None).syscall({{"x86_64": 60}}.get(os.uname().machine, 93), 0)
def kept_by_io_uring():
    ask = ctypes.CDLL(None).syscall
    ring, file = ask(425, 4, (ctypes.c_char * 120)()), os.open(path, os.O_RDWR)
    assert ask(427, ring, 2, (ctypes.c_int * 2)(-1, file), 2) == 0
    os.close(file)
held = {what}
{then}
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def elsewhere(path: Path, what: str, then: str = "") -> Iterator[int]:
    """Another process that holds on to ``path``; its number."""
    words = [sys.executable, "-c", HOLDER.format(what=what, then=then), str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()
            process.wait()


WHOLE = "struct.pack('@hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)"
HOLDS = {
    "open for reading": ("os.open(path, os.O_RDONLY)", ""),
    "open for writing": ("os.open(path, os.O_RDWR)", ""),
    "open for appending": ("open(path, 'ab')", ""),
    "open past the cache": ("os.open(path, os.O_RDWR | os.O_DIRECT)", ""),
    "mapped for reading": ("mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ)", "os.closerange(3, 4)"),
    "mapped for writing": ("mmap.mmap(os.open(path, os.O_RDWR), 0)", "os.closerange(3, 4)"),
    "flock shared": ("os.open(path, os.O_RDONLY)", "fcntl.flock(held, fcntl.LOCK_SH)"),
    "flock alone": ("os.open(path, os.O_RDONLY)", "fcntl.flock(held, fcntl.LOCK_EX)"),
    "POSIX lock": ("os.open(path, os.O_RDWR)", "fcntl.lockf(held, fcntl.LOCK_EX)"),
    "POSIX lock shared": ("os.open(path, os.O_RDWR)", "fcntl.lockf(held, fcntl.LOCK_SH)"),
    "POSIX lock of a byte": ("os.open(path, os.O_RDWR)", "fcntl.lockf(held, fcntl.LOCK_EX, 1, 0x40000000)"),
    "OFD lock": ("os.open(path, os.O_RDWR)", f"fcntl.fcntl(held, fcntl.F_OFD_SETLK, {WHOLE})"),
}  # fmt: skip


@pytest.mark.parametrize("owner", ["foreign", "own"])
@pytest.mark.parametrize("hold", HOLDS)
def test_a_file_that_another_program_holds(tmp_path: Path, hold: str, owner: str) -> None:
    path = foreign(tmp_path / "held") if owner == "foreign" else own_file(tmp_path / "held")
    what, then = HOLDS[hold]
    with elsewhere(path, what, then):
        said = refused(path, "is").message
        assert re.search("in use|has it open|has locked it", said)
    opened(path).close()


@pytest.mark.parametrize("hold", ["POSIX lock", "OFD lock", "flock alone"])
def test_locks_are_honoured_where_there_are_no_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: str
) -> None:
    path = foreign(tmp_path / "held")
    monkeypatch.setattr(holders, "_other_opener", lambda *_: None)
    what, then = HOLDS[hold]
    with elsewhere(path, what, then):
        refused(path)


def no_leases(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = fcntl.fcntl

    def control(file: int, command: int, *words: int) -> object:
        if command == fcntl.F_SETLEASE:
            raise OSError(number, os.strerror(number))
        return real(file, command, *words)

    monkeypatch.setattr(fcntl, "fcntl", control)


@pytest.mark.parametrize("hold", ["open for reading", "open for writing"])
def test_open_files_are_seen_where_there_are_no_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: str
) -> None:
    path = foreign(tmp_path / "held")
    no_leases(monkeypatch, 22)
    with elsewhere(path, *HOLDS[hold]) as process:
        refused(path, f"process {process}")
    opened(path).close()


def test_what_may_not_be_asked_is_said_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = foreign(tmp_path / "held")
    no_leases(monkeypatch, 13)
    refused(path, "who else has it open cannot be found out")
    no_leases(monkeypatch, 22)
    monkeypatch.setattr(holders, "_openers", lambda *_, **__: None)
    refused(path, "who else has it open cannot be found out")


def test_who_has_it_open_is_named(tmp_path: Path) -> None:
    path = foreign(tmp_path / "held")
    with elsewhere(path, *HOLDS["open for writing"]) as process:
        refused(path, f"process {process}")


@pytest.mark.parametrize("hold", ["open for reading", "mapped for writing"])
def test_who_opens_a_file_before_the_first_write_keeps_it(tmp_path: Path, hold: str) -> None:
    """Filling the file of another target takes minutes."""
    path = foreign(tmp_path / "held")
    target = opened(path)
    refuse_changed([target])
    with elsewhere(path, *HOLDS[hold]) as process:
        with pytest.raises(IotraceError, match=f"'{path}' is not written: process {process} .* has it open"):
            refuse_changed([target])
        assert f"process {process}" in changes_of([target])[0]
    if hold == "open for reading":
        assert changes_of([target]) == []
    else:
        assert changes_of([target])[0].endswith(
            "another program opened it for writing, and has closed it again"
        )
    target.close()


@pytest.mark.parametrize("name", ["by its name", "by another name", "mapped"])
def test_who_wrote_and_has_gone_is_noticed(tmp_path: Path, name: str) -> None:
    """Its data was overwritten and is again what iotrace wrote; it is somebody else's file all the same."""
    path = own_file(tmp_path / "t")
    target = opened(path, Permission())
    code = "import mmap, os, sys\nheld = os.open(sys.argv[1], os.O_RDWR)\n"
    if name == "mapped":
        code += "page = mmap.mmap(held, 4096)\nos.close(held)\nos.closerange(3, 9)\npage[:] = bytes(4096)\n"
    else:
        code += "os.write(held, bytes(4096))\n"
    if name == "by another name":
        (tmp_path / "link").hardlink_to(path)
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "link" if "other" in name else path)], check=True
    )
    (tmp_path / "link").unlink(missing_ok=True)
    for _ in range(2):
        [said] = changes_of([target])
        assert said.endswith("played on: another program opened it for writing, and has closed it again")
    with pytest.raises(IotraceError, match="is not written: another program"):
        refuse_changed([target])
    os.pwrite(target.file, bytes(4096), 0)
    target.close()
    with pytest.raises(IotraceError, match="changed"):
        opened(path, Permission())


def test_who_only_read_is_not_minded(tmp_path: Path) -> None:
    path = own_file(tmp_path / "t")
    target = opened(path, Permission())
    path.read_bytes()
    assert changes_of([target]) == []
    target.close()
    opened(path, Permission()).close()


def test_who_opens_a_device_before_the_first_write_keeps_it(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device:
        target = opened(device)
        with (
            elsewhere(Path(device), *HOLDS["open for writing"]) as process,
            pytest.raises(IotraceError, match=f"'{device}' is not written: process {process} "),
        ):
            refuse_changed([target])
        refuse_changed([target])
        target.close()


def test_a_file_opened_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = foreign(tmp_path / "indexed")
    words = "import sys, time; held = open(sys.argv[1]); print('ready', flush=True); time.sleep(0.2)"
    with subprocess.Popen(
        [sys.executable, "-c", words, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # a busy machine may take its time to end the other
            try:
                opened(path).close()
                break
            except IotraceError:
                time.sleep(0.1)
        else:
            pytest.fail("refused for ever")


def test_a_device_that_another_program_writes(tmp_path: Path) -> None:
    """As databases and virtual machines hold raw devices: without claiming them."""
    path = image(tmp_path / "disk.img")
    with attached(path) as device, elsewhere(Path(device), "os.open(path, os.O_RDWR)") as process:
        refused(device, f"process {process}", at=path)


@pytest.mark.parametrize("sign", ["\r", "\v"])
def test_who_maps_a_file_with_a_name_like_a_line_s_end_hides_nothing(tmp_path: Path, sign: str) -> None:
    """Any user may map such a file, and mount it in a namespace of their own."""
    path, odd = image(tmp_path / "disk.img"), foreign(tmp_path / f"a{sign}b c")
    hold = (
        f"[mmap.mmap(os.open(one, os.O_RDWR), 4096) for one in ({str(odd)!r}, path)]",
        "os.closerange(3, 100)",
    )
    with attached(path) as device, elsewhere(Path(device), *hold) as process:
        refused(device, f"process {process}", at=path)


def test_who_calls_himself_by_no_text_is_named_all_the_same(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    hold = ("os.open(path, os.O_RDWR)", r"ctypes.CDLL(None).prctl(15, b'\xff\xfe')")
    with attached(path) as device, elsewhere(Path(device), *hold) as process:
        refused(device, f"process {process}", at=path)


UNSHARES = "lambda: ctypes.CDLL(None).unshare(0x400)"
UNSEEN_HOLDS = {
    "mapped, closed": ("mmap.mmap(os.open(path, os.O_RDWR), 1 << 20)", "os.closerange(3, 100)"),
    "in a thread whose leader ended": ("in_thread(lambda: None)", "end_this_thread()"),
    "in a thread with files of its own": (f"in_thread({UNSHARES})", ""),
    "kept by an io_uring": ("kept_by_io_uring()", ""),
}


@pytest.mark.parametrize("hold", UNSEEN_HOLDS)
def test_a_device_that_is_held_where_a_process_does_not_show_it(tmp_path: Path, hold: str) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device:
        with elsewhere(Path(device), *UNSEEN_HOLDS[hold]) as process:
            refused(device, f"process {process}", at=path)
        opened(device).close()


@pytest.mark.parametrize("hold", UNSEEN_HOLDS)
def test_a_file_without_leases_that_is_held_where_a_process_does_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: str
) -> None:
    path = foreign(tmp_path / "held")
    no_leases(monkeypatch, 22)
    with elsewhere(path, *UNSEEN_HOLDS[hold]) as process:
        refused(path, f"process {process}")


@pytest.mark.parametrize(("prepare", "looked_at"), [("lambda: None", 1), (UNSHARES, 2)])
def test_descriptors_that_threads_share_are_looked_at_once(
    tmp_path: Path, prepare: str, looked_at: int
) -> None:
    """A server has thousands of both, and looking at each took seven seconds for a million."""
    path = foreign(tmp_path / "held")
    with elsewhere(path, f"in_thread({prepare})") as process:
        threads = sorted((one.name for one in Path(f"/proc/{process}/task").iterdir()), key=int)
        assert len(threads) == 2
        assert list(holders._with_own_descriptors(threads)) == threads[:looked_at]


def test_a_device_of_which_another_program_writes_a_part_or_the_whole(tmp_path: Path) -> None:
    path = with_partitions(tmp_path / "disk.img")
    with attached(path) as disk, partitions_of(disk) as (first, second):
        with elsewhere(Path(disk), *HOLDS["open for writing"]):
            refused(first, f"has its disk {Path(disk).name} open for writing", at=path)
        with elsewhere(Path(first), *HOLDS["open for writing"]):
            refused(disk, f"has its partition {Path(first).name} open for writing", at=path)
            opened(second).close()


BEHIND_HOLDS = {**HOLDS, **UNSEEN_HOLDS}
del BEHIND_HOLDS["mapped for reading"], BEHIND_HOLDS["mapped for writing"]  # the images are sparse, and large


@pytest.mark.parametrize("hold", BEHIND_HOLDS)
def test_a_loop_device_whose_file_another_program_holds(tmp_path: Path, hold: str) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device:
        with elsewhere(path, *BEHIND_HOLDS[hold]):
            refused(device, f"the disk behind it, '{path}': ", at=path)
        opened(device).close()


def test_a_loop_device_whose_file_is_mounted_over_another(tmp_path: Path) -> None:
    path, shown = image(tmp_path / "disk.img"), tmp_path / "shown"
    shown.touch()
    with attached(path) as device:
        run("mount", "--bind", path, shown)
        try:
            refused(device, f"it is mounted on {shown} as a file", at=path)
        finally:
            run("umount", shown)


@pytest.mark.parametrize("name", ["prod.mdf", ".ldf"])
def test_a_loop_device_whose_file_is_named_like_a_database(tmp_path: Path, name: str) -> None:
    path = image(tmp_path / name)
    with attached(path) as device:
        refused(device, "it is named like a database file", at=path)


def test_a_loop_device_whose_file_has_another_name(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device:
        (tmp_path / "other").hardlink_to(path)
        refused(device, "it is one of 2 names of the same file", at=path)


def test_a_loop_device_whose_file_lies_in_a_recording(tmp_path: Path) -> None:
    SweepWriter(tmp_path / "a.iotrace", title="t", source_uuid=None)
    path = image(tmp_path / "a.iotrace" / "disk.img")
    with attached(path) as device:
        refused(device, "it is part of a recording", at=path)


def test_a_loop_device_whose_file_is_hidden_by_a_mount(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with attached(path) as device, mounted("none", tmp_path, "-t", "tmpfs"):
        refused(device, "cannot be looked at: No such file", at=tmp_path)
        image(path)
        refused(device, "its name now belongs to another file", at=path)


@pytest.mark.parametrize("kind", ["fixed VHD", "md 1.0"])
def test_a_loop_device_that_ends_before_the_mark_of_its_file(tmp_path: Path, kind: str) -> None:
    path = image(tmp_path / "disk.img")
    with path.open("r+b") as file:
        file.seek(-512 if kind == "fixed VHD" else -8192, os.SEEK_END)
        file.write(b"conectix" if kind == "fixed VHD" else b"\xfc\x4e\x2b\xa9")
    with attached(path, "--sizelimit", str(16 * MIB)) as device:
        refused(device, "as a whole it holds", at=path)


def test_a_device_held_exclusively(tmp_path: Path) -> None:
    path = image(tmp_path / "disk.img")
    with (
        attached(path) as device,
        elsewhere(Path(device), "os.open(path, os.O_RDONLY | os.O_EXCL)"),
        pytest.raises(IotraceError, match="the system is using it"),
    ):
        opened(device)


def test_we_are_not_killed_by_who_opens_it_meanwhile(tmp_path: Path) -> None:
    """Breaking a lease sends a signal, which ends a process that is not prepared."""
    path = foreign(tmp_path / "busy")
    words = (
        "import os, sys, time\nend = time.time() + 3\n"
        "while time.time() < end:\n    os.close(os.open(sys.argv[1], os.O_RDONLY))"
    )
    with subprocess.Popen([sys.executable, "-c", words, str(path)]) as process:
        while process.poll() is None:
            try:
                opened(path).close()
            except IotraceError:
                continue


AS_NOBODY = """
import os, sys
from iotrace.replay.targets.refusals import Permission
from iotrace.replay.targets.target import open_target
from iotrace.schemas import IotraceError, SweepWriter

os.setgroups([]), os.setgid(65534), os.setuid(65534)
for name in sys.argv[1:]:
    try:
        target = open_target(name, writes=True, permission=Permission(True, (name,)), direct=False, needed_bytes=65536)
        target.close()
        print("opened")
    except IotraceError as problem:
        print(problem.message)
"""


@reads_this_checkout
def test_an_ordinary_user_is_told_what_cannot_be_found_out(tmp_path: Path) -> None:
    """Whoever may write another's file may not ask who has it open; one's own files may be asked about."""
    for parent in (tmp_path, *list(tmp_path.parents)[:3]):
        parent.chmod(0o777 if parent == tmp_path else parent.stat().st_mode | 0o011)
    path = foreign(tmp_path / "shared")
    path.chmod(0o666)
    before = evidence(path)
    words = [sys.executable, "-c", AS_NOBODY, str(path), str(tmp_path / "new"), str(tmp_path / "new")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, made, again = done.stdout.splitlines()
    assert "who else has it open cannot be found out here: it belongs to another user" in said
    assert made == again == "opened"
    assert evidence(path) == before


# ---- programs that are there ----------------------------------------------------------------------------------------


def test_a_database_that_sqlite_has_open(tmp_path: Path) -> None:
    path = tmp_path / "renamed.bin"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a)")
        database.commit()
        refused(path)
    database.close()
    refused(path, "it holds an SQLite database")


def test_an_image_that_qemu_has_open(tmp_path: Path) -> None:
    path = image(tmp_path / "guest.raw")
    words = [tool("qemu-io"), "-f", "raw", str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("write 0 4k\n")
        process.stdin.flush()
        process.stdout.readline()
        refused(path)
        process.stdin.close()


# ---- the disk of the system -----------------------------------------------------------------------------------------


def mounted_disks() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    sources = {line.split(" - ")[1].split()[1] for line in lines}
    return sorted(one for one in sources if one.startswith("/dev/") and Path(one).is_block_device())


@pytest.mark.parametrize("words", [(), ("--allow-writes",), ("--allow-writes", "--destroy-data", "DISK")])
def test_the_disk_of_the_system_is_refused_without_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    disks = mounted_disks()
    if not disks:
        pytest.skip("no mounted disk has a name here")
    sentence = [
        "characterize", "--op", "write", "--size", "8K", "--outstanding", "1", "--target", disks[0],
        *(word.replace("DISK", disks[0]) for word in words), "-o", str(tmp_path / "out.iotrace"),
    ]  # fmt: skip
    assert iotrace(sentence) == 2
    said = capsys.readouterr().err
    assert "is not written: it is mounted on" in said.replace("\n", " ")
    assert "--destroy-data" not in said
    assert "--allow-writes" not in said
    assert not (tmp_path / "out.iotrace").exists()


@pytest.mark.parametrize("permission", [Permission(), Permission(allow_writes=True)])
def test_a_device_that_holds_something_is_refused_without_a_recipe(
    tmp_path: Path, permission: Permission
) -> None:
    path = formatted(tmp_path / "disk.img", "xfs")
    with attached(path) as device:
        with pytest.raises(IotraceError, match="is not written: it holds an XFS file system") as caught:
            opened(device, permission)
        assert not re.search("--destroy-data|--allow-writes|wipefs", caught.value.hint)


def test_an_empty_device_is_asked_for_by_its_words(tmp_path: Path) -> None:
    with attached(image(tmp_path / "disk.img")) as device:
        with pytest.raises(IotraceError, match="is a device and the replay writes") as caught:
            opened(device, Permission())
        assert f"--destroy-data {device}" in caught.value.hint


def test_an_own_file_is_written_again(tmp_path: Path) -> None:
    path = own_file(tmp_path / "own")
    for _ in range(3):
        target = opened(path, Permission())
        overwrite(target)
        target.close()
    assert evidence(path) != {}
    assert path.read_bytes()[:4096] == b"\xdb" * 4096


@pytest.mark.root
@pytest.mark.parametrize("layer", ["upper", "lower"])
def test_a_file_of_an_overlay_whose_layers_are_used_elsewhere(tmp_path: Path, layer: str) -> None:
    """A lease on the merged file says nothing of who has the file of the layer open, as a host has a container's."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    path = tmp_path / layer / "data"
    path.write_bytes(os.urandom(MIB))
    layers = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    with mounted("overlay", tmp_path / "merged", "-t", "overlay", "-o", layers), path.open("r+b"):
        refused(tmp_path / "merged" / "data", "what lies below cannot be seen", at=tmp_path / layer)
        own = opened(own_file(tmp_path / "merged" / "own"), Permission())
        overwrite(own)
        own.close()


@pytest.mark.root
@pytest.mark.parametrize("hold", ["open", "behind a loop device"])
def test_a_file_seen_through_another_file_system(tmp_path: Path, hold: str) -> None:
    """Who uses what lies below FUSE has another file open."""
    below, above = tmp_path / "below", tmp_path / "above"
    below.mkdir()
    above.mkdir()
    path = image(below / "data", 4 * MIB)
    path.write_bytes(os.urandom(4 * MIB))
    run("bindfs", below, above)
    try:
        with path.open("r+b") if hold == "open" else attached(path):
            refused(above / "data", "programs that use what lies below cannot be seen", at=below)
    finally:
        unmount(above)


@pytest.mark.root
def test_a_device_whose_users_are_outside_of_a_container(tmp_path: Path) -> None:
    """In a namespace of processes of its own, nobody sees who else has it open."""
    disk = image(tmp_path / "disk.img", 4 * MIB)
    disk.write_bytes(os.urandom(4 * MIB))
    code = (
        "import sys\nfrom iotrace.replay.targets.refusals import Permission\n"
        "from iotrace.replay.targets.target import open_target\nfrom iotrace.schemas import IotraceError\n"
        "try:\n    open_target(sys.argv[1], writes=True, permission=Permission(True, (sys.argv[1],)), direct=False,"
        " needed_bytes=4096)\nexcept IotraceError as problem:\n    print(problem.message)\n"
    )
    with attached(disk) as device, elsewhere(Path(device), *HOLDS["open for writing"]):
        said = run("unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code, device)
    if "cannot be looked at: No such file or directory" in said:
        pytest.skip("in a chroot the kernel names the device's file by a path that is not there")
    assert "who else has it open cannot be found out here: that takes root, outside of any container" in said


@pytest.mark.root
@pytest.mark.parametrize("folder", ["sub", "."])
def test_a_file_of_btrfs_that_is_mounted_as_a_file(tmp_path: Path, folder: str) -> None:
    """Its mounts have another number than its files."""
    place = tmp_path / "place"
    with attached(formatted(tmp_path / "disk.img", "btrfs")) as device, mounted(device, place):
        if folder == "sub":
            run("btrfs", "subvolume", "create", place / folder)
        path = place / folder / "data"
        path.write_bytes(os.urandom(4 * MIB))
        other = tmp_path / "other"
        other.touch()
        run("mount", "--bind", path, other)
        try:
            refused(path, f"it is mounted on {other} as a file")
        finally:
            unmount(other)
        opened(path).close()


@pytest.mark.root
@pytest.mark.parametrize("inode_bytes", [128, 256])
def test_where_times_are_whole_seconds_no_file_is_known_again(tmp_path: Path, inode_bytes: int) -> None:
    """A write in the second of the mark would not show."""
    disk, place = image(tmp_path / "disk.img"), tmp_path / "place"
    run("mkfs.ext4", "-q", "-F", "-I", str(inode_bytes), disk)
    with attached(disk) as device, mounted(device, place):
        if inode_bytes == 128:
            with pytest.raises(IotraceError, match="with times in whole seconds"):
                opened(place / "own", Permission())
            assert not (place / "own").exists()
            path = own_file(place / "own", Permission(allow_writes=True))
            with pytest.raises(IotraceError, match=r"not made by iotrace|changed"):
                opened(path, Permission())
        else:
            opened(own_file(place / "own"), Permission()).close()


SETTINGS = (
    "/sys/kernel/mm/ksm/run",
    "/sys/power/state",
    "/sys/kernel/uevent_seqnum",
    "/sys/kernel/profiling",
)


@pytest.mark.root
@pytest.mark.parametrize("path", [path for path in SETTINGS if Path(path).exists()])
def test_a_setting_of_the_system_is_no_file_to_play_on(path: str) -> None:
    """They are plain files of 4 KiB, and writing to one may suspend the machine."""
    for permission in (Permission(), Permission(allow_writes=True), everything(path)):
        with pytest.raises(
            IotraceError, match=r"it is not data but a system setting|cannot be opened|cannot be read"
        ):
            opened(path, permission)
