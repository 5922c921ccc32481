"""How much load the storage sustains, where its latency bends, and what ends it.

``knee(sweep)`` gives a `Knee`.
"""

from .series import knee

__all__ = ["knee"]
