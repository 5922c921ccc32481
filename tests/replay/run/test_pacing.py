"""Which pacing a host gets, and what is said of what it took."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay import ReplayOptions, _engine
from iotrace.replay.run import pacing, result
from iotrace.replay.run.play import Played
from iotrace.schemas import IotraceError
from iotrace.schemas.run import DeviceCounters, DeviceLook

from ...recordings import write_recording

MICROSECOND = 1_000


def trial(late_p90_us, late_p99_us, disturbed_us, disturbed_p99_us=0):
    return {
        "lateness_ns_p90": late_p90_us * MICROSECOND,
        "lateness_ns_p99": late_p99_us * MICROSECOND,
        "others_beside_sleeper_ns_p90": 30 * MICROSECOND,
        "others_beside_spinner_ns_p90": (30 + disturbed_us) * MICROSECOND,
        "others_beside_sleeper_ns_p99": 50 * MICROSECOND,
        "others_beside_spinner_ns_p99": (50 + disturbed_p99_us) * MICROSECOND,
    }


@pytest.mark.parametrize(
    ("processors", "submitters", "found", "service_us", "used"),
    [
        (2, 1, trial(60, 140, 0), 100, "gentle"),  # spinning leaves one processor to all the rest
        (3, 1, trial(60, 140, 0), 100, "precise"),
        (8, 7, trial(60, 140, 0), 100, "gentle"),
        (8, 1, trial(60, 140, 59), 100, "precise"),
        (8, 1, trial(60, 140, 60), 100, "gentle"),  # others wait as much longer as sleepers are late
        (8, 1, trial(60, 140, 0, 139), 100, "precise"),
        (
            8,
            1,
            trial(60, 140, 0, 140),
            100,
            "gentle",
        ),  # the one in a hundred that waits does so as long as a sleeper
        (8, 1, trial(60, 140, 0), 1399, "precise"),
        (8, 1, trial(60, 140, 0), 1400, "gentle"),  # a tenth of the service: being late changes no answer
        (8, 1, trial(60, 140, 0), None, "precise"),
    ],
)
def test_the_smaller_error_is_chosen(processors, submitters, found, service_us, used):
    service_ns = None if service_us is None else service_us * MICROSECOND
    choice, why = pacing.decide(found, processors=processors, submitters=submitters, service_ns=service_ns)
    assert choice == used
    assert "140 us at the p99" in why


def test_a_word_that_is_no_pacing_is_refused():
    with pytest.raises(IotraceError, match="no pacing 'exact'"):
        ReplayOptions(targets=("t",), pacing="exact").check()


def test_the_trial_of_this_host_is_in_order():
    found = _engine.try_waiting(0.1)
    for name in ("lateness", "others_beside_sleeper", "others_beside_spinner"):
        quantiles = [found[f"{name}_ns_{one}"] for one in ("p50", "p90", "p99")]
        assert quantiles == sorted(quantiles)
        assert quantiles[0] > 0


def test_the_median_is_that_of_the_layer_that_is_played(tmp_path):
    columns = {
        "layer": ["block"] * 4 + ["device"],
        "issued_ns": np.arange(5),
        "completed_ns": pa.array([10, 21, 32, None, 1000], pa.int64()),
        "size_bytes": [512] * 5,
    }
    recording = write_recording(tmp_path / "r.iotrace", columns)
    assert pacing.median_service_ns(recording, "block") == 20
    assert pacing.median_service_ns(recording, "sql") is None


def test_the_hosts_books_are_read_as_shares_of_the_time(tmp_path: Path):
    """Two processors over 1 s of 100 ticks each: 10 of 200 stolen, and somebody waited for 250 ms."""

    def write(user, stolen, waited_us):
        (tmp_path / "proc/pressure").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/stat").write_text(f"cpu {user} 0 0 0 0 0 0 {stolen} 0 0\ncpu0 0\ncpu1 0\nintr 5\n")
        line = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={waited_us}\n"
        (tmp_path / "proc/pressure/cpu").write_text(line)

    write(1000, 0, 5_000)
    load = pacing.HostLoad(tmp_path)
    write(1190, 10, 255_000)
    assert load.shares() == {"stolen_share": 0.05, "others_waited_share": pytest.approx(0.25)}
    assert pacing.HostLoad(tmp_path / "nothing").shares() == {
        "stolen_share": None,
        "others_waited_share": None,
    }


@pytest.mark.parametrize(("others", "is_told"), [(0, True), (19, True), (21, False)])
def test_the_replays_share_of_the_service_is_what_the_device_did_not_take(others, is_told):
    """1,000 I/Os of 120 us, of which the device took 100; beyond 2 % of others' I/Os its counters say nothing."""
    after = DeviceCounters(reads=700 + others, writes=300, read_ns=70_000_000, write_ns=30_000_000)
    played = Played(
        ended={},
        set_up={"submitters": 1},
        tally={"service": {"count": 1000, "mean_ns": 120_000.0}},
        starved=0,
        waits_for_room=0,
        planned_ios=1000,
        planned_duration_ns=10**9,
        cpu_seconds=0.0,
        feeding_cpu_seconds=0.0,
        spun_ns=50_000_000,
        host_load={"others_waited_share": None, "stolen_share": None},
        device_counters={"sda": DeviceLook(DeviceCounters(), after)},
    )
    found = result.pacing_facts(pacing.Pacing("auto", "gentle", "tried"), played, 10**9)
    assert found.spun_share == 0.05
    expected = pytest.approx(120_000 - 100_000_000 / (1000 + others)) if is_told else None
    assert found.own_service_ns_mean == expected
