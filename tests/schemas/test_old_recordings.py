"""Recordings of earlier versions stay readable. What they hold is known from the lines they were made of."""

import csv
from pathlib import Path

import pytest

from iotrace.schemas import Recording, validate

FOLDER = Path(__file__).parents[1] / "fixtures" / "recordings"
LINES = list(csv.reader((FOLDER / "trace.csv").read_text().splitlines()))
TICK_NS = 100
RECORDINGS = sorted(FOLDER.glob("*/*.iotrace"))


def test_there_are_two_of_every_version():
    assert {path.parent.name for path in RECORDINGS} >= {"0.1.0", "1.0.0"}
    assert len(RECORDINGS) == 2 * len({path.parent for path in RECORDINGS})


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_of_an_earlier_version_is_whole(path):
    assert validate(path) == []
    rows = Recording.open(path).read("io").sort_by("issued_ns")
    told = list(zip(rows["op"].to_pylist(), rows["size_bytes"].to_pylist(), strict=True))
    assert told == [(line[3].lower(), int(line[5])) for line in LINES]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/captured.iotrace")), ids=lambda path: path.parent.name)
def test_its_times_and_places_are_those_of_the_trace(path):
    recording = Recording.open(path)
    rows = recording.read("io").sort_by("issued_ns")
    start_ns = int(LINES[0][0]) * TICK_NS
    issued = [int(line[0]) * TICK_NS - start_ns for line in LINES]
    assert rows["issued_ns"].to_pylist() == issued
    assert rows["offset_bytes"].to_pylist() == [int(line[4]) for line in LINES]
    service = [end - begin for begin, end in zip(issued, rows["completed_ns"].to_pylist(), strict=True)]
    assert service == [int(line[6]) * TICK_NS for line in LINES]
    # A FILETIME counts from 1601.
    assert recording.manifest.clock.start_utc_ns == start_ns - 11_644_473_600 * 10**9
    devices = {row["device_id"]: row["name"] for row in recording.read("devices").to_pylist()}
    names = [devices[key] for key in rows["device_id"].to_pylist()]
    assert [name[-1] for name in names] == [line[2] for line in LINES]


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*/simulated.iotrace")), ids=lambda path: path.parent.name
)
def test_a_replay_tells_what_it_was(path):
    manifest = Recording.open(path).manifest
    assert manifest.is_played
    assert manifest.model is not None
    assert manifest.open_replay.scale == 1
