"""The sentences of slow windows, and what happened beside them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze import library
from iotrace.analyze.incident import context, words
from iotrace.analyze.incident.attribution import Names
from iotrace.analyze.incident.cause import Drive
from iotrace.analyze.incident.cut import window_to_cut
from iotrace.analyze.incident.find import _Finder
from iotrace.analyze.incident.result import (
    BlameRow,
    Change,
    Gradual,
    Incidents,
    LayerTime,
    MarkerBeside,
    Sensitivity,
)
from iotrace.schemas import IotraceError

S = 1_000_000_000
MS = 1_000_000


def layer(name, below=None):
    return LayerTime(name, 1.0, 2.0, below, 1.0, None, None)


def test_where_normal_is_no_time_nothing_is_a_multiple_of_it():
    """A model of limits states no time of the storage: 0.5 s instead of none is no factor of 500 million."""
    drive = Drive("cannot tell", [], [])
    said = words.headline(5e8, (4e8, 6e8), 1.0, (0, 3 * S), None, drive, "", subject=None, where="there")
    assert said.startswith("500 ms instead of none for 3.00 s, there: ")
    assert words.slower_words(2.5, 2 * MS) == "2.50x slower"


@pytest.mark.parametrize(
    ("name", "below", "said"),
    [
        ("device", None, "the device was slower at the same load"),
        ("block", None, "the storage or the host's queue above it was slower at the same load"),
        (
            "block",
            "device",
            "the host's queue or driver above the device was slower at the same load, not the device",
        ),
        ("filesystem", None, "the file system or the storage below it was slower at the same load"),
        ("filesystem", "block", "the file system was slower at the same load, not the block layer below it"),
        ("sql", None, "the storage, as SQL Server sees it, was slower at the same load"),
        (
            "sql",
            "block",
            "the time went between SQL Server and the block layer at the same load, not below it",
        ),
    ],
)
def test_what_slowed_is_named_by_the_layers_that_were_seen(name, below, said):
    other = layer("device" if name != "device" else "block", "x")
    assert words.what_slowed(name, [other, layer(name, below)] if name != "device" else [layer(name)]) == said
    if below is None:
        assert words.what_slowed(name, []) == said


def shares(**parts):
    """Layers from the top down, with their share of the growth."""
    names = [*parts, None]
    return [
        LayerTime(name, 1.0, 2.0, names[at + 1], part, part, None)
        for at, (name, part) in enumerate(parts.items())
    ]


@pytest.mark.parametrize(
    ("times", "said", "layers"),
    [
        (
            shares(sql=0.81, block=0.04, device=0.15),
            "block layer at the same load, not below it",
            "sql layer",
        ),
        (
            shares(sql=0.55, block=0.0, device=0.45),
            "block layer at the same load, though 45.0 % of the time went below it",
            "sql and device layers",
        ),
        (
            shares(sql=0.4, block=0.3, device=0.3),
            "block layer at the same load, though 60.0 % of the time went below it",
            "sql, block and device layers",
        ),
        (
            shares(sql=0.98, block=-0.4, device=0.42),
            "though 42.0 % of the time went below it",
            "sql and device layers",
        ),
    ],
)
def test_a_layer_below_with_a_large_part_of_the_time_is_not_acquitted(times, said, layers):
    assert words.what_slowed("sql", times).endswith(said)
    assert words.layer_words("sql", times, []) == layers
    assert words.layer_words("sql", times, ["block"]) == "seen in the sql layer"


def test_of_a_queue_and_a_device_that_were_both_slower_both_are_named():
    said = words.what_slowed("block", shares(sql=0.0, block=0.6, device=0.4))
    assert said.startswith(
        "the host's queue or driver above the device was slower at the same load, though 40.0 % of"
    )
    said = words.what_slowed("filesystem", shares(filesystem=0.6, block=0.0, device=0.4))
    assert said == "the file system was slower at the same load, though 40.0 % of the time went below it"


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        (["device"], "the device layer has no I/O"),
        (["block", "device"], "the block and device layers have no I/O"),
    ],
)
def test_a_layer_that_was_not_recorded_meanwhile_may_have_had_the_time(unseen, said):
    (one,) = words.caveats((1.5, 2.0), is_most=False, unseen=unseen)
    assert one.startswith(said)


@pytest.mark.parametrize(
    ("silent", "layer", "unseen"),
    [((), "sql", []), (("device",), "sql", ["device"]), (("block", "device"), "sql", ["block", "device"]),
     (("block",), "device", []), (("sql",), "block", [])],
)  # fmt: skip
def test_layers_without_an_io_then_or_beside_it_were_not_recorded(silent, layer, unseen):
    """A window from slot 20 to 30. What is held up above a layer reaches it just afterwards."""
    counts = np.ones((1, 60))
    gap, held = counts.copy(), counts.copy()
    gap[:, 10:40], held[:, 18:32] = 0, 0
    layers = {
        name: SimpleNamespace(begun_count=gap if name in silent else held)
        for name in ("sql", "block", "device")
    }
    finder = SimpleNamespace(slots=SimpleNamespace(layers=layers))
    assert _Finder._unseen(finder, layer, (20, 30)) == unseen


def test_where_the_time_went():
    assert words.where("block", None) == "seen in the block layer"
    assert words.where("block", "block") == "most of it in the block layer"
    assert words.where("block", "device") == "seen in the block layer, most of it added in device"


MORE = Change("arrivals", 1.0, 2.0, 2.0, (1.9, 2.1))
GRADUAL = Gradual(1.0 * MS, 2.0 * MS, 30 * S, 60 * S)
ROSE = "latency rose from 1.00 ms to 2.00 ms within 20.0 s, 2.00x [1.90, 2.10] slower"
WAS = "latency was 2.00 ms when the recording began and went back to 1.00 ms within"


def headline(drive, gradual=None, subject=None, span=(10 * S, 100 * S)):
    return words.headline(
        2.0, (1.9, 2.1), 1.0 * MS, span, gradual, drive, "the device did it", subject=subject, where="there"
    )


@pytest.mark.parametrize(
    ("drive", "why"),
    [
        (Drive("service-driven", [], []), "the device did it"),
        (Drive("cannot tell", [], []), "whether load or the storage did it, the recording cannot show"),
        (Drive("load-driven", [], [MORE]), "load grew"),
        (Drive("load-driven", [], []), "as many I/Os came in bursts"),
        (Drive("load-driven", [], [], is_as_ever=True), "the same load makes it as slow at other times"),
    ],
)
def test_a_headline_says_how_much_for_how_long_and_why(drive, why):
    slower = "2.00x [1.90, 2.10] slower than normal (typically 2.00 ms instead of 1.00 ms, still very good"
    assert headline(drive) == f"{slower}) for 90.0 s, there: {why}"
    assert headline(drive, subject="read C:") == f"{slower}, read C:) for 90.0 s, there: {why}"


@pytest.mark.parametrize(
    ("gradual", "end", "said"),
    [
        (GRADUAL, 100, f"{ROSE}, and was back after 90.0 s in all"),
        (replace(GRADUAL, falling_ns=None), 100, f"{ROSE}, and was still so when the recording ended"),
        (replace(GRADUAL, falling_ns=None), 30, ROSE),
        (replace(GRADUAL, falling_ns=None, risen_ns=200 * S), 30, ROSE),
        (replace(GRADUAL, risen_ns=None), 100, f"{WAS} 40.0 s, 2.00x [1.90, 2.10]"),
        (replace(GRADUAL, risen_ns=None, falling_ns=None), 100, f"{WAS} 90.0 s, 2.00x [1.90, 2.10]"),
    ],
)
def test_a_slow_change_is_told_by_its_course(gradual, end, said):
    drive = Drive("service-driven", [], [])
    whole = (10 * S, end * S)
    still = "(still very good"
    assert headline(drive, gradual, span=whole) == f"{said} {still}), there: the device did it"
    of_c = headline(drive, gradual, "read C:", span=whole)
    assert of_c == f"{said} {still}, read C:), there: the device did it"


def test_what_began_nearest_the_window_is_named_as_a_coincidence():
    told = words.headline(
        2.0, (1.9, 2.1), 1.0 * MS, (10 * S, 100 * S), None, Drive("service-driven", [], []), "the device did it",
        subject=None, where="there", markers=[MarkerBeside("note", "fio begins", 9 * S, 20 * S)],
    )  # fmt: skip
    assert told.endswith(": the device did it; meanwhile, cause or not: fio begins")


@pytest.mark.parametrize(
    ("normal_ms", "slow_ms", "said"),
    [
        (0.14, 0.79, "still excellent"),
        (0.14, 1.0, "very good instead of excellent"),
        (9, 700, "wow instead of good"),
    ],
)
def test_latency_is_called_what_describe_calls_it(normal_ms, slow_ms, said):
    """Below 1 ms is excellent, below 5 ms very good, below 10 ms good, above 500 ms wow."""
    assert words.grade_words(normal_ms * MS, slow_ms * MS) == said


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (MarkerBeside("note", "fio\n begins", 12 * S, None), "meanwhile, cause or not: fio begins"),
        (MarkerBeside("backup", None, 5 * S, 5 * S), "meanwhile, cause or not: backup"),
        (MarkerBeside("backup", "full", 5 * S, 4 * S), "just before, cause or not: backup: full"),
        (MarkerBeside("note", None, 9 * S, None), "just before, cause or not: note"),
    ],
)  # fmt: skip
def test_a_marker_is_told_with_when_it_was(marker, said):
    assert words.beside_words([marker], (10 * S, 100 * S)) == said
    assert words.beside_words([], (10 * S, 100 * S)) == ""


def test_a_marker_of_many_words_is_told_in_120_characters():
    """Whole words of it: 25 characters say when, 19 words and what is between them are 94, and a dot follows."""
    told = words.beside_words([MarkerBeside("note", "word " * 100, 12 * S, None)], (10 * S, 100 * S))
    assert told == f"meanwhile, cause or not: {' '.join(['word'] * 19)}…"
    assert len(told) == 120


def row(dimension, name, growth):
    return BlameRow(dimension, name, 0, 0, 0, 0, 0, 0, None, None, growth, 0)


@pytest.mark.parametrize(
    ("markers", "blame", "what"),
    [
        ([], [], ""),
        (["checkpoint", "backup"], [row("process", "sql", 0.9)], "; a checkpoint runs then"),
        ([], [row("role", "data", 0.9), row("process", "sql", 0.51), row("file", "a", 0.9)], "; it is sql"),
        ([], [row("file", "a.mdf", 0.6)], "; it is a.mdf"),
        ([], [row("process", "sql", 0.5)], ""),
    ],
)
def test_what_recurs_is_told_with_what_runs_then(markers, blame, what):
    told = words.periodic_headline(12, 60 * S, 5 * S, 2.345, markers, blame)
    assert told == f"every 60.0 s, 12 times, 2.35x slower than normal for 5.00 s{what}"


def found(**more):
    fields = {"title": "t", "uuid": "u", "kind": "captured", "quality_verdict": "good", "quality_reasons": []}
    return Incidents(
        **fields, start_ns=0, end_ns=100 * S, slot_ns=S, basis="I/Os", load_layer="block", notes=[], **more
    )


def test_what_would_have_been_found_is_told_by_layer_shape_and_length():
    told = [
        Sensitivity("block", 3 * S, 1.5), Sensitivity("block", 10 * S, 1.25), Sensitivity("block", 60 * S, 1.3, "any"),
        Sensitivity("device", 3 * S, 1.41),
    ]  # fmt: skip
    first, second = words.sensitivity_sentences(found(sensitivity=told))
    assert first == (
        "A slowdown of the typical I/O would have been found, nine times in ten: block layer, a sudden one, from 1.50x "
        "for 3.00 s, 1.25x for 10.0 s; block layer, one of any other shape, over its length, from 1.30x for 60.0 s; "
        "device layer, a sudden one, from 1.41x for 3.00 s."
    )
    assert "what lasts less than 2.00 s" in second
    assert "what builds up and is over within 30.0 s" in second
    assert "what slowly follows the load" in second
    assert "more than two thirds of the recording" in second
    slow = replace(found(sensitivity=told), slot_ns=15 * S)
    assert "what lasts less than 30.0 s" in words.sensitivity_sentences(slow)[1]
    assert "what builds up and is over within 60.0 s" in words.sensitivity_sentences(slow)[1]
    assert words.sensitivity_sentences(found()) == []


def test_what_to_know_before_believing_a_window():
    holds = "the interval holds 1: it may have been no slower than normal"
    most = "it lasted for more than half of the recording: the recording cannot show which level is normal"
    assert words.caveats((1.0, 2.0), is_most=False) == [holds]
    assert words.caveats((1.001, 2.0), is_most=False) == []
    assert words.caveats((1.001, 2.0), is_most=True) == [most]
    assert words.caveats((0.9, 2.0), is_most=True) == [holds, most]


@pytest.mark.parametrize(
    ("slow", "normal", "changed"),
    [
        (12.0, 10.0, False),
        (12.6, 10.0, True),
        (8.0, 10.0, False),
        (7.9, 10.0, True),
        (-1, 1, True),
        (0, 0, False),
    ],
)
def test_a_counter_has_changed_by_more_than_a_fifth(slow, normal, changed):
    assert context._changed(slow, normal) == changed


def test_how_far_out_a_counter_is_is_told_in_widths_of_its_usual_range():
    usual = {"normal_low": 2.0, "normal_high": 4.0}
    assert context._distance(usual | {"slow_mean": 10.0}) == 3.0
    assert context._distance(usual | {"slow_mean": -2.0}) == 2.0
    assert context._distance({"normal_low": 2.0, "normal_high": 2.0, "slow_mean": 3.0}) == float("inf")


@pytest.fixture
def beside(make_recording):
    """100 s: 20 markers and wait types in the window from 40 to 50 s, counters of which some left their range there."""
    markers = [{"at_ns": at * S, "duration_ns": S, "kind": f"m{at}"} for at in (28, 30, 39, *range(40, 55))]
    waits = [
        {"at_ns": 45 * S, "wait_type": f"W{number}", "duration_ns": (20 - number) * 100 * MS} for number in range(10)
    ] + [{"at_ns": 70 * S, "wait_type": "W0", "duration_ns": 1800 * MS}]  # fmt: skip
    counters = [
        {
            "at_ns": at * S, "interval_ns": 5 * S, "source": "h", "object": "o", "counter": f"c{number}",
            "value": value, "layer": "array" if number == 15 else None,
        }
        for number in range(17)
        for at in range(5, 101, 5)
        for value in [10.0 + at % 3 + (number * 5.0 if 40 < at <= 50 else 0.0)]
    ]  # fmt: skip
    io = [{"issued_ns": at * S, "completed_ns": at * S + MS} for at in range(100)]
    return make_recording(
        io, window_ns=100 * S, tables={"markers": markers, "waits": waits, "counters": counters}
    )


def test_what_happened_at_the_time_is_told_beside_a_window(beside):
    window = (40 * S, 50 * S)
    with library.opened(beside) as connection:
        markers = context.markers_beside(connection, window)
        waits = context.waits_beside(connection, window, (0, 100 * S))
        counters = context.counters_beside(connection, window)
    assert len(markers) == 12
    assert markers[0].kind == "m40", "what began nearest the window's beginning is named first"
    assert {one.kind for one in markers} <= {"m30", "m39", *(f"m{at}" for at in range(40, 50))}
    assert [one.wait_type for one in waits] == [f"W{number}" for number in range(8)]
    assert waits[0].slow_per_s == pytest.approx(0.2)
    assert waits[0].normal_per_s == pytest.approx(0.02)
    assert waits[0].ratio == pytest.approx(10)
    assert (waits[1].normal_per_s, waits[1].ratio, waits[1].slow_count) == (0, None, 1)
    assert len(counters) == 12
    assert counters[0].counter == "c15"
    assert [one.counter for one in counters[1:4]] == ["c16", "c14", "c13"]
    assert counters[1].slow > 80
    assert 10 <= counters[1].normal <= 12


@pytest.mark.parametrize(
    ("window_s", "normal_per_s"),
    [((0, 100), 0.0), ((0, 50), 1.8 / 50)],
)
def test_of_a_window_that_is_the_whole_recording_no_wait_is_normal(make_recording, window_s, normal_per_s):
    """One wait ends in the very moment in which the recording ends, as none is in any slot."""
    waits = [{"at_ns": at * S, "wait_type": "W", "duration_ns": 1800 * MS} for at in (10, 100)]
    recording = make_recording(
        [{"issued_ns": 0, "completed_ns": MS}], window_ns=100 * S, tables={"waits": waits}
    )
    first, end = window_s
    with library.opened(recording) as connection:
        (wait,) = context.waits_beside(connection, (first * S, end * S), (0, 100 * S))
    assert wait.normal_per_s == pytest.approx(normal_per_s)
    assert wait.ratio == (pytest.approx(1.8 / (end - first) / normal_per_s) if normal_per_s else None)


def window(number, start, end):
    from .test_incident_pieces_answers import window_at

    return replace(window_at(start * S, end * S), number=number)


@pytest.mark.parametrize(
    ("number", "margin", "span"),
    [(1, None, (30, 60)), (2, None, (0, 100)), (3, None, (75, 100)), (1, 5, (35, 55)), (1, 0, (40, 50))],
)
def test_what_is_cut_is_a_window_with_as_much_before_and_after_it(number, margin, span):
    told = found(windows=[window(1, 40, 50), window(2, 35, 80)], drifts=[window(3, 85, 95)])
    margin = None if margin is None else margin * S
    chosen, first, end = window_to_cut(told, number, margin)
    assert (chosen.number, first, end) == (number, span[0] * S, span[1] * S)


@pytest.mark.parametrize(
    ("windows", "drifts", "have"),
    [(0, 0, "none was found"), (2, 0, "it has 2"), (0, 1, "it has 1"), (2, 1, "it has 3")],
)
def test_a_window_that_is_not_there_is_named_with_what_is(windows, drifts, have):
    told = found(
        windows=[window(at, 40, 50) for at in range(1, windows + 1)],
        drifts=[window(at, 40, 50) for at in range(windows + 1, windows + drifts + 1)],
    )
    with pytest.raises(IotraceError) as caught:
        window_to_cut(told, 9)
    assert caught.value.message == f"there is no slow window 9 in 't': {have}"
    assert (
        caught.value.hint
        == "iotrace incident RECORDING lists them; --cut takes the number in the first column"
    )


@pytest.mark.parametrize(
    ("factors", "stream", "is_said"),
    [((2.0, 2.6), None, True), ((2.0, 2.4), None, False), ((2.0, 2.6), "disk 0", False)],
)
def test_latency_that_follows_the_load_by_a_quarter_is_said_of_a_layer(factors, stream, is_said):
    finder = SimpleNamespace(slots=SimpleNamespace(slot_ns=S))
    series = SimpleNamespace(layer="block", stream=stream)
    drift = SimpleNamespace(judged=SimpleNamespace(series=series), effect=np.log(np.repeat(factors, 50)))
    notes = _Finder._notes(finder, [], [None, drift])
    assert [note[:37] for note in notes] == ["block: latency follows the load, up to"[:37]] * is_said


@pytest.mark.parametrize(("groups", "is_said"), [(50, False), (51, True)])
def test_more_windows_than_are_accounted_for_are_counted(groups, is_said):
    finder = SimpleNamespace(slots=SimpleNamespace(slot_ns=S))
    said = f"{groups} slow windows were found; the 50 clearest are accounted for"
    assert _Finder._notes(finder, [None] * groups, []) == [said] * is_said


def test_a_marker_of_half_of_the_windows_runs_when_they_recur():
    """Two backups beside one window are a backup beside it; two windows of six are not half of them."""
    kinds = [["checkpoint", "backup", "backup"], ["checkpoint", "backup"], ["checkpoint"], [], [], []]
    windows = [
        SimpleNamespace(
            cause="service-driven", factor=2.0, layer="block", lost_ns=1.0,
            markers=[MarkerBeside(kind, None, 0, None) for kind in mine],
        )
        for mine in kinds
    ]  # fmt: skip
    members = [SimpleNamespace(first=60 * at, end=60 * at + 5) for at in range(6)]
    finder = SimpleNamespace(
        slots=SimpleNamespace(slot_ns=S, at_ns=lambda slot: slot * S),
        _blame=lambda _groups: None,
        _window=lambda index, *_: windows[index],
    )
    told = _Finder._periodic(finder, SimpleNamespace(members=members, period=60.0), None)
    assert told.markers == ["checkpoint"]


@pytest.mark.parametrize(
    ("waiting", "end", "layer"),
    [
        ({"block": [0, 0, 1, 1], "device": [0, 0, 0, 0]}, 4, "block"),
        ({"block": [0, 0, 1, 1], "device": [0, 0, 1, 1]}, 4, "device"),
        # Until the last slot but one: that of the end is not always whole.
        ({"block": [0, 0, 1, 1]}, 3, "block"),
        ({"block": [0, 0, 1, 1]}, 2, None),
        ({"block": [0, 0, 0, 1]}, 4, None),
        ({}, 4, None),
    ],
)
def test_the_lowest_layer_in_which_a_single_io_waits_to_the_end_has_it(waiting, end, layer):
    finder = SimpleNamespace(slots=SimpleNamespace(count=4, waiting=waiting))
    assert _Finder._hanging(finder, (1, end)) == layer


def test_a_counter_that_fell_is_told_and_one_within_its_usual_range_is_not(make_recording):
    """Usually "fell" is 10 to 12, and 2 in the window; "wide" is 5 to 20 at any time, and 18 in the window."""
    usual = {"fell": lambda at: 10.0 + at % 3, "wide": lambda at: 5.0 if at % 10 else 20.0}
    slow = {"fell": 2.0, "wide": 18.0}
    counters = [
        {
            "at_ns": at * S, "interval_ns": 5 * S, "source": "h", "object": "o", "counter": name,
            "value": slow[name] if 40 < at <= 50 else usual[name](at),
        }
        for name in slow
        for at in range(5, 101, 5)
    ]  # fmt: skip
    io = [{"issued_ns": at * S, "completed_ns": at * S + MS} for at in range(100)]
    recording = make_recording(io, window_ns=100 * S, tables={"counters": counters})
    with library.opened(recording) as connection:
        told = context.counters_beside(connection, (40 * S, 50 * S))
    assert [(one.counter, one.slow) for one in told] == [("fell", 2.0)]


def test_a_process_without_a_name_is_called_by_its_number(make_recording):
    processes = [
        {"process_id": 0, "os_process_id": 4711, "name": "sqlservr.exe"},
        {"process_id": 1, "os_process_id": 52, "name": None},
    ]
    recording = make_recording([{"issued_ns": 0, "completed_ns": MS}], tables={"processes": processes})
    assert Names(recording).processes == {0: "sqlservr.exe", 1: "process 52"}
