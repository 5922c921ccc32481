"""What an export may replace: an earlier export as it was written; nothing that came while it was being made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.replay.export import export_table
from iotrace.replay.export.facts import Exported, Facts, Measured
from iotrace.replay.export.folders import MARK, new_folder
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.replacing import new_file

FILES = {"workload.fio", MARK}


def facts() -> Facts:
    load = Measured(
        Exported("prod.iotrace", "prod", "0"), "block", None, 1.0, 1, 8192, 1.0, 8192.0, 1.0, {}, 0, {}
    )
    return Facts(
        tool="fio", workload=load, targets={}, seconds=1, run="fio", covered_ios=1.0, covered_bytes=1.0
    )


def write(folder: Path, *, overwrite: bool = False) -> None:
    with new_folder(folder, facts(), overwrite=overwrite) as partial:
        (partial / "workload.fio").write_text("new")


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_results_put_beside_an_export_outlive_the_next(tmp_path: Path) -> None:
    write(tmp_path / "out")
    write(tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "results.json").write_text("a night's work")
    with pytest.raises(IotraceError, match=r"holds 'results\.json', which is not as iotrace wrote it"):
        write(tmp_path / "out", overwrite=True)
    assert names(tmp_path / "out") == sorted([*FILES, "results.json"])
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path, overwrite: bool) -> None:
    with (
        pytest.raises(IotraceError, match=r"exists already|is not an export"),
        new_folder(tmp_path / "out", facts(), overwrite=overwrite) as partial,
    ):
        (partial / "workload.fio").write_text("new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.txt").write_text("ten years of work")
    assert names(tmp_path / "out") == ["thesis.txt"]
    assert names(tmp_path) == ["out"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with (
        pytest.raises(IotraceError, match=r"out\.csv' exists already"),
        new_file(path, overwrite=False) as partial,
    ):
        partial.write_text("new")
        path.write_text("another's")
    assert path.read_text() == "another's"
    assert names(tmp_path) == ["out.csv"]


def test_a_table_never_replaces_what_it_is_made_of(make_recording: Callable[..., Recording]) -> None:
    recording = make_recording(op=["read"], issued_ns=[1], offset_bytes=[0], size_bytes=[4096])
    table = recording.path / "io.parquet"
    before = table.read_bytes()
    with pytest.raises(IotraceError, match="lies in the recording that is read"):
        export_table(recording, table, "parquet", overwrite=True)
    assert table.read_bytes() == before
