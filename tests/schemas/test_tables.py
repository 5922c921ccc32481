"""Batches are brought into the schema exactly, or refused by name."""

import json
from pathlib import Path

import pyarrow as pa
import pydantic
import pytest
from packaging.version import Version

from iotrace.schemas import TABLES, Recording, conform, validate
from iotrace.schemas.manifest import json_schema_text
from iotrace.schemas.tables import language_neutral_text

from ..recordings import write_recording

ROW = {"layer": ["block"], "op": ["read"], "issued_ns": [1], "size_bytes": [512]}


def test_absent_columns_take_their_defaults() -> None:
    row = conform(pa.table(ROW), "io").to_pylist()[0]
    assert row == {
        "layer": "block", "op": "read", "intended_ns": None, "issued_ns": 1, "completed_ns": None, "offset_bytes": None,
        "size_bytes": 512, "device_id": None, "file_id": None, "process_id": None, "thread_id": None,
        "flags": 0, "error": 0, "copy": 0,
    }  # fmt: skip


def test_words_may_come_as_positions() -> None:
    table = conform(
        pa.table(ROW | {"layer": pa.array([3], pa.uint8()), "op": pa.array([2], pa.uint8())}), "io"
    )
    assert table.schema.equals(TABLES["io"])
    assert (table["layer"][0].as_py(), table["op"][0].as_py()) == ("device", "flush")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": ["disk"]}, "io.layer cannot be 'disk'"),
        ({"op": pa.array([9], pa.uint8())}, "io.op has a position outside its 4 words"),
        ({"size_bytes": pa.array([1 << 33], pa.int64())}, "io.size_bytes"),
        ({"offset_bytes": pa.array([-1], pa.int64())}, "io.offset_bytes"),
        ({"issued_ns": pa.array([None], pa.int64())}, "io.issued_ns has 1 nulls"),
        ({"latency": [1]}, "io has no column latency"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        conform(pa.table(ROW | change), "io")


def test_a_missing_column_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"io\.size_bytes is missing"):
        conform(pa.table({key: value for key, value in ROW.items() if key != "size_bytes"}), "io")


def test_an_empty_batch_conforms() -> None:
    assert conform(TABLES["io"].empty_table(), "io").num_rows == 0


def test_the_language_neutral_copy_is_current() -> None:
    path = Path(__file__).parents[2] / "schemas" / "recording.json"
    assert path.read_text("utf-8") == language_neutral_text(), "run `make schemas`"
    assert json.loads(path.read_text("utf-8"))["words"]["layer"] == ["sql", "filesystem", "block", "device"]


@pytest.mark.skipif(
    Version(pydantic.VERSION) < Version("2.13"), reason="pydantic before 2.13 words JSON schemas differently"
)
def test_the_schema_of_the_manifest_is_current_and_names_what_a_replay_says() -> None:
    path = Path(__file__).parents[2] / "schemas" / "manifest.schema.json"
    assert path.read_text("utf-8") == json_schema_text(), "run `make schemas`"
    defined = json.loads(path.read_text("utf-8"))["$defs"]
    assert "generator_limited" in defined["Replay"]["properties"]
    assert "outstanding" in defined["Cell"]["required"]


RESULT = {
    "run": 0, "test": "randread", "tool": "fio", "op": "total", "iops": 1000.0, "latency_clock": "service",
    "quantiles": [{"quantile": 0.5, "latency_ns": 90_000}, {"quantile": 0.99, "latency_ns": 400_000}],
    "histogram": [{"latency_ns": 90_000, "ios": 3}],
}  # fmt: skip


def with_results(folder: Path) -> Recording:
    results = pa.Table.from_pylist([RESULT], schema=TABLES["results"])
    return write_recording(folder / "a.iotrace", tables={"results": results}, kind="tested")


def test_results_are_kept_with_their_quantiles(tmp_path: Path) -> None:
    recording = with_results(tmp_path)
    assert validate(recording.path) == []
    row = Recording.open(recording.path).read("results").to_pylist()[0]
    assert {name: row[name] for name in RESULT} == RESULT
    assert row["transactions"] is None


def test_a_recording_without_results_has_no_such_table(tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "a.iotrace")
    assert "results" not in recording.table_names()
    assert validate(recording.path) == []


def test_lost_results_are_noticed(tmp_path: Path) -> None:
    recording = with_results(tmp_path)
    (recording.path / "results.parquet").unlink()
    assert [finding.what for finding in validate(recording.path)] == ["table is missing"]


def test_text_that_is_no_utf8_is_taken_with_what_is_no_text_replaced():
    raw = pa.array([b"sales\xed\xa0\x80.mdf", None, b"whole"], pa.binary())
    careless = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    table = conform(pa.table({"at_ns": [1, 2, 3], "kind": ["note"] * 3, "text": careless}), "markers")
    table.validate(full=True)
    assert table["text"].to_pylist() == ["sales\ufffd\ufffd\ufffd.mdf", None, "whole"]
