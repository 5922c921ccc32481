"""The formats of this folder that are recognised by how their lines or records look, in no particular order."""

from typing import Final

from . import (
    alibaba,
    array_csv,
    biosnoop,
    blktrace,
    disksim,
    fio_iolog,
    msr,
    ontap_polls,
    tencent,
    tracerpt,
    vscsi,
    xperf,
)
from .format import Format

FORMATS: Final[tuple[Format, ...]] = (
    blktrace.BINARY,
    blktrace.BLKPARSE,
    blktrace.PERF,
    biosnoop.FORMAT,
    fio_iolog.FORMAT,
    xperf.DUMPER,
    xperf.DETAIL,
    tracerpt.CSV,
    tracerpt.XML,
    array_csv.FORMAT,
    ontap_polls.FORMAT,
    msr.FORMAT,
    alibaba.FORMAT,
    tencent.FORMAT,
    disksim.MQSIM,
    disksim.DISKSIM,
    vscsi.FORMAT,
)
"""Each recognises its own files only: tests hold every fixture against every format."""
