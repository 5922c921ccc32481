"""Adds hosts up: load, latency over all their I/Os, the peak of all at the same moment, and who stands out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iotrace.analyze.describe.description import Latency
from iotrace.analyze.stats.histogram import added_up
from iotrace.schemas import IotraceError
from iotrace.schemas.arrays import Int64s
from iotrace.schemas.units import SECOND_NS

from .summary import HostSummary, Seconds, Unread, distinct_hosts

PEAK_SECONDS: Final = 60
"""Length of the busiest stretch. Clocks of different hosts may be seconds apart, which matters little to a minute."""
_TOGETHER_SHARE: Final = 0.9
"""Of a stretch, how much recordings must cover to have been made at the same time. Clocks may be seconds apart."""
_HOSTS_MIN: Final = 5
"""With fewer, none can be said to stand out."""
_OUTLIER_ERRORS: Final = 3.5
"""Iglewicz and Hoaglin 1993: modified z-scores above 3.5 are outliers."""
_NORMAL_MAD: Final = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""
_OUTLIER_FACTOR: Final = 2.0
"""Nobody calls storage slow that takes less than twice as long as the median host's, however alike the others are."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The stretch of `PEAK_SECONDS` with the most reads and writes, wherever it begins."""

    utc_s: int
    ios_per_s: float


@dataclass(frozen=True, slots=True)
class Outlier:
    """A host whose mean latency is far above that of the others."""

    host: str
    op: str
    mean_ns: float
    times_median: float


@dataclass(frozen=True, slots=True)
class Host:
    """One row: a recording of the fleet."""

    host: str
    own_host: str
    """The machine, which is the same for several recordings of it; ``host`` tells these apart."""
    path: str
    uuid: str
    kind: str
    start_utc_ns: int | None
    window_ns: int
    io_count: int
    size_bytes: int
    ios_per_s: float
    bytes_per_s: float
    read_share_of_ios: float | None
    queue_length_mean: float
    read: Latency | None
    write: Latency | None
    counted_ios_per_s: float | None
    """By its counters, which alone were recorded: in no sum; None where there are I/Os, or no rates."""
    peak: Peak | None
    """None for a recording without a date, or shorter than `PEAK_SECONDS`."""
    quality: str
    spoilt_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """Many recordings. Rates are each host's own mean over its own window, added up."""

    hosts: list[Host]
    """The busiest first."""
    metric: str
    """service, or response where all are replays."""
    ios_per_s: float
    bytes_per_s: float
    io_count: int
    size_bytes: int
    read_share_of_ios: float | None
    read: Latency | None
    """Of all reads of all hosts; quantiles are those of the histograms added up."""
    write: Latency | None
    peak: Peak | None
    """Of all hosts at the same moment, those without a date or shorter than `PEAK_SECONDS` left out; None below two."""
    peaks_ios_per_s: float | None
    """The same hosts' own peaks, added up."""
    coincidence: float | None
    """``peak`` over ``peaks_ios_per_s``: 1 if all hosts are busiest at the same moment; None where not all of them were
    being recorded at the peak."""
    recorded_at_peak: int | None
    """Hosts that were being recorded throughout ``peak``."""
    together_most: int
    """The most hosts that were being recorded at the same time for `PEAK_SECONDS`, or as long as the shortest was."""
    undated: list[str]
    outliers: list[Outlier]
    unread: list[Unread]


def describe_fleet(found: Sequence[HostSummary | Unread]) -> Fleet:
    """Add up what was kept of each recording.

    What does not add up is left out, as what cannot be read is (`without_misfits`). Raises `IotraceError` where nothing
    can be read.
    """
    found = without_misfits(found)
    unread = [one for one in found if isinstance(one, Unread)]
    read = [one for one in found if isinstance(one, HostSummary)]
    summaries = _with_distinct_names(read)
    own_host = {one.path: one.host for one in read}
    if not summaries:
        raise IotraceError(
            f"none of {len(unread)} recordings can be read; {unread[0].problem}",
            hint="iotrace validate RECORDING tells what is left of one",
        )
    hosts = sorted(
        (_host(one, own_host[one.path]) for one in summaries),
        key=lambda one: (-(one.ios_per_s or one.counted_ios_per_s or 0.0), one.host),
    )
    dated = [one for one in summaries if one.start_utc_ns is not None]
    own = {one.path: peak for one in dated if (peak := busiest(one.seconds, one.window_ns)) is not None}
    placed = [one for one in dated if one.path in own]
    peak = busiest(all_seconds(placed), max((one.window_ns for one in placed), default=0))
    together = peak if len(own) > 1 else None
    own_ios_per_s = sum(one.ios_per_s for one in own.values())
    at_peak = sum(_shares(one, together) for one in dated) if together else None
    io_count = sum(one.io_count for one in summaries)
    return Fleet(
        hosts=hosts,
        metric=summaries[0].metric,
        ios_per_s=sum(one.ios_per_s for one in summaries),
        bytes_per_s=sum(one.bytes_per_s for one in summaries),
        io_count=io_count,
        size_bytes=sum(one.size_bytes for one in summaries),
        read_share_of_ios=sum(one.read_count for one in summaries) / io_count if io_count else None,
        read=_latency(summaries, "read"),
        write=_latency(summaries, "write"),
        peak=together,
        peaks_ios_per_s=own_ios_per_s if together else None,
        coincidence=together.ios_per_s / own_ios_per_s if together and at_peak == len(summaries) else None,
        recorded_at_peak=at_peak,
        together_most=_together_most(dated),
        undated=[one.host for one in summaries if one.start_utc_ns is None],
        outliers=_outliers(hosts),
        unread=unread,
    )


