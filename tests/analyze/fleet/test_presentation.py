"""What is said of a fleet, the reasons for doubt first."""

from dataclasses import replace

import pytest

from iotrace.analyze.describe.description import Latency
from iotrace.analyze.fleet import fleet_answer, incident_fleet
from iotrace.analyze.fleet.description import Fleet, Host, Outlier, Peak
from iotrace.analyze.fleet.presentation import fleet_incidents_answer
from iotrace.analyze.fleet.shared import HostIncidents, HostWindow
from iotrace.analyze.fleet.summary import Unread
from iotrace.analyze.units import DASH

NIGHT_NS = 1_767_400_000_000_000_000


def host(name: str, ios_per_s: float, **more: object) -> Host:
    latency = Latency(1000, 400_000.0, 9_000_000, {"p50": 300_000, "p99": 2_000_000}, "excellent")
    one = Host(
        host=name, own_host=name, path=f"{name}.iotrace", uuid=name, kind="captured", start_utc_ns=NIGHT_NS,
        window_ns=300 * 10**9, io_count=1000, size_bytes=8_192_000, ios_per_s=ios_per_s, bytes_per_s=ios_per_s * 8192,
        read_share_of_ios=0.7, queue_length_mean=0.5, read=latency, write=latency,
        counted_ios_per_s=None, peak=Peak(1_767_400_100, 2 * ios_per_s), quality="good", spoilt_by=(),
    )  # fmt: skip
    return replace(one, **more)


@pytest.fixture
def fleet() -> Fleet:
    hosts = [host("sql01", 3000), host("sql02", 1000)]
    return Fleet(
        hosts=hosts, metric="service", ios_per_s=4000, bytes_per_s=4000 * 8192, io_count=2000, size_bytes=16_384_000,
        read_share_of_ios=0.7, read=hosts[0].read, write=hosts[0].write, peak=Peak(1_767_400_100, 6000.0),
        peaks_ios_per_s=8000.0, coincidence=0.75, recorded_at_peak=2, together_most=2, undated=[],
        outliers=[], unread=[],
    )  # fmt: skip


def said(fleet: Fleet) -> list[str]:
    return [sentence.text for sentence in fleet_answer(fleet).opening]


def test_the_opening_says_when_how_busy_and_how_slow(fleet):
    assert said(fleet) == [
        "2 recordings, 2026-01-03 00:26:40 to 00:31:40 UTC, all recorded at the same time",
        "Load: 4,000 I/Os/s of 8.0 KiB, 70 % reads, 32.8 MB/s",
        "Peak: 6,000 I/Os/s at 2026-01-03 00:28:20 UTC, 75 % of the hosts' peaks summed",
        "Latency: reads 0.40 ms, p99 2.00 ms; writes 0.40 ms, p99 2.00 ms",
        "Trust: recorded without known loss, all of them",
    ]


def test_several_recordings_of_one_machine_are_said_to_be_no_several_hosts(fleet):
    of_one = [replace(one, own_host="sql") for one in fleet.hosts]
    words = "All are recordings of one machine: what is summed is not the load of several hosts"
    assert said(replace(fleet, hosts=of_one))[1] == words
    assert words not in said(fleet)
    assert words not in said(replace(fleet, hosts=of_one[:1]))


def test_what_cannot_be_read_or_relied_on_comes_second(fleet):
    spoilt = host("sql02", 1000, spoilt_by=("the trace lacks I/Os that the disks counted",))
    answer = said(
        replace(
            fleet,
            hosts=[fleet.hosts[0], spoilt],
            unread=[Unread("x", "'x.iotrace' is a file, not a recording")],
        )
    )
    assert answer[0].startswith("2 recordings")
    assert answer[1:3] == [
        "Left out: 'x.iotrace' is a file, not a recording",
        "Not to be relied on: sql02 (the trace lacks I/Os that the disks counted)",
    ]
    assert not any(words.startswith("Trust") for words in answer)


def test_hosts_that_stand_out_are_named(fleet):
    assert "Slower than the median host: sql02 (reads 6.00x)" in said(
        replace(fleet, outliers=[Outlier("sql02", "read", 2.4e6, 6.0)])
    )


def test_there_is_a_row_for_each_host(fleet):
    (section,) = fleet_answer(fleet).sections
    assert section.table is not None
    assert [str(row[0]) for row in section.table.rows] == ["sql01", "sql02"]


