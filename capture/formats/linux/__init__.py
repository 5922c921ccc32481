"""What Linux tools write: blktrace, perf, biosnoop, fio's I/O logs, iostat and sar."""

from typing import Final

from iotrace.capture.formats.format import Certainty, Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "blktrace",
        f"{__name__}.blktrace:BINARY",
        rb"(?s)\A(?:.tae|eat.)",
        r"\.blktrace\.\d+\Z",
        words="blktrace recording",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "blkparse",
        f"{__name__}.blktrace:BLKPARSE",
        rb"\d,\d+\s+\d+\s+\d+\s+\d+\.\d{9}\s",
        words="text of blkparse",
    ),
    entry(
        "perf",
        f"{__name__}.blktrace:PERF",
        (b"block:block_",),
        words="block events as perf script prints them",
    ),
    entry(
        "perf-trace",
        f"{__name__}.perf_trace:FORMAT",
        (b" ms): ", b"[continued]", b"summary of events:"),
        words="system calls as perf trace prints them",
    ),
    entry("biosnoop", f"{__name__}.biosnoop:FORMAT", (b"lat(ms)",), words="printout of biosnoop"),
    entry(
        "fio",
        f"{__name__}.fio_iolog:FORMAT",
        (b"fio version 2 iolog", b"fio version 3 iolog"),
        words="I/O log of fio",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "diskstats",
        f"{__name__}.diskstats:FORMAT",
        rb"\d\s+(?=\S*[A-Za-z])\S+(?:\s+\d+){11}",
        words="copies of /proc/diskstats",
    ),
    entry(
        "collectl",
        f"{__name__}.collectl:FORMAT",
        (b"[dsk:", b"svctim"),
        words="disks as collectl prints them",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "biolatency",
        f"{__name__}.biolatency:FORMAT",
        (b"nsecs", b"usecs", b"msecs"),
        words="latency histograms of biolatency",
    ),
    entry(
        "sysstat",
        f"{__name__}.sysstat:FORMAT",
        (b'"sysstat"', b"dev", b"linux "),
        words="reports of iostat or sar",
    ),
)
