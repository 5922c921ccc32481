"""What Windows and SQL Server write: traces, counter logs, events, DMV snapshots."""

from typing import Final

from iotrace.capture.formats.format import TEXT, Certainty, Entry, entry

_CONTAINER: Final = rb".{74}[\x01\x02][\xc0-\xff]..\0\0"

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "blg",
        f"{__name__}.blg:FORMAT",
        rb"(?s)\A(?:" + _CONTAINER + rb"|This is|.{0,200}This is Biber|.{0,64}PDH-BIN|.{0,64}P\0D\0H\0)",
        words="counter log of Performance Monitor",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "dmv",
        f"{__name__}.dmv:FORMAT",
        rb"\APAR1|" + TEXT,
        words="snapshots of SQL Server's file or wait statistics",
    ),
    entry(
        "dmv-duckdb",
        f"{__name__}.dmv_database:FORMAT",
        rb"(?s)\A.{8}DUCK",
        words="database of PerformanceMonitor Lite",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "etl",
        f"{__name__}.etl:FORMAT",
        rb"(?s)\A" + _CONTAINER,
        words="Windows event trace",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "perfmon-csv",
        f"{__name__}.perfmon_csv:FORMAT",
        (b"pdh-csv", b"pdh-tsv", b"servername,databasename,"),
        words="counter log as text, of Performance Monitor or esxtop",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "volumes",
        f"{__name__}.volumes:FORMAT",
        rb"\A(?:\xef\xbb\xbf)?volume_device,",
        words="table of a host's volumes",
    ),
    entry(
        "xel",
        f"{__name__}.xel:FORMAT",
        rb"\A\x5a\x37\xab\xef",
        r"\.xe[lm]\Z",
        words="Extended Events of SQL Server",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "whoisactive",
        f"{__name__}.whoisactive:FORMAT",
        (b"wait_info",),
        words="log of sp_WhoIsActive",
    ),
    entry("wpa", f"{__name__}.wpa:FORMAT", (b"io type",), words="Disk Usage of Windows Performance Analyzer"),
    entry(
        "xperf",
        f"{__name__}.xperf:DUMPER",
        (b"beginheader",),
        words="events as xperf dumps them",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "xperf-diskio",
        f"{__name__}.xperf:DETAIL",
        rb"(?i)start[^a-z\n]*time",
        words="disk I/O as xperf lists it",
    ),
    entry(
        "tracerpt-csv",
        f"{__name__}.tracerpt:CSV",
        (b"event name",),
        words="events as tracerpt writes them",
    ),
    entry(
        "tracerpt-xml",
        f"{__name__}.tracerpt:XML",
        (b"<events>",),
        words="events as tracerpt writes them",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "sql-assessment",
        f"{__name__}.assessment:FORMAT",
        rb'\A(?:\xef\xbb\xbf)?"?ServerName"?,',
        words="counters of a SQL Server migration assessment",
        certainty=Certainty.CERTAIN,
    ),
)
