"""Whom a window hit, where it is planted which I/Os were delayed, and that chance accuses nobody."""

from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.attribution import Blame
from iotrace.analyze.incident.hit import Hit, Usual, wander_of
from iotrace.analyze.incident.presentation import incident_answer
from iotrace.analyze.incident.series import LayerSlots, Stream

S = 1_000_000_000
SECONDS = 300
FILES = [("D:\\a.mdf", "data", 0), ("D:\\b.mdf", "data", 0), ("E:\\c.ndf", "data", 1), ("L:\\a.ldf", "log", 2),
         ("L:\\b.ldf", "log", 2)]  # fmt: skip
SHARES = [0.35, 0.2, 0.1, 0.2, 0.15]


def recorded(make_recording, seed, delayed, *, scanned=None, layers=("sql", "block")):
    """Files on three disks; from 100 to 140 s a driver above the block layer holds up I/Os of ``delayed`` ones by 2 ms.

    In the same time a virus scanner reads the file ``scanned``, of which it reads little at other times, and is not
    held up.
    """
    random = np.random.default_rng(seed)
    at_s = random.uniform(0, SECONDS, random.poisson(350 * SECONDS))
    file, process = random.choice(5, len(at_s), p=SHARES), np.zeros(len(at_s), int)
    if scanned is not None:
        more_s = np.concatenate([random.uniform(100, 140, 800), random.uniform(0, SECONDS, 60)])
        at_s = np.concatenate([at_s, more_s])
        file = np.concatenate([file, np.full(len(more_s), scanned)])
        process = np.concatenate([process, np.ones(len(more_s), int)])
    order = np.argsort(at_s)
    at_s, file, process = at_s[order], file[order], process[order]
    below_s = 0.0006 * random.lognormal(0, 0.5, len(at_s))
    is_held_up = (at_s >= 100) & (at_s < 140) & np.isin(file, delayed) & (process == 0)
    above_s = np.where(is_held_up, 0.002 * random.lognormal(0, 0.3, len(at_s)), 0.00001)
    op = np.where((file < 3) & (random.random(len(at_s)) < 0.85), "read", "write")
    begun, spent = {"sql": at_s, "block": at_s + above_s}, {"sql": above_s + below_s, "block": below_s}
    columns = {
        "layer": np.repeat(layers, len(at_s)),
        "issued_ns": np.concatenate([begun[layer] for layer in layers]) * S,
        "completed_ns": np.concatenate([begun[layer] + spent[layer] for layer in layers]) * S,
        **{name: np.tile(values, len(layers)) for name, values in
           {"op": op, "file_id": file, "process_id": process, "device_id": np.array([0, 0, 1, 2, 2])[file]}.items()},
    }  # fmt: skip
    order = np.argsort(columns["issued_ns"])
    columns = {name: values[order] for name, values in columns.items()}
    for name in ("issued_ns", "completed_ns"):
        columns[name] = np.round(columns[name]).astype(np.int64)
    tables = {
        "files": [
            {"file_id": number, "path": path, "role": role, "device_id": disk}
            for number, (path, role, disk) in enumerate(FILES)
        ],
        "devices": [{"device_id": disk, "name": f"disk {disk}", "kind": "disk"} for disk in range(3)],
        "processes": [
            {"process_id": number, "os_process_id": number, "name": name}
            for number, name in enumerate(["sqlservr.exe", "scanner.exe"])
        ],
    }
    return make_recording(columns, SECONDS * S, tables=tables)


def said_of(recording):
    """The window, and what its opening lines say of whom it hit."""
    found = incident(recording)
    (window,) = found.windows
    answer = incident_answer(found, 0, "r", recording.manifest.quality, [])
    said = [
        line.text for line in answer.opening if line.text.startswith(("Hit hardest", "Load from", "Slowest"))
    ]
    return window, said[0].split(",")[0] if said else None


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("delayed", "scanned", "right"),
    [
        ([1], None, {"file D:\\b.mdf"}),
        ([2], None, {"file E:\\c.ndf", "device disk 1"}),
        ([3, 4], None, {"role log", "device disk 2"}),
        ([1], 2, {"file D:\\b.mdf"}),
        ([0, 1], 0, {"device disk 0"}),
    ],
)
def test_whom_a_driver_above_the_block_layer_held_up_is_named(seed, delayed, scanned, right, make_recording):
    """Below it all was as fast as ever, so that the block layer has nothing to tell but noise."""
    window, said = said_of(recorded(make_recording, seed, delayed, scanned=scanned))
    assert (window.layer, window.blamed_at) == ("sql", "sql")
    assert said in {f"Hit hardest: {name}" for name in right}
    hit = {FILES[number][0] for number in delayed}
    assert {row.name for row in window.blame if row.dimension == "file" and row.growth_share >= 0.05} == hit
    assert not any(row.growth_share for row in window.blame if row.name == "scanner.exe")


@pytest.mark.parametrize("seed", range(2))
def test_who_only_asked_for_more_was_not_hit(seed, make_recording):
    """One layer, the storage's own: what the scanner reads in the window comes as fast as ever."""
    window, said = said_of(recorded(make_recording, seed, [1], scanned=2, layers=("sql",)))
    assert said == "Hit hardest: file D:\\b.mdf"
    assert not any(row.growth_share for row in window.blame if row.name in {"scanner.exe", "E:\\c.ndf"})


@pytest.mark.parametrize(
    ("slowest", "by_load", "layer"),
    [
        ("sql", False, "sql"), ("filesystem", False, "filesystem"), ("block", False, "block"),
        ("device", False, "block"), ("sql", True, "block"),
    ],
)  # fmt: skip
def test_load_is_told_at_its_layer_and_time_where_it_went(slowest, by_load, layer):
    """Layers below that of the load know neither file nor process; their time is in it."""
    assert Blame.layer_of(SimpleNamespace(_load_layer="block"), slowest, by_load=by_load) == layer


