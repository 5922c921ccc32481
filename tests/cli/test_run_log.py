"""The log of runs: what was typed, what was said, how it ended."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.schemas import Recording

from .conftest import Result


def test_each_run_adds_what_it_was_what_it_said_and_how_it_ended(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runs.log"
    monkeypatch.setenv("IOTRACE_LOG", str(log))
    first = iotrace("validate", reads.path)
    second = iotrace("validate", tmp_path / "none.iotrace")
    assert (first.status, second.status) == (0, 2)
    lines = log.read_text("utf-8").splitlines()
    typed = [line for line in lines if " INFO iotrace " in line]
    assert [line.split(": ")[1] for line in typed] == [
        f"validate {reads.path}",
        f"validate {tmp_path}/none.iotrace",
    ]
    assert any(f"INFO {reads.path} is whole" in line for line in lines)
    assert any(" ERROR " in line and "none.iotrace" in line for line in lines)
    assert [line.split(" INFO ")[1].split(" after")[0] for line in lines if " after " in line] == [
        "status 0",
        "status 2",
    ]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_line_of_the_log_stays_a_line_whatever_a_name_holds(
    iotrace: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runs.log"
    monkeypatch.setenv("IOTRACE_LOG", str(log))
    iotrace("validate", f"{tmp_path}/a\n2026-01-01T00:00:00Z 1 INFO status 0\x1b[31m.iotrace")
    lines = log.read_text("utf-8").splitlines()
    assert not any(line.startswith("2026-01-01T00:00:00Z") for line in lines)
    assert "\x1b" not in log.read_text("utf-8")


def test_a_log_that_cannot_be_written_ends_the_run_before_it_begins(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTRACE_LOG", str(tmp_path))
    found = iotrace("validate", reads.path)
    assert found.status == 2
    assert "the log" in found.err
    assert found.out == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_log_whose_disk_is_full_costs_no_answer(
    iotrace: Callable[..., Result], reads: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = iotrace("validate", reads.path)
    monkeypatch.setenv("IOTRACE_LOG", "/dev/full")
    found = iotrace("validate", reads.path)
    assert (found.status, found.out) == (plain.status, plain.out)
    assert found.err.count("warning: the log '/dev/full' is not complete: No space left on device") == 1
    assert "Traceback" not in found.err
