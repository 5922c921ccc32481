"""What this host allows the recorder, what would be lost here, and the least that has to be granted."""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iotrace.capture._recorder import BlockTrace, FileTrace
from iotrace.schemas import IotraceError

from .tracefs import (
    buffer_bytes,
    clock_apart,
    find_tracefs,
    in_container,
    leftovers,
    lockdown,
    not_mounted,
    remove_leftovers,
)

_EVENT_BYTES: Final = 72
_EVENTS_PER_IO: Final = 3
_STAND_IN_IOPS: Final = 100_000
_KERNEL_MIN: Final = (4, 9)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. ``level``: ok, warning (something would be lost) or problem (no recording)."""

    name: str
    level: str
    found: str
    advice: str = ""


def examine() -> list[Check]:
    """Look at this host. Changes nothing but the leftovers of recorders that were killed, which it removes."""
    checks = [_kernel(), _lockdown()]
    if apart := clock_apart():
        checks.append(Check("clock", "problem", *apart))
    try:
        tracefs = find_tracefs()
    except IotraceError:
        return [*checks, Check("tracefs", "problem", *not_mounted()), *_pressure(), *_priority()]
    checks.append(_access(tracefs))
    allowed = checks[-1].level == "ok"
    checks += [*_events(tracefs), _file_events(tracefs)] if allowed else []
    checks += [_buffers(), *_leftovers(tracefs), *_pressure(), *_priority()]
    return checks


def _kernel() -> Check:
    release = platform.release()
    numbers = [int(word) for word in release.split("-")[0].split(".")[:2] if word.isdigit()]
    if tuple(numbers) < _KERNEL_MIN:
        return Check("kernel", "problem", f"Linux {release}", "the recorder needs Linux 4.9 or later")
    return Check("kernel", "ok", f"Linux {release}")


def _lockdown() -> Check:
    mode = lockdown()
    if mode == "confidentiality":
        return Check(
            "lockdown",
            "problem",
            "the kernel is locked down (confidentiality): nobody may trace, root included",
            "boot with lockdown=integrity or without it, or record with blktrace elsewhere and import that",
        )
    return Check(
        "lockdown", "ok", "none" if mode in {None, "none"} else f"{mode}, which lets the recorder trace"
    )


def _access(tracefs: Path) -> Check:
    """Try it: whether a process may make an instance and write to it cannot be told from permissions alone."""
    instances = tracefs / "instances"
    probe = instances / f"iotrace-{os.getpid()}-doctor"
    try:
        probe.mkdir()
    except OSError as problem:
        return _refused(tracefs, problem)
    try:
        (probe / "tracing_on").write_text("0", "ascii")
    except OSError:
        return Check(
            "permission",
            "problem",
            f"this kernel gives the files of user {_user_name()}'s own instances to root",
            "run the recorder with sudo; newer kernels (tried: Linux 6.18) can do without",
        )
    finally:
        probe.rmdir()
    who = "root" if os.geteuid() == 0 else f"user {_user_name()}"
    return Check("permission", "ok", f"{who} may make trace instances in {instances}")


def _refused(tracefs: Path, problem: OSError) -> Check:
    instances = tracefs / "instances"
    if os.geteuid() != 0:
        user = _user_name()
        return Check(
            "permission",
            "problem",
            f"user {user} may make no trace instance in {instances}: {problem.strerror}",
            "run the recorder, and nothing else, with sudo. Or allow it to this user until the next start (tried on "
            f"Linux 6.18): sudo chmod o+x {tracefs}; sudo chown {user} {instances}. "
            "Whoever may trace can watch every program",
        )
    if problem.errno == errno.EROFS or os.statvfs(tracefs).f_flag & os.ST_RDONLY:
        advice = f"mount it writable: mount -o remount,rw {tracefs} (in a container, from its host)"
    elif in_container():
        advice = "start the container with --cap-add SYS_ADMIN and the tracefs of its host, writable"
    else:
        advice = "a security policy (SELinux, AppArmor) may forbid it: ausearch -m avc, or dmesg, tells"
    return Check(
        "permission", "problem", f"cannot make an instance in {instances}: {problem.strerror}", advice
    )


def _events(tracefs: Path) -> Iterator[Check]:
    missing = [name for name in BlockTrace.event_names() if not (tracefs / "events/block" / name).is_dir()]
    if missing:
        yield Check(
            "block events",
            "problem",
            f"this kernel lacks {', '.join(missing)}",
            "use a kernel built with CONFIG_BLK_DEV_IO_TRACE; distributions' kernels have it",
        )
    else:
        yield Check("block events", "ok", f"all {len(BlockTrace.event_names())} are there")


def _file_events(tracefs: Path) -> Check:
    """For the filesystem layer, of which a kernel may have a part."""
    names = {(group, name) for _, group, name, *_ in FileTrace.sources()}
    missing = {name for group, name in names if not (tracefs / "events" / group / name).is_dir()}
    if missing >= {name for _, name in names if name.startswith("sys_")}:
        return Check(
            "file events",
            "warning",
            "this kernel does not trace system calls: --layers filesystem only tells which file block I/O belongs to",
            "use a kernel built with CONFIG_FTRACE_SYSCALLS; distributions' kernels have it",
        )
    lacks = []
    if "mm_filemap_get_pages" in missing:
        lacks.append("cached reads on ext4 are known by their descriptors, less surely")
    if "iomap_dio_rw_begin" in missing:
        lacks.append("asynchronous direct I/O has no filesystem layer")
    if lacks:
        advice = "newer kernels (tried: Linux 6.18) tell more; the block and device layers are not affected"
        return Check("file events", "warning", "; ".join(lacks), advice)
    return Check("file events", "ok", "all that --layers filesystem can use on ext4 are there")


def _buffers() -> Check:
    cpus, each = os.cpu_count() or 1, buffer_bytes()
    on_one = each / (_EVENT_BYTES * _EVENTS_PER_IO * _STAND_IN_IOPS)
    seconds = cpus * on_one
    found = (
        f"{each >> 10:,} KiB for each of {cpus} processors: at {_STAND_IN_IOPS:,} I/Os a second the recorder may be "
        f"kept from running for about {seconds:.1f} s before events are lost, {on_one:.1f} s if one processor does all"
    )
    if seconds < 1:
        return Check("buffers", "warning", found, "memory is short here; record when less is going on")
    return Check("buffers", "ok", found)


def _leftovers(tracefs: Path) -> Iterator[Check]:
    left = leftovers(tracefs / "instances")
    if not left:
        return
    removed = remove_leftovers(tracefs / "instances")
    names = ", ".join(folder.name for folder in left)
    if len(removed) == len(left):
        yield Check("leftovers", "ok", f"removed what killed recorders had left tracing: {names}")
    else:
        yield Check(
            "leftovers", "warning", f"killed recorders left these tracing: {names}", "look again with sudo"
        )


def _pressure() -> Iterator[Check]:
    try:
        Path("/proc/pressure/io").read_text("ascii")
    except OSError:
        yield Check(
            "pressure",
            "warning",
            "this kernel does not count I/O pressure: those counters are left out",
            "boot with psi=1 to have them (CONFIG_PSI_DEFAULT_DISABLED), or do without",
        )
    else:
        yield Check("pressure", "ok", "I/O pressure is counted")


def _priority() -> Iterator[Check]:
    with suppress(OSError):
        if Path("/proc/sys/kernel/sched_autogroup_enabled").read_text("ascii").strip() == "1":
            yield Check(
                "priority",
                "warning",
                "processors are shared out between sessions (autogroup): the recorder's low priority counts for little",
                "start it as systemd-run --scope -p CPUWeight=10 iotrace capture linux …",
            )


def _user_name() -> str:
    return os.environ.get("USER") or str(os.geteuid())
