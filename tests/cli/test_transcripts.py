"""What the commands print on 80 columns, whole: a change of wording changes a file of ``transcripts``, read there.

Read what `.venv/bin/python -m pytest tests/cli/test_transcripts.py --renew-transcripts` has changed before it is kept.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ..analyze.report.report_inputs import write_night, write_sweep
from .conftest import Result

FOLDER = Path(__file__).parent / "transcripts"
BUNDLED = Path(__file__).parents[2] / "cli" / "bundled" / "pgbench.iotrace"
CORPUS = Path(__file__).parents[1] / "fixtures" / "corpus"
COMMANDS = {
    "inspect": "inspect kernel.etl perfmon.blg results.json",
    "describe": "describe pgbench.iotrace",
    "describe_full": "describe pgbench.iotrace --full",
    "incident": "incident pgbench.iotrace",
    "knee": "knee sweep.iotrace --slo p99<15ms",
    "knee_need": "knee sweep.iotrace --need 2x --ceiling path.toml",
    "compare": "compare night.iotrace candidate.iotrace",
    "compare_full": "compare night.iotrace candidate.iotrace pgbench.iotrace --full",
    "ceiling": "ceiling path.toml --size 64K",
}

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording that comes with iotrace, a night with its replay on other storage, a sweep, a path."""
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
    (folder / "path.toml").write_text(example())
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(
    iotrace: Run, folder: Path, name: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    told = iotrace(*COMMANDS[name].split())
    shown = f"$ iotrace {COMMANDS[name]}   # status {told.status}\n{told.out}"
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
    assert_fits(iotrace(*COMMANDS[name].split()).out, width)


def assert_fits(shown: str, width: int) -> None:
    lines = shown.splitlines()
    assert [line for line in lines if line.endswith(" ")] == []
    assert max(map(len, lines)) <= width


def test_every_transcript_belongs_to_a_command() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(COMMANDS)
