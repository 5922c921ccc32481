"""Counters of the machine, from files of /proc written by hand after their manual pages."""

import pytest

from iotrace.capture.linux.counters import HostCounters

SECOND_NS = 1_000_000_000


@pytest.fixture
def proc(tmp_path):
    """Writes the files of a /proc whose counters stand at multiples of ``step``."""

    def write(step, dirty_kib=0):
        # user nice system idle iowait irq softirq steal guest guest_nice; guest is part of user
        ticks = [10 * step, 0, 20 * step, 50 * step, 15 * step, 0, 0, 5 * step, 4 * step, 0]
        (tmp_path / "stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3\nintr 5\n")
        (tmp_path / "meminfo").write_text(
            f"MemTotal: 900 kB\nMemFree:  40 kB\nDirty: {dirty_kib} kB\nHugePages: 0\n"
        )
        (tmp_path / "vmstat").write_text(f"nr_free_pages 5\npgmajfault {7 * step}\npgpgout {64 * step}\n")
        (tmp_path / "pressure").mkdir(exist_ok=True)
        for resource, microseconds in (("io", 250_000), ("memory", 0)):
            total = microseconds * step
            text = (
                f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total={total // 2}\n"
            )
            (tmp_path / "pressure" / resource).write_text(text)
        return HostCounters(tmp_path)

    return write


def test_means_are_differences_over_the_interval(proc):
    before, after = proc(1), proc(3)
    seen = {
        (object_, counter): value for object_, _, counter, value, _ in after.means_since(before, SECOND_NS)
    }
    # 20 + 40 + 100 + 30 + 10 ticks in all
    cpu = {"user": 10, "nice": 0, "system": 20, "idle": 50, "iowait": 15, "irq": 0, "softirq": 0, "steal": 5}
    assert {counter: value for (object_, counter), value in seen.items() if object_ == "cpu"} == cpu
    assert seen["pressure", "io some stalled"] == 50
    assert seen["pressure", "io full stalled"] == 25
    assert seen["memory", "major faults per second"] == 14
    assert seen["memory", "paged out per second"] == 128 * 1024
    assert not any("cpu " in counter for _, counter in seen)  # this machine counts no pressure on processors


def test_levels_are_bytes_of_this_moment(proc):
    levels = {counter: (value, unit) for _, _, counter, value, unit in proc(1, dirty_kib=3).levels()}
    assert levels == {"free": (40 * 1024, "bytes"), "dirty": (3 * 1024, "bytes")}


def test_what_is_not_there_is_left_out(tmp_path):
    nothing = HostCounters(tmp_path)
    assert list(nothing.means_since(nothing, SECOND_NS)) == []
    assert list(nothing.levels()) == []


def test_processor_time_that_went_backwards_is_no_share(proc):
    later, earlier = proc(1), proc(3)
    assert not [row for row in later.means_since(earlier, SECOND_NS) if row[0] == "cpu"]
