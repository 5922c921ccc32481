"""The rules that name a cause, each on figures that make it fire and on figures that do not."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.knee import causes
from iotrace.analyze.knee.layers import Layers, measure_layers
from iotrace.analyze.knee.saturation import Saturation
from iotrace.analyze.knee.series import knee
from iotrace.analyze.stats.estimate import Estimate
from iotrace.schemas import Clock

from ...recordings import write_recording
from . import knee_simulator as simulator


def layers(name, total_ms, block_ms, device_ms, in_flight=1.0, most=4):
    return Layers(name, total_ms * 1e6, block_ms * 1e6, device_ms * 1e6, in_flight, most)


@pytest.mark.parametrize(
    ("high", "kind", "layer", "words"),
    [
        ((60, 59.9, 59), "device", "device", "0.20 ms at 1x and 59.00 ms at 4x"),
        ((900, 899, 64, 128, 128), "device", "device", "the queue above it"),
        ((80, 79, 0.21, 4, 4), "host_queue", "block", "hardly ever more than 4 at a time"),
        ((80, 0.9, 0.21, 3.9, 4), "host_queue", "block", "hardly ever more than 4 at a time"),
        ((80, 0.24, 0.21), "above_block", "above block", "cgroup"),
    ],
    ids=[
        "slower device",
        "all slots taken",
        "host queue",
        "host queue before submission",
        "limit on the process",
    ],
)
def test_layer_that_took_the_time_is_named(high, kind, layer, words):
    cause = causes.layer(layers("1x", 0.25, 0.23, 0.2), layers("4x", *high))

    assert (cause.kind, cause.layer) == (kind, layer)
    assert words in cause.sentence


def test_no_layer_is_named_where_nothing_climbed_or_nothing_took_most_of_it():
    low = layers("1x", 0.25, 0.23, 0.2)

    assert causes.layer(low, layers("4x", 0.3, 0.28, 0.22)) is None
    assert causes.layer(low, layers("4x", 10.2, 5.2, 0.3)) is None
    assert causes.layer(low, layers("4x", 0.55, 0.5, 0.39, 4, 4)) is None  # all slots taken, most of it below


@pytest.mark.parametrize(("with_block", "block_ns"), [(True, 700_000), (False, 900_000)])
def test_a_step_without_rows_of_the_block_layer_has_its_total_for_them(make_recording, with_block, block_ns):
    at = np.arange(500) * 1_000_000
    layers = {"device": 200_000} | ({"block": 700_000} if with_block else {})
    recording = make_recording(
        {
            "layer": np.repeat(list(layers), len(at)).tolist(),
            "issued_ns": np.tile(at, len(layers)),
            "completed_ns": np.concatenate([at + took for took in layers.values()]),
        },
        500_000_000,
    )
    found = measure_layers(recording, None, name="1x", io_count=500, total_ns=900_000.0)
    assert (found.total_ns, found.block_ns, found.device_ns) == (900_000, block_ns, 200_000)


@pytest.mark.parametrize(("with_beyond", "said"), [(False, "59.00 ms at 4x"), (True, "99.00 ms at 8x")])
def test_the_lowest_step_is_held_against_the_first_beyond_or_the_highest_that_held(with_beyond, said):
    def step(name, scale, ms, is_saturated=False):
        return SimpleNamespace(
            layers=layers(name, ms, ms, ms), is_judged=True, is_saturated=is_saturated, offered_iops=100 * scale,
            achieved_iops=100 * scale,
        )  # fmt: skip

    steps = [step("1x", 1, 0.2), step("2x", 2, 0.3), step("4x", 4, 59)]
    steps += (
        [step("8x", 8, 99, is_saturated=True), step("9x", 9, 300, is_saturated=True)] if with_beyond else []
    )
    cause = causes._layer(SimpleNamespace(steps=steps, state="onset"))
    assert f"0.20 ms at 1x and {said}" in cause.sentence


LOADS = [1, 2, 4, 8, 16, 32, 64, 128]


@pytest.mark.parametrize(
    ("knee", "loads", "is_corner"),
    [
        (Estimate(24, 22, 26), LOADS, True),
        (Estimate(32, 30, 34), LOADS, False),
        (Estimate(32, 10, 90), LOADS, True),
        (Estimate(64, 60, 66), LOADS, True),
    ],
    ids=["not round", "no corner", "too vague", "one load beyond"],
)
def test_no_queue_depth_is_claimed(knee, loads, is_corner):
    assert causes.queue_depth(knee, loads, is_corner=is_corner) is None


def test_queue_depth_is_claimed_for_a_round_plateau():
    cause = causes.queue_depth(Estimate(32, 30, 34), LOADS, is_corner=True)
    assert "queue depth of 32" in cause.clause


def test_what_is_the_same_at_every_size_is_the_ceiling():
    sizes = [8192, 65536, 262144]
    bandwidth = causes.ceiling_by_size([(size, 400e6 / size) for size in sizes])
    rate = causes.ceiling_by_size([(size, 5000.0) for size in sizes])

    assert (bandwidth.kind, rate.kind) == ("bandwidth", "iops")
    assert "400 MB/s" in bandwidth.clause
    assert "5,000 IOPS" in rate.clause
    # A disk that takes 0.2 ms and 0.01 ms for each 4 KiB is neither.
    assert causes.ceiling_by_size([(size, 1 / (0.0002 + size / 4096 * 1e-5)) for size in sizes]) is None
    assert causes.ceiling_by_size([(8192, 5000.0)]) is None


def stretches(random, *, limit):
    """Completions in 40 stretches: 8 and 128 KiB mixed in a share that wanders, under one limit or the other."""
    share = np.clip(0.3 + np.cumsum(random.normal(0, 0.03, 40)), 0.05, 0.9)
    size = 8192 + share * (131072 - 8192)
    ios = 200e6 / size if limit == "bandwidth" else np.full(40, 2000.0)
    return ios, ios * size


@pytest.mark.parametrize("limit", ["bandwidth", "iops"])
def test_what_stays_flat_while_sizes_change_is_the_ceiling(limit):
    cause = causes.ceiling_in_time([stretches(np.random.default_rng(1), limit=limit)])

    assert cause.kind == limit
    assert ("200 MB/s" if limit == "bandwidth" else "2,000 IOPS") in cause.clause


def test_no_ceiling_is_claimed_where_sizes_do_not_change():
    random = np.random.default_rng(2)
    ios = 2000 * np.exp(random.normal(0, 0.05, 40))

    assert causes.ceiling_in_time([(ios, ios * 8192)]) is None
    assert causes.ceiling_in_time([(ios[:5], ios[:5] * 8192)]) is None
    assert causes.ceiling_in_time([]) is None


def watched(folder, step, arrival_s, device_s, completed_s):
    """What a recorder that began 7 s earlier saw: the block layer from arrival on, the device from ``device_s`` on."""
    columns = {
        "issued_ns": np.concatenate([arrival_s, device_s]),
        "completed_ns": np.concatenate([completed_s] * 2),
    }
    nanoseconds = {name: np.round((values + 7) * 1e9).astype(np.int64) for name, values in columns.items()}
    count = len(arrival_s)
    start_utc_ns = step.manifest.clock.start_utc_ns - 7_000_000_000
    return write_recording(
        folder / f"{step.name}-watched.iotrace",
        nanoseconds | {"layer": ["block"] * count + ["device"] * count},
        clock=Clock(start_utc_ns, 1.0, "simulated"),
    )


@pytest.mark.parametrize("saturated", ["device", "block"])
def test_what_a_recorder_saw_beside_the_steps_names_the_layer(tmp_path, saturated):
    """2,000 IOPS of one server: the wait is the device's if it starts with the arrival, else the queue's before it."""
    steps, beside = [], []
    for index, load in enumerate([400, 800, 1200, 1600, 3000]):
        random = np.random.default_rng(index)
        arrival = simulator.poisson(random, load, 3000)
        completed = simulator.first_come_first_served(arrival, np.full(len(arrival), 1 / 2000))
        steps.append(simulator.write_step(tmp_path, arrival, completed, scale=load / 400, name=f"{load}"))
        taken = arrival if saturated == "device" else completed - 1 / 2000
        beside.append(watched(tmp_path, steps[-1], arrival, taken, completed))

    found = knee(steps, watched=beside)

    assert found.saturated_layer == saturated
    assert found.causes[0].clause in found.sentence
    assert knee(steps).saturated_layer is None


def test_stretches_that_moved_nothing_tell_of_no_ceiling():
    """A stretch of reads of no bytes, or without an I/O, has no logarithm."""
    ios, moved = np.linspace(900, 1100, 12), np.full(12, 8e6)
    assert causes.ceiling_in_time([(ios, np.where(np.arange(12) == 3, 0.0, moved))]) is None
    assert causes.ceiling_in_time([(np.where(np.arange(12) == 3, 0.0, ios), moved)]) is None
    assert causes.ceiling_in_time([(ios, moved)]).kind == "bandwidth"


# Each rule just short of its limit and just past it: what the docstrings promise of "twice", "within 10 %", "by half".


@pytest.mark.parametrize(
    ("high", "kind"),
    [
        # Of 0.2 ms in the device and 0.05 ms above it: the whole has to double, and so has the device's part.
        ((0.49, 0.48, 0.41), None),
        ((0.51, 0.50, 0.41), "device"),
        ((0.75, 0.74, 0.39, 4, 4), "host_queue"),
        # Six tenths of a climb of 10 ms, in the queue or above it, the rest being the other's.
        ((10.25, 6.03, 0.2), None),
        ((10.25, 6.33, 0.2), "host_queue"),
        ((10.25, 4.43, 0.2), None),
        ((10.25, 4.03, 0.2), "above_block"),
        # What waits above the block layer is the device's queue where three of its four slots are taken on average.
        ((10.25, 0.23, 0.2, 2.9, 4), "above_block"),
        ((10.25, 0.23, 0.2, 3.1, 4), "host_queue"),
    ],
)  # fmt: skip
def test_a_layer_is_named_from_its_share_of_the_climb_on(high, kind):
    cause = causes.layer(layers("1x", 0.25, 0.23, 0.2), layers("4x", *high))
    assert (cause and cause.kind) == kind


def test_what_a_layer_took_already_at_the_low_load_is_no_climb():
    """Of 10 ms that an I/O takes longer, 5.5 are in the queue and 4.4 above it: most of it nowhere."""
    assert causes.layer(layers("1x", 8, 1, 0.2), layers("4x", 18, 6.6, 0.3)) is None


@pytest.mark.parametrize(
    ("knee", "is_claimed"),
    [
        (Estimate(32, 25.7, 39.9), True),
        (Estimate(32, 25.7, 40.1), False),
        (Estimate(32, 25.5, 39.9), False),
        (Estimate(24, 24, 24), False),
        (Estimate(32, 26, 31), False),
        (Estimate(32, 33, 39), False),
        (Estimate(2, 2, 2), True),
        (Estimate(1, 1, 1), False),
    ],
)
def test_a_queue_depth_is_claimed_of_two_slots_or_more_known_to_a_quarter(knee, is_claimed):
    assert (causes.queue_depth(knee, LOADS, is_corner=True) is not None) == is_claimed


@pytest.mark.parametrize(
    ("plateaus", "kind"),
    [
        # What is the same within 10 %, while the other is three times as much.
        ([(8192, 3000), (24576, 1090)], "bandwidth"),
        ([(8192, 3000), (24576, 1110)], None),
        ([(8192, 3000), (24576, 3290)], "iops"),
        ([(8192, 3000), (24576, 3310)], None),
        # What is just the same, while the other differs by half.
        ([(100_000, 1490), (149_000, 1000)], None),
        ([(100_000, 1510), (151_000, 1000)], "bandwidth"),
        ([(100_000, 1000), (149_000, 1000)], None),
        ([(100_000, 1000), (151_000, 1000)], "iops"),
    ],
)
def test_a_ceiling_is_the_same_within_10_percent_while_the_other_differs_by_half(plateaus, kind):
    cause = causes.ceiling_by_size(plateaus)
    assert (cause and cause.kind) == kind


def wobbling(count, spread):
    """1,000 in each of ``count`` stretches, every second one up and every other one down: ln moves by ``spread``."""
    return 1000 * np.exp(spread * np.where(np.arange(count) % 2, 1.0, -1.0))


@pytest.mark.parametrize(
    ("count", "steady", "moving", "is_ceiling"),
    [
        (9, 0.0, 0.1, False),
        (10, 0.0, 0.1, True),
        (40, 0.0, 0.019, False),
        (40, 0.0, 0.021, True),
        (40, 0.05, 0.098, False),
        (40, 0.05, 0.102, True),
    ],
)
def test_a_ceiling_shows_in_ten_stretches_where_the_other_moves_by_2_percent_and_twice_as_much(
    count, steady, moving, is_ceiling
):
    flat, other = wobbling(count, steady), wobbling(count, moving)
    # Two steps, the second at three times the load of the first: how much each carries is not what is looked at.
    found = [
        causes.ceiling_in_time([(ios, moved), (3 * ios, 3 * moved)])
        for ios, moved in ((flat, other * 1e6), (other, flat * 1e6))
    ]
    assert [cause and cause.kind for cause in found] == (["iops", "bandwidth"] if is_ceiling else [None] * 2)


@pytest.mark.parametrize(("busy_share", "is_generator"), [(0.89, False), (0.91, True)])
def test_a_generator_without_a_tenth_of_its_time_left_explains_the_plateau(busy_share, is_generator):
    steps = [
        SimpleNamespace(outstanding=count, generator_busy_share=busy_share, load_text=f"{count} outstanding")
        for count in (16, 32)
    ]
    plateau = Saturation("at_lowest", Estimate(16, 16, 16), None, "")
    assert bool(causes.closed_causes(plateau, steps, [])) == is_generator
