"""Which I/Os of a recording are played, and that they come in order however they lie in the files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.rows import Rows, concatenate
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.source import Source
from iotrace.replay.plan.survey import survey
from iotrace.schemas import IotraceError, Recording

from ..conftest import MakeRecording


def loaded(recording: Recording, **options: object) -> tuple[Rows, dict[str, int]]:
    """All rows a replay with these options plays, and what it leaves out."""
    source = Source.open(recording, select(recording, ReplayOptions(**options)))  # type: ignore[arg-type]
    skipped: dict[str, int] = {}
    pieces = list(source.rows(skipped))
    survey(source)
    return concatenate(pieces), skipped


def test_only_one_layer_is_played_and_it_is_block_where_there_is_one(make_recording: MakeRecording) -> None:
    recording = make_recording(layer=["sql", "device", "block", "filesystem", "block"])
    assert select(recording, ReplayOptions()).layer == "block"
    assert loaded(recording)[0].at_ns.tolist() == [2_000_000, 4_000_000]


@pytest.mark.parametrize(
    ("present", "chosen"),
    [(["sql", "device"], "device"), (["sql", "filesystem"], "filesystem"), (["sql"], "sql")],
)
def test_layer_of_choice(make_recording: MakeRecording, present: list[str], chosen: str) -> None:
    assert select(make_recording(layer=present), ReplayOptions()).layer == chosen


def test_files_are_the_address_spaces_of_the_layers_above_the_disk(make_recording: MakeRecording) -> None:
    recording = make_recording(layer=["sql"] * 3, file_id=[7, 8, 7])
    assert loaded(recording)[0].space.tolist() == [7, 8, 7]


def test_a_window_includes_its_start_and_not_its_end(make_recording: MakeRecording) -> None:
    rows, _ = loaded(make_recording(op=["read"] * 5), window_ns=(1_000_000, 3_000_000))
    assert rows.at_ns.tolist() == [1_000_000, 2_000_000]


def test_what_cannot_be_played_is_left_out_and_counted_by_reason(make_recording: MakeRecording) -> None:
    recording = make_recording(
        op=["read", "discard", "read", "write", "flush", "read", "read"],
        offset_bytes=pa.array([0, 0, None, 0, None, 8192, 1 << 63], pa.uint64()),
        size_bytes=[8192, 8192, 8192, 0, 0, 1 << 30, 8192],
    )
    rows, skipped = loaded(recording)
    assert rows.op.tolist() == [0, 2]
    assert skipped == {"discards": 1, "offset unknown": 2, "no length": 1, "over 256 MiB": 1}


def test_reads_only(make_recording: MakeRecording) -> None:
    rows, skipped = loaded(make_recording(op=["read", "write", "flush"]), reads_only=True)
    assert rows.op.tolist() == [0]
    assert skipped == {"not reads": 2}


@pytest.fixture
def database(make_recording: MakeRecording) -> Recording:
    """Two data files, a log, I/O of no known file; two processes."""
    return make_recording(
        op=["read", "write", "write", "read", "flush", "write"],
        file_id=[0, 1, 2, None, 2, 0],
        process_id=[0, 0, 0, 1, 0, 1],
        files=[
            (r"D:\data\Sales.mdf", "data"),
            (r"E:\data\sales_2.ndf", "data"),
            (r"L:\log\sales.ldf", "log"),
        ],
        processes=[("sqlservr.exe", 4321), ("backup.exe", 99)],
    )


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"roles": ("log",)}, [2, 4]),
        ({"roles": ("log", "data")}, [0, 1, 2, 4, 5]),
        ({"roles": ("unattributed",)}, [3]),
        ({"files": ("sales.mdf",)}, [0, 5]),
        ({"files": ("*.?df",)}, [0, 1, 2, 4, 5]),
        ({"files": (r"E:\*",)}, [1]),
        ({"files": ("e:/data/*",)}, [1]),
        ({"processes": ("SQLSERVR*",)}, [0, 1, 2, 4]),
        ({"processes": ("99",)}, [3, 5]),
        ({"ops": ("write", "flush")}, [1, 2, 4, 5]),
        ({"roles": ("data",), "ops": ("write",), "processes": ("backup.exe",)}, [5]),
    ],
)
def test_filters(database: Recording, filters: dict[str, tuple[str, ...]], kept: list[int]) -> None:
    rows, skipped = loaded(database, **filters)
    assert (rows.at_ns // 1_000_000).tolist() == kept
    assert sum(skipped.values()) == 6 - len(kept)


@pytest.mark.parametrize(
    ("filters", "message", "hint"),
    [
        ({"roles": ("logs",)}, "there is no role 'logs'", "data, log, tempdb_data"),
        ({"roles": ("backup",)}, "has no file of the role backup", "it has: data, log"),
        ({"files": ("*.bak",)}, r"no file of .* matches '\*\.bak'", "describe"),
        ({"processes": ("oracle",)}, "no process of .* is called 'oracle'", "backup.exe, sqlservr.exe"),
        ({"ops": ("erase",)}, "there is no op 'erase'", "read, write, flush"),
    ],
)
def test_filters_that_nothing_answers_to(
    database: Recording, filters: dict[str, tuple[str, ...]], message: str, hint: str
) -> None:
    with pytest.raises(IotraceError, match=message) as caught:
        loaded(database, **filters)
    assert hint in caught.value.hint


def test_rows_of_several_pieces_are_played_in_order_of_issue(make_recording: MakeRecording) -> None:
    recording = make_recording(issued_ns=[30, 10, 20], offset_bytes=[3 * 8192, 8192, 2 * 8192])
    assert loaded(recording)[0].offset_bytes.tolist() == [8192, 2 * 8192, 3 * 8192]


@pytest.mark.parametrize("statistics", [True, False])
def test_row_groups_that_overlap_in_time_come_out_in_order_and_none_twice(
    make_recording: MakeRecording, *, statistics: bool
) -> None:
    """Rewritten as another tool might: 40 shuffled row groups, with and without bounds in the footer."""
    random = np.random.default_rng(3)
    issued = np.sort(random.integers(0, 10**9, 20_000))
    recording = make_recording(issued_ns=issued)
    path = recording.path / "io.parquet"
    table = pq.read_table(path)
    near = np.argsort(issued + random.integers(0, 40_000_000, len(issued)))
    with pq.ParquetWriter(path, table.schema, write_statistics=statistics) as writer:
        for group in random.permutation(np.split(near, 40)):
            writer.write_table(table.take(pa.array(group)))
    rows, _ = loaded(recording)
    assert rows.at_ns.tolist() == issued.tolist()
    assert rows.offset_bytes.tolist() == table["offset_bytes"].to_pylist()
    some = loaded(recording, window_ns=(10**8, 2 * 10**8))[0]
    assert some.at_ns.tolist() == issued[(issued >= 10**8) & (issued < 2 * 10**8)].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "array"}, "there is no layer 'array'"),
        ({"layer": "sql"}, "has no I/O of the layer 'sql'"),
        ({"window_ns": (10**12, 10**13)}, "has no I/O of the layer 'block' from 1,000 s to 10,000 s"),
        ({"ops": ("write",)}, "nothing in .* can be replayed: 1 not write"),
    ],
)
def test_nothing_to_play(make_recording: MakeRecording, options: dict[str, object], message: str) -> None:
    recording = make_recording(op=["read"])
    with pytest.raises(IotraceError, match=message):
        survey(Source.open(recording, select(recording, ReplayOptions(**options))))  # type: ignore[arg-type]


def test_a_recording_without_io(make_recording: MakeRecording) -> None:
    with pytest.raises(IotraceError, match="holds no I/O to replay"):
        loaded(make_recording(op=[]))


def test_a_damaged_table_is_named(make_recording: MakeRecording) -> None:
    recording = make_recording(issued_ns=np.arange(5000))
    path = recording.path / "io.parquet"
    source = Source.open(recording, select(recording, ReplayOptions()))
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(IotraceError, match="has a damaged table io"):
        list(source.rows())
