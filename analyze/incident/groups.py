"""Which slow stretches of several series are one window, and where that begins and ends."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from .series import weighted_median
from .stretches import Course, Judged, Stretch, stretch_of

_TOGETHER_SLOTS: Final = 2
_STRONG: Final = 0.25
_AGREED: Final = 0.2
_STREAM_ALONE: Final = float(np.log(1.5))
"""One stream of many that is slow for a while, by less than half, is not called an incident."""


_CHANGE_CLEAR: Final = 7.0
"""By so many of its errors one stream of many has to have changed slowly."""
_SAME_TIME: Final = 2 / 3
"""Share of the slots in which either of two was slow, in which both were: from there on it is one incident."""

_SLOW: Final = float(np.log(1.25))
_FREEZE: Final = float(np.log(10))
"""By so much more than the rest of a window was a freeze slow, or a hang."""
_FREEZE_POINTS: Final = 2
_BESIDE_POINTS: Final = 10
"""Slots that the rest has at least; and the nearest of either side, which have to differ, too."""

Part = tuple[Judged, Stretch]
_Device = tuple[int | None, str | None]


@dataclass(slots=True)
class Group:
    """Stretches of several series at one time: a window."""

    parts: list[Part]
    first: int
    end: int

    @property
    def strongest(self) -> Part:
        """What explains most of the parts that last; a layer's own before one of its streams where they are near."""
        half = (self.end - self.first) / 2
        lasting = [part for part in self.parts if part[1].end - part[1].first >= half] or self.parts
        most = _evidence(lasting)
        near = [part for part in lasting if part[1].evidence >= 0.5 * most]
        return max(near, key=lambda part: (part[0].series.stream is None, part[1].evidence))


def windows_of(judged: list[Judged]) -> list[Group]:
    """Stretches that overlap, or nearly so, are one window; its borders are those of the stretches that say most.

    Devices that were slow at other times than others, each clearly, have windows of their own, which may overlap.
    """
    linked = _linked([(entry, stretch) for entry in judged for stretch in entry.stretches])
    groups: list[Group] = []
    for window in (_bordered(group.parts) for each in linked for group in _by_devices(each)):
        # One stream that took longer to recover may have told devices apart whose windows are the same.
        same = [other for other in groups if _is_same_window(window, other)]
        groups = [other for other in groups if not _is_same_window(window, other)]
        groups.append(_bordered([part for one in (*same, window) for part in one.parts]) if same else window)
    return sorted(
        (one for group in groups for one in _freeze_apart(group) if _is_clear(one.parts)),
        key=lambda group: -_evidence(group.parts),
    )


def _freeze_apart(group: Group) -> list[Group]:
    """A freeze, and what stayed slow after it or was slow before it: one mean of both would be of neither.

    The group itself where it is no such thing.
    """
    best, stretch = group.strongest
    if stretch.course is not None:
        return [group]
    above = best.series.values - best.normal
    first, end = np.searchsorted(best.series.at, (stretch.first, stretch.end))
    borders = [border for border in best.segmentation.borders if first < border < end]
    if not borders:
        return [group]

    def difference(border: int) -> float:
        return float(abs(above[first:border].mean() - above[border:end].mean()))

    border = max(borders, key=difference)
    sides = above[first:border], above[border:end]
    high, low = sorted(sides, key=lambda side: -float(side.mean()))
    beside = float(abs(sides[0][-_BESIDE_POINTS:].mean() - sides[1][:_BESIDE_POINTS].mean()))
    is_apart = float(high.mean()) - float(low.mean()) >= _FREEZE and beside >= _FREEZE / 2
    if (
        not is_apart
        or float(low.mean()) < _SLOW
        or min(len(high) / _FREEZE_POINTS, len(low) / _BESIDE_POINTS) < 1
    ):
        return [group]
    slot = int(best.series.at[border])
    pieces: tuple[list[Part], list[Part]] = ([], [])
    for entry, one in group.parts:
        for side, (since, until) in zip(
            pieces, ((one.first, min(one.end, slot)), (max(one.first, slot), one.end)), strict=True
        ):
            points = slice(*(int(at) for at in np.searchsorted(entry.series.at, (since, until))))
            if points.stop > points.start:
                piece = stretch_of(entry, points)
                side.extend([(entry, piece)] if piece.excess >= _SLOW else [])
    return [_bordered(side) for side in pieces if side]


def _bordered(parts: list[Part]) -> Group:
    telling = _telling(parts)
    # Where layers were sampled at different intervals, the shorter ones tell best when it began and ended.
    finest = min(entry.series.slots_per_sample for entry, _ in telling)
    strong = [stretch for entry, stretch in telling if entry.series.slots_per_sample <= finest]
    return Group(
        parts,
        _border([one.first for one in strong], strong, _AGREED),
        _border([one.end for one in strong], strong, 1 - _AGREED),
    )


def _is_same_window(one: Group, other: Group) -> bool:
    shared = min(one.end, other.end) - max(one.first, other.first)
    return shared >= _SAME_TIME * (max(one.end, other.end) - min(one.first, other.first))


