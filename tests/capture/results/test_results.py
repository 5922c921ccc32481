"""Results of other tools: the fixtures, series of runs, captures beside them, bad input."""

import random
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.capture.formats import registry
from iotrace.capture.formats.format import HEAD_BYTES
from iotrace.capture.importing import recognition
from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.traces import import_any, import_files
from iotrace.capture.results import vdbench
from iotrace.schemas import (
    Clock,
    IotraceError,
    Manifest,
    Recording,
    Sweep,
    conform,
    validate,
)

from ...recordings import write_recording

FIXTURES = Path(__file__).parents[2] / "fixtures" / "results"
EXPECTED = {
    "diskspd.txt": "diskspd-text",
    "diskspd.xml": "diskspd-xml",
    "fio-plus.txt": "fio-json",
    "fio.json": "fio-json",
    "per_clat.1.log": "fio-log",
    "per_lat.1.log": "fio-log",
    "per_bw.1.log": "fio-log",
    "avg_clat.1.log": "fio-log",
    "avg_bw.1.log": "fio-log",
    "avg_iops.1.log": "fio-log",
    "hammerdb.log": "hammerdb",
    "hammerdb-3.log": "hammerdb",
    "hdbxtprofile.log": "hammerdb",
    "sqlio.txt": "sqlio",
    "iometer.csv": "iometer",
    "flatfile.html": "vdbench",
    "fio-normal.txt": "fio-text",
    "crystaldiskmark.txt": "crystaldiskmark",
    "crystaldiskmark-6.txt": "crystaldiskmark",
    "elbencho.csv": "elbencho",
}
RESULTS = sorted(name for name, kind in EXPECTED.items() if kind != "fio-log")
MARCH_1 = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * 10**9


