"""The live recorder for Linux: the block layer, as the kernel traces it."""

import sys

if sys.platform == "linux":
    from .doctor import Check, examine
    from .live import record
    from .tracefs import mount_tracefs
    from .unfinished import recover, snapshot
else:
    from .not_linux import Check, examine, mount_tracefs, record, recover, snapshot

__all__ = ["Check", "examine", "mount_tracefs", "record", "recover", "snapshot"]
