"""The filesystem layer on real file systems. Expected figures come from fio, PostgreSQL and the kernel's counters."""

import ctypes
import json
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from iotrace.capture.linux import files, record
from iotrace.schemas import IotraceError, validate

INSTANCES = Path("/sys/kernel/tracing/instances")
POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
ALL_LAYERS = ("filesystem", "block", "device")

pytestmark = [
    pytest.mark.root,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="tracing and loop devices need root"
    ),
    pytest.mark.skipif(not INSTANCES.is_dir(), reason="tracefs is not mounted at /sys/kernel/tracing"),
]


def needs(*programs):
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@contextmanager
def mounted(folder, kind, megabytes=400):
    """A file system of that kind on a loop device; (device, mount point)."""
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    image, point = folder / "disk.img", folder / "mount"
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    point.mkdir()
    subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True)
    done = subprocess.run(
        ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no loop device to be had: {done.stderr.strip()}")
    device = done.stdout.strip()
    try:
        subprocess.run(["mount", device, str(point)], check=True)
        try:
            yield device, point
        finally:
            subprocess.run(["umount", str(point)], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture(params=["ext4", "xfs"])
def disk(request, tmp_path):
    with mounted(tmp_path, request.param) as found:
        yield found


@pytest.fixture
def ext4(tmp_path):
    with mounted(tmp_path, "ext4") as found:
        yield found


class Shell:
    """A process that works in a folder since before the recording, and runs commands for the test."""

    def __init__(self, folder):
        self._folder = folder
        self._process = subprocess.Popen(
            ["sh"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, command):
        self._process.stdin.write(f"{command}\necho; echo END\n")
        self._process.stdin.flush()
        lines = list(iter(self._process.stdout.readline, "END\n"))
        return "".join(lines)

    def fio(self, name, *options):
        words = ["fio", f"--name={name}", f"--filename={name}", "--output-format=json", *options]
        text = self.run(" ".join(words))
        return json.loads(text[text.index("{") :])["jobs"][0]  # notes may come first

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def shell(request):
    name = "disk" if "disk" in request.fixturenames else "ext4"
    found = Shell(request.getfixturevalue(name)[1])
    yield found
    found.close()


@contextmanager
def kept_in_memory(path):
    """The file's pages stay in the page cache, from which the kernel may else take one at any moment."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        first = ctypes.c_char.from_buffer(pages)
        if ctypes.CDLL(None, use_errno=True).mlock(ctypes.byref(first), ctypes.c_size_t(len(pages))):
            pytest.skip(f"no memory can be locked: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            del first  # which would keep the mapping, and so the file system, in use


@contextmanager
def recording_of(device, path, layers=ALL_LAYERS):
    """Record while the block runs; what is yielded holds the recording afterwards."""
    stop, started, outcome = threading.Event(), threading.Event(), []
    options = {"seconds": 120, "stop": stop, "layers": layers, "progress": lambda _: started.set()}
    thread = threading.Thread(target=lambda: outcome.append(record([str(device)], path, **options)))
    thread.start()
    try:
        assert started.wait(30)
        time.sleep(0.2)
        yield outcome
        time.sleep(0.2)
    finally:
        stop.set()
        thread.join()


def ask(path, sql):
    database = duckdb.connect()
    for name in ("io", "files", "processes", "counters"):
        found = sorted(path.glob(f"{name}.parquet")) or sorted(path.glob(f"{name}/*.parquet"))
        database.read_parquet([str(file) for file in found]).create_view(name)
    return database.execute(sql).fetchall()


def totals(path, layer):
    """(file, operation) → (I/Os, bytes)."""
    rows = ask(
        path,
        f"""
        SELECT parse_filename(path), op, count(*), sum(io.size_bytes)::BIGINT
        FROM io JOIN files USING (file_id) WHERE layer = '{layer}' GROUP BY ALL
        """,
    )
    return {(name, op): (count, size) for name, op, count, size in rows}


def of_fio(name, job):
    return {(name, op): (job[op]["total_ios"], job[op]["io_bytes"]) for op in ("read", "write")}


@needs("fio")
@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
def test_every_direct_io_is_its_files_on_every_layer(disk, shell, tmp_path, engine):
    device, _ = disk
    for name in ("one", "two"):
        shell.run(f"dd if=/dev/zero of={name} bs=1M count=16 conv=fsync status=none")
    path = tmp_path / "r.iotrace"
    options = ["--direct=1", f"--ioengine={engine}", "--iodepth=4", "--size=16M", "--rw=randrw"]
    with recording_of(device, path) as outcome:
        one = shell.fio("one", *options, "--bs=8k", "--number_ios=700")
        two = shell.fio("two", *options, "--bs=16k", "--number_ios=300", "--rwmixread=30")

    expected = of_fio("one", one) | of_fio("two", two)
    for layer in ALL_LAYERS:
        seen = totals(path, layer)
        assert {key: seen.get(key) for key in expected} == expected, layer
    quality = outcome[0].manifest.quality
    assert (quality.events_lost, quality.unpaired_completions) == (0, 0)
    assert validate(path) == []
    # A call contains the block I/O it caused; both lie at the same place of their own address space's 512.
    late = """
        SELECT count(*) FROM io JOIN files USING (file_id)
        WHERE layer = 'filesystem' AND (completed_ns < issued_ns OR offset_bytes % 8192 <> 0 OR flags & 1 = 0)
    """
    assert ask(path, late) == [(0,)]


@needs("fio")
def test_cached_calls_are_counted_and_written_back_to_their_files(disk, shell, tmp_path):
    device, point = disk
    path = tmp_path / "r.iotrace"
    shell.run("dd if=/dev/urandom of=old bs=1M count=8 conv=fsync status=none")
    options = ["--ioengine=psync", "--bs=8k", "--size=8M", "--invalidate=0"]
    with kept_in_memory(point / "old"), recording_of(device, path) as outcome:
        new = shell.fio("new", *options, "--rw=write", "--end_fsync=1", "--fallocate=none")
        old = shell.fio("old", *options, "--rw=randread")
        shell.run(
            "dd if=/dev/zero of=short bs=4k count=256 conv=fsync status=none; sleep 0.6; rm short; sync"
        )

    calls, blocks = totals(path, "filesystem"), totals(path, "block")
    assert calls["new", "write"] == (1024, 8 << 20) == (new["write"]["total_ios"], new["write"]["io_bytes"])
    assert calls["new", "flush"] == (1, 0)
    assert calls["old", "read"] == (1024, 8 << 20) == (old["read"]["total_ios"], old["read"]["io_bytes"])
    assert calls["short", "write"] == (256, 1 << 20)
    assert ("old", "read") not in blocks  # all of it is in the page cache
    # Written by fsync, after the space was given to files that were not there when the recording began.
    assert blocks["new", "write"][1] == 8 << 20
    assert blocks["short", "write"][1] == 1 << 20
    offsets = """
        SELECT min(offset_bytes), max(offset_bytes), count(DISTINCT offset_bytes), max(flags & 1)
        FROM io JOIN files USING (file_id)
        WHERE layer = 'filesystem' AND op = 'write' AND parse_filename(path) = 'new'
    """
    assert ask(path, offsets) == [(0, (8 << 20) - 8192, 1024, 0)]
    assert outcome[0].manifest.quality.events_lost == 0


@needs("fio")
def test_where_the_kernel_names_no_file_descriptors_do(ext4, shell, tmp_path, monkeypatch):
    device, _ = ext4
    monkeypatch.setattr(files, "_UNUSED", frozenset({"mm_filemap_get_pages", "iomap_dio_rw_begin"}))
    shell.run("dd if=/dev/zero of=one bs=1M count=8 conv=fsync status=none")
    path = tmp_path / "r.iotrace"
    options = [
        "--ioengine=psync",
        "--bs=8k",
        "--size=8M",
        "--rw=randrw",
        "--number_ios=800",
        "--thinktime=500",
    ]
    with recording_of(device, path):
        job = shell.fio("one", *options, "--direct=1")
    found = ask(
        path,
        """
        SELECT op, io.size_bytes, count(*) FROM io JOIN files USING (file_id)
        WHERE layer = 'filesystem' AND parse_filename(path) = 'one' GROUP BY ALL
        """,
    )
    calls = {op: count for op, size, count in found if size == 8192}
    # fio's process is looked up while it lives: what it did in the last moments is not.
    for (_, op), (count, _) in of_fio("one", job).items():
        assert count * 0.5 <= calls[op] <= count
    # Just before it opens its file fio reads the size of a cache line ("64\n") through a descriptor of the same number:
    # when that is looked up, it leads to the file already (docs/experiments/recorder.md).
    others = [(op, count) for op, size, count in found if size != 8192]
    assert others in ([], [("read", 1)])


def test_only_the_layers_asked_for_are_kept(ext4, shell, tmp_path):
    device, _ = ext4
    path = tmp_path / "r.iotrace"
    with recording_of(device, path, layers=("filesystem",)):
        shell.run("dd if=/dev/zero of=one bs=64k count=4 conv=fsync status=none")
    assert ask(path, "SELECT DISTINCT layer FROM io") == [("filesystem",)]
    assert totals(path, "filesystem")["one", "write"] == (4, 256 << 10)


def test_calls_elsewhere_are_not_recorded(ext4, shell, tmp_path):
    device, _ = ext4
    path = tmp_path / "r.iotrace"
    with recording_of(device, path):
        shell.run(
            f"dd if=/dev/zero of={tmp_path}/elsewhere bs=64k count=4 conv=fsync status=none; echo x | cat"
        )
    assert ask(path, "SELECT count(*) FROM io WHERE layer = 'filesystem'") == [(0,)]


def test_a_process_that_ended_says_when(ext4, shell, tmp_path):
    device, _ = ext4
    path = tmp_path / "r.iotrace"
    with recording_of(device, path) as outcome:
        shell.run("dd if=/dev/zero of=one bs=64k count=4 conv=fsync status=none")
    rows = ask(
        path,
        """
        SELECT p.started_ns, min(issued_ns), max(completed_ns), p.ended_ns
        FROM io JOIN processes p USING (process_id) WHERE layer = 'filesystem' AND p.name = 'dd' GROUP BY ALL
        """,
    )
    [(started_ns, first_ns, last_ns, ended_ns)] = rows
    assert 0 < started_ns - 10_000_000 < first_ns < last_ns < ended_ns  # /proc counts starts in ticks
    assert ended_ns < outcome[0].manifest.window_end_ns


def test_a_device_without_a_known_file_system_is_refused(ext4, tmp_path):
    device, point = ext4
    with pytest.raises(IotraceError, match="sql"):
        record([device], tmp_path / "r.iotrace", seconds=1, layers=("sql",))
    subprocess.run(["umount", str(point)], check=True)
    try:
        with pytest.raises(IotraceError, match=f"ext4 or XFS.*{device}"):
            record([device], tmp_path / "r.iotrace", seconds=1, layers=ALL_LAYERS)
    finally:
        subprocess.run(["mount", device, str(point)], check=True)


def test_a_recorded_file_system_can_be_unmounted(ext4, tmp_path):
    device, point = ext4
    with recording_of(device, tmp_path / "r.iotrace"):
        subprocess.run(["umount", str(point)], check=True)
        subprocess.run(["mount", device, str(point)], check=True)


@needs("addpart")
def test_a_file_system_on_a_partition_is_followed_at_its_place(tmp_path):
    image, point = tmp_path / "disk.img", tmp_path / "mount"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    point.mkdir()
    attach = ["losetup", "--find", "--show", "--partscan", str(image)]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device to be had: {done.stderr.strip()}")
    disk = done.stdout.strip()
    try:
        for number, start in ((1, 2048), (2, 131072)):  # in sectors
            subprocess.run(["addpart", disk, str(number), str(start), "100000"], check=True)
        # Not every machine makes nodes for partitions of loop devices.
        numbers = Path("/sys/class/block", f"{Path(disk).name}p2", "dev").read_text().split(":")
        os.mknod(node := tmp_path / "p2", stat.S_IFBLK | 0o600, os.makedev(*map(int, numbers)))
        subprocess.run(["mkfs.ext4", "-q", str(node)], check=True)
        subprocess.run(["mount", str(node), str(point)], check=True)
        try:
            write = ["dd", "if=/dev/zero", f"of={point}/one", "bs=64k", "count=20", "conv=fsync"]
            subprocess.run(write, check=True, capture_output=True)
            for name, device in (("partition", node), ("disk", disk)):
                path = tmp_path / f"{name}.iotrace"
                with recording_of(device, path):
                    read = ["dd", f"if={point}/one", "of=/dev/null", "bs=64k", "iflag=direct"]
                    subprocess.run(read, check=True, capture_output=True)
                assert totals(path, "block")["one", "read"] == (20, 20 << 16), name
        finally:
            subprocess.run(["umount", str(point)], check=True)
    finally:
        subprocess.run(["losetup", "--detach", disk], check=True)


def disk_sectors(device):
    """Sectors read and written so far, of /proc/diskstats; and when."""
    words = Path("/sys/block", Path(device).name, "stat").read_text().split()
    return int(words[2]), int(words[6]), time.time_ns()


@pytest.fixture
def server(request):
    """PostgreSQL with its data on a file system of its own; (device, function that runs pgbench)."""
    if POSTGRES is None:
        pytest.skip("PostgreSQL is not installed")
    # User postgres may not pass through the folders of pytest.
    with (
        tempfile.TemporaryDirectory() as folder,
        mounted(Path(folder), request.param, 2000) as (device, point),
    ):
        Path(folder).chmod(0o755)
        home = point / "server"
        home.mkdir()
        shutil.chown(home, "postgres")

        def run(program, *words):
            command = ["runuser", "-u", "postgres", "--", str(POSTGRES / program), *words]
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        data = home / "data"
        run("initdb", "-D", str(data), "-A", "trust")
        settings = ["listen_addresses=", f"unix_socket_directories={home}", "shared_buffers=32MB"]
        settings += ["max_wal_size=64MB", "checkpoint_timeout=30s"]
        words = " ".join(f"-c {word}" for word in settings)
        run("pg_ctl", "-D", str(data), "-o", words, "-l", str(home / "log"), "-w", "start")
        try:
            run("pgbench", "-h", str(home), "-i", "-s", "10", "-q", "postgres")
            yield device, lambda *words: run("pgbench", "-h", str(home), "-c", "4", *words, "postgres")
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


@pytest.mark.slow
@pytest.mark.parametrize("server", ["ext4", "xfs"], indirect=True)
@pytest.mark.parametrize("connecting", [[], ["-C"]], ids=["pooled", "connecting"])
def test_the_io_of_postgresql_leads_to_its_files(server, tmp_path, connecting):
    device, pgbench = server
    path = tmp_path / "r.iotrace"
    seconds = os.environ.get("IOTRACE_PGBENCH_SECONDS", "8")
    with recording_of(device, path) as outcome:
        subprocess.run(["sync"], check=True)  # what this process writes is iotrace's own, and left out
        before = disk_sectors(device)
        pgbench("-T", seconds, *connecting)
        subprocess.run(["sync"], check=True)
        after = disk_sectors(device)
    quality = outcome[0].manifest.quality
    print(*quality.notes, sep="\n")
    assert quality.events_lost == 0

    *sectors, _ = (now - then for then, now in zip(before, after, strict=True))
    first_ns, last_ns = (at[2] - outcome[0].manifest.clock.start_utc_ns for at in (before, after))
    moved = dict(
        ask(
            path,
            f"""
            SELECT op, sum(size_bytes)::BIGINT FROM io
            WHERE layer = 'device' AND completed_ns BETWEEN {first_ns} AND {last_ns} GROUP BY op
            """,
        )
    )
    for op, count in zip(("read", "write"), sectors, strict=True):
        assert moved.get(op, 0) == pytest.approx(count * 512, rel=0.001, abs=0), op

    [(ios, known_ios, size, known_size)] = ask(
        path,
        """
        SELECT count(*), count(file_id), sum(io.size_bytes), sum(io.size_bytes) FILTER (file_id IS NOT NULL)
        FROM io LEFT JOIN files USING (file_id) WHERE layer = 'block' AND op IN ('read', 'write')
        """,
    )
    print(
        f"{known_ios} of {ios} I/Os, {known_size} of {size} bytes; device {moved}, kernel {sectors} sectors"
    )
    assert known_ios >= 0.95 * ios
    assert known_size >= 0.95 * size

    # The log is written through the cache and flushed at once: what calls wrote there reached the device, rounded up to
    # pages, and nothing else of the log did.
    log = dict(
        ask(
            path,
            """
            SELECT layer, sum(io.size_bytes)::BIGINT FROM io JOIN files USING (file_id)
            WHERE role = 'log' AND op = 'write' GROUP BY layer
            """,
        )
    )
    assert log["filesystem"] == pytest.approx(log["block"], rel=0.02)
    assert {name for (name,) in ask(path, "SELECT DISTINCT role FROM io JOIN files USING (file_id)")} >= {
        "data",
        "log",
        "system",
    }
