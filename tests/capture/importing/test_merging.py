"""Several traces made one: whose ids are whose, where times go, and what of the quality adds up."""

import pyarrow as pa
import pytest

from iotrace.capture.clocks.alignment import SharedTime
from iotrace.capture.formats.format import Outcome
from iotrace.capture.importing.merging import Merger, Shift, layers_in, merge_quality, window_of
from iotrace.schemas import Layer, Quality
from iotrace.schemas.manifest import Loss

SECOND = 1_000_000_000
YEAR = 366 * 86_400 * SECOND
DISK = {
    "device_id": 0,
    "name": "disk 0",
    "kind": "disk",
    "start_bytes": None,
    "size_bytes": 4096,
    "model": None,
}


def batch(*rows):
    return pa.RecordBatch.from_pylist(list(rows))


def files(*paths):
    return batch(*({"file_id": number, "path": path} for number, path in enumerate(paths)))


def ios(*rows):
    """Rows of io: layer, issued_ns, completed_ns and file_id, of which a test names what matters to it."""
    types = {"issued_ns": pa.int64(), "completed_ns": pa.int64(), "file_id": pa.int32()}
    columns = {"layer": [row.get("layer", "block") for row in rows]}
    columns |= {name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
    return pa.record_batch(columns)


def outcome(begin_s, end_s, **quality):
    return Outcome(begin_s * SECOND, end_s * SECOND, Quality(**quality), 0)


def merged(*outcomes, layers=None, compared=(), shared=None):
    """Quality of the traces a, b, … with these outcomes, each with I/Os of the layer block unless told otherwise."""
    named = [(name, 0, one) for name, one in zip("abc", outcomes, strict=False)]
    return merge_quality(
        named,
        layers or {name: {"block"} for name, _, _ in named},
        set(compared),
        shared or SharedTime([], [], []),
    )


def test_traces_of_one_host_share_a_disk_and_traces_of_two_hosts_do_not():
    merger = Merger()
    first = merger.trace("one", Shift()).rekey("devices", batch(DISK))
    again = merger.trace("one", Shift()).rekey("devices", batch(DISK))
    other = merger.trace("two", Shift()).rekey("devices", batch(DISK))
    assert (first.num_rows, again.num_rows, other.num_rows) == (1, 0, 1)
    assert other["device_id"].to_pylist() == [1]


def test_equal_rows_of_one_trace_are_different_things():
    assert Merger().trace("h", Shift()).rekey("devices", batch(DISK, DISK | {"device_id": 1}))[
        "device_id"
    ].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [("D:\\Sales.mdf", "d:\\SALES.MDF", True), ("/data/base", "/DATA/base", False)],
)
def test_windows_paths_are_the_same_in_any_case(one, other, is_same):
    merger = Merger()
    merger.trace("h", Shift()).rekey("files", files(one))
    assert merger.knows_file("h", other) is is_same
    assert not merger.knows_file("another", one)
    assert merger.trace("h", Shift()).rekey("files", files(other)).num_rows == (not is_same)


def test_ids_of_a_second_trace_lead_to_what_the_first_one_brought():
    """Its file 1 is the recording's 0, its file 0 is new and becomes 2."""
    merger = Merger()
    merger.trace("h", Shift()).rekey("files", files("/a", "/b"))
    second = merger.trace("h", Shift())
    second.rekey("files", files("/c", "/a"))
    rows = second.rekey("io", ios({"issued_ns": 1, "file_id": 0}, {"issued_ns": 2, "file_id": 1}))
    assert rows["file_id"].to_pylist() == [2, 0]


def test_a_process_that_starts_again_is_another_one():
    merger = Merger()
    row = {"process_id": 0, "os_process_id": 4, "name": "sqlservr", "started_ns": 5}
    merger.trace("h", Shift()).rekey("processes", batch(row))
    assert merger.trace("h", Shift(add_ns=7)).rekey("processes", batch(row))["process_id"].to_pylist() == [1]
    assert (
        merger.trace("h", Shift(add_ns=-7)).rekey("processes", batch(row | {"started_ns": 12})).num_rows == 0
    )


def test_drift_moves_an_io_as_a_whole():
    """100 ppm away from 1 s on: what began 2 s later moves by 200 us, and took as long as before."""
    shift = Shift(add_ns=10, drift=1e-4, pivot_ns=SECOND)
    row = {"issued_ns": 3 * SECOND, "completed_ns": 3 * SECOND + 777}
    rows = Merger().trace("h", shift).rekey("io", ios(row))
    assert rows["issued_ns"].to_pylist() == [3 * SECOND + 200_000 + 10]
    assert rows["completed_ns"].to_pylist() == [3 * SECOND + 200_000 + 10 + 777]


