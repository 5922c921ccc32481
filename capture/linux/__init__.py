"""The live recorder for Linux: the block layer, as the kernel traces it."""

from .live import record

__all__ = ["record"]
