"""The commands work on one another's results, for people and for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.schemas import Recording

from .conftest import Result, make_recording


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording, a replay of it and a sweep; through the cache, so that it works on any file system."""
    from iotrace.cli.main import run

    folder = tmp_path_factory.mktemp("story")
    make_recording(folder / "prod.iotrace")
    target = ["--target", str(folder / "target.bin"), "--buffered"]
    replay = [
        "replay",
        str(folder / "prod.iotrace"),
        *target,
        "--scale",
        "2x",
        "-o",
        str(folder / "new.iotrace"),
    ]
    sweep = ["sweep", str(folder / "prod.iotrace"), *target, "--scales", "1x,2x,4x", "--step-seconds", "0.5"]
    assert run(replay) == 1, "figures from the cache must not pass as the storage's"
    assert run([*sweep, "-o", str(folder / "sweep.iotrace")]) == 1
    return folder


def test_a_replay_at_2x_takes_half_the_time_and_does_the_same_work(story: Path) -> None:
    before, after = Recording.open(story / "prod.iotrace"), Recording.open(story / "new.iotrace")
    run = after.manifest.replay
    assert run is not None
    recorded = before.read("io")["issued_ns"].to_pylist()
    assert run.planned_duration_ns == pytest.approx((recorded[-1] - recorded[0]) / 2, abs=2)
    assert after.read("io").num_rows == len(recorded) == run.completed_ios


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["describe", "prod.iotrace"], "workloads"),
        (["describe", "new.iotrace"], "workloads"),
        (["compare", "prod.iotrace", "new.iotrace"], "comparisons"),
        (["knee", "sweep.iotrace"], "state"),
        (["knee", "sweep.iotrace", "--slo", "p95<15ms"], "objectives"),
        (["validate", "prod.iotrace"], "whole"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_answers_come_as_tables_and_as_json(
    iotrace: Callable[..., Result],
    story: Path,
    arguments: list[str],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(story)
    for_people, for_programs = iotrace(*arguments), iotrace(*arguments, "--json")
    assert for_people.status == for_programs.status <= 1
    assert for_people.out.strip()
    assert key in json.loads(for_programs.out)
    assert for_programs.err == ""


def test_a_report_is_written_once_and_replaced_when_asked(
    iotrace: Callable[..., Result], story: Path
) -> None:
    report = story / "report.html"
    command = ["report", story / "prod.iotrace", story / "sweep.iotrace", "-o", report]
    first = iotrace(*command)
    assert first.status == 0
    assert report.read_text("utf-8").lower().startswith("<!doctype html>")
    assert iotrace(*command).status == 2
    assert "verdict" in json.loads(iotrace(*command, "--overwrite", "--json").out)
    report.unlink()


def test_a_damaged_recording_is_not_whole(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    recording = make_recording(tmp_path / "a.iotrace")
    path = recording.path / "io.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    result = iotrace("validate", recording.path)
    assert result.status == 1
    assert "io.parquet" in result.out
    assert iotrace("describe", recording.path).status == 2


def test_names_from_a_trace_cannot_drive_the_terminal(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    recording = make_recording(tmp_path / "a.iotrace")
    recording.manifest.title = "\x1b]0;pwned\x07[bold]title[/bold]\x1b[2J"
    (recording.path / "manifest.json").write_text(recording.manifest.to_json())
    shown = iotrace("describe", recording.path).out
    assert "\x1b" not in shown
    assert "[bold]title[/bold]" in shown
