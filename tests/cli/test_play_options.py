"""What replay and sweep take: read alike, shown in groups, refused with a hint."""

from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.cli.amounts import parse_bytes, parse_loop, parse_ratio, parse_seconds, parse_window
from iotrace.schemas import Clock, IotraceError, Manifest, Recording, Sweep

from ..recordings import SDA, write_recording
from .conftest import Result

SECOND = 10**9
NIGHT = Recording(
    Path("night.iotrace"),
    Manifest(
        kind="synthetic",
        title="night",
        clock=Clock(
            start_utc_ns=1_763_767_800 * SECOND, resolution_ns=1, name="planted"
        ),  # 2025-11-21 23:30 UTC
        window_end_ns=4 * 3600 * SECOND,
    ),
)
BOTH = ["replay", "sweep"]


@pytest.mark.parametrize("command", BOTH)
def test_help_shows_the_same_options_in_groups(iotrace: Callable[..., Result], command: str) -> None:
    text = iotrace(command, "--help").out
    titles = ["Arguments:", "Where to play:", "What to play:", "How hard:", "Data on the target:", "The run:"]
    places = [text.index(title) for title in [*titles, "Options:"]]
    assert places == sorted(places)
    for option in ("--target", "--addresses", "--window", "--role", "--op", "--mode", "--dedupe", "--seed"):
        assert f"  {option} " in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("text", "first_s", "last_s"),
    [
        ("23:40..23:55", 600, 1500),
        ("23:40:30..00:10", 630, 2400),
        ("02:10..02:25", 9600, 10500),
        ("10m..25m", 600, 1500),
        ("+1h..1h30m", 3600, 5400),
        ("+0:10:00..+1:30:00.5", 600, 5400.5),
        ("90s..120.5s", 90, 120.5),
        ("2025-11-22T00:00..00:30", 1800, 3600),
        ("..1h", 0, 3600),
        ("02:10..", 9600, 4 * 3600 + 1e-9),
    ],
)
def test_windows(text: str, first_s: float, last_s: float) -> None:
    assert parse_window(text, NIGHT) == (round(first_s * SECOND), round(last_s * SECOND))


@pytest.mark.parametrize(
    ("text", "first_s", "last_s", "taken"),
    [
        ("03:00..04:00", 3.5 * 3600, 4 * 3600 + 1e-9, "30 min 00 s are taken"),
        ("2025-11-21T22:00..23:45", 0, 900, "15 min 00 s are taken"),
        ("2025-11-21T22:00..2025-11-22T12:00", 0, 4 * 3600 + 1e-9, "4 h 00 min are taken"),
    ],
)
def test_a_window_beyond_the_recording_is_cut_to_it(
    capsys: pytest.CaptureFixture[str], text: str, first_s: float, last_s: float, taken: str
) -> None:
    """Nothing is known of the time beyond: to count it in would halve rates, and let a replay wait."""
    assert parse_window(text, NIGHT) == (round(first_s * SECOND), round(last_s * SECOND))
    said = " ".join(capsys.readouterr().err.split())
    assert "the recording runs from 2025-11-21 23:30:00 to 2025-11-22 03:30:00 UTC" in said
    assert taken in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("02:10", "is not FROM..TO"),
        ("9999-12-31T23:50..00:10", "'00:10' in --window"),
        ("02:10..noon", "'noon' in --window '02:10..noon' is not a time"),
        ("25:10..02:20", "'25:10' in --window"),
        ("20m..10m", "ends before it starts"),
        ("12:00..13:00", "lies outside the recording"),
        ("5h..6h", "lies outside the recording"),
        ("2025-13-01T00:00..01:00", "is not a time"),
    ],
)
def test_what_is_no_window(text: str, message: str) -> None:
    with pytest.raises(IotraceError, match=message) as caught:
        parse_window(text, NIGHT)
    assert "2025-11-21 23:30:00 to 2025-11-22 03:30:00 UTC" in caught.value.hint


def test_ratios_and_loops() -> None:
    assert [parse_ratio(text) for text in ("2:1", "1.5 : 1", "3")] == [2, 1.5, 3]
    assert [parse_loop(text) for text in ("3", "2x", "30m")] == [(3, None), (2, None), (1, 1800.0)]
    with pytest.raises(IotraceError, match="'1:2' is not a ratio"):
        parse_ratio("1:2")
    with pytest.raises(IotraceError, match="'ever' is neither"):
        parse_loop("ever")


