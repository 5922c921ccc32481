"""What Windows and SQL Server write: traces, counter logs, events, DMV snapshots."""

from typing import Final

from iotrace.capture.formats.entry import TEXT, Entry, entry

_CONTAINER: Final = rb"(?s)\A.{74}[\x01\x02][\xc0-\xff]..\0\0"

FORMATS: Final[tuple[Entry, ...]] = (
    entry("blg", f"{__name__}.blg:FORMAT", _CONTAINER + rb"|This is|PDH-BIN|\AP\0D\0H\0"),
    entry("dmv", f"{__name__}.dmv:FORMAT", rb"\APAR1|" + TEXT),
    entry("dmv-duckdb", f"{__name__}.dmv_database:FORMAT", rb"(?s)\A.{8}DUCK"),
    entry("etl", f"{__name__}.etl:FORMAT", _CONTAINER),
    entry("perfmon-csv", f"{__name__}.perfmon_csv:FORMAT", rb"PDH-[CT]SV|ServerName,DatabaseName,"),
    entry("volumes", f"{__name__}.volumes:FORMAT", rb"\A(?:\xef\xbb\xbf)?volume_device,"),
    entry("xel", f"{__name__}.xel:FORMAT", rb"\A\x5a\x37\xab\xef", r"\.xe[lm]\Z"),
    entry("wpa", f"{__name__}.wpa:FORMAT", rb"(?i)IO Type"),
    entry("xperf", f"{__name__}.xperf:DUMPER", rb"BeginHeader"),
    entry("xperf-diskio", f"{__name__}.xperf:DETAIL", rb"(?i)start[^a-z\n]*time"),
    entry("tracerpt-csv", f"{__name__}.tracerpt:CSV", rb"(?i)event name\s*,"),
    entry("tracerpt-xml", f"{__name__}.tracerpt:XML", rb"<Events>"),
)
