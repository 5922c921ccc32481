"""A tracing instance of one's own: block events switched on for some devices, and everything put back afterwards."""

import errno
import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from iotrace.capture._recorder import BlockTrace
from iotrace.schemas import IotraceError
from iotrace.schemas.plain_files import kernel_lines

from .devices import Selection

# Waits for the end of its input, which comes when the recorder closes it or is gone, however it went.
_SCRIPT: Final = """
read -r _
[ -d "$1" ] || exit 0
echo 0 > "$1/tracing_on"
echo 0 > "$1/events/enable"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rmdir "$1" && exit 0
  sleep 0.2
done
"""


class Guard:
    """Removes the tracing instance ``folder`` when this process ends without having done so itself."""

    def __init__(self, folder: Path) -> None:
        """Start the helper, in a session of its own: what is sent to the recorder's terminal does not reach it.

        Without a shell there is no guard, and what a killed recorder leaves is for the next run to remove.
        """
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "iotrace-guard", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """Let the helper go, after the instance was removed."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


PLACE: Final = Path("/sys/kernel/tracing")
"""Where tracefs belongs."""
_MOUNT: Final = ("mount", "-t", "tracefs", "nodev", str(PLACE))
_PREFIX = "iotrace"
_MADE: Final = re.compile(rf"{_PREFIX}-(\d+)-(?:[0-9a-f]{{6}}|doctor|alone)")
"""Names of instances, with the process that made one."""
_BUFFERS_BYTES_MAX = 256 << 20
_BUFFER_BYTES_MAX = 128 << 20
_BUFFER_BYTES_MIN = 1 << 20
_PAGE_KIB = 64
"""Read at once, where the kernel lets pages of its buffers be larger than the machine's (Linux 6.8 and later)."""


class TraceInstance:
    """Context manager: an instance folder in tracefs, configured but switched off. Leaving it removes the folder."""

    buffer_bytes_max: int | None = None
    """Per CPU, where this instance needs less than others."""

    def __init__(self) -> None:
        self.folder = Path()
        self._guard: Guard | None = None
        self.buffer_bytes = 0
        """Per CPU."""

    def __enter__(self) -> Self:
        root = find_tracefs()
        _check_lockdown()
        if apart := clock_apart():
            raise IotraceError(f"{apart[0]}, by which nothing recorded would have its time", hint=apart[1])
        instances = root / "instances"
        remove_leftovers(instances)
        self.folder = instances / f"{_PREFIX}-{os.getpid()}-{secrets.token_hex(3)}"
        try:
            self.folder.mkdir()
        except OSError as problem:
            raise _not_allowed(problem, self.folder) from problem
        self._guard = Guard(self.folder)
        try:
            self._configure()
        except OSError as problem:
            self._remove()
            raise _not_allowed(problem, Path(problem.filename or self.folder)) from problem
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def enable_events(self) -> None:
        """Set the filters of the events of interest, and enable them."""

    def start(self) -> None:
        """Let events in."""
        self.write("tracing_on", "1")

    def stop(self) -> None:
        """Let no more events in; what is in the buffers stays readable."""
        self.write("tracing_on", "0")

    def _configure(self) -> None:
        self.write("tracing_on", "0")
        self.write("trace_clock", "mono")
        # When full, drop what is new: a reader that is pushed aside cannot say which end of an I/O it lost.
        self.write("options/overwrite", "0")
        self._size_buffers()
        with suppress(OSError):  # Linux 5.1 and later; without it the reader wakes by its timeout
            self.write("buffer_percent", "25")
        self.enable_events()

    def _size_buffers(self) -> None:
        size = buffer_bytes()
        if self.buffer_bytes_max is not None:
            size = min(size, self.buffer_bytes_max)
        has_large_pages = self._enlarge_pages(_PAGE_KIB)
        while True:
            try:
                self.write("buffer_size_kb", str(size >> 10))
            except OSError as problem:
                if problem.errno != errno.ENOMEM or size <= _BUFFER_BYTES_MIN:
                    raise
                if has_large_pages:  # memory may be there, but in pieces
                    has_large_pages = False
                    self._enlarge_pages(os.sysconf("SC_PAGE_SIZE") >> 10)
                else:
                    size //= 2
            else:
                self.buffer_bytes = size
                return

    def _enlarge_pages(self, kib: int) -> bool:
        try:
            self.write("buffer_subbuf_size_kb", str(kib))
        except OSError:
            return False
        return True

    def write(self, name: str, value: str) -> None:
        """Write a file of the instance."""
        (self.folder / name).write_text(value, "ascii")

    def _remove(self) -> None:
        self._remove_folder()
        if self._guard is not None:
            self._guard.dismiss()

    def _remove_folder(self) -> None:
        for name in ("tracing_on", "events/enable"):
            with suppress(OSError):
                self.write(name, "0")
        for _ in range(20):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)  # a last reader is still letting go
            else:
                return


