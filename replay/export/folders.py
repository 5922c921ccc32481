"""The folders that ``--to diskspd`` and ``--to fio`` write: what to run, what it covers, what it loses."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from iotrace.schemas import IotraceError
from iotrace.schemas.durable import sync_tree
from iotrace.schemas.partials import Partial
from iotrace.schemas.replacing import (
    FolderKind,
    Written,
    check_folder,
    move_into_place,
    read_index,
    seal_folder,
    sums_of,
    unchanged,
)
from iotrace.schemas.text import format_share
from iotrace.schemas.writer import refuse_over_source

from .diskspd import DiskSpd, command_line, diskspd, profile_xml, run_line
from .facts import DiskSpdClass, DiskSpdFacts, Facts, FioFacts, FioJob, FioSide, IologFacts, measured_load
from .fio import Fio, fio, job_file
from .fio_iolog import FIO_VERSIONS, Iolog, replay_job, write_iolog
from .places import Region, bytes_by_path, one_line
from .workload import Workload

MARK: Final = "export.json"
"""The file by which a folder is known to be an export: its facts, and the checksum of every other file."""


@contextmanager
def new_folder(path: Path, facts: Facts, *, overwrite: bool) -> Iterator[Path]:
    """A folder to write to; with ``facts``, it becomes ``path`` when all went well, and is removed otherwise.

    The checksums of what was written are added to ``facts``.

    Raises `IotraceError` if ``path`` is taken, unless by an earlier export in which nothing was added or changed since,
    and ``overwrite`` is set.
    """
    if not path.parent.is_dir():
        raise IotraceError(
            f"'{path.parent}' is not a folder to write to", hint="create it, or choose another -o"
        )
    check_folder(path, _EXPORT, overwrite=overwrite)
    try:
        with Partial.folder(path, private=False) as partial:
            yield partial.path
            facts.sha256 = sums_of(partial.path)
            text = json.dumps(asdict(facts), indent=1) + "\n"
            (partial.path / MARK).write_text(text, "utf-8", newline="\n")
            seal_folder(partial.path)
            sync_tree(partial.path)
            check_folder(path, _EXPORT, overwrite=overwrite)
            move_into_place(partial.path, path, _EXPORT)
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{path}': {problem.strerror or problem}",
            hint="free some room there, or choose another -o",
        ) from problem


def _written_in(folder: Path) -> Written | None:
    try:
        sums = json.loads(read_index(folder / MARK) or b"")["sha256"]
        return unchanged(folder, {MARK: None} | {str(name): str(told) for name, told in sums.items()})
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


_EXPORT: Final = FolderKind("an export", _written_in)


LOST = (
    "A static profile keeps sizes, mix, patterns and mean rates. It loses bursts (arrivals are evenly spaced), the "
    "order of I/Os and what waited for what, changes of the load, and hot spots within a file. Its latencies are "
    "therefore lower, and its knee later, than those of the recorded workload: iotrace replay and sweep play that."
)
CLOSED_LOOP = (
    "The tool issues the next I/O only when an earlier one has ended, so a storage that is too slow lowers the rate "
    "instead of showing the wait. Compare the rate reached with that of the recording before comparing latencies."
)


def export_diskspd(
    workload: Workload,
    folder: Path,
    targets: Mapping[str | None, str],
    *,
    seconds: int,
    most_classes: int,
    overwrite: bool = False,
) -> tuple[DiskSpd, DiskSpdFacts]:
    """Write ``profile.xml``, ``command-lines.txt``, ``README.txt`` and ``export.json``; gives its facts as well."""
    found = diskspd(workload, targets, seconds=seconds, most_classes=most_classes)
    facts = DiskSpdFacts(
        tool="diskspd",
        workload=measured_load(workload),
        targets=dict(found.regions),
        seconds=seconds,
        run=run_line(found),
        covered_ios=found.coverage.ios,
        covered_bytes=found.coverage.bytes,
        too_slow_classes=found.too_slow,
        classes=[
            DiskSpdClass(
                line.load.group,
                line.load.op,
                line.load.pattern,
                line.load.size_bytes,
                share_ios=line.load.ios / workload.ios,
                share_bytes=line.load.bytes / workload.bytes,
                iops=line.load.ios / workload.seconds,
                limited_to_iops=line.iops,
                bytes_per_ms=line.bytes_per_ms,
                outstanding=line.outstanding,
                command=command_line(found, line),
            )
            for line in found.lines
        ],
    )
    commands = [
        "Each line is one class of the profile by itself. Started together they are the whole profile.",
        "",
        *(command_line(found, line) for line in found.lines),
    ]
    how = [
        "Run (DiskSpd 2.1 or later):"
        if any(not region.asked for region in found.regions.values())
        else "Run:",
        f"  {run_line(found)}",
        *_sizes(found.regions),
        "DiskSpd creates files that are missing or of another size, AND OVERWRITES TARGETS WITHOUT A WARNING.",
        "For a disk (#1) or volume (D:) export with --target, or take FileSize out of the profile.",
        "Results are text; -Rxml gives XML.",
    ]
    refuse_over_source(folder, [workload.recording.path])
    with new_folder(folder, facts, overwrite=overwrite) as partial:
        _write(partial / "profile.xml", profile_xml(found))
        _write(partial / "command-lines.txt", "\n".join(commands) + "\n")
        _write(partial / "README.txt", _readme("DiskSpd", workload, how, facts))
    return found, facts


def export_fio(
    workload: Workload,
    folder: Path,
    targets: Mapping[str | None, str],
    *,
    seconds: int,
    iolog: bool,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[Fio, FioFacts]:
    """Write ``workload.fio``, ``README.txt`` and ``export.json``; with ``iolog`` also ``replay.fio`` and its log.

    Gives also the facts in ``export.json``. ``progress`` is told how many I/Os have been written to the log.
    """
    found = fio(workload, targets, seconds=seconds)
    facts = FioFacts(
        tool="fio",
        workload=measured_load(workload),
        targets=dict(found.regions),
        seconds=seconds,
        run="fio workload.fio",
        covered_ios=found.coverage.ios,
        covered_bytes=found.coverage.bytes,
        exact_size_ios=found.exact_ios,
        classes=[
            FioJob(
                job.name,
                job.group,
                share_ios=sum(side.ios for side in job.sides.values()) / workload.ios,
                iops=job.iops,
                bytes_per_s=job.bytes_per_s,
                sides={
                    op: FioSide(
                        side.iops,
                        side.bytes_per_s,
                        {str(size): percent for size, percent in side.split},
                        side.random_percent,
                    )
                    for op, side in job.sides.items()
                },
            )
            for job in found.jobs
        ],
    )
    how = [
        "Run, in a folder with room for the files:",
        "  fio workload.fio",
        *_sizes(found.regions),
        "fio creates files that are missing, AND OVERWRITES TARGETS WITHOUT A WARNING.",
        "ioengine=libaio is Linux's; on Windows change it to windowsaio.",
    ]
    heading = [
        f"{one_line(workload.recording.manifest.title)}, as a static load",
        *how[3:-1],
        "See README.txt.",
    ]
    refuse_over_source(folder, [workload.recording.path])
    with new_folder(folder, facts, overwrite=overwrite) as partial:
        if iolog:
            written = _write_iolog(partial, workload, found, progress)
            facts.iolog = IologFacts(written.ios, dict(written.bytes_by_path), FIO_VERSIONS)
            how += [
                "",
                "Every I/O with its time (the files have to be there, as workload.fio or fallocate leaves them):",
                "  fio replay.fio",
                FIO_VERSIONS,
            ]
        _write(partial / "workload.fio", job_file(found, heading))
        _write(partial / "README.txt", _readme("fio", workload, how, facts))
    return found, facts


def _write_iolog(
    partial: Path, workload: Workload, found: Fio, progress: Callable[[int], None] | None
) -> Iolog:
    with (partial / "replay.iolog").open("wb") as file:
        written = write_iolog(workload, found.regions, file, progress)
    _write(partial / "replay.fio", replay_job(written.bytes_by_path, written.ios))
    return written


def _sizes(regions: Mapping[str, Region]) -> list[str]:
    return [f"Target {path}: {size / 2**20:,.0f} MiB" for path, size in bytes_by_path(regions).items()]


def _readme(tool: str, workload: Workload, how: Sequence[str], facts: Facts) -> str:
    of = facts.workload
    covered = (
        f"Covered: {format_share(facts.covered_ios)} of the I/Os and {format_share(facts.covered_bytes)} of the "
        f"bytes of the layer {workload.layer}: {of.iops:,.1f} IOPS, {of.bytes_per_s / 1e6:,.1f} MB/s, "
        f"{format_share(of.read_share)} reads over {workload.seconds:,.1f} s."
    )
    lines = [f"{one_line(workload.recording.manifest.title)}, for {tool}", "", covered]
    if of.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in of.left_out.items())
        lines.append(f"Left out: {reasons}.")
    if workload.widened_ios:
        lines.append(f"Widened to whole 512 bytes: {workload.widened_ios:,} I/Os.")
    return "\n".join([*lines, "", *how, "", LOST, "", CLOSED_LOOP]) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", newline="\n")
