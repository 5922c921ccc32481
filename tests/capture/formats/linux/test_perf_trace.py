"""Calls that perf trace printed, with values read off the lines by hand."""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

from ..test_registry import FIXTURES

CALLS = FIXTURES / "linux" / "perf-trace.txt"


def read(path, tmp_path):
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    paths = {row["file_id"]: row["path"] for row in recording.read("files").to_pylist()} | {None: ""}
    names = {row["process_id"]: row["name"] for row in recording.read("processes").to_pylist()}
    rows = [
        (row["layer"], row["op"], row["issued_ns"], row["completed_ns"] - row["issued_ns"], row["offset_bytes"],
         row["size_bytes"], paths[row["file_id"]], names[row["process_id"]], row["thread_id"])
        for row in recording.read("io").to_pylist()
    ]  # fmt: skip
    return recording, rows


def test_calls_with_their_begin_and_duration(tmp_path):
    data, log = "/var/opt/mssql/data/sales.mdf", "/var/opt/mssql/data/sales.ldf"
    recording, rows = read(CALLS, tmp_path)
    assert sorted(rows, key=lambda row: row[2]) == [
        ("filesystem", "read", 0, 5_523_000, 81_920, 8192, data, "sqlservr", 4101),
        # Of the call that was interrupted by other lines the second line has the duration; its offset 0 is not printed.
        ("filesystem", "write", 1_250_000, 2_004_000, 0, 61_440, log, "sqlservr", 4102),
        ("filesystem", "read", 1_300_000, 11_000, 8192, 4096, "", "my tool", 77),
        ("filesystem", "flush", 3_500_000, 900_000, 0, 0, log, "sqlservr", 4102),
        ("filesystem", "read", 4_300_000, 20_000, 1024, 1024, "", "my tool", 77),
    ]
    quality = recording.manifest.quality
    assert quality.events_lost == 4  # three that perf lost, and one whose begin it had not seen
    notes = " ".join(quality.notes)
    assert "1 call left out: read and write, which show no offset" in notes
    assert "1 call left out: that failed" in notes
    assert "1 call left out: behind the end of a file" in notes
    assert "io_submit, whose I/Os the trace does not list" in notes
    assert "of 2 calls the file is not known" in notes


def test_times_of_the_kernels_clock_begin_with_the_first_call(tmp_path):
    path = tmp_path / "calls.txt"
    path.write_text(
        "5309586.812 ( 0.586 ms): python/2753 fsync(fd: 13)   = 0\n5309587.961 ( 3.005 ms): fsync(fd: 13) = 0\n"
    )
    recording = import_files([path], tmp_path / "out.iotrace")
    rows = recording.read("io").to_pylist()
    assert [(row["issued_ns"], row["completed_ns"]) for row in rows] == [(0, 586_000), (1_149_000, 4_154_000)]
    assert recording.manifest.window_start_ns == 0


def test_a_summary_says_what_to_trace_instead(tmp_path):
    path = tmp_path / "summary.txt"
    path.write_text(
        "\n Summary of events:\n\n bash (8193), 740 events, 3.8%\n\n   syscall   calls  errors\n   read  10  0\n"
    )
    with pytest.raises(IotraceError, match="a summary of perf trace") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert "-e pread64,pwrite64" in caught.value.hint


def test_calls_without_a_place_say_what_to_trace(tmp_path):
    path = tmp_path / "calls.txt"
    path.write_text("     0.000 ( 5.523 ms): dd/8009 read(fd: 4, buf: 0x7ffe7749d858, count: 832)  = 832\n")
    with pytest.raises(IotraceError, match="no call that reads, writes or flushes at a known place"):
        import_files([path], tmp_path / "out.iotrace")
