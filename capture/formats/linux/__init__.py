"""What Linux tools write: blktrace, perf, biosnoop, fio's I/O logs, iostat and sar."""

from typing import Final

from iotrace.capture.formats.entry import Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry("blktrace", f"{__name__}.blktrace:BINARY", rb"(?s)\A(?:.tae|eat.)", r"\.blktrace\.\d+\Z"),
    entry("blkparse", f"{__name__}.blktrace:BLKPARSE", rb"\d,\d+\s+\d+\s+\d+\s+\d+\.\d{9}\s"),
    entry("perf", f"{__name__}.blktrace:PERF", rb"block:block_"),
    entry("perf-trace", f"{__name__}.perf_trace:FORMAT", rb" ms\): |\[continued\]|Summary of events:"),
    entry("biosnoop", f"{__name__}.biosnoop:FORMAT", rb"LAT\(ms\)"),
    entry("fio", f"{__name__}.fio_iolog:FORMAT", rb"fio version [23] iolog"),
    entry("diskstats", f"{__name__}.diskstats:FORMAT", rb"\d\s+\S+(?:\s+\d+){11}"),
    entry("biolatency", f"{__name__}.biolatency:FORMAT", rb"[num]secs"),
    entry("sysstat", f"{__name__}.sysstat:FORMAT", rb'"sysstat"|Device|DEV|Linux \S+ \('),
)
