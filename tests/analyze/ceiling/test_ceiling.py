"""Ceilings, against published rates, the worked examples of the field, and laws."""

from pathlib import Path

import pytest

from iotrace.analyze.ceiling import Ceiling, ceiling, example, parse_path, read_path
from iotrace.schemas import IotraceError

FC_HOST = """
[workload]
mean_kib = 64
[[adapter]]
name = "HBA"
protocol = "fc"
gbit = 16
ports = 2
[array]
protocol = "fc"
gbit = 16
ports = 6
"""
IN_X4 = """
[workload]
mean_kib = 64
[[adapter]]
name = "HBA"
protocol = "fc"
gbit = 64
ports = 1
card_pcie = "4.0 x8"
slot_pcie = "3.0 x4"
"""


def of(text: str) -> Ceiling:
    return ceiling(parse_path(text, "path.toml"))


def limit(found: Ceiling, word: str) -> tuple[float | None, float | None]:
    """By name, and one way, of the limit whose name holds ``word``."""
    (one,) = [entry for entry in found.limits if word in entry.name]
    return one.by_name_mb_per_s, one.stated_mb_per_s


def test_two_ports_of_16_gb_into_six() -> None:
    """4 and 12 GB/s as storage people reckon (a gigabit is an eighth of a gigabyte); 3.2 and 9.6 of data."""
    found = of(FC_HOST)
    assert limit(found, "HBA") == (4000, 3200)
    assert limit(found, "array") == (12_000, 9600)
    assert found.binding is not None
    assert found.binding.name == "HBA: 2 x 16 Gb FC"
    assert found.mb_per_s == 3200
    assert found.iops == pytest.approx(3200e6 / 65_536)


def test_a_64_gb_card_in_a_slot_of_four_lanes_of_generation_3_loses_about_half() -> None:
    found = of(IN_X4)
    assert limit(found, "1 x 64 Gb FC") == (8000, 6400)
    by_name, one_way = limit(found, "slot")
    # 8 GT/s x 128/130 / 8 = 984.6 MB/s a lane, as every table of PCI Express has it.
    assert by_name == pytest.approx(4 * 984.6, rel=1e-4)
    assert one_way == pytest.approx(4 * 984.6 * 256 / 280, rel=1e-4)
    assert found.binding is not None
    assert found.binding.name == "HBA slot: PCIe 3.0 x4"
    assert 1 - by_name / 8000 == pytest.approx(0.51, abs=0.01)
    assert 1 - found.mb_per_s / 6400 == pytest.approx(0.44, abs=0.01)
    assert any("sits in a PCIe 3.0 x4 slot" in note for note in found.notes)


@pytest.mark.parametrize(
    ("slot", "published_mb_per_s"),
    [
        ("1.0 x1", 250),
        ("2.0 x8", 4000),
        ("3.0 x16", 15_754),
        ("4.0 x4", 7877),
        ("5.0 x16", 63_015),
        ("6.0 x16", 128_000),
    ],
)
def test_slots_as_they_are_published(slot: str, published_mb_per_s: float) -> None:
    found = of(f'[[adapter]]\nprotocol = "fc"\ngbit = 128\nports = 64\nslot_pcie = "{slot}"')
    assert limit(found, "slot")[0] == pytest.approx(published_mb_per_s, rel=1e-3)


@pytest.mark.parametrize(
    ("gbit", "mtu", "share"),
    [(10, 1500, 0.949), (10, 9000, 0.991), (25, 1500, 0.949)],
)
def test_tcp_on_ethernet_as_it_is_published(gbit: int, mtu: int, share: float) -> None:
    """1460 of 1538 and 8960 of 9038 bytes on the wire are data."""
    found = of(f'[[adapter]]\nprotocol = "iscsi"\ngbit = {gbit}\nports = 1\nmtu_bytes = {mtu}')
    by_name, one_way = limit(found, "iscsi")
    assert by_name == gbit * 125
    assert one_way == pytest.approx(by_name * share, rel=1e-3)


def test_card_and_slot_each_give_the_smaller() -> None:
    found = of(
        '[[adapter]]\nprotocol = "fc"\ngbit = 32\nports = 2\ncard_pcie = "3.0 x8"\nslot_pcie = "4.0 x4"'
    )
    assert any("PCIe 3.0 x4" in entry.name for entry in found.limits)


def test_both_directions_at_once_carry_more() -> None:
    found = of(FC_HOST.replace("mean_kib = 64", "mean_kib = 64\nread_share = 0.5"))
    assert found.mb_per_s == 6400
    only_reads = of(FC_HOST.replace("mean_kib = 64", "mean_kib = 64\nread_share = 1"))
    assert only_reads.mb_per_s == 3200


def test_queues_follow_little() -> None:
    found = of('[workload]\nmean_kib = 8\n[[queue]]\nname = "LUN"\ncount = 2\ndepth = 32\nlatency_ms = 0.5')
    assert found.iops == pytest.approx(2 * 32 / 0.5e-3)
    assert found.one_at_a_time_iops == 2000


def test_one_thread_of_the_seeds_walk() -> None:
    """One I/O of 128 KiB at a time at 0.3 ms: some 400 MB/s were measured."""
    found = of("[workload]\nmean_kib = 128\n[[queue]]\ndepth = 32\nlatency_ms = 0.3")
    assert found.one_at_a_time_iops is not None
    assert found.one_at_a_time_iops * 128 * 1024 / 1e6 == pytest.approx(437, abs=1)


