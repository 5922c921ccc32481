"""Which validity rules fired, per input; what fired alike on many steps of a sweep is said once."""

from collections.abc import Sequence
from typing import Final

from iotrace.schemas import Recording, Sweep

from .. import validity
from ..slo import Objective
from .facts import FindingFacts

_QUANTILE: Final = 0.95
"""Highest quantile the verdict speaks of unless an objective names a higher one."""


def findings_of(inputs: Sequence[Recording | Sweep], objectives: Sequence[Objective]) -> list[FindingFacts]:
    """Findings on all inputs, invalidating ones first. Raises `IotraceError` if one cannot be read."""
    quantile = max((objective.quantile for objective in objectives), default=_QUANTILE)
    found: list[FindingFacts] = []
    for one in inputs:
        if isinstance(one, Recording):
            found += [_facts(one.name, finding, []) for finding in validity.check(one, quantile=quantile)]
        else:
            found += _of_sweep(one, quantile)
    return sorted(found, key=lambda finding: finding.level != "invalid")


def _of_sweep(sweep: Sweep, quantile: float) -> list[FindingFacts]:
    by_rule: dict[str, list[tuple[str, validity.Finding]]] = {}
    for step, recording in zip(sweep.steps, sweep.recordings(), strict=True):
        for finding in validity.check(recording, quantile=quantile):
            by_rule.setdefault(finding.rule, []).append((f"{step.scale:g}x", finding))
    name = sweep.path.name.removesuffix(".iotrace")
    return [_facts(name, fired[0][1], [step for step, _ in fired]) for fired in by_rule.values()]


def _facts(name: str, finding: validity.Finding, steps: list[str]) -> FindingFacts:
    return FindingFacts(name, steps, finding.level, finding.rule, finding.title, finding.detail, finding.hint)
