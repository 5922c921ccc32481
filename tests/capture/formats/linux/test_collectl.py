"""What collectl prints, with values read off its columns by hand."""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

from ..test_registry import FIXTURES

RECORDS = FIXTURES / "linux" / "collectl.txt"
FIRST = 1_795_496_125_001_000_000
HEAD = (
    "# DISK STATISTICS (/sec)\n"
    "#{}Name       KBytes Merged  IOs Size  KBytes Merged  IOs Size  RWSize  QLen  Wait SvcTim Util\n"
)
ROW = "{}sda           4800      0  300   16      92     11    5   18      16     1    12     12    5\n"


def told(path, tmp_path, **options):
    recording = import_files([path], tmp_path / "out.iotrace", **options)
    assert validate(recording.path) == []
    start_ns = recording.manifest.clock.start_utc_ns
    rows = [row | {"utc_ns": start_ns + row["at_ns"]} for row in recording.read("counters").to_pylist()]
    return recording, rows


def written(tmp_path, text):
    path = tmp_path / "disks.txt"
    path.write_text(text)
    return path


def test_records_tell_the_host_and_the_time(tmp_path):
    recording, rows = told(RECORDS, tmp_path)
    of_sdb = {
        row["metric"]: row["value"] for row in rows if (row["instance"], row["utc_ns"]) == ("sdb", FIRST)
    }
    del of_sdb[None]
    assert of_sdb == {
        "read_bytes_per_second": 4800 * 1024,
        "read_iops": 300,
        "read_size_bytes": 16 * 1024,
        "read_latency_ns": 4_000_000,
        "write_bytes_per_second": 400 * 1024,
        "write_iops": 100,
        "write_size_bytes": 4 * 1024,
        "write_latency_ns": 7_000_000,
        "size_bytes": 13 * 1024,
        "queue_length": 2,
        "latency_ns": 5_000_000,
        "busy_percent": 96,
    }
    assert {(row["source"], row["layer"]) for row in rows} == {("db01", "block")}
    assert {row["interval_ns"] for row in rows if row["utc_ns"] > FIRST} == {10 * 10**9}
    # A wait under 1 ms is printed as 0, and so is that of no I/O.
    assert not [row for row in rows if row["instance"] == "sda" and row["metric"] == "write_latency_ns"]
    # How much 1M is, collectl does not say to the byte.
    assert any("not understood" in note for note in recording.manifest.quality.notes)


def test_dates_are_local(tmp_path):
    text = (
        HEAD.format("Date    Time      ")
        + ROW.format("20261124 04:55:25 ")
        + ROW.format("20261124 04:55:35 ")
    )
    path = written(tmp_path, text)
    with pytest.raises(IotraceError, match="without their time zone"):
        import_files([path], tmp_path / "none.iotrace")
    _, rows = told(path, tmp_path, timezone="+0200")
    assert {row["utc_ns"] for row in rows} == {FIRST - 7_200_001_000_000, FIRST - 7_190_001_000_000}
    assert {row["value"] for row in rows if row["metric"] == "latency_ns"} == {12_000_000}


def test_times_go_on_after_midnight(tmp_path):
    text = HEAD.format("Time     ") + ROW.format("23:59:55 ") + ROW.format("00:00:05 ")
    recording, rows = told(written(tmp_path, text), tmp_path)
    first, last = sorted({row["at_ns"] for row in rows})
    assert last - first == 10 * 10**9
    assert any("names no date" in note or "no date" in note for note in recording.manifest.quality.notes)


def test_without_times_each_report_counts_as_a_second(tmp_path):
    recording, rows = told(written(tmp_path, HEAD.format("") + ROW.format("") * 3), tmp_path)
    assert len({row["at_ns"] for row in rows}) == 3
    assert any("whatever time they are about" in note for note in recording.manifest.quality.notes)


@pytest.mark.parametrize("separator", [" ", ","])
def test_lines_for_plots(tmp_path, separator):
    names = ("Name", "Reads", "RMerge", "RKBytes", "WaitR", "Writes", "WMerge", "WKBytes", "WaitW", "Request",
             "QueLen", "Wait", "SvcTim", "Util")  # fmt: skip
    heading = separator.join(["#UTC", "[DSK]ReadTot", *(f"[DSK:sda]{name}" for name in names)])
    values = [1795496125, 301, "sda", 301, 0, 4819, 2, 1068, 0, 9450, 0, 10, 2, 1, 0, 6.5]
    text = f"# Host: db01\n{heading}\n{separator.join(map(str, values))}\n"
    _, rows = told(written(tmp_path, text), tmp_path)
    found = {row["metric"]: row["value"] for row in rows}
    assert (found["read_iops"], found["write_iops"], found["write_bytes_per_second"]) == (
        301,
        1068,
        9450 * 1024,
    )
    assert (found["read_latency_ns"], found["latency_ns"], found["busy_percent"]) == (2e6, 1e6, 6.5)
    assert {row["utc_ns"] for row in rows} == {1_795_496_125 * 10**9}
