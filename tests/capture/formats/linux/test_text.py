"""fio's I/O logs and biosnoop's printout."""

from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "linux"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "linux"


def io(path, tmp_path):
    return import_files([path], tmp_path / "out.iotrace").read("io").to_pylist()


def test_a_log_of_fio_itself(tmp_path):
    path = SAMPLES / "fio_t0038.iolog"
    if not path.is_file():
        pytest.skip(f"no {path}")
    lines = [line.split() for line in path.read_text().splitlines()[1:]]
    told = [line for line in lines if len(line) == 5]
    assert [
        (
            str(row["issued_ns"] // 1000),
            row["op"].replace("discard", "trim"),
            str(row["offset_bytes"]),
            str(row["size_bytes"]),
        )
        for row in io(path, tmp_path)
    ] == [(time, action, offset, size) for time, _, action, offset, size in told]


def test_version_3_counts_microseconds(tmp_path):
    """Made by fio 3.33 in a run that it says took 14 ms; its last action stood at 12871."""
    rows = io(FIXTURES / "fio-v3.log", tmp_path)
    assert len(rows) == 37
    assert {row["completed_ns"] for row in rows} == {None}
    assert rows[-1]["issued_ns"] < 14_000_000


def test_version_2_adds_up_its_waits(tmp_path):
    rows = io(FIXTURES / "fio-v2.log", tmp_path)
    assert [(row["issued_ns"], row["op"], row["offset_bytes"]) for row in rows] == [
        (0, "write", 0),
        (5_000_000, "read", 8192),
    ]


def test_biosnoop_tells_completions(tmp_path):
    rows = io(FIXTURES / "biosnoop.txt", tmp_path)
    assert [
        (
            row["layer"],
            row["op"],
            row["completed_ns"] - row["issued_ns"],
            row["offset_bytes"],
            row["size_bytes"],
        )
        for row in rows
    ] == [
        ("device", "write", 740_000, 13092560 * 512, 4096),
        ("device", "read", 610_000, 13092432 * 512, 4096),
    ]
    assert rows[1]["completed_ns"] - rows[0]["completed_ns"] == 174_000


@pytest.mark.parametrize("sign", ["\v", "\x1c", "\x85", "\u2028"])
def test_a_program_named_with_a_line_s_end_of_python_s_ends_no_line(tmp_path, sign):
    path = tmp_path / "biosnoop.txt"
    path.write_text((FIXTURES / "biosnoop.txt").read_text().replace("my proc 1", f"my{sign}proc 1"), "utf-8")
    assert [row["op"] for row in io(path, tmp_path)] == ["write", "read"]


def test_biosnoop_without_addresses_is_refused_with_a_way_out(tmp_path):
    path = tmp_path / "biosnoop.txt"
    path.write_text(
        "TIME(ms)     DISK    COMM             PID    LAT(ms)\n12           sda     fio              77          1\n"
    )
    with pytest.raises(IotraceError, match="without addresses and sizes") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert caught.value.hint