def rows_of(tmp_path, *names):
    recording = import_files([FIXTURES / name for name in names], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    rows = recording.read("results").to_pylist()
    return recording, {(row["run"], row["op"]): row for row in rows}


def read(path):
    """Rows of ``results`` without a recording being written."""
    head = path.read_bytes()[:HEAD_BYTES]
    entry = recognition.recognise(head, path)
    if entry is None:
        raise recognition.not_recognised(head, str(path))
    trace = entry.read(path, str(path), lambda *_: None)
    return [
        row
        for table, batch in trace.batches()
        if table == "results"
        for row in conform(batch, table).to_pylist()
    ]


def quantiles(row):
    return {entry["quantile"]: entry["latency_ns"] for entry in row["quantiles"] or []}


def test_every_fixture_is_of_one_format_only():
    assert {path.name for path in FIXTURES.iterdir()} - {"README.md"} == set(EXPECTED)
    for name, kind in EXPECTED.items():
        head = (FIXTURES / name).read_bytes()[:HEAD_BYTES]
        known = [entry.name for entry in registry.OURS if entry.load().recognises(head, FIXTURES / name)]
        assert known == [kind], name


@pytest.mark.parametrize("name", RESULTS)
def test_inspect_tells_what_was_run(name):
    (found,) = inspect_path(FIXTURES / name).traces
    assert found.problem is None
    assert found.facts["whole"] is True
    assert found.facts["runs"] >= 1


def test_diskspd_with_two_timespans_two_targets_and_a_rate(tmp_path):
    recording, rows = rows_of(tmp_path, "diskspd.txt")
    total = rows[0, "total"]
    assert (total["offered_iops"], total["outstanding"], total["threads"]) == (2 * 2 * 200, 2 * 2 * 4, 4)
    assert (total["size_bytes"], total["target"]) == (8192, r"D:\a.dat, E:\b.dat")
    assert quantiles(rows[0, "read"]) == {0.5: 1_300_000, 0.99: 4_000_000, 0.999: 8_000_000}
    assert (rows[1, "read"]["iops"], rows[1, "read"]["latency_clock"]) == (1000.0, None)
    assert (rows[1, "total"]["access"], rows[1, "total"]["started_ns"]) == ("sequential", None)
    told = {
        (row["instance"], row["counter"]): row["value"]
        for row in recording.read("counters").to_pylist()
        if row["object"] == "DiskSpd target"
    }
    assert told[r"E:\b.dat", "write latency 99th"] == 6_000_000
    assert recording.manifest.clock.start_utc_ns == MARCH_1 + 36_002 * 10**9


def test_diskspd_xml_of_22(tmp_path):
    recording, rows = rows_of(tmp_path, "diskspd.xml")
    total = rows[0, "total"]
    assert (total["ios"], total["iops"], total["bytes"]) == (800, 400.0, 800 * 8192)
    assert (total["offered_iops"], total["outstanding"], total["access"]) == (200, 16, "mixed")
    assert quantiles(rows[0, "write"]) == {0.5: 1_200_000, 0.99999: 4_000_000}
    assert (rows[0, "read"]["latency_ns_min"], rows[0, "read"]["latency_ns_max"]) == (100_000, 3_500_000)
    assert any("DiskSpd 2.2 drains" in note for note in recording.manifest.quality.notes)


def test_fio_against_its_own_text_of_the_same_run(tmp_path):
    """fio printed both: its table of percentiles rounds to what its histogram resolves, and so do the merged ones."""
    _, rows = rows_of(tmp_path, "fio-plus.txt")
    text = (FIXTURES / "fio-plus.txt").read_text()
    printed = [
        {round(float(p) / 100, 5): int(value) for p, value in re.findall(r"([\d.]+)th=\[ *(\d+)\]", block)}
        for block in re.findall(r"clat percentiles \(\w+\):\n((?: *\| .*\n)+)", text)
    ]
    counts = [int(n) for n in re.findall(r"issued rwts: total=(\d+),", text)]
    single = rows[1, "write"]
    assert quantiles(single) in printed
    assert rows[0, "read"]["ios"] == sum(counts[:2])
    for op in ("read", "write"):
        row = rows[0, op]
        assert sum(entry["ios"] for entry in row["histogram"]) == row["ios"]
        for quantile, value in quantiles(row).items():
            below = sum(entry["ios"] for entry in row["histogram"] if entry["latency_ns"] < value)
            upto = sum(entry["ios"] for entry in row["histogram"] if entry["latency_ns"] <= value)
            assert below < quantile * row["ios"] <= upto


def test_fio_jobs_of_a_group_are_one_run(tmp_path):
    _, rows = rows_of(tmp_path, "fio-plus.txt")
    total = rows[0, "total"]
    assert (total["test"], total["outstanding"], total["threads"]) == ("mixed", 16, 2)
    assert total["ios"] == rows[0, "read"]["ios"] + rows[0, "write"]["ios"] == 4096
    assert (rows[1, "total"]["test"], rows[1, "total"]["size_bytes"]) == ("log", 60 << 10)


def test_fio_with_a_rate(tmp_path):
    _, rows = rows_of(tmp_path, "fio.json")
    assert (rows[0, "total"]["offered_iops"], rows[0, "total"]["outstanding"]) == (40_000, 8)


def test_fio_before_nanoseconds(tmp_path):
    """fio 2: latencies in whole microseconds, io_bytes in KiB."""
    path = tmp_path / "old.json"
    path.write_text(
        '{"fio version" : "fio-2.2.10", "jobs" : [{"jobname" : "a", "groupid" : 0, "error" : 0, "read" : {'
        '"io_bytes" : 4000, "bw" : 400, "iops" : 100.5, "runtime" : 10000, "total_ios" : 1000, '
        '"slat" : {"min" : 1, "max" : 9, "mean" : 2.5, "stddev" : 1.0}, '
        '"clat" : {"min" : 50, "max" : 900, "mean" : 81.25, "stddev" : 3.5, "percentile" : '
        '{"50.000000" : 80, "99.000000" : 150, "0.00" : 0}}, "lat" : {"min" : 51, "max" : 901, "mean" : 83.0, '
        '"stddev" : 3.5}}}]}\n'
    )
    recording = import_files([path], tmp_path / "out.iotrace")
    row = next(row for row in recording.read("results").to_pylist() if row["op"] == "read")
    assert (row["bytes"], row["bytes_per_second"]) == (4000 << 10, 400 << 10)
    assert (row["latency_ns_mean"], row["latency_ns_max"]) == (81_250, 900_000)
    assert quantiles(row) == {0.5: 80_000, 0.99: 150_000}


def test_hammerdb_and_its_time_profiles_become_a_sweep_by_virtual_users(tmp_path):
    made = import_any([FIXTURES / "hammerdb.log", FIXTURES / "hdbxtprofile.log"], tmp_path / "out.iotrace")
    assert isinstance(made, Sweep)
    assert (made.settings.axis, [step.scale for step in made.steps]) == ("virtual_users", [8, 16, 32])
    found = []
    for recording in made.recordings():
        rows = {row["op"]: row for row in recording.read("results").to_pylist()}
        assert list(rows) == ["NEWORD", "PAYMENT", "total"]
        found.append((rows["total"]["new_orders_per_minute"], quantiles(rows["NEWORD"])[0.99]))
        assert rows["NEWORD"]["latency_ns_stddev"] is None  # clock clicks up to 5.0
        assert {source.name.rpartition("/")[2] for source in recording.manifest.sources} == {
            "hammerdb.log", "hdbxtprofile.log",
        }  # fmt: skip
    assert found == [(120_500, 6_000_000), (201_000, 9_500_000), (230_100, 41_000_000)]


def test_without_dates_a_profile_goes_by_its_virtual_users(tmp_path):
    def undated(name):
        lines = (FIXTURES / name).read_text().splitlines(keepends=True)
        path = tmp_path / name
        path.write_text("".join(line for line in lines if " @ " not in line))
        return path

    # The profiles come in another order than the runs.
    parts = re.split(r"(?=MSSQLServer Hammerdb)", (FIXTURES / "hdbxtprofile.log").read_text())
    (tmp_path / "reversed.log").write_text("".join(reversed(parts)).replace(" @ ", " at "))
    made = import_any([undated("hammerdb.log"), tmp_path / "reversed.log"], tmp_path / "out.iotrace")
    assert [step.scale for step in made.steps] == [8, 16, 32]
    for recording, p99_ns in zip(made.recordings(), (6_000_000, 9_500_000, 41_000_000), strict=True):
        rows = {row["op"]: row for row in recording.read("results").to_pylist()}
        assert quantiles(rows["NEWORD"])[0.99] == p99_ns
        assert rows["total"]["started_ns"] is None


def test_no_password_is_kept(tmp_path):
    import_any([FIXTURES / "hammerdb.log"], tmp_path / "out.iotrace")
    for path in (tmp_path / "out.iotrace").rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_the_old_time_profile_has_percentiles_of_intervals_only(tmp_path):
    recording, rows = rows_of(tmp_path, "hammerdb-3.log")
    order = rows[0, "NEWORD"]
    assert (order["transactions"], order["latency_ns_mean"], order["quantiles"]) == (93_933, 873_000, None)
    assert (order["latency_ns_min"], order["latency_ns_max"]) == (391_000, 246_555_000)
    assert (rows[0, "total"]["new_orders_per_minute"], rows[0, "total"]["virtual_users"]) == (101_789, 4)
    p99 = [row["value"] for row in recording.read("counters").to_pylist()
           if row["instance"] == "NEWORD" and row["counter"] == "p99 latency"]  # fmt: skip
    assert p99 == [3_298_000, 4_370_000]


def test_a_capture_beside_is_cut_to_each_run(tmp_path):
    """WRITELOG grows from run to run; 20 minutes lie between them, which belong to none."""
    streams = tmp_path / "capture"
    streams.mkdir()
    start = MARCH_1 + 9 * 3600 * 10**9  # 10:00 CET
    waits = [
        {"at_ns": minute * 60 * 10**9, "wait_type": "WRITELOG", "duration_ns": (minute // 20 + 1) * 1_000_000}
        for minute in range(60)
    ]
    manifest = Manifest("captured", "night", Clock(start, 1.0, "test"), 0, 3600 * 10**9)
    (streams / "manifest.json").write_text(manifest.to_json())
    with pa.OSFile(str(streams / "waits.arrows"), "wb") as file:
        table = conform(pa.Table.from_pylist(waits), "waits")
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    made = import_any([FIXTURES / "hammerdb.log", streams], tmp_path / "out.iotrace")
    assert isinstance(made, Sweep)
    assert list((tmp_path).glob(".*")) == []
    durations = []
    for recording in made.recordings():
        assert validate(recording.path) == []
        rows = recording.read("waits").to_pylist()
        assert len(rows) == 5
        assert all(0 <= row["at_ns"] < 300 * 10**9 for row in rows)
        durations += {row["duration_ns"] for row in rows}
    # The runs are in order of virtual users: 8 (the second in time), 16, 32.
    assert durations == [2_000_000, 1_000_000, 3_000_000]


def test_undated_runs_cannot_be_placed_in_a_capture(tmp_path):
    write_recording(tmp_path / "a.iotrace", clock=Clock(MARCH_1, 1.0, "test"), window_end_ns=10**9)
    trace = tmp_path / "msr.csv"
    trace.write_text("128166372003061629,hm,1,Read,383496192,32768,413\n" * 3)
    with pytest.raises(IotraceError, match="cannot be cut"):
        import_any([FIXTURES / "sqlio.txt", trace], tmp_path / "out.iotrace")
    assert not (tmp_path / "out.iotrace").exists()


def test_sqlio(tmp_path):
    recording, rows = rows_of(tmp_path, "sqlio.txt")
    row = rows[1, "write"]
    assert (row["iops"], row["outstanding"], row["threads"]) == (1220.40, 32, 4)
    # It prints 9.53 MBs/sec.
    assert row["bytes_per_second"] / 2**20 == pytest.approx(9.53, abs=0.005)
    assert (row["latency_ns_mean"], row["latency_ns_max"], row["quantiles"]) == (25e6, 2210 * 10**6, None)
    shares = [row for row in recording.read("counters").to_pylist() if row["instance"] == "24 ms or more"]
    assert [row["value"] for row in shares] == [4.0, 4.0]


def test_sqlio_of_one_thread_says_thread(tmp_path):
    text = (FIXTURES / "sqlio.txt").read_text()
    path = tmp_path / "one.txt"
    path.write_text(re.sub(r"\b\d+ threads\b", "1 thread", text))
    assert "threads" not in path.read_text()
    assert {row["threads"] for row in read(path)} == {1}


def test_iometer(tmp_path):
    _, rows = rows_of(tmp_path, "iometer.csv")
    assert [rows[run, "total"]["outstanding"] for run in (0, 1)] == [2, 32]
    total = rows[1, "total"]
    assert (total["ios"], total["iops"], total["duration_ns"]) == (40_000, 4000.0, 10 * 10**9)
    assert (total["size_bytes"], total["access"], total["tool_version"]) == (8192, "random", "1.1.0")
    assert (total["latency_ns_mean"], total["latency_ns_max"]) == (6_100_000, 15_000_250_000)
    assert [(entry["latency_ns"], entry["ios"]) for entry in total["histogram"]] == [
        (1_000_000, 20_000), (2_000_000, 19_990), (15_000_250_000, 10),
    ]  # fmt: skip
    assert rows[0, "read"]["bytes_per_second"] == pytest.approx(6000 * 8192 / 10)


def test_vdbench(tmp_path):
    recording, rows = rows_of(tmp_path, "flatfile.html")
    total = rows[0, "total"]
    assert (total["iops"], total["offered_iops"], total["outstanding"]) == (5001, 5000, 8)
    assert rows[1, "total"]["offered_iops"] is None
    assert (total["latency_ns_mean"], total["latency_ns_max"]) == (1_000_000, 6_500_000)
    assert rows[0, "read"]["iops"] + rows[0, "write"]["iops"] == pytest.approx(5001)
    assert total["duration_ns"] == 10 * 10**9
    assert recording.manifest.clock.start_utc_ns == MARCH_1 + (9 * 3600 + 5) * 10**9


def test_vdbench_of_older_versions_has_no_column_timestamp(tmp_path):
    path = tmp_path / "flatfile.html"
    columns = "tod Run Interval reqrate rate MB/sec bytes/io read% resp read_resp write_resp resp_max"
    path.write_text(
        f"{columns}\n12:00:01.000 rd1 1 500 90 0.7 8192 75 2 2 2 9\n12:00:02.000 rd1 2 500 100 0.8 8192 75 2 2 2 9\n"
        "12:00:02.100 rd1 avg_2-2 500 100 0.8 8192 75 2 1.5 3.5 9\n"
    )
    (run,) = vdbench.parse(path, "flatfile.html")
    found = {one.op: (one.iops, one.latency_ns_mean) for one in run.ops}
    assert found == {"read": (75, 1_500_000), "write": (25, 3_500_000), "total": (100, 2_000_000)}


def test_vdbench_of_files_is_a_run_without_its_preparation(tmp_path):
    """Columns of a test of files, as vdbench 5.04 heads them; rd2 asks for more than reads and writes."""
    path = tmp_path / "flatfile.html"
    columns = (
        "tod timestamp Run Interval Xfersize Threads Reqrate Rate Resp Resp_max MB/sec Read_rate Read_resp Write_rate "
        "Write_resp"
    )
    rows = (
        "12:00:01.000 03/01/2026-12:00:01-UTC format_for_rd1 avg_2-9 65536 8 max 999 9 9 9 0 0 999 9",
        "12:00:02.000 03/01/2026-12:00:02-UTC rd1 avg_2-9 4096 8 9999988 400 2 30 1.5625 300 1.5 100 3.5",
        "12:00:03.000 03/01/2026-12:00:03-UTC rd2 avg_2-9 4096 8 9999988 400 2 30 0.390625 100 1.5 0 0",
    )
    path.write_text("\n".join([columns, *rows]) + "\n")
    first, second = vdbench.parse(path, "flatfile.html")
    assert {one.op: (one.iops, one.latency_ns_mean) for one in first.ops} == {
        "read": (300, 1_500_000), "write": (100, 3_500_000), "total": (400, 2_000_000),
    }  # fmt: skip
    assert (first.test, first.threads, first.size_bytes, first.offered_iops) == ("rd1", 8, 4096, None)
    assert [one.op for one in second.ops] == ["total"]
    assert any("test of files" in note for note in first.notes)


def test_runs_of_equal_load_are_in_the_order_of_their_files(tmp_path):
    paths = []
    for name in ("b", "a"):
        paths.append(tmp_path / f"{name}.txt")
        paths[-1].write_bytes((FIXTURES / "diskspd.xml").read_bytes() + (b"\n" * (name == "b")))
    made = import_any(paths, tmp_path / "out.iotrace")
    assert made.settings.axis == "run"
    assert [one.read("results")["test"][0].as_py() for one in made.recordings()] == ["b", "a"]


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_powershell_redirects_is_read_alike(tmp_path, name, encoding):
    path = tmp_path / name
    text = (FIXTURES / name).read_bytes().decode().replace("\r", "")
    path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    assert read(path) == read(FIXTURES / name)


@pytest.mark.parametrize("name", RESULTS)
def test_a_cut_file_keeps_its_whole_runs_and_says_so(tmp_path, name):
    data = (FIXTURES / name).read_bytes()
    whole = read(FIXTURES / name)
    path = tmp_path / name
    kept = []
    for share in (0.99, 0.8, 0.6, 0.3):
        path.write_bytes(data[: int(len(data) * share)])
        try:
            rows = read(path)
        except IotraceError as problem:
            assert str(path) in problem.message  # noqa: PT017 - either outcome is right
            continue
        kept.append(len({row["run"] for row in rows}))
        for row in rows:
            same = [one for one in whole if (one["run"], one["op"]) == (row["run"], row["op"])]
            assert [one["iops"] for one in same] == [row["iops"]]
    assert kept == sorted(kept, reverse=True)


def test_a_cut_is_told_in_the_quality(tmp_path):
    path = tmp_path / "diskspd.txt"
    path.write_bytes((FIXTURES / "diskspd.txt").read_bytes()[:-400])
    recording = import_files([path], tmp_path / "out.iotrace")
    assert recording.manifest.quality.truncated_tail
    assert recording.manifest.quality.verdict == "usable"
    assert len(recording.read("results")) == 3


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", '{"fio version" : "fio-3.3", "jobs" : []}', "without jobs"),
        ("a.json", '{"fio version" : "fio-3.3", "jobs" : [' + "[" * 100_000, "ends before its results"),
        (
            "a.xml",
            '<!DOCTYPE x [<!ENTITY a "b">]><Results><System><ComputerName></ComputerName><Tool>',
            "document type",
        ),
        (
            "a.log",
            "HammerDB CLI v4.5\nVuser 1:Beginning rampup time of 2 minutes\n",
            "ends before its results",
        ),
        ("a.html", " tod timestamp Run Interval Xfersize Threads Reqrate Rate\n", "ends before its results"),
        (
            "a.html",
            "tod Run Interval Rate Resp\n1:00:00 format_for_rd1 1 9 1\n1:00:01 format_for_rd1 avg_2-2 9 1\n",
            "only vdbench's preparation",
        ),
        ("a.txt", "sqlio v1.5.SG\n2 threads writing for 30 secs to file a\n", "ends before its results"),
    ],
)
def test_bad_input_gets_a_clear_word(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(IotraceError, match=words) as caught:
        import_any([path], tmp_path / "out.iotrace")
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("seed", range(4))
def test_any_damage_gives_a_recording_or_a_clear_error(tmp_path, seed):
    generator = random.Random(seed)
    for name in RESULTS:
        data = bytearray((FIXTURES / name).read_bytes())
        for _ in range(generator.choice((1, 5, 60))):
            data[generator.randrange(len(data))] = generator.choice(
                (0, 10, 44, 48, 57, 255, generator.randrange(256))
            )
        cut = generator.randrange(len(data))
        path = tmp_path / name
        path.write_bytes(data[:cut] + data[cut + generator.randrange(1, 200) :])
        try:
            read(path)
        except IotraceError as problem:
            assert str(path) in problem.message  # noqa: PT017 - either outcome is right


def test_names_go_where_they_are_asked_to(tmp_path):
    from iotrace.capture.importing.anonymizing import Anonymizer

    paths = [FIXTURES / "diskspd.txt", FIXTURES / "diskspd.xml"]
    made = import_any(paths, tmp_path / "out.iotrace", anonymizer=Anonymizer("key"))
    for recording in made.recordings():
        row = recording.read("results").to_pylist()[0]
        assert (row["target"], row["command"]) == (None, None)
        assert "diskspd" not in row["test"]
        assert "a.dat" not in str(recording.read("counters").to_pylist())
    assert isinstance(Recording.open(made.path / made.steps[0].folder), Recording)


def test_crystaldiskmark(tmp_path):
    recording, rows = rows_of(tmp_path, "crystaldiskmark.txt")
    random_read = rows[1, "read"]
    assert (random_read["iops"], random_read["bytes_per_second"]) == (10_000.0, 40_960_000.0)
    assert (random_read["outstanding"], random_read["threads"], random_read["size_bytes"]) == (128, 4, 4096)
    assert (random_read["latency_ns_mean"], random_read["access"]) == (3_199_500.0, "random")
    assert (rows[0, "read"]["size_bytes"], rows[0, "read"]["access"]) == (1 << 20, "sequential")
    assert rows[2, "write"]["iops"] == 5000.0
    assert (rows[2, "write"]["target"], rows[2, "write"]["tool_version"]) == ("D:", "8.0.4")
    assert any("best of several passes" in note for note in recording.manifest.quality.notes)


def test_crystaldiskmark_6_tells_no_size_of_its_sequential_tests(tmp_path):
    _, rows = rows_of(tmp_path, "crystaldiskmark-6.txt")
    assert (rows[0, "read"]["bytes_per_second"], rows[0, "read"]["iops"]) == (91_500_000.0, None)
    assert rows[0, "read"]["size_bytes"] is None
    assert (rows[1, "write"]["iops"], rows[1, "write"]["outstanding"]) == (1000.0, 64)


def test_crystaldiskmark_is_dated_by_the_users_zone(tmp_path):
    recording = import_files(
        [FIXTURES / "crystaldiskmark.txt"], tmp_path / "out.iotrace", timezone="Europe/Berlin"
    )
    assert (
        recording.manifest.clock.start_utc_ns == 0
    )  # the date is that of the end, and nothing tells how long it took


def test_elbencho(tmp_path):
    recording = import_files([FIXTURES / "elbencho.csv"], tmp_path / "out.iotrace", timezone="+0100")
    rows = {(row["run"], row["op"]): row for row in recording.read("results").to_pylist()}
    write = rows[0, "write"]
    assert (write["iops"], write["bytes_per_second"], write["bytes"]) == (1000.0, 8 * 2**20, 80 * 2**20)
    assert (write["threads"], write["outstanding"], write["size_bytes"]) == (16, 64, 8192)
    assert (write["latency_ns_min"], write["latency_ns_mean"], write["latency_ns_max"]) == (
        90_000,
        500_500.0,
        9_000_000,
    )
    assert (write["test"], write["access"], write["duration_ns"]) == ("8k", "random", 10 * 10**9)
    assert (rows[1, "read"]["iops"], rows[1, "read"]["latency_ns_mean"]) == (3000.0, 250_000.0)
    # The first run ended at 12:00:10 local time and took 10 s; making folders is no run.
    assert recording.manifest.clock.start_utc_ns == MARCH_1 + 11 * 3600 * 10**9
    assert len(rows) == 3


def diskspd_piece():
    """What DiskSpd prints of a timespan, without the parameters before it."""
    text = (FIXTURES / "diskspd.txt").read_text()
    start, second = text.index("Results for timespan 1"), text.index("Results for timespan 2")
    return text[start:second]


def test_diskspd_whose_parameters_are_cut_off_is_known_by_its_command(tmp_path):
    path = tmp_path / "cut.txt"
    command = r"diskspd.exe -b8K -r -t2 -o4 -W0 -d5 -L D:\a.dat E:\b.dat"
    path.write_text(f"Command Line: {command}\n\n{diskspd_piece()}")
    whole = {row["op"]: row for row in read(FIXTURES / "diskspd.txt") if row["run"] == 0}
    found = {row["op"]: row for row in read(path)}
    for op, row in found.items():
        for column in (
            "ios",
            "bytes",
            "iops",
            "latency_ns_mean",
            "quantiles",
            "outstanding",
            "size_bytes",
            "threads",
        ):
            assert row[column] == whole[op][column], (op, column)
    assert (found["total"]["access"], found["total"]["target"]) == ("random", r"D:\a.dat, E:\b.dat")


def test_diskspd_pasted_with_a_margin(tmp_path):
    path = tmp_path / "pasted.txt"
    lines = (FIXTURES / "diskspd.txt").read_text().splitlines(keepends=True)
    path.write_text("".join(f"    {line}" for line in lines))
    assert [row | {"test": ""} for row in read(path)] == [
        row | {"test": ""} for row in read(FIXTURES / "diskspd.txt")
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "HammerDB CLI v4.12\nVuser 1:query 12 completed in 2.803 seconds\nTPROC-H Driver Script\n",
            "TPROC-H",
        ),
        ("Vuser 1:Completed 1 query set(s) in 91 seconds\n", "TPROC-H"),
        (
            "Hammerdb Transaction Counter Log @ Thu Jun 30 22:43:39 UTC 2022\n0 PostgreSQL tpm @ x\n",
            "counter alone",
        ),
    ],
)
def test_other_logs_of_hammerdb_are_named(tmp_path, text, words):
    path = tmp_path / "hammerdb.log"
    path.write_text(text)
    with pytest.raises(IotraceError, match=words):
        import_files([path], tmp_path / "out.iotrace")


