"""Tables for other programs: read back by other readers than ours, and the MSR columns by our own importer."""

import csv
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.replay.export import defused, export_table
from iotrace.schemas import IoFlags, IotraceError, Recording

from ...hostile_names import HOSTILE_NAMES

MakeRecording = Callable[..., Recording]


@pytest.fixture
def five(make_recording: MakeRecording) -> Recording:
    """Out of order, two layers, a flush, a write never seen to end, and a path with a comma and a quote."""
    return make_recording(
        files=[('D:\\a "1",2.mdf', "data")],
        processes=[("sqlservr.exe", 4711)],
        layer=["block", "block", "block", "block", "device"],
        op=["read", "write", "flush", "read", "read"],
        issued_ns=[2_000_000, 1_000_000, 3_000_000, 500_100, 600_000],
        completed_ns=[2_500_000, None, 3_100_000, 900_300, 800_000],
        offset_bytes=[8192, 4096, 0, 65_536, 65_536],
        size_bytes=[8192, 512, 0, 4096, 4096],
        file_id=[0, None, None, 0, 0],
        process_id=[0, None, 0, 0, 0],
        flags=[IoFlags.READAHEAD | IoFlags.PAGING, IoFlags.WRITE_THROUGH, 0, 0, 0],
    )


def test_a_folder_whose_name_is_a_pattern_is_not_taken_for_its_neighbour(
    five: Recording, make_recording: MakeRecording, tmp_path: Path
) -> None:
    """Browsers call a second download night[1]."""
    five.path.rename(tmp_path / "night[1].iotrace")
    other = make_recording(layer=["block"], op=["read"], issued_ns=[0], completed_ns=[1])
    other.path.rename(tmp_path / "night1.iotrace")
    mine = Recording.open(tmp_path / "night[1].iotrace")
    assert export_table(mine, tmp_path / "x.csv", "csv").ios == 5


def test_csv_has_names_and_units_in_one_heading(five: Recording, tmp_path: Path) -> None:
    written = export_table(five, tmp_path / "x.csv", "csv")
    assert (written.ios, written.layers) == (5, {"block": 4, "device": 1})
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["issued_ns"] for row in rows] == ["500100", "600000", "1000000", "2000000", "3000000"]
    assert rows[3] == {
        "issued_utc": "1970-01-01 00:00:00.002",
        "layer": "block",
        "op": "read",
        "intended_ns": "",
        "issued_ns": "2000000",
        "completed_ns": "2500000",
        "latency_ns": "500000",
        "offset_bytes": "8192",
        "size_bytes": "8192",
        "device": "sda",
        "file": 'D:\\a "1",2.mdf',
        "role": "data",
        "database": "",
        "process": "sqlservr.exe",
        "os_process_id": "4711",
        "thread_id": "",
        "flags": "paging+readahead",
        "error": "0",
        "copy": "0",
    }
    assert (rows[2]["latency_ns"], rows[2]["file"]) == ("", "")


FORMULAS = {
    **{name: f"'{name}" for name in ("=1+1", "+1+1", "-2+3", "@SUM(A1)", "＝1", "＋1", "－1", "＠x")},  # noqa: RUF001
    "\t=1": "'\t'=1",
    "\r=1": "'\r'=1",
    "\n=1": "'\n'=1",
    "\tx": "'\tx",
    "a;=1+1": "a;'=1+1",
    'a";=1': "a\";'=1",
    'a";"=1': 'a";"\'=1',
    "a,b,@x": "a,b,'@x",
    "a\t-2+3": "a\t'-2+3",
    "a\n=1": "a\n'=1",
    "a|+x": "a|'+x",
    HOSTILE_NAMES["formula"]: f"'{HOSTILE_NAMES['formula']}",
}
"""What is a formula to a spreadsheet set to some separator, and how it is written."""
NO_FORMULAS = ["-5", "+0.25", "-1e-9", "", "a=1", " =1", "1-2", "a; b", *HOSTILE_NAMES.values()]


@pytest.mark.parametrize("name", [*FORMULAS, *NO_FORMULAS])
def test_no_name_is_a_formula_to_a_spreadsheet(
    make_recording: MakeRecording, tmp_path: Path, name: str
) -> None:
    """OWASP, CSV Injection: an apostrophe before what a cell begins with. Numbers are none."""
    source = make_recording(
        files=[(name, "data")],
        processes=[(name, 1)],
        issued_ns=[0],
        completed_ns=[9],
        file_id=[0],
        process_id=[0],
    )
    export_table(source, tmp_path / "x.csv", "csv")
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    written = FORMULAS.get(name, name)
    assert (row["file"], row["process"], row["issued_ns"]) == (written, written, "0")
    assert defused(name) == written


def test_parquet_has_the_same_rows_with_types(five: Recording, tmp_path: Path) -> None:
    export_table(five, tmp_path / "x.parquet", "parquet", layer="block", window_ns=(1_000_000, 3_000_000))
    table = pq.read_table(tmp_path / "x.parquet")
    assert table["issued_ns"].to_pylist() == [1_000_000, 2_000_000]
    assert table["latency_ns"].to_pylist() == [None, 500_000]
    assert str(table.schema.field("issued_utc").type) == "timestamp[ns]"
    assert table["role"].to_pylist() == [None, "data"]


