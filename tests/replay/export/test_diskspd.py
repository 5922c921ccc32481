"""A DiskSpd profile: allowed by the schema, as fast as the recording, and dangerous only when asked."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from iotrace.replay.export import Workload, export_diskspd, measure
from iotrace.schemas import IotraceError, Recording

from .diskspd_schema import problems

MakeRecording = Callable[..., Recording]


@pytest.fixture
def mixed(make_recording: MakeRecording) -> Workload:
    """In 10 seconds 4,000 random reads of 8 KiB, 1,000 of 64 KiB, and 3,000 log writes of 4 KiB in sequence."""
    random = np.random.default_rng(3)
    reads, scans, writes = 4000, 1000, 3000
    counts = (reads, scans, writes)
    return measure(
        make_recording(
            files=[("D:\\a.mdf", "data"), ("L:\\a.ldf", "log")],
            op=["read"] * (reads + scans) + ["write"] * writes,
            issued_ns=np.concatenate([np.sort(random.integers(0, 10**10, count)) for count in counts]),
            offset_bytes=np.concatenate(
                [random.permutation(10_000)[: reads + scans] * 131_072, np.arange(writes) * 4096]
            ),
            size_bytes=np.repeat([8192, 65536, 4096], counts),
            file_id=np.repeat([0, 0, 1], counts),
        ),
        window_ns=(0, 10**10),
    )


def export(workload: Workload, folder: Path, **options: object) -> dict[str, object]:
    settings = {"targets": {}, "seconds": 30, "most_classes": 16} | options
    return export_diskspd(workload, folder, **settings)[1]


def targets_of(folder: Path) -> list[dict[str, str]]:
    root = ET.parse(folder / "profile.xml").getroot()
    return [{child.tag: child.text or "" for child in target} for target in root.iter("Target")]


def test_the_profile_is_what_the_schema_allows(mixed: Workload, tmp_path: Path) -> None:
    export(mixed, tmp_path / "out")
    assert problems((tmp_path / "out/profile.xml").read_text()) == []


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("<WriteRatio>0</WriteRatio>", "<WriteRatio>101</WriteRatio>", "WriteRatio"),
        ("<Random>8192</Random>", "<Random>8192</Random><StrideSize>1</StrideSize>", "conflicts"),
        ("<Random>8192</Random>", "<Random>-1</Random>", "Random"),
        ("<Path>*1</Path>", "", "lacks Path"),
        ("<Path>*1</Path>", "<Path>*one</Path>", "template"),
        ("<Throughput>", '<Throughput unit="MBPS">', "unit"),
        ("<SizeInBytes>20971520<", "<SizeInBytes>512<", "smaller than the block"),
        ("<MeasureLatency>true<", "<MeasureLatency>yes<", "MeasureLatency"),
        ("<ResultFormat>text</ResultFormat>", "<Result>text</Result>", "holds Result"),
    ],
)
def test_the_schema_refuses(mixed: Workload, tmp_path: Path, good: str, bad: str, problem: str) -> None:
    export(mixed, tmp_path / "out")
    text = (tmp_path / "out/profile.xml").read_text()
    assert good in text
    assert any(problem in entry for entry in problems(text.replace(good, bad)))


def test_each_dominant_class_is_a_target_at_its_rate(mixed: Workload, tmp_path: Path) -> None:
    facts = export(mixed, tmp_path / "out")
    found = [
        (entry["Path"], entry["BlockSize"], entry["WriteRatio"], "Random" in entry, int(entry["Throughput"]))
        for entry in targets_of(tmp_path / "out")
    ]
    # bytes per millisecond: 400 a second of 8 KiB, 100 of 64 KiB, 300 of 4 KiB (of which the very first is no sequence)
    assert sorted(found) == [
        ("*1", "65536", "0", True, 6554),
        ("*1", "8192", "0", True, 3277),
        ("*2", "4096", "100", False, 1228),
    ]
    assert facts.covered_ios == 7999 / 8000
    assert facts.run == "diskspd -Xprofile.xml <data target> <log target>"


def test_caches_are_passed_and_written_data_is_random(mixed: Workload, tmp_path: Path) -> None:
    export(mixed, tmp_path / "out")
    for entry in targets_of(tmp_path / "out"):
        assert (entry["DisableOSCache"], entry["WriteThrough"]) == ("true", "true")
        assert ("WriteBufferContent" in entry) == (entry["WriteRatio"] == "100")


def test_classes_that_are_left_out_are_said(mixed: Workload, tmp_path: Path) -> None:
    facts = export(mixed, tmp_path / "out", most_classes=1)
    # 4,000 of 8,000 I/Os, and 32.8 of 110.6 MB: the class with the largest share of both together.
    assert len(facts.classes) == 1
    assert facts.covered_ios == pytest.approx(4000 / 8000)
    total = 4000 * 8192 + 1000 * 65536 + 3000 * 4096
    assert facts.covered_bytes == pytest.approx(4000 * 8192 / total)
    assert "50.0 %" in (tmp_path / "out/README.txt").read_text()


def test_command_lines_say_the_same_as_the_profile(mixed: Workload, tmp_path: Path) -> None:
    export(mixed, tmp_path / "out", targets={None: "E:\\test.dat"})
    lines = [
        line
        for line in (tmp_path / "out/command-lines.txt").read_text().splitlines()
        if line.startswith("diskspd")
    ]
    for line, entry in zip(lines, targets_of(tmp_path / "out"), strict=True):
        flags = dict(re.findall(r"-([A-Za-z])([0-9]*)", line))
        assert (flags["b"], flags["w"], flags["g"]) == (
            entry["BlockSize"],
            entry["WriteRatio"],
            entry["Throughput"],
        )
        assert (flags["o"], flags["B"], flags["f"]) == (
            entry["RequestCount"],
            entry["BaseFileOffset"],
            entry["MaxFileSize"],
        )
        assert ("r" in flags) == ("Random" in entry)
        assert line.endswith('-L "E:\\test.dat"')


def test_groups_on_one_target_lie_side_by_side(mixed: Workload, tmp_path: Path) -> None:
    export(mixed, tmp_path / "out", targets={None: "E:\\test.dat"})
    regions = {
        (int(e["BaseFileOffset"]), int(e["MaxFileSize"]), int(e["FileSize"]))
        for e in targets_of(tmp_path / "out")
    }
    (first, second) = sorted(regions)
    assert first[0] == 0
    assert first[1] == second[0]
    assert first[2] == second[2] == second[1]
    # 4,000 x 8 KiB and 1,000 x 64 KiB, each place touched once, up to a whole MiB
    assert first[1] == -(-(4000 * 8192 + 1000 * 65536) // 2**20) * 2**20


@pytest.mark.parametrize(
    ("path", "is_created"), [("#1", False), ("E:", False), ("E:\\x.dat", True), ("*1", True)]
)
def test_only_files_are_created(mixed: Workload, tmp_path: Path, path: str, is_created: bool) -> None:
    export(mixed, tmp_path / "out", targets={None: path})
    assert all(("FileSize" in entry) == is_created for entry in targets_of(tmp_path / "out"))


def test_text_of_a_path_stays_text(mixed: Workload, tmp_path: Path) -> None:
    export(mixed, tmp_path / "out", targets={None: "E:\\<a>&b.dat"})
    assert targets_of(tmp_path / "out")[0]["Path"] == "E:\\<a>&b.dat"


def test_too_slow_for_a_limit_is_no_limit_at_all(make_recording: MakeRecording, tmp_path: Path) -> None:
    slow = measure(make_recording(op=["read"] * 2, issued_ns=[0, 3600 * 10**9], size_bytes=[512] * 2))
    with pytest.raises(IotraceError, match="too slow"):
        export(slow, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


def test_an_export_is_replaced_only_when_asked(mixed: Workload, tmp_path: Path) -> None:
    export(mixed, tmp_path / "out")
    with pytest.raises(IotraceError, match="exists already"):
        export(mixed, tmp_path / "out")
    export(mixed, tmp_path / "out", overwrite=True, seconds=31)
    assert json.loads((tmp_path / "out/export.json").read_text())["seconds"] == 31
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/precious").write_text("x")
    with pytest.raises(IotraceError, match="not overwritten"):
        export(mixed, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine/precious").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []
