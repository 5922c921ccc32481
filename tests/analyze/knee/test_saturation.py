"""Saturation points of laws whose answer is known: N in flight on c servers, N* = c at c/S I/Os per second."""

import heapq
from dataclasses import replace

import numpy as np
import pytest

from iotrace.analyze.knee.causes import ceilings_by_size
from iotrace.analyze.knee.saturation import batch_means, best_size, saturation
from iotrace.analyze.knee.series import knee
from iotrace.analyze.knee.step import measure
from iotrace.schemas import IotraceError, Recording

from .knee_simulator import write_step

SERVICE_S = 0.0002


def closed_loop(random, outstanding, servers, count, *, exponential=False):
    """Issue and completion times of ``count`` I/Os with so many always in flight, first come first served."""
    service = (
        random.exponential(SERVICE_S, count) if exponential else random.normal(1, 0.02, count) * SERVICE_S
    )
    issued, completed = np.zeros(count), np.zeros(count)
    free, slots = [0.0] * servers, [0.0] * outstanding
    for index in range(count):
        issued[index] = heapq.heappop(slots)
        completed[index] = max(issued[index], heapq.heappop(free)) + service[index]
        heapq.heappush(free, completed[index])
        heapq.heappush(slots, completed[index])
    return issued, completed


def series(folder, servers, outstandings, **law):
    steps = []
    for outstanding in outstandings:
        random = np.random.default_rng([3, outstanding])
        issued, completed = closed_loop(random, outstanding, servers, 6000, **law)
        steps.append((outstanding, *measure(write_step(folder, issued, completed, name=f"o{outstanding}"))))
    return steps


@pytest.mark.parametrize("exponential", [False, True])
@pytest.mark.parametrize("servers", [3, 6, 8])
def test_it_lies_at_the_number_of_servers(tmp_path, servers, exponential):
    found = saturation(series(tmp_path, servers, [1, 2, 4, 8, 16, 32], exponential=exponential))

    assert found.state == "reached"
    assert found.outstanding.value == pytest.approx(servers, rel=0.05)
    assert found.outstanding.low <= servers * 1.001
    assert found.outstanding.high >= servers
    assert found.iops.value == pytest.approx(servers / SERVICE_S, rel=0.04)


def test_a_disturbed_step_widens_the_interval_to_its_neighbours(tmp_path):
    """A disk of four servers that two outstanding found busy with something else."""
    steps = series(tmp_path, 4, [1, 2, 4, 8, 16])
    steps[1][1].achieved_iops *= 0.8

    found = saturation(steps)

    assert (found.outstanding.low, found.outstanding.high) == (2, 4)


def test_it_is_not_reached_where_throughput_still_grows(tmp_path):
    found = saturation(series(tmp_path, 64, [1, 2, 4, 8, 16, 32]))

    assert found.state == "not_reached"
    assert found.outstanding is None
    assert "Not saturated" in found.sentence


def test_one_step_that_gains_nothing_is_needed_to_know(tmp_path):
    assert saturation(series(tmp_path, 16, [1, 2, 4, 8, 16])).state == "not_reached"


def test_a_single_server_is_saturated_by_one(tmp_path):
    found = saturation(series(tmp_path, 1, [1, 2, 4]))

    assert found.state == "at_lowest"
    assert found.outstanding.value == 1


def test_one_step_tells_nothing(tmp_path):
    assert saturation(series(tmp_path, 1, [4])).state == "not_judged"


def test_the_interval_of_throughput_holds_the_truth_as_often_as_it_says(tmp_path):
    truth, held = 4 / SERVICE_S, 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        issued, completed = closed_loop(random, 12, 4, 3000, exponential=True)
        low, high = batch_means(measure(write_step(tmp_path, issued, completed))[1])
        held += low <= truth <= high
    # Of 40 intervals at 95 %, fewer than 33 hold the truth once in 5,000 times.
    assert held >= 33


