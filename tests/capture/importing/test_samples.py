"""Every real sample with another tool's result is held against it by some test."""

from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

# Results of load tools are read by readers of their own kind, not as traces.
ELSEWHERE = {"results"}


def test_every_sample_is_named_by_a_test(samples: Path) -> None:
    text = "\n".join(path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    unnamed = []
    for path in sorted(samples.rglob("*")):
        folder = path.relative_to(samples).parts[0]
        if not path.is_file() or path.parent == samples or folder in ELSEWHERE:
            continue
        stem = path.name.split(".")[0]
        if stem not in text and stem.rstrip("0123456789") not in text:
            unnamed.append(path.name)
    assert unnamed == []


def test_a_list_of_instances_holds_no_counters(samples: Path, tmp_path: Path) -> None:
    path = samples / "array" / "netapp_harvest_zapiperf_pollInstance1.xml"
    with pytest.raises(IotraceError, match="XML of another kind"):
        import_files([path], tmp_path / "out.iotrace")
