"""The export command as a user meets it."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.schemas import Recording

from .conftest import Result, make_recording

Run = Callable[..., Result]


@pytest.fixture
def mixed(tmp_path: Path) -> Recording:
    return make_recording(tmp_path / "mixed.iotrace", writes=True)


def test_diskspd_says_what_it_covers(iotrace: Run, mixed: Recording, tmp_path: Path) -> None:
    result = iotrace("export", mixed.path, "--to", "diskspd", "-o", tmp_path / "out")
    assert result.status == 0
    facts = json.loads((tmp_path / "out/export.json").read_text())
    share = sum(entry["share_ios"] for entry in facts["classes"])
    assert f"covered: {share * 100:.1f} % of the I/Os, {share * 100:.1f} % of the bytes" in " ".join(
        result.out.split()
    )
    assert "loses bursts" in result.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "profile.xml",
        "command-lines.txt",
        "README.txt",
        "export.json",
    }
    assert all(len(line) <= 80 for line in result.out.splitlines())


def test_fio_warns_of_its_versions(iotrace: Run, mixed: Recording, tmp_path: Path) -> None:
    result = iotrace("export", mixed.path, "--to", "fio", "-o", tmp_path / "out", "--seconds", 5)
    assert result.status == 0
    assert "3.31 and later" in result.err
    assert "distinct" in result.out
    assert (tmp_path / "out/replay.iolog").is_file()
    assert "runtime=5\n" in (tmp_path / "out/workload.fio").read_text()
    without = iotrace("export", mixed.path, "--to", "fio", "-o", tmp_path / "two", "--no-iolog", "--json")
    assert not (tmp_path / "two/replay.iolog").exists()
    facts = json.loads(without.out)
    assert facts.pop("schema") == "iotrace.export-fio/1"
    assert facts == json.loads((tmp_path / "two/export.json").read_text())
    assert sum(entry["iops"] for entry in facts["classes"]) == pytest.approx(facts["workload"]["iops"])


def test_a_target_that_is_there_is_warned_of_and_not_touched(
    iotrace: Run, mixed: Recording, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("x")
    result = iotrace(
        "export", mixed.path, "--to", "fio", "-o", tmp_path / "out", "--target", tmp_path / "precious"
    )
    assert "running the export overwrites it" in result.err
    assert (tmp_path / "precious").read_text() == "x"


def test_tables(iotrace: Run, mixed: Recording, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    result = iotrace("export", mixed.path, "--to", "csv", "-o", path, "--window", "0s..1s")
    assert result.status == 0
    with path.open() as file:
        inside = sum(1 for _ in csv.DictReader(file))
    assert f"{inside:,} I/Os" in result.out
    assert 0 < inside < mixed.row_count("io")
    assert iotrace("export", mixed.path, "--to", "csv", "-o", path).status == 2
    found = json.loads(iotrace("export", mixed.path, "--to", "msr", "-o", path, "--replace", "--json").out)
    assert found["ios"] == mixed.row_count("io")


def test_the_busiest_part(iotrace: Run, mixed: Recording, tmp_path: Path) -> None:
    options = ("--to", "diskspd", "-o", tmp_path / "out", "--busiest", "1s", "--json")
    assert json.loads(iotrace("export", mixed.path, *options).out)["workload"]["seconds"] == 1


def test_a_busiest_part_as_long_as_the_recording_is_all_of_it_and_said_so(
    iotrace: Run, mixed: Recording, tmp_path: Path
) -> None:
    options = ("--to", "csv", "--json", "-o", tmp_path / "x.csv")
    result = iotrace("export", mixed.path, *options, "--busiest", "1h")
    assert json.loads(result.out)["ios"] == mixed.row_count("io")
    assert "so --busiest '1h' takes all of it" in " ".join(result.err.split())


@pytest.mark.parametrize("kind", ["csv", "fio", "diskspd"])
def test_nothing_is_written_into_the_recording(iotrace: Run, mixed: Recording, kind: str) -> None:
    before = sorted(path.name for path in mixed.path.iterdir())
    result = iotrace("export", mixed.path, "--to", kind, "-o", mixed.path / "out")
    assert result.status == 2
    assert "lies in the recording that is read" in " ".join(result.err.split())
    assert sorted(path.name for path in mixed.path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (("--to", "hammerdb"), "--to hammerdb is not possible", "iotrace compare"),
        (("--to", "vdbench"), "no export to 'vdbench'", "diskspd, fio, csv"),
        (("--to", "csv", "--target", "x"), "--target has no effect with --to csv", "leave --target out"),
        (("--to", "diskspd", "--iolog"), "--iolog has no effect with --to diskspd", "leave"),
        (("--to", "csv", "--seconds", "60"), "--seconds has no effect with --to csv", "leave --seconds out"),
        (("--to", "fio", "--classes", "3"), "--classes has no effect with --to fio", "leave --classes out"),
        (("--to", "fio", "--layer", "sql"), "no I/O of the layer 'sql'", "block"),
        (("--to", "fio", "--layer", "disk"), "no layer 'disk'", "layers are"),
        (("--to", "fio", "--window", "1s..2s", "--busiest", "1s"), "--window and --busiest", "one of them"),
    ],
)
def test_wrong_use(
    iotrace: Run, mixed: Recording, tmp_path: Path, options: tuple[str, ...], error: str, hint: str
) -> None:
    result = iotrace("export", mixed.path, "-o", tmp_path / "out", *options)
    assert result.status == 2
    assert error in " ".join(result.err.split())
    assert hint in " ".join(result.err.partition("hint:")[2].split())
    assert not (tmp_path / "out").exists()


def test_an_output_in_no_folder(iotrace: Run, mixed: Recording, tmp_path: Path) -> None:
    result = iotrace("export", mixed.path, "--to", "fio", "-o", tmp_path / "none" / "out")
    assert result.status == 2
    assert "not a folder to write to" in result.err


def test_the_catalogue_for_programs(iotrace: Run) -> None:
    result = iotrace("model", "list", "azure", "--json")
    assert result.out.startswith('{\n "schema": "iotrace.model-list/1"'), "which checks it against the schema"
    (p30,) = [disk for disk in json.loads(result.out)["providers"]["azure"]["disks"] if disk["name"] == "P30"]
    assert 5000 in p30["iops"]
    assert 200 in p30["mb_per_s"]
