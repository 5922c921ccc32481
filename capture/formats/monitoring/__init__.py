"""What monitoring keeps of disks: CloudWatch, Azure Monitor, Prometheus, and VMware's vscsiStats."""

from typing import Final

from iotrace.capture.formats.entry import Certainty, Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry(
        "cloudwatch",
        f"{__name__}.cloudwatch:FORMAT",
        rb"Datapoints|MetricDataResults|Volume[A-Z]|BurstBalance",
        words="volume metrics of Amazon CloudWatch",
    ),
    entry(
        "azure-monitor",
        f"{__name__}.azure_monitor:FORMAT",
        rb'(?i)"timeseries"|disk (?:read|write|latency)|queue depth',
        words="disk metrics of Azure Monitor",
    ),
    entry(
        "prometheus",
        f"{__name__}.prometheus:FORMAT",
        rb'"resultType"',
        words="disk metrics of Prometheus",
        certainty=Certainty.CERTAIN,
    ),
    entry(
        "vscsistats",
        f"{__name__}.vscsi_stats:FORMAT",
        rb"virtual machine worldGroupID",
        words="histograms of VMware's vscsiStats",
        certainty=Certainty.CERTAIN,
    ),
)