def test_fio_as_text(tmp_path):
    recording, rows = rows_of(tmp_path, "fio-normal.txt")
    read, write, log = rows[0, "read"], rows[0, "write"], rows[1, "write"]
    # The second state counts: it is of all the time.
    assert (read["ios"], read["iops"], read["bytes"]) == (1000, 100.0, 1000 * 8192)
    assert (read["latency_ns_min"], read["latency_ns_mean"], read["latency_ns_max"]) == (
        100_000,
        410_500.0,
        6_000_000,
    )
    assert quantiles(read) == {0.01: 110_000, 0.5: 395_000, 0.99: 950_000, 0.999: 5_900_000}
    assert (write["latency_ns_mean"], write["latency_ns_stddev"]) == (2_500_000.0, 500_000.0)
    assert (read["outstanding"], read["threads"], read["access"], read["size_bytes"]) == (
        32,
        2,
        "random",
        8192,
    )
    assert (log["outstanding"], log["bytes"], log["latency_ns_mean"]) == (1, 10_000 * 4096, 100_000.0)
    assert (rows[0, "total"]["ios"], rows[0, "total"]["quantiles"]) == (1500, None)
    assert rows[0, "read"]["tool_version"] == "3.33"
    assert any("1 earlier state" in note for note in recording.manifest.quality.notes)


