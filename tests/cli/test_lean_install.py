"""What the plain dependencies suffice for, and what the other commands say that need more."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from . import without_extras

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "cli/bundled/pgbench.iotrace"


def lean(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("without_extras.py")
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_extras_are_those_packages_that_take_most_room() -> None:
    assert {"plotly", "scipy", "xlsxwriter"} <= without_extras.extras()
    assert not {"numpy", "pyarrow", "duckdb", "psutil"} & without_extras.extras()


def test_import_replay_and_what_asks_a_recording_need_no_extra(tmp_path: Path) -> None:
    made, played = tmp_path / "made.iotrace", tmp_path / "played.iotrace"
    target = ("--target", tmp_path / "target.bin")
    commands: list[tuple[str | Path, ...]] = [
        ("import", ROOT / "tests/fixtures/linux/blkparse.txt", "-o", made),
        ("inspect", ROOT / "tests/fixtures/linux/blkparse.txt"),
        ("replay", BUNDLED, *target, "--busiest", "1s", "-o", played),
        ("describe", played),
        ("validate", played),
        ("query", played, "SELECT count(*) FROM io"),
        ("export", BUNDLED, "--to", "fio", "-o", tmp_path / "fio"),
        ("capture", "doctor"),
    ]
    for command in commands:
        done = lean(*command)
        assert done.returncode in {0, 1}, (command, done.stderr)
        assert "not installed" not in done.stderr
    assert played.is_dir()


@pytest.mark.parametrize(
    "command",
    [
        ("incident", BUNDLED),
        ("report", BUNDLED, "-o", "report.html"),
        ("report", BUNDLED, "-o", "report.xlsx"),
    ],
)
def test_what_needs_more_says_what_to_install(
    tmp_path: Path, command: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = lean(*command)
    assert done.returncode == 2
    assert "which is not installed" in done.stderr
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = " ".join(f"'{requirement}'" for requirement in extras["analysis"])
    assert f"pip install {named}, into the environment" in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []
