"""What monitoring keeps of disks: CloudWatch, Azure Monitor, Prometheus."""

from typing import Final

from iotrace.capture.formats.entry import Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry("cloudwatch", f"{__name__}.cloudwatch:FORMAT", rb'"Datapoints"|"MetricDataResults"'),
    entry("azure-monitor", f"{__name__}.azure_monitor:FORMAT", rb'"timeseries"'),
    entry("prometheus", f"{__name__}.prometheus:FORMAT", rb'"resultType"'),
)
