"""Which recordings paths, folders and patterns name."""

from pathlib import Path

import pytest

from iotrace.analyze.fleet import named_recordings
from iotrace.analyze.fleet.summary import distinct_hosts
from iotrace.schemas import IotraceError


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Two recordings, one more that is still being made, and two in folders of their hosts."""
    for name in ("b.iotrace", "a.iotrace", "hosts/x/x.iotrace", "hosts/y/y.iotrace"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").touch()
    (tmp_path / "c.iotrace").mkdir()
    (tmp_path / "notes.txt").touch()
    return tmp_path


def test_a_recording_stands_for_itself_and_so_does_what_is_not_there(fleet):
    assert named_recordings([fleet / "a.iotrace", fleet / "nowhere"]) == [
        fleet / "a.iotrace",
        fleet / "nowhere",
    ]


def test_a_folder_stands_for_the_recordings_in_it(fleet):
    assert named_recordings([fleet]) == [fleet / "a.iotrace", fleet / "b.iotrace"]


def test_a_folder_of_hosts_stands_for_the_recordings_in_their_folders(fleet):
    assert named_recordings([fleet / "hosts"]) == [
        fleet / "hosts" / "x" / "x.iotrace",
        fleet / "hosts" / "y" / "y.iotrace",
    ]


def test_a_pattern_stands_for_what_fits_it(fleet):
    assert named_recordings([fleet / "[ab]*.iotrace"]) == [fleet / "a.iotrace", fleet / "b.iotrace"]
    with pytest.raises(IotraceError, match=r"no recording fits '.*z\*'"):
        named_recordings([fleet / "z*"])


def test_a_sweep_and_a_folder_without_recordings_stand_for_themselves(fleet, tmp_path):
    (fleet / "sweep.json").touch()
    assert named_recordings([fleet]) == [fleet]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert named_recordings([empty]) == [empty]


def test_naming_one_twice_is_refused(fleet):
    with pytest.raises(IotraceError, match="are the same recording, named twice"):
        named_recordings([fleet, fleet / "a.iotrace"])


def test_every_recording_gets_a_name_of_its_own():
    named = [
        ("", "a", "x/a"),
        ("db", "mon", "x/mon"),
        ("db", "tue", "x/tue"),
        ("db", "tue", "y/tue"),
        ("web", "w", "w"),
    ]
    assert distinct_hosts(named) == ["a", "db (mon)", "x/tue", "y/tue", "web"]
