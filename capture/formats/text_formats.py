"""The formats of this folder that are recognised by how their lines or records look, in no particular order."""

from typing import Final

from .array import csv_files, ontap_polls
from .format import Format
from .linux import biosnoop, blktrace, fio_iolog, sysstat
from .public import alibaba, disksim, msr, tencent, vscsi
from .windows import tracerpt, xperf

FORMATS: Final[tuple[Format, ...]] = (
    blktrace.BINARY,
    blktrace.BLKPARSE,
    blktrace.PERF,
    biosnoop.FORMAT,
    fio_iolog.FORMAT,
    sysstat.FORMAT,
    xperf.DUMPER,
    xperf.DETAIL,
    tracerpt.CSV,
    tracerpt.XML,
    csv_files.FORMAT,
    ontap_polls.FORMAT,
    msr.FORMAT,
    alibaba.FORMAT,
    tencent.FORMAT,
    disksim.MQSIM,
    disksim.DISKSIM,
    vscsi.FORMAT,
)
"""Each recognises its own files only: tests hold every fixture against every format."""
