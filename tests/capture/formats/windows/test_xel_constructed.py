"""Extended Events with planted facts: the I/O events, of which there is no public sample, losses and damage."""

import importlib.util
import json
from pathlib import Path

import duckdb
import pytest

from iotrace.capture.formats.windows import xel
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

_SPEC = importlib.util.spec_from_file_location(
    "xel_build", Path(__file__).parents[3] / "fixtures" / "xel" / "build.py"
)
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)

MS = 10_000  # ticks of 100 ns
PATH = "D:\\data\\Sales.mdf"


@pytest.fixture
def imported(tmp_path):
    """Import constructed files under their names."""

    def run(**files):
        paths = []
        for name, data in files.items():
            paths.append(tmp_path / f"{name}.xel")
            paths[-1].write_bytes(data)
        recording = import_files(paths, tmp_path / "x.iotrace", overwrite=True)
        assert not validate(recording.path)
        return recording

    return run


def read_event(at_ms, duration_ms=3, **fields):
    fields = {"database_id": 7, "file_id": 1, "size": 8192, "duration": duration_ms} | fields
    return build.event("file_read_completed", at_ms * MS, fields)


def plain(at_ms, sequence):
    return build.event("checkpoint_begin", at_ms * MS, {}, {"event_sequence": sequence})


def test_completed_io_begins_at_completion_less_duration(imported):
    actions = {"system_thread_id": 4321}
    write = {"database_id": 2, "file_id": 2, "size": 61440, "offset": 1 << 40, "duration": 0}
    recording = imported(
        io=build.file([
            read_event(100, 3, offset=81920, path=PATH),
            build.event("file_write_completed", 120 * MS, write, actions),
        ])
    )  # fmt: skip
    assert recording.manifest.clock.start_utc_ns == build.BASE_UTC_NS + 100_000_000
    read, write = recording.read("io").to_pylist()
    assert (read["layer"], read["op"], write["op"]) == ("sql", "read", "write")
    assert (read["issued_ns"], read["completed_ns"]) == (-3_000_000, 0)
    assert (read["offset_bytes"], read["size_bytes"]) == (81920, 8192)
    assert (write["issued_ns"], write["completed_ns"]) == (20_000_000, 20_000_000)
    assert (write["offset_bytes"], write["size_bytes"], write["thread_id"]) == (1 << 40, 61440, 4321)
    files = {row["file_id"]: row for row in recording.read("files").to_pylist()}
    sales, tempdb = files[read["file_id"]], files[write["file_id"]]
    assert (sales["path"], sales["role"], sales["database"]) == (PATH, "data", "Sales")
    assert (tempdb["path"], tempdb["role"], tempdb["database"]) == (
        "database 2 file 2", "tempdb_log", "tempdb",
    )  # fmt: skip
    notes = " ".join(recording.manifest.quality.notes)
    assert "file_read_completed, file_write_completed: taken as milliseconds" in notes
    assert "1 I/Os took less than the unit" in notes


def test_a_path_collected_for_some_events_names_the_file_of_all(imported):
    recording = imported(io=build.file([read_event(1), read_event(2, path=PATH), read_event(3)]))
    (file,) = recording.read("files").to_pylist()
    assert file["path"] == PATH


def test_the_unit_that_the_metadata_states_counts(imported):
    events = {
        "file_read_completed": [
            (name, kind, "Duration in microseconds" if name == "duration" else "")
            for name, kind, _ in build.EVENTS["file_read_completed"]
        ]
    }
    fields = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 250}
    data = build.file(
        [build.event("file_read_completed", MS, fields, None, events)], about=build.metadata(events)
    )
    recording = imported(io=data)
    (row,) = recording.read("io").to_pylist()
    assert row["completed_ns"] - row["issued_ns"] == 250_000
    assert not any("taken as milliseconds" in note for note in recording.manifest.quality.notes)


def test_an_impossible_duration_is_dropped_and_the_io_kept(imported):
    recording = imported(io=build.file([read_event(5, 1 << 62)]))
    (row,) = recording.read("io").to_pylist()
    assert (row["issued_ns"], row["completed_ns"]) == (0, None)
    assert recording.manifest.quality.latencies_dropped == 1


def test_waits(imported):
    who = {"session_id": 61, "database_name": "Sales"}
    recording = imported(
        waits=build.file([
            build.event("wait_info", 1 * MS, {"wait_type": 182, "opcode": 0}, who),
            build.event("wait_info", 5 * MS, {"wait_type": 182, "opcode": 1, "duration": 4, "signal_duration": 1}, who),
            build.event("wait_completed", 9 * MS, {"wait_type": 66, "duration": 1500, "wait_resource": "7:1:99"}),
            build.event("wait_completed", 9 * MS, {"wait_type": 9999, "duration": 1}),
        ])
    )  # fmt: skip
    waits = [tuple(row.values()) for row in recording.read("waits").to_pylist()]
    assert waits == [
        (4_000_000, "WRITELOG", 4_000_000, 1_000_000, 61, "Sales"),
        (8_000_000, "PAGEIOLATCH_SH", 1_500_000, 0, None, None),
        (8_000_000, "9999", 1_000, 0, None, None),
    ]