@pytest.mark.parametrize("layer", ["block", 2])
def test_what_an_earlier_trace_showed_is_left_out_and_said(layer):
    """From 10 to 20 both ends included, by the end of an I/O or, without one, its begin; other layers stay."""
    name = list(Layer)[layer] if isinstance(layer, int) else layer
    trace = Merger().trace("h", Shift(repeated={str(name): (10, 20)}))
    other = next(one for one in Layer if one != name)
    other = list(Layer).index(other) if isinstance(layer, int) else str(other)
    rows = ios(
        {"layer": layer, "issued_ns": 1, "completed_ns": 9},
        {"layer": layer, "issued_ns": 1, "completed_ns": 10},
        {"layer": layer, "issued_ns": 20},
        {"layer": layer, "issued_ns": 15, "completed_ns": 21},
        {"layer": other, "issued_ns": 1, "completed_ns": 10},
    )
    kept = trace.rekey("io", rows)
    assert kept["completed_ns"].to_pylist() == [9, 21, 10]
    assert trace.notes("b.etl") == ["2 I/Os left out that b.etl shows a second time"]


def test_layers_are_named_whether_rows_hold_words_or_positions():
    words = [str(layer) for layer in list(Layer)[:2]]
    assert layers_in(batch({"layer": words[0]}, {"layer": words[1]})) == set(words)
    assert layers_in(batch({"layer": 0}, {"layer": 1})) == set(words)


def test_losses_add_up_at_the_recordings_times():
    quality = merge_quality(
        [
            ("a", 0, outcome(0, 10, events_lost=2, losses=[Loss(5, 2, 0)], notes=["odd"])),
            (
                "b",
                100,
                outcome(0, 10, events_lost=3, losses=[Loss(7, 3, 0)], truncated_tail=True, ended="killed"),
            ),
        ],
        {"a": {"block"}, "b": {"device"}},
        set(),
        SharedTime([], [], []),
    )
    assert quality.events_lost == 5
    assert [loss.at_ns for loss in quality.losses] == [5, 107]
    assert (quality.truncated_tail, quality.ended) == (True, "killed")
    assert "a: odd" in quality.notes


def test_a_single_trace_keeps_its_notes_as_they_are():
    assert merged(outcome(0, 10, notes=["odd"])).notes == ["odd"]


def test_events_that_both_the_agent_and_its_files_show_lost_count_once():
    """The agent was told of 5, the files show 3 missing: 3 of them are the same."""
    lost = Loss(1, 5, 0, "Extended Events")
    quality = merge_quality(
        [
            ("agent", 0, outcome(0, 10, events_lost=5, losses=[lost])),
            ("x\\iotrace_agent_1.xel", 0, outcome(0, 10, events_lost=3)),
        ],
        {},
        set(),
        SharedTime([], [], []),
    )
    assert quality.events_lost == 5


@pytest.mark.parametrize(
    ("second", "compared", "is_told"),
    [
        ((9, 20), (), True),
        ((9.9, 20), (), False),  # as far as files overlap that a session rolled over into
        ((9, 20), ("a", "b"), False),  # what they share is known
    ],
)
def test_an_overlap_that_may_count_ios_twice_is_told(second, compared, is_told):
    begin, end = second
    late = Outcome(int(begin * SECOND), int(end * SECOND), Quality(), 0)
    notes = merged(outcome(0, 10), late, compared=compared).notes
    assert any("its I/O counts twice" in note for note in notes) is is_told


def test_a_layer_of_a_part_of_the_window_is_told():
    layers = {"a": {"block"}, "b": {"device"}}
    (part,) = merged(outcome(0, 10), outcome(2, 10), layers=layers).part_recorded
    assert str(part) == "layer device was recorded for 8.0 s of 10.0 s: its rates over the whole are too low"
    assert merged(outcome(0, 10), outcome(0.5, 10), layers=layers).part_recorded == []


def test_a_trace_of_years_counts_as_a_step_of_its_clock():
    far = Outcome(0, 2 * YEAR, Quality(), 0)
    quality = merged(far)
    assert quality.clock_steps == 1
    assert "a spans 2.0 years" in quality.notes[0]


def test_the_window_is_that_of_all_traces_where_they_were_put():
    assert window_of([("a", 5, outcome(0, 1)), ("b", -7, outcome(0, 2))]) == (-7, 2 * SECOND - 7)
