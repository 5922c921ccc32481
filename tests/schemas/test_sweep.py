"""A sweep keeps every finished step, and its index cannot lead outside its folder."""

import json
from pathlib import Path

import pytest

from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter, Sweep, SweepWriter
from iotrace.schemas.run import Replay


def add_step(writer: SweepWriter, scale: float) -> None:
    with RecordingWriter(writer.step_path(scale)) as step:
        recording = step.commit(
            Manifest("replayed", f"{scale:g}x", Clock(0, 1, "test"), replay=Replay(scale=scale))
        )
    writer.add(scale, recording)


def test_steps_are_kept_as_they_finish(tmp_path: Path) -> None:
    writer = SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    for scale in (1, 2.5):
        add_step(writer, scale)
        sweep = Sweep.open(tmp_path / "s.iotrace")
        assert sweep.steps[-1].scale == scale
    assert [recording.manifest.title for recording in sweep.recordings()] == ["1x", "2.5x"]
    assert [step.folder for step in sweep.steps] == ["steps/000-1x.iotrace", "steps/001-2.5x.iotrace"]


def test_a_sweep_is_no_recording_and_the_other_way_round(tmp_path: Path) -> None:
    writer = SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    add_step(writer, 1)
    with pytest.raises(IotraceError, match="is a sweep, not a recording"):
        Recording.open(tmp_path / "s.iotrace")
    with pytest.raises(IotraceError, match="is a recording, not a sweep"):
        Sweep.open(writer.sweep.path / writer.sweep.steps[0].folder)


def test_existing_folders_are_not_overwritten(tmp_path: Path) -> None:
    SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    (tmp_path / "mine").mkdir()
    with pytest.raises(IotraceError, match="exists already"):
        SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    with pytest.raises(IotraceError, match="not a recording"):
        SweepWriter(tmp_path / "mine", title="t", source_uuid=None, overwrite=True)


def test_a_sweep_takes_the_place_of_another_unless_a_stranger_lies_in_it(tmp_path: Path) -> None:
    path = tmp_path / "s.iotrace"
    add_step(SweepWriter(path, title="first", source_uuid=None), 1)
    add_step(SweepWriter(path, title="second", source_uuid=None, overwrite=True), 2)
    assert [step.scale for step in Sweep.open(path).steps] == [2]
    (path / Sweep.open(path).steps[0].folder / "letters.txt").write_text("mine")
    with pytest.raises(IotraceError, match=r"letters\.txt"):
        SweepWriter(path, title="third", source_uuid=None, overwrite=True)


@pytest.mark.parametrize(
    "folder",
    ["../elsewhere", "/etc", "steps/../../x", "..\\elsewhere", "\\Windows", "C:x", r"\\server\share\x"],
)
def test_a_step_outside_the_folder_is_refused(tmp_path: Path, folder: str) -> None:
    writer = SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    path = writer.sweep.path / "sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"steps": [{"scale": 1, "folder": folder}]}))
    with pytest.raises(IotraceError, match="outside its folder"):
        Sweep.open(tmp_path / "s.iotrace")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format_version": 1, "title": "x", "steps": [{}]}'])
def test_a_damaged_index_is_an_error(tmp_path: Path, text: str) -> None:
    writer = SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    (writer.sweep.path / "sweep.json").write_text(text)
    with pytest.raises(IotraceError, match=r"damaged sweep\.json"):
        Sweep.open(tmp_path / "s.iotrace")
