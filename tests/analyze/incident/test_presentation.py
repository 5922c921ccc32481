"""How slow windows are shown: what each figure is, and what the strips of latency have in common."""

import pytest

from iotrace.analyze.incident import presentation
from iotrace.analyze.incident.result import BlameRow, Incidents, Timeline

from .test_incident_pieces_answers import window_at

S = 1_000_000_000
MS = 1_000_000


def blamed(dimension, name, usual, grown):
    """A row with figures of its own, so that none looks like another's."""
    return BlameRow(dimension, name, usual, usual, 1, grown, 1, usual, 1.0, 2.0, grown, usual)


def timeline(layer, first, end):
    """Half an hour in slots of 5 s, of which those from ``first`` to ``end`` have a latency."""
    latency = [2.0 * MS if first <= slot < end else None for slot in range(360)]
    nothing = [0.0] * 360
    return Timeline(
        layer, [slot * 5 * S for slot in range(360)], latency, latency, (0.9, 1.1), nothing, nothing, nothing
    )


def found(*timelines):
    return Incidents(
        "t", "u", "captured", "good", [], 0, 1800 * S, 5 * S, "means", "block", timelines=list(timelines)
    )  # fmt: skip


def test_a_column_of_every_strip_is_the_same_stretch_of_time():
    """A log that ends after two thirds of the time fills two thirds of its strip, and that is said."""
    shown = found(timeline("sql", 0, 360), timeline("block", 0, 240), timeline("device", 120, 360))
    whole, early, late = (presentation._picture(shown, one, 0) for one in shown.timelines)
    for section, first, end in ((whole, 0, 64), (early, 0, 43), (late, 21, 64)):
        known = [place for place, height in enumerate(section.strip.heights) if height is not None]
        assert (len(section.strip.heights), known) == (64, list(range(first, end)))
    assert "no sample" not in whole.sentences[0].text
    assert early.sentences[0].text.endswith("; no sample after +0:20:00")
    assert late.sentences[0].text.endswith("; no sample before +0:10:00")


def test_what_typical_means_is_said_once():
    shown = found(timeline("sql", 0, 360), timeline("block", 0, 360))
    shown.windows.append(window_at(600 * S, 700 * S, number=1))
    notes = [presentation._picture(shown, one, 0).notes for one in shown.timelines]
    assert ["geometric mean" in " ".join(one) for one in notes] == [True, False]


@pytest.mark.parametrize(
    ("by", "mb_per_s", "said"), [("load", 400, "bytes"), ("load", 1, "I/Os"), ("time", 400, "time")]
)
def test_a_share_of_what_was_added_says_of_what(by, mb_per_s, said):
    """Of 2 MB/s before."""
    grown = BlameRow("operation", "read", 0.5, 0.5, 1, 9, 2e6, mb_per_s * 1e6, 1.0, 2.0, 0.9, 0.5)
    window = window_at(0, 9, number=1, blame=[grown], blamed_by=by)
    (section,) = presentation._blame("Window 1", window)
    assert section.table.columns[2].head == f"of the added {said}"
    assert "slower (mean)" in [column.head for column in section.table.columns]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("operation", "read", 0.7, 0.72), ("device", "sdc", 0.25, 0.99)], "sdc"),
        ([("operation", "write", 0.3, 0.99), ("device", "sdc", 0.25, 0.3)], "write"),
        ([("operation", "read", 0.7, 0.89)], "read"),
        ([("operation", "read", 0.7, 0.87)], None),
        (
            [("file", "a.mdf", 0.05, 0.95), ("operation", "read", 0.7, 0.75), ("device", "sdc", 0.25, 0.97)],
            "a.mdf",
        ),
        (
            [("file", "a.mdf", 0.4, 0.42), ("operation", "read", 0.7, 0.75), ("device", "sdc", 0.5, 0.52)],
            "a.mdf",
        ),
        ([("role", "data", 0.6, 0.62), ("operation", "read", 0.7, 0.75)], None),
        ([("file", "new.bak", 0.0, 0.4), ("process", "backup", 0.3, 1.0)], "new.bak"),
        ([("file", "new.bak", 0.0, 0.3), ("process", "backup", 0.3, 1.0)], "backup"),
        ([], None),
    ],
)
def test_told_is_what_exceeds_its_usual_share_most(rows, told):
    """Shares, usual and of what grew; that reads, most of the I/Os, have most of it again says nothing."""
    row = presentation._telling([blamed(*row) for row in rows])
    assert (row.name if row else None) == told