def _shares(one: HostSummary, peak: Peak) -> bool:
    """Whether a recording with a date covers a peak, but for what clocks may be apart."""
    start_ns, peak_ns = one.start_utc_ns or 0, peak.utc_s * SECOND_NS
    first_ns = max(start_ns, peak_ns)
    until_ns = min(start_ns + one.window_ns, peak_ns + PEAK_SECONDS * SECOND_NS)
    return until_ns - first_ns >= _TOGETHER_SHARE * PEAK_SECONDS * SECOND_NS


def busiest(seconds: Seconds, window_ns: int) -> Peak | None:
    """The fullest stretch of `PEAK_SECONDS`, to a second; None where so much was not recorded or nothing came."""
    if window_ns < PEAK_SECONDS * SECOND_NS or not len(seconds.utc_s):
        return None
    before = np.concatenate([[0], np.cumsum(seconds.io_count)])
    ends = np.searchsorted(seconds.utc_s, seconds.utc_s + PEAK_SECONDS)
    carried = before[ends] - before[:-1]
    most = int(np.argmax(carried))
    return Peak(int(seconds.utc_s[most]), float(carried[most]) / PEAK_SECONDS)


def all_seconds(summaries: Sequence[HostSummary]) -> Seconds:
    """Reads and writes of all hosts by the second of UTC."""
    none: Int64s = np.zeros(0, np.int64)
    utc_s, places = np.unique(
        np.concatenate([none, *(one.seconds.utc_s for one in summaries)]), return_inverse=True
    )
    io_count = np.zeros(len(utc_s), np.int64)
    np.add.at(io_count, places, np.concatenate([none, *(one.seconds.io_count for one in summaries)]))
    return Seconds(utc_s, io_count)


def without_misfits(found: Sequence[HostSummary | Unread]) -> list[HostSummary | Unread]:
    """With copies of another recording, and replays beside captures, left out, and why."""
    first: dict[str, str] = {}
    captured = next((one for one in found if isinstance(one, HostSummary) and one.metric == "service"), None)
    kept: list[HostSummary | Unread] = []
    for one in found:
        if isinstance(one, Unread):
            kept.append(one)
        elif one.uuid in first:
            twin = first[one.uuid]
            words = (
                f"'{one.path}' is a copy of '{twin}'" if twin != one.path else f"'{twin}' was named before"
            )
            kept.append(Unread(one.path, words))
        elif captured is not None and one.metric != captured.metric:
            words = f"'{one.path}' was {one.kind}, and '{captured.path}' was {captured.kind}"
            kept.append(Unread(one.path, f"{words}: iotrace compare holds them against each other"))
        else:
            first[one.uuid] = one.path
            kept.append(one)
    return kept


def _with_distinct_names(summaries: Sequence[HostSummary]) -> list[HostSummary]:
    names = distinct_hosts([(one.host, one.recording, one.path) for one in summaries])
    return [replace(one, host=name) for one, name in zip(summaries, names, strict=True)]


def _host(one: HostSummary, own_host: str) -> Host:
    return Host(
        host=one.host,
        own_host=own_host or one.host,
        path=one.path,
        uuid=one.uuid,
        kind=one.kind,
        start_utc_ns=one.start_utc_ns,
        window_ns=one.window_ns,
        io_count=one.io_count,
        size_bytes=one.size_bytes,
        ios_per_s=one.ios_per_s,
        bytes_per_s=one.bytes_per_s,
        read_share_of_ios=one.read_count / one.io_count if one.io_count else None,
        queue_length_mean=one.queue_length_mean,
        read=_latency([one], "read"),
        write=_latency([one], "write"),
        counted_ios_per_s=one.counted_ios_per_s,
        peak=busiest(one.seconds, one.window_ns) if one.start_utc_ns is not None else None,
        quality=one.quality,
        spoilt_by=one.spoilt_by,
    )


def _latency(summaries: Sequence[HostSummary], op: str) -> Latency | None:
    merged = added_up(one.latency[op] for one in summaries if op in one.latency)
    return Latency.of(merged, summaries[0].metric) if merged.total else None


def _together_most(dated: Sequence[HostSummary]) -> int:
    """Recordings count as together that share such a stretch: so each ends that much earlier."""
    shortest_ns = min((one.window_ns for one in dated), default=0)
    stretch_ns = round(_TOGETHER_SHARE * min(PEAK_SECONDS * SECOND_NS, shortest_ns))
    borders = [(one.start_utc_ns or 0, 1) for one in dated]
    borders += [((one.start_utc_ns or 0) + one.window_ns - stretch_ns, -1) for one in dated]
    most = now = 0
    for _, change in sorted(borders):  # an end sorts before a beginning at the same moment
        now += change
        most = max(most, now)
    return most


def _outliers(hosts: Sequence[Host]) -> list[Outlier]:
    """Hosts whose mean latency stands out on a logarithmic scale, by the modified z-score; the slowest first."""
    found = []
    for op in ("read", "write"):
        means = {
            one.host: mean_ns
            for one in hosts
            if (latency := one.read if op == "read" else one.write) is not None
            and (mean_ns := latency.mean_ns)
        }
        if len(means) < _HOSTS_MIN:
            continue
        logs = np.log(list(means.values()))
        middle = float(np.median(logs))
        spread = float(np.median(np.abs(logs - middle)))
        for (host, mean_ns), above in zip(means.items(), logs - middle, strict=True):
            is_far = _NORMAL_MAD * above > _OUTLIER_ERRORS * spread
            if is_far and above >= np.log(_OUTLIER_FACTOR):
                found.append(Outlier(host, op, mean_ns, float(np.exp(above))))
    return sorted(found, key=lambda one: -one.times_median)
