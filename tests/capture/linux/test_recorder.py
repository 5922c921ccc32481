"""The live recorder on loop devices. Expected figures come from fio and from the kernel's own counters in /sys."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.capture.linux import record, tracefs
from iotrace.schemas import IoFlags, validate
from iotrace.schemas.host import IoLimit

from ...perf_lines import perf_lines

INSTANCES = Path("/sys/kernel/tracing/instances")

pytestmark = [
    pytest.mark.root,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="tracing and loop devices need root"
    ),
    pytest.mark.skipif(not INSTANCES.is_dir(), reason="tracefs is not mounted at /sys/kernel/tracing"),
    pytest.mark.skipif(shutil.which("losetup") is None, reason="losetup is not installed"),
]

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")


@pytest.fixture
def loop_device(tmp_path):
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    attach = ["losetup", "--find", "--show", "--partscan", "--direct-io=on", str(image)]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device to be had: {done.stderr.strip()}")
    device = done.stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture(autouse=True)
def no_instance_is_left_behind():
    yield
    assert not list(INSTANCES.glob(f"iotrace-{os.getpid()}-*"))


@contextmanager
def recording_of(devices, path, **options):
    """Record while the block runs; what is yielded holds the recording afterwards."""
    stop, outcome = threading.Event(), []
    options = {"seconds": 60, "stop": stop} | options
    thread = threading.Thread(target=lambda: outcome.append(record(devices, path, **options)))
    thread.start()
    try:
        started = time.monotonic()
        while not is_tracing() and time.monotonic() < started + 120:
            time.sleep(0.05)
        time.sleep(0.2)  # the recorder looks at the kernel's counters next
        yield outcome
        time.sleep(0.1)
    finally:
        stop.set()
        thread.join()


def is_tracing():
    """A new instance is switched on before it is set up: only then are its events enabled."""
    switches = [*INSTANCES.glob(f"iotrace-{os.getpid()}-*/tracing_on")]
    events = [folder.parent / "events/block/block_rq_issue/enable" for folder in switches]
    return any(
        {path.read_text().strip() for path in pair} == {"1"} for pair in zip(switches, events, strict=True)
    )


def statistics(device):
    """Fields of /sys/block/NAME/stat (Documentation/block/stat.rst)."""
    fields = [int(word) for word in Path("/sys/block", Path(device).name, "stat").read_text().split()]
    names = [
        "reads",
        "read_merges",
        "read_sectors",
        "read_ms",
        "writes",
        "write_merges",
        "write_sectors",
        "write_ms",
    ]
    return dict(zip(names, fields, strict=False)) | {"flushes": fields[15]}


def device_node(path, name):
    """A node of one's own: not every machine makes nodes for partitions of loop devices."""
    numbers = Path("/sys/class/block", name, "dev").read_text().split(":")
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(*(int(number) for number in numbers)))
    return str(path)


