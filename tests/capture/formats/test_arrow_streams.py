"""A recording that arrives as Arrow IPC streams, whole and cut off anywhere."""

import importlib.util
import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.capture.formats import arrow_streams
from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import TABLES, Clock, IotraceError, Manifest, conform, validate
from iotrace.schemas.manifest import Loss

_SPEC = importlib.util.spec_from_file_location(
    "xel_build", Path(__file__).parents[2] / "fixtures" / "xel" / "build.py"
)
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)

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


def test_pieces_of_a_table_are_read_in_order(folder, imported):
    """As a ring leaves them: the first are gone, and the number's length tells nothing."""
    path = folder(rows={})
    (path / "io.arrows").unlink()
    for number in range(2, BATCHES):
        (path / f"io-{number + 6}.arrows").write_bytes(stream([io_batch(number)])[0])
    recording = imported(path)
    expected = pa.concat_tables([io_batch(number) for number in range(2, BATCHES)])
    assert recording.read("io")["issued_ns"].to_pylist() == expected["issued_ns"].to_pylist()
    assert recording.manifest.quality.ended == "normally"
    last = path / f"io-{BATCHES + 5}.arrows"
    last.write_bytes(last.read_bytes()[:-9])
    cut = imported(path).manifest
    assert cut.rows["io"] == (BATCHES - 3) * ROWS
    assert cut.quality.truncated_tail
    assert any(last.name in note for note in cut.quality.notes)


def test_what_the_kernel_counted_and_the_trace_lacks_is_not_forgotten(folder, imported):
    """100 I/Os of 1,000 are missing: heavy loss, whoever noticed it."""
    quality = {"counted_ios": 1000, "missing_ios": 100, "counted_bytes": 8_192_000, "missing_bytes": 819_200}
    told = imported(folder(quality=quality)).manifest.quality
    assert {name: getattr(told, name) for name in quality} == quality
    assert told.verdict == "poor"


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


def test_moments_of_losses_and_pairs_of_the_clock_are_kept(folder, imported):
    pairs = [[0, START_UTC_NS], [600_000_000, START_UTC_NS + 60 * 10**9]]
    losses = [{"at_ns": 7, "events": 3, "buffers": 1, "source": "trace session"}]
    clock = {"start_utc_ns": START_UTC_NS, "resolution_ns": 1.0, "name": "QPC", "pairs": pairs}
    quality = {"verdict": "good", "reasons": [], "events_lost": 3, "losses": losses}
    manifest = imported(folder(clock=clock, quality=quality)).manifest
    assert (manifest.clock.pairs, manifest.quality.losses) == (pairs, [Loss(**loss) for loss in losses])


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
    with pytest.raises(IotraceError, match=r"io\.arrows' is not a table of a recording"):
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


def late_names(folder):
    """Streams as the Windows agent writes them: numbers first, what they stand for later, no roles."""
    io_rows = pa.table(
        {
            "layer": pa.array([2, 2, 2, 1], pa.int8()),
            "op": pa.array([0, 1, 0, 0], pa.int8()),
            "issued_ns": [0, 10, 20, 30],
            "completed_ns": [5, 15, 25, 35],
            "size_bytes": pa.array([8192] * 4, pa.uint32()),
            "device_id": pa.array([70, 70, 70, None], pa.int32()),
            "file_id": pa.array([1, 2, 3, 4], pa.int32()),
            "process_id": pa.array([9, 8, 7, 9], pa.int32()),
            "flags": pa.array([1, 1, 1, 1], pa.uint32()),
        }
    )
    files = pa.table(
        {
            "file_id": pa.array([1, 2, 3, 4], pa.int32()),
            "path": ["C:\\$LogFile", "E:\\d\\tempdb.mdf", None, "E:\\d\\tempdb.mdf"],
            "role": pa.array([None] * 4, pa.int8()),
            "device_id": pa.array([70, 70, None, 70], pa.int32()),
        }
    )
    processes = pa.table(
        {
            "process_id": pa.array([7, 8, 9], pa.int32()),
            "os_process_id": [None, 4, 4],
            "name": [None, "System", "System"],
        }
    )
    counters = pa.table(
        {
            "at_ns": [10**9] * 2,
            "interval_ns": [10**9] * 2,
            "source": ["HOST"] * 2,
            "object": ["PhysicalDisk", "Memory"],
            "instance": ["0 C:", None],
            "counter": ["Avg. Disk sec/Read", "Pages/sec"],
            "value": [0.002, 7.0],
        }
    )
    path = folder(stream([io_rows])[0])
    for name, table in (("files", files), ("processes", processes), ("counters", counters)):
        (path / f"{name}.arrows").write_bytes(stream([table])[0])
    return path


