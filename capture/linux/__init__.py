"""The live recorder for Linux: the block layer, as the kernel traces it."""

import sys

if sys.platform == "linux":
    from .doctor import Check, examine
    from .live import record
    from .metrics import Metrics, is_local, serving
    from .tracefs import mount_tracefs
    from .unfinished import recover, snapshot
else:
    from .not_linux import (
        Check,
        Metrics,
        examine,
        is_local,
        mount_tracefs,
        record,
        recover,
        serving,
        snapshot,
    )

__all__ = [
    "Check",
    "Metrics",
    "examine",
    "is_local",
    "mount_tracefs",
    "record",
    "recover",
    "serving",
    "snapshot",
]
