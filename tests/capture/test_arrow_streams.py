"""A recording that arrives as Arrow IPC streams, whole and cut off anywhere."""

import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.capture.formats import arrow_streams
from iotrace.capture.importing import import_files
from iotrace.capture.inspecting import inspect_path
from iotrace.schemas import TABLES, Clock, IotraceError, Manifest, conform, validate

BATCHES, ROWS = 5, 40
START_UTC_NS = 1_772_000_000 * 10**9


def io_batch(number):
    count = ROWS
    issued = [(number * ROWS + row) * 1000 for row in range(count)]
    return conform(
        pa.table(
            {
                "layer": ["block"] * count,
                "op": ["read", "write"] * (count // 2),
                "issued_ns": issued,
                "completed_ns": [at + 700 for at in issued],
                "offset_bytes": pa.array([at * 4096 for at in issued], pa.uint64()),
                "size_bytes": [8192] * count,
                "device_id": [70] * count,
            }
        ),
        "io",
    )


DEVICES = conform(
    pa.table({"device_id": [50, 70], "name": ["sda", "sdb"], "kind": ["disk", "disk"]}), "devices"
)


def stream(tables, *, closed=True):
    """Bytes of a stream, and where each of its batches ends."""
    empty = io.BytesIO()
    pa.ipc.new_stream(empty, tables[0].schema).close()
    data = io.BytesIO()
    writer = pa.ipc.new_stream(data, tables[0].schema)
    # A writer writes the schema with the first batch, and the end mark takes 8 bytes.
    ends = [len(empty.getvalue()) - 8]
    for table in tables:
        for batch in table.to_batches():
            writer.write_batch(batch)
        ends.append(data.tell())
    if closed:
        writer.close()
    return data.getvalue(), ends


IO_BYTES, IO_ENDS = stream([io_batch(number) for number in range(BATCHES)])


@pytest.fixture
def folder(tmp_path):
    """A closed set of streams in a folder."""

    def make(io_bytes=IO_BYTES, devices=DEVICES, **manifest):
        path = tmp_path / "streamed"
        path.mkdir(exist_ok=True)
        about = Manifest("captured", "an agent's", Clock(START_UTC_NS, 1.0, "QPC"), window_end_ns=10**6)
        about.rows = {"io": BATCHES * ROWS, "devices": 2}
        text = json.loads(about.to_json()) | manifest
        (path / "manifest.json").write_text(json.dumps(text))
        (path / "io.arrows").write_bytes(io_bytes)
        (path / "devices.arrows").write_bytes(stream([devices])[0])
        return path

    return make


@pytest.fixture
def imported(tmp_path):
    def run(path):
        recording = import_files([path], tmp_path / "out.iotrace", overwrite=True)
        assert validate(recording.path) == []
        return recording

    return run


@pytest.mark.parametrize("how", ["folder", "one stream", "zip"])
def test_whole_streams_become_the_recording_they_are(tmp_path, folder, imported, how):
    path = folder()
    if how == "zip":
        packed = tmp_path / "streamed.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in sorted(path.iterdir(), reverse=True):
                archive.write(file, f"agent/{file.name}")
        path = packed
    recording = imported(path / "io.arrows" if how == "one stream" else path)
    assert recording.manifest.clock.start_utc_ns == START_UTC_NS
    assert (recording.manifest.quality.verdict, recording.manifest.quality.ended) == ("good", "normally")
    rows = recording.read("io")
    expected = pa.concat_tables([io_batch(number) for number in range(BATCHES)])
    same = [name for name in TABLES["io"].names if name != "device_id"]
    assert rows.select(same).to_pylist() == expected.select(same).to_pylist()
    names = {row["device_id"]: row["name"] for row in recording.read("devices").to_pylist()}
    assert {names[key] for key in rows["device_id"].to_pylist()} == {"sdb"}
    assert {Path(source.name).name for source in recording.manifest.sources if source.kind != "zip"} == {
        "manifest.json", "io.arrows", "devices.arrows",
    }  # fmt: skip


@pytest.mark.parametrize("away", [-1, 0, 1])
@pytest.mark.parametrize("kept", range(BATCHES + 1))
def test_a_stream_cut_at_every_batch_and_a_byte_beside(folder, imported, kept, away):
    """What is whole stays; the cut shows, and so does a stream that nobody closed."""
    whole = max(kept - (away < 0), 0)
    recording = imported(folder(IO_BYTES[: IO_ENDS[kept] + away], rows={}))
    assert recording.manifest.rows["io"] == whole * ROWS
    quality = recording.manifest.quality
    assert quality.verdict == "usable"
    assert quality.truncated_tail == (away != 0)
    assert "never closed" in quality.ended
    assert any("io.arrows is cut off inside" in note for note in quality.notes) == (away != 0)


def test_rows_that_the_manifest_counts_and_the_stream_lost_are_told(folder, imported):
    notes = imported(folder(IO_BYTES[: IO_ENDS[2]])).manifest.quality.notes
    assert f"{3 * ROWS} rows of io missing that the manifest counts" in notes


def test_what_names_a_lost_device_keeps_its_row(folder, imported):
    recording = imported(folder(devices=DEVICES.slice(0, 1), rows={}))
    assert recording.read("io")["device_id"].null_count == BATCHES * ROWS
    assert any("200 references" in note for note in recording.manifest.quality.notes)


def test_a_device_that_is_told_twice_is_one(folder, imported):
    recording = imported(folder(devices=pa.concat_tables([DEVICES, DEVICES.slice(1)]), rows={}))
    assert recording.read("devices")["name"].to_pylist() == ["sda", "sdb"]


def test_a_damaged_batch_ends_its_table(folder, imported):
    data = bytearray(IO_BYTES)
    data[IO_ENDS[2] + 8 : IO_ENDS[2] + 60] = b"\xff" * 52
    recording = imported(folder(bytes(data), rows={}))
    assert recording.manifest.rows["io"] == 2 * ROWS
    quality = recording.manifest.quality
    assert quality.truncated_tail or quality.damaged_buffers
    assert quality.verdict != "good"


def test_an_end_before_its_start_is_no_latency(folder, imported):
    table = io_batch(0)
    backwards = table.set_column(4, TABLES["io"].field(4), pa.array([-1] * ROWS, pa.int64()))
    recording = imported(folder(stream([backwards])[0], rows={}))
    assert recording.read("io")["completed_ns"].null_count == ROWS
    assert recording.manifest.quality.latencies_dropped == ROWS


@pytest.mark.parametrize("start", range(3))
def test_any_damage_gives_rows_or_a_word(folder, start):
    """A byte flipped, many places one at a time: nothing crashes, and no more rows come than there were."""
    path = folder()
    paths = [path / "manifest.json", path / "io.arrows"]
    read = arrow_streams.FORMAT.family.read
    for position in range(start, len(IO_BYTES), 61):
        data = bytearray(IO_BYTES)
        data[position] ^= 0xFF
        paths[1].write_bytes(data)
        rows = 0
        with suppress(IotraceError):
            trace = read(paths, [str(entry) for entry in paths], lambda *_: None)
            rows = sum(len(batch) for name, batch in trace.batches() if name == "io")
            trace.outcome()
        assert rows <= BATCHES * ROWS


def test_a_table_of_other_columns_is_refused(folder, imported):
    data, _ = stream([pa.table({"surprise": [1]})])
    with pytest.raises(IotraceError, match=r"io\.arrows' is no table of a recording"):
        imported(folder(data))


def test_a_stream_without_its_manifest(folder, imported):
    path = folder()
    (path / "manifest.json").unlink()
    with pytest.raises(IotraceError, match=r"without the manifest\.json"):
        imported(path)


def test_streams_are_inspected(folder):
    (found,) = inspect_path(folder(IO_BYTES[: IO_ENDS[4] + 3])).traces
    assert (found.format, found.facts["whole"]) == ("arrow-streams", False)
    assert found.facts["rows"]["io"] == 4 * ROWS
