"""What would make a number lie: a registry of rules, and the findings of those that fire.

A rule looks at a `Subject` and says nothing, or one sentence of what is wrong with figures taken from it. ``invalid``
means that the figures are no property of the storage; ``warning`` that they need the sentence beside them.
docs/methods.md lists every rule; a test holds the list, and a case that fires and one that does not, to the registry.
"""

from typing import Final

import duckdb

from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.describe.description import Description
from iotrace.schemas import Recording

from . import comparison as comparison_rules
from . import load, target
from . import recording as recording_rules
from .subject import Finding, Rule, Subject

__all__ = ["RULES", "Finding", "Rule", "Subject", "check", "danger"]

RULES: Final[tuple[Rule, ...]] = (
    *target.RULES,
    *comparison_rules.RULES,
    *load.RULES,
    *recording_rules.RULES,
)
"""Every rule, those first that endanger an answer most: whether storage answered, and whether its work was the same,
come before how exactly it was measured."""
_PLACES: Final = {rule.id: place for place, rule in enumerate(RULES)}


def danger(level: str, rule: str) -> tuple[bool, int]:
    """The order of findings wherever several are shown: first what forbids to use figures, then as in `RULES`."""
    return level != "invalid", _PLACES.get(rule, len(_PLACES))


def check(
    recording: Recording,
    *,
    comparison: Comparison | None = None,
    quantile: float = 0.99,
    description: Description | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> list[Finding]:
    """Findings of every rule that fires for ``recording``, in the order of `danger`.

    ``comparison`` adds the rules on what was compared (the recording is its b); ``quantile`` is the highest one quoted;
    ``description`` is what `describe` found of it, if it was asked; ``connection`` has it open, if anything has.
    Raises `IotraceError` if the recording's data cannot be read.
    """
    with Subject(recording, comparison, quantile, description, connection) as subject:
        scopes = {subject.scope} | ({"comparison"} if comparison is not None else set())
        fired = [rule.judge(subject) for rule in RULES if rule.scopes & scopes]
    return sorted((finding for finding in fired if finding), key=lambda one: danger(one.level, one.rule))
