"""The scripts of `iotrace capture plan` in Microsoft's own parsers: PowerShell's, and SQL Server's of 2012 to 2025."""

import json
import subprocess
from pathlib import Path

import pytest

from iotrace.capture.plan import PlanOptions
from iotrace.capture.plan.writing import make_plan

from . import windows

pytestmark = pytest.mark.xdist_group("wine")

PLANS = {
    "default": PlanOptions(),
    "hostile": PlanOptions(
        layers=("sql", "filesystem", "block", "device"),
        sql_instance="SQL'01\\IN]ST`$(calc)\N{RIGHT SINGLE QUOTATION MARK}; Stop-Computer #\"%PATH%&",
        folder="D:\\io'trace $(calc)&;\N{RIGHT SINGLE QUOTATION MARK}",
    ),
    "windows-only": PlanOptions(layers=("block", "device"), minutes=240, iops=2_000),
    "sql-only": PlanOptions(layers=("sql",), sql_instance="tcp:host,1433"),
}

GRAMMARS = 7
"""SQL Server 2012, 2014, 2016, 2017, 2019, 2022 and 2025."""


@pytest.fixture(scope="module")
def parsers() -> Path:
    """The program that holds them."""
    try:
        return windows.microsoft_parsers()
    except windows.NotHereError as missing:
        pytest.skip(str(missing))


def said(parsers: Path, files: list[Path]) -> tuple[list[dict[str, str]], dict[str, int]]:
    """Errors, then what was parsed."""
    done = subprocess.run(
        ["sh", windows.AGENT / "with-dotnet.sh", "dotnet", parsers, *files],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    *errors, counts = [json.loads(line) for line in done.stdout.splitlines()]
    return errors, counts


def test_every_script_of_every_plan_parses(parsers: Path, tmp_path: Path) -> None:
    files = []
    for name, options in PLANS.items():
        for path, content in make_plan(options, "iotrace_0a1b2c").files.items():
            if Path(path).suffix in {".ps1", ".sql"}:
                file = tmp_path / name / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                files.append(file)
    errors, counts = said(parsers, files)
    # The published grammars do not know MAX_DURATION yet, which SQL Server 2025 documents. It is run as text by itself.
    plans_with_sql = sum("sql" in options.layers for options in PLANS.values())
    assert {(error["file"], "MAX_DURATION" in error["message"]) for error in errors} == {
        ("create-session.sql", True)
    }
    assert len(errors) == GRAMMARS * plans_with_sql
    scripts = sum(file.suffix == ".ps1" for file in files)
    assert scripts >= 10 * len(PLANS)
    assert counts["parsed"] == scripts + GRAMMARS * (len(files) - scripts)
    assert counts["statements"] > 10 * len(files)


def test_the_parsers_refuse_what_is_wrong(parsers: Path, tmp_path: Path) -> None:
    (tmp_path / "a.ps1").write_text("if ($true) { Get-Item 'x\n")
    (tmp_path / "b.sql").write_text("CREATE EVENT SESSION [x] ON SERVER ADD EVENT;\n")
    errors, _ = said(parsers, [tmp_path / "a.ps1", tmp_path / "b.sql"])
    assert {error["file"] for error in errors} == {"a.ps1", "b.sql"}
    assert sum(error["file"] == "b.sql" for error in errors) >= GRAMMARS
