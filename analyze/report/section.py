"""A section of the page: what is said first, then the evidence in the order a reader needs it."""

from dataclasses import dataclass, field

from .charts import Chart, Table


@dataclass(slots=True)
class Section:
    """``lead`` stands before the charts, ``tables`` after them; ``points`` answer, ``notes`` qualify."""

    heading: str
    sentence: str
    points: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lead: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
