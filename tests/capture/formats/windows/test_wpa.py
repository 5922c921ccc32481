"""WPA's Disk Usage as regions write numbers: the same three I/Os in each, with values read off by hand."""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

from ..test_registry import FIXTURES

GERMAN = FIXTURES / "xperf" / "wpa-german.csv"
ENGLISH = (
    "Disk,IO Type,Count,Init Time (s),Complete Time (s),Size (B),Min Offset,Process (Name)\n"
    '1,Read,1,1.079943800,1.080031000,"8,192",0x0000000000002000,sqlservr.exe\n'
    '0,Write,1,"3,600.000000100","3,600.001795800","1,048,576",0x0000001074820000,System\n'
    '0,Flush,1,"3,600.100000000","3,600.101000000",0,0xFFFFFFFFFFFFFFFF,System\n'
)
TOLD = [
    ("read", 1_079_943_800, 87_200, 8192, 0x2000, "disk 1", "sqlservr.exe"),
    ("write", 3_600_000_000_100, 1_795_700, 1_048_576, 0x1074820000, "disk 0", "System"),
    ("flush", 3_600_100_000_000, 1_000_000, 0, 0, "disk 0", "System"),
]


def read(path, tmp_path):
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    names = {row["process_id"]: row["name"] for row in recording.read("processes").to_pylist()}
    disks = {row["device_id"]: row["name"] for row in recording.read("devices").to_pylist()}
    rows = [
        (row["op"], row["issued_ns"], row["completed_ns"] - row["issued_ns"], row["size_bytes"],
         row["offset_bytes"], disks[row["device_id"]], names[row["process_id"]])
        for row in recording.read("io").to_pylist()
    ]  # fmt: skip
    return recording, rows


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "Disk_Usage.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_german_export(tmp_path):
    recording, rows = read(GERMAN, tmp_path)
    assert rows == TOLD
    assert recording.manifest.quality.events_lost == 1  # a path with the delimiter in it, and no quotes
    assert {(row["path"], row["role"]) for row in recording.read("files").to_pylist()} == {
        ("D:\\data\\sales.mdf", "data"),
        ("D:\\log\\sales.ldf", "log"),
    }
    numbers = {row["os_process_id"] for row in recording.read("processes").to_pylist()}
    assert numbers == {4321, 4}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace(",", ";").replace('"', "").replace("3;600", "3'600").replace("8;192", "8'192")
        .replace("1;048;576", "1'048'576"),
        lambda text: text.replace(",", ";").replace('"', "").replace("3;600.", "3\u00a0600,").replace("1.0", "1,0")
        .replace("8;192", "8\u00a0192").replace("1;048;576", "1\u202f048\u202f576"),
        lambda text: text.replace(",", "\t").replace('"', "").replace("3\t600", "3600").replace("8\t192", "8192")
        .replace("1\t048\t576", "1048576"),
    ],
    ids=["English", "Swiss", "French", "tabs"],
)  # fmt: skip
def test_other_regions(tmp_path, change):
    assert read(written(tmp_path, change(ENGLISH)), tmp_path)[1] == TOLD


def test_microseconds_whose_sign_was_lost(tmp_path):
    heading = "IO Type;Complete Time (\ufffds);IO Time (\ufffds);Size (KB);Min Offset;Disk\n"
    path = written(tmp_path, heading + "Read;1.000,200;87,100;8;0x0;2\n")
    row = import_files([path], tmp_path / "out.iotrace").read("io").to_pylist()[0]
    assert (row["completed_ns"], row["issued_ns"], row["size_bytes"]) == (1_000_200, 913_100, 8192)


def test_times_that_leave_the_mark_open_are_refused(tmp_path):
    path = written(
        tmp_path,
        "IO Type;Init Time (ms);Complete Time (ms);Size (B);Min Offset;Disk\nRead;1,200;2,300;8;0x0;2\n",
    )
    with pytest.raises(IotraceError, match="comma or a point") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert "in seconds" in caught.value.hint


def test_sums_are_refused(tmp_path):
    lines = ENGLISH.replace(",1,", ",17,").replace("1,Read,17", "1,Read,17")
    with pytest.raises(IotraceError, match="sums over several") as caught:
        import_files([written(tmp_path, lines)], tmp_path / "out.iotrace")
    assert "one row for each I/O" in caught.value.hint


def test_a_missing_column_is_named(tmp_path):
    text = "\n".join(",".join(line.split(",")[1:]) for line in ENGLISH.splitlines()[:2]) + "\n"
    with pytest.raises(IotraceError, match="without the column Disk"):
        import_files([written(tmp_path, text)], tmp_path / "out.iotrace")


def test_offsets_shown_as_decimals_in_groups(tmp_path):
    german = (
        "Disk;IO Type;Init Time (s);Complete Time (s);Size (B);Min Offset;Process\n"
        "0;Write;1,330000000;1,334567890;65.536;1.234.632.704;sqlservr.exe (1234)\n"
    )
    _, rows = read(written(tmp_path, german), tmp_path)
    assert rows == [("write", 1_330_000_000, 4_567_890, 65_536, 1_234_632_704, "disk 0", "sqlservr.exe")]
