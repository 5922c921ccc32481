"""Whole answers to slots of latency and load drawn by chance, without a recording behind them (`kept_answers`).

Reading a recording takes most of the time of an answer; so far more of them are asked for here.
"""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.incident import counters, find, series
from iotrace.analyze.incident.cut import _is_outside
from iotrace.analyze.incident.series import LayerSlots, Slots, Stream
from iotrace.schemas import Clock, Kind, Manifest

from .. import kept_answers

SECOND = 1_000_000_000
AMOUNTS = (
    "io_count", "size_bytes", "measured_count", "log_latency", "within_variance", "latency_sum_ns", "begun_count",
    "in_flight",
)  # fmt: skip
NAMES = SimpleNamespace(
    devices={1: "sda", 2: "a device with a very long name indeed, longer than fits"}, files={4: "a.mdf"}
)
STREAMS = [
    ("read", 1, 4, "data", "C:"), ("write", 1, 4, "data", "C:"), ("write", 2, None, "log", "D:"),
    ("read", 1, None, "unattributed", "C:"),
]  # fmt: skip


def hold(name, make, count):
    found = {str(number): make(np.random.default_rng([67, number]), number) for number in range(count)}
    kept_answers.hold_each(f"incident/{name}", found)


def slowness(random, number, count):
    """By how much latency is above its level in each slot, and load: what is slow for a while, rises, or recurs."""
    slow, load = np.zeros(count), np.zeros(count)
    for _ in range(number % 3):
        first, length = int(random.integers(0, count - 4)), int(random.choice([1, 2, 3, 8, 25, 60]))
        slow[first : first + length] += np.log(random.uniform(1.2, 5))
        if random.uniform() < 0.4:
            load[max(first - int(random.integers(0, 3)), 0) : first + length] += np.log(
                random.uniform(1.1, 4)
            )
    if number % 5 == 1:
        slow += np.log(random.uniform(1.1, 3)) * np.clip(
            (np.arange(count) - count * 0.4) / (count * random.uniform(0.1, 0.5)), 0, 1
        )
    if number % 7 == 2:
        period = int(random.integers(12, 40))
        for at in range(int(random.integers(0, period)), count, period):
            slow[at : at + 3] += np.log(2.5)
    if number % 4 == 3:
        swing = np.sin(np.arange(count) / count * 2 * np.pi) * random.uniform(0.2, 0.8)
        load, slow = load + swing, slow + 0.5 * swing
    if number % 9 == 4:
        slow[int(random.integers(0, count))] += random.uniform(1, 5)
    return slow, load


def drawn_slots(random, number):
    """Slots of one to three layers. What slows the device slows the layers above it, or only they are slow."""
    count, slot_s = int(random.integers(70, 400)), int(random.choice([1, 1, 5, 15]))
    slow, load = slowness(random, number, count)
    names = [("block", "device"), ("filesystem", "block", "device"), ("block",), ("sql", "block")][number % 4]
    above = number % 6 == 5
    found = Slots(7 * SECOND, slot_s * SECOND, count, {})
    chosen = STREAMS[: 1 + number % 4]
    rates = [float(random.choice([3, 60, 400])) for _ in chosen]
    ios = np.array([random.poisson(rate * np.exp(load)) for rate in rates]).astype(float)
    ios[:, random.uniform(size=count) < random.choice([0, 0.1, 0.7])] = 0
    noise = np.array([random.normal(0, 0.08, count) for _ in chosen])
    size = np.array([np.full(count, random.choice([4096.0, 65536.0])) for _ in chosen])
    if number % 8 == 6:
        size[:, slow > 0] *= 3
    for place, name in enumerate(names):
        level = 13.5 - 0.1 * place + np.arange(len(chosen))[:, None] * 0.4
        mine = (
            slow
            * (0 if above and place > 0 else 1)
            * (1 if number % 3 else np.arange(len(chosen))[:, None] == 0)
        )
        logs = level + mine + noise + random.normal(0, 0.01, ios.shape)
        latency = np.exp(logs)
        streams = [
            Stream(name, op, device, file, role, instance if is_means(number) else None)
            for op, device, file, role, instance in chosen
        ]
        samples = (np.arange(count), np.arange(1, count + 1)) if is_means(number) else None
        with np.errstate(divide="ignore", invalid="ignore"):
            found.layers[name] = LayerSlots(
                name, streams, ios, ios * size, ios, np.where(ios > 0, logs, np.nan),
                np.where(ios > 0, 0.3 / ios, np.nan), ios * latency, ios, ios * latency / found.slot_ns, samples,
            )  # fmt: skip
        hung = np.zeros(count)
        if number % 10 == 7:
            hung[-20:] = 5.0 if place == len(names) - 1 or random.uniform() < 0.5 else 0.0
        found.waiting[name] = hung
    return found


