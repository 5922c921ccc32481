"""Which slow stretches of several series are one window, and where that begins and ends."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from .series import weighted_median
from .stretches import Course, Judged, Stretch

_TOGETHER_SLOTS: Final = 2
_STRONG: Final = 0.25
_AGREED: Final = 0.2
_STREAM_ALONE: Final = float(np.log(1.5))
"""One stream of many that is slow for a while, by less than half, is not called an incident."""


_CHANGE_CLEAR: Final = 7.0
"""By so many of its errors one stream of many has to have changed slowly."""


@dataclass(slots=True)
class Group:
    """Stretches of several series at one time: a window."""

    parts: list[tuple[Judged, Stretch]]
    first: int
    end: int

    @property
    def strongest(self) -> tuple[Judged, Stretch]:
        """What explains most of the parts that last; a layer's own before one of its streams where they are near."""
        half = (self.end - self.first) / 2
        lasting = [part for part in self.parts if part[1].end - part[1].first >= half] or self.parts
        most = max(stretch.evidence for _, stretch in lasting)
        near = [part for part in lasting if part[1].evidence >= 0.5 * most]
        return max(near, key=lambda part: (part[0].series.stream is None, part[1].evidence))


def windows_of(judged: list[Judged]) -> list[Group]:
    """Stretches that overlap, or nearly so, are one window; its borders are those of the stretches that say most."""
    parts = sorted(
        ((entry, stretch) for entry in judged for stretch in entry.stretches), key=lambda part: part[1].first
    )
    groups: list[Group] = []
    for entry, stretch in parts:
        if groups and stretch.first <= groups[-1].end + _TOGETHER_SLOTS:
            groups[-1].parts.append((entry, stretch))
            groups[-1].end = max(groups[-1].end, stretch.end)
        else:
            groups.append(Group([(entry, stretch)], stretch.first, stretch.end))
    for group in groups:
        most = max(stretch.evidence for _, stretch in group.parts)
        telling = [part for part in group.parts if part[1].evidence >= _STRONG * most]
        # Where layers were sampled at different intervals, the shorter ones tell best when it began and ended.
        finest = min(entry.series.slots_per_sample for entry, _ in telling)
        strong = [stretch for entry, stretch in telling if entry.series.slots_per_sample <= finest]
        group.first = _border([s.first for s in strong], strong, _AGREED)
        group.end = _border([s.end for s in strong], strong, 1 - _AGREED)
    return sorted(
        (group for group in groups if _is_clear(group)),
        key=lambda group: -max(stretch.evidence for _, stretch in group.parts),
    )


def _border(slots: list[int], stretches: list[Stretch], share: float) -> int:
    """The outermost border on which parts with a fifth of the evidence agree: one stream alone may be off by noise."""
    evidence = np.array([stretch.evidence for stretch in stretches])
    return int(weighted_median(np.array(slots, dtype=float), evidence, share))


def _is_clear(group: Group) -> bool:
    """Whether a layer as a whole was slow, or one of its streams by so much that it matters, or changed for long."""
    return any(
        (entry.series.stream is None and (stretch.course is None or _exceeds_load(stretch.course, 1.0)))
        or stretch.excess - 2 * stretch.excess_error >= _STREAM_ALONE
        or (stretch.course is not None and _is_sure(stretch.course))
        for entry, stretch in group.parts
    )


def _is_sure(course: Course) -> bool:
    """Whether one stream of many surely changed: clear of its errors, and twice what the load adds meanwhile."""
    return course.height >= _CHANGE_CLEAR * course.shape_error and _exceeds_load(course, 2.0)


def _exceeds_load(course: Course, times: float) -> bool:
    """What is less than the load adds at the same time may be what is not known of the load's effect."""
    return course.height >= times * course.by_load
