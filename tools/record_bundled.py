"""Makes the bundled recording from nothing: PostgreSQL under pgbench on two loop devices, recorded live.

Run as root: ``.venv/bin/python tools/record_bundled.py``. Needs Debian's packages postgresql, postgresql-contrib (for
pgbench), e2fsprogs, util-linux and fio, 4 GiB free in /var/tmp, and four minutes. Everything it makes outside the
recording is removed again. The README beside the recording is written from the recording's own figures.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
from bundled_readme import readme

from iotrace.capture.linux import record
from iotrace.schemas import TABLES, Clock, validate

WORK = Path("/var/tmp/iotrace-bundled")
OUTPUT = Path(__file__).parents[1] / "cli/bundled/pgbench.iotrace"
PORT = "54329"

SCALE = 60  # about 900 MB, against 24 MB of shared buffers
MEMORY_BYTES = 256 << 20  # for PostgreSQL with its page cache, so that reads reach the device
SECONDS = 200
TRANSACTIONS_PER_SECOND = 80

SETTINGS = {
    "listen_addresses": "''",
    "unix_socket_directories": f"'{WORK}'",
    "port": PORT,
    "shared_buffers": "24MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "30s",
    "checkpoint_completion_target": "0.3",
    "log_checkpoints": "on",
    "log_line_prefix": "'%n '",  # time as seconds since 1970 with milliseconds
    "log_destination": "'stderr'",
    "autovacuum": "off",
}

SCAN = "SELECT sum(abalance) FROM pgbench_accounts WHERE aid <= 2500000"
NEIGHBOUR = [
    "fio", "--name=neighbour", f"--filename={WORK}/neighbour", "--size=1G", "--rw=randrw", "--bs=64k", "--direct=1",
    "--ioengine=libaio", "--iodepth=32", "--time_based", "--runtime=20", "--output=/dev/null",
]  # fmt: skip


def main() -> None:
    """Set up, record, check, take down."""
    programs = _programs()
    if os.geteuid() != 0:
        sys.exit("loop devices, a memory limit and tracing need root: run it with sudo")
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, WORK, ignore_errors=True)
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        data = cleanup.enter_context(_loop_device("data", 3 << 30))
        log = cleanup.enter_context(_loop_device("wal", 2 << 30))
        shutil.chown(WORK, "postgres", "postgres")
        memory = cleanup.enter_context(_memory_limit())
        _prepare(programs, data, log)
        _start(programs, memory)
        cleanup.callback(_stop, programs)
        subprocess.run([*NEIGHBOUR, "--create_only=1"], check=True)
        notes: list[tuple[int, int, str]] = []
        load = threading.Thread(target=_load, args=(programs, notes))
        load.start()
        recording = record(
            [data, log],
            OUTPUT,
            seconds=SECONDS,
            overwrite=True,
            title="PostgreSQL under pgbench: data and log on a device each",
            progress=lambda report: print(report, flush=True),
            roles={data: "data", log: "log"},
            markers=lambda clock, end_ns: _markers(clock, end_ns, notes),
            host_name="bundled",
        )
        load.join()
        findings = validate(recording.path)
        if findings:
            sys.exit(f"the recording is not sound: {findings}")
        version = _run([programs["postgres"], "--version"]).split()[2]
        OUTPUT.with_name("README.md").write_text(readme(recording, version), "utf-8")
    print(recording.manifest.quality)


def _load(programs: dict[str, str], notes: list[tuple[int, int, str]]) -> None:
    """A steady load; on top of it a burst of reads, a scan, and a neighbour on the disk beneath the loop devices."""
    pgbench = [programs["pgbench"], "-h", str(WORK), "-p", PORT, "-U", "postgres", "-n", "postgres"]
    started = time.monotonic()
    steady = subprocess.Popen(
        [*pgbench, "-c", "8", "-R", str(TRANSACTIONS_PER_SECOND), "-T", str(SECONDS), "--random-seed=1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    psql = [programs["psql"], "-h", str(WORK), "-p", PORT, "-U", "postgres", "-c", SCAN, "postgres"]
    for at_seconds, text, command in (
        (
            50,
            "pgbench: 150 more lookups a second",
            [*pgbench, "-S", "-c", "4", "-R", "150", "-T", "30", "--random-seed=2"],
        ),
        (110, f"psql: {SCAN}", psql),
        (155, "another program's I/O begins on the same disk (fio, 64 KiB, 32 in flight)", NEIGHBOUR),
    ):
        time.sleep(max(0.0, started + at_seconds - time.monotonic()))
        begun = time.time_ns()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        notes.append((begun, time.time_ns(), text))
    steady.wait()


def _markers(clock: Clock, end_ns: int, notes: list[tuple[int, int, str]]) -> pa.Table:
    """Checkpoints as PostgreSQL's log tells of them (to the millisecond), and what this script did when."""
    line = re.compile(r"^(\d+)\.(\d{3}) LOG:  checkpoint (starting|complete): (.*)$", re.MULTILINE)
    rows = [
        {"at_ns": begun - clock.start_utc_ns, "duration_ns": done - begun, "kind": "note", "text": text}
        for begun, done, text in notes
    ]
    begun_ns: int | None = None
    for seconds, milliseconds, what, text in line.findall((WORK / "postgres.log").read_text("utf-8")):
        at_ns = (int(seconds) * 1000 + int(milliseconds)) * 1_000_000 - clock.start_utc_ns
        if what == "starting":
            begun_ns = at_ns
        elif begun_ns is not None and at_ns > 0 and begun_ns < end_ns:
            duration_ns = at_ns - begun_ns
            rows.append({"at_ns": begun_ns, "duration_ns": duration_ns, "kind": "checkpoint", "text": text})
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["at_ns"]), schema=TABLES["markers"])


