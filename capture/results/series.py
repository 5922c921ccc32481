"""Runs of several files as one series: what belongs together joined, and put in order of load."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from iotrace.capture.formats.format import Trace
from iotrace.schemas import Source

from .run import HAMMERDB, TOTAL_OP, Run, attach_profile

_SAME_END_NS: Final = 1800 * 10**9
AXES: Final = ("virtual_users", "offered_iops", "outstanding", "threads")
"""What runs may differ in, the surest sign of a series first."""


@runtime_checkable
class LogsOfRun(Protocol):
    """A trace of single I/Os that a test logged."""

    prefix: str
    """What the names of its logs have in common, by which the run that wrote them knows them."""


@dataclass(slots=True)
class SourcedRun:
    """A run and the files it was read from."""

    run: Run
    sources: list[Source] = field(default_factory=list)
    truncated: bool = False
    logs: list[Trace] = field(default_factory=list)
    """Logs of its single I/Os, on its own clock."""


def joined(runs: Sequence[SourcedRun]) -> list[SourcedRun]:
    """HammerDB writes time profiles into a file of their own: each goes to the run it is of.

    That is the run of as many virtual users, the one that ended when the profile was written if both are dated.
    """
    profiles = [one for one in runs if _is_profile(one.run)]
    rest = [one for one in runs if not _is_profile(one.run)]
    for profile in profiles:
        fitting = [
            one
            for one in rest
            if one.run.tool == HAMMERDB
            and [op.op for op in one.run.ops] == [TOTAL_OP]
            and (one.run.virtual_users == profile.run.virtual_users)
        ]
        fitting.sort(key=lambda one: _apart_ns(one.run, profile.run))
        if fitting and _apart_ns(fitting[0].run, profile.run) <= _SAME_END_NS:
            chosen = fitting[0]
            attach_profile(chosen.run, profile.run.ops, profile.run.notes)
            chosen.sources += [source for source in profile.sources if source not in chosen.sources]
            chosen.truncated |= profile.truncated
        else:
            profile.run.notes.append(
                "this is a time profile alone: no log with the NOPM of its run was found"
            )
            rest.append(profile)
    return rest


def _is_profile(run: Run) -> bool:
    return run.tool == HAMMERDB and not any(one.op == TOTAL_OP for one in run.ops)


def _apart_ns(run: Run, profile: Run) -> int:
    """How far their ends are apart; 0 where one of them is not dated."""
    started, ended = run.dated(), profile.ended_utc_ns
    if started is None or ended is None:
        return 0
    return abs(started + (run.duration_ns or 0) - ended)


def ordered(runs: Sequence[SourcedRun]) -> tuple[str, list[tuple[float, SourcedRun]]]:
    """The axis by which the runs differ, and each with its place on it, ascending.

    Runs of equal load stay in the order they came in. Where they differ by no load that all of them tell, the axis is
    *run* and places count from 1.
    """
    for axis in AXES:
        values = [getattr(one.run, axis) for one in runs]
        if None not in values and len(set(values)) > 1:
            places = sorted(range(len(runs)), key=lambda number: values[number])
            return axis, [(float(values[number]), runs[number]) for number in places]
    return "run", [(float(number), one) for number, one in enumerate(runs, 1)]


def unlike(runs: Sequence[SourcedRun]) -> str | None:
    """In what runs differ besides their load, in words; None if in nothing that is told."""
    words = []
    for name, what in (
        ("tool", "tools"),
        ("size_bytes", "sizes"),
        ("access", "patterns"),
        ("target", "targets"),
    ):
        if len({getattr(one.run, name) for one in runs}) > 1:
            words.append(what)
    if len({frozenset(op.op for op in one.run.ops if op.ios) for one in runs}) > 1:
        words.append("ops")
    return " and ".join(words) or None
