"""The report: one HTML file that opens offline, the verdict first, the evidence and its tables below."""

from .facts import RecordingFacts, ReportFacts, SweepFacts
from .write import write_report

__all__ = ["RecordingFacts", "ReportFacts", "SweepFacts", "write_report"]
