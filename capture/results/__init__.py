"""Readers of what other load tools print: DiskSpd, fio, HammerDB, vdbench and others. One format a file."""

from typing import Final

from iotrace.capture.formats.entry import Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry("crystaldiskmark", f"{__name__}.crystaldiskmark:FORMAT", rb"CrystalDiskMark \d"),
    entry("diskspd-text", f"{__name__}.diskspd_text:FORMAT", rb"Input parameters:|Results for timespan"),
    entry("diskspd-xml", f"{__name__}.diskspd_xml:FORMAT", rb"<Results>"),
    entry("elbencho", f"{__name__}.elbencho:FORMAT", rb"(?i)ISO date,label,path type"),
    entry("fio-json", f"{__name__}.fio_json:FORMAT", rb'"fio version"'),
    entry(
        "fio-log",
        f"{__name__}.fio_log:FORMAT",
        rb"\d, -?\d{1,18}, (?:\d|0x)",
        r"_(?:clat|slat|lat|bw|iops)(?:\.\d+)?\.log\Z",
    ),
    entry("fio-text", f"{__name__}.fio_text:FORMAT", rb"\(groupid=\d+, jobs=\d+\): err="),
    entry(
        "hammerdb",
        f"{__name__}.hammerdb:FORMAT",
        rb"(?i)hammerdb|TEST RESULT : System|>>>>> PROC:|query set\(s\) in ",
    ),
    entry("iometer", f"{__name__}.iometer:FORMAT", rb"'Test Type,Test Description|'Target Type,Target Name"),
    entry("sqlio", f"{__name__}.sqlio:FORMAT", rb"sqlio v"),
    entry(
        "vdbench",
        f"{__name__}.vdbench:FORMAT",
        rb"Vdbench generated|\bRun\s+Interval\b|\bRun\b[^\n]*\bInterval\b",
    ),
)
