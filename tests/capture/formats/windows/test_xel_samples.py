"""Real Extended Events files, value by value against what Microsoft's XELite prints of them."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from iotrace.capture.formats.windows import xel
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "xel"
EVENTS = {"sqltoolsservice_TestXel_0": 149, "tx_sqlhealth": 178, "tx_sqltrace": 6}
VALUE = re.compile(r"([FA]) ([^<]+)<([^>]+)>=(.*)", re.DOTALL)
# XELite's listing leaves tabs within a value as they are.
BETWEEN = re.compile(r"\t(?=[FA] \w+<[^>]+>=)")
JSON_TYPES = {"String": (str, list), "Boolean": bool, "Byte[]": str, "XEActivityId": str}

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared/samples/xel beside the checkout")


def expected_events(name):
    """XELite's lines, in order of time: (moment, name, uuid, fields, actions), values as (type, text)."""
    events = []
    for line in (SAMPLES / f"{name}.xelite.txt").read_text("utf-8-sig").split("\n"):
        if line.startswith("#") or not line:
            continue
        head, *values = BETWEEN.split(line)
        moment, event, uuid = head.split("\t")
        parsed = {"F": {}, "A": {}}
        for value in values:
            group, key, kind, text = VALUE.fullmatch(value).groups()
            parsed[group][key] = (kind, text)
        events.append((moment, event, uuid, parsed["F"], parsed["A"]))
    return sorted(events, key=lambda event: event[0])


def as_xelite(value):
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        value = "".join(f"{frame}\r\n" for frame in value)
    return str(value).replace("\r", "\\r").replace("\n", "\\n")


def assert_same(found, expected):
    assert list(found) == list(expected)
    for key, (kind, text) in expected.items():
        assert isinstance(found[key], JSON_TYPES.get(kind, int)), key
        assert as_xelite(found[key]) == text, key


@pytest.mark.parametrize("name", EVENTS)
def test_every_value_is_what_xelite_prints(name, tmp_path):
    path = SAMPLES / f"{name}.xel"
    recording = import_files([path], tmp_path / "x.iotrace")
    rows = pq.read_table(recording.path / "xevents.parquet").to_pylist()
    uuids = {kind["name"]: kind["uuid"] for kind in xel.inspect(path, path.name)["kinds"]}
    expected = expected_events(name)
    assert len(rows) == len(expected) == EVENTS[name]
    start = datetime(1970, 1, 1, tzinfo=UTC)
    for row, (moment, event, uuid, fields, actions) in zip(rows, expected, strict=True):
        at_ns = row["at_ns"] + recording.manifest.clock.start_utc_ns
        seconds = (start + timedelta(seconds=at_ns // 10**9)).strftime("%Y-%m-%dT%H:%M:%S")
        assert f"{seconds}.{at_ns % 10**9 // 100:07}+00:00" == moment
        assert (row["name"], uuids[row["name"]]) == (event, uuid)
        assert_same(json.loads(row["fields"]), fields)
        assert_same(json.loads(row["actions"]), actions)
        sequence = actions.get("event_sequence")
        assert row["event_sequence"] == (None if sequence is None else int(sequence[1]))
    assert not validate(recording.path)
    assert recording.manifest.quality.verdict == "good"


def test_durations_with_a_stated_unit_become_nanoseconds(tmp_path):
    recording = import_files([SAMPLES / "sqltoolsservice_TestXel_0.xel"], tmp_path / "x.iotrace")
    rows = pq.read_table(recording.path / "xevents.parquet").to_pylist()
    assert sum(row["duration_ns"] for row in rows if row["name"] == "rpc_completed") == 46_873_000


def test_a_wait_of_the_health_session(tmp_path):
    """The server had started at about 04:41:41 and the wait that ended at 04:52:41.619 took 660.536 s."""
    recording = import_files([SAMPLES / "tx_sqlhealth.xel"], tmp_path / "x.iotrace")
    (wait,) = recording.read("waits").to_pylist()
    ended_ns = recording.manifest.clock.start_utc_ns + wait.pop("at_ns")
    assert datetime.fromtimestamp(ended_ns // 10**9, UTC).isoformat() == "2013-06-10T04:52:41+00:00"
    assert wait == {
        "wait_type": "BROKER_EVENTHANDLER",
        "duration_ns": 660_536_000_000,
        "signal_ns": 0,
        "session": 14,
        "database": None,
    }
    assert any("wait_info: taken as milliseconds" in note for note in recording.manifest.quality.notes)


def test_inspect_tells_what_is_there():
    found = xel.inspect(SAMPLES / "tx_sqlhealth.xel", "tx_sqlhealth.xel")
    assert found["whole"]
    assert found["events"]["memory_broker_ring_buffer_recorded"] == 160
    assert found["first_event_utc"] == "2013-06-10T04:41:40.7885691Z"
    assert found["last_event_utc"] == "2013-06-10T04:58:20.1478147Z"
    assert found["clock_hz"] == 2_725_525
