"""A sweep keeps every finished step, and its index cannot lead outside its folder."""

import json
from pathlib import Path

import pytest

from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter, Sweep, SweepWriter
from iotrace.schemas.replacing import INDEX_BYTES_MAX
from iotrace.schemas.run import Prediction, Replay
from iotrace.schemas.sweep import SweepSettings, watched_path
from iotrace.schemas.tables import FORMAT_VERSION


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


def change_index(path: Path, **more: object) -> None:
    index = path / "sweep.json"
    index.write_text(json.dumps(json.loads(index.read_text("utf-8")) | more))


def refused(path: Path) -> IotraceError:
    with pytest.raises(IotraceError) as caught:
        Sweep.open(path)
    return caught.value


def test_what_is_no_sweep_is_told_with_what_makes_one(tmp_path: Path) -> None:
    path = tmp_path / "s.iotrace"
    assert refused(path).message == f"no sweep at '{path}'"
    assert refused(path).hint == "check the path; iotrace sweep writes one"
    path.mkdir()
    assert refused(path).message == f"'{path}' is not a sweep"
    assert refused(path).hint == "iotrace sweep RECORDING --target T -o NAME.iotrace makes one"


@pytest.mark.parametrize("more", [0, 1])
def test_an_index_up_to_16_mib_is_read(tmp_path: Path, more: int) -> None:
    path = tmp_path / "s.iotrace"
    SweepWriter(path, title="t", source_uuid=None)
    text = (path / "sweep.json").read_text("utf-8")
    (path / "sweep.json").write_text(text + " " * (INDEX_BYTES_MAX - len(text) + more))
    if more:
        assert refused(path).message == f"'{path}' has a sweep.json over 16 MiB"
        assert refused(path).hint == "it is damaged, or not a sweep"
    else:
        assert Sweep.open(path).title == "t"


def test_only_a_later_format_is_newer(tmp_path: Path) -> None:
    path = tmp_path / "s.iotrace"
    SweepWriter(path, title="t", source_uuid="u")
    assert Sweep.open(path).source_uuid == "u"
    change_index(path, format_version=FORMAT_VERSION + 1)
    assert refused(path).message == f"'{path}' was written by a newer iotrace"
    assert refused(path).hint == "update iotrace on this machine"


def test_what_was_said_of_a_step_before_is_kept_with_it(tmp_path: Path) -> None:
    path = tmp_path / "s.iotrace"
    settings = SweepSettings(targets=["/dev/x"], step_seconds=2.5, load="1x")
    writer = SweepWriter(path, title="Ä", source_uuid=None, settings=settings)
    said = Prediction.__new__(Prediction)
    for name in Prediction.__dataclass_fields__:
        setattr(said, name, None)
    add_step(writer, 1)
    writer.end("the storage gave in")
    found = Sweep.open(path)
    assert found.settings == SweepSettings(
        targets=["/dev/x"], step_seconds=2.5, load="1x", ended="the storage gave in"
    )
    assert found.steps[0].predicted is None
    assert found.title == "Ä"
    text = (path / "sweep.json").read_text("utf-8")
    assert '"title": "Ä"' in text
    assert text.startswith('{\n "title"')
    assert text.endswith("}\n")
    assert "path" not in json.loads(text)


def test_nothing_is_said_of_a_sweep_that_does_not_apply() -> None:
    assert SweepSettings() == SweepSettings([], None, None, "1x", None, None, None, None, None)


def test_a_recorder_that_watched_is_found_beside_its_step(tmp_path: Path) -> None:
    writer = SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    for scale in (1, 2):
        add_step(writer, scale)
    steps = tmp_path / "s.iotrace/steps"
    assert watched_path(steps / "001-2x.iotrace") == steps / "001-2x.watched.iotrace"
    with RecordingWriter(steps / "001-2x.watched.iotrace") as watched:
        watched.commit(Manifest("captured", "watched", Clock(0, 1, "test")))
    seen = Sweep.open(tmp_path / "s.iotrace").watched()
    assert [one and one.manifest.title for one in seen] == [None, "watched"]


@pytest.mark.parametrize("folder", ["steps/..x", "a/b/c.iotrace", "...", "x.iotrace"])
def test_a_step_with_dots_in_its_name_is_not_outside(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "s.iotrace"
    SweepWriter(path, title="t", source_uuid=None)
    change_index(path, steps=[{"scale": 1, "folder": folder}])
    assert Sweep.open(path).steps[0].folder == folder


@pytest.mark.parametrize("with_step", [False, True])
def test_what_stood_there_is_back_where_no_step_was_finished(tmp_path: Path, with_step: bool) -> None:
    path = tmp_path / "s.iotrace"
    with SweepWriter(path, title="first", source_uuid=None) as first:
        add_step(first, 1)
    with SweepWriter(path, title="second", source_uuid=None, overwrite=True) as second:
        if with_step:
            add_step(second, 1)
    assert Sweep.open(path).title == ("second" if with_step else "first")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.iotrace"]


def test_a_sweep_without_a_step_leaves_nothing(tmp_path: Path) -> None:
    with SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("iotrace.schemas.sweep.create_private_folder", fails)
    with pytest.raises(IotraceError) as caught:
        SweepWriter(tmp_path / "s.iotrace", title="t", source_uuid=None)
    assert caught.value.message == f"cannot write '{tmp_path / 's.iotrace'}': Read-only file system"
    assert caught.value.hint == "choose a folder you may write to with -o"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [".", "/", ""])
def test_a_result_without_a_name_is_refused(path):
    with pytest.raises(IotraceError, match="is no name for a result"):
        watched_path(Path(path))
