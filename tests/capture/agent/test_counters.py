"""Raw performance counters from the Windows program, and their figures from the import: under Wine, against a stand-in.

What the stand-in has is planted; figures follow from Microsoft's page of each counter type, or are those that
Performance Monitor showed for the same raw values.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import Recording, validate

from .windows import Host, RawCounter, windows_path

MakeHost = Callable[..., Host]
Rows = list[dict[str, object]]

# Only one agent may record at a time.
pytestmark = pytest.mark.xdist_group("wine")

UNIX_EPOCH_FILETIME = 116_444_736_000_000_000
SAMPLES = range(1, 31)  # more than any of these recordings takes
HERTZ = 2_725_536
VALID, INVALID = "0", "c0000bba"
READS = "Disk Reads/sec"

COUNTER, BULK_COUNT = 0x10410400, 0x10410500
AVERAGE_TIMER, AVERAGE_BULK = 0x30020400, 0x40020500
QUEUELEN_100NS, TIMER_100NS, TIMER_100NS_INV = 0x00550500, 0x20510500, 0x21510500
PRECISION_100NS, LARGE_RAW_FRACTION = 0x20570500, 0x20020500
RAWCOUNT, LARGE_RAWCOUNT = 0x00010000, 0x00010100


def recorded(machine: Host, tmp_path: Path, *options: str) -> Recording:
    end = machine.run("record", "--output", windows_path(tmp_path / "out"), "--for", "10s", *options)
    assert end.status == 0, end
    return imported(tmp_path)


def imported(tmp_path: Path) -> Recording:
    recording = import_files([tmp_path / "out"], tmp_path / "live.iotrace")
    assert validate(recording.path) == []
    return recording


def rows_of(recording: Recording, object_name: str, counter: str, instance: str | None = None) -> Rows:
    rows: Rows = recording.read("counters").to_pylist()
    found = [row for row in rows if (row["object"], row["counter"]) == (object_name, counter)]
    return [row for row in found if row["instance"] == instance]


def rising(path: str, instance: str, number: int, silent_until: int = 0) -> list[RawCounter]:
    """A rate of 1000 for each sample so far, and of ``number``."""
    return [
        RawCounter(
            sample, INVALID if sample < silent_until else VALID, COUNTER, 10_000_000,
            sum(1000 * before + number for before in range(1, sample + 1)), sample * 10_000_000, 1, path, instance,
        )
        for sample in SAMPLES
    ]  # fmt: skip


def in_order(*values: list[RawCounter]) -> list[RawCounter]:
    return sorted((one for some in values for one in some), key=lambda one: one.sample)


@pytest.mark.slow
def test_counters_of_all_instances_are_sampled_each_second(host: MakeHost, tmp_path: Path) -> None:
    machine = host()
    physical, logical = rf"\PhysicalDisk(*)\{READS}", rf"\LogicalDisk(*)\{READS}"
    many = [rising(logical, f"HD{number}", number) for number in range(4000)]
    machine.counts(in_order(rising(physical, "0 C:", 0), rising(physical, "1 E:", 1, silent_until=4), *many))
    recording = recorded(machine, tmp_path)
    of_c = rows_of(recording, "PhysicalDisk", READS, "0 C:")
    told = [row["value"] for row in of_c]
    assert len(told) >= 3
    # The second sample is the first that tells a rate.
    samples = list(range(2, 2 + len(told)))
    assert told == [1000 * sample for sample in samples]
    gaps = [after["at_ns"] - before["at_ns"] for before, after in pairwise(of_c)]  # type: ignore[operator]
    assert [row["interval_ns"] for row in of_c[1:]] == gaps
    # A row has the time that Windows stamped its value with: its call began 100 or 400 ms before, and ended 200 after.
    stamps = {call["sample"]: call["utc"] for call in machine.calls if "utc" in call}
    for row, sample in zip(of_c, samples, strict=True):
        stamped_ns = (stamps[sample] - UNIX_EPOCH_FILETIME) * 100
        at_ns = recording.manifest.clock.start_utc_ns + row["at_ns"]  # type: ignore[operator]
        assert abs(at_ns - stamped_ns) < 50_000_000
    # It had nothing to tell before the fourth sample.
    of_e = rows_of(recording, "PhysicalDisk", READS, "1 E:")
    assert [row["value"] for row in of_e] == [1000 * sample + 1 for sample in samples if sample > 4]
    # More instances than the agent's first buffer holds.
    for number in (0, 1, 1999, 3999):
        rows = rows_of(recording, "LogicalDisk", READS, f"HD{number}")
        assert [row["value"] for row in rows] == [1000 * sample + number for sample in samples]
    assert recording.read("counters").num_rows == len(of_c) + len(of_e) + 4000 * len(told)


# Path → type, ticks per second, first and second raw value at the first sample, and how much they grow by each;
# the value by the page of the type, in the unit that a recording has it in. Starts that a double would round.
FAR = 1 << 60
PLANTED: dict[str, tuple[int, int, int, int, int, int, float]] = {
    r"\PhysicalDisk(*)\Disk Writes/sec": (COUNTER, HERTZ, 4_294_967_290, FAR, 77, 2_700_001, 77 / (2_700_001 / HERTZ)),
    r"\PhysicalDisk(*)\Disk Read Bytes/sec": (
        BULK_COUNT, HERTZ, FAR + 1, FAR, 8191, 2_700_001, 8191 / (2_700_001 / HERTZ)
    ),
    r"\PhysicalDisk(*)\Avg. Disk sec/Read": (AVERAGE_TIMER, HERTZ, FAR + 1, 5, 54_321, 7, 54_321 / HERTZ / 7 * 1e9),
    r"\PhysicalDisk(*)\Avg. Disk Bytes/Write": (AVERAGE_BULK, HERTZ, FAR + 1, 9, 65_537, 3, 65_537 / 3),
    r"\PhysicalDisk(*)\Avg. Disk Queue Length": (
        QUEUELEN_100NS, 10_000_000, FAR + 1, FAR, 397_001, 10_000_360, 397_001 / 10_000_360
    ),
    r"\PhysicalDisk(*)\% Idle Time": (
        PRECISION_100NS, 10_000_000, FAR + 1, FAR, 9_000_001, 10_000_360, 100 * 9_000_001 / 10_000_360
    ),
    r"\PhysicalDisk(*)\Current Disk Queue Length": (RAWCOUNT, 0, 3, 0, 0, 0, 3),
    r"\LogicalDisk(*)\Free Megabytes": (LARGE_RAWCOUNT, 0, 123_456_789, 0, 0, 0, 123_456_789),
    r"\Processor(_Total)\% Privileged Time": (
        TIMER_100NS, 10_000_000, FAR + 1, FAR, 625_000, 10_000_360, 100 * 625_000 / 10_000_360
    ),
    r"\System\Processor Queue Length": (LARGE_RAW_FRACTION, 0, 999, 1003, 0, 0, 100 * 999 / 1003),
    r"\Memory\Pages/sec": (COUNTER, HERTZ, 7, FAR, 0, 2_700_001, 0),
}  # fmt: skip
WITHOUT_CLOCK, OF_NO_TYPE = r"\System\Context Switches/sec", r"\Memory\Available MBytes"

# Raw values of PhysicalDisk(0 C:) and Processor(_Total) in tx_BasicPerfCounters.blg, five samples, and what Performance
# Monitor and the repository's own reader show for them (tests/capture/formats/windows/test_blg_samples.py).
CLOCK_100NS = [
    130058022178447225, 130058022188447585, 130058022198448227, 130058022208448333, 130058022218448682,
]  # fmt: skip
SHOWN = {
    r"\Processor(_Total)\% Processor Time": (
        TIMER_100NS_INV, 10_000_000,
        [1170374257812, 1170383320312, 1170392734375, 1170401914062, 1170411601562], CLOCK_100NS,
        [9.378262382554226, 5.865413440457123, 8.204103036507815, 3.128380819509402],
    ),
    r"\LogicalDisk(*)\Avg. Disk Bytes/Write": (
        AVERAGE_BULK, HERTZ, [59518247936, 59518740480], [7028975, 7029031], [8795.42857142857065],
    ),
    r"\LogicalDisk(*)\Avg. Disk Queue Length": (
        QUEUELEN_100NS, 10_000_000, [9295050349000, 9295050746000], CLOCK_100NS[:2], [0.03969857085],
    ),
}  # fmt: skip


@pytest.mark.slow
def test_raw_values_become_what_their_types_say_and_performance_monitor_shows(
    host: MakeHost, tmp_path: Path
) -> None:
    def instance_of(path: str) -> str:
        return "0 C:" if "(*)" in path else ""

    machine = host()
    planted = [
        RawCounter(
            sample, VALID, kind, hertz, n + sample * by, d + sample * and_by, 1, path, instance_of(path)
        )
        for path, (kind, hertz, n, d, by, and_by, _) in PLANTED.items()
        for sample in SAMPLES
    ]
    shown = [
        RawCounter(sample, VALID, kind, hertz, n, d, 1, path, instance_of(path))
        for path, (kind, hertz, first, second, _) in SHOWN.items()
        for sample, (n, d) in enumerate(zip(first, second, strict=True), 1)
    ]
    odd = [RawCounter(sample, VALID, COUNTER, 0, sample, sample, 1, WITHOUT_CLOCK) for sample in SAMPLES]
    odd += [RawCounter(sample, VALID, 0xC0D0, HERTZ, sample, sample, 1, OF_NO_TYPE) for sample in SAMPLES]
    machine.counts(in_order(planted, shown, odd))
    recording = recorded(machine, tmp_path)
    notes = recording.manifest.quality.notes
    assert any("ticks per second of their clock are not known" in note for note in notes)
    assert any("0x0000c0d0" in note for note in notes)

    def rows(path: str) -> Rows:
        object_name, counter = path[1:].split("\\")
        name, _, instance = object_name.partition("(")
        return rows_of(recording, name, counter, {"": None, "*)": "0 C:"}.get(instance, instance[:-1]))

    for path, (kind, *_, expected) in PLANTED.items():
        values = [row["value"] for row in rows(path)]
        assert len(values) >= 3, path
        assert values == pytest.approx([expected] * len(values), rel=1e-12), path
        intervals = {row["interval_ns"] is None for row in rows(path)}
        assert intervals == {kind in {RAWCOUNT, LARGE_RAWCOUNT, LARGE_RAW_FRACTION}}, path
    for path, (*_, shown_values) in SHOWN.items():
        got = [row["value"] for row in rows(path)]
        assert got == pytest.approx(shown_values[: len(got)], rel=1e-10), path
        assert got
    assert rows(WITHOUT_CLOCK) == rows(OF_NO_TYPE) == []


@pytest.mark.slow
def test_a_killed_agent_leaves_counters_of_every_whole_sample(host: MakeHost, tmp_path: Path) -> None:
    machine = host()
    path = rf"\PhysicalDisk(*)\{READS}"
    machine.counts(in_order(rising(path, "0 C:", 0), rising(path, "1 E:", 1)))
    agent = machine.start("record", "--output", windows_path(tmp_path / "out"))

    def samples_taken() -> int:
        return sum(call["call"] == "PdhCollectQueryDataWithTime" for call in machine.calls)

    # Rows are written within a second of their sample.
    agent.wait_until(lambda: samples_taken() >= 6)
    agent.kill()
    recording = imported(tmp_path)
    told = [row["value"] for row in rows_of(recording, "PhysicalDisk", READS, "0 C:")]
    assert told[:2] == [2000, 3000]
    assert told == [1000.0 * sample for sample in range(2, 2 + len(told))]
    assert "never closed" in recording.manifest.quality.ended or "killed" in recording.manifest.quality.ended
