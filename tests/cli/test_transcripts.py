"""What the commands print on 80 columns, whole: a change of wording changes a file of ``transcripts``, read there.

Read what `.venv/bin/python -m pytest tests/cli/test_transcripts.py --renew-transcripts` has changed before it is kept.
"""

import functools
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from socketserver import BaseServer
from typing import Any, Final

import numpy as np
import pytest
from typer.main import get_command

from iotrace.cli.main import app
from iotrace.replay import _engine
from iotrace.schemas import Recording

from ..analyze.report.report_inputs import write_night, write_sweep
from ..server_night import write_pair
from .conftest import Result, make_recording
from .test_incident import dmv_snapshots, perfmon_log

FOLDER = Path(__file__).parent / "transcripts"
BUNDLED = Path(__file__).parents[2] / "cli" / "bundled" / "pgbench.iotrace"
CORPUS = Path(__file__).parents[1] / "fixtures" / "corpus"
COMMANDS = {
    "help": "",
    "help_capture": "capture",
    "help_model": "model",
    "help_fleet": "fleet",
    "import": "import kernel.etl -o prod.iotrace",
    "job_twice_import": "import server.etl server.blg -o server.iotrace",
    "job_twice": "sweep server.iotrace --target model:disk.toml --busiest 60s --need 2x -o twice.iotrace",
    "job_night_import": "import counters.csv dmv.csv -o bad.iotrace",
    "job_night": "incident bad.iotrace",
    "inspect": "inspect kernel.etl perfmon.blg results.json",
    "describe": "describe pgbench.iotrace",
    "describe_full": "describe pgbench.iotrace --full",
    "describe_many": "describe hosts",
    "incident": "incident pgbench.iotrace",
    "incident_many": "incident hosts",
    "knee": "knee sweep.iotrace --slo p99<15ms",
    "knee_need": "knee sweep.iotrace --need 2x --ceiling path.toml",
    "knee_many": "knee candidates --need 2x",
    "compare": "compare night.iotrace candidate.iotrace",
    "compare_full": "compare night.iotrace candidate.iotrace pgbench.iotrace --full",
    "ceiling": "ceiling path.toml --size 64K",
    "report": "report sweep.iotrace night.iotrace candidate.iotrace --need 2x -o report.html",
    "report_many": "report hosts -o hosts.html",
    "query": "query pgbench.iotrace \"SELECT op, count(*) AS n FROM io WHERE layer = 'block' GROUP BY op ORDER BY op\"",
    "query_list": "query --list",
    "replay": "replay night.iotrace --target target.bin --scale 2x --window 0s..30s -o new.iotrace",
    "replay_model": "replay night.iotrace --target model:azure/P10 --scale 8x --window 0s..30s -o p10.iotrace",
    "sweep": "sweep small.iotrace --target model:disk.toml --scales 1x,2x,4x --step-seconds 5 --need 2x -o m.iotrace",
    "characterize": "characterize --target disk.bin --file-size 4M --seconds 2 --outstanding 1..32 -o runs",
    "size": "size small.iotrace --need 2x --slo p95<15ms --catalogue azure",
    "export_diskspd": "export night.iotrace --to diskspd -o for-diskspd",
    "export_fio": "export night.iotrace --to fio -o for-fio",
    "export_csv": "export night.iotrace --to csv -o night.csv",
    "view": "view night.iotrace",
    "validate": "validate night.iotrace",
    "config": "config",
    "capture_plan": "capture plan --output plan --minutes 60",
    "capture_doctor": "capture doctor",
    "capture_linux": "capture linux /dev/sdb --seconds 60 -o live.iotrace",
    "capture_snapshot": "capture snapshot live.iotrace -o frozen.iotrace",
    "capture_recover": "capture recover live.iotrace",
    "model_list": "model list textbook",
    "model_fit": "model fit sweep.iotrace -o fitted.toml",
    "fleet_plan": "fleet plan fleet.toml",
    "fleet_certificates": "fleet certificates conductor gen1 -o keys",
}
ELSEWHERE: Final = {
    "demo": "it measures the disk at hand: test_demo",
    "model example": "a file, kept in schemas/models",
    "fleet scheduler": "it runs until it is stopped: test_fleet",
    "fleet generator": "it runs until it is stopped: test_fleet",
    "fleet replay": "what replay prints, from several processes: test_fleet",
    "fleet sweep": "what sweep prints, from several processes: test_fleet",
}
"""Commands without a transcript, and why."""

