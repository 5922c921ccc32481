"""How much load the storage sustains, where its latency bends, and what ends it.

``knee_of_sweep(sweep)`` gives a `Knee`, and so does ``knee(steps)``.
"""

from .series import knee, knee_of_sweep

__all__ = ["knee", "knee_of_sweep"]