def test_a_small_virtual_machine_binds_before_its_disks() -> None:
    found = of(
        '[workload]\nmean_kib = 64\n[vm]\nname = "small"\niops = 6400\nmb_per_s = 96\n'
        '[[disk]]\nname = "data"\ncount = 4\niops = 5000\nmb_per_s = 200'
    )
    assert found.binding is not None
    assert found.binding.name == "small: MB/s"
    assert (found.mb_per_s, found.iops) == (96, 96e6 / 65_536)
    small = ceiling(
        parse_path('[vm]\nname = "small"\niops = 6400\nmb_per_s = 96', "x"),
        size_bytes=8192,
    )
    assert small.binding is not None
    assert small.binding.name == "small: IOPS"
    assert small.iops == pytest.approx(6400)


def test_an_io_above_the_unit_counts_as_several() -> None:
    text = "[workload]\nmean_kib = {}\n[vm]\niops = 1000\niops_unit_kib = 256"
    assert of(text.format(256)).iops == pytest.approx(1000)
    assert of(text.format(257)).iops == pytest.approx(500)


def test_kinds_of_cards_and_disks_add_up() -> None:
    one = '[[adapter]]\nname = "{}"\nprotocol = "fc"\ngbit = 16\nports = 2\nslot_pcie = "{}"\n'
    found = of(one.format("A", "3.0 x8") + one.format("B", "1.0 x4"))
    assert found.binding is not None
    assert found.binding.name == "all adapters together"
    # A's ports, and B's slot: 1,000 MB/s less packet headers.
    assert found.mb_per_s == pytest.approx(3200 + 1000 * 256 / 280)
    disks = of("[[disk]]\nmb_per_s = 100\ncount = 2\n[[disk]]\nmb_per_s = 50\n")
    assert disks.mb_per_s == 250
    assert of("[[disk]]\nmb_per_s = 100\n[[disk]]\n").binding is None


def test_processors_need_a_measurement() -> None:
    cpu = "[workload]\nmean_kib = 8\n[cpu]\ncores = 4\nclock_ghz = 3.0\n"
    assert of(cpu).binding is None
    assert any("cycles_per_io" in note for note in of(cpu).notes)
    assert of(cpu + "cycles_per_io = 30000").iops == pytest.approx(400_000)


def test_the_example_is_read_as_it_stands() -> None:
    found = of(example())
    assert found.binding is not None
    assert found.binding.name == "HBA: 2 x 16 Gb FC"
    everything = "\n".join(
        line.removeprefix("# ") if " = " in line or "[" in line else line for line in example().splitlines()
    )
    assert {entry.stage for entry in of(everything).limits} == {
        "processors",
        "adapters",
        "array",
        "vm",
        "disks",
        "queues",
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[[adapter]]\nprotocol = "fc"\ngbit = 17\nports = 2', "gbit"),
        ('[[adapter]]\nprotocol = "fcoe"\ngbit = 16\nports = 2', "protocol"),
        ('[[adapter]]\nprotocol = "fc"\ngbit = 16', "ports"),
        ('[[adapter]]\nprotocol = "fc"\ngbit = 16\nports = 0', "ports"),
        ('[[adapter]]\nprotocol = "fc"\ngbit = 16\nports = true', "ports"),
        ('[[adapter]]\nprotocol = "fc"\ngbit = 16\nports = 1\nslot_pcie = "3.0 x5"', "slot_pcie"),
        ('[[adapter]]\nprotocol = "fc"\ngbit = 16\nports = 1\nslot_pcie = 3', "slot_pcie"),
        ('[[adapter]]\nprotocol = "iscsi"\ngbit = 10\nports = 1\nmtu_bytes = 40', "mtu_bytes"),
        (
            '[[adapter]]\nprotocol = "fc"\ngbit = 16\nports = 1\npcie_payload_bytes = 100',
            "pcie_payload_bytes",
        ),
        ('[array]\nprotocol = "fc"', "array"),
        ("[array]\nprots = 2", "prots"),
        ("[workload]\nmean_kib = -1", "mean_kib"),
        ("[workload]\nmean_kib = nan", "mean_kib"),
        ("[workload]\nmean_kib = 64\nread_share = 70", "read_share"),
        ('[cpu]\ncores = "many"\nclock_ghz = 3', "cores"),
        ("[[queue]]\ndepth = 32", "latency_ms"),
        ("queue = 3", "queue"),
        ("[disk]\niops = 3", "disk"),
        ("vm = 3", "vm"),
        ("hba = 2", "hba"),
        ("title = ", "TOML"),
    ],
)
def test_a_bad_description_is_refused_by_its_key(text: str, word: str) -> None:
    with pytest.raises(IotraceError, match=word) as raised:
        of(text)
    assert "path.toml" in raised.value.message
    assert raised.value.hint


def test_files_that_are_no_description(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.toml").write_bytes(b"#" * (2 << 20))
    for name in ("missing.toml", "binary.toml", "huge.toml", "."):
        with pytest.raises(IotraceError):
            read_path(tmp_path / name)
