"""Public block traces, and what holds for every text format: told apart, cut ends, any bytes."""

import csv
import gzip
import random
import struct
from pathlib import Path

import pytest

from iotrace.capture.formats import registry
from iotrace.capture.formats.format import HEAD_BYTES
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

SAMPLES = Path(__file__).parents[5] / "shared" / "samples"
FIXTURES = Path(__file__).parents[3] / "fixtures"
EXPECTED = {
    "linux/perf-loop.txt": "perf",
    "linux/blkparse.txt": "blkparse",
    "linux/biosnoop.txt": "biosnoop",
    "linux/perf-trace.txt": "perf-trace",
    "linux/collectl.txt": "collectl",
    "linux/fio-v2.log": "fio",
    "linux/fio-v3.log": "fio",
    "public/msr.csv": "msr",
    "public/alibaba.csv": "alibaba",
    "public/tencent.csv": "tencent",
    "public/disksim.txt": "disksim",
    "public/mqsim.txt": "mqsim",
    "xperf/dumper.csv": "xperf",
    "xperf/diskio-detail.csv": "xperf-diskio",
    "xperf/wpa-german.csv": "wpa",
    "xperf/tracerpt.csv": "tracerpt-csv",
    "xperf/tracerpt.xml": "tracerpt-xml",
    "linux/iostat.txt": "sysstat",
    "linux/sadf.csv": "sysstat",
    "array/flasharray.csv": "array-csv",
    "array/powerstore.csv": "array-csv",
    "linux/diskstats.log": "diskstats",
    "linux/biolatency.txt": "biolatency",
    "public/disksim-validation.txt": "disksim-validation",
    "monitoring/prometheus.json": "prometheus",
    "monitoring/cloudwatch.json": "cloudwatch",
    "monitoring/cloudwatch-data.json": "cloudwatch",
    "monitoring/azure-monitor.json": "azure-monitor",
    "monitoring/cloudwatch-console.csv": "cloudwatch",
    "monitoring/cloudwatch-long.csv": "cloudwatch",
    "monitoring/cloudwatch-text.csv": "cloudwatch",
    "monitoring/azure-portal.csv": "azure-monitor",
    "monitoring/azure-table.txt": "azure-monitor",
    "monitoring/vscsistats.csv": "vscsistats",
}
TRACES = sorted(EXPECTED)


def sample(name):
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def rows_of(path, tmp_path, table="io"):
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    return recording, recording.read(table).to_pylist()


def recognised_as(path):
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return [entry.name for entry in registry.OURS if entry.load().recognises(head, path)]


def test_every_fixture_is_known():
    folders = ("linux", "public", "xperf", "array", "monitoring")
    found = {
        f"{folder}/{path.name}"
        for folder in folders
        for path in (FIXTURES / folder).iterdir()
        if path.is_file()
    }
    assert {name for name in found if not name.endswith("README.md")} == set(EXPECTED)


@pytest.mark.parametrize("name", TRACES)
def test_every_fixture_is_one_format_only(name):
    assert recognised_as(FIXTURES / name) == [EXPECTED[name]]


def test_every_sample_is_at_most_one_format():
    if not SAMPLES.is_dir():
        pytest.skip(f"no {SAMPLES}")
    for path in sorted(SAMPLES.rglob("*.*")):
        if path.is_file():
            # A counter log lies in the container of event traces: there the first that knows it wins.
            assert len(set(recognised_as(path)) - {"etl"}) <= 1, path
    for name, kind in (
        ("linux/takeoverjp_sample.blktrace.1", "blktrace"),
        ("linux/takeoverjp_sample.blkparse.txt", "blkparse"),
        ("linux/fio_t0038.iolog", "fio"),
        ("block/libcachesim_cloudPhysicsIO.vscsi", "vscsi"),
        ("block/mqsim_tpcc-small.trace", "mqsim"),
    ):
        assert recognised_as(sample(name)) == [kind]


def test_perfmon_csv_is_none_of_these(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        '"(PDH-CSV 4.0) (UTC)(0)","\\\\A\\PhysicalDisk(0)\\Disk Reads/sec"\n"11/21/2026 02:00:00.000","1"\n'
    )
    assert not {"msr", "alibaba", "tencent", "array-csv", "xperf", "tracerpt-csv"} & set(recognised_as(path))