def test_msr_columns_are_those_of_the_traces(five: Recording, tmp_path: Path) -> None:
    written = export_table(five, tmp_path / "x.csv", "msr")
    # FILETIME of 1970-01-01, as Microsoft's documentation of the epochs gives it, and 5001 ticks.
    assert (tmp_path / "x.csv").read_text().splitlines() == [
        f"{116_444_736_000_000_000 + 5001},source,0,Read,65536,4096,4002",
        f"{116_444_736_000_000_000 + 20_000},source,0,Read,8192,8192,5000",
    ]
    assert written.left_out == {"flushes": 1, "never seen to end": 1}


def test_msr_goes_round_through_the_importer(make_recording: MakeRecording, tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    count = 2000
    issued = np.sort(random.integers(0, 10**9, count)) * 100
    source = make_recording(
        op=np.where(random.random(count) < 0.5, "read", "write").tolist(),
        issued_ns=issued,
        completed_ns=issued + random.integers(1, 10**5, count) * 100,
        offset_bytes=random.integers(0, 2**40, count),
        size_bytes=random.integers(1, 2**20, count),
        device_id=random.integers(0, 3, count).tolist(),
    )
    export_table(source, tmp_path / "x.csv", "msr")
    import_files([tmp_path / "x.csv"], tmp_path / "back.iotrace")
    back = Recording.open(tmp_path / "back.iotrace")
    assert datetime.fromtimestamp(back.manifest.clock.start_utc_ns / 1e9, UTC).year == 1970
    columns = ["op", "offset_bytes", "size_bytes"]
    before, after = source.read("io"), back.read("io")
    for name in columns:
        assert before[name].to_pylist() == after[name].to_pylist()
    for name in ("issued_ns", "completed_ns"):
        moved = np.array(after[name]) - np.array(before[name])
        assert len(set(moved.tolist())) == 1  # the clock's zero may differ


def test_msr_tells_files_apart_where_offsets_lie_within_them(
    make_recording: MakeRecording, tmp_path: Path
) -> None:
    source = make_recording(
        layer=["sql"] * 4,
        issued_ns=[0, 100, 200, 300],
        completed_ns=[100, 200, 300, 400],
        offset_bytes=[0, 0, 8192, 0],
        device_id=[None] * 4,
        file_id=[0, 1, 1, None],
    )
    written = export_table(source, tmp_path / "x.csv", "msr")
    with (tmp_path / "x.csv").open(newline="") as file:
        assert [(row[2], row[4]) for row in csv.reader(file)] == [("0", "0"), ("1", "0"), ("1", "8192")]
    assert written.left_out == {"file unknown": 1}


def test_nothing_is_replaced_unasked(five: Recording, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("mine")
    with pytest.raises(IotraceError, match="exists already"):
        export_table(five, path, "csv")
    with pytest.raises(IotraceError, match="not as iotrace wrote it"):
        export_table(five, path, "csv", overwrite=True)
    assert path.read_text() == "mine"
    path.unlink()
    export_table(five, path, "csv")
    export_table(five, path, "parquet", overwrite=True)
    assert path.read_bytes().startswith(b"PAR1")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    folder = tmp_path / "folder"
    folder.mkdir()
    for other, word in ((link, "not a plain file"), (folder, "is a folder")):
        with pytest.raises(IotraceError, match=word):
            export_table(five, other, "csv", overwrite=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"layer": "sql"}, "no I/O of the layer"),
        ({"window_ns": (10**12, 2 * 10**12)}, "nothing in"),
    ],
)
def test_nothing_to_export_is_an_error_and_leaves_nothing(
    five: Recording, tmp_path: Path, options: dict[str, object], problem: str
) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(IotraceError, match=problem):
        export_table(five, tmp_path / "x.csv", "csv", **options)
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_leaves_nothing(five: Recording) -> None:
    with pytest.raises(IotraceError, match=r"cannot (write|be exported)|not a folder"):
        export_table(five, Path("/proc/x.csv"), "csv")


@pytest.mark.root
@pytest.mark.skipif(sys.platform == "win32", reason="the limit is POSIX's")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_limit_of_the_shell_is_named_by_the_users_own_word(
    make_recording: MakeRecording, tmp_path: Path, form: str
) -> None:
    """DuckDB names its own file, which is gone by then."""
    path = make_recording(issued_ns=np.random.default_rng(1).integers(0, 2**60, 50_000)).path
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 60; exec "$@"', "bash", sys.executable, "-m", "iotrace.cli", "export", path,
         "--to", form, "-o", f"x.{form}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.split("\n")[0]) == (
        2,
        f"error: cannot write 'x.{form}': File too large",
    )
    assert "ulimit -f unlimited" in done.stderr
    assert not [one for one in tmp_path.iterdir() if "x." in one.name]


@pytest.mark.xdist_group("root")
def test_a_disk_that_fills_up_is_named_by_the_users_own_word(
    make_recording: MakeRecording, tmp_path: Path
) -> None:
    recording = make_recording(issued_ns=np.arange(20_000) * 1_000_000)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(IotraceError) as refusal:
            export_table(recording, small / "x.csv", "csv")
        assert refusal.value.message == f"cannot write '{small / 'x.csv'}': No space left on device"
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_progress_ends_and_ctrl_c_leaves_nothing(
    five: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_share: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("iotrace.replay.export.tables._POLL_SECONDS", 0.0)
    before = sorted(tmp_path.iterdir())
    try:
        export_table(five, tmp_path / "x.csv", "csv", progress=interrupted)
    except KeyboardInterrupt:
        assert sorted(tmp_path.iterdir()) == before
