"""Mappings that come with iotrace: each found by its columns and by its name; values reckoned by hand."""

import csv
import io

import pytest

from iotrace.capture.formats.array.mapping import ready_mappings, shipped, shipped_names
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

NOON = 1_773_403_200  # 2026-03-13 12:00 UTC
UNISPHERE = {
    "Object Name": "LUN 12 [sql]", "Poll Time": ("03/13/2026 13:00:00", "03/13/2026 13:05:00"), "Utilization (%)": 40,
    "Queue Length": 2.5, "Response Time (ms)": 4.5, "Total Bandwidth (MB/s)": 10, "Total Throughput (IO/s)": 150,
    "Read Bandwidth (MB/s)": 8, "Read Size (KB)": 81.92, "Read Throughput (IO/s)": 100, "Write Bandwidth (MB/s)": 2,
    "Write Size (KB)": 40.96, "Write Throughput (IO/s)": 50, "Average Seek Distance (GB)": 0,
}  # fmt: skip
POWERMAX = {
    "storageGroupId": "SG_SQL", "timestamp": (NOON * 1000, NOON * 1000 + 300_000), "HostReads": 100, "HostWrites": 50,
    "HostMBReads": 8, "HostMBWritten": 2, "ReadResponseTime": 0.5, "WriteResponseTime": 0.75,
}  # fmt: skip
REST = {
    "name": "vol1", "timestamp": ("2026-03-13T12:00:00Z", "2026-03-13T12:05:00Z"), "duration": "PT5M", "status": "ok",
    "iops.read": 100, "iops.write": 50, "iops.other": 1, "iops.total": 151, "latency.read": 500, "latency.write": 750,
    "throughput.read": 8 << 20, "throughput.write": 2 << 20,
}  # fmt: skip
HARVEST = {
    "Time": ("2026-03-13 12:00:00", "2026-03-13 12:05:00"), "volume": "vol1", "svm": "svm1", "volume_read_latency": 500,
    "volume_write_latency": 750, "volume_read_ops": 100, "volume_write_ops": 50, "volume_read_data": 8 << 20,
    "volume_write_data": 2 << 20,
}  # fmt: skip
PURE1 = {
    "time": (NOON * 1000, NOON * 1000 + 300_000), "name": "array1", "array_read_latency_us": 500,
    "array_write_latency_us": 750, "array_read_iops": 100, "array_write_iops": 50, "array_read_bandwidth": 8 << 20,
    "array_write_bandwidth": 2 << 20,
}  # fmt: skip
PURE1_VOLUME = {name.replace("array_", "volume_"): value for name, value in PURE1.items()}
DASH = {
    "SnapshotDate": ("2026-03-13 12:00:00.00", "2026-03-13 12:05:00.00"), "IOPs": 150, "ReadIOPs": 100, "WriteIOPs": 50,
    "MBsec": 10, "ReadMBsec": 8, "WriteMBsec": 2, "ReadLatency": 0.5, "WriteLatency": 0.75, "Latency": 0.6,
}  # fmt: skip
RATES = {
    "read_iops": 100,
    "write_iops": 50,
    "read_bytes_per_second": 8 << 20,
    "write_bytes_per_second": 2 << 20,
}
LATENCIES = {"read_latency_ns": 500_000, "write_latency_ns": 750_000}
CASES = {
    "dell-unisphere-vnx": (
        UNISPHERE,
        {"latency_ns": 4_500_000, "queue_length": 2.5, "busy_percent": 40},
        "array",
    ),
    "dell-unisphere-powermax": (POWERMAX, LATENCIES, "array"),
    "ontap-rest-volume": (REST, LATENCIES, "array"),
    "ontap-harvest-volume": (HARVEST, LATENCIES, "array"),
    "pure1-array": (PURE1, LATENCIES, "array"),
    "pure1-volume": (PURE1_VOLUME, LATENCIES, "array"),
    "dba-dash-io": (DASH, LATENCIES, "sql"),
}


def table(columns):
    """Two lines; of a pair of values the first stands in the first."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for place in range(2):
        writer.writerow(value[place] if isinstance(value, tuple) else value for value in columns.values())
    return text.getvalue()


@pytest.mark.parametrize("by_name", [False, True], ids=["by its columns", "by its name"])
@pytest.mark.parametrize("name", CASES)
def test_an_export_is_read_by_its_mapping(tmp_path, name, by_name):
    columns, further, layer = CASES[name]
    path = tmp_path / "export.csv"
    path.write_text(table(columns))
    maps = [name.partition("-")[0]] if by_name else []
    recording = import_files([path], tmp_path / "out.iotrace", timezone="Europe/Berlin", maps=maps)
    rows = recording.read("counters").to_pylist()
    last = {row["metric"]: row["value"] for row in rows if row["at_ns"]}
    assert {metric: last[metric] for metric in {*RATES, *further}} == pytest.approx(RATES | further)
    assert {row["layer"] for row in rows} == {layer}
    assert recording.manifest.clock.start_utc_ns == NOON * 10**9
    assert {(row["at_ns"], row["interval_ns"]) for row in rows} == {(0, None), (300 * 10**9, 300 * 10**9)}


def test_local_times_of_an_array_need_a_zone(tmp_path):
    path = tmp_path / "export.csv"
    path.write_text(table(UNISPHERE))
    with pytest.raises(IotraceError, match="local times"):
        import_files([path], tmp_path / "out.iotrace")


def test_each_shipped_mapping_is_found_by_its_own_columns_only():
    assert len(shipped_names()) == len(ready_mappings()) >= len(CASES)
    for name, (columns, _, _) in CASES.items():
        (own,) = shipped(name)
        assert [mapping for mapping in ready_mappings() if mapping.fits(list(columns))] == [own]


def test_a_name_that_no_mapping_has_is_told_with_those_there_are(tmp_path):
    path = tmp_path / "export.csv"
    path.write_text(table(REST))
    with pytest.raises(IotraceError, match="no mapping of that name") as problem:
        import_files([path], tmp_path / "out.iotrace", maps=["netapp"])
    assert "ontap-rest-volume" in problem.value.hint
