"""What is said of a fleet, the reasons for doubt first."""

from dataclasses import replace

import pytest

from iotrace.analyze.describe.description import Latency
from iotrace.analyze.fleet import fleet_answer
from iotrace.analyze.fleet.description import Fleet, Host, Outlier, Peak
from iotrace.analyze.fleet.summary import Unread

NIGHT_NS = 1_767_400_000_000_000_000


def host(name: str, ios_per_s: float, **more: object) -> Host:
    latency = Latency(1000, 400_000.0, 9_000_000, {"p50": 300_000, "p99": 2_000_000}, "excellent")
    one = Host(
        host=name, path=f"{name}.iotrace", uuid=name, kind="captured", start_utc_ns=NIGHT_NS, window_ns=300 * 10**9,
        io_count=1000, size_bytes=8_192_000, ios_per_s=ios_per_s, bytes_per_s=ios_per_s * 8192, read_share_of_ios=0.7,
        queue_length_mean=0.5, read=latency, write=latency, peak=Peak(1_767_400_100, 2 * ios_per_s), quality="good",
        spoilt_by=(),
    )  # fmt: skip
    return replace(one, **more)


@pytest.fixture
def fleet() -> Fleet:
    hosts = [host("sql01", 3000), host("sql02", 1000)]
    return Fleet(
        hosts=hosts, metric="service", ios_per_s=4000, bytes_per_s=4000 * 8192, io_count=2000, size_bytes=16_384_000,
        read_share_of_ios=0.7, read=hosts[0].read, write=hosts[0].write, peak=Peak(1_767_400_100, 6000.0),
        peaks_ios_per_s=8000.0, coincidence=0.75, together_most=2, undated=[], outliers=[], unread=[],
    )  # fmt: skip


def said(fleet: Fleet) -> list[str]:
    return [sentence.text for sentence in fleet_answer(fleet).opening]


def test_the_opening_says_when_how_busy_and_how_slow(fleet):
    assert said(fleet) == [
        "2 recordings, 2026-01-03 00:26:40 to 00:31:40 UTC, all at once",
        "Load: 4,000 I/Os/s of 8.0 KiB, 70 % reads, 32.8 MB/s",
        "Peak: 6,000 I/Os/s, 75.0 % of the hosts' own peaks, from 2026-01-03 00:28:20 UTC",
        "Latency: reads 0.40 ms, p99 2.00 ms; writes 0.40 ms, p99 2.00 ms",
        "Trust: recorded without known loss, all of them",
    ]


def test_what_cannot_be_read_or_relied_on_comes_first(fleet):
    spoilt = host("sql02", 1000, spoilt_by=("the trace lacks I/Os that the disks counted",))
    answer = said(
        replace(
            fleet,
            hosts=[fleet.hosts[0], spoilt],
            unread=[Unread("x", "'x.iotrace' is a file, not a recording")],
        )
    )
    assert answer[:2] == [
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
