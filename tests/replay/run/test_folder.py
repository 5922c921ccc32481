"""A folder as the target: a file for each traced file, of its size, its name, and nobody else's."""

from pathlib import Path

import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import IotraceError, Recording

from ..conftest import MakeRecording
from ..plan.planning import plan_of

MIB = 1 << 20
FILES = [(r"D:\data\Sales.mdf", "data"), (r"E:\log\Sales.ldf", "log"), (r"F:\other\sales.mdf", "data")]


@pytest.fixture
def traced(make_recording: MakeRecording) -> Recording:
    """Reads of three files, the last of each at a place of its own."""
    return make_recording(
        layer=["filesystem"] * 6,
        files=FILES,
        file_id=[0, 1, 2, 0, 1, 2],
        offset_bytes=[0, 0, 0, MIB - 8192, 2 * MIB - 8192, 3 * MIB - 8192],
    )


def play(recording: Recording, folder: Path, output: Path, **more: object) -> Recording:
    return replay(recording, output, ReplayOptions(targets=(str(folder),), buffered=True, **more))  # type: ignore[arg-type]


def test_each_traced_file_has_its_own_of_the_same_size(traced: Recording, disk: Path, tmp_path: Path) -> None:
    out = play(traced, disk, tmp_path / "out.iotrace")
    sizes = {path.name: path.stat().st_size for path in disk.iterdir()}
    assert sizes == {"Sales.mdf.target": MIB, "Sales.ldf.target": 2 * MIB, "sales.mdf-2.target": 3 * MIB}
    io = out.read("io")
    assert io["offset_bytes"].to_pylist() == [0, 0, 0, MIB - 8192, 2 * MIB - 8192, 3 * MIB - 8192]
    assert io["device_id"].to_pylist() == [0, 1, 2] * 2
    facts = out.manifest.replay
    assert facts is not None
    assert {entry.mode for entry in facts.mapping} == {"identity"}


def test_packed_when_asked_to(traced: Recording, disk: Path, tmp_path: Path) -> None:
    play(traced, disk, tmp_path / "out.iotrace", addresses="compact")
    assert {path.stat().st_size for path in disk.iterdir()} == {16384}


def test_no_file_in_the_folder_that_is_not_ours_is_touched(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    recording = make_recording(layer=["filesystem"] * 2, op=["write"] * 2, files=FILES, file_id=[0, 1])
    (disk / "Sales.ldf.target").write_bytes(b"precious" * 4096)
    with pytest.raises(IotraceError, match=r"Sales\.ldf\.target' was not made by iotrace"):
        play(recording, disk, tmp_path / "out.iotrace")
    assert (disk / "Sales.ldf.target").read_bytes() == b"precious" * 4096


def test_io_of_disks_goes_to_files_where_the_recording_tells_which(
    make_recording: MakeRecording, disk: Path
) -> None:
    recording = make_recording(files=FILES, file_id=[0, 1, None, 2], device_id=[0, 0, 0, 1])
    plan, table = plan_of(recording, targets=(str(disk),))
    names = [Path(name).name for name in plan.assignment.names]
    assert names == ["sda.target", "Sales.mdf.target", "Sales.ldf.target", "sales.mdf-2.target"]
    assert table["target"].to_pylist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    "name", ["..", "../../etc/passwd", "a/b\\", "x" * 300, "C:", "\u202edm.", "-rf", "", "数" * 300]
)
def test_names_from_a_trace_stay_in_the_folder(make_recording: MakeRecording, disk: Path, name: str) -> None:
    recording = make_recording(layer=["filesystem"], files=[(name, "data")], file_id=[0])
    plan, _ = plan_of(recording, targets=(str(disk),))
    (target,) = map(Path, plan.assignment.names)
    assert target.parent == disk
    assert target.name.endswith(".target")
    assert len(target.name) < 120
    assert len(target.name.encode()) <= 255 - len(".") - len(".partial-00000000"), (
        "it is filled under such a name"
    )


def test_no_two_files_share_one_whatever_they_are_called(make_recording: MakeRecording, disk: Path) -> None:
    files = [("x/a-2", "data"), ("y/a", "data"), ("z/a", "data"), ("z/A-2", "data")]
    recording = make_recording(layer=["filesystem"] * 4, files=files, file_id=[0, 1, 2, 3])
    plan, _ = plan_of(recording, targets=(str(disk),))
    names = [Path(name).name for name in plan.assignment.names]
    assert names == ["a-2.target", "a.target", "a-2+.target", "A-2-3.target"]


def test_thousands_of_files_are_planned_in_one_go(make_recording: MakeRecording, disk: Path) -> None:
    count = 3000
    recording = make_recording(
        layer=["filesystem"] * count,
        files=[(f"D:\\data\\{number}.mdf", "data") for number in range(count)],
        file_id=list(range(count)),
    )
    plan, table = plan_of(recording, targets=(str(disk),))
    assert len(plan.assignment.names) == count
    assert table["target"].to_pylist() == list(range(count))
