"""Two recordings held against each other: work, latency, layers, each with its interval.

``compare(a, b)`` gives a `Comparison`.
"""

from .recordings import compare

__all__ = ["compare"]