DISK: Final = """
title = "two slow disks"
[[disk]]
name = "data"
count = 2
[[disk.limit]]
iops = 500
[disk.service]
read_us = 800
write_us = 1200
parallelism = 8
"""
FLEET: Final = """
recording = "small.iotrace"
scale = "2x"
[[generator]]
name = "gen1"
target = "/mnt/new/test.bin"
"""
VARY: Final = {
    r"http://127\.0\.0\.1:\d+/\S+": "http://127.0.0.1:PORT/TOKEN/",
    r"\d+ months? old|new this month": "N months old",
    r"(wrote \S+): [\d.,]+ [KM]?i?B": r"\1: SIZE",
    r"(this machine has) \S+ \w+ of": r"\1 SOME of",
    r"(?m)^( +\d+ (?: +\S+){9}  ) +\d+\.\d$": r"\1CPU",
    r"\b[0-9a-f]{64}\b": "SHA-256",
    r"(Played at .*, |steps at .*, )20[^\n]*UTC": r"\1WHEN",
}
"""What differs from run to run, from day to day or with the version of a library."""

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording that comes with iotrace, a night with its replay on other storage, a sweep, a path, hosts."""
    from iotrace.analyze.ceiling import example

    folder = tmp_path_factory.mktemp("transcripts")
    shutil.copytree(BUNDLED, folder / "pgbench.iotrace")
    for fixture, name in (
        ("etl/circular", "kernel.etl"),
        ("blg/every-record", "perfmon.blg"),
        ("fio-json/rate", "results.json"),
    ):
        shutil.copy(CORPUS / fixture, folder / name)
    night = write_night(folder / "night.iotrace")
    write_night(folder / "candidate.iotrace", replay_of=night.manifest.uuid)
    write_sweep(folder / "sweep.iotrace")
    for name in ("old", "new"):
        write_sweep(folder / "candidates" / f"{name}.iotrace")
    for name in ("SQL01", "SQL02"):
        write_night(folder / "hosts" / f"{name}.iotrace")
    make_recording(folder / "small.iotrace", seconds=20)
    counters = perfmon_log(np.random.default_rng(1), range(121, 145), factor=4.0, load=1.0)
    (folder / "counters.csv").write_text(counters, newline="")
    (folder / "dmv.csv").write_text(dmv_snapshots(np.random.default_rng(2), range(61, 73)))
    write_pair(folder / "server.etl", folder / "server.blg")
    (folder / "path.toml").write_text(example())
    (folder / "disk.toml").write_text(DISK)
    (folder / "fleet.toml").write_text(FLEET)
    return folder


@pytest.fixture
def stand_ins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated disk of six servers, a recorder that hands out a recording, a page that nobody waits for."""
    from iotrace.cli import capture_linux

    law = {"servers": 6, "service": "constant", "service_ns": 500_000}
    monkeypatch.setattr(_engine, "Engine", functools.partial(_engine.Engine, simulate=law))

    def record(
        _devices: object, output: Path, *, progress: Callable[[dict[str, Any]], None], **_options: object
    ) -> Recording:
        for second in (20, 40, 60):
            progress({
                "elapsed_ns": second * 10**9, "ios": 200 * second, "bytes_per_second": 2.2e6,
                "size_bytes": 30_000 * second, "events_lost": 0, "latency_ns_mean": 4.2e6,
            })  # fmt: skip
        return copied(output)

    def copied(output: Path) -> Recording:
        shutil.copytree("night.iotrace", output, dirs_exist_ok=True)
        return Recording.open(output)

    def recovered(path: Path, **_options: object) -> Recording:
        recording = copied(path)
        recording.manifest.quality.ended = "the recorder was killed"
        return recording

    check = capture_linux.linux.Check
    checks = [
        check("kernel", "ok", "Linux 6.18.44"),
        check(
            "permission",
            "problem",
            "user dba may make no trace instance",
            "run the recorder, and nothing else, with sudo",
        ),
    ]
    for name, stand_in in (
        ("record", record), ("snapshot", lambda _path, output, **_options: copied(output)),
        ("recover", recovered), ("examine", lambda: checks),
    ):  # fmt: skip
        monkeypatch.setattr(capture_linux.linux, name, stand_in)
    monkeypatch.setattr(BaseServer, "serve_forever", lambda _self: None)
    for name in [name for name in os.environ if name.startswith("IOTRACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/home/dba")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(
    iotrace: Run, folder: Path, name: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    before = COMMANDS.get(f"{name}_import")
    if before and not Path(before.rpartition(" ")[2]).exists():  # another worker ran it
        iotrace(*shlex.split(before))
    told = iotrace(*shlex.split(COMMANDS[name]))
    shown = f"$ iotrace {COMMANDS[name]}   # status {told.status}\n{told.out}"
    if told.err:
        shown += f"--- beside it, where no terminal is:\n{told.err}"
    for pattern, instead in VARY.items():
        shown = re.sub(pattern, instead, shown)
    path = FOLDER / f"{name}.txt"
    if pytestconfig.getoption("renew_transcripts"):
        path.write_text(shown, "utf-8", newline="\n")
    assert shown == path.read_text("utf-8")
    assert_fits(told.out, 80)


@pytest.mark.parametrize(("name", "width"), [("describe_full", 100), ("knee", 140), ("describe_full", 200)])
def test_other_screens(
    iotrace: Run, folder: Path, name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(width))
    assert_fits(iotrace(*shlex.split(COMMANDS[name])).out, width)


def assert_fits(shown: str, width: int) -> None:
    lines = shown.splitlines()
    assert [line for line in lines if line.endswith(" ")] == []
    assert max(map(len, lines), default=0) <= width


def test_every_command_has_a_transcript_and_every_transcript_a_command() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(COMMANDS)
    commands = get_command(app).commands  # type: ignore[attr-defined]
    known = {
        f"{name} {inner}" if hasattr(command, "commands") else name
        for name, command in commands.items()
        for inner in getattr(command, "commands", [""])
    }
    kept = {" ".join(text.split()[:words]) for text in COMMANDS.values() for words in (1, 2)}
    assert known - kept == set(ELSEWHERE)
