"""A DiskSpd profile: one rate-limited target per dominant class, and the same as command lines.

The elements are those that DiskSpd's own schema (diskspd.xsd, microsoft/diskspd) and its help text document. What was
looked up there and shaped this:

- Limits on throughput are whole bytes per millisecond, per thread and target, in every version. The form in IOPS
  (``-g<n>i``, from 2.1; in profiles from 2.2) is turned into whole bytes per millisecond too, so it is never more
  exact, and older versions refuse it. A limit of 0 means none, so classes below 1 byte per millisecond are left out.
- Template targets ``*1``, ``*2`` are replaced by those on the command line, from version 2.1.
- The buffer that ``-Z`` fills must not be smaller than the block.
- ``-B<base>:<length>`` is known from 2.2; ``-B<base> -f<end>`` by all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from iotrace.schemas import IotraceError

from .places import Region, bytes_by_path, lay_out, plain
from .workload import Coverage, LoadClass, Workload, coverage, dominant, outstanding

WARMUP_SECONDS = 5
PAYLOAD_BYTES = 20 << 20
"""Random data that writes are cut from: arrays that compress or deduplicate find little in it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One class as DiskSpd is told of it."""

    load: LoadClass
    region: Region
    bytes_per_ms: int
    outstanding: int

    @property
    def iops(self) -> float:
        """The rate that the limit lets through."""
        return self.bytes_per_ms * 1000 / self.load.size_bytes

    @property
    def payload_bytes(self) -> int:
        """Size of the buffer of random data."""
        return max(PAYLOAD_BYTES, -(-self.load.size_bytes // (1 << 20)) << 20)


@dataclass(frozen=True, slots=True)
class DiskSpd:
    """A profile: its lines, how long to run, and what of the workload it carries."""

    lines: tuple[Line, ...]
    regions: Mapping[str, Region]
    seconds: int
    coverage: Coverage
    too_slow: int
    """Dominant classes left out because DiskSpd cannot be limited to a rate so low."""


def diskspd(
    workload: Workload, targets: Mapping[str | None, str], *, seconds: int, most_classes: int
) -> DiskSpd:
    """Choose the dominant classes and give each its limit.

    Raises `IotraceError` if every class is too slow for a limit.
    """
    chosen = dominant(workload, most_classes)
    limits = [round(one.bytes / workload.seconds / 1000) for one in chosen]
    fast = [(one, limit) for one, limit in zip(chosen, limits, strict=True) if limit]
    if not fast:
        raise IotraceError(
            "the workload is too slow for DiskSpd, whose lowest limit is 1 byte per millisecond",
            hint="export the busy part of it: --busiest 60s",
        )
    for path in targets.values():
        if '"' in path or "%" in path:
            raise IotraceError(
                f"no Windows command line can hold the target '{path}' safely",
                hint='give a --target without " and %',
            )
    groups = list(dict.fromkeys(one.group for one, _ in fast))
    regions = lay_out(workload, targets, lambda number, _group: f"*{number + 1}", groups)
    return DiskSpd(
        lines=tuple(Line(one, regions[one.group], limit, outstanding(one.in_flight)) for one, limit in fast),
        regions=regions,
        seconds=seconds,
        coverage=coverage(workload, [one for one, _ in fast]),
        too_slow=len(chosen) - len(fast),
    )


def profile_xml(found: DiskSpd) -> str:
    """The profile for ``diskspd -X``."""
    sizes = bytes_by_path(found.regions)
    profile = ET.Element("Profile")
    span = _add(_add(profile, "TimeSpans"), "TimeSpan")
    _add(span, "Duration", found.seconds)
    _add(span, "Warmup", WARMUP_SECONDS)
    _add(span, "Cooldown", 0)
    _add(span, "MeasureLatency", "true")
    _add(span, "CalculateIopsStdDev", "true")
    _add(span, "IoBucketDuration", 1000)
    targets = _add(span, "Targets")
    for line in found.lines:
        _add_target(targets, line, sizes[line.region.path])
    _add(profile, "ResultFormat", "text")
    ET.indent(profile)
    return ET.tostring(profile, "unicode", xml_declaration=True) + "\n"


def _add_target(targets: ET.Element, line: Line, file_bytes: int) -> None:
    one, region = line.load, line.region
    target = _add(targets, "Target")
    _add(target, "Path", region.path)
    _add(target, "BlockSize", one.size_bytes)
    _add(target, "BaseFileOffset", region.base_bytes)
    _add(target, "MaxFileSize", region.end_bytes)
    if is_file(region.path):
        _add(target, "FileSize", file_bytes)
    # Alignment of random I/O, or the step of sequential I/O; a profile may hold one of the two.
    _add(target, "StrideSize" if one.sequential else "Random", one.size_bytes)
    _add(target, "DisableOSCache", "true")
    _add(target, "WriteThrough", "true")
    if one.op == "write":
        content = _add(target, "WriteBufferContent")
        _add(content, "Pattern", "random")
        _add(_add(content, "RandomDataSource"), "SizeInBytes", line.payload_bytes)
    _add(target, "RequestCount", line.outstanding)
    _add(target, "ThreadsPerFile", 1)
    _add(target, "Throughput", line.bytes_per_ms)
    _add(target, "WriteRatio", 100 if one.op == "write" else 0)


def _add(parent: ET.Element, name: str, text: object = None) -> ET.Element:
    child = ET.SubElement(parent, name)
    child.text = None if text is None else str(text)
    return child


def is_file(path: str) -> bool:
    """Whether DiskSpd may create it: not a physical drive (``#1``) or a volume (``D:``)."""
    return not re.fullmatch(r"#[0-9]+|[A-Za-z]:", path)


def run_line(found: DiskSpd) -> str:
    """The command that runs the profile, with words in place of targets that are still to be named."""
    missing = [group for group, region in found.regions.items() if not region.asked]
    return " ".join(["diskspd -Xprofile.xml", *(f"<{plain(group)} target>" for group in missing)])


def command_line(found: DiskSpd, line: Line) -> str:
    """One class by itself. All lines started together are the profile."""
    one, region = line.load, line.region
    path = region.path if region.asked else f"<{plain(one.group)} target>"
    words = [
        "diskspd",
        f"-b{one.size_bytes}",
        f"-{'s' if one.sequential else 'r'}{one.size_bytes}",
        f"-w{100 if one.op == 'write' else 0}",
        f"-o{line.outstanding}",
        "-t1",
        f"-g{line.bytes_per_ms}",
        "-Sh",
        *([f"-Z{line.payload_bytes}"] if one.op == "write" else []),
        f"-B{region.base_bytes}",
        f"-f{region.end_bytes}",
        *([f"-c{bytes_by_path(found.regions)[region.path]}"] if is_file(region.path) else []),
        f"-d{found.seconds}",
        f"-W{WARMUP_SECONDS}",
        "-L",
        f'"{path}"',
    ]
    return " ".join(words)