def _linked(parts: list[Part]) -> list[Group]:
    """Parts that overlap, or nearly so, in order of time."""
    groups: list[Group] = []
    for entry, stretch in sorted(parts, key=lambda part: part[1].first):
        if groups and stretch.first <= groups[-1].end + _TOGETHER_SLOTS:
            groups[-1].parts.append((entry, stretch))
            groups[-1].end = max(groups[-1].end, stretch.end)
        else:
            groups.append(Group([(entry, stretch)], stretch.first, stretch.end))
    return groups


def _telling(parts: list[Part]) -> list[Part]:
    most = _evidence(parts)
    return [part for part in parts if part[1].evidence >= _STRONG * most]


def _by_devices(group: Group) -> list[Group]:
    """A group for each time at which devices were slow together; the group itself where that is one.

    Slow changes stay together, since nobody knows to the minute when they began. A whole layer, or what is of no known
    device, belongs to those that were slow when it was. What was slow when several were, or was alone and not clearly
    slow, says nothing of any of them.
    """
    of_layers: dict[str, dict[_Device, list[Part]]] = defaultdict(lambda: defaultdict(list))
    for part in group.parts:
        if (device := _device(part)) is not None:
            of_layers[part[0].series.layer][device].append(part)
    if not of_layers or any(stretch.course for _, stretch in group.parts):
        return [group]
    # Layers may have been sampled at different intervals, and then show other times: one of them decides.
    devices = max(of_layers.values(), key=lambda one: max(map(_evidence, one.values())))
    found = _by_times(devices)
    if not found or (len(found) == 1 and len(found[0]) == len(devices)):
        return [group]
    groups = [
        one for mine in found for one in _linked([part for part in group.parts if _device(part) in mine])
    ]
    known = {device for mine in found for device in mine}
    for part in group.parts:
        stretch = part[1]
        homes = [one for one in groups if stretch.first < one.end and stretch.end > one.first]
        if _device(part) not in known and len(homes) == 1 and _is_same_time([part], homes[0].parts):
            homes[0].parts.append(part)
    return groups


def _by_times(devices: dict[_Device, list[Part]]) -> list[dict[_Device, list[Part]]]:
    """The devices that were slow when a clear one was, the clearest of each time first; none if none is clear."""
    found: list[dict[_Device, list[Part]]] = []
    for device, parts in sorted(devices.items(), key=lambda one: -_evidence(one[1])):
        alike = next((mine for mine in found if _is_same_time(parts, next(iter(mine.values())))), None)
        if alike is not None:
            alike[device] = parts
        elif _is_clear(parts):
            found.append({device: parts})
    return found


def _evidence(parts: list[Part]) -> float:
    return max(stretch.evidence for _, stretch in parts)


def _device(part: Part) -> _Device | None:
    """What tells the devices of a layer apart; None of a whole layer, and where no device is known."""
    stream = part[0].series.stream
    known = stream and (stream.device_id, stream.instance)
    return known if known and known != (None, None) else None


def _is_same_time(some: list[Part], others: list[Part]) -> bool:
    """Whether both were slow in most of the slots in which either was, of those in which both have I/Os."""
    slow, known = zip(*(_slots(_telling(parts)) for parts in (some, others)), strict=True)
    both = known[0] & known[1]
    return len(slow[0] & slow[1] & both) >= _SAME_TIME * len((slow[0] | slow[1]) & both)


def _slots(parts: list[Part]) -> tuple[set[int], set[int]]:
    """The slots in which any of the parts was slow, and in which it has I/Os."""
    slow = {slot for _, stretch in parts for slot in range(stretch.first, stretch.end)}
    return slow, {slot for entry, _ in parts for slot in entry.series.at.tolist()}


def _border(slots: list[int], stretches: list[Stretch], share: float) -> int:
    """The outermost border on which parts with a fifth of the evidence agree: one stream alone may be off by noise."""
    evidence = np.array([stretch.evidence for stretch in stretches])
    return int(weighted_median(np.array(slots, dtype=float), evidence, share))


def _is_clear(parts: list[Part]) -> bool:
    """Whether a layer as a whole was slow, or one of its streams by so much that it matters, or changed for long."""
    return any(
        (entry.series.stream is None and (stretch.course is None or _exceeds_load(stretch.course, 1.0)))
        or stretch.excess - 2 * stretch.excess_error >= _STREAM_ALONE
        or (stretch.course is not None and _is_sure(stretch.course))
        for entry, stretch in parts
    )


def _is_sure(course: Course) -> bool:
    """Whether one stream of many surely changed: clear of its errors, and twice what the load adds meanwhile."""
    return course.height >= _CHANGE_CLEAR * course.shape_error and _exceeds_load(course, 2.0)


def _exceeds_load(course: Course, times: float) -> bool:
    """What is less than the load adds at the same time may be what is not known of the load's effect."""
    return course.height >= times * course.by_load
