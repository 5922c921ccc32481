"""The ceiling command as a user meets it."""

import json
from collections.abc import Callable
from pathlib import Path

from .conftest import Result

Run = Callable[..., Result]


def test_the_example_can_be_edited_and_read(iotrace: Run, tmp_path: Path) -> None:
    path = tmp_path / "path.toml"
    path.write_text(iotrace("ceiling", "--example").out)
    result = iotrace("ceiling", path)
    assert result.status == 0
    told = " ".join(result.out.split())
    assert "It binds: HBA: 2 x 16 Gb FC." in told
    # By name 4 GB/s and 12 GB/s; what is carried one way; and the sources.
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
