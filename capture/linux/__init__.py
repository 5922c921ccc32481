"""The live recorder for Linux: the block layer, as the kernel traces it."""

import sys

if sys.platform == "linux":
    from .live import record
else:
    from .elsewhere import record

__all__ = ["record"]
