"""The formats of results, in no particular order: each recognises its own files only."""

from typing import Final

from iotrace.capture.formats.format import Format

from . import diskspd_text, diskspd_xml, fio_json, fio_log, hammerdb, iometer, sqlio, vdbench

FORMATS: Final[tuple[Format, ...]] = (
    diskspd_text.FORMAT,
    diskspd_xml.FORMAT,
    fio_json.FORMAT,
    fio_log.FORMAT,
    hammerdb.FORMAT,
    iometer.FORMAT,
    sqlio.FORMAT,
    vdbench.FORMAT,
)