def test_beyond_the_best_size_nothing_is_gained(tmp_path):
    """A log that takes 0.1 ms plus the time of the bytes at 200 MB/s, but moves at most 64 KiB in 0.4 ms."""
    steps = []
    for size, took_s in (
        (8192, 0.0001),
        (16384, 0.00012),
        (32768, 0.00016),
        (65536, 0.0004),
        (131072, 0.0008),
    ):
        issued = np.arange(3000) * took_s
        step, samples = measure(write_step(tmp_path, issued, issued + took_s * 0.999))
        step.achieved_mb_per_s = size / took_s / 1e6
        steps.append((size, step, samples))

    found = best_size(steps)

    assert found.size_bytes == 32768
    assert found.larger_than_bytes == 16384
    assert best_size(steps[:3]).size_bytes is None


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed")
    steps = []
    for outstanding in (1, 2, 4, 8, 16):
        issued, completed = closed_loop(np.random.default_rng(outstanding), outstanding, 4, 6000)
        cell = {"pattern": "random", "read_share": 1.0, "size_bytes": 8192, "outstanding": outstanding}
        more = {"loop": "closed", "cell": cell}
        steps.append(write_step(folder, issued, completed, name=f"o{outstanding}", replay=more))
    return steps


def noted(step, *, cell=(), **replay):
    """The same step, whose engine noted something else of it."""
    noted = step.manifest.replay
    more = replace(noted, **{"cell": replace(noted.cell, **dict(cell))} | replay)
    return Recording(step.path, replace(step.manifest, replay=more))


def test_the_knee_of_closed_loops_is_where_they_saturate(measured_once):
    """A response of 0.3 ms is passed between four outstanding, which take 0.2 ms, and eight, which take 0.4."""
    found = knee(measured_once, slo="p50<0.3ms")

    assert found.state == "reached"
    assert found.outstanding.value == pytest.approx(4, rel=0.03)
    assert found.iops.value == pytest.approx(4 / SERVICE_S, rel=0.02)
    assert [step.outstanding for step in found.steps] == [1, 2, 4, 8, 16]
    assert [step.is_saturated for step in found.steps] == [False, False, False, True, True]
    assert found.objectives[0].state == "crossed"


def test_a_plateau_of_closed_loops_at_a_power_of_two_is_called_a_queue_depth(measured_once):
    found = knee(measured_once)

    assert [cause.kind for cause in found.causes] == ["queue_depth"]
    assert found.sentence.endswith("queue depth of 4.")


@pytest.mark.parametrize(
    ("cpu_seconds", "submitters", "backend", "kind"),
    [
        (6.2, 1, "io_uring", "generator"),
        (6.2, 2, "io_uring", "queue_depth"),
        (3.0, 1, "io_uring", "queue_depth"),
        # Threads that block are many, and processor time does not tell which of them is out of it.
        (6.2, 1, "threads", "queue_depth"),
    ],
)
def test_a_plateau_of_a_generator_without_processor_time_is_the_generators_own(
    measured_once, cpu_seconds, submitters, backend, kind
):
    """Of 6.5 s with warm-up the one thread that submits was 6.2 on a processor."""
    engine = {"seconds": 5.0, "warm_up_seconds": 1.5, "submitters": submitters, "backend": backend}

    found = knee([noted(step, cpu_seconds=cpu_seconds, **engine) for step in measured_once])

    assert [cause.kind for cause in found.causes] == [kind]
    if kind == "generator":
        assert "95 % of its time on the processor at 4 outstanding" in found.causes[0].sentence


def test_what_closed_loops_of_several_sizes_have_in_common_is_the_ceiling():
    """400 MB/s at every size of reads; writes of the same sizes stop at 5,000 a second."""
    reads = [("read", size, 400e6 / size) for size in (8192, 65536, 262144)]
    writes = [("write", size, 5000.0) for size in (8192, 65536)]

    assert {cause.kind for cause in ceilings_by_size(reads + writes)} == {"bandwidth", "iops"}
    assert ceilings_by_size([reads[0], writes[1]]) == []


@pytest.mark.parametrize("other", [{"size_bytes": 65536}, {"outstanding": 8}])
def test_runs_that_are_no_series_have_no_knee(measured_once, other):
    with pytest.raises(IotraceError):
        knee([*measured_once[:-1], noted(measured_once[-1], cell=other)])


def test_a_closed_loop_that_says_no_number_outstanding_has_no_knee(measured_once):
    last = measured_once[-1]
    untold = Recording(last.path, replace(last.manifest, replay=replace(last.manifest.replay, cell=None)))
    with pytest.raises(IotraceError, match="no number outstanding"):
        knee([*measured_once[:-1], untold])
