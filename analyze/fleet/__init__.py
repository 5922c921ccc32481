"""Many recordings as one: each host's row, what they come to together, and who stands out.

``inputs`` finds the recordings that a user's words name, ``summary`` says what is kept of each, ``description`` adds
them up, ``workers`` lets several be read at once.
"""

from .description import Fleet, describe_fleet
from .inputs import named_recordings
from .presentation import fleet_answer
from .workers import summaries

__all__ = ["Fleet", "describe_fleet", "fleet_answer", "named_recordings", "summaries"]
