"""What the answer says of planted incidents: who was hit, which are one, and when it was storage."""

from dataclasses import dataclass

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.presentation import incident_answer

S = 1_000_000_000
SECONDS = 600


@dataclass
class Ios:
    """I/Os in order of time, 70 % reads, on disks without a queue: tests change ``latency_s``."""

    at_s: np.ndarray
    disk: np.ndarray
    latency_s: np.ndarray

    def during(self, start_s, end_s, disk):
        return (self.at_s >= start_s) & (self.at_s < end_s) & (self.disk == disk)


def ios_of(random, at_s, disks):
    at_s = np.sort(at_s)
    return Ios(at_s, random.integers(0, disks, len(at_s)), 0.001 * random.lognormal(0, 0.5, len(at_s)))


def poisson(random, per_s, start_s=0, end_s=SECONDS):
    return random.uniform(start_s, end_s, random.poisson(per_s * (end_s - start_s)))


def recorded(make_recording, random, ios):
    disks = range(int(ios.disk.max()) + 1)
    issued = np.round(ios.at_s * S).astype(np.int64)
    columns = {
        "issued_ns": issued,
        "completed_ns": issued + np.round(ios.latency_s * S).astype(np.int64),
        "op": np.where(random.random(len(issued)) < 0.7, "read", "write"),
        "device_id": ios.disk,
    }
    devices = [{"device_id": disk, "name": f"sd{'abcd'[disk]}", "kind": "disk"} for disk in disks]
    return make_recording(columns, SECONDS * S, tables={"devices": devices})


def opening_of(recording):
    answer = incident_answer(incident(recording), 0, recording.name, recording.manifest.quality, [])
    return [sentence.text for sentence in answer.opening]


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_got_slow_is_named_and_not_reads(seed, make_recording):
    """One disk of four takes three times as long for 20 s; no file is known."""
    random = np.random.default_rng(seed)
    ios = ios_of(random, poisson(random, 400), 4)
    ios.latency_s[ios.during(300, 320, 2)] *= 3
    assert any(
        said.startswith("Hit hardest: device sdc, ")
        for said in opening_of(recorded(make_recording, random, ios))
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_disk_that_load_came_from_is_named_and_not_reads(seed, make_recording):
    """Two disks of one server; I/Os of one of them are six times as many for 40 s."""
    random = np.random.default_rng(seed)
    at_s, more_s = poisson(random, 350), poisson(random, 500, 300, 340)
    ios = ios_of(random, np.concatenate([at_s, more_s]), 1)
    ios.disk[:] = np.where(np.isin(ios.at_s, more_s) | (random.random(len(ios.at_s)) < 0.3), 1, 0)
    ios.latency_s[:] = served_s(ios.at_s, random.exponential(0.001, len(ios.at_s)))
    assert any(
        said.startswith("Load from: device sdb, ")
        for said in opening_of(recorded(make_recording, random, ios))
    )


def served_s(at_s, service_s):
    """How long each takes that one server answers one after another (Lindley's recursion, in its closed form)."""
    total = np.cumsum(service_s)
    return total + np.maximum.accumulate(at_s - total + service_s) - at_s


@pytest.mark.parametrize("seed", range(3))
def test_where_all_got_slow_alike_reads_are_not_blamed(seed, make_recording):
    random = np.random.default_rng(seed)
    ios = ios_of(random, poisson(random, 400), 1)
    ios.latency_s[ios.during(300, 320, 0)] *= 3
    said = opening_of(recorded(make_recording, random, ios))
    assert said[1].startswith("Slow once")
    assert not any("operation" in line for line in said)
