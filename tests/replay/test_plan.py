"""Which I/Os of a recording are played."""

import pytest

from iotrace.replay.plan import load_rows
from iotrace.schemas import IotraceError

from .conftest import MakeRecording


def test_only_one_layer_is_played_and_it_is_block_where_there_is_one(make_recording: MakeRecording) -> None:
    recording = make_recording(layer=["sql", "device", "block", "filesystem", "block"])
    rows = load_rows(recording)
    assert rows.layer == "block"
    assert rows.issued_ns.tolist() == [2_000_000, 4_000_000]


@pytest.mark.parametrize(
    ("present", "chosen"),
    [(["sql", "device"], "device"), (["sql", "filesystem"], "filesystem"), (["sql"], "sql")],
)
def test_layer_of_choice(make_recording: MakeRecording, present: list[str], chosen: str) -> None:
    assert load_rows(make_recording(layer=present)).layer == chosen


def test_files_are_the_address_spaces_of_the_layers_above_the_disk(make_recording: MakeRecording) -> None:
    recording = make_recording(layer=["sql"] * 3, file_id=[7, 8, 7])
    assert load_rows(recording).space.tolist() == [7, 8, 7]


def test_a_window_includes_its_start_and_not_its_end(make_recording: MakeRecording) -> None:
    rows = load_rows(make_recording(op=["read"] * 5), window_ns=(1_000_000, 3_000_000))
    assert rows.issued_ns.tolist() == [1_000_000, 2_000_000]


def test_what_cannot_be_played_is_left_out_and_counted_by_reason(make_recording: MakeRecording) -> None:
    recording = make_recording(
        op=["read", "discard", "read", "write", "flush", "read"],
        offset_bytes=[0, 0, None, 0, None, 8192],
        size_bytes=[8192, 8192, 8192, 0, 0, 1 << 30],
    )
    rows = load_rows(recording)
    assert rows.op.tolist() == [0, 2]
    assert rows.skipped == {"discards": 1, "offset unknown": 1, "no length": 1, "over 256 MiB": 1}


def test_reads_only(make_recording: MakeRecording) -> None:
    rows = load_rows(make_recording(op=["read", "write", "flush"]), reads_only=True)
    assert rows.op.tolist() == [0]
    assert rows.skipped == {"not reads": 2}


def test_rows_of_several_pieces_are_played_in_order_of_issue(make_recording: MakeRecording) -> None:
    recording = make_recording(issued_ns=[30, 10, 20], offset_bytes=[3 * 8192, 8192, 2 * 8192])
    assert load_rows(recording).offset_bytes.tolist() == [8192, 2 * 8192, 3 * 8192]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "array"}, "there is no layer 'array'"),
        ({"layer": "sql"}, "has no I/O of the layer 'sql'"),
        ({"window_ns": (10**12, 10**13)}, "has no I/O of the layer 'block' between"),
    ],
)
def test_nothing_to_play(make_recording: MakeRecording, options: dict[str, object], message: str) -> None:
    with pytest.raises(IotraceError, match=message):
        load_rows(make_recording(op=["read"]), **options)  # type: ignore[arg-type]


def test_a_recording_without_io(make_recording: MakeRecording) -> None:
    with pytest.raises(IotraceError, match="holds no I/O to replay"):
        load_rows(make_recording(op=[]))
