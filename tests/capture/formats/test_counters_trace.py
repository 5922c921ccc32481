"""Totals of disks that fall: a counter of 32 bits that wraps is no restart, and a restart is no wrap."""

import pytest

from iotrace.capture.formats.counters_trace import Differences
from iotrace.capture.importing.traces import import_files

NOON = 1_772_366_400
END = 1 << 32
# Of one second: 200 reads of 8 KiB at 4 ms, half of the time busy.
EACH_SECOND = (200, 0, 3200, 800, 0, 0, 0, 0, 0, 500, 800)


def diskstats(tmp_path, starts, *, disks=("sda",), again=None):
    """A copy every 5 s from totals that are at ``starts``; at second ``again`` the host has just started."""
    path = tmp_path / "disks.log"
    lines = []
    for second in range(0, 60, 5):
        ran = second if again is None or second < again else second - again
        begin = starts if again is None or second < again else (0,) * 11
        totals = [(one + ran * more) % END for one, more in zip(begin, EACH_SECOND, strict=True)]
        lines.append(str(NOON + second))
        lines += [f"   8       0 {disk} {' '.join(map(str, totals))}" for disk in disks]
    path.write_text("\n".join(lines) + "\n")
    recording = import_files([path], tmp_path / "x.iotrace")
    figures = {}
    for row in recording.read("counters").to_pylist():
        if row["metric"] and row["metric"] != "in_flight":
            figures.setdefault(row["metric"], []).append(row["value"])
    return figures, " ".join(recording.manifest.quality.notes)


def near(*places):
    """Totals of which those at ``places`` will pass their end in a while."""
    return tuple(END - 5_000 if place in places else 10**8 for place in range(11))


@pytest.mark.parametrize("places", [(2,), (3,), (9,), (10,), (2, 3, 9, 10), (0,), (0, 2, 3)])
def test_a_counter_that_wraps_while_others_rise_goes_on(tmp_path, places):
    figures, notes = diskstats(tmp_path, near(*places))
    assert {name: len(values) for name, values in figures.items() if name == "read_iops"} == {"read_iops": 11}
    assert figures["read_iops"] == pytest.approx([200] * 11)
    assert figures["read_bytes_per_second"] == pytest.approx([200 * 8192] * 11)
    assert figures["read_latency_ns"] == pytest.approx([4e6] * 11)
    assert figures["busy_percent"] == pytest.approx([50] * 11)
    assert figures["queue_length"] == pytest.approx([0.8] * 11)
    assert "totals fell" not in notes
    assert "a counter of 32 bits passed its end" in notes


def test_a_start_is_told_once_for_all_disks(tmp_path):
    figures, notes = diskstats(tmp_path, near(), disks=("sda", "sdb", "dm-0"), again=30)
    assert "totals fell 1 time (3 disks): the host started again" in notes
    assert set(figures["read_iops"]) == {200}
    assert len(figures["read_iops"]) == 3 * 10


def test_a_start_while_one_counter_was_near_its_end_is_a_start(tmp_path):
    figures, notes = diskstats(tmp_path, near(2, 3), again=5)
    assert "totals fell 1 time (1 disk)" in notes
    assert "32 bits" not in notes
    assert set(figures["read_iops"]) == {200}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Nothing else rose.
        ({"reads": 5.0, "read_bytes": (END - 8) * 512.0}, {"reads": 5.0, "read_bytes": 8 * 512.0}),
        # Not near its end.
        ({"reads": 5.0, "read_bytes": END / 4 * 512.0}, {"reads": 6.0, "read_bytes": 0.0}),
        # Beyond what 32 bits hold: of a kernel whose numbers have 64.
        ({"reads": 5.0, "read_bytes": (END + 9) * 512.0}, {"reads": 6.0, "read_bytes": 0.0}),
        # Half of all that 32 bits hold within an interval.
        ({"reads": 5.0, "read_bytes": (END - 8) * 512.0}, {"reads": 6.0, "read_bytes": END * 300.0}),
    ],
)
def test_what_is_no_wrap(before, after):
    differences = Differences()
    list(differences.samples(NOON * 10**9, "", "sda", before))
    assert not list(differences.samples((NOON + 5) * 10**9, "", "sda", after))
    assert (differences.restarts, differences.wraps) == (1, 0)


def test_times_in_seconds_wrap_at_32_bits_of_milliseconds():
    """As node_exporter tells them."""
    differences = Differences()
    list(differences.samples(NOON * 10**9, "", "sda", {"reads": 100.0, "read_s": END / 1000 - 0.3}))
    samples = list(differences.samples((NOON + 5) * 10**9, "", "sda", {"reads": 200.0, "read_s": 0.1}))
    told = {one.counter: one.value for one in samples}
    assert told == pytest.approx({"reads/s": 20, "time per read": 0.004})
    assert next(iter(differences.notes())).startswith("1 time a counter of 32 bits")
