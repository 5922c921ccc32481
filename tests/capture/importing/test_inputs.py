"""What a user names: folders as they were collected, zips of them, and files that are one trace only together."""

import importlib.util
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

FIXTURES = Path(__file__).parents[2] / "fixtures"
SAMPLES = Path(__file__).parents[4] / "shared" / "samples"
NOTIFY = 1 << 26
RECORD = struct.Struct("<IIQQIIIIIHH")


def load(kind):
    spec = importlib.util.spec_from_file_location(f"{kind}_build", FIXTURES / kind / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


etl, xel = load("etl"), load("xel")


def kernel_log():
    t0 = etl.T0
    return etl.log(
        [etl.perfinfo(etl.READ, t0 + 1000 * n, etl.transfer(offset=8192 * n)) for n in range(1, 5)]
    )


def session():
    fields = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 3}
    return xel.file([xel.event("file_read_completed", 10_000_000, fields)])


@pytest.fixture
def collected(tmp_path):
    """A folder as the collect step of a plan leaves it, and odds and ends beside."""
    folder = tmp_path / "collected"
    (folder / "sql").mkdir(parents=True)
    (folder / "kernel.etl").write_bytes(kernel_log())
    (folder / "sql" / "io_0.xel").write_bytes(session())
    shutil.copy(FIXTURES / "dmv" / "waits_ssms.csv", folder / "sql")
    (folder / "facts.txt").write_text("Windows Server 2022\nsector size 4096\n")
    (folder / "sql" / "version.csv").write_text("name,value\nedition,Standard\n")
    (folder / "unfinished.etl").write_bytes(b"")
    (folder / "vista.etl").write_bytes(etl.log([], os=(6, 0)))
    (folder / ".hidden").write_bytes(b"x")
    return folder


def as_zip(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_all_that_is_a_trace_is_taken_and_the_rest_is_told(tmp_path, collected, packed):
    named = as_zip(collected, tmp_path / "collected.zip") if packed else collected
    recording = import_files([named], tmp_path / "out.iotrace", apart_in_time=True)
    assert validate(recording.path) == []
    inner = f"{named}/collected" if packed else str(named)
    sources = {(source.name, source.kind) for source in recording.manifest.sources}
    expected = {
        (f"{inner}/kernel.etl", "etl"),
        (f"{inner}/sql/io_0.xel", "xel"),
        (f"{inner}/sql/waits_ssms.csv", "dmv"),
    }
    assert sources == expected | ({(str(named), "zip")} if packed else set())
    assert all(len(source.sha256) == 64 for source in recording.manifest.sources)
    assert recording.manifest.rows["io"] == 5
    notes = "\n".join(recording.manifest.quality.notes)
    assert "left out, not a trace that iotrace knows: " in notes
    for name in ("facts.txt", "sql/version.csv"):
        assert f"{inner}/{name}" in notes
    assert f"left out: '{inner}/unfinished.etl' is empty" in notes
    assert "vista.etl" in notes
    assert list(tmp_path.glob(".iotrace-*")) == []


def test_a_folder_is_inspected_without_importing(collected):
    found = inspect_path(collected)
    assert sorted((Path(trace.name).name, trace.format) for trace in found.traces) == [
        ("io_0.xel", "xel"), ("kernel.etl", "etl"), ("vista.etl", "etl"), ("waits_ssms.csv", "dmv"),
    ]  # fmt: skip
    assert [Path(trace.name).name for trace in found.traces if trace.problem] == ["vista.etl"]
    assert any("facts.txt" in note for note in found.notes)


def test_a_recording_in_a_folder_is_left_out_and_one_that_is_named_is_refused(tmp_path, collected):
    made = import_files([collected / "kernel.etl"], collected / "made.iotrace")
    recording = import_files([collected], tmp_path / "out.iotrace", apart_in_time=True)
    assert recording.manifest.rows["io"] == 5
    assert any("made.iotrace' is already a recording" in note for note in recording.manifest.quality.notes)
    with pytest.raises(IotraceError, match="is already a recording"):
        import_files([made.path], tmp_path / "other.iotrace")


def test_a_folder_with_only_bad_traces_says_what_is_wrong_with_the_first(tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "a.etl").write_bytes(etl.log([], os=(6, 0)))
    with pytest.raises(IotraceError, match="Vista"):
        import_files([folder], tmp_path / "out.iotrace")


@pytest.fixture
def split(tmp_path):
    """The real trace of one processor, dealt out event by event to three, as blktrace would have written them."""
    whole = SAMPLES / "linux" / "takeoverjp_sample.blktrace.1"
    if not whole.is_file():
        pytest.skip(f"no {whole}")
    data, at, number = whole.read_bytes(), 0, 0
    parts = [bytearray(), bytearray(), bytearray()]
    counts = [0, 0, 0]
    while at < len(data):
        fields = list(RECORD.unpack_from(data, at))
        length = RECORD.size + fields[-1]
        processor = number % 3
        number += 1
        fields[8] = processor
        if not fields[5] & NOTIFY:
            counts[processor] += 1
            fields[1] = counts[processor]
        parts[processor] += RECORD.pack(*fields) + data[at + RECORD.size : at + length]
        at += length
    folder = tmp_path / "trace"
    folder.mkdir()
    for processor, part in enumerate(parts):
        (folder / f"nvme.blktrace.{processor}").write_bytes(part)
    # A processor that did nothing leaves an empty file.
    (folder / "nvme.blktrace.3").write_bytes(b"")
    return whole, folder


def content(recording):
    """I/Os with the threads they name, in an order of their own."""
    threads = {row["process_id"]: row["os_process_id"] for row in recording.read("processes").to_pylist()}
    rows = recording.read("io").to_pylist()
    for row in rows:
        row["process_id"] = threads.get(row["process_id"])
    return sorted(rows, key=lambda row: (row["issued_ns"], row["layer"], row["offset_bytes"]))


@pytest.mark.parametrize("how", ["one", "all", "folder", "zip", "empty one"])
def test_files_of_several_processors_are_one_trace_however_they_are_named(tmp_path, split, how):
    whole, folder = split
    members = sorted(folder.iterdir())
    named = {
        "one": [members[1]],
        "all": members,
        "folder": [folder],
        "zip": [as_zip(folder, tmp_path / "trace.zip")] if how == "zip" else [],
        "empty one": [members[3]],
    }[how]
    recording = import_files(named, tmp_path / "out.iotrace")
    assert content(recording) == content(import_files([whole], tmp_path / "whole.iotrace"))
    sources = [source for source in recording.manifest.sources if source.kind == "blktrace"]
    assert [Path(source.name).name for source in sources] == [member.name for member in members]
    assert all(len(source.sha256) == 64 for source in sources)
    assert recording.manifest.quality.events_lost == 0
    assert recording.manifest.quality.unpaired_completions == 0


def test_a_family_is_inspected_as_one(split):
    _, folder = split
    (found,) = inspect_path(folder).traces
    assert (found.format, found.facts["files"]) == ("blktrace", 4)


def test_traces_of_two_devices_in_one_folder_are_two(tmp_path, split):
    _, folder = split
    for member in sorted(folder.iterdir()):
        data = bytearray(member.read_bytes())
        shutil.copy(member, folder / member.name.replace("nvme", "sdb"))
        del data
    recording = import_files([folder], tmp_path / "out.iotrace")
    # The copies are the same bytes: known as such, and taken once.
    assert any("byte for byte the same" in note for note in recording.manifest.quality.notes)
    assert len([source for source in recording.manifest.sources if source.kind == "blktrace"]) == 4
