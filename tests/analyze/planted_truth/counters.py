"""The same hosts as counters show them: PhysicalDisk of Windows, and what SQL Server counts for each file.

A counter's mean is of the I/Os that ended in its interval; the queue is integrated over it. Each is written as rows of
a recording, or as the text that Windows or sqlcmd would have written, for the importers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.schemas import Clock, Kind, Manifest, Quality, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host as HostFacts

from .hosts import START_UTC_NS, Host, LayerName, write_tables
from .laws import Floats

SERVER: Final = "SQL01"


@dataclass(frozen=True, slots=True)
class Totals:
    """What ended in each interval of a grid, of one operation on one device, as a layer saw it."""

    ios: Floats
    bytes: Floats
    latency_s: Floats
    """Sum over the I/Os that ended."""
    in_flight_s: Floats
    """Integral of the number in flight over the interval, those that never end included."""


def totals(host: Host, device: int, *, reads: bool, layer: LayerName, edges_s: Floats) -> Totals:
    """Sums between neighbouring ``edges_s``, which rise."""
    ios = host.devices[device]
    started = ios.started_s(layer)
    mine = (ios.is_read == reads) & np.isfinite(started)
    started, ended, size = started[mine], ios.ends_s[mine], ios.size_bytes[mine]
    place = np.searchsorted(edges_s, ended, side="right") - 1
    inside = (place >= 0) & (place < len(edges_s) - 1)
    place, count = place[inside], len(edges_s) - 1
    return Totals(
        np.bincount(place, minlength=count).astype(float),
        np.bincount(place, size[inside], minlength=count),
        np.bincount(place, (ended - started)[inside], minlength=count),
        np.diff(_spent(edges_s, ended) - _spent(edges_s, started)) * -1,
    )


def _spent(at_s: Floats, moments_s: Floats) -> Floats:
    """Time that has passed since those of ``moments_s`` that lie before each of ``at_s``, added up."""
    moments = np.sort(moments_s[np.isfinite(moments_s)])
    before = np.searchsorted(moments, at_s, side="right")
    added = np.concatenate([[0.0], np.cumsum(moments)])
    return before * at_s - added[before]


def in_flight(host: Host, device: int, *, layer: LayerName, at_s: Floats) -> Floats:
    """How many I/Os are in flight at each moment."""
    ios = host.devices[device]
    started, ended = np.sort(ios.started_s(layer)), np.sort(ios.ends_s)
    return (np.searchsorted(started, at_s, side="right") - np.searchsorted(ended, at_s, side="right")).astype(
        float
    )


def busy_s(host: Host, devices: list[int], *, layer: LayerName, edges_s: Floats) -> Floats:
    """How long of each interval at least one I/O was in flight."""
    started = np.concatenate([host.devices[number].started_s(layer) for number in devices])
    ended = np.concatenate([host.devices[number].ends_s for number in devices])
    order = np.argsort(started)
    started, ended = started[order], np.maximum.accumulate(np.minimum(ended[order], edges_s[-1] + 1))
    opens = np.concatenate([[True], started[1:] > ended[:-1]])
    starts, ends = started[opens], ended[np.concatenate([opens[1:], [True]])]
    return np.diff(_spent(edges_s, starts) - _spent(edges_s, ends))


def edges(host: Host, interval_s: float, first_s: float = 0.0) -> Floats:
    """Moments at which a sampler looks."""
    return np.arange(first_s, host.seconds + 1e-6, interval_s)


PERFMON: Final = (
    # Counter, metric, factor from what perfmon shows to the metric's unit, that unit.
    ("Avg. Disk sec/Read", "read_latency_ns", 1e9, "ns"),
    ("Avg. Disk sec/Write", "write_latency_ns", 1e9, "ns"),
    ("Avg. Disk sec/Transfer", "latency_ns", 1e9, "ns"),
    ("Disk Reads/sec", "read_iops", 1, "1/s"),
    ("Disk Writes/sec", "write_iops", 1, "1/s"),
    ("Disk Transfers/sec", "iops", 1, "1/s"),
    ("Disk Read Bytes/sec", "read_bytes_per_second", 1, "bytes/s"),
    ("Disk Write Bytes/sec", "write_bytes_per_second", 1, "bytes/s"),
    ("Avg. Disk Queue Length", "queue_length", 1, "I/Os"),
    ("Current Disk Queue Length", "in_flight", 1, "I/Os"),
    ("% Idle Time", "idle_percent", 1, "percent"),
)


def perfmon(host: Host, interval_s: float, first_s: float = 0.0) -> dict[tuple[str, str], Floats]:
    """(instance, counter) → a value at the end of each interval, in the units that perfmon shows, ``_Total`` included.

    A mean over no I/O is 0, as Windows shows it.
    """
    at = edges(host, interval_s, first_s)
    groups = {ios.disk.name: [number] for number, ios in enumerate(host.devices)}
    groups["_Total"] = list(range(len(host.devices)))
    found = {}
    for name, members in groups.items():
        read, write = (
            [totals(host, number, reads=reads, layer="block", edges_s=at) for number in members]
            for reads in (True, False)
        )
        read_ios, write_ios = (sum(one.ios for one in side) for side in (read, write))
        read_s, write_s = (sum(one.latency_s for one in side) for side in (read, write))
        queue = sum(one.in_flight_s for one in (*read, *write)) / interval_s
        values = (
            _mean(read_s, read_ios), _mean(write_s, write_ios), _mean(read_s + write_s, read_ios + write_ios),
            read_ios / interval_s, write_ios / interval_s, (read_ios + write_ios) / interval_s,
            sum(one.bytes for one in read) / interval_s, sum(one.bytes for one in write) / interval_s,
            queue, sum(in_flight(host, number, layer="block", at_s=at[1:]) for number in members),
            100 - 100 * busy_s(host, members, layer="block", edges_s=at) / interval_s,
        )  # fmt: skip
        found |= {(name, counter): value for (counter, *_), value in zip(PERFMON, values, strict=True)}
    return found


def _mean(total: Floats, count: Floats) -> Floats:
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)


def perfmon_table(host: Host, interval_s: float, first_s: float = 0.0) -> pa.Table:
    """`perfmon` as rows of ``counters``."""
    at = edges(host, interval_s, first_s)[1:]
    meanings = {counter: rest for counter, *rest in PERFMON}
    pieces = []
    for (instance, counter), shown in perfmon(host, interval_s, first_s).items():
        metric, factor, unit = meanings[counter]
        nothing = (shown == 0) & (metric.endswith("latency_ns"))
        count = len(shown)
        pieces.append(pa.table({
            "at_ns": np.round(at * 1e9).astype(np.int64),
            "interval_ns": pa.array([None if metric == "in_flight" else round(interval_s * 1e9)] * count, pa.int64()),
            "source": [SERVER] * count, "object": ["PhysicalDisk"] * count, "instance": [instance] * count,
            "counter": [counter] * count, "value": shown * factor, "unit": [unit] * count, "layer": ["block"] * count,
            "metric": pa.array([metric] * count, pa.string(), mask=nothing),
        }))  # fmt: skip
    return pa.concat_tables(pieces).sort_by("at_ns")


def dmv_totals(host: Host, interval_s: float, first_s: float = 0.0) -> dict[int, dict[str, Floats]]:
    """File → running totals of sys.dm_io_virtual_file_stats at each look, the first included; stalls in whole ms."""
    at = edges(host, interval_s, first_s)
    found = {}
    for number in range(len(host.devices)):
        columns = {}
        for word, reads in (("read", True), ("write", False)):
            # From the recording's start on, so that the first look has totals too.
            sums = totals(host, number, reads=reads, layer="filesystem", edges_s=np.concatenate([[-1.0], at]))
            columns[f"{word}s"] = 1000 + np.cumsum(sums.ios)
            columns[f"{word}_bytes"] = 8_192_000 + np.cumsum(sums.bytes)
            columns[f"{word}_stall_ms"] = np.floor(5000 + np.cumsum(sums.latency_s) * 1e3)
        found[number] = columns
    return found


def dmv_table(host: Host, interval_s: float, first_s: float = 0.0) -> pa.Table:
    """What lies between the looks of `dmv_totals`, as rows of ``counters``."""
    at = edges(host, interval_s, first_s)[1:]
    rows: list[dict[str, Any]] = []
    for number, columns in dmv_totals(host, interval_s, first_s).items():
        change = {name: np.diff(values) for name, values in columns.items()}
        for index, moment in enumerate(at):
            for word in ("read", "write"):
                ios, stall_ms = change[f"{word}s"][index], change[f"{word}_stall_ms"][index]
                told = [
                    (f"{word}s per second", ios / interval_s, "1/s", f"{word}_iops"),
                    (f"{word} bytes per second", change[f"{word}_bytes"][index] / interval_s, "bytes/s",
                     f"{word}_bytes_per_second"),
                ]  # fmt: skip
                if ios:
                    told.append((f"mean {word} latency", stall_ms * 1e6 / ios, "ns", f"{word}_latency_ns"))
                rows += [
                    {"at_ns": round(moment * 1e9), "interval_ns": round(interval_s * 1e9), "source": SERVER,
                     "object": "sys.dm_io_virtual_file_stats", "instance": host.devices[number].disk.path,
                     "counter": counter, "value": value, "unit": unit, "layer": "sql", "metric": metric}
                    for counter, value, unit, metric in told
                ]  # fmt: skip
    return pa.Table.from_pylist(rows).sort_by("at_ns")


def write_counters(path: Path, host: Host, *tables: pa.Table, kind: str = "perfmon-csv") -> Recording:
    """A recording of counters alone."""
    with RecordingWriter(path) as writer:
        for table in tables:
            writer.append("counters", table)
        write_tables(writer, host, devices=False)
        rows = sum(table.num_rows for table in tables)
        return writer.commit(Manifest(
            kind=Kind.CAPTURED, title=host.title, clock=Clock(START_UTC_NS, 1e6, "Windows text counter log"),
            window_end_ns=host.seconds * 1_000_000_000, host=HostFacts(SERVER),
            sources=[Source("night.csv", kind, events=rows)], quality=Quality().judge(rows),
        ))  # fmt: skip


def write_perfmon(path: Path, host: Host, interval_s: float) -> Recording:
    """A counter log of Windows, imported."""
    return write_counters(path, host, perfmon_table(host, interval_s))


def write_dmv(path: Path, host: Host, interval_s: float = 15.0) -> Recording:
    """Snapshots of SQL Server's file statistics, imported."""
    return write_counters(path, host, dmv_table(host, interval_s), kind="dmv")


