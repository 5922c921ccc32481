"""--overwrite replaces an earlier result once there is a better one, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.schemas import Recording, Sweep, SweepWriter

from ..attacks.cut_power import contents
from .conftest import Result, make_recording
from .test_errors import assert_refused, entries


def make_sweep(path: Path) -> Path:
    writer = SweepWriter(path, title="of last week", source_uuid=None)
    writer.add(1, make_recording(writer.step_path(1)))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "--target", "t.bin"),
        ("sweep", "--target", "t.bin", "--scales", "1x"),
        ("incident", "--cut", "1"),
    ],
)
def test_the_recording_that_is_read_is_never_replaced(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = contents(reads.path)
    name, *options = command
    # The same folder by another way of writing it.
    result = iotrace(name, reads.path, *options, "-o", "./reads.iotrace", "--overwrite")
    assert_refused(result, "reads.iotrace", "is what is read")
    assert contents(reads.path) == before
    assert entries(tmp_path) == ["reads.iotrace"]


@pytest.mark.parametrize("command", [("replay",), ("sweep", "--scales", "1x")])
def test_no_result_is_put_into_the_recording_that_is_read(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = contents(reads.path)
    name, *options = command
    words = ("--target", tmp_path / "t.bin", "--buffered", "-o", reads.path / "new.iotrace")
    assert_refused(iotrace(name, reads.path, *options, *words), "lies in the recording that is read")
    assert contents(reads.path) == before
    assert entries(tmp_path) == ["reads.iotrace"]


def test_a_sweep_is_not_replaced_by_a_replay_of_its_step(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    sweep = make_sweep(tmp_path / "s.iotrace")
    step = Sweep.open(sweep).recordings()[0].path
    before = contents(sweep)
    result = iotrace("replay", step, "--target", tmp_path / "t.bin", "-o", sweep, "--overwrite")
    assert_refused(result, sweep, "holds what is read")
    assert contents(sweep) == before


def test_a_source_is_not_replaced_by_its_import(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "s.iotrace")
    trace = sweep / "trace.csv"
    trace.write_text("128166372003061629,usr,0,Read,0,4096,100\n")
    result = iotrace("import", trace, "-o", sweep, "--overwrite")
    assert_refused(result, sweep, "holds what is read")
    assert trace.exists()


def test_a_sweep_that_is_refused_leaves_the_earlier_one(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    sweep = make_sweep(tmp_path / "s.iotrace")
    before = contents(sweep)
    small = tmp_path / "small.bin"
    small.write_bytes(b"x" * 65536)
    result = iotrace("sweep", reads.path, "--target", small, "-o", sweep, "--overwrite")
    assert_refused(result, small)
    assert contents(sweep) == before
    assert entries(tmp_path) == ["reads.iotrace", "s.iotrace", "small.bin"]


def test_a_sweep_that_is_refused_leaves_no_empty_one(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    small = tmp_path / "small.bin"
    small.write_bytes(b"x" * 65536)
    assert_refused(iotrace("sweep", reads.path, "--target", small, "-o", tmp_path / "s.iotrace"), small)
    assert entries(tmp_path) == ["reads.iotrace", "small.bin"]


def test_a_sweep_replaces_the_earlier_one(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    sweep = make_sweep(tmp_path / "s.iotrace")
    iotrace(
        "sweep", reads.path, "--target", tmp_path / "t.bin", "--buffered", "--scales", "1x", "--step-seconds", "1",
        "-o", sweep, "--overwrite",
    )  # fmt: skip
    assert Sweep.open(sweep).title == "Sweep of A small server"
    assert entries(tmp_path) == ["reads.iotrace", "s.iotrace", "t.bin"]


def test_another_programs_manifest_is_no_recording(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    extension = tmp_path / "extension"
    extension.mkdir()
    (extension / "manifest.json").write_text(json.dumps({"manifest_version": 3, "name": "mine"}))
    (extension / "main.js").write_text("ten years of work")
    result = iotrace("replay", reads.path, "--target", tmp_path / "t", "-o", extension, "--overwrite")
    assert_refused(result, extension)
    assert entries(extension) == ["main.js", "manifest.json"]


PLAYS = {
    "replay": ("replay", "reads.iotrace"),
    "sweep": ("sweep", "reads.iotrace", "--scales", "1x"),
    "characterize": ("characterize", "--file-size", "1M"),
}


@pytest.mark.parametrize("command", PLAYS)
@pytest.mark.parametrize("target", ["out.iotrace", "./out.iotrace", "out.iotrace/t.bin"])
def test_nothing_is_played_where_the_result_is_to_go(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = iotrace(*PLAYS[command], "--target", target, "--buffered", "-o", "out.iotrace")
    assert_refused(result, f"target '{target}' is where the result is to go")
    assert entries(tmp_path) == [reads.path.name]


@pytest.mark.parametrize("command", PLAYS)
@pytest.mark.parametrize("target", ["reads.iotrace", "reads.iotrace/t.bin", "reads.iotrace/io.parquet"])
def test_nothing_is_played_in_a_recording(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = contents(reads.path)
    words = ("--target", target, "--buffered", "--allow-writes", "-o", "out.iotrace")
    result = iotrace(*PLAYS[command], *words)
    assert_refused(result, "reads.iotrace", "target '")
    assert contents(reads.path) == before
    assert entries(tmp_path) == [reads.path.name]
