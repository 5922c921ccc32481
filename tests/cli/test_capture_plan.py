"""The command that writes a capture plan: what it says, and that it writes nothing where it should not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result


def test_it_says_what_recording_costs_and_what_to_do_next(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    target = tmp_path / "plan"
    result = iotrace("capture", "plan", "--output", target, "--layers", "block,device", "--iops", "1000")
    assert result.status == 0
    # 3,600,000 I/Os of 100 and of 520 bytes.
    assert "343 MiB" in result.out
    assert "1.7 GiB" in result.out
    assert "1,000 I/Os per second" in result.out
    assert "README.md" in result.out
    assert max(len(line) for line in result.out.splitlines()[2:7]) <= 80
    assert (target / "start.ps1").is_file()
    assert not (target / "sql").exists()


def test_as_json(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    arguments = ["--output", tmp_path / "plan", "--sql-instance", "SERVER\\INST", "--minutes", "5", "--json"]
    found = json.loads(iotrace("capture", "plan", *arguments).out)
    assert (found["sql_instance"], found["minutes"], found["layers"]) == ("SERVER\\INST", 5, ["sql", "block"])
    assert sorted(found["files"]) == sorted(
        path.relative_to(tmp_path / "plan").as_posix()
        for path in (tmp_path / "plan").rglob("*")
        if path.is_file()
    )
    parts = {part["name"]: part for part in found["parts"]}
    assert parts["kernel"]["expected_bytes"] == 5 * 60 * 10_000 * 100
    assert parts.keys() == {"kernel", "sql", "counters", "snapshots"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--layers", "block,wire"], "wire"),
        (["--minutes", "0"], "0"),
        (["--folder", "/var/tmp"], "/var/tmp"),
        (["--sql-instance", ""], "--sql-instance"),
        (["--counter-format", "xls"], "xls"),
    ],
)
def test_wrong_words_are_named_and_nothing_is_written(
    iotrace: Callable[..., Result], tmp_path: Path, arguments: list[str], word: str
) -> None:
    result = iotrace("capture", "plan", "--output", tmp_path / "plan", *arguments)
    assert result.status == 2
    assert word in result.err.splitlines()[0]
    assert "hint: " in result.err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_touched(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("ten years of work")
    result = iotrace("capture", "plan", "--output", tmp_path / "mine", "--overwrite")
    assert result.status == 2
    assert "mine" in result.err.splitlines()[0]
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
