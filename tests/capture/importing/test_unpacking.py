"""Archives beside zip: what is in them is imported as if unpacked, within the same bounds, or refused in words."""

import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from iotrace.capture.importing import inputs, unpacking
from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

try:
    import libarchive
except (ImportError, AttributeError, OSError):  # AttributeError: it is there, and the system's library is not
    pytest.skip("needs libarchive-c and the system's libarchive", allow_module_level=True)

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOG = (FIXTURES / "linux" / "diskstats.log").read_bytes()
IOS = (FIXTURES / "public" / "alibaba.csv").read_bytes()


def seven_zip(path, **members):
    with libarchive.file_writer(str(path), "7zip") as archive:
        for name, data in members.items():
            archive.add_file_from_memory(name.replace("__", "/"), len(data), data)
    return path


def cabinet(path, *members):
    """A cabinet of one folder without compression, as Microsoft's description of the format has it."""
    names = [name.encode() + b"\0" for name, _ in members]
    first_file = 36 + 8
    first_data = first_file + sum(16 + len(name) for name in names)
    entries, at = b"", 0
    for name, (_, data) in zip(names, members, strict=True):
        entries += struct.pack("<IIHHHH", len(data), at, 0, 0x5A21, 0, 0x20) + name
        at += len(data)
    content = b"".join(data for _, data in members)
    pieces = [content[start : start + 32_768] for start in range(0, len(content), 32_768)]
    blocks = b"".join(struct.pack("<IHH", 0, len(piece), len(piece)) + piece for piece in pieces)
    size = first_data + len(blocks)
    header = struct.pack(
        "<4sIIIIIBBHHHHH", b"MSCF", 0, size, 0, first_file, 0, 3, 1, 1, len(members), 0, 1, 0
    )
    path.write_bytes(header + struct.pack("<IHH", first_data, len(pieces), 0) + entries + blocks)
    return path


def tarred(path, **members):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def written(path, data):
    path.write_bytes(data)
    return path


PACKED = {
    "7z": lambda folder: seven_zip(folder / "night.7z", night__disks=LOG, readme=b"slow since noon\n"),
    "cab": lambda folder: cabinet(folder / "night.cab", ("night\\disks.log", LOG), ("readme.txt", b"slow\n")),
    "gzip": lambda folder: written(folder / "disks.log.gz", gzip.compress(LOG)),
    "tar": lambda folder: tarred(folder / "night.tgz", night__disks=LOG, readme=b"slow\n"),
    "xz": lambda folder: written(folder / "disks.log.xz", lzma.compress(LOG)),
}


@pytest.mark.parametrize("kind", PACKED)
def test_what_is_inside_is_imported(kind, tmp_path):
    plain = import_files([written(tmp_path / "disks.log", LOG)], tmp_path / "plain.iotrace")
    recording = import_files([PACKED[kind](tmp_path)], tmp_path / "packed.iotrace")
    assert validate(recording.path) == []
    rows, expected = (
        [row | {"source": ""} for row in one.read("counters").to_pylist()] for one in (recording, plain)
    )
    assert rows == expected
    kinds = {source.kind for source in recording.manifest.sources}
    assert kinds == {{"tar": "gzip"}.get(kind, kind), "diskstats"}
    if kind in {"7z", "cab", "tar"}:
        assert any("readme" in note for note in recording.manifest.quality.notes)


def test_several_traces_of_an_archive_in_a_folder(tmp_path):
    seven_zip(tmp_path / "all.7z", a=LOG, b=IOS)
    found = inspect_path(tmp_path)
    assert {trace.format for trace in found.traces} == {"diskstats", "alibaba"}


def test_members_are_never_written_by_their_names(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    path = seven_zip(tmp_path / "a.7z", **{"..__..__out": LOG})
    members = list(unpacking.unpack(path, "a.7z", room, lambda _bytes: None, 10))
    assert [member.name for member in members] == ["../../out"]
    assert [one.name for one in tmp_path.rglob("*") if one.is_file() and one != path] == ["1"]


@pytest.mark.parametrize("limit", ["bytes", "ratio", "members"])
def test_limits_hold_on_what_comes_out(limit, tmp_path, monkeypatch):
    bomb = written(tmp_path / "bomb.gz", gzip.compress(b"a" * (1 << 20)))
    if limit == "bytes":
        monkeypatch.setattr(inputs, "BYTES_MAX", 1 << 18)
        match = "unpacks to more than"
    elif limit == "ratio":
        monkeypatch.setattr(inputs, "RATIO_FREE_BYTES", 1 << 18)
        match = "made to fill disks"
    else:
        bomb = seven_zip(tmp_path / "many.7z", a=LOG, b=LOG, c=LOG)
        monkeypatch.setattr(inputs, "MEMBERS_MAX", 2)
        match = "holds over 2 files"
    with pytest.raises(IotraceError, match=match):
        import_files([bomb], tmp_path / "out.iotrace")
    assert not (tmp_path / "out.iotrace").exists()


@pytest.mark.parametrize("kind", PACKED)
def test_cut_archives_are_refused_in_words(kind, tmp_path):
    whole = PACKED[kind](tmp_path).read_bytes()
    for cut in (len(whole) // 3, len(whole) // 2, len(whole) - 9):
        path = written(tmp_path / "cut", whole[:cut])
        with pytest.raises(IotraceError, match=r"damaged|holds no trace|is not a trace"):
            import_files([path], tmp_path / "out.iotrace")


def test_archives_in_archives_are_left_alone(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("disks.log", LOG)
    path = seven_zip(tmp_path / "outer.7z", inner=inner.getvalue())
    with pytest.raises(IotraceError, match="holds no trace"):
        import_files([path], tmp_path / "out.iotrace")


def test_without_libarchive_it_says_what_to_do(tmp_path):
    path = PACKED["7z"](tmp_path)
    code = (
        "import sys; sys.modules['libarchive'] = None\n"
        "from iotrace.capture.importing.inspecting import inspect_path\n"
        "from iotrace.schemas import IotraceError\n"
        f"try: inspect_path({str(path)!r})\n"
        "except IotraceError as problem: print(problem.message, '|', problem.hint)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "libarchive, which opens it, is not installed" in told
    assert "pip's libarchive-c" in told


def test_an_archive_cut_to_its_header_holds_no_trace(tmp_path):
    (tmp_path / "a.7z").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(100))
    with pytest.raises(IotraceError, match=r"'.*a\.7z'.* holds no trace"):
        import_files([tmp_path / "a.7z"], tmp_path / "x.iotrace")
