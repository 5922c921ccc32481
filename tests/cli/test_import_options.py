"""What import is told on the command line: how to read an unknown export, and to leave names out."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.schemas import Recording

from .conftest import Result

MAPPING = """
name = "my array"
object = "LUN"
delimiter = ";"
[time]
column = "When"
format = "%d.%m.%Y %H:%M"
zone = "Europe/Berlin"
[instance]
column = "LUN"
[metrics]
"Read ms" = { metric = "read_latency_ns", unit = "ms" }
"""


@pytest.fixture
def export(tmp_path: Path) -> list[object]:
    """Arguments that import one row of an array's export, about a volume called payroll."""
    (tmp_path / "contoso.csv").write_text("When;LUN;Read ms\n01.03.2024 10:00;payroll;1.5\n")
    (tmp_path / "columns.toml").write_text(MAPPING)
    output = tmp_path / "array.iotrace"
    return ["import", tmp_path / "contoso.csv", "--map", tmp_path / "columns.toml", "-o", output]


def test_a_mapping_makes_an_unknown_export_readable(
    iotrace: Callable[..., Result], export: list[object], tmp_path: Path
) -> None:
    assert iotrace(*export[:2], *export[4:]).status == 2
    assert iotrace(*export).status == 0
    (row,) = Recording.open(tmp_path / "array.iotrace").read("counters").to_pylist()
    assert (row["layer"], row["instance"], row["value"], row["unit"]) == ("array", "payroll", 1_500_000, "ns")


@pytest.mark.parametrize("option", [["--anonymize"], ["--anonymize-key", "secret"]])
def test_no_name_is_left_anywhere(
    iotrace: Callable[..., Result], export: list[object], tmp_path: Path, option: list[str]
) -> None:
    assert iotrace(*export, *option).status == 0
    recording = Recording.open(tmp_path / "array.iotrace")
    everything = (recording.path / "manifest.json").read_text() + str(
        [recording.read(name).to_pylist() for name in recording.table_names()]
    )
    assert "payroll" not in everything
    assert "contoso" not in everything
    assert recording.read("counters")["value"].to_pylist() == [1_500_000]


def test_inspect_tells_what_is_in_a_file_and_imports_nothing(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "trace.csv").write_text("128166372003061629,hm,0,Read,383496192,32768,113736\n" * 3)
    (found,) = json.loads(iotrace("inspect", tmp_path / "trace.csv", "--json").out)["traces"]
    assert (found["format"], found["problem"], found["facts"]["lines"]) == ("msr", None, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.csv"]
