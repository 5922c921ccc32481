"""How much load the storage sustains, where its latency bends, and what ends it.

``knee(sweep)`` gives a `KneeAnswer`.
"""

from .sweep import knee

__all__ = ["knee"]
