"""A window cut out: what is in it, at which times, and what refuses to be overwritten."""

import pyarrow as pa
import pytest

from iotrace.analyze.incident import cut
from iotrace.analyze.incident.cut import _placed
from iotrace.schemas import Alignment, IotraceError, Recording, Source, validate

SECOND = 1_000_000_000


@pytest.fixture
def recording(make_recording):
    io = [
        {
            "issued_ns": at * SECOND,
            "completed_ns": at * SECOND + 5,
            "file_id": 0,
            "device_id": 0,
            "process_id": 0,
        }
        for at in range(100)
    ]
    io += [
        {"issued_ns": 30 * SECOND, "completed_ns": 45 * SECOND, "size_bytes": 512},
        {"issued_ns": 31 * SECOND, "completed_ns": None, "size_bytes": 1024},
    ]
    counters = [
        {
            "at_ns": at * SECOND,
            "interval_ns": 10 * SECOND,
            "source": "h",
            "object": "o",
            "counter": "c",
            "value": at,
        }
        for at in range(10, 101, 10)
    ]
    markers = [
        {"at_ns": 35 * SECOND, "duration_ns": 10 * SECOND, "kind": "backup"},
        {"at_ns": 5 * SECOND, "duration_ns": 10 * SECOND, "kind": "backup"},
        {"at_ns": 50 * SECOND, "kind": "note"},
    ]
    waits = [{"at_ns": at * SECOND, "wait_type": "WRITELOG", "duration_ns": 9} for at in (39, 41, 60)]
    processes = [{"process_id": 0, "os_process_id": 4, "name": "a", "started_ns": 2 * SECOND}]
    return make_recording(
        io,
        window_ns=100 * SECOND,
        tables={"counters": counters, "markers": markers, "waits": waits, "processes": processes},
        sources=[Source("a.etl", "etl", alignment=Alignment("utc", "test", at_ns=50 * SECOND))],
    )


def test_a_cut_is_a_recording_that_begins_at_zero(recording, tmp_path):
    found = cut(recording, tmp_path / "cut.iotrace", (40 * SECOND, 60 * SECOND), title="night")
    assert validate(found.path) == []
    rows = {name: found.read(name).to_pylist() for name in found.table_names()}
    issued = [row["issued_ns"] // SECOND for row in rows["io"]]
    assert issued == [-10, *range(20)]
    assert rows["io"][0]["completed_ns"] == 5 * SECOND
    assert [row["value"] for row in rows["counters"]] == [40, 50, 60]
    assert [(row["at_ns"] // SECOND, row["kind"]) for row in rows["markers"]] == [
        (-5, "backup"),
        (10, "note"),
    ]
    assert [row["at_ns"] // SECOND for row in rows["waits"]] == [1]
    assert rows["processes"][0]["started_ns"] == -38 * SECOND
    assert rows["devices"] == recording.read("devices").to_pylist()
    assert rows["files"] == recording.read("files").to_pylist()


def test_a_cut_says_where_it_comes_from(recording, tmp_path):
    found = cut(recording, tmp_path / "cut.iotrace", (40 * SECOND, 60 * SECOND)).manifest
    old = recording.manifest
    assert found.kind == old.kind
    assert found.uuid != old.uuid
    assert (found.window_start_ns, found.window_end_ns) == (0, 20 * SECOND)
    assert found.clock.start_utc_ns == old.clock.start_utc_ns + 40 * SECOND
    assert [source.name for source in found.sources] == [recording.path.name, "a.etl"]
    assert found.sources[1].alignment.at_ns == 10 * SECOND
    assert found.quality.notes[-1].endswith(f"({old.uuid}), seconds 40.000 to 60.000")
    assert found.title.endswith(", 20 s of it")


def test_nothing_is_overwritten_unasked(recording, tmp_path):
    path = tmp_path / "cut.iotrace"
    first = cut(recording, path, (0, 60 * SECOND))
    with pytest.raises(IotraceError, match="exists already"):
        cut(recording, path, (40 * SECOND, 60 * SECOND))
    assert Recording.open(path).manifest.uuid == first.manifest.uuid
    assert cut(recording, path, (40 * SECOND, 60 * SECOND), overwrite=True).row_count("io") == 21


def test_a_damaged_table_leaves_nothing_behind(recording, tmp_path):
    path = recording.parquet_paths("io")[0]
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(IotraceError, match="damaged table io"):
        cut(recording, tmp_path / "cut.iotrace", (0, 60 * SECOND))
    assert not list(tmp_path.glob("*cut*"))


@pytest.mark.parametrize(("table", "length"), [("counters", "interval_ns"), ("markers", "duration_ns")])
def test_what_has_no_length_belongs_to_the_moment_that_it_tells_of(table, length):
    """A nanosecond before a cut from 40 to 60 it is not in it, at its first and its last nanosecond it is."""
    rows = pa.table({"at_ns": [39, 40, 59, 60], length: pa.nulls(4, pa.int64())})
    assert _placed(rows, table, (40, 60))["at_ns"].to_pylist() == [0, 19]
