"""Which validity rules fired, per input."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from iotrace.analyze import validity
from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.describe.description import Description
from iotrace.analyze.slo import Objective
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.schemas import Recording, Sweep

from .facts import FindingFacts

_QUANTILE: Final = 0.95
"""Highest quantile the verdict on a recording speaks of unless an objective names a higher one."""


def findings_of(
    inputs: Sequence[Recording | Sweep],
    objectives: Sequence[Objective],
    compared: Mapping[str, Comparison],
    described: Mapping[Path, Description],
) -> list[FindingFacts]:
    """Findings on all inputs, invalidating ones first; ``compared`` by the uuid of the recording that is its b.

    ``described``: what is known of recordings already, by path. Raises `IotraceError` if an input cannot be read.
    """
    quantile = max((objective.quantile for objective in objectives), default=_QUANTILE)
    found: list[FindingFacts] = []
    for one in inputs:
        if isinstance(one, Recording):
            comparison = compared.get(one.manifest.uuid)
            findings = validity.check(
                one, comparison=comparison, quantile=quantile, description=described.get(one.path)
            )
            found += [facts_of(one.name, finding) for finding in findings]
        else:
            name = one.path.name.removesuffix(".iotrace")
            found += [facts_of(name, finding) for finding in check_sweep(one.recordings())]
    return sorted(found, key=lambda finding: finding.level != "invalid")


def facts_of(name: str, finding: validity.Finding) -> FindingFacts:
    """A rule that fired on the input ``name``."""
    return FindingFacts(name, finding.level, finding.rule, finding.title, finding.detail, finding.hint)
