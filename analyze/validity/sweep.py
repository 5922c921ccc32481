"""The rules of validity over the steps of a sweep: each said once, with the steps it fired for."""

from collections.abc import Sequence
from dataclasses import replace

from iotrace.schemas import Recording
from iotrace.schemas.run import ClosedLoop

from . import Finding, check, danger


def check_sweep(steps: Sequence[Recording]) -> list[Finding]:
    """Findings of every rule that fires for a step, the invalidating ones first; the detail is the first such step's.

    A rule that invalidates some steps only is a warning: the knee leaves steps out that the load generator limited,
    and stands on the others. Raises `IotraceError` if a step's data cannot be read.
    """
    by_rule: dict[str, list[tuple[Recording, Finding]]] = {}
    for step in steps:
        for finding in check(step):
            by_rule.setdefault(finding.rule, []).append((step, finding))
    findings = [(_joined(fired, len(steps)), fired[0][1].level) for fired in by_rule.values()]
    # What invalidates some steps comes before what is a warning for all.
    findings.sort(key=lambda one: (one[0].level != "invalid", danger(one[1], one[0].rule)))
    return [found for found, _ in findings]


_NAMED_MOST = 8


def _joined(fired: list[tuple[Recording, Finding]], step_count: int) -> Finding:
    first = fired[0][1]
    if len(fired) == step_count:
        return first
    if len(fired) > _NAMED_MOST:
        where = f"and likewise in {len(fired)} of {step_count} runs"
    else:
        names = [_load(step) for step, _ in fired]
        where = "at " + ("; " if any(", " in name for name in names) else ", ").join(names)
    return replace(first, level="warning", detail=f"{first.detail} ({where})")


def _load(step: Recording) -> str:
    run = step.manifest.replay
    if isinstance(run, ClosedLoop):
        # Steps of several series bear the same names.
        targets = [target.name for target in run.targets]
        return step.manifest.title.removesuffix(f" on {', '.join(targets)}")
    scale = step.manifest.open_replay.scale
    return step.name if scale is None else f"{scale:g}x"