def test_vscsi_row_by_row(tmp_path):
    """Against libCacheSim's own CSV of the same trace, whose times are cut to seconds."""
    _, rows = rows_of(sample("block/libcachesim_cloudPhysicsIO.vscsi"), tmp_path)
    with gzip.open(sample("block/libcachesim_cloudPhysicsIO.csv.gz"), "rt") as file:
        told = list(csv.DictReader(file))
    first_us = 5_633_898_368_802  # of the first record, as xxd shows it: 22 cf 82 be 1f 05
    assert len(rows) == len(told) == 113_872
    codes = {"28": "read", "2a": "write"}
    for row, line in zip(rows, told, strict=True):
        assert row["offset_bytes"] == int(line["lbn"]) * 512
        assert row["size_bytes"] == int(line["size"])
        assert row["op"] == codes[line["op"]]
        assert (first_us + row["issued_ns"] // 1000) // 1_000_000 == int(line["time"])


def test_vscsi_version_2_has_responses(tmp_path):
    path = tmp_path / "a.vscsi"
    commands = ((0x28, 100, 250), (0x2A, 200, 90), (0x00, 300, 1))
    path.write_bytes(
        b"".join(
            struct.pack("<HHIIIQQQ", code, 0x200, n, 4096, 1, 7, at, rt)
            for n, (code, at, rt) in enumerate(commands)
        )
    )
    recording, rows = rows_of(path, tmp_path)
    assert [(row["op"], row["issued_ns"], row["completed_ns"]) for row in rows] == [
        ("read", 0, 250_000),
        ("write", 100_000, 190_000),
    ]
    assert "1 command left out that moved no data" in recording.manifest.quality.notes


def test_mqsim_row_by_row(tmp_path):
    path = sample("block/mqsim_tpcc-small.trace")
    recording, rows = rows_of(path, tmp_path)
    names = {device["device_id"]: device["name"] for device in recording.read("devices").to_pylist()}
    told = [line.split() for line in path.read_text().splitlines()]
    start = int(told[0][0])
    got = sorted(
        (row["issued_ns"] + start, names[row["device_id"]], row["offset_bytes"], row["size_bytes"], row["op"])
        for row in rows
    )
    assert got == sorted(
        (int(time), f"device {device}", int(place) * 512, int(count) * 512, ("write", "read")[int(kind)])
        for time, device, place, count, kind in told
    )
    assert len(rows) == 6999


def test_msr(tmp_path):
    recording, rows = rows_of(FIXTURES / "public/msr.csv", tmp_path)
    assert [
        (row["op"], row["issued_ns"], row["completed_ns"], row["offset_bytes"], row["size_bytes"])
        for row in rows
    ] == [
        ("read", 0, 41_300, 383496192, 32768),
        ("write", 1_332_052_600, 1_332_152_600, 383528960, 4096),
    ]
    assert recording.read("devices")["name"].to_pylist() == ["hm disk 1"]
    # 2007-02-22 17:00:00 UTC, when MSR's week begins, is FILETIME 128166372000000000.
    assert recording.manifest.clock.start_utc_ns == 1_172_163_600 * 10**9 + 306_162_900


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alibaba.csv", [("write", 0, 8792731648, 16384), ("read", 46_000, 59110326272, 360448)]),
        ("tencent.csv", [("read", 0, 12910952 * 512, 65536), ("write", 10**9, 6338688 * 512, 4096)]),
        ("disksim.txt", [("read", 0, 1024 * 512, 4096), ("write", 750_000, 2048 * 512, 8192)]),
        ("mqsim.txt", [("write", 0, 264719034 * 512, 8192), ("read", 315_000, 197570570 * 512, 8192)]),
    ],
)
def test_traces_without_latency(tmp_path, name, expected):
    _, rows = rows_of(FIXTURES / "public" / name, tmp_path)
    assert [(row["op"], row["issued_ns"], row["offset_bytes"], row["size_bytes"]) for row in rows] == expected
    assert {row["completed_ns"] for row in rows} == {None}


@pytest.mark.parametrize("name", [name for name in TRACES if not name.endswith((".xml", ".json"))])
def test_a_last_line_without_an_end_is_left_out_and_said(tmp_path, name):
    data = (FIXTURES / name).read_bytes().rstrip(b"\n")
    path = tmp_path / Path(name).name
    path.write_bytes(data[: len(data) - 2])
    recording = import_files([path], tmp_path / "out.iotrace")
    assert recording.manifest.quality.truncated_tail
    whole = import_files([FIXTURES / name], tmp_path / "whole.iotrace")
    table = "counters" if name.startswith("array") else "io"
    assert recording.manifest.rows[table] <= whole.manifest.rows[table]


def test_lines_that_are_no_io_count_as_lost(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes((FIXTURES / "public/msr.csv").read_bytes() * 3 + b"nonsense\n1,2,3,4,5,6,7\n")
    recording, rows = rows_of(path, tmp_path)
    assert len(rows) == 6
    assert recording.manifest.quality.events_lost == 2
    assert recording.manifest.quality.verdict == "poor"


def test_an_absurd_response_is_dropped_and_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"128166372003061629,hm,1,Read,0,4096,{10**17}\n")
    recording, rows = rows_of(path, tmp_path)
    assert rows[0]["completed_ns"] is None
    assert recording.manifest.quality.latencies_dropped == 1