def fio(device, *options):
    command = ["fio", "--name=job", f"--filename={device}", "--direct=1", "--output-format=json", *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(text)["jobs"][0]


def ask(path, sql):
    database = duckdb.connect()
    for name in ("io", "devices", "processes", "files", "counters", "markers"):
        database.read_parquet(str(path / f"{name}.parquet")).create_view(name)
    return database.execute(sql).fetchall()


def assert_nothing_is_missing(recording):
    """All that the kernel's own counters show is there: a request, or a flush asked for without data, each."""
    quality = recording.manifest.quality
    assert (quality.missing_ios, quality.missing_bytes, quality.verdict) == (0, 0, "good")
    rows = ask(
        recording.path,
        """SELECT count(*) FILTER (layer = 'device' AND op <> 'flush' OR layer = 'block' AND op = 'flush'),
        sum(size_bytes) FILTER (layer = 'device')::BIGINT FROM io""",
    )
    assert rows == [(quality.counted_ios, quality.counted_bytes)]


@needs_fio
def test_every_io_is_there_exactly_once(loop_device, tmp_path):
    path = tmp_path / "r.iotrace"
    with recording_of([loop_device], path, roles={loop_device: "data"}) as outcome:
        before = statistics(loop_device)
        job = fio(
            loop_device, "--rw=randrw", "--bs=4k", "--ioengine=libaio", "--iodepth=16", "--number_ios=8000"
        )
        after = statistics(loop_device)

    expected = [(op, job[op]["total_ios"], job[op]["io_bytes"]) for op in ("read", "write")]
    totals = "SELECT op, count(*), sum(size_bytes)::BIGINT FROM io WHERE layer = '{}' GROUP BY op ORDER BY op"
    assert ask(path, totals.format("device")) == expected
    assert ask(path, totals.format("block")) == expected
    changes = [
        (
            f"{op}",
            after[f"{op}s"] - before[f"{op}s"],
            (after[f"{op}_sectors"] - before[f"{op}_sectors"]) * 512,
        )
        for op in ("read", "write")
    ]
    assert changes == expected

    quality = outcome[0].manifest.quality
    assert (quality.events_lost, quality.unpaired_issues, quality.unpaired_completions) == (0, 0, 0)
    assert_nothing_is_missing(outcome[0])
    assert validate(path) == []
    # The layers nest: queued, issued, done; done is one event for both.
    nested = """
        SELECT count(*) FROM io AS b JOIN io AS d USING (op, offset_bytes, size_bytes, completed_ns, thread_id)
        WHERE b.layer = 'block' AND d.layer = 'device' AND b.issued_ns <= d.issued_ns AND d.issued_ns <= d.completed_ns
    """
    assert ask(path, nested) == [(8000,)]
    assert ask(
        path,
        "SELECT DISTINCT p.name, role FROM io JOIN processes p USING (process_id) JOIN files USING (file_id)",
    ) == [("fio", "data")]


def test_buffered_writes_are_merged_and_split_without_losing_a_byte(loop_device, tmp_path):
    path = tmp_path / "r.iotrace"
    # Requests of at most 64 KiB, so that large bios have to be cut.
    Path("/sys/block", Path(loop_device).name, "queue/max_sectors_kb").write_text("64")
    with recording_of([loop_device], path) as outcome:
        before = statistics(loop_device)
        write = ["dd", "if=/dev/zero", f"of={loop_device}", "bs=1M", "count=48", "conv=fsync"]
        subprocess.run(write, check=True, capture_output=True)
        large = ["dd", "if=/dev/zero", f"of={loop_device}", "bs=1M", "count=16", "seek=64", "oflag=direct"]
        subprocess.run(large, check=True, capture_output=True)
        after = statistics(loop_device)
    written = (after["write_sectors"] - before["write_sectors"]) * 512
    assert written == 64 << 20
    by_layer = ask(
        path, "SELECT layer, sum(size_bytes)::BIGINT FROM io WHERE op = 'write' GROUP BY layer ORDER BY layer"
    )
    assert by_layer == [("block", written), ("device", written)]
    # The kernel counts the flush that fsync asked for as a write of no sectors.
    flushes = ask(path, "SELECT count(*) FROM io WHERE op = 'flush' AND layer = 'block'")[0][0]
    requests = ask(path, "SELECT count(*), max(size_bytes) FROM io WHERE op = 'write' AND layer = 'device'")
    assert requests == [(after["writes"] - before["writes"] - flushes, 65536)]
    flagged = "SELECT count(*) FROM io WHERE layer = '{}' AND flags & {} > 0"
    assert ask(path, flagged.format("device", int(IoFlags.SPLIT)))[0][0] >= 16 * (1 << 20) // 65536
    assert ask(path, "SELECT count(*) FROM io WHERE layer = 'block' AND size_bytes = 1048576")[0][0] >= 16
    # A bio that was cut ends with the last of its parts.
    ends = """
        SELECT count(*) FROM io AS b WHERE layer = 'block' AND size_bytes > 65536 AND completed_ns <> (
            SELECT max(completed_ns) FROM io AS d WHERE d.layer = 'device' AND d.issued_ns >= b.issued_ns
            AND d.offset_bytes >= b.offset_bytes AND d.offset_bytes < b.offset_bytes + b.size_bytes)
    """
    assert ask(path, ends) == [(0,)]
    assert_nothing_is_missing(outcome[0])


@needs_fio
def test_merged_bios_share_their_requests_end(loop_device, tmp_path):
    path = tmp_path / "r.iotrace"
    with recording_of([loop_device], path) as outcome:
        before = statistics(loop_device)
        # Eight at a time under one plug: neighbours are merged before they are issued.
        batch = [
            "--ioengine=libaio",
            "--iodepth=8",
            "--iodepth_batch_submit=8",
            "--iodepth_batch_complete_min=8",
        ]
        fio(loop_device, "--rw=write", "--bs=4k", "--number_ios=2048", *batch)
        after = statistics(loop_device)
    merges = after["write_merges"] - before["write_merges"]
    if merges == 0:
        pytest.skip("this kernel merged nothing")
    assert ask(path, "SELECT layer, count(*) FROM io GROUP BY layer ORDER BY layer") == [
        ("block", 2048),
        ("device", 2048 - merges),
    ]
    unlike = f"""
        SELECT count(*) FROM io AS b WHERE layer = 'block' AND flags & {int(IoFlags.MERGED)} > 0 AND NOT EXISTS (
            FROM io AS d WHERE d.layer = 'device' AND d.completed_ns = b.completed_ns AND d.size_bytes > b.size_bytes
            AND b.offset_bytes BETWEEN d.offset_bytes AND d.offset_bytes + d.size_bytes - b.size_bytes)
    """
    assert ask(path, unlike) == [(0,)]
    assert_nothing_is_missing(outcome[0])


@needs_fio
def test_flushes_are_counted_as_the_kernel_counts_them(loop_device, tmp_path):
    path = tmp_path / "r.iotrace"
    with recording_of([loop_device], path) as outcome:
        before = statistics(loop_device)
        job = fio(loop_device, "--rw=write", "--bs=8k", "--ioengine=sync", "--fdatasync=1", "--number_ios=50")
        after = statistics(loop_device)
    flushes = (
        "SELECT count(*), max(size_bytes), count(offset_bytes) FROM io WHERE op = 'flush' AND layer = '{}'"
    )
    assert ask(path, flushes.format("device")) == [(after["flushes"] - before["flushes"], 0, 0)]
    assert ask(path, flushes.format("block")) == [(job["sync"]["lat_ns"]["N"], 0, 0)]
    assert_nothing_is_missing(outcome[0])


def test_forced_unit_access_ends_after_its_flush(loop_device, tmp_path):
    path = tmp_path / "r.iotrace"
    with recording_of([loop_device], path) as outcome:
        write = ["dd", "if=/dev/zero", f"of={loop_device}", "bs=4k", "count=20", "oflag=direct,dsync"]
        subprocess.run(write, check=True, capture_output=True)
    # Loop devices have no unit access of their own: data, then a flush, and only then is the write done.
    through = int(IoFlags.WRITE_THROUGH)
    ends = f"""
        SELECT count(*), count(*) FILTER (EXISTS (FROM io AS f WHERE f.layer = 'device' AND f.op = 'flush'
            AND f.issued_ns >= b.issued_ns AND f.completed_ns <= b.completed_ns))
        FROM io AS b WHERE layer = 'block' AND op = 'write' AND flags & {through} > 0
    """
    assert ask(path, ends) == [(20, 20)]
    assert ask(path, f"SELECT count(*) FROM io WHERE layer = 'device' AND flags & {through} > 0") == [(0,)]
    assert_nothing_is_missing(outcome[0])


@needs_fio
def test_what_a_switched_off_trace_lacks_is_told(loop_device, tmp_path):
    """Nothing is lost and nothing overflows: only the disk's own counters show that a second is not there."""
    path = tmp_path / "r.iotrace"
    options = ["--rw=randrw", "--bs=4k", "--ioengine=libaio", "--iodepth=8", "--time_based", "--runtime=4"]
    with recording_of([loop_device], path) as outcome:
        play = threading.Thread(
            target=lambda: outcome.append(fio(loop_device, "--rate_iops=500,500", *options))
        )
        play.start()
        time.sleep(1.5)
        (switch,) = INSTANCES.glob(f"iotrace-{os.getpid()}-*/tracing_on")
        switch.write_text("0")
        time.sleep(1)
        switch.write_text("1")
        play.join()
    job, recording = outcome
    quality = recording.manifest.quality
    assert quality.events_lost == 0
    assert quality.verdict == "poor"
    (seen,) = ask(path, "SELECT count(*) FROM io WHERE layer = 'device'")[0]
    done = job["read"]["total_ios"] + job["write"]["total_ios"]
    assert quality.counted_ios == done
    assert quality.missing_ios == done - seen > 0
    assert quality.missing_bytes == 4096 * quality.missing_ios
    assert f"{quality.missing_ios:,} I/Os" in quality.reasons[0]


@needs_fio
def test_a_partition_is_recorded_without_its_neighbours(loop_device, tmp_path):
    path = tmp_path / "r.iotrace"
    for number, start in ((1, 2048), (2, 131072)):
        subprocess.run(["addpart", loop_device, str(number), str(start), "65536"], check=True)
    name = Path(loop_device).name
    parts = [device_node(tmp_path / "p1", f"{name}p1"), device_node(tmp_path / "p2", f"{name}p2")]
    with recording_of([parts[0]], path):
        for part in parts:
            fio(part, "--rw=randread", "--bs=4k", "--ioengine=sync", "--number_ios=300", "--size=16M")
    assert ask(
        path, "SELECT layer, count(*), count(DISTINCT device_id) FROM io GROUP BY layer ORDER BY layer"
    ) == [
        ("block", 300, 1),
        ("device", 300, 1),
    ]
    low, high = ask(path, "SELECT min(offset_bytes), max(offset_bytes) FROM io")[0]
    assert 2048 * 512 <= low <= high < (2048 + 65536) * 512
    assert ask(path, "SELECT name, kind::TEXT, parent_device_id, start_bytes, size_bytes FROM devices") == [
        (name, "disk", None, None, 256 << 20),
        (f"{name}p1", "partition", 0, 2048 * 512, 65536 * 512),
        (f"{name}p2", "partition", 0, 131072 * 512, 65536 * 512),
    ]


def test_a_device_that_takes_bios_has_no_device_layer(tmp_path):
    add = Path("/sys/class/zram-control/hot_add")
    if not add.exists():
        pytest.skip("no zram to try it on")
    number = add.read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text("16M")
        device = f"/dev/zram{number}"
        with recording_of([device], tmp_path / "r.iotrace") as outcome:
            write = ["dd", "if=/dev/zero", f"of={device}", "bs=4k", "count=100", "oflag=direct"]
            subprocess.run(write, check=True, capture_output=True)
        rows = ask(
            tmp_path / "r.iotrace",
            "SELECT layer, count(*), sum(size_bytes)::BIGINT FROM io WHERE op = 'write' GROUP BY 1",
        )
        assert rows == [("block", 100, 409600)]
        assert any("has no device layer" in note for note in outcome[0].manifest.quality.notes)
    finally:
        Path("/sys/class/zram-control/hot_remove").write_text(number)


def test_a_limit_of_a_cgroup_is_told_whether_it_was_there_at_the_start_or_came_later(loop_device, tmp_path):
    top = Path("/sys/fs/cgroup/blkio")
    if not (top / "blkio.throttle.read_iops_device").exists():
        pytest.skip("no cgroup of version 1 here throttles block devices")
    status = Path(loop_device).stat()
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    groups = [top / f"iotrace-test-{os.getpid()}-{name}" for name in ("first", "later")]
    for group in groups:
        group.mkdir()
    try:
        (groups[0] / "blkio.throttle.read_iops_device").write_text(f"{number} 200")
        with recording_of([loop_device], tmp_path / "r.iotrace") as outcome:
            (groups[1] / "blkio.throttle.write_bps_device").write_text(f"{number} 1048576")
    finally:
        for group in groups:
            group.rmdir()
    name = Path(loop_device).name
    assert outcome[0].manifest.host.io_limits == [
        IoLimit(f"/{groups[0].name}", name, read_iops=200),
        IoLimit(f"/{groups[1].name}", name, write_bytes_per_s=1 << 20),
    ]


def test_the_recorders_own_io_is_left_out(loop_device, tmp_path):
    with recording_of([loop_device], tmp_path / "r.iotrace") as outcome:
        handle = os.open(loop_device, os.O_RDONLY)
        os.pread(handle, 1 << 20, 32 << 20)
        os.close(handle)
    assert ask(tmp_path / "r.iotrace", "SELECT count(*) FROM io") == [(0,)]
    assert any("of iotrace itself left out" in note for note in outcome[0].manifest.quality.notes)


@needs_fio
def test_a_kernel_without_large_pages_is_read_as_well(loop_device, tmp_path, monkeypatch):
    write = tracefs.TraceInstance.write
    sizes = []

    def refuse_large_pages(self, name, value):
        if name == "buffer_subbuf_size_kb":
            raise FileNotFoundError(2, "No such file or directory", name)
        write(self, name, value)
        if name == "tracing_on" and value == "1":
            sizes.append((self.folder / "events" / "header_page").read_text())

    monkeypatch.setattr(tracefs.TraceInstance, "write", refuse_large_pages)
    path = tmp_path / "r.iotrace"
    with recording_of([loop_device], path) as outcome:
        job = fio(
            loop_device, "--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=16", "--number_ios=4000"
        )
    assert f"size:{os.sysconf('SC_PAGE_SIZE') - 16};" in sizes[0]
    assert ask(path, "SELECT layer, count(*), sum(size_bytes)::BIGINT FROM io GROUP BY ALL ORDER BY ALL") == [
        (layer, job["read"]["total_ios"], job["read"]["io_bytes"]) for layer in ("block", "device")
    ]
    assert outcome[0].manifest.quality.events_lost == 0


@needs_fio
def test_the_kernels_text_of_the_same_ios_gives_the_same_rows(loop_device, tmp_path):
    """A second tracing instance sees the same I/Os; it stamps them for itself, so times are not compared."""
    number = Path(loop_device).stat().st_rdev
    second = INSTANCES / f"beside-iotrace-{os.getpid()}"
    with recording_of([loop_device], tmp_path / "live.iotrace"):
        second.mkdir()
        try:
            for name in tracefs.BlockTrace.event_names():
                event = second / "events" / "block" / name
                (event / "filter").write_text(f"dev == {os.major(number) << 20 | os.minor(number)}")
                (event / "enable").write_text("1")
            fio(
                loop_device,
                "--ioengine=libaio",
                "--rw=randrw",
                "--size=8M",
                "--io_size=2M",
                "--iodepth=8",
                "--fsync=8",
            )
            fio(loop_device, "--rw=randtrim", "--bs=64k", "--size=8M", "--io_size=1M")
            subprocess.run(["blkdiscard", "--zeroout", "--length", "1M", loop_device], check=True)
            (second / "tracing_on").write_text("0")
            text = (second / "trace").read_text()
        finally:
            second.rmdir()
    (tmp_path / "perf.txt").write_text(perf_lines(text))
    import_files([tmp_path / "perf.txt"], tmp_path / "text.iotrace")
    query = "select layer, op, offset_bytes, size_bytes, flags, error, count(*) n from '{}' group by all order by all"
    with duckdb.connect() as connection:
        live, told = (
            connection.execute(query.format(tmp_path / name / "io.parquet")).fetchall()
            for name in ("live.iotrace", "text.iotrace")
        )
    assert {row[1] for row in live} == {"read", "write", "flush", "discard"}
    assert live == told


@needs_fio
def test_losses_are_counted_and_spoil_no_pair(loop_device, tmp_path, monkeypatch):
    monkeypatch.setattr(tracefs, "_BUFFER_BYTES_MAX", 16384)
    monkeypatch.setattr(tracefs, "_BUFFER_BYTES_MIN", 16384)
    path = tmp_path / "r.iotrace"
    options = ["--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=8", "--time_based", "--runtime=3"]
    with recording_of([loop_device], path, progress=lambda _: time.sleep(0.5)) as outcome:
        job = fio(loop_device, *options)
    quality = outcome[0].manifest.quality
    assert quality.events_lost > 0
    assert quality.verdict != "good"
    seen, longest_ns = ask(
        path, "SELECT count(*), max(completed_ns - issued_ns) FROM io WHERE layer = 'device'"
    )[0]
    assert 0 < seen < job["read"]["total_ios"]
    # From before fio asks until after it is told; "clat" begins only when the kernel has taken the request.
    assert longest_ns <= job["read"]["lat_ns"]["max"]
    assert validate(path) == []


def test_the_window_begins_when_events_are_let_in(loop_device, tmp_path, monkeypatch):
    """On a busy host that can be seconds after the clock was read, of which nothing can be known."""
    start = tracefs.TraceInstance.start

    def late(instance):
        time.sleep(0.7)
        start(instance)

    monkeypatch.setattr(tracefs.TraceInstance, "start", late)
    found = record([loop_device], tmp_path / "r.iotrace", seconds=0.3).manifest
    assert found.window_start_ns >= 700_000_000
    assert found.duration_ns >= 300_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_recording_and_keeps_it(loop_device, tmp_path, number):
    path = tmp_path / "r.iotrace"
    code = f"from iotrace.capture.linux import record; record([{loop_device!r}], {str(path)!r}, seconds=None)"
    process = subprocess.Popen([sys.executable, "-c", code])
    folders = []
    while process.poll() is None and not folders:
        time.sleep(0.1)
        folders = list(INSTANCES.glob(f"iotrace-{process.pid}-*"))
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(timeout=20) == 0
    assert validate(path) == []
    assert not folders[0].exists()


def test_what_goes_wrong_leaves_nothing_behind(loop_device, tmp_path):
    def fail(_):
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        record([loop_device], tmp_path / "r.iotrace", seconds=5, progress=fail)
    assert [entry.name for entry in tmp_path.iterdir()] == ["disk.img"]


def test_leftovers_of_a_killed_recorder_are_removed(loop_device, tmp_path):
    leftover = INSTANCES / f"iotrace-{2**22 + 1}-abcdef"  # beyond the largest process number
    leftover.mkdir()
    somebodys = INSTANCES / "iotrace-my-debug"
    somebodys.mkdir()
    try:
        record([loop_device], tmp_path / "r.iotrace", seconds=0.2)
        assert not leftover.exists()
        assert somebodys.exists()
    finally:
        somebodys.rmdir()
