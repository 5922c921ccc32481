"""Events per second of the .etl reader, one thread and all, against a plain Python walker over the same bytes.

    python tests/bench/bench_etl.py

Real logs from the samples, their buffers repeated to a size worth measuring; a constructed one that is nothing but disk
I/O; and two of 2 GB, whose import is to need no more memory than a short log's: one nothing but disk I/O, one with one
disk I/O among 70 events. The walker only finds events and counts the disk ones, in stored buffers: less than the reader
does. Beside it the pure-Python readers of others, where they are installed (pip install etl-parser dissect.etl), on the
first buffers of the same file; a ratio is only printed if they find nearly all events there. Best of three after the
file is in the page cache. One thread is judged by processor time, as the other readers are, which what else runs on the
machine disturbs less; several threads and whole imports by the clock on the wall. Prints; asserts nothing.
"""

import importlib.util
import io
import os
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from iotrace.capture import _readers
from iotrace.capture.importing.traces import import_files

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parents[1] / "shared" / "samples" / "etl"
TARGET_BYTES = 400 << 20
WALKER_BYTES = 30 << 20
PEER_BYTES = 1 << 20
PEER_SHARE = 0.95
LONG_BYTES = 2_000_000_000


def repeated(data, target_bytes):
    """The first buffer, then all others over and over."""
    (first,) = struct.unpack_from("<I", data, 0)
    body = data[first:]
    return data[:first] + body * max(1, target_bytes // len(body))


def builder():
    spec = importlib.util.spec_from_file_location("etl_build", TESTS / "fixtures" / "etl" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def disk_io_only(target_bytes):
    etl = builder()
    buffers = []
    for number in range(400):
        moments = range(etl.T0 + number * 60_000, etl.T0 + number * 60_000 + 600 * 100, 100)
        reads = [
            etl.perfinfo(etl.READ, at, etl.transfer(key=at % 64, irp=at % 32, offset=at * 512, response=900))
            for at in moments
        ]
        buffers.append(reads)
    names = [
        etl.system(etl.FILE_RUNDOWN, etl.T0 + 10**9, etl.name(key, f"\\Device\\D\\{key}.mdf"))
        for key in range(64)
    ]
    return repeated(etl.log(*buffers, names), target_bytes)


def write_long_log(path, target_bytes, every):
    """A log of buffers full of events, time going on in four interleaved processors; each ``every``-th is a read."""
    etl = builder()
    events, size, places = [], 0, []
    while True:
        number = len(events)
        if number % every == 0:
            payload = etl.transfer(
                key=1 + number % 61, irp=number, offset=number * 8192, response=900, thread=7
            )
            event = etl.pad(etl.perfinfo(etl.READ, 0, payload))
        else:
            event = etl.perfinfo(0xF2E, 0, bytes(16), version=2)  # a profile sample
        if size + len(event) > 65_536 - 72:
            break
        places.append((size + 8) // 8)
        events.append(event)
        size += len(event)
    template = np.frombuffer(etl.buffer(events, 1)[72:], "<i8").copy()
    clocks = [etl.T0 + 1000] * 4
    with path.open("wb") as file:
        file.write(etl.log())
        for sequence in range(1, target_bytes // 65_536):
            ticks = clocks[sequence % 4] + np.arange(1, len(events) + 1) * 97
            clocks[sequence % 4] = int(ticks[-1])
            template[places] = ticks
            head = bytearray(etl.buffer([], sequence, processor=sequence % 4)[:72])
            head[0x30:0x34] = struct.pack("<I", 72 + size)
            file.write(bytes(head) + template.tobytes())
        names = [
            etl.system(etl.FILE_RUNDOWN, max(clocks), etl.name(key, f"\\Device\\D\\{key}.mdf"))
            for key in range(1, 62)
        ]
        file.write(etl.buffer(names, target_bytes // 65_536))


IMPORT = """
import sys, time
from pathlib import Path
from iotrace.capture.importing.traces import import_files
start = time.perf_counter()
manifest = import_files([sys.argv[1]], sys.argv[2], overwrite=True).manifest
seconds = time.perf_counter() - start
status = Path("/proc/self/status")  # getrusage would count what the parent holds
lines = status.read_text().splitlines() if status.exists() else []
peak = next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM")), None)
events = manifest.sources[0].events
print(f"  whole import: {events:,} events, {manifest.rows['io']:,} I/Os, {seconds:.1f} s,", end=" ")
print(f"{events / seconds / 1e6:.1f} M events/s, peak {peak} MiB")
"""


def measure_long_logs(folder):
    for label, every in (("nothing but disk I/O", 1), ("one disk I/O among 70 events", 70)):
        path = folder / "long.etl"
        write_long_log(path, LONG_BYTES, every)
        print(f"2 GB, {label}")
        spent = time.process_time()
        events, _ = read_all(path, 1)
        spent = time.process_time() - spent
        print(f"  reader: {events / spent / 1e6:.1f} M events per second of one processor's time")
        subprocess.run([sys.executable, "-c", IMPORT, str(path), str(folder / "long.iotrace")], check=True)


def walk_in_python(data):
    """Every event of every stored buffer; returns how many there are, and how many are disk I/O."""
    at = events = disk = 0
    while at + 72 <= len(data):
        size, filled = struct.unpack_from("<I", data, at)[0], struct.unpack_from("<I", data, at + 0x30)[0]
        position, end = at + 72, at + filled
        while position + 8 <= end:
            first, kind, flags, second, hook = struct.unpack_from("<HBBHH", data, position)
            if flags != 0xC0:
                break
            if kind in (1, 2, 3, 4, 0x10, 0x11):
                length = second
                disk += hook >> 8 == 1
            else:
                length = first
            events += 1
            position += (length + 7) & ~7
        at += size
    return events, disk


def count_with_etl_parser(data):
    from etl.etl import IEtlFileObserver, build_from_stream

    class Counter(IEtlFileObserver):
        count = 0

        def _one(self, _event):
            self.count += 1

        on_event_record = on_trace_record = on_perfinfo_trace = on_system_trace = on_win_trace = _one

    counter = Counter()
    build_from_stream(data).parse(counter)
    return counter.count


def count_with_dissect(data):
    from dissect.etl import ETL

    count = 0
    try:
        for event in ETL(io.BytesIO(data)):
            count += event is not None
    except EOFError:  # it believes the header, which tells of more buffers
        pass
    return count


def measure_peers(data, our_rate, folder):
    """Events per second of other pure-Python readers, on the log's first buffers."""
    end = 0
    while end < PEER_BYTES and end + 4 <= len(data):
        end += struct.unpack_from("<I", data, end)[0]
    excerpt = folder / "excerpt.etl"
    excerpt.write_bytes(data[:end])
    events, _ = read_all(excerpt, 1)
    for name, module, count in (
        ("etl-parser", "etl", count_with_etl_parser),
        ("dissect.etl", "dissect", count_with_dissect),
    ):
        if importlib.util.find_spec(module) is None:
            print(f"  {name}: not installed")
            continue
        start = time.process_time()
        try:
            found = count(data[:end])
            rate = found / (time.process_time() - start)
        except Exception as problem:  # noqa: BLE001 - whatever a peer cannot read
            print(f"  {name}: fails on this log ({type(problem).__name__})")
            continue
        if found < events * PEER_SHARE:
            print(f"  {name}: finds {found:,} of {events:,} events")
            continue
        print(f"  {name}: {rate:,.0f} events/s; iotrace on one thread {our_rate / rate:,.0f} x that")


def best(run, rounds=3, clock=time.perf_counter):
    times = []
    for _ in range(rounds):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def read_all(path, threads):
    trace = _readers.read_etl(path, threads=threads)
    rows = 0
    while (batch := trace.next_io(1 << 17)) is not None:
        rows += pa.record_batch(batch).num_rows
    return trace.counts()["events"], rows


def main():
    logs = {"nothing but disk I/O, stored": disk_io_only(TARGET_BYTES)}
    if SAMPLES.is_dir():
        for label, name, member in (
            ("Windows 7 trace, stored", "net.4.5.x86", "PerfViewData.etl"),
            ("Windows 8 trace, compressed", "net.4.5.2.x64", "net.4.5.2.x64.etl"),
        ):
            with zipfile.ZipFile(SAMPLES / f"perfview_{name}.etl.zip") as archive:
                logs[label] = repeated(archive.read(member), TARGET_BYTES)
        logs["trace of PowerShell, stored"] = repeated(
            (SAMPLES / "krabsetw_powershell.etl").read_bytes(), TARGET_BYTES
        )
    walked = next(
        (data for label, data in logs.items() if "7" in label), logs["nothing but disk I/O, stored"]
    )[:WALKER_BYTES]
    walker_events, _ = walk_in_python(walked)
    walker = walker_events / best(lambda: walk_in_python(walked), 1, time.process_time)
    print(f"plain Python walker: {walker:,.0f} events/s\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.etl"
        for label, data in logs.items():
            path.write_bytes(data)
            events, rows = read_all(path, 1)
            print(f"{label}: {len(data) / 1e6:,.0f} MB, {events:,} events, {rows:,} I/Os")
            for threads in sorted({1, os.cpu_count() or 1}, reverse=True):
                clock = time.process_time if threads == 1 else time.perf_counter
                rate = events / best(lambda path=path, threads=threads: read_all(path, threads), clock=clock)
                print(
                    f"  {threads} thread(s): {rate / 1e6:6.1f} M events/s  {rate / walker:6.0f} x the walker"
                )
            measure_peers(data, rate, Path(folder))
            output = Path(folder) / "bench.iotrace"
            seconds = best(lambda path=path, output=output: import_files([path], output, overwrite=True), 1)
            print(f"  whole import: {events / seconds / 1e6:6.1f} M events/s, {seconds:.1f} s")
        path.unlink()
        measure_long_logs(Path(folder))


if __name__ == "__main__":
    main()
