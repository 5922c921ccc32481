"""Lines of which nothing can be made: whose, how many and why, and whether totals bridge them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from iotrace.capture.formats.windows import dmv_lines
from iotrace.capture.importing.anonymizing import Anonymizer
from iotrace.capture.importing.traces import import_files

from .dmv_planted import COLUMNS, imported, line, read_rates

BIG = "D:\\big.mdf"
SMALL = "L:\\small.ldf"
ROUNDED = {"num_of_bytes_read": "1.23457E+12"}
SECONDS = range(0, 100, 10)


def both(of_big):
    """Ten snapshots of two files; ``of_big`` gives what is wrong with the big one at a second."""
    return [
        one
        for second in SECONDS
        for one in (
            line(second, 1000 + 50 * second, path=BIG, **of_big(second)),
            line(second, 7 + second, file=2, path=SMALL),
        )
    ]


def test_a_file_whose_totals_were_all_rounded_is_named_with_the_cause(tmp_path):
    quality = imported(tmp_path, both(lambda _: ROUNDED)).manifest.quality
    assert quality.events_lost == 10
    assert quality.verdict == "poor"
    assert quality.reasons == [
        (
            f"10 events lost (50.00 %): 10 of 10 lines of {BIG}: a spreadsheet rounded their totals "
            "(num_of_bytes_read 1.23457E+12)"
        )
    ]


def test_totals_that_grow_too_long_for_a_sheet_are_lost_from_there_on(tmp_path):
    recording = imported(tmp_path, both(lambda second: ROUNDED if second >= 50 else {}))
    quality = recording.manifest.quality
    assert quality.events_lost == 5
    assert quality.reasons[0].startswith(
        f"5 events lost (25.00 %): 5 of 10 lines of {BIG}: a spreadsheet rounded"
    )
    assert [second for second, _ in read_rates(recording)[BIG]] == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("cells", "cause"),
    [
        ({"num_of_reads": "NULL"}, "a total is missing (num_of_reads NULL)"),
        ({"io_stall_read_ms": ""}, "a total is missing (io_stall_read_ms)"),
        ({"num_of_reads": "-5"}, "a total is below zero (num_of_reads -5)"),
        ({"num_of_writes": "many"}, "a cell is no whole number (num_of_writes many)"),
        ({"num_of_bytes_read": "6E+11"}, "a spreadsheet rounded their totals (num_of_bytes_read 6E+11)"),
    ],
)
def test_totals_bridge_a_line_between_two_good_ones(tmp_path, cells, cause):
    """No I/O is lost: 50 a second before, across and after; but a peak there does not show."""
    recording = imported(tmp_path, both(lambda second: cells if second == 50 else {}))
    quality = recording.manifest.quality
    assert (quality.events_lost, quality.verdict) == (0, "usable")
    assert quality.reasons == [f"1 of 10 lines of {BIG}: {cause}"]
    assert {rate for _, rate in read_rates(recording)[BIG]} == {50}
    assert 50 not in {second for second, _ in read_rates(recording)[BIG]}


def test_each_cause_is_told_of_its_own_lines(tmp_path):
    cells = {30: {"num_of_reads": "NULL"}, 60: ROUNDED, 70: ROUNDED}
    quality = imported(tmp_path, both(lambda second: cells.get(second, {}))).manifest.quality
    assert quality.reasons == [
        f"2 of 10 lines of {BIG}: a spreadsheet rounded their totals (num_of_bytes_read 1.23457E+12)",
        f"1 of 10 lines of {BIG}: a total is missing (num_of_reads NULL)",
    ]


def test_lines_of_other_shapes_are_lost_as_nobody_knows_whose_they_are(tmp_path):
    """Commas within a path, without quotes: the file that has them is missing altogether."""
    lines = both(lambda _: {"physical_name": "D:\\data, fast\\big.mdf"})
    quality = imported(tmp_path, lines).manifest.quality
    assert quality.reasons == ["10 events lost (50.00 %): 10 lines with more or fewer cells than columns"]


def test_three_files_are_named_and_the_others_counted(tmp_path):
    lines = [
        line(second, 5 + second, file=file, **(ROUNDED if file > 1 else {}))
        for second in SECONDS
        for file in range(1, 7)
    ]
    quality = imported(tmp_path, lines).manifest.quality
    assert [words.partition(":")[0] for words in quality.left_out] == [
        "10 of 10 lines of D", "10 of 10 lines of D", "10 of 10 lines of D",
        "20 lines more, in other files or for other reasons",
    ]  # fmt: skip


def test_headings_between_the_lines_are_no_loss(tmp_path):
    lines = both(lambda _: {})
    lines[10:10] = ["-----," * 10 + "-----", ",".join(["capture_utc"] + ["x"] * 10)]
    assert imported(tmp_path, lines).manifest.quality.verdict == "good"


def test_a_time_that_cannot_be_read(tmp_path):
    lines = [*both(lambda _: {}), line("yesterday", 9000, path=BIG)]
    quality = imported(tmp_path, lines).manifest.quality
    assert quality.reasons == [
        f"1 event lost (4.76 %): 1 of 11 lines of {BIG}: their time cannot be read (capture_utc yesterday)"
    ]


def test_of_several_sources_the_one_that_lacks_lines_is_named(tmp_path):
    for name, of_big in (("good.csv", lambda _: {}), ("rounded.csv", lambda _: ROUNDED)):
        (tmp_path / name).write_text("".join(f"{one}\n" for one in (",".join(COLUMNS), *both(of_big))))
    quality = import_files(
        [tmp_path / "good.csv", tmp_path / "rounded.csv"], tmp_path / "x.iotrace"
    ).manifest.quality
    assert len(quality.left_out) == 1
    assert "rounded.csv: 10 of 10 lines of " in quality.left_out[0]
    assert quality.reasons[0].startswith("10 events lost (50.00 %): ")


def test_an_anonymized_import_names_no_file(tmp_path):
    quality = imported(tmp_path, both(lambda _: ROUNDED), anonymizer=Anonymizer("key")).manifest.quality
    assert quality.reasons == ["10 events lost (50.00 %): a part of a source could not be read"]
    assert "big" not in str(quality)


def local_lines(minutes):
    """100 reads a second over the end of daylight saving in Berlin, in its local times."""
    ends = datetime(2026, 10, 25, 1, tzinfo=UTC)
    for minute in minutes:
        utc = ends + timedelta(minutes=minute)
        yield line(
            utc.astimezone(ZoneInfo("Europe/Berlin")).strftime("%d.%m.%Y %H:%M:%S"),
            10**7 + 6000 * minute,
            path=BIG,
        )


HEADER = ("capture_time", *COLUMNS[1:])


@pytest.mark.parametrize("block_bytes", [1 << 23, 1024])
@pytest.mark.parametrize("minutes", [range(-150, 150), range(-90, 30), range(-20, 40)])
def test_local_times_that_come_twice_are_told_apart_by_the_order(tmp_path, monkeypatch, block_bytes, minutes):
    monkeypatch.setattr(dmv_lines, "_BLOCK_BYTES", block_bytes)
    recording = imported(tmp_path, list(local_lines(minutes)), header=HEADER, timezone="Europe/Berlin")
    rates = read_rates(recording)[BIG]
    assert [second for second, _ in rates] == [60 * number for number in range(1, len(minutes))]
    assert {rate for _, rate in rates} == {100}
    quality = recording.manifest.quality
    assert (quality.verdict, quality.clock_steps) == ("good", 0)
    assert any("clocks went back an hour" in note for note in quality.notes)
    begin = datetime(2026, 10, 25, 1, tzinfo=UTC) + timedelta(minutes=minutes[0])
    assert recording.manifest.clock.start_utc_ns == round(begin.timestamp()) * 10**9


def test_where_the_order_does_not_tell_the_reason_is_said(tmp_path):
    lines = list(local_lines(range(-240, 241, 60)))
    quality = imported(tmp_path, lines, header=HEADER, timezone="Europe/Berlin").manifest.quality
    assert (quality.events_lost, quality.verdict) == (0, "usable")
    (reason,) = quality.reasons
    assert reason.startswith(
        f"2 of 9 lines of {BIG}: their local time comes twice as the clocks go back, and the order"
    )
    assert reason.endswith("(capture_time 25.10.2026 02:00:00)")
