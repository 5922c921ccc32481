"""A knee held against its path's ceiling: planted misconfigurations have to be among what is suggested."""

from pathlib import Path

import pytest

from iotrace.analyze.ceiling import parse_path
from iotrace.analyze.ceiling.against_knee import BesideKnee, beside_knee, hold_against, read_share_of_bytes
from iotrace.analyze.knee.series import knee
from iotrace.analyze.present import plain

from ..knee import knee_simulator as simulator

PATH = """
[[adapter]]
name = "HBA"
protocol = "fc"
gbit = 16
ports = 2
card_pcie = "3.0 x8"
slot_pcie = "3.0 x8"
[array]
protocol = "fc"
gbit = 16
ports = 6
"""


def held(
    carried_mb_per_s: float, *, text: str = PATH, saturated: bool = True, read_share: float = 1.0
) -> BesideKnee:
    """64 KiB transfers at that rate."""
    found = hold_against(
        parse_path(text, "path.toml"),
        carried_iops=carried_mb_per_s * 1e6 / 65_536,
        carried_mb_per_s=carried_mb_per_s,
        knee_mb_per_s=0.8 * carried_mb_per_s,
        saturated=saturated,
        read_share=read_share,
    )
    assert found is not None
    return found


def suggested(found: BesideKnee) -> str:
    return "; ".join(one.what for one in found.suggestions)


def test_the_seeds_walk_reached_its_ports() -> None:
    """3,126 and 3,200 MB/s were measured on two ports of 16 Gb, which carry 3,200."""
    for measured in (3126, 3200):
        found = held(measured)
        assert found.state == "at_ceiling"
        assert not found.suggestions
        assert "limited by HBA: 2 x 16 Gb FC" in found.sentence


@pytest.mark.parametrize(
    ("gbaud", "encoding", "rated"), [(8.5, 8 / 10, 800), (14.025, 64 / 66, 1600), (28.05, 64 / 66, 3200)]
)
def test_fibre_channel_in_full_frames_is_at_its_ceiling(gbaud: float, encoding: float, rated: int) -> None:
    """2,048 bytes of data, 36 of start, header, check sum and end, and six idle words between frames: 103.2 %."""
    carried = gbaud * 1e9 * encoding / 8 / 1e6 * 2048 / (2048 + 4 + 24 + 4 + 4 + 24)
    assert carried / rated == pytest.approx(1.032, abs=0.0005)
    found = held(3200 * carried / rated)
    assert found.state == "at_ceiling"
    assert held(3200 * 1.05).state == "above"


def test_one_path_of_two() -> None:
    found = held(1570)
    assert found.state == "below"
    assert found.suggestions[0].what == "1 of the 2 ports of HBA in use"
    assert "multipath" in found.suggestions[0].look_at


def test_a_card_in_a_slot_of_four_lanes() -> None:
    """The seeds' 64 Gb card: meant for 4.0 x8, found in 3.0 x4, which carries 3,938 MB/s less packet headers."""
    wide = PATH.replace("gbit = 16", "gbit = 64").replace('"3.0 x8"', '"4.0 x8"')
    found = held(0.97 * 3938 * 256 / 280, text=wide)
    assert "HBA running as PCIe 2.0 x8, 4.0 x2 or 3.0 x4" in suggested(found)
    assert "LnkSta" in found.suggestions[0].look_at


def test_one_disk_of_four() -> None:
    found = held(95, text='[[disk]]\nname = "data"\ncount = 4\nmb_per_s = 100')
    assert "1 of the 4 disks data in use" in suggested(found)


def test_a_cap_nobody_described() -> None:
    found = held(1000)
    assert found.state == "below"
    assert "not described, such as that of a virtual machine" in suggested(found)
    assert "the limit, at 1,000 MB/s: a virtual machine's size, or a disk" in found.suggestions[0].sentence
    described = held(1000, text=PATH + "[vm]\nmb_per_s = 2500\n")
    assert described.suggestions == ()


def test_both_directions_raise_the_ceiling() -> None:
    assert held(3200, read_share=0.5).carried_share == pytest.approx(0.5)


def test_more_than_possible_is_said() -> None:
    found = held(5000)
    assert found.state == "above"
    assert "a cache" in found.sentence


def test_a_load_that_did_not_saturate_suggests_nothing() -> None:
    found = held(1570, saturated=False)
    assert found.state == "not_saturated"
    assert found.suggestions == ()
    assert found.knee_share == pytest.approx(0.8 * 1570 / 3200)


def test_nothing_that_limits() -> None:
    path = parse_path("", "path.toml")
    rates = {"carried_iops": 1.0, "carried_mb_per_s": 1.0, "knee_mb_per_s": None}
    assert hold_against(path, **rates, saturated=True, read_share=None) is None


def test_a_measured_sweep(tmp_path: Path) -> None:
    """A device throttled to 2,000 reads a second of 8 KiB, 16.4 MB/s, on a path that allows twice that."""
    steps = simulator.sweep_of(
        tmp_path,
        lambda random, arrival: simulator.throttled(random, arrival, 2000),
        [1, 2, 4, 6, 8],
        rate_1x=500,
    )
    assert read_share_of_bytes(steps[0], "block") == 1.0
    path = parse_path('[[disk]]\nname = "data"\ncount = 2\niops = 2000', "path.toml")
    found = beside_knee(path, knee(steps), steps)
    assert found is not None
    assert found.state == "below"
    assert found.carried_share == pytest.approx(0.5, rel=0.03)
    assert found.knee_share == pytest.approx(0.5, rel=0.1)
    assert suggested(found) == "1 of the 2 disks data in use"
    assert plain(found)["ceiling"]["iops"] == pytest.approx(4000)
