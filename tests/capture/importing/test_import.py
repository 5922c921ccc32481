"""Importing files as users bring them: zips, several at once, and whatever is wrong with them."""

import importlib.util
import os
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from iotrace.capture import _readers
from iotrace.capture.formats import registry
from iotrace.capture.importing.inputs import RATIO_FREE_BYTES
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, Recording, validate

_SPEC = importlib.util.spec_from_file_location(
    "etl_build", Path(__file__).parents[2] / "fixtures" / "etl" / "build.py"
)
etl = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(etl)
T0 = etl.T0


def small_log(**header):
    """Two reads and a file name."""
    t0 = header.get("t0", T0)
    events = [
        etl.system(etl.FILE_CREATE, t0 + 1, etl.name(7, "D:\\db\\Sales.mdf")),
        etl.perfinfo(etl.READ, t0 + 1000, etl.transfer(key=7, response=100)),
        etl.perfinfo(etl.READ, t0 + 2000, etl.transfer(key=7, response=100, offset=8192)),
    ]
    return etl.log(events, **header)


@pytest.fixture
def output(tmp_path):
    """Where the recording goes. Whatever happens, nothing else is left beside it."""
    folder = tmp_path / "out"
    folder.mkdir()
    yield folder / "prod.iotrace"
    assert {entry.name for entry in folder.iterdir()} <= {"prod.iotrace"}


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def refused(problem, path, *words):
    """The message is one line, names the user's file, ends without a full stop, and comes with a hint."""
    assert f"'{path}'" in problem.message
    assert "\n" not in problem.message
    assert not problem.message.endswith(".")
    assert problem.hint
    for word in words:
        assert word in problem.message


def test_a_recording_and_its_manifest(file, output):
    recording = import_files([file("a.etl", small_log())], output, title="a night")
    assert Recording.open(output).manifest == recording.manifest
    assert (recording.manifest.kind, recording.manifest.title) == ("captured", "a night")
    assert recording.manifest.host.system == "Windows 10.0 build 17763"
    assert validate(output) == []
    assert [row["role"] for row in recording.read("files").to_pylist()] == ["data"]


def test_progress_reaches_its_end(file, output):
    calls = []
    import_files([file("a.etl", small_log())], output, progress=lambda *call: calls.append(call))
    assert calls
    assert all(0 <= done <= total for _, done, total in calls)
    assert calls[-1][1] == calls[-1][2]


def test_an_exception_from_progress_stops_the_import(file, output):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files([file("a.etl", small_log())], output, progress=stop)
    assert not output.exists()


def test_several_logs_of_one_boot_share_a_clock_and_their_files(file, output):
    """The second begins a second later on the same machine; its counter may stand anywhere."""
    later = {"start": etl.START_FILETIME + 10_000_000, "t0": T0 + 10_000_000}
    second, first = file("2.etl", small_log(**later)), file("1.etl", small_log())
    # One boot: the builder writes the boot time relative to the start, so the same one is put in both.
    boot = struct.pack("<q", etl.START_FILETIME - 10**9)
    data = second.read_bytes()
    second.write_bytes(data.replace(struct.pack("<q", later["start"] - 10**9), boot, 1))
    recording = import_files([second, first], output)
    io = recording.read("io").to_pylist()
    assert [row["completed_ns"] for row in io] == [100_000, 200_000, 1_000_100_000, 1_000_200_000]
    assert recording.manifest.clock.start_utc_ns == etl.START_UTC_NS
    assert {row["file_id"] for row in io} == {0}
    assert recording.manifest.rows["devices"] == 1
    assert [source.name for source in recording.manifest.sources] == [str(second), str(first)]
    assert validate(output) == []


def test_logs_of_different_machines_share_nothing(file, output):
    paths = [file("1.etl", small_log()), file("2.etl", small_log(start=etl.START_FILETIME + 5))]
    recording = import_files(paths, output)
    assert [row["device_id"] for row in recording.read("io").to_pylist()] == [0, 0, 1, 1]
    assert recording.manifest.rows["files"] == 2
    assert validate(output) == []
    assert any("overlap" in note for note in recording.manifest.quality.notes)


def test_a_zip_is_taken_as_it_is(tmp_path, output):
    path = zipped(
        tmp_path / "a.zip", **{"PerfView\\x.etl": small_log(), "log.txt": b"hello", "symbols/": b""}
    )
    recording = import_files([path], output)
    assert len(recording.read("io")) == 2
    archive, trace = recording.manifest.sources
    assert (archive.name, archive.kind, archive.bytes) == (str(path), "zip", path.stat().st_size)
    assert (trace.name, trace.kind) == (f"{path}/PerfView/x.etl", "etl")
    assert all(re.fullmatch("[0-9a-f]{64}", source.sha256) for source in (archive, trace))


def test_member_names_are_never_used_as_paths(tmp_path, output):
    other = small_log(start=etl.START_FILETIME + 5)
    path = zipped(tmp_path / "a.zip", **{"../../../evil.etl": small_log(), "/etc/evil.etl": other})
    assert len(import_files([path], output).read("io")) == 4
    assert not list(tmp_path.parent.rglob("evil.etl"))


