"""Text of the README beside the bundled recording, its figures taken from the recording."""

from pathlib import Path

import duckdb

from iotrace.schemas import Recording

_TEXT = """# The bundled recording

`pgbench.iotrace` is what `iotrace demo` shows: {seconds:.0f} seconds of a real database on real block devices,
recorded by iotrace's own live Linux recorder.

**Origin.** Made by `tools/record_bundled.py` (as root; it prepares everything from nothing and removes it again):

    .venv/bin/python tools/record_bundled.py

PostgreSQL {version} with 24 MB of shared buffers and a checkpoint every 30 seconds (spread over 9), its data directory
on one ext4 file system and its `pg_wal` on another, each on a loop device with direct I/O to a file on the host's
disk. PostgreSQL and its page cache are held to 256 MiB by a memory cgroup, so most lookups in the 900 MB database
reach the device. Linux {kernel}, {cpus} processors ({cpu_model}).

**Load.** pgbench's TPC-B-like transactions, 80 a second at random (Poisson) times, 8 clients, throughout. On top of
that, each with its row in `markers`:

{notes}

**Size.** {bytes:,} bytes, {rows:,} rows of `io`; {quality}.

| role | layer | op | I/Os | MiB | p50 µs | p99 µs |
|---|---|---|---:|---:|---:|---:|
{table}

A percentile with fewer than 100 I/Os beyond it is left out.

**What it shows.** Log writes with a cache flush each, random 8 KiB reads, write bursts at checkpoints, a window with
more load, and a window in which the load is the same and the disk is slower: median read on the device layer
{quiet_us:.0f} µs in the 20 seconds before the neighbour, {noisy_us:.0f} µs while it is at work.

**What it does not show.** No files: the recorder sees blocks, and the role of an I/O (data, log) is that of its device.
No physical disk: a loop device adds its worker thread to every I/O, and the disk beneath is a virtual machine's,
shared with whatever else ran there. It is no benchmark of PostgreSQL, and its latencies say nothing about your
storage. Checkpoint times come from PostgreSQL's log, to the millisecond. A flush that served only a file system's
journal may name no process. The host's name is replaced by "bundled".

**Licence.** Made for this project; it holds nobody's data. CC0 1.0 (public domain).
"""


def readme(recording: Recording, version: str) -> str:
    """The README's text. ``version``: PostgreSQL's."""
    manifest = recording.manifest
    database = duckdb.connect()
    for name in ("io", "markers", "devices", "files"):
        database.read_parquet(str(recording.path / f"{name}.parquet")).create_view(name)
    quality = manifest.quality
    facts = (
        f"{quality.events_lost} events lost, {quality.unpaired_issues} issues and {quality.unpaired_completions} "
        f"completions unpaired"
    )
    quiet, noisy = _medians(database)
    return _TEXT.format(
        seconds=manifest.duration_ns / 1e9,
        version=version,
        kernel=".".join(manifest.host.kernel.split(".")[:2]),
        cpus=manifest.host.processors,
        cpu_model=manifest.host.cpu_model,
        notes="\n".join(_notes(database)),
        bytes=sum(path.stat().st_size for path in Path(recording.path).iterdir()),
        rows=manifest.rows["io"],
        quality=facts,
        table="\n".join(_table(database)),
        quiet_us=quiet,
        noisy_us=noisy,
    )


def _notes(database: duckdb.DuckDBPyConnection) -> list[str]:
    rows = database.execute(
        "SELECT at_ns, duration_ns, text FROM markers WHERE kind = 'note' ORDER BY at_ns"
    ).fetchall()
    return [
        f"- from second {at / 1e9:.0f}, for {duration / 1e9:.1f} s: {text}" for at, duration, text in rows
    ]


def _table(database: duckdb.DuckDBPyConnection) -> list[str]:
    rows = database.execute("""
        SELECT files.role, io.layer, io.op, count(*), sum(io.size_bytes) / 1048576,
               quantile_cont(completed_ns - issued_ns, 0.5) / 1e3, quantile_cont(completed_ns - issued_ns, 0.99) / 1e3
        FROM io JOIN files USING (file_id) GROUP BY ALL ORDER BY ALL
    """).fetchall()
    return [
        f"| {role} | {layer} | {op} | {count:,} | {mebibytes:,.1f} | {_quantile(p50, count, 0.5)} "
        f"| {_quantile(p99, count, 0.01)} |"
        for role, layer, op, count, mebibytes, p50, p99 in rows
    ]


def _quantile(value_us: float, count: int, beyond: float) -> str:
    return f"{value_us:,.0f}" if count * beyond >= 100 else "-"


def _medians(database: duckdb.DuckDBPyConnection) -> tuple[float, float]:
    """Median device-layer read (µs) in the 20 s before the neighbour, and while it is at work."""
    row = database.execute("""
        WITH neighbour AS (SELECT at_ns, duration_ns FROM markers WHERE text LIKE 'another program%')
        SELECT median(completed_ns - issued_ns) FILTER (issued_ns BETWEEN at_ns - 20000000000 AND at_ns) / 1e3,
               median(completed_ns - issued_ns) FILTER (issued_ns BETWEEN at_ns AND at_ns + duration_ns) / 1e3
        FROM io, neighbour WHERE layer = 'device' AND op = 'read'
    """).fetchone()
    assert row is not None
    return row[0], row[1]
