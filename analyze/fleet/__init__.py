"""Many recordings as one: each host's row, what they come to together, and who stands out.

``inputs`` finds the recordings that a user's words name, ``summary`` says what is kept of each, ``description`` adds
them up; ``incidents`` and ``shared`` find what was slow on several at once; ``workers`` lets several be read at once.
"""

from .description import Fleet, describe_fleet
from .incidents import FleetIncidents, incident_fleet, read_groups
from .incidents_presentation import fleet_incidents_answer
from .inputs import distinct_hosts, named_recordings, refuse_missing
from .presentation import fleet_answer, hosts_text
from .summary import Unread
from .workers import incidents_of_each, read_each, summaries

__all__ = [
    "Fleet",
    "FleetIncidents",
    "Unread",
    "describe_fleet",
    "distinct_hosts",
    "fleet_answer",
    "fleet_incidents_answer",
    "hosts_text",
    "incident_fleet",
    "incidents_of_each",
    "named_recordings",
    "read_each",
    "read_groups",
    "refuse_missing",
    "summaries",
]
