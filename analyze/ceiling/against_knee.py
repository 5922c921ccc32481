"""A measured knee beside the ceiling of its path: how far it is from it, and what a mismatch suggests.

What was carried is compared with what the path would carry if it were set up wrongly in one of the usual ways: a card
in a narrower slot, one path of two, one disk of four. A way that explains the figure is a suggestion of where to look,
not a finding: two of them can come to the same rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from iotrace.analyze import library
from iotrace.analyze.knee.answer import Knee
from iotrace.analyze.present.program import HIDDEN
from iotrace.schemas import Recording

from . import constants
from .limits import Ceiling, ceiling
from .path import Adapter, Path, Slot

NEAR: Final = (0.88, 1.04)
"""Share of a limit that counts as having reached it: links carry a little less than their payload rate, and Fibre
Channel in full frames 3.2 % more than the rate that it is rated at (`constants.FIBRE_CHANNEL_SOURCE`)."""
_SUGGESTIONS_MAX: Final = 3
_ALIKE: Final = 0.97
"""Slots whose rates differ by less cannot be told apart by a measurement."""
State = Literal["at_ceiling", "below", "above", "not_saturated"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A way the path may be set up, what it would carry then, and where to look."""

    what: str
    mb_per_s: float
    look_at: str
    is_undescribed: Annotated[bool, HIDDEN] = False
    """Whether it is something that the description leaves out, not a part of it that is set up wrongly."""

    @property
    def sentence(self) -> str:
        """The suggestion as people read it."""
        rate = f"{self.mb_per_s:,.0f} MB/s"
        if self.is_undescribed:
            return (
                f"Something that the file of the path does not describe may be the limit, at {rate}: a virtual "
                "machine's size, or a disk. The file has neither [vm] nor [[disk]]: add them."
            )
        return f"It is as if {self.what} ({rate}): look at {self.look_at}."


@dataclass(frozen=True, slots=True)
class BesideKnee:
    """The ceiling for the measured size and mix, and the measurement as shares of it.

    ``at_ceiling``: the most that was carried is within `NEAR` of it; ``below``: the storage saturated lower;
    ``above``: more was carried than the description allows; ``not_saturated``: the load was not taken far enough.
    """

    ceiling: Ceiling
    state: State
    carried_mb_per_s: float
    carried_iops: float
    carried_share: float
    knee_share: float | None
    suggestions: tuple[Suggestion, ...]
    sentence: str


def beside_knee(path: Path, knee: Knee, steps: list[Recording]) -> BesideKnee | None:
    """Hold ``knee``, found on ``steps``, against ``path``.

    None where no step tells of the storage, or nothing in the path limits.
    """
    judged = [step for step in knee.steps if step.is_judged and step.achieved_iops > 0]
    if not judged:
        return None
    most = max(judged, key=lambda step: step.achieved_mb_per_s)
    share = read_share_of_bytes(steps[0], most.layer) if steps else None
    return hold_against(
        path,
        carried_iops=most.achieved_iops,
        carried_mb_per_s=most.achieved_mb_per_s,
        knee_mb_per_s=knee.mb_per_s.value if knee.mb_per_s else None,
        saturated=any(step.is_saturated for step in judged) or knee.state in {"reached", "before_range"},
        read_share=share,
    )


def read_share_of_bytes(recording: Recording, layer: str) -> float | None:
    """Share of the bytes that were read; every step of a sweep does the same kind of work."""
    with library.opened(recording) as connection:
        table = library.run(connection, "size_distribution", layer=layer)
    moved = {"read": 0, "write": 0}
    for row in table.to_pylist():
        if row["op"] in moved:
            moved[row["op"]] += row["size_bytes"] * row["io_count"]
    return moved["read"] / sum(moved.values()) if sum(moved.values()) else None


def hold_against(
    path: Path,
    *,
    carried_iops: float,
    carried_mb_per_s: float,
    knee_mb_per_s: float | None,
    saturated: bool,
    read_share: float | None,
) -> BesideKnee | None:
    """Compare rates of one mean size with the ceiling for that size. None where nothing limits."""
    size_bytes = carried_mb_per_s * 1e6 / carried_iops
    found = ceiling(path, size_bytes=size_bytes, read_share=read_share)
    if found.mb_per_s is None:
        return None
    share = carried_mb_per_s / found.mb_per_s
    state: State
    if share > NEAR[1]:
        state = "above"
    elif share >= NEAR[0]:
        state = "at_ceiling"
    else:
        state = "below" if saturated else "not_saturated"
    suggestions = _suggestions(path, found, carried_mb_per_s, read_share) if state == "below" else ()
    knee_share = None if knee_mb_per_s is None else knee_mb_per_s / found.mb_per_s
    return BesideKnee(
        ceiling=found,
        state=state,
        carried_mb_per_s=carried_mb_per_s,
        carried_iops=carried_iops,
        carried_share=share,
        knee_share=knee_share,
        suggestions=suggestions,
        sentence=_sentence(found, state, carried_mb_per_s, share, knee_share),
    )


