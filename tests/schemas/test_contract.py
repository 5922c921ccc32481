"""What a recording says of itself is checked against its dataclasses, and old spellings are known."""

import json
from pathlib import Path

import pytest

from iotrace.schemas import Clock, IotraceError, Manifest
from iotrace.schemas.contract import ContractError, load
from iotrace.schemas.host import Host
from iotrace.schemas.run import Cell, ClosedLoop, Replay, run_of
from iotrace.schemas.sweep import Sweep


def manifest_with(**changed):
    data = json.loads(
        Manifest("replayed", "a run", Clock(0, 1.0, "test"), replay=Replay(scale=2.0)).to_json()
    )
    return Manifest.from_json(json.dumps(data | changed), "it")


def test_a_replay_comes_back_as_it_was():
    replay = manifest_with().replay
    assert isinstance(replay, Replay)
    assert (replay.scale, replay.mode, replay.issued_ios) == (2.0, None, 0)


def test_a_run_of_characterize_is_told_from_a_replay():
    cell = {"pattern": "random", "read_share": 1, "size_bytes": 8192, "outstanding": 4}
    run = run_of({"loop": "closed", "cell": cell, "of a later version": 1})
    assert isinstance(run, ClosedLoop)
    assert run.cell == Cell("random", 1.0, 8192, 4)
    assert manifest_with(replay={"loop": "closed", "cell": cell}).is_closed_loop


def test_a_host_of_an_earlier_version_is_read_under_todays_names():
    host = manifest_with(
        host={"hostname": "SQL01", "os": "Windows 10", "cpu_count": 8, "architecture": "x"}
    ).host
    assert host == Host("SQL01", "Windows 10", machine="x", processors=8)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"replay": {"scale": "two"}}, "replay.Replay.scale"),
        ({"quality": {"verdict": "fine"}}, "quality.verdict"),
        ({"clock": {"start_utc_ns": 1 << 63, "resolution_ns": 1, "name": "x"}}, "clock.start_utc_ns"),
        ({"clock": {"start_utc_ns": 0, "resolution_ns": 0, "name": "x"}}, "clock.resolution_ns"),
        ({"uuid": "nobody"}, "uuid"),
        ({"rows": {"io": -1}}, "rows.io"),
    ],
)
def test_what_breaks_the_contract_is_named(changed, says):
    with pytest.raises(IotraceError, match=f"'it' has a damaged manifest.json: {says}"):
        manifest_with(**changed)


def test_whole_numbers_are_no_text_and_no_fractions():
    for wrong in ("8", 8.5, True, None):
        with pytest.raises(ContractError, match="outstanding"):
            load(Cell, {"pattern": "random", "read_share": 1.0, "size_bytes": 8192, "outstanding": wrong})


def test_settings_of_a_sweep_that_are_none_are_damage(tmp_path: Path):
    folder = tmp_path / "s.iotrace"
    folder.mkdir()
    data = {"format_version": 1, "title": "", "steps": [], "settings": {"targets": "/dev/sdb"}}
    (folder / "sweep.json").write_text(json.dumps(data))
    with pytest.raises(IotraceError, match=r"damaged sweep\.json: targets"):
        Sweep.open(folder)