def test_hosts_that_were_not_recorded_at_once_have_no_load_together(fleet):
    """On different nights: their sum was nobody's load, and the peak is one host's."""
    apart = replace(fleet, together_most=1, recorded_at_peak=1, coincidence=None)
    assert said(apart)[1:3] == [
        "Load, if all ran at once: 4,000 I/Os/s of 8.0 KiB, 70 % reads, 32.8 MB/s",
        "Peak: 6,000 I/Os/s, from 2026-01-03 00:28:20 UTC, when 1 of the 2 were being recorded throughout",
    ]


def counted(name: str, ios_per_s: float) -> Host:
    return host(
        name, 0.0, io_count=0, size_bytes=0, peak=None, read=None, write=None, counted_ios_per_s=ios_per_s
    )


def test_hosts_of_which_only_counters_were_recorded_are_named_before_the_load_without_theirs(fleet):
    mixed = replace(fleet, hosts=[counted("sql09", 5000.0), *fleet.hosts], together_most=3)
    assert said(mixed)[1:3] == [
        "Not in these figures, because only counters were recorded: sql09, 5,000 I/Os/s",
        "Load: 4,000 I/Os/s of 8.0 KiB, 70 % reads, 32.8 MB/s",
    ]
    (section,) = fleet_answer(mixed).sections
    assert section.table.rows[0][1].value == 5000


def test_of_counters_alone_the_sum_of_their_rates_is_told(fleet):
    alone = replace(fleet, hosts=[counted("sql08", 100.0), counted("sql09", 300.0)], io_count=0)
    assert said(alone)[1].startswith("Load by counters: 400 I/Os/s;")


def test_of_many_that_cannot_be_read_three_are_told(fleet):
    unread = [Unread(f"{name}.iotrace", f"'{name}' is damaged") for name in "abcde"]
    assert said(replace(fleet, unread=unread))[1:5] == [
        "Left out: 'a' is damaged", "Left out: 'b' is damaged", "Left out: 'c' is damaged",
        "Left out, too: d.iotrace, e.iotrace",
    ]  # fmt: skip


def night(name: str, *slow_s: float, start_s: float = 1000.0, is_told: bool = True) -> HostIncidents:
    """A quarter of an hour with a slow minute from each of these seconds on."""
    windows = tuple(
        HostWindow(start_s + at_s, start_s + at_s + 60, 2.0, "device", "service-driven", "slow")
        for at_s in slow_s
    )
    return HostIncidents(name, name, f"{name}.iotrace", start_s, start_s + 900, 1.0, windows, is_told=is_told)


@pytest.mark.parametrize(
    ("hosts", "opening"),
    [
        ([night("a"), night("b")], ["2 hosts: no slow window on any of them"]),
        (
            [night("a"), night("b", is_told=False)],
            ["2 hosts: no slow window on any of the others", "Too few I/Os to say what is normal: b"],
        ),
        (
            [night("a", is_told=False), night("b", is_told=False)],
            ["2 hosts: whether they were slow cannot be told", "Too few I/Os to say what is normal: a, b"],
        ),
        ([night("a", 100), night("b", 160)], ["2 hosts: 2 with slow windows, no two at the same moment"]),
        (
            [night("a", 100), night("b", 20, 159)],
            ["2 hosts: 2 with slow windows, some at the same moment, but no more than chance may make"],
        ),
        (
            [night("a", 100), night("b", start_s=0)],
            ["2 hosts: 1 with slow windows, none to compare its clock with"],
        ),
    ],
)
def test_what_is_said_where_hosts_share_no_slow_window(hosts, opening):
    found = incident_fleet(hosts, {})
    assert found.shared == []
    assert [sentence.text for sentence in fleet_incidents_answer(found).opening][: len(opening)] == opening


def test_recordings_of_one_host_are_not_said_to_be_apart():
    hosts = [replace(night(name, 100), host="sql") for name in ("monday", "monday-again")]
    found = incident_fleet(hosts, {})
    assert (
        fleet_incidents_answer(found).opening[0].text
        == "2 hosts: 2 with slow windows, but all are recordings of one machine"
    )


def test_a_host_that_cannot_be_told_has_no_count():
    answer = fleet_incidents_answer(incident_fleet([night("a", 100), night("b", is_told=False)], {}))
    (each,) = [one for one in answer.sections if one.heading == "Each host"]
    assert [row[:3] for row in each.table.rows] == [("a", "1", "1"), ("b", DASH, DASH)]
