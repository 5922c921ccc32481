"""Batch output of VMware's esxtop: the same I/Os as the guest and as the device sees them. Planted values."""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

DEVICE = r"Physical Disk SCSI Device(naa.600508b1001c)"
COLUMNS = {
    rf"{DEVICE}\Reads/sec": (100.0, 100, "read_iops", "block"),
    rf"{DEVICE}\MBytes Read/sec": (0.5, 524_288, "read_bytes_per_second", "block"),
    rf"{DEVICE}\Average Guest MilliSec/Read": (3.25, 3_250_000, "read_latency_ns", "block"),
    rf"{DEVICE}\Average Driver MilliSec/Read": (3.0, 3_000_000, "read_latency_ns", "device"),
    rf"{DEVICE}\Average Kernel MilliSec/Read": (0.25, 250_000, None, "block"),
    rf"{DEVICE}\Average Queue MilliSec/Read": (0.125, 125_000, None, "block"),
    rf"{DEVICE}\Average Guest MilliSec/Write": (0.0, 0, None, "block"),
    rf"{DEVICE}\Active Commands": (4.0, 4, "in_flight", "device"),
    r"Virtual Disk(sql01:scsi0:1)\Average MilliSec/Read": (3.5, 3_500_000, "read_latency_ns", "block"),
    # The same I/O once more, by its path.
    r"Physical Disk Path(vmhba1:C0:T0:L0)\Average Guest MilliSec/Read": (3.25, 3_250_000, None, None),
}


@pytest.mark.parametrize("host", ["esx01.example.com", "localhost"])
def test_latencies_of_guest_and_device_are_layers(tmp_path, host):
    head = ",".join(['"(PDH-CSV 4.0) (UTC)(0)"', *(rf'"\\{host}\{column}"' for column in COLUMNS)])
    lines = [
        ",".join([f'"03/13/2026 12:00:{second:02}"', *(f'"{value[0]:.2f}"' for value in COLUMNS.values())])
        if second != 5
        else ",".join(['"03/13/2026 12:00:05"', *(f'"{value[0]}"' for value in COLUMNS.values())])
        for second in (0, 5)
    ]
    path = tmp_path / "esxtop.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    recording = import_files([path], tmp_path / "x.iotrace")
    assert validate(recording.path) == []
    found = {
        f"{row['object']}({row['instance']})\\{row['counter']}": (row["value"], row["metric"], row["layer"])
        for row in recording.read("counters").to_pylist()
        if row["at_ns"] == 5 * 10**9
    }
    assert found == {column: expected[1:] for column, expected in COLUMNS.items()}
    assert {row["source"] for row in recording.read("counters").to_pylist()} == {host}