def _moments(host: Host, interval_s: float, first_s: float, shift_s: float) -> Iterator[datetime]:
    start = datetime.fromtimestamp(START_UTC_NS / 1e9, UTC) + timedelta(seconds=shift_s)
    return (start + timedelta(seconds=float(one)) for one in edges(host, interval_s, first_s))


def write_perfmon_csv(
    path: Path, host: Host, interval_s: float, first_s: float = 0.0, shift_s: float = 0.0
) -> Path:
    """The text that ``logman -f csv`` leaves: local time, of a host that keeps UTC. Means have no value at first.

    ``shift_s``: what its clock shows more than it should.
    """
    series = perfmon(host, interval_s, first_s)
    names = [f"\\\\{SERVER}\\PhysicalDisk({instance})\\{counter}" for instance, counter in series]
    lines = [["(PDH-CSV 4.0) (GMT Standard Time)(0)", *names]]
    for index, moment in enumerate(_moments(host, interval_s, first_s, shift_s)):
        stamp = moment.strftime("%m/%d/%Y %H:%M:%S.") + f"{moment.microsecond // 1000:03}"
        lines.append([stamp, *(repr(float(one[index - 1])) if index else " " for one in series.values())])
    path.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\r\n" for line in lines), "ascii")
    return path


def write_dmv_text(
    path: Path, host: Host, interval_s: float = 15.0, first_s: float = 0.0, shift_s: float = 0.0
) -> Path:
    """The text that ``sqlcmd -W -s "|"`` leaves of the query of sys.dm_io_virtual_file_stats, run again and again."""
    names = (
        "capture_utc|server_name|sqlserver_start_time|database_id|file_id|sample_ms|num_of_reads|num_of_bytes_read|"
        "io_stall_read_ms|io_stall_queued_read_ms|num_of_writes|num_of_bytes_written|io_stall_write_ms|"
        "io_stall_queued_write_ms|size_on_disk_bytes|type_desc|database_name|physical_name"
    )
    found = dmv_totals(host, interval_s, first_s)
    lines = [names, "|".join("-" * len(name) for name in names.split("|"))]
    for index, moment in enumerate(_moments(host, interval_s, first_s, shift_s)):
        for number, columns in found.items():
            disk = host.devices[number].disk
            value = {name: int(values[index]) for name, values in columns.items()}
            uptime = 1_000_000_000 + round((first_s + index * interval_s) * 1000)
            kind, database = (
                ("LOG" if disk.role == "log" else "ROWS"),
                (2 if disk.role == "tempdb_data" else 5),
            )
            cells = (
                moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3], SERVER, "2026-02-01T06:00:00.123", database, number + 1,
                uptime,
                value["reads"], value["read_bytes"], value["read_stall_ms"], 0, value["writes"], value["write_bytes"],
                value["write_stall_ms"], 0, 1 << 40, kind, disk.database, disk.path,
            )  # fmt: skip
            lines.append("|".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
