"""Traces that researchers and cloud providers published."""

from typing import Final

from iotrace.capture.formats.format import Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "msr",
        f"{__name__}.msr:FORMAT",
        rb"1\d{17},[^,]+,\d+,",
        words="MSR Cambridge trace",
    ),
    entry(
        "alibaba",
        f"{__name__}.alibaba:FORMAT",
        rb"\d,[RW],\d+,\d+,1\d{15}",
        words="Alibaba trace",
    ),
    entry(
        "tencent",
        f"{__name__}.tencent:FORMAT",
        rb"1\d{9},\d+,\d+,[01],\d",
        words="Tencent trace",
    ),
    entry(
        "mqsim",
        f"{__name__}.disksim:MQSIM",
        rb"\d[ \t]+\d{1,6}[ \t]+\d+[ \t]+\d+[ \t]+[01]\b",
        words="MQSim trace",
    ),
    entry(
        "disksim",
        f"{__name__}.disksim:DISKSIM",
        rb"\d\.\d+[ \t]+\d{1,6}[ \t]+\d+[ \t]+\d+[ \t]",
        words="DiskSim trace",
    ),
    entry(
        "disksim-validation",
        f"{__name__}.disksim:VALIDATION",
        rb"R[ \t]+(?:Hit|Miss)[ \t]|W[ \t]+(?:Hit|Miss)[ \t]",
        words="validation trace of DiskSim",
    ),
    entry(
        "vscsi",
        f"{__name__}.vscsi:FORMAT",
        rb"(?s)\A(?:.{13}\0.\x01|.\0.\x02)",
        words="vSCSI trace of VMware",
    ),
)
