"""DiskSpd's XML output (``-Rxml``), versions 2.0 to 2.2: one run for each timespan; and what its text has in common.

Elements as its XmlResultParser writes them, and facts of its README. It gives no totals: they are the sums over threads
and targets, whose series by interval make most of the file, so the file is read element by element.
"""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError
from iotrace.schemas.units import SECOND_NS

from .run import (
    MILLISECOND_NS,
    SERVICE,
    Figure,
    OpResult,
    Run,
    added,
    nanoseconds,
    real,
    small,
    whole,
)
from .trace import CutOff, result_format

_FILE_BYTES_MAX: Final = 2 << 30
_COUNTS: Final = {
    "read": ("ReadCount", "ReadBytes"),
    "write": ("WriteCount", "WriteBytes"),
    "total": ("IOCount", "BytesCount"),
}
_MEANS: Final = {
    "read": ("AverageReadMilliseconds", "ReadLatencyStdev"),
    "write": ("AverageWriteMilliseconds", "WriteLatencyStdev"),
    "total": ("AverageTotalMilliseconds", "LatencyStdev"),
}
_IOPS_STDDEV: Final = {"read": "ReadIopsStdDev", "write": "WriteIopsStdDev", "total": "IopsStdDev"}
TOOL: Final = "diskspd"
OPS: Final = ("read", "write", "total")
_PATH_VERSION: Final = re.compile(r"diskspd[-._ ]?v?(\d+\.\d+(?:\.\d+[a-z]?)?)[\\/]", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2}) (\d{1,2}):(\d{2}):(\d{2}) UTC")
_LOOP_CHANGED: Final = (2, 2)


def _recognises(text: str) -> bool:
    start = text[:2048]
    return "<Results>" in start and "<Tool>" in start and "<ComputerName>" in start


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    version: str | None = None
    run_time: str | None = None
    spans: list[ET.Element] = field(default_factory=list)
    """``TimeSpan`` of the profile."""
    counts: list[dict[str, int | None]] = field(default_factory=list)
    """Sums of the results that are being read, one for each target of each thread."""
    runs: list[Run] = field(default_factory=list)


def parse(path: Path, name: str) -> list[Run]:
    """One run for each timespan that is whole. Raises `IotraceError` for XML that defines a document type."""
    if path.stat().st_size > _FILE_BYTES_MAX:
        raise IotraceError(f"'{name}' is over 2 GiB", hint="run DiskSpd with fewer threads or without -D")
    with path.open("rb") as file:
        # Entities can be made to grow without bound; DiskSpd defines none.
        if b"<!DOCTYPE" in file.read(1 << 16).replace(b"\0", b""):
            raise IotraceError(
                f"'{name}' defines a document type of its own", hint="DiskSpd's output has none"
            )
        file.seek(0)
        reading = _Reading()
        try:
            _read(ET.iterparse(file, events=("start", "end")), reading, Path(name).stem)  # noqa: S314 - see above
        except (ET.ParseError, LookupError, ValueError):  # cut off, or in an encoding that there is not
            raise CutOff(reading.runs) from None
    if len(reading.runs) < len(reading.spans):
        raise CutOff(reading.runs)
    return reading.runs


def _read(events: "ET.Iterator[tuple[str, ET.Element]]", reading: _Reading, stem: str) -> None:  # type: ignore[name-defined]
    above: list[str] = []
    for event, element in events:
        if event == "start":
            above.append(element.tag)
            continue
        above.pop()
        place = "/".join(above[-3:])
        if element.tag == "Version" and place.endswith("System/Tool"):
            reading.version = (element.text or "").strip() or None
        elif element.tag == "RunTime" and place.endswith("System"):
            reading.run_time = element.text
        elif element.tag == "TimeSpan" and place.endswith("Profile/TimeSpans"):
            reading.spans.append(element)
        elif element.tag == "Target" and place.endswith("TimeSpan/Thread"):
            reading.counts.append(_counts(element))
            element.clear()
        elif element.tag == "TimeSpan" and place == "Results":
            run = _run(element, reading, stem)
            if run is not None:
                reading.runs.append(run)
            reading.counts = []
            element.clear()


def _counts(target: ET.Element) -> dict[str, int | None]:
    return {tag: whole(target.findtext(tag)) for tags in _COUNTS.values() for tag in tags}