def test_inspect_tells_without_importing():
    for name, kind in EXPECTED.items():
        entry = registry.of_name(kind)
        told = entry.inspect(FIXTURES / name, name)
        assert told["whole"] is True


@pytest.mark.parametrize("seed", range(2))
def test_fuzz_any_damage_gives_a_recording_or_a_clear_error(tmp_path, seed):
    """Bytes flipped, lines repeated, the middle cut out: never anything but a recording or an `IotraceError`."""
    generator = random.Random(seed)
    for name in TRACES:
        data = bytearray((FIXTURES / name).read_bytes() * 3)
        for _ in range(generator.choice((1, 5, 60))):
            data[generator.randrange(len(data))] = generator.choice(
                (0, 10, 44, 45, 57, 255, generator.randrange(256))
            )
        cut = generator.randrange(len(data))
        data = data[:cut] + data[cut + generator.randrange(1, 200) :]
        path = tmp_path / Path(name).name
        path.write_bytes(data)
        try:
            recording = import_files([path], tmp_path / "out.iotrace", overwrite=True)
        except IotraceError as problem:
            assert "\n" not in problem.message  # noqa: PT017 - either outcome is right
        else:
            assert validate(recording.path) == []


@pytest.mark.parametrize("seed", range(1))
def test_fuzz_of_the_binary_readers(tmp_path, seed):
    generator = random.Random(seed)
    record = struct.pack("<IIQQIIIIIHH", 0x65617407, 1, 5, 100, 4096, 1 | 1 << 16, 7, 8 << 20, 0, 0, 0)
    scsi = struct.pack("<IIIHHQQ", 1, 4096, 1, 0x28, 0x100, 7, 100)
    for plain in (record, scsi):
        for _ in range(20):
            data = bytearray(plain * 50)
            for _ in range(generator.randrange(1, 80)):
                data[generator.randrange(48, len(data))] = generator.randrange(256)
            path = tmp_path / "trace"
            path.write_bytes(data[: generator.randrange(len(plain), len(data))])
            try:
                recording = import_files([path], tmp_path / "out.iotrace", overwrite=True)
            except IotraceError:
                continue
            assert validate(recording.path) == []


def test_disksim_validation_requests_follow_the_end_of_the_one_before(tmp_path):
    """Worked out by hand: each is issued its pause after the request before it ended."""
    _, rows = rows_of(FIXTURES / "public" / "disksim-validation.txt", tmp_path)
    told = [
        [row[key] for key in ("issued_ns", "completed_ns", "op", "offset_bytes", "size_bytes")]
        for row in rows
    ]
    second, third = 663_000 + 45_422_000, 663_000 + 45_422_000 + 6_657_250 + 34_200_000
    assert told == [
        [0, 663_000, "read", 4_583_176 * 512, 2048],
        [second, second + 6_657_250, "write", 4_583_180 * 512, 6144],
        [third, third + 607_000, "read", 3_962_268 * 512, 2048],
    ]
    assert {row["layer"] for row in rows} == {"device"}


def msr_lines(seconds, first=0):
    """A read of 8 KiB at each of ``seconds`` after noon, which takes 2 ms, one place after the other."""
    noon = 128_166_372_000_000_000
    return "".join(
        f"{noon + round(at * 1e7)},h,0,Read,{number * 8192},8192,20000\n"
        for number, at in enumerate(seconds, first)
    )


def test_a_clock_set_back_is_a_flaw(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text(msr_lines([at / 10 - 30 * (at > 600) for at in range(1200)]))
    recording, _ = rows_of(trace, tmp_path)
    assert recording.manifest.quality.clock_steps == 1
    assert "the times go back by 29.9 s at 60.0 s: the clock was set back, or" in str(
        recording.manifest.quality.notes
    )


@pytest.mark.parametrize(("second", "devices", "share"), [(60, 1, None), (100, 1, 120 / 160), (0, 2, None)])
def test_a_file_that_continues_another_is_of_the_same_disk(tmp_path, second, devices, share):
    """From second 60, from second 100 after a gap of 40 s, and at the same time: then it is of another host."""
    chance = random.Random(5)
    for name, start in (("a.csv", 0), ("b.csv", second)):
        at_s = sorted(start + 60 * chance.random() for _ in range(600))
        (tmp_path / name).write_text(msr_lines(at_s, first=chance.randrange(10**6)))
    recording = import_files([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "out.iotrace")
    assert len(recording.read("devices")) == devices
    parts = recording.manifest.quality.part_recorded
    assert [round(part.recorded_ns / part.window_ns, 2) for part in parts] == (
        [] if share is None else [share]
    )
