"""What a recording holds: load, mix, latency, place and time, found in one pass.

``describe(recording)`` gives a `Description`.
"""

from .recording import describe

__all__ = ["describe"]
