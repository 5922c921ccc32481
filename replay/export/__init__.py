"""A recording as a load for other tools, and as a table for other programs."""

from .facts import DiskSpdClass, DiskSpdFacts, FioFacts, FioJob
from .folders import CLOSED_LOOP, LOST, export_diskspd, export_fio
from .places import parse_targets
from .tables import KINDS as TABLE_KINDS
from .tables import Written, defused, export_table
from .workload import Workload, measure

__all__ = [
    "CLOSED_LOOP",
    "LOST",
    "TABLE_KINDS",
    "DiskSpdClass",
    "DiskSpdFacts",
    "FioFacts",
    "FioJob",
    "Workload",
    "Written",
    "defused",
    "export_diskspd",
    "export_fio",
    "export_table",
    "measure",
    "parse_targets",
]