def is_means(number):
    return number % 2 == 0


@pytest.fixture
def finder(monkeypatch):
    for name in ("markers_beside", "waits_beside", "counters_beside"):
        monkeypatch.setattr(find, name, lambda *_: [])
    monkeypatch.setattr(find._Finder, "_blame", lambda *_: None)
    monkeypatch.setattr(find._Finder, "_together", lambda *_: None)

    def make(slots, number):
        one = object.__new__(find._Finder)
        one.recording = SimpleNamespace(
            name="r", path="r", manifest=Manifest(Kind.CAPTURED, "", Clock(0, 1.0, "x"), uuid="u")
        )
        one.connection, one.slots, one.names = None, slots, NAMES
        one.is_means, one.has_losses = is_means(number), False
        one.span_ns = (slots.start_ns, slots.at_ns(slots.count))
        one.load_layer = next(iter(slots.layers))
        one._factors, one._loads_of, one._levels = {}, {}, {}
        return one

    return make


@pytest.mark.parametrize("part", range(12))
def test_answers_to_slots(part, finder):
    found = {}
    for number in range(part, 48, 12):
        slots = drawn_slots(np.random.default_rng([71, number]), number)
        found[str(number)] = finder(slots, number).incidents()
    kept_answers.hold_each(f"incident/slots-{part}", found)


