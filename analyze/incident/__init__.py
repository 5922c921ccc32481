"""What happened that night: slow windows, load or storage, where the time went and whose it was.

``incident(recording)`` gives `Incidents`; ``cut`` writes one window as a recording of its own.
"""

from .cut import cut, window_to_cut
from .find import NoLatencyError, incident
from .result import Incidents, SlowWindow

__all__ = ["Incidents", "NoLatencyError", "SlowWindow", "cut", "incident", "window_to_cut"]
