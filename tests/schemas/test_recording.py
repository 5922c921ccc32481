"""Opening what a user hands over, good or bad, and telling whether it is whole."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.schemas import Clock, IotraceError, Manifest, Recording, validate
from iotrace.schemas.host import Host

from ..ordinary import open_folder, ordinary_user
from ..recordings import SDA, write_recording


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    io = {"issued_ns": [5], "completed_ns": [9], "offset_bytes": [0], "size_bytes": [512], "device_id": [0]}
    return write_recording(
        tmp_path / "a.iotrace", io, tables={"devices": SDA}, kind="synthetic", window_end_ns=10
    )


def change_manifest(recording: Recording, **changes: object) -> None:
    path = recording.path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def write_io(recording: Recording, **columns: object) -> None:
    table = recording.read("io")
    for name, values in columns.items():
        position = table.schema.get_field_index(name)
        table = table.set_column(
            position, table.schema.field(name), pa.array(values, table.schema.field(name).type)
        )
    pq.write_table(table, recording.path / "io.parquet")


def test_a_whole_recording_has_no_findings(recording: Recording) -> None:
    assert validate(recording.path) == []


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(IotraceError, match=r"no recording at '.*nowhere'"):
        Recording.open(tmp_path / "nowhere")


def test_a_file_is_no_recording_and_the_hint_says_import(tmp_path: Path) -> None:
    (tmp_path / "trace.etl").write_bytes(b"x")
    with pytest.raises(IotraceError) as caught:
        Recording.open(tmp_path / "trace.etl")
    assert "is a file, not a recording" in caught.value.message
    assert f"iotrace import {tmp_path / 'trace.etl'}" in caught.value.hint


def test_a_folder_without_manifest_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(IotraceError, match=r"without a manifest\.json"):
        Recording.open(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "nonsense", '{"format_version": 1}', "[" * 100_000],
    ids=lambda text: text[:10] or "empty",
)
def test_a_damaged_manifest_is_an_error_not_a_traceback(recording: Recording, text: str) -> None:
    (recording.path / "manifest.json").write_text(text)
    with pytest.raises(IotraceError, match=r"damaged manifest\.json"):
        Recording.open(recording.path)


def test_a_manifest_of_other_bytes_is_an_error(recording: Recording) -> None:
    (recording.path / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(IotraceError, match="not UTF-8"):
        Recording.open(recording.path)


def test_a_newer_format_says_update(recording: Recording) -> None:
    change_manifest(recording, format_version=99)
    with pytest.raises(IotraceError, match=r"newer iotrace \(format 99"):
        Recording.open(recording.path)


def test_fields_of_a_later_iotrace_are_ignored(recording: Recording) -> None:
    change_manifest(recording, mood="sunny")
    assert Recording.open(recording.path).manifest.title == "test"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_an_unreadable_recording_is_an_error(recording: Recording) -> None:
    with open_folder() as folder:
        path = Path(shutil.copytree(recording.path, folder / "r.iotrace"))
        path.chmod(0o755)
        for file in path.iterdir():
            file.chmod(0o644)
        with ordinary_user():
            assert Recording.open(path).manifest == recording.manifest
        path.chmod(0)
        with ordinary_user(), pytest.raises(IotraceError, match="Permission denied"):
            Recording.open(path)


def test_a_truncated_table_is_found(recording: Recording) -> None:
    path = recording.path / "io.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert [(finding.level, finding.where) for finding in validate(recording.path)] == [
        ("error", "io.parquet"),
        ("error", "io"),
    ]
    with pytest.raises(IotraceError, match="damaged table io"):
        recording.read("io")


def test_a_missing_table_is_found(recording: Recording) -> None:
    (recording.path / "files.parquet").unlink()
    assert [finding.where for finding in validate(recording.path)] == ["files"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"completed_ns": [4]}, "1 I/O completed before being issued"),
        ({"device_id": [7]}, "device_id names 1 row that devices does not have"),
    ],
)
def test_rows_that_cannot_be_are_found(
    recording: Recording, columns: dict[str, object], message: str
) -> None:
    write_io(recording, **columns)
    assert message in [finding.what for finding in validate(recording.path)]


def test_a_row_that_went_missing_is_found(recording: Recording) -> None:
    pq.write_table(recording.read("io").slice(1), recording.path / "io.parquet")
    assert [finding.what for finding in validate(recording.path)] == ["has 0 rows, the manifest says 1"]


def test_a_wrong_type_is_found(recording: Recording) -> None:
    table = recording.read("io")
    table = table.set_column(3, "issued_ns", table["issued_ns"].cast(pa.float64()))
    pq.write_table(table, recording.path / "io.parquet")
    assert [finding.what for finding in validate(recording.path)] == ["column issued_ns is double, not int64"]


def test_a_half_character_in_a_name_is_replaced_in_the_manifest():
    manifest = Manifest("captured", "sales\ud800.mdf", Clock(0, 1.0, "test"), host=Host("\udfff\ud83d\ude00"))
    text = manifest.to_json()
    assert text.encode("utf-8")
    found = Manifest.from_json(text.replace("\ufffd.mdf", "\\ud800.mdf"), "it")
    assert (found.title, found.host.name) == ("sales\ufffd.mdf", "\ufffd\U0001f600")