@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--map", "0"), "--map '0' is not DEVICE=TARGET"),
        (("--mode", "faster"), "there is no mode 'faster'"),
        (("--footprint", "none"), "there is no footprint 'none'"),
        (("--addresses", "random"), "there is no way of mapping addresses called 'random'"),
        (("--compressible", "0.5"), "data cannot be compressible 0.5:1"),
        (("--dedupe", "1000:1"), "data cannot be deduplicated 1000:1"),
        (("--window", "1s..2s", "--busiest", "5s"), "--window and --busiest each name the part to play"),
        (("--role", "date"), "there is no role 'date'"),
        (("--file", "*.xyz"), "matches '*.xyz'"),
        (("--op", "erase"), "there is no op 'erase'"),
        (("--op", ""), "--op '' names nothing"),
        (("--role", " , "), "--role ' , ' names nothing"),
        (("--file", ""), "--file '' names nothing"),
        (("--process", ""), "--process '' names nothing"),
        (("--target", ""), "a target has an empty name"),
        (("--map", "0=a.bin", "--map", "0=b.bin"), "--map sends '0' to 'a.bin' and to 'b.bin'"),
    ],
)
def test_wrong_words_are_named_before_anything_is_touched(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    command: str,
    words: tuple[str, ...],
    message: str,
) -> None:
    target = tmp_path / "target"
    result = iotrace(command, reads.path, "--target", target, "-o", tmp_path / "out.iotrace", *words)
    assert result.status == 2
    assert message in " ".join(result.err.split())
    assert "hint:" in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["reads.iotrace"]


def test_a_sweep_of_copies_steps_by_whole_ones(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    words = ("--target", tmp_path / "target", "--buffered", "--mode", "superpose", "--footprint", "same")
    lengths = ("--steps", 4, "--step-seconds", 0.5, "-o", tmp_path / "sweep.iotrace")
    result = iotrace("sweep", reads.path, *words, *lengths)
    assert result.status in {0, 1}, result.err
    steps = Sweep.open(tmp_path / "sweep.iotrace").recordings()
    facts = [step.manifest.open_replay for step in steps]
    assert len(facts) >= 2
    for fact in facts:
        assert fact.scale == fact.copies == int(fact.scale)
        assert fact.planned_ios == reads.row_count("io") * fact.copies * fact.repeat


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 400])
def test_amounts_beyond_any_machine_are_refused(digits: str) -> None:
    for parse, unit in ((parse_bytes, "T"), (parse_seconds, "h"), (parse_ratio, ":1")):
        with pytest.raises(IotraceError, match=f"'{digits}{unit}' is not a"):
            parse(digits + unit)
    with pytest.raises(IotraceError, match="is not a length of time"):
        parse_seconds("999999999h")
    with pytest.raises(IotraceError, match="is not a size"):
        parse_bytes("99999999T")


def test_what_cannot_be_played_is_told_in_the_words_it_was_asked_in(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    """A read and a write a second apart: between them lies nothing, and one alone has no rate to be repeated at."""
    source = two_reads(tmp_path / "two.iotrace")
    words = (source.path, "--target", tmp_path / "target", "--buffered", "-o", tmp_path / "out.iotrace")
    result = iotrace("replay", *words, "--window", "0.2s..1s")
    assert "has no I/O of the layer 'block' from 0.2 s to 1 s since its start" in " ".join(result.err.split())
    result = iotrace("replay", *words, "--op", "write", "--loop", "30m")
    assert "to loop for 1800 s" in " ".join(result.err.split())
    assert "--window" in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["two.iotrace"]


def two_reads(path: Path) -> Recording:
    """A read at 0.1 s and a write at 1.1 s."""
    io = {
        "op": ["read", "write"],
        "issued_ns": [SECOND // 10, SECOND + SECOND // 10],
        "offset_bytes": [0, 8192],
        "device_id": 0,
    }
    return write_recording(path, io, tables={"devices": SDA}, kind="synthetic", window_end_ns=2 * SECOND)
