"""A fio job file: per group of files and band of sizes one job, with its split of sizes, its mix and its rate.

What was looked up in fio's manual (HOWTO) and source (3.33) and shaped this:

- With a split of sizes ``rate_iops`` counts every I/O as the smallest of them; ``rate``, in bytes per second, is exact.
  It is the rate in I/Os times the mean of the split as written, so that rounding the split does not change the IOPS.
- The bytes that a job lets through are steady, its I/Os only as far as sizes are alike: hence bands of sizes.
- ``bssplit`` takes whole percentages, up to 64 sizes.
- Sizes are rounded down to a multiple of the smallest in the split. An entry of 512 bytes with nothing left for it
  (fio shares what is missing from 100 % among entries of 0) makes that a multiple of 512.
- ``rate`` for each direction is kept whatever ``rwmixread`` says, if both directions have a share of at least 1 %.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from iotrace.schemas import IotraceError

from .places import Region, bytes_by_path, lay_out, plain
from .workload import SECTOR_BYTES, Coverage, LoadClass, Workload, outstanding

BAND_FACTOR_BITS = 2
"""Sizes of one band are less than a factor of 4 apart."""
SIZES_MAX = 63
"""Entries that fio allows in a split, less the one of 512 bytes."""
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True, slots=True)
class Side:
    """Reads, or writes, of one job."""

    ios: int
    """In the recording."""
    iops: float
    split: tuple[tuple[int, int], ...]
    """Sizes in bytes, rising, and their shares in whole percent."""
    exact_ios: int
    """I/Os of the recording whose very size is in the split."""
    random_percent: int

    @property
    def mean_bytes(self) -> float:
        """Mean size of the split."""
        return sum(size * percent for size, percent in self.split) / 100

    @property
    def bytes_per_s(self) -> int:
        """Rate for fio."""
        return max(1, round(self.iops * self.mean_bytes))


@dataclass(frozen=True, slots=True)
class Job:
    """Transfers of one group and band of sizes."""

    name: str
    group: str
    region: Region
    sides: Mapping[str, Side]
    """By ``read`` and ``write``; at least one of them."""
    in_flight: float

    @property
    def iops(self) -> float:
        """Rate of reads and writes."""
        return sum(side.iops for side in self.sides.values())

    @property
    def bytes_per_s(self) -> int:
        """Bytes read and written."""
        return sum(side.bytes_per_s for side in self.sides.values())


@dataclass(frozen=True, slots=True)
class Fio:
    """A job file's jobs, and what of the workload they carry."""

    jobs: tuple[Job, ...]
    regions: Mapping[str, Region]
    seconds: int
    coverage: Coverage
    exact_ios: float
    """Share of the workload's I/Os that keep their very size; the others of a job take a size nearby."""


def fio(workload: Workload, targets: Mapping[str | None, str], *, seconds: int) -> Fio:
    """Sort the classes into jobs. Jobs below a thousandth of I/Os and bytes, or of no I/O in the time, are left out."""
    bands: dict[tuple[str, int], list[LoadClass]] = defaultdict(list)
    for one in workload.classes:
        bands[one.group, _band(one.size_bytes)].append(one)
    kept = {key: classes for key, classes in bands.items() if _matters(workload, classes, seconds)}
    if not kept:
        kept = dict([max(bands.items(), key=lambda entry: sum(one.ios for one in entry[1]))])
    kept_groups = {group for group, _ in kept}
    groups = [group for group in workload.groups if group in kept_groups]
    regions = lay_out(workload, targets, lambda _number, group: f"iotrace-export-{plain(group)}.dat", groups)
    jobs = []
    for (group, band), classes in sorted(
        kept.items(), key=lambda entry: (groups.index(entry[0][0]), entry[0][1])
    ):
        sides = {}
        for op in ("read", "write"):
            of_op = [one for one in classes if one.op == op]
            if of_op:
                sides[op] = _side(of_op, workload.seconds)
        name = f"{plain(group)}-{band_name(band)}"
        in_flight = sum(one.in_flight for one in classes)
        jobs.append(Job(name, group, regions[group], sides, in_flight))
    carried = [one for classes in kept.values() for one in classes]
    return Fio(
        jobs=tuple(jobs),
        regions=regions,
        seconds=seconds,
        coverage=Coverage(
            sum(one.ios for one in carried) / workload.ios,
            sum(job.bytes_per_s for job in jobs) * workload.seconds / workload.bytes,
        ),
        exact_ios=sum(side.exact_ios for job in jobs for side in job.sides.values()) / workload.ios,
    )


