"""The ceiling command as a user meets it."""

import json
from collections.abc import Callable
from pathlib import Path

from ..analyze.report.report_inputs import write_sweep
from .conftest import Result

Run = Callable[..., Result]


def test_the_example_can_be_edited_and_read(iotrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "path.toml"
    path.write_text(iotrace("ceiling", "--example").out)
    result = iotrace("ceiling", path)
    assert result.status == 0
    told = " ".join(result.out.split())
    assert "Limited by: HBA: 2 x 16 Gb FC." in told
    # Rated 4 GB/s and 12 GB/s; what is carried one way; and the sources.
    assert "HBA: 2 x 16 Gb FC 4,000 3,200" in told
    assert "array: 6 x 16 Gb FC 12,000 9,600" in told
    assert "[1] Fibre Channel Industry Association" in told
    assert all(len(line) <= 80 for line in result.out.splitlines())


def test_json_and_another_size(iotrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "path.toml"
    path.write_text("[vm]\niops = 1000\nmb_per_s = 100\n")
    found = json.loads(iotrace("ceiling", path, "--size", "8K", "--json").out)
    assert (found["iops"], found["size_bytes"], found["size_assumed"]) == (1000, 8192, False)
    assert [limit["name"] for limit in found["limits"]] == ["virtual machine: MB/s", "virtual machine: IOPS"]
    assert "a size nobody stated" in " ".join(iotrace("ceiling", path).out.split())


def test_nothing_limits(iotrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "path.toml"
    path.write_text("")
    assert iotrace("ceiling", path).status == 1


def test_wrong_use(iotrace: Run, tmp_path: Path) -> None:
    result = iotrace("ceiling")
    assert result.status == 2
    assert "--example" in result.err
    path = tmp_path / "path.toml"
    path.write_text("[vm]\niop = 1\n")
    result = iotrace("ceiling", path)
    assert result.status == 2
    assert "vm: iop" in result.err


def test_a_knee_beside_the_ceiling(iotrace: Run, tmp_path: Path) -> None:
    """Storage that carries 2,000 reads a second of 8 KiB, on a path that allows twice that."""
    write_sweep(tmp_path / "sweep.iotrace")
    path = tmp_path / "path.toml"
    path.write_text('[[disk]]\nname = "data"\ncount = 2\niops = 2000\n')
    told = " ".join(iotrace("knee", tmp_path / "sweep.iotrace", "--ceiling", path).out.split())
    assert "The path allows at most 33 MB/s at this size and mix (limited by 2 x data: IOPS)" in told
    assert "It is as if 1 of the 2 disks data in use (16 MB/s): look at striping" in told
    found = json.loads(iotrace("knee", tmp_path / "sweep.iotrace", "--ceiling", path, "--json").out)
    assert found["beside_ceiling"]["state"] == "below"
    without = json.loads(iotrace("knee", tmp_path / "sweep.iotrace", "--json").out)
    assert without["beside_ceiling"] is None
    path.write_text("")
    told = " ".join(iotrace("knee", tmp_path / "sweep.iotrace", "--ceiling", path).out.split())
    assert "nothing can be held against the ceiling" in told


def test_a_bad_description_is_told_before_the_work(iotrace: Run, tmp_path: Path) -> None:
    (tmp_path / "path.toml").write_text("vm = 1")
    for command in (
        ("knee", tmp_path / "no.iotrace"),
        ("report", tmp_path / "no.iotrace", "-o", tmp_path / "r.html"),
    ):
        result = iotrace(*command, "--ceiling", tmp_path / "path.toml")
        assert result.status == 2
        assert "vm in" in result.err