def test_names_learnt_late_make_one_thing_of_several_numbers(folder, tmp_path):
    recording = import_files([late_names(folder)], tmp_path / "r.iotrace")
    assert recording.read("files").select(["path", "role", "database"]).to_pylist() == [
        {"path": "C:\\$LogFile", "role": "system", "database": None},
        {"path": "E:\\d\\tempdb.mdf", "role": "tempdb_data", "database": "tempdb"},
    ]
    assert recording.read("processes").column("name").to_pylist() == ["System"]
    rows = recording.read("io").to_pylist()
    assert [row["file_id"] for row in rows] == [0, 1, None, 1]
    assert [row["process_id"] for row in rows] == [0, 0, None, 0]
    metadata = 0x20
    assert [row["flags"] for row in rows] == [1 | metadata, 1, 1, 1]
    assert rows[3]["device_id"] == rows[0]["device_id"], "a file operation happens on its file's device"
    assert not [
        note for note in recording.manifest.quality.notes if "missing" in note and "references" in note
    ]


def test_counters_without_metrics_get_those_of_their_names(folder, tmp_path):
    recording = import_files([late_names(folder)], tmp_path / "r.iotrace")
    found = {row["counter"]: row for row in recording.read("counters").to_pylist()}
    latency = found["Avg. Disk sec/Read"]
    assert (latency["metric"], latency["unit"], latency["value"]) == ("read_latency_ns", "ns", 2e6)
    assert found["Pages/sec"]["metric"] is None
    assert found["Pages/sec"]["value"] == 7.0


COUNTER, AVERAGE_TIMER, RAWCOUNT = 0x10410400, 0x30020400, 0x00010000  # of winperf.h


def raw_counters(sample, *values):
    """A batch of one sample a second: (instance, counter, type, first, second) each, by a clock of 1000 Hz."""
    instances, counters, types, first, second = zip(*values, strict=True)
    count = len(values)
    return pa.table(
        {
            "sample": [sample] * count,
            "at_ns": [sample * 10**9 + place for place in range(count)],
            "stamp_100ns": [133_536_384_000_000_000 + sample * 10**7] * count,
            "source": ["HOST"] * count,
            "object": ["PhysicalDisk"] * count,
            "instance": pa.array(instances, pa.string()),
            "counter": counters,
            "counter_type": pa.array(types, pa.uint32()),
            "hertz": [1000] * count,
            "first": first,
            "second": second,
            "multi_count": pa.array([1] * count, pa.uint32()),
        }
    )


def reads_of(*instances, at):
    return [(name, "Disk Reads/sec", COUNTER, first, at * 1000) for name, first in instances]


@pytest.fixture
def counters_of(folder, imported):
    """Import a folder with these samples: rows as (instance, counter, at, interval, value), and the notes."""

    def run(*samples, cut=None):
        path = folder(rows={})
        (path / "raw_counters.arrows").write_bytes(stream(samples)[0][:cut])
        recording = imported(path)
        rows = recording.read("counters").sort_by("at_ns").to_pylist()
        told = [
            (row["instance"], row["counter"], row["at_ns"], row["interval_ns"], row["value"]) for row in rows
        ]
        return told, recording.manifest.quality.notes

    return run


