"""Names and attributes that a replay on Windows refuses. The calls of Windows themselves need Windows."""

import os

import pytest

from iotrace.replay import DirectIoRefusedError
from iotrace.replay.targets.windows_rules import (
    error_word,
    refuse_attributes,
    refuse_changed_bytes,
    refuse_filesystem,
    refuse_name,
)
from iotrace.schemas import IotraceError

# [MS-FSCC] 2.6, file attributes.
NORMAL, SPARSE, REPARSE_POINT, COMPRESSED, ENCRYPTED = 0x80, 0x200, 0x400, 0x800, 0x4000


@pytest.mark.parametrize(
    "name",
    [
        r"\\.\PhysicalDrive0",
        "//./PhysicalDrive0",
        r"\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}",
        r"\\.\C:",
        r"/\.\C:",
        r"\??\C:\data\x",
    ],
)
def test_disks_and_volumes_are_refused_by_any_spelling(name: str) -> None:
    with pytest.raises(IotraceError, match="disk or a volume"):
        refuse_name(name)


@pytest.mark.parametrize("name", [r"D:\x:stream", r"D:\x::$DATA", "data.mdf::$DATA", "1:x"])
def test_streams_are_refused(name: str) -> None:
    with pytest.raises(IotraceError, match="stream"):
        refuse_name(name)


@pytest.mark.parametrize("name", [r"D:\data.mdf.", r"D:\data.mdf ", "data.mdf. .", r"D:\data.mdf .\\"])
def test_names_that_windows_takes_for_others_are_refused(name: str) -> None:
    with pytest.raises(IotraceError, match="drops"):
        refuse_name(name)


@pytest.mark.parametrize(
    "name", [r"D:\folder\iotrace.target", "d:/x", "x", r".\x", r"..\x", r"\\server\share\x", ".", ".."]
)
def test_names_of_files_are_taken(name: str) -> None:
    refuse_name(name)


def test_links_are_read_and_not_written() -> None:
    refuse_attributes("x", REPARSE_POINT, writes=False, direct=True)
    with pytest.raises(IotraceError, match="reparse point"):
        refuse_attributes("x", REPARSE_POINT | NORMAL, writes=True, direct=False)


@pytest.mark.parametrize(
    ("attributes", "word"), [(SPARSE, "sparse"), (COMPRESSED, "compressed"), (ENCRYPTED, "encrypted")]
)
def test_direct_io_needs_the_bytes_as_they_are(attributes: int, word: str) -> None:
    with pytest.raises(DirectIoRefusedError, match=word):
        refuse_attributes("x", attributes, writes=False, direct=True)
    refuse_attributes("x", attributes, writes=False, direct=False)
    with pytest.raises(IotraceError, match=word):
        refuse_changed_bytes("x", attributes, 4096, 4096)


def test_a_file_that_is_not_allocated_in_full_is_refused() -> None:
    refuse_changed_bytes("x", NORMAL, 4096, 65536)
    with pytest.raises(IotraceError, match="only 4,096 of 8,192 bytes"):
        refuse_changed_bytes("x", NORMAL, 8192, 4096)


@pytest.mark.parametrize("filesystem", ["FAT32", "exFAT", None])
def test_marks_need_a_file_system_that_keeps_them_apart(filesystem: str | None) -> None:
    refuse_filesystem("x", "NTFS")
    with pytest.raises(IotraceError, match="cannot mark"):
        refuse_filesystem("x", filesystem)


def test_errors_have_the_same_words_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [5, 13, 16, 19, 22, 27, 28, 61, 95, 110, 122, 123, 125]
    linux = [os.strerror(number) for number in numbers]
    monkeypatch.setattr("sys.platform", "win32")
    # What the C library of Windows has words for, of these.
    known = dict(zip(numbers, linux, strict=True))
    monkeypatch.setattr(
        os, "strerror", lambda number: known[number] if number in {5, 13, 22, 27, 28} else "Unknown error"
    )
    assert [error_word(number) for number in numbers] == linux
