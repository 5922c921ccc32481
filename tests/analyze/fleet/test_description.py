"""Figures of a fleet, held against one plain reckoning over all rows of all hosts."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from iotrace.analyze.fleet import Fleet, describe_fleet
from iotrace.analyze.fleet.summary import counted_ios_per_s, summarise
from iotrace.schemas import Clock, IotraceError
from iotrace.schemas.host import Host

SECOND = 1_000_000_000
NIGHT_NS = 1_767_400_000 * SECOND
SIMULATED = Path(__file__).parents[2] / "fixtures/recordings/1.0.0/simulated.iotrace"


@dataclass
class Planted:
    """The rows of one host: when in UTC, which operation, how long and how many bytes."""

    path: Path
    utc_ns: np.ndarray
    op: np.ndarray
    took_ns: np.ndarray
    size_bytes: np.ndarray


@pytest.fixture
def plant(make_recording):
    """A host of so many I/Os in so many seconds, with a busy minute at a time of its own, and flushes beside it."""

    def planted(
        name,
        seed,
        *,
        start_ns=NIGHT_NS,
        seconds=300,
        busy_s=100.0,
        latency_ns=400_000.0,
        count=20_000,
        **more,
    ):
        random = np.random.default_rng(seed)
        even = random.uniform(0, seconds, count)
        at_s = np.sort(
            np.concatenate([even, random.uniform(busy_s, busy_s + 50, count)]).clip(0, seconds - 0.01)
        )
        issued = (at_s * SECOND).astype(np.int64)
        op = random.choice(["read", "write", "flush"], len(issued), p=[0.6, 0.3, 0.1])
        took = random.lognormal(np.log(latency_ns), 0.8, len(issued)).astype(np.int64)
        size = np.where(op == "flush", 0, random.choice([8192, 65536], len(issued)))
        recording = make_recording(
            {"issued_ns": issued, "completed_ns": issued + took, "op": op.tolist(), "size_bytes": size},
            window_ns=seconds * SECOND,
            clock=Clock(start_ns, 1.0, "test"),
            host=Host(name=name),
            **more,
        )
        return Planted(recording.path, issued + start_ns, op, took, size)

    return planted


def described(hosts: list[Planted]) -> Fleet:
    return describe_fleet([summarise(one.path) for one in hosts])


def most_within(utc_ns: np.ndarray, width_s: int) -> int:
    """The most arrivals in ``width_s`` whole seconds of UTC, by looking at every second there is."""
    seconds = np.sort(utc_ns // SECOND)
    return max(
        int(np.searchsorted(seconds, start + width_s) - np.searchsorted(seconds, start))
        for start in range(int(seconds[0]), int(seconds[-1]) + 1)
    )


def test_totals_latency_and_peak_are_those_of_all_rows_together(plant):
    hosts = [
        plant("sql01", 1),
        plant("sql02", 2, start_ns=NIGHT_NS + 37_300_000_000, busy_s=60, latency_ns=900_000.0),
        plant("sql03", 3, start_ns=NIGHT_NS - 20 * SECOND, seconds=200, busy_s=10, count=9_000),
    ]
    found = described(hosts)
    load = [one.op != "flush" for one in hosts]
    assert found.io_count == sum(chosen.sum() for chosen in load)
    assert found.size_bytes == sum(one.size_bytes.sum() for one in hosts)
    every = np.concatenate([one.utc_ns[chosen] for one, chosen in zip(hosts, load, strict=True)])
    assert found.peak is not None
    assert found.peak.ios_per_s * 60 == most_within(every, 60)
    own = [most_within(one.utc_ns[chosen], 60) for one, chosen in zip(hosts, load, strict=True)]
    assert found.peaks_ios_per_s == pytest.approx(sum(own) / 60)
    assert found.coincidence == pytest.approx(most_within(every, 60) / sum(own))
    for op, latency in (("read", found.read), ("write", found.write)):
        took = np.concatenate([one.took_ns[one.op == op] for one in hosts])
        assert latency is not None
        assert latency.mean_ns == pytest.approx(took.mean(), rel=1e-12)
        assert latency.max_ns == took.max()
        for name, quantile in (("p50", 0.5), ("p99", 0.99)):
            exact = np.quantile(took, quantile, method="inverted_cdf")
            assert latency.quantiles_ns[name] == pytest.approx(exact, rel=1 / 2048)


def test_hosts_busy_at_one_moment_coincide_and_others_do_not(plant):
    together = described([plant(f"a{n}", n, busy_s=100) for n in range(3)])
    apart = described([plant(f"b{n}", n, busy_s=20 + 100 * n) for n in range(3)])
    assert together.coincidence == pytest.approx(1, abs=0.03)
    # Beside one host's 20,000 in a minute the two others bring an even 4,000 each.
    assert apart.coincidence == pytest.approx((21_600 + 2 * 3_600) / (3 * 21_600), abs=0.05)


def test_the_busiest_host_comes_first_and_rows_say_what_describe_says(plant):
    hosts = [plant("small", 1, count=2_000), plant("large", 2, count=30_000)]
    found = described(hosts)
    assert [one.host for one in found.hosts] == ["large", "small"]
    assert found.ios_per_s == pytest.approx(sum((one.op != "flush").sum() for one in hosts) / 300)
    assert found.together_most == 2


def test_a_slow_host_among_even_ones_is_named_and_even_ones_are_not(plant):
    even = [plant(f"sql{n:02}", n, count=2_000, latency_ns=400_000.0 * (1 + 0.05 * n)) for n in range(8)]
    assert described(even).outliers == []
    slow = plant("sql99", 99, count=2_000, latency_ns=2_400_000.0)
    found = described([*even, slow])
    assert {(one.host, one.op) for one in found.outliers} == {("sql99", "read"), ("sql99", "write")}
    # Against the median of nine means that are 0 to 35 % above 400 µs, and the slow one: the fifth of them.
    assert found.outliers[0].times_median == pytest.approx(6 / 1.2, rel=0.1)


def test_recordings_that_share_no_time_have_no_more_than_one_hosts_peak(plant):
    found = described([plant("a", 1), plant("b", 2, start_ns=NIGHT_NS + 86_400 * SECOND)])
    assert found.together_most == 1
    assert (found.coincidence, found.recorded_at_peak) == (None, 1)


@pytest.mark.parametrize(("apart_s", "together"), [(242, 2), (250, 1), (280, 1)])
def test_recordings_that_share_less_than_a_minute_were_not_made_at_the_same_time(plant, apart_s, together):
    """The peak of both would lie across the end of one: less than both carry at any time."""
    found = described([plant("a", 1), plant("b", 2, start_ns=NIGHT_NS + apart_s * SECOND)])
    assert found.together_most == together


def test_a_peak_across_the_end_of_one_recording_is_not_held_against_the_peaks_of_both(plant):
    """Both are busy in the 20 s that both were recorded in."""
    first = plant("a", 1, busy_s=290, count=2_000)
    second = plant("b", 2, start_ns=NIGHT_NS + 280 * SECOND, busy_s=0, count=2_000)
    found = described([first, second])
    assert (found.coincidence, found.together_most) == (None, 1)


@pytest.mark.parametrize(
    ("rows", "rate"),
    [
        (
            [("PhysicalDisk", "0", 300.0), ("PhysicalDisk", "1", 100.0), ("PhysicalDisk", "_Total", 400.0)],
            400,
        ),
        ([("PhysicalDisk", "0", 300.0), ("LogicalDisk", "C:", 120.0), ("LogicalDisk", "D:", 170.0)], 300),
        ([("PhysicalDisk", "_Total", 400.0)], 400),
        ([("PhysicalDisk", "0", None)], None),
        ([], None),
    ],
)
def test_what_counters_say_of_one_load_in_several_ways_counts_once(rows, rate):
    drives = [dict(zip(("object", "instance", "ios_per_s"), row, strict=True)) for row in rows]
    assert counted_ios_per_s(drives) == rate


def test_a_recording_without_a_date_counts_as_load_and_not_in_the_peak(plant):
    found = described([plant("a", 1), plant("b", 2), plant("undated", 3, start_ns=0)])
    assert found.undated == ["undated"]
    assert len(found.hosts) == 3
    assert found.peaks_ios_per_s == pytest.approx(
        sum(one.peak.ios_per_s for one in found.hosts if one.host != "undated" and one.peak)
    )


def test_two_recordings_of_one_host_are_told_apart_by_their_names(plant):
    found = described([plant("sql01", 1), plant("sql01", 2)])
    assert sorted(one.host for one in found.hosts) == ["sql01 (r0)", "sql01 (r1)"]


def test_a_damaged_recording_is_named_and_the_others_are_described(plant, tmp_path):
    host = plant("sql01", 1)
    (tmp_path / "broken.iotrace").mkdir()
    (tmp_path / "broken.iotrace" / "manifest.json").write_text("{")
    found = describe_fleet([summarise(path) for path in (host.path, tmp_path / "broken.iotrace")])
    assert [one.path for one in found.unread] == [str(tmp_path / "broken.iotrace")]
    assert len(found.hosts) == 1


def test_nothing_readable_is_an_error(tmp_path):
    with pytest.raises(IotraceError, match="none of 1 recordings can be read; no recording at"):
        describe_fleet([summarise(tmp_path / "nowhere.iotrace")])


@pytest.mark.parametrize("order", [1, -1])
def test_copies_and_replays_are_left_out_and_the_others_are_added_up(plant, tmp_path, order):
    hosts = [plant("sql01", 1), plant("sql02", 2)]
    copy = shutil.copytree(hosts[0].path, tmp_path / "copy.iotrace")
    paths = [*[SIMULATED, hosts[1].path][::order], hosts[0].path, copy]
    found = describe_fleet([summarise(path) for path in paths])
    assert {one.path for one in found.hosts} == {str(one.path) for one in hosts}
    assert found.io_count == sum(int((one.op != "flush").sum()) for one in hosts)
    problems = {one.path: one.problem for one in found.unread}
    assert problems[str(copy)] == f"'{copy}' is a copy of '{hosts[0].path}'"
    assert f"'{SIMULATED}' was simulated, and '" in problems[str(SIMULATED)]
    assert "was captured: iotrace compare holds them against each other" in problems[str(SIMULATED)]


def test_replays_alone_are_a_fleet():
    found = describe_fleet([summarise(SIMULATED)])
    assert found.metric == "response"
    assert not found.unread


def test_recordings_of_one_machine_keep_its_name_beside_their_own(plant, tmp_path):
    for name, machine, seed in (("a", "sql01", 1), ("b", "sql01", 2), ("c", "sql02", 3)):
        shutil.move(plant(machine, seed, count=100).path, tmp_path / f"{name}.iotrace")
    fleet = describe_fleet([summarise(tmp_path / f"{name}.iotrace") for name in "abc"])
    assert sorted((one.own_host, one.host != one.own_host) for one in fleet.hosts) == [
        ("sql01", True),
        ("sql01", True),
        ("sql02", False),
    ]