def test_raw_counters_become_rates_means_and_moments_with_their_own_times(counters_of):
    def sample(number, reads, ticks, queue):
        return raw_counters(
            number,
            ("0 C:", "Disk Reads/sec", COUNTER, reads, number * 1000),
            ("0 C:", "Avg. Disk sec/Read", AVERAGE_TIMER, ticks, reads),
            ("0 C:", "Current Disk Queue Length", RAWCOUNT, queue, 0),
        )

    rows, notes = counters_of(sample(1, 100, 50, 3), sample(2, 125, 100, 4), sample(3, 125, 100, 5))
    second = 10**9
    assert rows == [
        ("0 C:", "Current Disk Queue Length", second + 2, None, 3),
        ("0 C:", "Disk Reads/sec", 2 * second, second, 25),
        ("0 C:", "Avg. Disk sec/Read", 2 * second + 1, second, 2_000_000),  # 50 ticks of 1 ms by 25 reads
        ("0 C:", "Current Disk Queue Length", 2 * second + 2, None, 4),
        ("0 C:", "Disk Reads/sec", 3 * second, second, 0),
        ("0 C:", "Avg. Disk sec/Read", 3 * second + 1, second, 0),
        ("0 C:", "Current Disk Queue Length", 3 * second + 2, None, 5),
    ]
    assert not any("left out" in note for note in notes)


def test_instances_of_one_name_are_told_apart_and_a_gap_or_a_new_start_gives_no_value(counters_of):
    twice = [
        raw_counters(number, *reads_of(("sqlservr", number * 10), ("sqlservr", number * 20), at=number))
        for number in (1, 2)
    ]
    without = raw_counters(3, *reads_of(("sqlservr", 30), at=3))
    again = raw_counters(4, *reads_of(("sqlservr", 5), ("sqlservr", 80), at=4))
    rows, notes = counters_of(*twice, without, again)
    assert [(name, value) for name, *_, value in rows] == [
        ("sqlservr", 10), ("sqlservr#1", 20), ("sqlservr", 10),
    ]  # fmt: skip
    assert next(note for note in notes if "went backwards" in note).startswith("1 value left out")


def test_counters_of_a_cut_stream_are_those_of_its_whole_samples(counters_of):
    samples = [
        raw_counters(number, *reads_of(("0 C:", number * number), at=number)) for number in range(1, 6)
    ]
    rows, notes = counters_of(*samples, cut=stream(samples)[1][3] - 1)
    assert [value for *_, value in rows] == [3]  # 4 - 1 in a second; the third sample is cut
    assert any(
        "raw_counters.arrows is cut off inside a batch: 2 rows before it kept" in note for note in notes
    )


@pytest.mark.parametrize("damage", ["a column less", "a null", "words for numbers"])
def test_raw_counters_that_are_none_are_refused_by_name(folder, imported, damage):
    table = raw_counters(1, *reads_of(("0 C:", 1), at=1))
    if damage == "a column less":
        table = table.drop_columns(["hertz"])
    else:
        wrong = pa.array([None], pa.int64()) if damage == "a null" else pa.array(["many"])
        table = table.set_column(table.column_names.index("first"), "first", wrong)
    path = folder(rows={})
    (path / "raw_counters.arrows").write_bytes(stream([table])[0])
    with pytest.raises(IotraceError, match=r"raw_counters\.arrows"):
        imported(path)


def test_an_event_that_the_agent_was_told_is_lost_and_its_file_shows_missing_counts_once(folder, imported):
    plain = [
        build.event("checkpoint_begin", at * 10_000, {}, {"event_sequence": number})
        for at, number in enumerate((10, 11, 15, 16))
    ]
    losses = [{"at_ns": 7, "events": 3, "buffers": 0, "source": "Extended Events"}]
    quality = {"verdict": "usable", "reasons": [], "events_lost": 3 + 2, "losses": losses}
    path = folder(
        quality=quality, clock={"start_utc_ns": build.BASE_UTC_NS, "resolution_ns": 1.0, "name": "QPC"}
    )
    for name, lost in (("iotrace_agent_20260101.xel", 3 + 2), ("another.xel", 3 + 2 + 3)):
        (path / name).write_bytes(build.file(plain[:2], plain[2:]))
        recording = import_files([path], path.parent / "out.iotrace", overwrite=True, apart_in_time=True)
        assert recording.manifest.quality.events_lost == lost
        (path / name).unlink()
