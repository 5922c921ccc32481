"""The section on slow windows: what happened, by load or by the storage, and what would have been seen."""

from iotrace.schemas import IotraceError, Recording

from ..incident import Incidents, incident
from ..units import format_duration_ns
from .charts_incident import incident_chart
from .section import Section
from .tables_incident import clock_text, incident_tables

_TOLD_MAX = 3


def find_incidents(recording: Recording) -> Incidents | None:
    """Slow windows of a recording; None where it has neither I/Os nor counters of latency, or is a closed loop."""
    if (recording.manifest.replay or {}).get("loop") == "closed":
        return None
    try:
        return incident(recording)
    except IotraceError as problem:
        if "nothing to find incidents in" in problem.message:
            return None
        raise


def incident_sentence(found: Incidents) -> str:
    """The costliest window in a sentence, or that there is none."""
    if not found.windows:
        return f"No slow window stands out.{_sensitivity(found)}"
    worst = found.windows[0]
    count = {1: "once", 2: "twice"}.get(len(found.windows), f"{len(found.windows)} times")
    return (
        f"It was slow {count}; the window that cost most began "
        f"{format_duration_ns(worst.start_ns - found.start_ns)} after the start: {worst.headline}."
    )


def incident_section(recording: Recording, found: Incidents) -> Section | None:
    """The windows with their evidence; None where nothing stood out of single I/Os."""
    if not found.windows and found.basis == "I/Os":
        return None
    start_utc_ns = recording.manifest.clock.start_utc_ns
    points = []
    for one in found.windows[:_TOLD_MAX]:
        at = clock_text(start_utc_ns, one.start_ns)
        evidence = "; ".join([*one.caveats, *one.evidence])
        points.append(
            f"Window {one.number}{f', {at}' if at else ''}: {one.headline}"
            f"{f' ({evidence})' if evidence else ''}."
        )
    chart = incident_chart(found)
    return Section(
        f"Slow windows: {found.title}",
        incident_sentence(found),
        points=points,
        notes=list(found.notes),
        charts=[chart] if chart else [],
        tables=incident_tables(found, start_utc_ns) if found.windows else [],
    )


def _sensitivity(found: Incidents) -> str:
    parts = [
        f"{one.factor:.2g}x for {format_duration_ns(one.length_ns)}"
        for one in found.sensitivity
        if one.layer == found.load_layer
    ]
    return f" It would have been found from a slowdown of {', or '.join(parts)} on." if parts else ""
