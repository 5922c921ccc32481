"""Which snapshots follow one another: files under old numbers, clocks set back, totals of something else in between."""

import random

import pytest

from iotrace.capture.formats.windows import dmv_lines

from .dmv_planted import COLUMNS, imported, line, read_rates

A, B = "D:\\a\\sales.mdf", "E:\\b\\hr.mdf"


@pytest.mark.parametrize("other", [{"path": B, "name": "hr"}, {"path": B}, {"name": "hr", "path": A}])
@pytest.mark.parametrize("more", [5_000_000, -500])
def test_another_file_under_the_same_numbers_is_not_subtracted(tmp_path, other, more):
    """100 a second always; from 50 s on the numbers are those of another file with other totals."""
    lines = [
        line(
            second,
            1_000_000 + 100 * second + (more if second >= 50 else 0),
            **(other if second >= 50 else {"path": A}),
        )
        for second in range(0, 100, 10)
    ]
    recording = imported(tmp_path, lines)
    rates = [entry for of_file in read_rates(recording).values() for entry in of_file]
    assert {rate for _, rate in rates} == {100}
    assert sorted(second for second, _ in rates) == [10, 20, 30, 40, 60, 70, 80, 90]
    (marker,) = recording.read("markers").to_pylist()
    assert marker["text"] == "other files have the same numbers from this snapshot on (1 of them)"
    assert any(
        "because other files have the same numbers" in note for note in recording.manifest.quality.notes
    )


def test_both_files_are_told(tmp_path):
    lines = [
        line(second, 100 * second, path=A if second < 50 else B, name="x") for second in range(0, 100, 10)
    ]
    files = [row["path"] for row in imported(tmp_path, lines).read("files").to_pylist()]
    assert files == [A, B]


def test_a_database_without_a_name_for_a_while_is_the_same_file(tmp_path):
    """While it is being restored, sys.master_files and DB_NAME may have nothing to say."""
    lines = [
        line(
            second,
            100 * second,
            path=A,
            **({"physical_name": "NULL", "database_name": ""} if second in {30, 40} else {}),
        )
        for second in range(0, 100, 10)
    ]
    recording = imported(tmp_path, lines)
    assert read_rates(recording) == {A: [(second, 100) for second in range(10, 100, 10)]}
    assert not recording.row_count("markers")


def test_case_makes_no_other_file(tmp_path):
    lines = [line(second, 100 * second, path=A if second < 50 else A.upper()) for second in range(0, 100, 10)]
    assert not imported(tmp_path, lines).row_count("markers")


def test_where_several_databases_change_another_instance_answers_for_all(tmp_path):
    """master has one path on both nodes; its totals there are another's too."""
    lines = []
    for second in range(0, 100, 10):
        more = 7_000_000 if second >= 50 else 0
        lines.append(line(second, 10 * second + more, database=1, name="master", path="C:\\master.mdf"))
        lines += [
            line(second, 100 * second + more, database=database, name=f"{'b' if more else 'a'}{database}")
            for database in (5, 6)
        ]
    recording = imported(tmp_path, lines)
    assert {rate for _, rate in read_rates(recording)["C:\\master.mdf"]} == {10}
    assert len(read_rates(recording)["C:\\master.mdf"]) == 8


@pytest.mark.parametrize("block_bytes", [1 << 23, 512])
@pytest.mark.parametrize("totals", [0, 12_345, 9_000_000], ids=["zeros", "lower", "higher"])
def test_one_snapshot_of_something_else_is_left_out(tmp_path, monkeypatch, totals, block_bytes):
    monkeypatch.setattr(dmv_lines, "_BLOCK_BYTES", block_bytes)
    lines = [
        line(second, totals if second == 50 else 1_000_000 + 100 * second, path=A)
        for second in range(0, 100, 10)
    ]
    recording = imported(tmp_path, lines)
    assert read_rates(recording) == {A: [(second, 100) for second in (10, 20, 30, 40, 60, 70, 80, 90)]}
    quality = recording.manifest.quality
    assert quality.verdict == "usable"
    assert quality.reasons == [
        f"1 of 10 lines of {A}: their totals do not fit between those before and after, so they are of something else"
    ]