def test_fio_text_that_is_cut_keeps_the_groups_before(tmp_path):
    path = tmp_path / "cut.txt"
    text = (FIXTURES / "fio-normal.txt").read_text()
    path.write_text(text[: text.index("     issued rwts: total=0,10000")])
    recording = import_files([path], tmp_path / "out.iotrace")
    assert {row["run"] for row in recording.read("results").to_pylist()} == {0}
    assert recording.manifest.quality.truncated_tail


@pytest.mark.parametrize("word", ["issued rwt:", "issued rwts:"])
def test_the_issued_line_of_fio_as_it_was_called_over_the_years(tmp_path, word):
    """fio 3.1 prints ``issued rwt: total=0,1048576,0, short=0,0,0, dropped=0,0,0``, without a place for syncs."""
    text = (FIXTURES / "fio-normal.txt").read_text()
    text = re.sub(r"issued rwts: total=(\d+,\d+,\d+),0", rf"{word} total=\1,", text)
    path = tmp_path / "fio.txt"
    path.write_text(text)
    _, rows = rows_of(tmp_path, path)
    assert {key: row["ios"] for key, row in rows.items()} == {
        (0, "read"): 1000, (0, "write"): 500, (0, "total"): 1500, (1, "write"): 10_000, (1, "total"): 10_000,
    }  # fmt: skip
