"""What monitoring keeps of disks: CloudWatch, Azure Monitor, Prometheus, and VMware's vscsiStats."""

from typing import Final

from iotrace.capture.formats.format import Certainty, Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "cloudwatch",
        f"{__name__}.cloudwatch:FORMAT",
        (b"datapoints", b"metricdataresults", b"volume", b"burstbalance"),
        words="volume metrics of Amazon CloudWatch",
    ),
    entry(
        "azure-monitor",
        f"{__name__}.azure_monitor:FORMAT",
        (b'"timeseries"', b"disk read", b"disk write", b"disk latency", b"queue depth"),
        words="disk metrics of Azure Monitor",
    ),
    entry(
        "prometheus",
        f"{__name__}.prometheus:FORMAT",
        (b'"resulttype"',),
        words="disk metrics of Prometheus",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "vscsistats",
        f"{__name__}.vscsi_stats:FORMAT",
        (b"virtual machine worldgroupid",),
        words="histograms of VMware's vscsiStats",
        certainty=Certainty.CERTAIN,
    ),
)
