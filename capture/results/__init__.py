"""Readers of what other load tools print: DiskSpd, fio, HammerDB, vdbench and others. One format a file."""

from typing import Final

from iotrace.capture.formats.entry import Certainty, Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "crystaldiskmark",
        f"{__name__}.crystaldiskmark:FORMAT",
        rb"CrystalDiskMark \d",
        words="results of CrystalDiskMark",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "diskspd-text",
        f"{__name__}.diskspd_text:FORMAT",
        rb"Input parameters:|Results for timespan",
        words="results of DiskSpd",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "diskspd-xml",
        f"{__name__}.diskspd_xml:FORMAT",
        rb"<Results>",
        words="results of DiskSpd",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "elbencho",
        f"{__name__}.elbencho:FORMAT",
        rb"(?i)ISO date,label,path type",
        words="results of elbencho",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "fio-json",
        f"{__name__}.fio_json:FORMAT",
        rb'"fio version"',
        words="results of fio",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "fio-log",
        f"{__name__}.fio_log:FORMAT",
        rb"\d, -?\d{1,18}, (?:\d|0x)",
        r"_(?:clat|slat|lat|bw|iops)(?:\.\d+)?\.log\Z",
        words="latency, bandwidth or IOPS log of fio",
        certainty=Certainty.GUESS,
    ),
    entry(
        "fio-text",
        f"{__name__}.fio_text:FORMAT",
        rb"\(groupid=\d+, jobs=\d+\): err=",
        words="results of fio",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "hammerdb",
        f"{__name__}.hammerdb:FORMAT",
        rb"(?i)hammerdb|TEST RESULT : System|>>>>> PROC:|query set\(s\) in ",
        words="log of HammerDB",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "iometer",
        f"{__name__}.iometer:FORMAT",
        rb"'Test Type,Test Description|'Target Type,Target Name",
        words="results of Iometer",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "sqlio",
        f"{__name__}.sqlio:FORMAT",
        rb"sqlio v",
        words="results of SQLIO",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "vdbench",
        f"{__name__}.vdbench:FORMAT",
        rb"Vdbench generated|\bRun\s+Interval\b|\bRun\b[^\n]*\bInterval\b",
        words="results of vdbench",
        certainty=Certainty.CERTAIN,
    ),
)
