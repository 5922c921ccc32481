"""Each refusal's words, and what is just allowed beside what is just refused."""

import errno
import os
import stat
from pathlib import Path

import pytest

from iotrace.replay.targets import block_device, fill, refusals, target
from iotrace.replay.targets.refusals import DirectIoRefusedError, Permission
from iotrace.schemas import Clock, IotraceError, Manifest, RecordingWriter

NEW = "choose another target, or a new file, which iotrace creates"


def said(refuse, *values, **named):
    with pytest.raises(IotraceError) as caught:
        refuse(*values, **named)
    return caught.value.message, caught.value.hint


def test_nothing_is_permitted_that_was_not_asked_for():
    assert Permission() == Permission(allow_writes=False, destroy_data=())


@pytest.mark.parametrize("name", ["a.mdf", "a.NDF", "a.b.Ldf", ".mdf"])
def test_names_of_databases(name):
    assert said(refusals.refuse_database_name, Path(name), name) == (
        f"target '{name}' is named like a database file, and is not written", "choose another name",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a.mdf.test", "mdf", "a.md", "a"])
def test_other_names(name):
    refusals.refuse_database_name(Path(name), name)


def test_a_target_where_the_result_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hint = "choose another name for one of them: --target is played on, -o is written"
    for name in (f"{tmp_path}/x/../here", "here/in/it"):
        assert said(refusals.refuse_output_as_target, ["other", name], Path("here")) == (
            f"target '{name}' is where the result is to go, 'here'", hint,
        )  # fmt: skip
    refusals.refuse_output_as_target(["here"], Path("here/in"))
    refusals.refuse_output_as_target(["here"], Path("here.iotrace"))
    refusals.refuse_output_as_target([], Path("here"))


def test_a_recording_is_no_target(tmp_path):
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.commit(Manifest("captured", "t", Clock(0, 1.0, "test")))
    hint = "--target names the file or disk to play on; a new file is made and filled"
    whole, within = str(tmp_path / "a.iotrace"), str(tmp_path / "a.iotrace/new/er")
    assert said(refusals.refuse_recording, whole) == (
        f"target '{whole}' is a recording of iotrace's, and is never a target", hint,
    )  # fmt: skip
    assert said(refusals.refuse_recording, within) == (
        f"target '{within}' lies in '{whole}', a recording of iotrace's, and is never a target", hint,
    )  # fmt: skip
    refusals.refuse_recording(str(tmp_path / "a"))


@pytest.mark.parametrize(
    ("own", "allowed", "marked", "words"),
    [
        (True, False, True, None),
        (False, True, True, None),
        (False, True, False, None),
        (False, False, True, "was changed since iotrace made it, and is not written"),
        (False, False, False, "was not made by iotrace, and is not written"),
    ],
)
def test_files_that_are_not_ours(own, allowed, marked, words):
    permission = Permission(allow_writes=allowed)
    if words is None:
        refusals.refuse_foreign_file("f", permission, own=own, marked=marked)
        return
    message, hint = said(refusals.refuse_foreign_file, "f", permission, own=own, marked=marked)
    assert message == f"target 'f' {words}"
    assert ("--allow-writes" in hint) != marked


def test_what_a_file_holds(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"XFSB" + bytes(4092))
    with path.open("rb") as file:
        found = path.stat()
        wanted = ("target 'f' is not written: it holds an XFS file system", NEW)
        assert said(refusals.refuse_content, file.fileno(), "f", found, 4096) == wanted
        told = said(refusals.refuse_content, file.fileno(), "f", found, 4096, wiping="wipe it")
        assert told == (wanted[0], "wipe it")
        other = (tmp_path / "other", tmp_path / "other")[0]
        other.touch()
        assert said(refusals.refuse_content, file.fileno(), "f", other.stat(), 4096) == (
            "target 'f' changed while it was opened", "find out who else uses it",
        )  # fmt: skip
    path.write_bytes(bytes(4096))
    with path.open("rb") as file:
        refusals.refuse_content(file.fileno(), "f", path.stat(), 4096)


@pytest.mark.parametrize(
    ("problem", "words"),
    [(OSError(errno.EIO, "Input/output error"), "Input/output error"), (OSError("x"), "x")],
)
def test_content_that_cannot_be_read(tmp_path, monkeypatch, problem, words):
    def fails(*_):
        raise problem

    (tmp_path / "f").touch()
    monkeypatch.setattr(refusals, "signature_of", fails)
    with (tmp_path / "f").open("rb") as file:
        assert said(refusals.refuse_content, file.fileno(), "f", (tmp_path / "f").stat(), 0) == (
            f"target 'f' is not written: what it holds cannot be read ({words})", NEW,
        )  # fmt: skip


def test_what_somebody_uses():
    assert said(refusals.refuse_use, "f", "it is mounted") == (
        "target 'f' is not written: it is mounted", "choose a file or device that nobody uses",
    )  # fmt: skip
    refusals.refuse_use("f", None)


def test_names_of_devices(tmp_path):
    device = tmp_path / "sdz"
    device.touch()
    both = Permission(allow_writes=True, destroy_data=("/dev/sdy", "/dev/sdz"))
    refusals.refuse_device_by_name(device, "/dev/sdz", both)
    assert said(refusals.refuse_device_by_name, device, "/dev/sdx", both) == (
        "target '/dev/sdx' is a device whose data you have not given up by name",
        "to destroy what it holds, repeat its name: --destroy-data /dev/sdx",
    )
    assert said(
        refusals.refuse_device_by_name, device, "/dev/sdz", Permission(destroy_data=("/dev/sdz",))
    ) == (
        "target '/dev/sdz' is a device and the replay writes",
        "to destroy what it holds: --allow-writes --destroy-data /dev/sdz; or play the reads with --reads-only",
    )
    link = tmp_path / "link"
    link.symlink_to(device)
    assert said(refusals.refuse_device_by_name, link, "/dev/sdz", both) == (
        "target '/dev/sdz' is a symbolic link, and is not written", f"name the device itself: {device}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "is_memory"),
    [
        ("tmpfs", True),
        ("ramfs", True),
        ("devtmpfs", True),
        ("hugetlbfs", True),
        ("ext4", False),
        (None, False),
    ],
)
def test_memory(monkeypatch, kind, is_memory):
    monkeypatch.setattr(block_device, "filesystem_of", lambda _place: kind)
    refusals.refuse_memory(Path("/x"), "f", direct=False)
    if not is_memory:
        refusals.refuse_memory(Path("/x"), "f", direct=True)
        return
    with pytest.raises(DirectIoRefusedError) as caught:
        refusals.refuse_memory(Path("/x"), "f", direct=True)
    assert caught.value.message == (
        f"target 'f' lies on {kind}, which keeps its files in memory: there is no disk to measure"
    )
    assert caught.value.hint == "choose another place, or play on memory knowingly with --buffered"


@pytest.mark.parametrize(
    ("number", "message", "hint"),
    [
        (errno.ELOOP, "is a symbolic link, and is not written", "name the file itself"),
        (errno.EBUSY, "is not written: the system is using it", "choose a device that nobody uses"),
        (errno.EACCES, "cannot be opened: E", "check its permissions; disks need root"),
        (errno.EPERM, "cannot be opened: E", "check its permissions; disks need root"),
        (errno.EROFS, "cannot be opened: E", "check its permissions; disks need root"),
        (errno.ENXIO, "cannot be opened: E", "check the path"),
        (
            errno.EINVAL,
            "lies on a file system without direct I/O",
            "choose another place, or play through the cache knowingly with --buffered",
        ),
    ],
)
def test_what_the_system_does_not_open(number, message, hint):
    told = refusals.opening_error("f", OSError(number, "E"))
    assert (told.message, told.hint) == (f"target 'f' {message}", hint)
    assert isinstance(told, DirectIoRefusedError) == (number == errno.EINVAL)


def test_what_lies_at_a_path(tmp_path):
    assert target.look(tmp_path / "nothing", "f") is None
    assert said(target.look, tmp_path, "f") == (
        "target 'f' is a folder", f"name a file in it: {tmp_path / 'iotrace.target'}",
    )  # fmt: skip
    (tmp_path / "link").symlink_to("nothing")
    assert said(target.look, tmp_path / "link", "f") == (
        "target 'f' is a symbolic link to nothing", "name the file itself",
    )  # fmt: skip
    (tmp_path / "file").write_bytes(b"12345")
    assert target.look(tmp_path / "file", "f").st_size == 5
    own = said(
        target.look, tmp_path / "file/x", "f", lambda name, problem: IotraceError(name, hint=problem.strerror)
    )
    assert own == ("f", "Not a directory")


@pytest.mark.parametrize(("size_bytes", "is_empty"), [(0, True), (511, True), (512, False), (513, False)])
def test_less_than_a_block_is_empty(size_bytes, is_empty):
    if not is_empty:
        target.refuse_empty("f", size_bytes, 512)
        return
    assert said(target.refuse_empty, "f", size_bytes, 512) == (
        "target 'f' is empty", "choose a new file, which iotrace creates and fills",
    )  # fmt: skip


def opened(path, *, writes=True, needed=1 << 20, **more):
    return target.open_target(
        str(path), writes=writes, permission=Permission(), direct=False, needed_bytes=needed, **more
    )


class TestAFileOfOurs:
    """Changes to it are noticed before the first write, and after the last."""

    @pytest.fixture
    def own(self, tmp_path):
        one = opened(tmp_path / "own")
        yield one
        os.close(one.file)

    def told(self, own):
        before = target.changes_of([own])
        with pytest.raises(IotraceError) as caught:
            target.refuse_changed([own])
        assert caught.value.hint == "find out who else uses it"
        message = caught.value.message
        reason = message.removeprefix(f"target '{own.name}' is not written: ")
        assert before == [f"target '{own.name}' was changed while it was played on: {reason}"]
        return reason

    def test_as_it_was(self, own):
        assert own.change() is None
        assert target.changes_of([own, own]) == []
        target.refuse_changed([own, own])

    def test_gone(self, own):
        Path(own.name).unlink()
        assert self.told(own) == "its name no longer leads anywhere: No such file or directory"

    def test_another_has_its_name(self, own, tmp_path):
        (tmp_path / "other").write_bytes(bytes(own.bytes))
        (tmp_path / "other").rename(own.name)
        assert self.told(own) == "its name now belongs to another file"

    def test_two_names(self, own, tmp_path):
        (tmp_path / "other").hardlink_to(own.name)
        assert self.told(own) == "it has 2 names now"

    @pytest.mark.parametrize("more", [-1, 1])
    def test_another_size(self, own, more):
        os.truncate(own.name, own.bytes + more)
        assert self.told(own) == "its size was changed"

    def test_a_loop_device_on_it(self, own, monkeypatch):
        monkeypatch.setattr(target.holders, "loop_on", lambda file: "loop7" if file == own.file else None)
        assert self.told(own) == "it became the disk behind the loop device loop7"

    def test_who_only_reads_need_not_care(self, tmp_path):
        (tmp_path / "f").write_bytes(bytes(8192))
        one = opened(tmp_path / "f", writes=False)
        (tmp_path / "f").unlink()
        assert one.change() is None
        one.close()


class TestADevice:
    """Told by planted answers of the system."""

    @pytest.fixture
    def disk(self, tmp_path, monkeypatch):
        (tmp_path / "f").write_bytes(bytes(8192))
        one = opened(tmp_path / "f", writes=False)
        one.kind, one.writable, one.sequence = "disk", True, 3
        facts = [stat.S_IFBLK, 5]

        def lstat(_path):
            return os.stat_result((facts[0], 0, 0, 1, 0, 0, 0, 0, 0, 0), {"st_rdev": facts[1]})

        monkeypatch.setattr(target.os, "fstat", lambda _file: lstat(None) if facts[1] == 5 else found)
        found = os.stat_result((stat.S_IFBLK, 0, 0, 1, 0, 0, 0, 0, 0, 0), {"st_rdev": 5})
        monkeypatch.setattr(Path, "lstat", lstat)
        monkeypatch.setattr(block_device, "sequence", lambda number: {5: 3}[number])
        monkeypatch.setattr(block_device, "use", lambda number: {5: None}[number])
        yield one, facts, monkeypatch
        monkeypatch.undo()
        os.close(one.file)

    def test_as_it_was(self, disk):
        assert disk[0].change() is None

    def test_another_device(self, disk):
        disk[1][1] = 6
        assert disk[0].change() == "its name now belongs to another device"

    def test_no_device_any_more(self, disk):
        disk[1][0] = stat.S_IFREG
        assert disk[0].change() == "its name now belongs to another device"

    def test_exchanged(self, disk):
        disk[0].sequence = 4
        assert disk[0].change() == "the disk was exchanged"

    def test_mounted(self, disk):
        disk[2].setattr(block_device, "use", lambda _number: "it is mounted on /x")
        assert disk[0].change() == "it is mounted on /x"


def test_what_is_said_of_a_target_in_the_manifest(tmp_path):
    one = opened(tmp_path / "f", needed=5000)
    told = one.describe()
    assert (told.name, told.kind, told.bytes, told.direct) == (str(tmp_path / "f"), "file", 8192, False)
    assert (told.filled, told.fill) == (True, one.fill.describe())
    assert told.logical_block_bytes == one.block_bytes == one.facts.logical_block_bytes
    assert told.filesystem == block_device.filesystem_of(tmp_path)
    assert told.device == (one.facts.name or None)
    assert (told.model, told.write_cache, told.rotational) == (
        one.facts.model, one.facts.write_cache, one.facts.rotational,
    )  # fmt: skip
    assert one.engine_file == one.file
    one.close()
    other = opened(tmp_path / "f", writes=False)
    assert (other.filled, other.describe().fill is None, other.writable) == (True, False, False)
    other.close()
    (tmp_path / "g").write_bytes(bytes(4096))
    foreign = opened(tmp_path / "g", writes=False)
    assert (foreign.filled, foreign.describe().filled, foreign.describe().fill) == (False, False, None)
    foreign.close()


class TestTheSizeOfAFileMadeHere:
    """`open_target`."""

    @pytest.mark.parametrize(("needed", "size"), [(1, 4096), (4095, 4096), (4096, 4096), (4097, 8192)])
    def test_is_what_is_needed_in_whole_pages(self, tmp_path, needed, size):
        opened(tmp_path / "f", needed=needed).close()
        assert (tmp_path / "f").stat().st_size == size

    def test_or_what_is_asked_for(self, tmp_path):
        opened(tmp_path / "f", needed=4096, file_bytes=16384).close()
        assert (tmp_path / "f").stat().st_size == 16384

    @pytest.mark.parametrize(
        ("more", "is_anew"),
        [
            ({}, False),
            ({"needed": 16384}, False),
            ({"needed": 16385}, True),
            ({"needed": 40000, "least_bytes": 16384}, False),
            ({"needed": 4096, "least_bytes": 16385}, True),
            ({"file_bytes": 16384}, False),
            ({"file_bytes": 8192}, True),
            ({"fill_with": fill.Fill(compressible=2.0)}, True),
        ],
    )
    def test_one_of_ours_is_made_anew_where_it_does_not_fit(self, tmp_path, more, is_anew):
        one = opened(tmp_path / "f", needed=16384)
        os.pwrite(one.file, b"replayed", 4096)
        one.close()
        opened(tmp_path / "f", **{"needed": 4096} | more).close()
        assert (b"replayed" in (tmp_path / "f").read_bytes()) != is_anew


def test_a_mark_is_renewed_when_it_is_closed_unless_something_was_put_there(tmp_path):
    """What a replay wrote is iotrace's; what looks like somebody's is not, and is not called so."""
    one = opened(tmp_path / "f")
    os.pwrite(one.file, b"replayed", 8192)
    one.close()
    assert opened(tmp_path / "f").filled
    os.pwrite((again := opened(tmp_path / "g")).file, b"XFSB", 0)
    again.close()
    assert said(opened, tmp_path / "g")[0] == (
        f"target '{tmp_path / 'g'}' is not written: it holds an XFS file system"
    )


@pytest.mark.parametrize("kind", ["disk", "partition"])
def test_neither_a_file_nor_a_device(tmp_path, kind):
    os.mkfifo(tmp_path / kind)
    name = str(tmp_path / kind)
    assert said(opened, tmp_path / kind) == (
        f"target '{name}' is neither a file nor a block device", "choose a file or a disk",
    )  # fmt: skip
