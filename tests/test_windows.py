"""What is promised of Windows, as far as Linux can show it: see windows_like.py for what is taken away."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from iotrace.schemas import Recording

ROOT = Path(__file__).parents[1]
BUNDLED = ROOT / "cli/bundled/pgbench.iotrace"
ROOMS = ("schemas", "capture", "replay", "analyze", "cli")
NO_USE_ON_WINDOWS = {
    f"iotrace.capture.linux.{path.stem}" for path in (ROOT / "capture/linux").glob("*.py")
} - {"iotrace.capture.linux.__init__", "iotrace.capture.linux.not_linux"}


def as_on_windows(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(Path(__file__).with_name("windows_like.py"), *arguments)


def on_linux(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "iotrace.cli", *arguments)


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def modules_in_the_tree() -> set[str]:
    paths = (path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    names = {".".join(("iotrace", *path.with_suffix("").parts)) for path in paths}
    return {name.removesuffix(".__init__") for name in names} - {
        "iotrace.cli.__main__"
    }  # it runs when imported


def test_every_module_that_windows_has_a_use_for_imports_there() -> None:
    done = as_on_windows()
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == modules_in_the_tree() - NO_USE_ON_WINDOWS


def test_describe_says_the_same() -> None:
    there, here = as_on_windows("describe", BUNDLED), on_linux("describe", BUNDLED)
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert "PostgreSQL" in here.stdout


def test_import_and_report_work(tmp_path: Path) -> None:
    trace = ROOT / "tests/fixtures/linux/blkparse.txt"
    recording = tmp_path / "trace.iotrace"
    imported = as_on_windows("import", trace, "-o", recording)
    assert imported.returncode == 0, imported.stderr
    assert Recording.open(recording).manifest.rows["io"] > 0
    page = tmp_path / "report.html"
    reported = as_on_windows("report", BUNDLED, "-o", page)
    assert reported.returncode == 0, reported.stderr
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_time_zones_by_name_are_brought_along(tmp_path: Path) -> None:
    export = ROOT / "tests/fixtures/array/powerstore.csv"
    imported = as_on_windows("import", export, "-o", tmp_path / "array.iotrace")
    assert imported.returncode == 0, imported.stderr
    # It is installed here for others' sake.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [one for one in project["dependencies"] if re.match(r"tzdata\b.*\bwin32\b", one)]


def test_what_needs_linux_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    done = as_on_windows("capture", "linux", "sda", "-o", tmp_path / "new.iotrace")
    assert done.returncode == 2
    assert "Linux" in done.stderr
    assert "hint:" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_replay_refuses_a_disk_and_leaves_nothing(tmp_path: Path) -> None:
    disk = r"\\.\PhysicalDrive0"
    done = as_on_windows("replay", BUNDLED, "--target", disk, "-o", tmp_path / "new.iotrace")
    assert done.returncode == 2
    assert f"target '{disk}' is a disk or a volume" in done.stderr
    assert "hint:" in done.stderr
    assert not list(tmp_path.iterdir())