def test_a_counter_log_beside_the_traces_in_a_zip_is_left_out_and_said(tmp_path, output):
    counter_log = small_log(version=0, clock=2)
    path = zipped(tmp_path / "a.zip", **{"a.etl": small_log(), "b.blg": counter_log})
    recording = import_files([path], output)
    assert len(recording.read("io")) == 2
    assert any("b.blg' is a counter log" in note for note in recording.manifest.quality.notes)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, output):
    """A trace's first bytes, then 10 GB of zeros in 10 MB: the classic."""
    path = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.etl", "w", force_zip64=True) as member,
    ):
        member.write(small_log())
        for _ in range((RATIO_FREE_BYTES >> 24) + 2):
            member.write(bytes(1 << 24))
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, "200 times")
    assert not output.exists()


def test_a_zip_that_lies_about_its_sizes_is_refused_as_it_unpacks(tmp_path, output):
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.etl", small_log() + bytes(50_000_000))
    data = path.read_bytes()
    size = struct.pack("<I", len(small_log()) + 50_000_000)
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, struct.pack("<I", 200_000)))
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, "damaged zip")


@pytest.mark.parametrize("limit", ["bytes", "members"])
def test_zip_limits(tmp_path, output, monkeypatch, limit):
    path = zipped(tmp_path / "a.zip", **{"a.etl": small_log(), "b.etl": small_log()})
    if limit == "bytes":
        monkeypatch.setattr("iotrace.capture.importing.inputs.BYTES_MAX", 200_000)
    else:
        monkeypatch.setattr("iotrace.capture.importing.inputs.MEMBERS_MAX", 1)
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path)


def test_an_encrypted_zip(tmp_path, output):
    path = zipped(tmp_path / "a.zip", **{"a.etl": small_log()})
    data = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, "encrypted")


def test_a_zip_with_nothing_in_it_that_is_known(tmp_path, output):
    path = zipped(tmp_path / "a.zip", **{"readme.txt": b"hello"})
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, "holds no trace")


@pytest.mark.parametrize("at", [2, 40, -30])
def test_a_damaged_zip(tmp_path, output, at):
    path = zipped(tmp_path / "a.zip", **{"a.etl": small_log()})
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if at == 2 else data[:at] + bytes(20) + data[at + 20 :])
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.etl", b"", "is empty"),
        ("random.etl", os.urandom(5000), "not a trace that iotrace knows"),
        ("text.etl", b"hello\n" * 100, "not a trace that iotrace knows"),
        ("header-cut.etl", small_log()[:300], "log header"),
        ("vista.etl", small_log(os=(6, 0)), "Vista"),
        ("counter.blg", small_log(version=0, clock=2), "counter log"),
        ("clock.etl", small_log(clock=0), "clock"),
        ("frequency.etl", small_log(frequency=0), "clock"),
    ],
)
def test_what_cannot_be_read(file, output, name, data, words):
    path = file(name, data)
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, words)
    assert not output.exists()


def test_a_compression_that_is_not_known_is_named(file, output):
    data = bytearray(etl.log([], compression=etl.literal_xpress))
    data[0x2C:0x30] = struct.pack("<I", 9)
    path = file("a.etl", bytes(data))
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, "format 9")


def test_missing_paths_and_empty_folders(tmp_path, output):
    with pytest.raises(IotraceError) as caught:
        import_files([tmp_path / "gone.etl"], output)
    refused(caught.value, tmp_path / "gone.etl", "no file")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(IotraceError) as caught:
        import_files([empty], output)
    refused(caught.value, empty, "holds no trace")
    with pytest.raises(IotraceError, match="no file to import"):
        import_files([], output)


def test_a_file_one_may_not_read(file, output, monkeypatch):
    """Root may read everything, so the refusal is the operating system's word, put in its mouth."""
    path = file("a.etl", small_log())

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(IotraceError) as caught:
        import_files([path], output)
    refused(caught.value, path, "may not read")


def test_a_recording_is_replaced_only_when_asked(file, output):
    path = file("a.etl", small_log())
    import_files([path], output)
    with pytest.raises(IotraceError, match="exists already"):
        import_files([path], output)
    import_files([path], output, overwrite=True)


def test_one_bad_file_among_good_ones_leaves_nothing(file, output):
    with pytest.raises(IotraceError):
        import_files([file("a.etl", small_log()), file("b.etl", b"x" * 200)], output)
    assert not output.exists()


def test_every_format_has_its_own_name():
    names = [entry.name for entry in registry.OURS]
    assert len(set(names)) == len(names)


def test_rows_never_become_python_objects(file, output):
    """300,000 I/Os take the interpreter no more than a few objects each batch."""
    payload = etl.transfer(response=1)
    events = [etl.pad(etl.perfinfo(etl.READ, T0 + number, payload)) for number in range(300_000)]
    per_buffer = (65_536 - 72) // len(events[0])
    buffers = [events[start : start + per_buffer] for start in range(0, len(events), per_buffer)]
    path = file("big.etl", etl.log(*buffers))
    del events, buffers
    tracemalloc.start()
    recording = import_files([path], output)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recording.manifest.rows["io"] == 300_000
    assert peak < 300_000 * 10
    assert not _readers.is_debug_build()