def _suggestions(
    path: Path, found: Ceiling, carried_mb_per_s: float, read_share: float | None
) -> tuple[Suggestion, ...]:
    near = []
    for what, look_at, other in _alternatives(path):
        rate = ceiling(other, size_bytes=found.size_bytes, read_share=read_share).mb_per_s
        if rate is None or found.mb_per_s is None or rate >= found.mb_per_s * NEAR[0]:
            continue
        if NEAR[0] <= carried_mb_per_s / rate <= NEAR[1]:
            near.append(Suggestion(what, rate, look_at))
    near.sort(key=lambda one: abs(carried_mb_per_s / one.mb_per_s - 1))
    if near:
        return tuple(near[:_SUGGESTIONS_MAX])
    if path.vm is None and not path.disks:
        capped = "a limit that is not described, such as that of a virtual machine's size or a disk"
        look_at = "[vm] and [[disk]]: the file of the path has neither"
        return (Suggestion(capped, carried_mb_per_s, look_at, is_undescribed=True),)
    return ()


def _alternatives(path: Path) -> Iterator[tuple[str, str, Path]]:
    """Ways a path is set up wrongly: what it is, where to look, and the path like that."""
    for number, adapter in enumerate(path.adapters):
        for what, look_at, other in _of_adapter(adapter):
            adapters = (*path.adapters[:number], other, *path.adapters[number + 1 :])
            yield what, look_at, replace(path, adapters=adapters)
    array = path.array
    if array is not None and array.ports is not None:
        for ports in range(1, array.ports):
            what = f"{ports} of the {array.ports} ports of {array.name} in use"
            yield (
                what,
                "zoning, cabling, and the array's own port statistics",
                replace(path, array=replace(array, ports=ports)),
            )
    for number, disk in enumerate(path.disks):
        for count in range(1, disk.count):
            disks = (*path.disks[:number], replace(disk, count=count), *path.disks[number + 1 :])
            what = f"{count} of the {disk.count} disks {disk.name} in use".replace("  ", " ")
            yield what, "striping, and where the files lie", replace(path, disks=disks)
    for number, queue in enumerate(path.queues):
        for count in range(1, queue.count):
            queues = (*path.queues[:number], replace(queue, count=count), *path.queues[number + 1 :])
            what = f"{count} of the {queue.count} queues of {queue.name} in use"
            yield what, "how volumes and virtual disks are spread over queues", replace(path, queues=queues)


def _of_adapter(adapter: Adapter) -> Iterator[tuple[str, str, Adapter]]:
    paths = "multipathing (mpclaim -v, multipath -ll), zoning and cabling"
    for ports in range(1, adapter.ports):
        yield (
            f"{ports} of the {adapter.ports} ports of {adapter.name} in use",
            paths,
            replace(adapter, ports=ports),
        )
    for cards in range(1, adapter.cards):
        yield (
            f"{cards} of the {adapter.cards} cards {adapter.name} in use",
            paths,
            replace(adapter, cards=cards),
        )
    slot = adapter.slot
    if slot is None:
        return
    look_at = "the link as it was negotiated (lspci -vv, LnkSta) and the slot's wiring in the server's manual"
    for alike in _lesser(slot):
        words = [str(other).removeprefix("PCIe ") for other in alike]
        named = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        yield f"{adapter.name} running as PCIe {named}", look_at, replace(adapter, slot_pcie=alike[0])


def _lesser(slot: Slot) -> list[list[Slot]]:
    """Slots of fewer lanes or a lower generation, those that carry about the same together, the fastest first."""
    slots = [
        Slot(generation, lanes)
        for generation in constants.PCIE_GT_PER_S
        for lanes in constants.PCIE_LANES
        if generation <= slot.generation
        and lanes <= slot.lanes
        and (generation, lanes) != (slot.generation, slot.lanes)
    ]
    slots.sort(key=lambda one: (-_by_name(one), -one.generation))
    groups: list[list[Slot]] = []
    for one in slots:
        if groups and _by_name(one) >= _by_name(groups[-1][0]) * _ALIKE:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _by_name(slot: Slot) -> float:
    return constants.pcie_by_name_mb_per_s(slot.generation, slot.lanes)


def _sentence(
    found: Ceiling, state: State, carried_mb_per_s: float, share: float, knee_share: float | None
) -> str:
    assert found.binding is not None
    binding = found.binding
    text = f"The path allows at most {binding.mb_per_s:,.0f} MB/s at this size and mix (limited by {binding.name})"
    if knee_share is not None:
        text += f"; the knee lies at {knee_share * 100:.0f} % of that"
    text += f"; the most that was carried is {carried_mb_per_s:,.0f} MB/s, {share * 100:.0f} %. "
    endings = {
        "at_ceiling": "That limit is reached: more takes a bigger pipe there.",
        "below": "The storage saturated below what the path allows.",
        "above": "That is more than the description allows: it is wrong somewhere, or a cache in the host answered.",
        "not_saturated": "The storage was not saturated: how far it goes is not known.",
    }
    return text + endings[state]
