"""The log of runs: what was typed, what was said, how it ended."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from iotrace.cli.main import app
from iotrace.cli.run_log import without_secrets
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


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")
@pytest.mark.parametrize("room_bytes", [0, 10, 100])
def test_a_log_whose_disk_is_full_costs_no_answer(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    room_bytes: int,
) -> None:
    """The limit on file sizes stands in for a full disk, also for one that cut off the log's first line."""
    import resource

    log = tmp_path / "runs.log"
    plain = iotrace("validate", reads.path)
    monkeypatch.setenv("IOTRACE_LOG", str(log))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for _ in range(2):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, before[1]))
        try:
            found = iotrace("validate", reads.path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (found.status, found.out) == (plain.status, plain.out)
        assert found.err.count(f"warning: the log '{log}' is not complete: File too large") == 1
        assert "Traceback" not in found.err
        assert log.stat().st_size == room_bytes


@pytest.mark.parametrize(
    "words",
    [
        ["--anonymize-key", "hunter2"],
        ["--anonymize-key=hunter2"],
        ["--anonymize-key="],
        ["--anonymize-key", "--hunter2"],
        ["--anonymize=hunter2"],
        ["--anonymize-k", "hunter2"],
        ["--anonymise-key", "hunter2"],
        ["--Anonymize_Key=hunter2"],
        ["-anonymize-key", "hunter2"],
        ["—anonymize-key", "hunter2"],
    ],
)
def test_a_secret_is_in_no_log_however_its_option_is_written(
    iotrace: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    log = tmp_path / "runs.log"
    trace = tmp_path / "hosts.txt"
    trace.write_text("not a trace")
    monkeypatch.setenv("IOTRACE_LOG", str(log))
    iotrace("import", *words, "-o", tmp_path / "o.iotrace", "--anonymize", trace)
    first = log.read_text("utf-8").splitlines()[0]
    assert "hunter2" not in first
    assert first.endswith(f" -o {tmp_path}/o.iotrace --anonymize {trace}")
    if "—" not in words[0]:  # which makes the words names of files
        assert "hunter2" not in log.read_text("utf-8")


def test_a_key_in_an_address_is_in_no_log() -> None:
    words = [
        "s3://AKIA:hun/ter2@bucket/fleet",
        "--log=https://user:hunter2@host/x",
        "s3://bucket/a@b",
        "me@example.org",
    ]
    assert without_secrets(words) == [
        "s3://HIDDEN@bucket/fleet", "--log=https://HIDDEN@host/x", "s3://bucket/a@b", "me@example.org",
    ]  # fmt: skip


def test_every_option_that_takes_a_secret_is_hidden() -> None:
    def options_of(command: Any) -> Iterator[Any]:
        yield from command.params
        for one in getattr(command, "commands", {}).values():
            yield from options_of(one)

    secret = [one for one in options_of(typer.main.get_command(app)) if one.metavar == "SECRET"]
    assert [one.opts for one in secret] == [["--anonymize-key"]]
    for one in secret:
        assert without_secrets([one.opts[0], "x"]) == [one.opts[0], "HIDDEN"]


NO_LOGS = {
    "a recording's manifest": b'{\n "kind": "captured"\n}\n',
    "a database": bytes(8192),
    "a table": b"PAR1" + bytes(100),
    "another program's log": b"2026-11-28T19:00:00Z server started\n",
    "a few bytes": b"20x",
    "one byte": b"\0",
}


@pytest.mark.parametrize("kind", NO_LOGS)
def test_what_is_no_log_is_not_added_to(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    precious = tmp_path / "prod.mdf"
    precious.write_bytes(NO_LOGS[kind])
    monkeypatch.setenv("IOTRACE_LOG", str(precious))
    found = iotrace("validate", reads.path)
    assert (found.status, found.out) == (2, "")
    assert f"error: '{precious}' holds something else than a log of iotrace" in found.err
    assert "hint: name a new file for the log" in found.err
    assert precious.read_bytes() == NO_LOGS[kind]


def test_an_empty_file_becomes_a_log(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runs.log"
    log.touch()
    monkeypatch.setenv("IOTRACE_LOG", str(log))
    assert iotrace("validate", reads.path).status == 0
    assert " status 0 after " in log.read_text("utf-8")


def test_no_log_is_kept_in_the_device_that_swallows_everything(
    iotrace: Callable[..., Result], reads: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = iotrace("validate", reads.path)
    monkeypatch.setenv("IOTRACE_LOG", os.devnull)
    assert iotrace("validate", reads.path) == plain


@pytest.mark.skipif(sys.platform != "linux", reason="kinds of files as Linux has them")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("fifo", "is a pipe (FIFO)"),
        ("read fifo", "is a pipe (FIFO)"),
        ("socket", "is a socket"),
        ("folder", "is a folder"),
        ("/dev/zero", "is a device"),
        ("/dev/stderr", "is a pipe (FIFO)"),
    ],
)
def test_a_log_that_is_no_plain_file_is_refused_at_once(
    reads: Recording, tmp_path: Path, kind: str, said: str
) -> None:
    path = Path(kind) if kind.startswith("/") else tmp_path / "log"
    reader = None
    if "fifo" in kind:
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if kind == "read fifo" else None
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "folder":
        path.mkdir()
    found = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", "validate", str(reads.path)],
        env=os.environ | {"IOTRACE_LOG": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if reader is not None:
        assert os.read(reader, 100) == b""
        os.close(reader)
    assert (found.returncode, found.stdout) == (2, "")
    assert f"error: the log '{path}' {said}, and a log is a plain file" in found.stderr
    assert "hint: name a file, or /dev/null to keep no log" in found.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's names for what a program writes to")
def test_a_log_does_not_go_where_the_answer_goes(reads: Recording, tmp_path: Path) -> None:
    """The answer, written from the beginning, would overwrite the log, and the log's end would follow it."""
    answer = tmp_path / "answer.txt"
    with answer.open("w") as stdout:
        found = subprocess.run(
            [sys.executable, "-m", "iotrace.cli", "validate", str(reads.path)],
            env=os.environ | {"IOTRACE_LOG": "/dev/stdout"},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.returncode == 2
    assert "error: the log '/dev/stdout' is the file that the answer or the messages go to" in found.stderr
    assert answer.read_bytes() == b""


@pytest.mark.parametrize(
    ("by", "name", "said"),
    [
        ("IOTRACE_LOG", "~nobody-of-this-name/x", "there is no home folder of '~nobody-of-this-name'"),
        ("settings", "~nobody-of-this-name/x", "there is no home folder of '~nobody-of-this-name'"),
        ("settings", "a\\u0000b", "no name holds a zero byte"),
    ],
)
def test_a_log_whose_name_cannot_be_is_refused(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    name: str,
    said: str,
) -> None:
    if by == "settings":
        settings = tmp_path / "config.toml"
        settings.write_text(f'log = "{name}"\n')
        monkeypatch.setenv("IOTRACE_CONFIG", str(settings))
    else:
        monkeypatch.setenv(by, name)
    found = iotrace("validate", reads.path)
    assert (found.status, found.out) == (2, "")
    assert said in found.err
