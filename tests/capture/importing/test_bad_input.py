"""What users bring by mistake: each gets a clear word, and nothing is written."""

import importlib.util
import io
import sqlite3
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

FIXTURES = Path(__file__).parents[2] / "fixtures"


def load(kind):
    spec = importlib.util.spec_from_file_location(f"{kind}_build", FIXTURES / kind / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


etl = load("etl")


def office():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return data.getvalue()


def parquet():
    data = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), data)
    return data.getvalue()


def arrow_file():
    data = io.BytesIO()
    table = pa.table({"a": [1]})
    with pa.ipc.new_file(data, table.schema) as writer:
        writer.write_table(table)
    return data.getvalue()


def sqlite():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a)")
    return connection.serialize()


LOOKALIKES = {
    "a.rar": (b"Rar!\x1a\x07\x01\0" + bytes(100), "rar archive"),
    "export.csv": (b"Time,LUN,Latency\n2026-03-01 12:00,a,1.5\n", "unknown columns: Time,LUN,Latency"),
    "export2.csv": (b"Zeit;LUN;Latenz\n1;a;2\n", "semicolons"),
    "page.etl": (b"<!DOCTYPE html><html>404</html>", "web page"),
    "result.json": (b'{"job": "fio-3.33"}\n', "JSON"),
    "other.xml": (b'<?xml version="1.0"?><Results><System/></Results>', "XML of another kind"),
    "io.parquet": (parquet(), "Parquet"),
    "io.arrow": (arrow_file(), "Arrow file"),
    "app.db": (sqlite(), "SQLite"),
    "system.evtx": (b"ElfFile\0" + bytes(4096), ".evtx"),
    "perf.data": (b"PERFILE2" + bytes(200), "perf record"),
    "crash.dmp": (b"PAGEDU64" + bytes(4096), "crash dump"),
    "x.exe": (b"MZ\x90\0" + bytes(200), "Windows program"),
    "zeros.etl": (bytes(70_000), "nothing but zeros"),
    "notes.txt": (b"the disk was slow\nall night\n", "some other text"),
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_the_error_names_what_it_looks_like(tmp_path, name):
    data, words = LOOKALIKES[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(IotraceError) as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert f"'{path}' is not a trace" in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert not (tmp_path / "out.iotrace").exists()


def test_an_office_document_is_no_zip_of_traces(tmp_path):
    path = tmp_path / "export.xlsx"
    path.write_bytes(office())
    with pytest.raises(IotraceError, match="Office document") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert "CSV" in caught.value.hint


def test_a_program_of_this_machine(tmp_path):
    with pytest.raises(IotraceError, match="program"):
        import_files([Path(sys.executable).resolve()], tmp_path / "out.iotrace")


REFUSED = {
    "paper.blg": (b"This is BibTeX, Version 0.99d\nThe top-level auxiliary file: paper.aux\n", "BibTeX"),
    "session.xem": (b"<?xml?>" + bytes(600), "metadata file"),
    "vista.etl": (etl.log([], os=(6, 0)), "Vista"),
    "xp.etl": (etl.log([], os=(5, 1)), "Windows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_forms_that_are_too_old_or_something_else(tmp_path, name):
    data, words = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(IotraceError, match=words) as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_overlapping_files_of_one_boot_are_named(tmp_path):
    """Two logs of one boot that ran at the same time: nothing tells which I/Os are in both, so it is said."""
    t0 = etl.T0
    boot = struct.pack("<q", etl.START_FILETIME - 10**9)
    paths = []
    for number, start in enumerate((0, 5_000_000)):
        reads = [
            etl.perfinfo(etl.READ, t0 + at, etl.transfer(offset=at)) for at in range(512, 10**8, 512 * 2**13)
        ]
        header = {"start": etl.START_FILETIME + start}
        data = etl.log(reads, **header)
        data = data.replace(struct.pack("<q", header["start"] - 10**9), boot, 1)
        paths.append(tmp_path / f"{number}.etl")
        paths[-1].write_bytes(data)
    notes = import_files(paths, tmp_path / "out.iotrace").manifest.quality.notes
    assert any("overlap in time" in note and "counts twice" in note for note in notes)


def test_the_command_line_says_it_with_status_2(tmp_path):
    path = tmp_path / "export.csv"
    path.write_bytes(LOOKALIKES["export.csv"][0])
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", "import", str(path), "-o", str(tmp_path / "out.iotrace")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "unknown columns" in " ".join(done.stderr.split())
    assert "hint:" in done.stderr
