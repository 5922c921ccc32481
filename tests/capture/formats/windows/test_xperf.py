"""Texts that Windows tools make of event traces."""

from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IoFlags, validate

FIXTURES = Path(__file__).parents[3] / "fixtures" / "xperf"
FIRST = ("read", 283_000, 0x018F0B8000, 4096)


def read(path, tmp_path):
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    return recording, recording.read("io").to_pylist()


def shape(row):
    return row["op"], row["completed_ns"] - row["issued_ns"], row["offset_bytes"], row["size_bytes"]


def test_the_dumper_tells_completions_processes_and_files(tmp_path):
    recording, rows = read(FIXTURES / "dumper.csv", tmp_path)
    assert [shape(row) for row in rows] == [FIRST, ("write", 400_000, 0x10000, 8192), ("flush", 50_000, 0, 0)]
    assert [row["completed_ns"] for row in rows] == [8_612_000, 9_000_000, 9_500_000]
    assert [row["thread_id"] for row in rows] == [11844, 500, 500]
    assert rows[0]["flags"] == IoFlags.NO_CACHE | IoFlags.PAGING | IoFlags.SYNCHRONOUS
    assert recording.read("files")["path"].to_pylist() == ["C:\\$Mft", "E:\\data\\a, b.mdf"]
    assert recording.read("files")["role"].to_pylist()[1] == "data"
    processes = {row["name"]: row["os_process_id"] for row in recording.read("processes").to_pylist()}
    assert processes == {"xperf.exe": 3984, "sqlservr.exe": 4120}
    # FILETIME 131777972134992100 is 2018-08-03 18:06:53.4992100 UTC.
    assert recording.manifest.clock.start_utc_ns == 1_533_323_613_499_210_000
    assert recording.manifest.host.system == "Windows 10.0.17134"


def test_the_older_form_without_a_processor_column(tmp_path):
    """As the Microsoft production traces have it."""
    lines = [
        ",".join(cell for place, cell in enumerate(line.split(",")) if place != 4 or "DiskFlush" in line)
        if line.lstrip().startswith(("DiskRead,", "DiskWrite,"))
        else line
        for line in (FIXTURES / "dumper.csv").read_text().splitlines()
        if not line.startswith("OS Version")
    ]
    path = tmp_path / "old.csv"
    path.write_text("\r\n".join(lines) + "\r\n")
    recording, rows = read(path, tmp_path)
    assert shape(rows[0]) == FIRST
    assert len(rows) == 3
    assert any("has no date" in note for note in recording.manifest.quality.notes)


def test_losses_of_the_heading_count(tmp_path):
    path = tmp_path / "lost.csv"
    text = (FIXTURES / "dumper.csv").read_text()
    path.write_text(text.replace("Events Lost: 0, Buffers lost: 0", "Events Lost: 7, Buffers lost: 2"))
    quality = read(path, tmp_path)[0].manifest.quality
    assert (quality.events_lost, quality.buffers_lost, quality.verdict) == (7, 2, "poor")


def test_the_diskio_detail(tmp_path):
    recording, rows = read(FIXTURES / "diskio-detail.csv", tmp_path)
    assert [shape(row) for row in rows] == [FIRST, ("write", 400_000, 0x10000, 8192)]
    assert recording.read("devices")["name"].to_pylist() == ["disk 0", "disk 1"]


@pytest.mark.parametrize("sign", ["\u2028", "\x85"])
def test_a_file_named_with_a_line_s_end_of_python_s_ends_no_line(tmp_path, sign):
    """Windows takes both in names."""
    path = tmp_path / "detail.csv"
    path.write_text(
        (FIXTURES / "diskio-detail.csv").read_text("utf-8").replace("a, b.mdf", f"a{sign}b.mdf"), "utf-8"
    )
    recording = import_files([path], tmp_path / "out.iotrace")
    assert f"E:\\data\\a{sign}b.mdf" in recording.read("files")["path"].to_pylist()
    assert recording.manifest.rows["io"] == 2


@pytest.mark.parametrize("name", ["tracerpt.csv", "tracerpt.xml"])
def test_tracerpt_counts_responses_in_ticks(tmp_path, name):
    recording, rows = read(FIXTURES / name, tmp_path)
    assert shape(rows[0]) == FIRST
    assert rows[0]["completed_ns"] == 100_000_000
    assert rows[0]["thread_id"] == 11844
    if name == "tracerpt.csv":
        assert shape(rows[1]) == ("flush", 500_000, 0, 0)
        assert recording.manifest.clock.start_utc_ns == 1_533_323_613_499_210_000


def test_without_a_frequency_responses_are_unknown(tmp_path):
    path = tmp_path / "a.csv"
    lines = (FIXTURES / "tracerpt.csv").read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("EventTrace")))
    recording, rows = read(path, tmp_path)
    assert {row["completed_ns"] for row in rows} == {None}
    assert any("frequency" in note for note in recording.manifest.quality.notes)


def test_windows_writes_utf_16(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes((FIXTURES / "tracerpt.csv").read_text().encode("utf-16"))
    assert shape(read(path, tmp_path)[1][0]) == FIRST