def _band(size_bytes: int) -> int:
    return ((size_bytes // SECTOR_BYTES).bit_length() - 1) // BAND_FACTOR_BITS


def band_name(band: int) -> str:
    """Smallest size of the band and of the next: ``8k-32k``."""
    return "-".join(_short(SECTOR_BYTES << (BAND_FACTOR_BITS * at)) for at in (band, band + 1))


def _short(size_bytes: int) -> str:
    for unit, factor in (("m", 1 << 20), ("k", 1 << 10)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def _matters(workload: Workload, classes: Iterable[LoadClass], seconds: int) -> bool:
    ios, size = sum(one.ios for one in classes), sum(one.bytes for one in classes)
    within = ios / workload.seconds * seconds >= 1
    return within and (ios >= _NEGLIGIBLE * workload.ios or size >= _NEGLIGIBLE * workload.bytes)


def _side(classes: list[LoadClass], seconds: float) -> Side:
    by_size: dict[int, int] = defaultdict(int)
    for one in classes:
        by_size[one.size_bytes] += one.ios
    ios = sum(by_size.values())
    percents = apportion(by_size)
    random = sum(one.ios for one in classes if not one.sequential)
    return Side(
        ios=ios,
        iops=ios / seconds,
        split=tuple(sorted(percents.items())),
        exact_ios=sum(by_size[size] for size in percents),
        random_percent=round(100 * random / ios),
    )


def apportion(by_size: Mapping[int, int]) -> dict[int, int]:
    """Whole percentages, 100 in all, by largest remainder (Hamilton); sizes that come to none are left out."""
    total = sum(by_size.values())
    largest = sorted(by_size, key=lambda size: (-by_size[size], size))[:SIZES_MAX]
    total = sum(by_size[size] for size in largest)
    quotas = {size: 100 * by_size[size] / total for size in largest}
    percents = {size: math.floor(quota) for size, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda size: (percents[size] - quotas[size], size))
    for size in by_remainder[: 100 - sum(percents.values())]:
        percents[size] += 1
    return {size: percent for size, percent in percents.items() if percent}


def job_file(found: Fio, heading: Iterable[str]) -> str:
    """The job file. ``heading`` are lines of comment."""
    lines = [f"# {line}".rstrip() for line in heading]
    lines += [
        "[global]",
        "# io_uring on newer kernels; windowsaio on Windows",
        "ioengine=libaio",
        "direct=1",
        "thread=1",
        "time_based=1",
        f"runtime={found.seconds}",
        "norandommap=1",
        "rate_process=linear",
    ]
    sizes = bytes_by_path(found.regions)
    for job in found.jobs:
        lines += ["", f"[{job.name}]", *_options(job, sizes[job.region.path])]
    return "\n".join(lines) + "\n"


def _options(job: Job, file_bytes: int) -> list[str]:
    sides = job.sides
    random = any(side.random_percent for side in sides.values())
    kind = "rw" if len(sides) == 2 else next(iter(sides))
    options = {
        "filename": escape(job.region.path),
        "filesize": file_bytes,
        "offset": job.region.base_bytes,
        "size": job.region.bytes,
        "rw": f"rand{kind}" if random else kind,
        "bssplit": _both(sides, _split),
        "rate": _both(sides, lambda side: str(side.bytes_per_s)),
    }
    if job.region.path.startswith("/dev/"):
        del options["filesize"]
    if random:
        options["percentage_random"] = _both(sides, lambda side: str(side.random_percent))
        options["blockalign"] = _alignment(sides)
    if len(sides) == 2:
        share = sides["read"].iops / job.iops
        options["rwmixread"] = min(99, max(1, round(100 * share)))
    options["iodepth"] = outstanding(job.in_flight)
    return [f"{name}={value}" for name, value in options.items()]


def _both(sides: Mapping[str, Side], words: Callable[[Side], str]) -> str:
    """One value, or ``reads,writes`` where the job does both."""
    return ",".join(words(side) for side in sides.values())


def _split(side: Side) -> str:
    sizes = [size for size, _ in side.split]
    entries = [f"{size}/{percent}" for size, percent in side.split]
    if any(size % sizes[0] for size in sizes):
        entries.append(f"{SECTOR_BYTES}/0")
    return ":".join(entries)


def _alignment(sides: Mapping[str, Side]) -> str:
    """Random offsets are multiples of the largest power of two in the most frequent size."""

    def of(side: Side) -> str:
        size = max(side.split, key=lambda entry: entry[1])[0]
        return str(size & -size)

    return _both(sides, of)


def escape(path: str) -> str:
    """A path as fio reads it: colons separate files unless a backslash is before them.

    Raises `IotraceError` for what fio has no other way to write: it cuts a value at ``;`` and ``#`` and strips blanks,
    replaces ``${NAME}`` and ``$pagesize`` and hands sums with ``$ncpus`` to a shell (3.33, tried), and ``-`` is its
    standard input.
    """
    if path == "-" or path != path.strip() or any(char in path for char in ";#$"):
        raise IotraceError(
            f"fio would read the target '{path}' as something other than this name",
            hint="give a --target without ; # $ and without blanks at its ends",
        )
    return path.replace(":", "\\:")
