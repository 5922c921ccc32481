"""The formats of this folder that are recognised by how their lines or records look, in no particular order."""

from typing import Final

from . import alibaba, blktrace, disksim, msr, tencent, vscsi
from .format import Format

FORMATS: Final[tuple[Format, ...]] = (
    blktrace.BINARY,
    blktrace.BLKPARSE,
    blktrace.PERF,
    msr.FORMAT,
    alibaba.FORMAT,
    tencent.FORMAT,
    disksim.MQSIM,
    disksim.DISKSIM,
    vscsi.FORMAT,
)
"""Each recognises its own files only: tests hold every fixture against every format."""