def test_what_a_finder_tells_of_a_window(finder):
    def make(random, number):
        slots = drawn_slots(random, number)
        one = finder(slots, number)
        name = next(iter(slots.layers))
        end = int(random.choice([slots.count, slots.count - 1, slots.count - 2, slots.count // 2]))
        window = (max(end - int(random.choice([1, 3, 20])), 0), end)
        is_normal = np.ones(slots.count, dtype=bool)
        is_normal[slice(*window)] = False
        streams = slots.layers[name].streams
        some = streams[: number % (len(streams) + 1)]
        load, what = one._load(name, some)
        return {
            "lost": one._lost_ns(name, some, window, is_normal), "hung": one._hung(name, window),
            "hanging": one._hanging(window), "load": [what, len(load.streams)],
            "names": [one._stream_name(stream) for stream in [None, *streams]],
            "alone": one._stream_name(Stream("block", "read", 9, None, "unattributed")),
            "nothing": one._lost_ns(name, some, window, is_normal & False),
        }  # fmt: skip

    hold("slots-windows", make, 80)


def drawn_table(random, number):
    """What query ``incident_seconds`` gives: a row for each stream in each slot with I/Os."""
    rows = []
    for layer in ("block", "device"):
        for device, file, role, op in (
            (1, 4, "data", "read"),
            (1, None, "log", "write"),
            (2, 4, "data", "read"),
        ):
            for slot in range(12):
                count = int(random.choice([0, 1, 2, 50]))
                if not count:
                    continue
                ended = int(random.integers(0, count + 1))
                logs = random.normal(14, 0.4, ended)
                waits = count - ended if number % 2 else 0
                rows.append({
                    "layer": layer, "device_id": device, "file_id": file, "role": role, "op": op, "slot": slot,
                    "io_count": count, "size_bytes": count * 8192, "measured_count": ended, "begun_count": ended,
                    "log_latency_sum": float(logs.sum()), "log_latency_square_sum": float((logs**2).sum()),
                    "latency_sum_ns": float(np.exp(logs).sum()), "in_flight_ns": float(np.exp(logs).sum()),
                    "waiting_count": waits, "waiting_log_sum": 15.0 * waits, "waiting_log_square_sum": 226.0 * waits,
                    "waiting_sum_ns": 3e6 * waits, "waiting_in_flight_ns": 2e6 * waits,
                })  # fmt: skip
    return pa.Table.from_pylist(rows)


def test_rows_become_slots():
    def make(random, number):
        table = drawn_table(random, number)
        found = {}
        for layer in ("block", "device"):
            one, hung = series._layer_slots(table, layer, 12, SECOND, has_losses=number % 3 == 0)
            found[layer] = [hung.tolist(), [repr(stream) for stream in one.streams]]
            found[layer] += [np.nan_to_num(getattr(one, name)).tolist() for name in AMOUNTS]
        return found

    hold("slots-rows", make, 40)


def drawn_segments(random, number):
    count = int(random.integers(3, 12))
    gaps = random.choice([0, 0, 0, 7], count) * SECOND
    from_ns = np.cumsum(random.choice([5, 5, 10, 15], count) * SECOND + gaps)
    until_ns = np.minimum(np.append(from_ns[1:], from_ns[-1] + 5 * SECOND), from_ns + 12 * SECOND)
    values = {}
    for op in ("read", "write"):
        values[f"{op}_iops"] = np.where(random.uniform(size=count) < 0.3, 0.0, random.uniform(1, 500, count))
        values[f"{op}_latency_ns"] = np.where(values[f"{op}_iops"] > 0, random.uniform(1e5, 1e7, count), 0.0)
        values[f"{op}_bytes_per_second"] = values[f"{op}_iops"] * 8192
    queue = random.uniform(0, 3, count)
    nothing = np.full(count, np.nan)
    values |= {"iops": nothing, "latency_ns": nothing, "bytes_per_second": nothing}
    values |= {
        "queue_length": queue if number % 3 else nothing,
        "in_flight": np.round(queue) if number % 4 == 0 else nothing,
    }
    if number % 5 == 1:
        values["write_iops"] = nothing
    if number % 7 == 2:
        values |= {
            "write_latency_ns": nothing,
            "read_latency_ns": nothing,
            "latency_ns": random.uniform(1e5, 1e7, count),
            "iops": random.uniform(1, 9, count),
        }
    ends = {op: until_ns.copy() for op in ("read", "write", "transfer")}
    if number % 3 == 0:
        ends["read"][: count // 2] = until_ns[count // 2]
        values["read_latency_ns"][: count // 2] = values["read_latency_ns"][0]
    return counters._Segments(from_ns, until_ns, values, ends)


def test_counters_become_slots():
    def make(random, number):
        told = {("h", "C:"): drawn_segments(random, number)}
        if number % 2:
            told[("h" if number % 4 == 1 else "i", "D:")] = drawn_segments(random, number + 1)
        start = min(int(one.from_ns[0]) for one in told.values())
        end = max(int(one.until_ns[-1]) for one in told.values())
        grid = counters._Grid(start, 5 * SECOND, -(-(end - start) // (5 * SECOND)))
        one = counters._layer("block", told, grid)
        found = [
            np.nan_to_num(values).tolist()
            for values in (*(getattr(one, name) for name in AMOUNTS), *one.samples)
        ]
        objects = {"x": told, "LogicalDisk": told, "h:PhysicalDisk": told, "diskstats": {}}
        some = {name: objects[name] for name in list(objects)[: 1 + number % 4]}
        moments = np.array([start - 1, start, start + 5 * SECOND - 1, start + 5 * SECOND, end, end + 10**12])
        return {
            "slots": found,
            "streams": [repr(stream) for stream in one.streams],
            "typical": counters._typical_sample_ns(told),
            "best": counters._best_view(some) is told,
            "slot": grid.slot(moments).tolist(),
        }

    hold("slots-counters", make, 80)


@pytest.mark.parametrize(
    ("issued", "completed", "is_outside"),
    [
        ((40, 50), (41, 60), False), ((61, 70), (62, 80), True), ((60, 70), (62, 80), True),
        ((59, 70), (62, 80), False),
        ((10, 39), (11, 39), True), ((10, 39), (11, 40), False), ((10, 40), (11, 39), False), (None, (11, 39), False),
        ((10, 39), None, False),
    ],
)  # fmt: skip
def test_what_the_footer_tells_of_a_row_group(issued, completed, is_outside):
    def statistics(told):
        return SimpleNamespace(has_min_max=True, min=told[0], max=told[1]) if told else None

    columns = [SimpleNamespace(statistics=statistics(one)) for one in (issued, completed)]
    group = SimpleNamespace(column=lambda at: columns[at])
    file = SimpleNamespace(
        metadata=SimpleNamespace(row_group=lambda _number: group),
        schema_arrow=SimpleNamespace(names=["issued_ns", "completed_ns"]),
    )
    assert _is_outside(file, 0, (40, 60)) == is_outside
    columns[0].statistics = SimpleNamespace(has_min_max=False)
    assert not _is_outside(file, 0, (40, 60))