@pytest.mark.parametrize("block_bytes", [1 << 23, 512])
def test_a_restart_of_all_files_is_one_even_where_a_quiet_file_is_back_at_once(
    tmp_path, monkeypatch, block_bytes
):
    """The quiet file had read 3 before and has read 5 ten seconds after the start; the busy one shows what it was."""
    monkeypatch.setattr(dmv_lines, "_BLOCK_BYTES", block_bytes)
    lines = []
    for second in range(0, 100, 10):
        busy = 1_000_000 + 100 * second if second < 50 else 100 * (second - 48)
        quiet = 3 if second < 50 else (0 if second == 50 else 5)
        lines += [line(second, busy, path=A), line(second, quiet, file=2, path=B)]
    recording = imported(tmp_path, lines)
    (marker,) = recording.read("markers").to_pylist()
    assert marker["text"] == "totals began again before this snapshot (2 files or wait types)"
    assert recording.manifest.quality.verdict == "good"
    assert (60, 0.5) in read_rates(recording)[B]


def test_a_clock_that_was_set_back_mixes_no_snapshots(tmp_path):
    """100 a second, and at the seventh snapshot the clock is set back by 22 s: no total ever fell."""
    lines = [
        line(second - (22 if second >= 60 else 0), 1_000 + 100 * second, path=A)
        for second in range(0, 120, 10)
    ]
    recording = imported(tmp_path, lines)
    assert {rate for _, rate in read_rates(recording)[A]} == {100}
    assert len(read_rates(recording)[A]) == 10
    quality = recording.manifest.quality
    assert (quality.clock_steps, quality.verdict) == (1, "usable")
    assert not recording.row_count("markers")


def test_across_that_step_the_uptime_counts(tmp_path):
    lines = [
        line(second - (22 if second >= 60 else 0), 1_000 + 100 * second, path=A) + f",{1000 * second}"
        for second in range(0, 120, 10)
    ]
    recording = imported(tmp_path, lines, header=(*COLUMNS, "sample_ms"))
    assert [rate for _, rate in read_rates(recording)[A]] == pytest.approx([100] * 11)
    assert recording.manifest.quality.clock_steps == 1


def test_two_steps_and_several_files(tmp_path):
    lines = []
    for second in range(0, 300, 10):
        shown = second - 25 * (second >= 100) - 33 * (second >= 200)
        lines += [line(shown, 1_000 + 10 * file * second, file=file) for file in range(1, 5)]
    recording = imported(tmp_path, lines)
    assert recording.manifest.quality.clock_steps == 2
    for file, rates in read_rates(recording).items():
        assert {rate for _, rate in rates} == {10 * int(file[-5])}
        assert len(rates) == 27


def ordered(how):
    taken = [(second, [line(second, 1_000 + 100 * second, file=1, path=A)]) for second in range(0, 200, 10)]
    if how == "newest first":
        taken.reverse()
    elif how == "the second half first":
        taken = taken[10:] + taken[:10]
    elif how == "halves that overlap":
        taken = taken[:13] + taken[7:]
    else:
        random.Random(7).shuffle(taken)
    return [one for _, lines in taken for one in lines]


@pytest.mark.parametrize("how", ["newest first", "the second half first", "halves that overlap", "shuffled"])
def test_other_orders_are_no_clock_steps(tmp_path, how):
    recording = imported(tmp_path, ordered(how))
    assert {rate for _, rate in read_rates(recording)[A]} == {100}
    assert len(read_rates(recording)[A]) == 19
    assert recording.manifest.quality.verdict == "good"


def test_a_restart_between_files_in_the_wrong_order_is_no_clock_step(tmp_path):
    """The newer file, of after a restart, stands first: times go back and totals rise, but to before the first line."""
    newer = [line(second, 100 * (second - 100), path=A) for second in range(100, 200, 10)]
    older = [line(second, 1_000_000 + 100 * second, path=A) for second in range(0, 100, 10)]
    recording = imported(tmp_path, newer + older)
    assert {rate for _, rate in read_rates(recording)[A]} == {100}
    assert recording.manifest.quality.clock_steps == 0
    assert recording.row_count("markers") == 1
