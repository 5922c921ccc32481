"""Readers of what other load tools print: DiskSpd, fio, HammerDB, vdbench and others. One format a file."""

from typing import Final

from iotrace.capture.formats.format import Certainty, Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "crystaldiskmark",
        f"{__name__}.crystaldiskmark:FORMAT",
        (b"crystaldiskmark ",),
        words="results of CrystalDiskMark",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "diskspd-text",
        f"{__name__}.diskspd_text:FORMAT",
        (b"input parameters:", b"results for timespan"),
        words="results of DiskSpd",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "diskspd-xml",
        f"{__name__}.diskspd_xml:FORMAT",
        (b"<results>",),
        words="results of DiskSpd",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "elbencho",
        f"{__name__}.elbencho:FORMAT",
        (b"iso date,label,path type",),
        words="results of elbencho",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "fio-json",
        f"{__name__}.fio_json:FORMAT",
        (b'"fio version"',),
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
        (b"(groupid=",),
        words="results of fio",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "hammerdb",
        f"{__name__}.hammerdb:FORMAT",
        (b"hammerdb", b"test result : system", b">>>>> proc:", b"query set(s) in "),
        words="log of HammerDB",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "iometer",
        f"{__name__}.iometer:FORMAT",
        (b"'test type,test description", b"'target type,target name"),
        words="results of Iometer",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "sqlio",
        f"{__name__}.sqlio:FORMAT",
        (b"sqlio v",),
        words="results of SQLIO",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "vdbench",
        f"{__name__}.vdbench:FORMAT",
        (b"vdbench generated", b"interval"),
        words="results of vdbench",
        certainty=Certainty.CERTAIN,
    ),
)
