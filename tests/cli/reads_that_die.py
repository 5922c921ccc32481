"""What processes are to run in tests of lost workers; they import it by its name."""

import os
import signal
from pathlib import Path

from iotrace.analyze.fleet.summary import HostSummary, Unread, summarise

DEADLY = "sql2"


def unless_first(marks: Path, path: Path) -> HostSummary | Unread:
    """As `summarise`; but whoever reads `DEADLY` first dies over it."""
    mark = marks / "dead"
    if path.stem == DEADLY and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return summarise(path)


def never(path: Path) -> HostSummary | Unread:
    """Nobody survives `DEADLY`."""
    if path.stem == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return summarise(path)