def _prepare(programs: dict[str, str], data: str, log: str) -> None:
    for device, folder in ((data, WORK / "pgdata"), (log, WORK / "pgwal")):
        folder.mkdir()
        _run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device])
        _run(["mount", device, str(folder)])
        shutil.chown(folder, "postgres", "postgres")
    cluster = WORK / "pgdata/cluster"
    wal = WORK / "pgwal/pg_wal"
    _as_postgres([programs["initdb"], "-D", str(cluster), f"--waldir={wal}", "-A", "trust", "--no-sync"])
    with (cluster / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in SETTINGS.items())
    _pg_ctl(programs, "start")
    connection = ["-h", str(WORK), "-p", PORT, "-U", "postgres"]
    _run([programs["pgbench"], *connection, "-i", "-q", "-s", str(SCALE), "postgres"])
    _pg_ctl(programs, "stop")
    # Mounted anew, the file systems have nothing in the page cache.
    for device, folder in ((data, WORK / "pgdata"), (log, WORK / "pgwal")):
        _run(["umount", str(folder)])
        _run(["mount", device, str(folder)])


def _start(programs: dict[str, str], memory: Path | None) -> None:
    """Start PostgreSQL inside the memory limit: its processes inherit the group of the one that starts them."""
    join = f"echo $$ > {memory}/cgroup.procs; " if memory else ""
    command = f"{join}exec runuser -u postgres -- {' '.join(_pg_ctl_command(programs, 'start'))}"
    _run(["sh", "-c", command])


def _stop(programs: dict[str, str]) -> None:
    subprocess.run(["runuser", "-u", "postgres", "--", *_pg_ctl_command(programs, "stop")], check=False)


def _pg_ctl(programs: dict[str, str], what: str) -> None:
    _as_postgres(_pg_ctl_command(programs, what))


def _pg_ctl_command(programs: dict[str, str], what: str) -> list[str]:
    return [
        programs["pg_ctl"],
        what,
        "-s",
        "-w",
        "-D",
        f"{WORK}/pgdata/cluster",
        "-l",
        f"{WORK}/postgres.log",
    ]


@contextmanager
def _loop_device(name: str, size_bytes: int) -> Iterator[str]:
    """A loop device over a file in WORK, with direct I/O beneath; unmounted and detached afterwards."""
    image = WORK / f"{name}.img"
    _run(["fallocate", "-l", str(size_bytes), str(image)])
    device = _run(["losetup", "--find", "--show", "--direct-io=on", str(image)]).strip()
    try:
        yield device
    finally:
        subprocess.run(["umount", "--quiet", device], check=False)
        _run(["losetup", "--detach", device])


@contextmanager
def _memory_limit() -> Iterator[Path]:
    """A memory cgroup of our own, of either version."""
    first = Path("/sys/fs/cgroup/memory")
    folder = (first if first.is_dir() else Path("/sys/fs/cgroup")) / "iotrace-bundled"
    folder.mkdir(exist_ok=True)
    try:
        limit = folder / ("memory.limit_in_bytes" if first.is_dir() else "memory.max")
        limit.write_text(str(MEMORY_BYTES))
        yield folder
    finally:
        folder.rmdir()


def _programs() -> dict[str, str]:
    """Paths of the programs needed. PostgreSQL's servers lie outside the search path on Debian."""
    servers = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    path = os.pathsep.join(
        [*(str(folder) for folder in servers[-1:]), os.environ.get("PATH", ""), "/sbin", "/usr/sbin"]
    )
    needed = ["initdb", "pg_ctl", "postgres", "pgbench", "psql", "mkfs.ext4", "losetup", "runuser", "fio"]
    found = {name: shutil.which(name, path=path) for name in needed}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        packages = "postgresql postgresql-contrib e2fsprogs util-linux fio"
        sys.exit(f"not found: {', '.join(missing)}\n\nhint: apt-get install {packages}")
    return {name: place for name, place in found.items() if place is not None}


def _as_postgres(command: list[str]) -> None:
    _run(["runuser", "-u", "postgres", "--", *command])


def _run(command: list[str]) -> str:
    """Run a command where the postgres user may stand, too; what it printed."""
    # Output goes to a file: a server that a command leaves behind would keep a pipe open for ever.
    with (WORK / "output.txt").open("w+") as output:
        done = subprocess.run(command, cwd="/", stdout=output, stderr=output, check=False)
        output.seek(0)
        text = output.read()
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{text}")
    return text


if __name__ == "__main__":
    main()