class BlockInstance(TraceInstance):
    """Block events of the selected devices, and the threads that begin and end."""

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self._selection = selection

    def enable_events(self) -> None:
        """Set the filters of the events of interest, and enable them."""
        for name in BlockTrace.event_names():
            self.write(f"events/block/{name}/filter", self._selection.trace_filter(name))
            self.write(f"events/block/{name}/enable", "1")
        for group, name in BlockTrace.thread_event_names():
            self.write(f"events/{group}/{name}/enable", "1")


@contextmanager
def reading_the_trace() -> Iterator[None]:
    """A trace that cannot be read is the machine's fault, not the output's."""
    try:
        yield
    except OSError as problem:
        raise IotraceError(
            f"cannot read the kernel's trace ({problem.filename}: {problem.strerror})",
            hint="sudo dmesg may tell why; record again",
        ) from problem


def buffer_bytes() -> int:
    """How much memory each processor's buffer is to have on this host."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(_BUFFERS_BYTES_MAX, memory // 32) // (os.cpu_count() or 1)
    return max(_BUFFER_BYTES_MIN, min(_BUFFER_BYTES_MAX, size))


def find_tracefs() -> Path:
    """Where tracefs is mounted. Raises `IotraceError` if it is not."""
    table = [line.split(" ") for line in kernel_lines(Path("/proc/self/mounts"))]
    for kind, inside in (("tracefs", ""), ("debugfs", "tracing")):
        for fields in table:
            folder = Path(fields[1], inside)
            if fields[2] == kind and (os.geteuid() != 0 or (folder / "instances").is_dir()):
                return folder
    found, advice = not_mounted()
    raise IotraceError(f"the kernel's trace file system (tracefs) is {found}", hint=advice)


def not_mounted() -> tuple[str, str]:
    """What to say where `find_tracefs` finds none, and what to do about it: the same whoever says it."""
    if "tracefs" not in Path("/proc/filesystems").read_text("ascii", "replace").split():
        return (
            "not in this kernel, which was built without CONFIG_FTRACE",
            "use a kernel with tracing; distributions' kernels have it",
        )
    sudo = "" if os.geteuid() == 0 else "sudo "
    advice = f"{sudo}iotrace capture doctor --mount mounts it, as does {sudo}{' '.join(_MOUNT)}"
    if in_container():
        advice += (
            "; where the container may not, start it with "
            f"-v {PLACE}:{PLACE} and --cap-add SYS_ADMIN, or record on its host"
        )
    return "not mounted", advice


def mount_tracefs() -> Path:
    """Mount it until the next start, if it is not; where it is then. Raises `IotraceError`."""
    with suppress(IotraceError):
        return find_tracefs()
    try:
        done = subprocess.run(_MOUNT, capture_output=True, text=True, check=False)
        refusal = done.stderr.strip()
    except OSError as problem:
        refusal = f"mount: {problem.strerror}"
    if refusal:
        raise IotraceError(f"tracefs cannot be mounted: {refusal}", hint=not_mounted()[1])
    return find_tracefs()


def in_container() -> bool:
    """Whether this host is a container, which gets tracefs from its host."""
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()


def clock_apart() -> tuple[str, str] | None:
    """What to say where this container's clock is not the one that events are stamped with, and what to do about it."""
    ahead_seconds = BlockTrace.clock_ahead_seconds()
    if not ahead_seconds:
        return None
    apart = f"{abs(ahead_seconds)} s {'ahead of' if ahead_seconds > 0 else 'behind'}"
    found = f"this container's clock is set {apart} the kernel's (a time namespace)"
    return found, "record on its host, outside of the container"


def _check_lockdown() -> None:
    if lockdown() == "confidentiality":
        raise IotraceError(
            "this kernel is locked down (confidentiality) and lets nobody trace",
            hint="record on a host booted with lockdown=integrity or none, or import a trace from elsewhere",
        )


def lockdown() -> str | None:
    """The kernel's lockdown mode: none, integrity or confidentiality; None where it has no such thing."""
    try:
        text = Path("/sys/kernel/security/lockdown").read_text("ascii")
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0]


def leftovers(instances: Path) -> list[Path]:
    """Instances of recorders that were killed, and which trace on."""
    try:
        made = [(entry, _MADE.fullmatch(entry.name)) for entry in instances.iterdir()]
    except OSError:
        return []
    return [entry for entry, by in made if by is not None and not Path("/proc", by[1]).exists()]


def remove_leftovers(instances: Path) -> list[Path]:
    """Remove instances of recorders that were killed, and tell which; one that is being read cannot be removed."""
    removed = []
    for folder in leftovers(instances):
        with suppress(OSError):
            folder.rmdir()
            removed.append(folder)
    return removed


def _not_allowed(problem: OSError, path: Path) -> IotraceError:
    if problem.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return IotraceError(
            f"not allowed to trace block devices ({path}: {problem.strerror})",
            hint="run it with sudo; in a container, mount /sys/kernel/tracing writable into it",
        )
    if problem.errno == errno.ENOENT:
        return IotraceError(
            f"this kernel lacks what the recorder needs: {path}",
            hint="it needs block trace events (CONFIG_BLK_DEV_IO_TRACE or CONFIG_EVENT_TRACING) and trace instances",
        )
    return IotraceError(f"cannot set up tracing ({path}: {problem.strerror})", hint="sudo dmesg may tell why")