def row_of(latencies_ns, *, process=0, waiting_ns=(), **kind):
    """As ``incident_work`` has it."""
    latencies_ns = np.asarray(latencies_ns, dtype=float)
    return {
        "device_id": 0, "file_id": 0, "op": "read", "size_class_bytes": 8192, "process_id": process, **kind,
        "measured_count": len(latencies_ns), "latency_sum_ns": latencies_ns.sum(),
        "latency_square_sum": (latencies_ns**2).sum(),
        "waiting_count": len(waiting_ns), "waiting_sum_ns": sum(waiting_ns),
    }  # fmt: skip


def hit_of(usual_ns, *rows):
    hit = Hit()
    for row in rows:
        hit.take_in(row, Usual([row_of(usual_ns)], []))
    return hit


def test_what_is_added_is_reckoned_like_for_like():
    usual = Usual(
        [row_of([1e6] * 50), row_of([9e6] * 50, size_class_bytes=65536), row_of([3e6] * 20)],
        [row_of([3e6] * 20)],
    )
    hit = Hit()
    hit.take_in(row_of([1e6] * 5), usual)
    hit.take_in(row_of([9e6] * 500, size_class_bytes=65536), usual)
    assert (hit.expected_ns, hit.added_ns) == (4505e6, 0)
    assert not hit.is_clear({})


def test_a_process_that_is_new_is_held_against_others_on_its_file():
    hit = hit_of([1e6] * 50, row_of([1e6] * 40, process=7))
    assert (hit.expected_ns, hit.added_ns) == (40e6, 0)


@pytest.mark.parametrize(
    "kind", [{"file_id": 1}, {"op": "write"}, {"size_class_bytes": 65536}, {"device_id": 1}]
)
def test_what_has_no_like_tells_nothing(kind):
    hit = hit_of([1e6] * 50, row_of([9e6] * 40, **kind))
    assert (hit.expected_ns, hit.added_ns) == (0, 0)
    assert not hit.is_clear({})


@pytest.mark.parametrize("count", [2, 5, 30, 1000])
def test_groups_as_fast_as_ever_are_hardly_ever_called_hit(count):
    """Lognormal latencies (sigma 1): the tail is heavier than a normal one on the side that would accuse."""
    random = np.random.default_rng(count)
    tries = 1000
    false = sum(
        hit_of(random.lognormal(0, 1, 5000), row_of(random.lognormal(0, 1, count))).is_clear({})
        for _ in range(tries)
    )
    assert false <= 0.005 * tries


@pytest.mark.parametrize(("count", "factor"), [(30, 4), (200, 2), (2000, 1.3)])
def test_groups_that_were_slower_are_called_hit(count, factor):
    random = np.random.default_rng(count)
    tries = 100
    found = sum(
        hit_of(random.lognormal(0, 0.5, 5000), row_of(factor * random.lognormal(0, 0.5, count))).is_clear({})
        for _ in range(tries)
    )
    assert found >= 0.95 * tries


def test_less_than_a_tenth_slower_is_not_hit():
    assert not hit_of([1e6] * 50, row_of([1.09e6] * 5000)).is_clear({})
    assert hit_of([1e6] * 50, row_of([1.11e6] * 5000)).is_clear({})


def test_what_hangs_to_the_end_is_no_chance():
    assert hit_of([1e6] * 50, row_of([], waiting_ns=[8e9])).is_clear({0: 0.5})
    assert not hit_of([1e6] * 50, row_of([8e9])).is_clear({})


@pytest.mark.parametrize(("wander", "is_hit"), [(0.15, True), (0.18, False)])
def test_a_device_whose_mean_wanders_accuses_nobody(wander, is_hit):
    """Half slower is three times 0.167; I/Os of another device do not add to that."""
    rows = row_of([1.5e6] * 5000), row_of([1.5e6] * 50_000)
    assert hit_of([1e6] * 50, *rows).is_clear({0: wander, 1: 9.0}) == is_hit


def test_how_far_a_device_wanders_is_known_at_the_length_of_the_window():
    """One device's mean changes from slot to slot by a tenth, which ten slots level out; the other's every 50 slots."""
    random = np.random.default_rng(3)
    ios = np.full((3, 4000), 100.0)
    level = np.stack([
        1 + 0.1 * random.normal(size=4000), np.full(4000, 5.0), np.repeat(1 + 0.1 * random.normal(size=80), 50)
    ])  # fmt: skip
    nothing = np.zeros_like(ios)
    streams = [Stream("sql", "read", 0), Stream("sql", "write", 0), Stream("sql", "read", 1)]
    layer = LayerSlots("sql", streams, ios, nothing, ios, nothing, nothing, ios * level * 1e6, ios, nothing)
    every = np.ones(4000, dtype=bool)
    # The writes of the first device have five sixths of its time, and do not wander.
    assert wander_of(layer, every, 1) == pytest.approx({0: 0.1 / 6, 1: 0.1}, rel=0.25)
    assert wander_of(layer, every, 10) == pytest.approx({0: 0.1 / 6 / np.sqrt(10), 1: 0.1}, rel=0.25)
    assert wander_of(layer, every, 9000)[0] <= wander_of(layer, every, 10)[0]
    assert wander_of(layer, np.arange(4000) < 10, 1)[1] == pytest.approx(0, abs=1e-9)
    assert wander_of(layer, ~every, 5) == {0: 0.0, 1: 0.0}