def test_checkpoints_and_log_flushes_are_markers(imported):
    one = {"database_id": 7}
    recording = imported(
        marks=build.file([
            build.event("checkpoint_end", 1 * MS, {"database_id": 9}),
            build.event("checkpoint_begin", 2 * MS, one),
            build.event("log_flush_complete", 8 * MS, one | {"write_size": 512, "duration": 2}),
            build.event("checkpoint_end", 12 * MS, one),
            build.event("checkpoint_begin", 20 * MS, one),
        ])
    )  # fmt: skip
    markers = sorted(tuple(row.values()) for row in recording.read("markers").to_pylist())
    assert markers == [
        (0, None, "checkpoint", "database_id 9, begin not in the file"),
        (1_000_000, 10_000_000, "checkpoint", "database_id 7"),
        (5_000_000, 2_000_000, "log_flush", "database_id 7, write_size 512"),
        (19_000_000, None, "checkpoint", "database_id 7, end not in the file"),
    ]


def test_buffers_that_overlap_come_out_in_order_of_time(imported):
    recording = imported(
        x=build.file(
            [read_event(at) for at in (1, 4, 7)],
            [read_event(at) for at in (2, 3, 9)],
            [read_event(at) for at in (8, 10)],
        )
    )
    at_ns = recording.read("xevents")["at_ns"].to_pylist()
    assert at_ns == [0, 1_000_000, 2_000_000, 3_000_000, 6_000_000, 7_000_000, 8_000_000, 9_000_000]


def test_duckdb_reads_fields_and_actions(imported):
    recording = imported(x=build.file([read_event(1, path=PATH), plain(2, 5)]))
    columns = "name, fields->>'path', CAST(actions->>'event_sequence' AS BIGINT)"
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT {columns} FROM '{recording.path}/xevents.parquet'").fetchall()
    assert found == [("file_read_completed", PATH, None), ("checkpoint_begin", None, 5)]


def test_gaps_in_the_sequence_are_lost_events(imported):
    data = build.file([plain(1, 10), plain(2, 11)], [plain(3, 15), plain(4, 16)])
    quality = imported(x=data).manifest.quality
    assert quality.events_lost == 3
    assert quality.verdict == "poor"


def test_a_rolled_over_session_is_one_recording(imported):
    """The second file of the set is named first; both name the same database file."""
    recording = imported(
        session_0_2=build.file([read_event(30), read_event(31)]), session_0_1=build.file([read_event(10)])
    )
    assert recording.read("xevents")["at_ns"].to_pylist() == [0, 20_000_000, 21_000_000]
    assert recording.row_count("files") == 1
    assert set(recording.read("io")["file_id"].to_pylist()) == {0}


def test_a_cut_file_keeps_its_whole_events(imported):
    data = build.file([read_event(1), read_event(2)], [read_event(3), read_event(4)])
    last = len(data) - 512
    cut = data[: last + 0x4D + len(read_event(3)) + 10]
    recording = imported(x=cut)
    assert recording.row_count("io") == 3
    assert recording.manifest.quality.truncated_tail
    assert recording.manifest.quality.verdict == "usable"


def test_a_damaged_buffer_is_left_out(imported):
    data = bytearray(build.file([read_event(1)], [read_event(2)], [read_event(3)]))
    data[len(data) - 1024 + 0x4D + 30] ^= 1
    recording = imported(x=bytes(data))
    assert recording.row_count("io") == 2
    assert recording.manifest.quality.damaged_buffers == 1


def test_zeros_at_the_end_are_no_damage(imported):
    recording = imported(x=build.file([read_event(1)]) + bytes(10_000))
    assert recording.manifest.quality.verdict == "good"


def test_a_2008_pair_gets_a_clear_word(tmp_path):
    for name, words in (
        ("old.xem", "metadata file that SQL Server 2008"),
        ("old.xel", "SQL Server 2012 or later"),
    ):
        path = tmp_path / name
        path.write_bytes(b"\1\2\3\4" * 300)
        with pytest.raises(IotraceError) as problem:
            import_files([path], tmp_path / "x.iotrace")
        assert words in problem.value.message
        assert name in problem.value.message


def test_without_metadata_nothing_can_be_read(tmp_path):
    path = tmp_path / "x.xel"
    path.write_bytes(build.file([read_event(1)])[:0x200])
    with pytest.raises(IotraceError, match="holds no description of its events"):
        import_files([path], tmp_path / "x.iotrace")


def test_inspect_says_whether_the_file_is_whole(tmp_path):
    path = tmp_path / "x.xel"
    data = build.file([read_event(1), plain(2, 1)])
    path.write_bytes(data)
    found = xel.inspect(path, "x.xel")
    assert (found["whole"], found["events"]) == (True, {"file_read_completed": 1, "checkpoint_begin": 1})
    json.dumps(found)
    path.write_bytes(data[:-400])
    assert not xel.inspect(path, "x.xel")["whole"]
