"""Many recordings as one: each host's row, what they come to together, and who stands out.

``summary`` finds the recordings that a user's words name and says what is kept of each, ``description`` adds them up;
``incidents`` and ``shared`` find what was slow on several at once; ``knees`` judges many sweeps; ``workers`` lets
several be read at once.
"""

from .description import Fleet, describe_fleet
from .incidents import FleetIncidents, incident_fleet, read_groups
from .knees import SweptHost, fleet_knees_answer, knee_of
from .presentation import fleet_answer, fleet_incidents_answer, hosts_text, left_out
from .summary import Unread, distinct_hosts, named_recordings, refuse_missing, stands_for_many
from .workers import HostTold, incidents_of_each, read_each, summaries, told_of_each

__all__ = [
    "Fleet",
    "FleetIncidents",
    "HostTold",
    "SweptHost",
    "Unread",
    "describe_fleet",
    "distinct_hosts",
    "fleet_answer",
    "fleet_incidents_answer",
    "fleet_knees_answer",
    "hosts_text",
    "incident_fleet",
    "incidents_of_each",
    "knee_of",
    "left_out",
    "named_recordings",
    "read_each",
    "read_groups",
    "refuse_missing",
    "stands_for_many",
    "summaries",
    "told_of_each",
]