def _run(element: ET.Element, reading: _Reading, stem: str) -> Run | None:
    number = len(reading.runs)
    span = reading.spans[number] if number < len(reading.spans) else ET.Element("TimeSpan")
    seconds = real(element.findtext("TestTimeSeconds"))
    if not seconds or not reading.counts:
        return None
    warmup_s = small(span.findtext("Warmup")) or 0
    targets = span.findall("Targets/Target")
    run = Run(
        f"{stem} timespan {number + 1}" if len(reading.spans) > 1 else stem,
        TOOL,
        target=", ".join(target.findtext("Path") or "" for target in targets) or None,
        started_utc_ns=started_utc_ns(reading.run_time, warmup_s) if number == 0 else None,
        duration_ns=round(seconds * SECOND_NS) if seconds < 1e9 else None,
        threads=small(element.findtext("ThreadCount")),
        ops=[_op(op, element, span, reading.counts, seconds) for op in OPS],
    )
    _load(run, span, targets)
    run.figures += _processor(element)
    run.figures += _series(element)
    return finish(run, reading.version)


def _op(
    op: str, element: ET.Element, span: ET.Element, counts: list[dict[str, int | None]], seconds: float
) -> OpResult:
    ios, size = _COUNTS[op]
    one = OpResult(op, ios=added(each[ios] for each in counts), bytes=added(each[size] for each in counts))
    one.iops_stddev = real(element.findtext(f"Iops/{_IOPS_STDDEV[op]}"))
    interval_ms = small(span.findtext("IoBucketDuration"))
    if one.iops_stddev is not None and interval_ms:
        one.iops_intervals = small(int(seconds * 1000 // interval_ms))
    latency = element.find("Latency")
    if latency is not None:
        mean, stddev = (nanoseconds(real(latency.findtext(tag))) for tag in _MEANS[op])
        one.latency_ns_mean = None if mean is None else float(mean)
        one.latency_ns_stddev = None if stddev is None else float(stddev)
        _take_percentiles(one, latency)
    return with_rate(one, seconds)


def _take_percentiles(one: OpResult, latency: ET.Element) -> None:
    one.latency_clock = SERVICE
    for bucket in latency.findall("Bucket"):
        percentile = real(bucket.findtext("Percentile"))
        latency_ns = nanoseconds(real(bucket.findtext(f"{one.op.capitalize()}Milliseconds")))
        if percentile is None or latency_ns is None or percentile > 100:
            continue
        if percentile == 0:
            one.latency_ns_min = latency_ns
        elif percentile == 100:
            one.latency_ns_max = latency_ns
        else:
            one.quantiles.append((_quantile(bucket.findtext("Percentile") or ""), latency_ns))


def _quantile(percentile: str) -> float:
    """A share of 1, rounded to the digits it is written with: 99.9 is 0.999 and not what division gives."""
    decimals = len(percentile.strip().partition(".")[2])
    return round(float(percentile) / 100, decimals + 2)


def _load(run: Run, span: ET.Element, targets: list[ET.Element]) -> None:
    """What the load was: I/Os outstanding, their size and place, rates asked for."""
    sizes = {small(target.findtext("BlockSize")) for target in targets}
    run.size_bytes = sizes.pop() if len(sizes) == 1 else None
    accesses = {_access(target) for target in targets}
    run.access = accesses.pop() if len(accesses) == 1 else "mixed" if accesses else None
    requests = [small(target.findtext("RequestCount")) for target in targets]
    if pool := small(span.findtext("ThreadCount")):
        each = small(span.findtext("RequestCount")) or added(requests)
        run.outstanding = None if each is None else small(pool * each)
        threads_of = [pool for _ in targets]
    else:
        threads_of = [small(target.findtext("ThreadsPerFile")) or 0 for target in targets]
        products = zip(requests, threads_of, strict=True)
        run.outstanding = small(
            added(None if count is None else count * threads for count, threads in products)
        )
    rates = [_rate(target, threads) for target, threads in zip(targets, threads_of, strict=True)]
    if rates and all(rate is not None for rate in rates):
        run.offered_iops = sum(rate for rate in rates if rate is not None)


def _access(target: ET.Element) -> str:
    ratio = small(target.findtext("RandomRatio"))
    if ratio is not None:
        return "random" if ratio >= 100 else "mixed" if ratio else "sequential"
    return "random" if (small(target.findtext("Random")) or 0) > 0 else "sequential"


def _rate(target: ET.Element, threads: int) -> float | None:
    """I/Os per second that a target is limited to: bytes per millisecond and thread, or I/Os since 2.1."""
    limit = target.find("Throughput")
    rate, size = small(limit.text if limit is not None else None), small(target.findtext("BlockSize"))
    if limit is None or not rate:
        return None
    if (limit.get("unit") or "").upper() == "IOPS":
        return float(rate * threads)
    return rate * 1000 * threads / size if size else None


def _processor(element: ET.Element) -> list[Figure]:
    average = element.find("CpuUtilization/Average")
    if average is None:
        return []
    shares = {tag: real(average.findtext(f"{tag}Percent")) for tag in ("Usage", "User", "Kernel", "Idle")}
    return [
        Figure("Processor", f"{tag.lower()} mean", share, "%")
        for tag, share in shares.items()
        if share is not None
    ]


def _series(element: ET.Element) -> list[Figure]:
    """I/Os per second and mean latency of each interval, of all targets together."""
    figures = []
    before_ms = 0
    for bucket in element.findall("Iops/Bucket"):
        at_ms = small(bucket.get("SampleMillisecond"))
        if at_ms is None or at_ms <= before_ms:
            continue
        at_ns, interval_ns = at_ms * MILLISECOND_NS, (at_ms - before_ms) * MILLISECOND_NS
        before_ms = at_ms
        for op, prefix in (("Read", "read_"), ("Write", "write_"), ("Total", "")):
            iops = real(bucket.get(op))
            if iops is not None:
                figures.append(
                    Figure(
                        "DiskSpd",
                        f"{op} I/Os per second",
                        iops,
                        "1/s",
                        metric=f"{prefix}iops",
                        at_ns=at_ns,
                        interval_ns=interval_ns,
                    )
                )
            mean_ns = nanoseconds(real(bucket.get(f"{op}AvgLatencyMilliseconds")))
            if mean_ns:
                figures.append(
                    Figure(
                        "DiskSpd",
                        f"mean {op.lower()} latency",
                        mean_ns,
                        "ns",
                        metric=f"{prefix}latency_ns",
                        at_ns=at_ns,
                        interval_ns=interval_ns,
                    )
                )
    return figures


FORMAT: Final = result_format("diskspd-xml", TOOL, _recognises, parse)


def version_in_path(command: str | None) -> str | None:
    """The version that the folder of the program is named after, which the text output tells nowhere else."""
    found = _PATH_VERSION.search(command or "")
    return found[1] if found else None


def started_utc_ns(text: str | None, warmup_s: int) -> int | None:
    """Start of the measured time: DiskSpd's own start and its warm-up. Filling the file before is not told."""
    found = _TIME.search(text or "")
    if not found:
        return None
    try:
        moment = datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return None
    return (int(moment.timestamp()) + warmup_s) * SECOND_NS


def finish(run: Run, version: str | None) -> Run:
    """``run`` with its version, and what it means for the figures."""
    run.tool_version = version
    numbers = tuple(int(part) for part in re.findall(r"\d+", version or "")[:2])
    # The change concerns more than one outstanding I/O; a bound such as "before 2.1" is told by its own word.
    if numbers >= _LOOP_CHANGED and not (version or "").startswith("before") and (run.outstanding or 2) > 1:
        run.notes.append(
            "DiskSpd 2.2 drains completions sooner than 2.1: with more than one I/O outstanding its latencies are "
            "lower for the same storage"
        )
    if not any(one.latency_ns_mean is not None for one in run.ops):
        run.notes.append("latency was not measured: run DiskSpd with -L")
    return run


def with_rate(one: OpResult, duration_s: float | None) -> OpResult:
    """``one`` with its rates, where they are not told, from its counts."""
    if one.iops is None and one.ios is not None and duration_s:
        one.iops = one.ios / duration_s
    if one.bytes is not None and one.ios and one.iops is not None:
        # Rates per second are printed more exactly in I/Os than in MiB.
        one.bytes_per_second = one.iops * one.bytes / one.ios
    elif one.ios == 0:
        one.bytes_per_second = 0.0
    return one
