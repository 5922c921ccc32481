"""Slow windows on several hosts, from their I/Os to what they share."""

import numpy as np
import pytest

from iotrace.analyze.fleet import incident_fleet, read_groups
from iotrace.analyze.fleet.incidents import incidents_of
from iotrace.analyze.fleet.presentation import fleet_incidents_answer
from iotrace.analyze.fleet.summary import Unread
from iotrace.schemas import Clock, IotraceError

START_NS = 1_780_000_000_000_000_000
SLOW_S = (100, 130)
ARRAYS = {"a1": {"array": "A"}, "a2": {"array": "A"}, "a3": {"array": "A"}, "a4": {"array": "A"},
          "b1": {"array": "B"}, "b2": {"array": "B"}, "b3": {"array": "B"}}  # fmt: skip


@pytest.fixture
def record(make_recording):
    """Call with how far the host's clock is late and whether it was slow: reads of four minutes, found to be slow."""

    def make(number, *, late_s, is_slow):
        random = np.random.default_rng(number)
        issued_s = np.sort(random.uniform(0, 240, 24_000))
        took_ms = random.lognormal(0, 0.3, len(issued_s))
        took_ms[(issued_s >= SLOW_S[0]) & (issued_s < SLOW_S[1]) & is_slow] *= 6
        issued_ns = (issued_s * 1e9).astype(np.int64)
        return make_recording(
            {"issued_ns": issued_ns, "completed_ns": issued_ns + (took_ms * 1e6).astype(np.int64)},
            window_ns=240_000_000_000,
            clock=Clock(START_NS + round(late_s * 1e9), 1.0, "test"),
        ).path

    return make


def test_hosts_on_one_array_that_slowed_together_are_named(record):
    late_s = dict(zip(ARRAYS, (-1.5, 0.4, 1.2, 0.0, 0.8, -0.3, 1.0), strict=True))
    paths = {
        host: record(number, late_s=late_s[host], is_slow=host.startswith("a"))
        for number, host in enumerate(ARRAYS)
    }
    each = [incidents_of(path) for path in paths.values()]
    found = incident_fleet(each, {path.stem: ARRAYS[host] for host, path in paths.items()})
    (shared,) = found.shared
    assert abs(shared.start_s - (START_NS / 1e9 + SLOW_S[0])) < 2
    assert abs(shared.end_s - (START_NS / 1e9 + SLOW_S[1])) < 4
    assert {one.host for one in shared.hosts} == {paths[host].stem for host in ARRAYS if host.startswith("a")}
    assert all(one.window.factor == pytest.approx(6, rel=0.2) for one in shared.hosts)
    assert shared.group is not None
    assert (shared.group.kind, shared.group.name) == ("array", "A")
    assert (shared.group.slow_count, shared.group.others_slow_count, shared.group.others_count) == (4, 0, 3)
    # The first host's clock is 1.5 s behind, so its window is the first by that clock.
    assert shared.hosts[0].host == paths["a1"].stem


def test_a_host_without_latencies_is_told_and_counts_neither_as_slow_nor_as_not(record, make_recording):
    paths = {
        host: record(number, late_s=0, is_slow=host.startswith("a")) for number, host in enumerate(ARRAYS)
    }
    counted = make_recording(
        {"issued_ns": np.arange(0, 240_000_000_000, 10_000_000)},
        window_ns=240_000_000_000,
        clock=Clock(START_NS, 1.0, "test"),
    ).path
    each = [incidents_of(path) for path in [*paths.values(), counted]]
    groups = {path.stem: ARRAYS[host] for host, path in paths.items()} | {counted.stem: {"array": "A"}}
    found = incident_fleet(each, groups)
    assert found.unread == []
    assert [one.host for one in found.hosts if not one.has_latency] == [counted.stem]
    (shared,) = found.shared
    assert shared.recorded_count == len(ARRAYS)
    assert (shared.group.slow_count, shared.group.host_count, shared.group.others_count) == (4, 4, 3)
    assert f"No latencies to judge by: {counted.stem}" in [
        one.text for one in fleet_incidents_answer(found).opening
    ]


def test_what_cannot_be_read_is_named_and_the_others_are_not_lost(record, tmp_path):
    path = record(1, late_s=0, is_slow=True)
    (tmp_path / "broken.iotrace").mkdir()
    found = incident_fleet([incidents_of(path), incidents_of(tmp_path / "broken.iotrace")], {})
    assert [one.path for one in found.unread] == [str(tmp_path / "broken.iotrace")]
    assert len(found.hosts[0].windows) == 1
    with pytest.raises(IotraceError, match="none of 1 recordings can be read"):
        incident_fleet([Unread("x", "gone")], {})


def test_groups_that_name_none_of_the_hosts_are_refused(record):
    with pytest.raises(IotraceError, match="none of the hosts is one that the groups name: db01"):
        incident_fleet([incidents_of(record(1, late_s=0, is_slow=False))], {"db01": {"array": "A"}})


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_groups_are_a_table_of_hosts(tmp_path, delimiter):
    path = tmp_path / "hosts.csv"
    text = "\ufeffHost,Array, hypervisor\ndb01,A,esx1\ndb02,B,\n\n"
    path.write_text(text.replace(",", delimiter), "utf-8")
    assert read_groups(path) == {"db01": {"array": "A", "hypervisor": "esx1"}, "db02": {"array": "B"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column host"),
        ("name,array\na,b\n", "no column host"),
        ("host\na\n", "nothing beside it"),
        ("host,array\na,A\na,B\n", "names the host 'a' twice"),
        ('host,array\n"a,A\n', "is not a table"),
    ],
)
def test_what_is_no_table_of_hosts_is_named(tmp_path, text, said):
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    with pytest.raises(IotraceError, match=said) as caught:
        read_groups(path)
    assert "hosts.csv" in caught.value.message
