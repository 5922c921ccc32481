"""Settings: what an option is where nobody gives it, who said so, and what cannot be used."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.cli.settings import SETTINGS
from iotrace.schemas import Recording

from .conftest import Result


@pytest.fixture
def settings_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Call with the text of a file of settings, which is then in force."""

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, "utf-8")
        monkeypatch.setenv("IOTRACE_CONFIG", str(path))
        return path

    return write


def limits_of(found: Result) -> list[str]:
    return [one["objective"]["text"] for one in json.loads(found.out)["recordings"][0]["objectives"]]


def test_the_file_stands_for_an_option_and_the_answer_says_so(
    iotrace: Callable[..., Result], reads: Recording, settings_of: Callable[[str], Path], tmp_path: Path
) -> None:
    path = settings_of('slo = "p99<15ms"\n')
    found = iotrace("report", reads.path, "-o", tmp_path / "a.md", "--json")
    assert limits_of(found) == ["p99<15ms"]
    assert found.err.splitlines()[0] == f"--slo p99<15ms, as {path} says"


def test_a_variable_goes_before_the_file_and_an_option_before_both(
    iotrace: Callable[..., Result],
    reads: Recording,
    settings_of: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings_of('slo = "p99<15ms"\n')
    monkeypatch.setenv("IOTRACE_SLO", "p95<5ms")
    found = iotrace("report", reads.path, "-o", tmp_path / "a.md", "--json")
    assert limits_of(found) == ["p95<5ms"]
    assert "as IOTRACE_SLO says" in found.err
    given = iotrace("report", reads.path, "-o", tmp_path / "b.md", "--slo", "p50<1ms", "--json")
    assert limits_of(given) == ["p50<1ms"]
    assert "IOTRACE_SLO" not in given.err


def test_config_shows_what_is_set_and_by_whom(
    iotrace: Callable[..., Result], settings_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings_of('roles = ["/dev/sdb=data", "/dev/sdc=log"]\n')
    monkeypatch.setenv("IOTRACE_CATALOGUE", "azure")
    found = {one["name"]: one for one in json.loads(iotrace("config", "--json").out)["settings"]}
    assert found["roles"]["value"] == ["/dev/sdb=data", "/dev/sdc=log"]
    assert found["roles"]["origin"] == str(path)
    assert (found["catalogue"]["value"], found["catalogue"]["origin"]) == ("azure", "IOTRACE_CATALOGUE")
    assert found["slo"]["value"] is None
    shown = iotrace("config").out.replace("\n", "")  # a long path is broken into lines
    assert "/dev/sdb=data, /dev/sdc=log" in shown
    assert str(path) in shown


def test_the_example_is_toml_in_which_nothing_is_in_force_until_it_is_uncommented(
    iotrace: Callable[..., Result], settings_of: Callable[[str], Path]
) -> None:
    example = iotrace("config", "--example").out
    assert tomllib.loads(example) == {}
    lines = [line.removeprefix("# ") if " = " in line else line for line in example.splitlines()]
    settings_of("\n".join(lines).replace("/var/log/iotrace.log", os.devnull))
    found = json.loads(iotrace("config", "--json").out)["settings"]
    assert all(one["value"] for one in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sol = 'p99<15ms'", "has a key sol, which is not a known key"),
        ("slo = 15", "slo in"),
        ("slo = 'fast'", "slo in"),
        ("roles = 'data'", "it takes a list in brackets"),
        ("color = 'pink'", "it takes one of auto, never"),
        ("slo = ", "is not TOML"),
    ],
)
def test_what_cannot_be_used_is_named(
    iotrace: Callable[..., Result], settings_of: Callable[[str], Path], text: str, said: str
) -> None:
    path = settings_of(text)
    found = iotrace("config")
    assert found.status == 2
    assert said in found.err
    assert str(path) in found.err


def test_a_variable_that_cannot_be_used_is_named(
    iotrace: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTRACE_SLO", "fast")
    found = iotrace("config")
    assert found.status == 2
    assert "IOTRACE_SLO" in found.err


def test_a_named_file_that_is_not_there_is_an_error(
    iotrace: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IOTRACE_CONFIG", str(tmp_path / "none.toml"))
    found = iotrace("config")
    assert found.status == 2
    assert "none.toml" in found.err


def test_every_setting_stands_for_an_option_that_its_commands_have(
    iotrace: Callable[..., Result],
) -> None:
    for one in SETTINGS:
        for command in one.commands:
            assert f"--{one.option} " in iotrace(*command.split(), "--help").out
