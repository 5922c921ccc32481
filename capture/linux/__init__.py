"""The live recorder for Linux: the block layer, as the kernel traces it."""

import sys

if sys.platform == "linux":
    from .live import record
    from .unfinished import recover, snapshot
else:
    from .elsewhere import record, recover, snapshot

__all__ = ["record", "recover", "snapshot"]
