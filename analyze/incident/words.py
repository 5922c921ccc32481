"""What is said of a slow window or change, in a sentence each."""

from collections.abc import Sequence
from typing import Final

from iotrace.analyze.describe.description import grade
from iotrace.analyze.units import format_duration_ns, format_ratio_with_interval, format_share
from iotrace.schemas.text import beginning

from .cause import Drive
from .rare import RareSlow
from .result import BlameRow, Gradual, Incidents, Interval, LayerTime, MarkerBeside

_ALSO: Final = 0.2
"""A part of the time that must not go unsaid beside the layer which has most of it."""
TOO_FEW: Final = "too few seconds hold I/Os to say what is normal"
"""Why nothing was looked for."""


def what_slowed(layer: str, times: Sequence[LayerTime]) -> str:
    """What a layer's own time is spent in, as far as the layers below it were seen."""
    below = next((time.below for time in times if time.layer == layer), None)
    share = _below_share(layer, times)
    also = f", though {format_share(share)} of the time went below it" if share is not None else ""
    match layer, below:
        case "device", _:
            return "the device was slower at the same load"
        case "block", None:
            return "the storage or the host's queue above it was slower at the same load"
        case "block", _ if also:
            return f"the host's queue or driver above the device was slower at the same load{also}"
        case "filesystem", str() if also:
            return f"the file system was slower at the same load{also}"
        case _, str() if also:
            return f"most of the time went between SQL Server and the {below} layer at the same load{also}"
        case "block", _:
            return "the host's queue or driver above the device was slower at the same load, not the device"
        case "filesystem", None:
            return "the file system or the storage below it was slower at the same load"
        case "filesystem", _:
            return f"the file system was slower at the same load, not the {below} layer below it"
        case _, None:
            return "the storage, as SQL Server sees it, was slower at the same load"
        case _:
            return f"the time went between SQL Server and the {below} layer at the same load, not below it"


def _below_share(layer: str, times: Sequence[LayerTime]) -> float | None:
    """The share of the growth that the layers below added, where that acquits none of them."""
    index = next((index for index, time in enumerate(times) if time.layer == layer), len(times))
    share = sum(max(time.share or 0.0, 0.0) for time in times[index + 1 :])
    return share if share >= _ALSO else None


def layer_words(layer: str, times: Sequence[LayerTime], unseen: Sequence[str]) -> str:
    """The layer in which the time went, and others that have a large part in it.

    Where layers below it were ``unseen`` at that time, the time may have gone there.
    """
    if unseen:
        return f"seen in the {layer} layer"
    others = [
        time for time in times if time.layer != layer and (time.share or 0.0) >= _ALSO and not time.problem
    ]
    names = [layer, *(time.layer for time in sorted(others, key=lambda time: -(time.share or 0.0)))]
    return f"{names[0]} layer" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} layers"


def where(seen: str, added: str | None) -> str:
    """Which layer was slower, whose figure that is, and which one added most of it where that is another."""
    if added is None:
        return f"seen in the {seen} layer"
    return (
        f"most of it in the {added} layer"
        if added == seen
        else f"seen in the {seen} layer, most of it added in {added}"
    )


def is_none(normal_ns: float) -> bool:
    """Whether I/Os normally wait for no limit of a model that states limits only: nothing is a multiple of that."""
    return normal_ns <= 1


def normal_words(normal_ns: float) -> str:
    """A normal latency."""
    return "none" if is_none(normal_ns) else format_duration_ns(normal_ns)


def slower_words(factor: float, normal_ns: float) -> str:
    """How much slower than normal."""
    if is_none(normal_ns):
        return f"{format_duration_ns(normal_ns * factor)} instead of none"
    return f"{format_ratio_with_interval(factor)} slower"


def level_words(factor: float, normal_ns: float) -> str:
    """Latency in a window and normally."""
    return f"{format_duration_ns(normal_ns * factor)} instead of {format_duration_ns(normal_ns)}"


def headline(
    factor: float,
    interval: Interval,
    normal_ns: float,
    span_ns: tuple[int, int],
    gradual: Gradual | None,
    drive: Drive,
    slowed: str,
    *,
    subject: str | None,
    where: str,
    markers: Sequence[MarkerBeside] = (),
    rare: str = "",
) -> str:
    """How much, for how long, by what (load, or which part of the way to the storage), and what else happened then."""
    why = {
        "load-driven": (
            "the same load makes it as slow at other times"
            if drive.is_as_ever
            else "load grew"
            if drive.is_more_load
            else "as many I/Os came in bursts"
        ),
        "service-driven": slowed,
        "cannot tell": "whether load or the storage did it, the recording cannot show",
    }[drive.cause]
    if beside := beside_words(markers, span_ns):
        why = f"{why}; {beside}"
    lasted = format_duration_ns(span_ns[1] - span_ns[0])
    if is_none(normal_ns):
        return f"{slower_words(factor, normal_ns)} for {lasted}, {where}: {why}"
    slower = format_ratio_with_interval(factor, interval)
    if gradual is not None:
        more = ", ".join(part for part in (grade_words(gradual.from_ns, gradual.to_ns), subject) if part)
        return f"{_course(slower, span_ns, gradual)} ({more}), {where}: {why}"
    if rare:
        level = f"{level_words(factor, normal_ns)}, {grade_words(normal_ns, normal_ns * factor)}"
        return f"{slower} slower than normal on average ({level}) for {lasted}, {where}: {rare}; {why}"
    level = f"typically {level_words(factor, normal_ns)}, {grade_words(normal_ns, normal_ns * factor)}"
    level = ", ".join(part for part in (level, subject) if part)
    return f"{slower} slower than normal ({level}) for {lasted}, {where}: {why}"


def rare_words(one: RareSlow) -> str:
    """How many I/Os were very slow, beside the rest of the time."""
    least = "at least " if one.is_least else ""
    return (
        f"{least}{one.count:,} of {one.of:,} I/Os took longer than {format_duration_ns(one.longer_than_ns)}, "
        f"half of them {format_duration_ns(one.median_ns)} or more, "
        f"and {one.other_count:,} of the other {one.other_of:,}"
    )


def grade_words(normal_ns: float, slow_ns: float) -> str:
    """What latency in a window is called by the grades of `describe`, and whether it was called so before."""
    now, before = grade(slow_ns), grade(normal_ns)
    return f"still {now}" if now == before else f"{now} instead of {before}"


def beside_words(markers: Sequence[MarkerBeside], span_ns: tuple[int, int], characters: int = 120) -> str:
    """The first of the markers beside a window in words; that it was then does not prove that it is the cause."""
    if not markers:
        return ""
    marker = markers[0]
    text = " ".join((marker.text or "").split())
    what = text if text and marker.kind == "note" else f"{marker.kind}{f': {text}' if text else ''}"
    is_over = marker.start_ns + (marker.duration_ns or 0) < span_ns[0]
    when = "just before, cause or not" if is_over else "meanwhile, cause or not"
    return f"{when}: {beginning(what, characters - len(when) - 2)}"


def _course(slower: str, span_ns: tuple[int, int], gradual: Gradual) -> str:
    start_ns, end_ns = span_ns
    low, high = format_duration_ns(gradual.from_ns), format_duration_ns(gradual.to_ns)
    if gradual.risen_ns is None:
        back = format_duration_ns(end_ns - (gradual.falling_ns or start_ns))
        return f"latency was {high} when the recording began and went back to {low} within {back}, {slower}"
    rose = format_duration_ns(max(min(gradual.risen_ns, end_ns) - start_ns, 0))
    words = f"latency rose from {low} to {high} within {rose}, {slower} slower"
    if gradual.falling_ns is None:
        stayed = end_ns - gradual.risen_ns
        return f"{words}, and was still so when the recording ended" if stayed > 0 else words
    return f"{words}, and was back after {format_duration_ns(end_ns - start_ns)} in all"


def periodic_headline(
    count: int, period_ns: int, length_ns: int, factor: float, markers: list[str], blame: Sequence[BlameRow]
) -> str:
    """How often, for how long, how slow, and what runs then."""
    runs = [f"a {kind} runs then" for kind in markers]
    runs += [
        f"it is {row.name}"
        for row in blame
        if row.dimension in {"process", "file"} and row.growth_share > 0.5
    ]
    what = f"; {runs[0]}" if runs else ""
    return (
        f"every {format_duration_ns(period_ns)}, {count} times, {format_ratio_with_interval(factor)} slower than "
        f"normal for {format_duration_ns(length_ns)}{what}"
    )


def sensitivity_sentences(found: Incidents) -> list[str]:
    """From how much on a slowdown would have been found, by shape and length, and what was not looked for."""
    parts = []
    for layer in dict.fromkeys(entry.layer for entry in found.sensitivity):
        for shape, words in (("sudden", "a sudden one"), ("any", "one of any other shape, over its length")):
            told = [
                f"{format_ratio_with_interval(entry.factor)} for {format_duration_ns(entry.length_ns)}"
                for entry in found.sensitivity
                if entry.layer == layer and entry.shape == shape
            ]
            if told:
                parts.append(f"{layer} layer, {words}, from {', '.join(told)}")
    if not parts:
        return []
    least, slow = (
        format_duration_ns(max(slots * found.slot_ns, ns)) for slots, ns in ((2, 0), (4, 30 * 10**9))
    )
    not_looked_for = (
        f"what lasts less than {least} (unless it stands far out)",
        f"what builds up and is over within {slow}",
        "what slowly follows the load",
        "what lasts at one level for more than two thirds of the recording",
    )
    return [
        f"A slowdown of the typical I/O would have been found, nine times in ten: {'; '.join(parts)}.",
        f"Not looked for: {'; '.join(not_looked_for)}.",
    ]


def caveats(interval: Interval, *, is_most: bool, unseen: Sequence[str] = ()) -> list[str]:
    """What to know before believing a window; the time may have gone to layers ``unseen`` meanwhile."""
    found = []
    if unseen:
        names = f"{' and '.join(unseen)} layer{'s have' if len(unseen) > 1 else ' has'}"
        found.append(
            f"the {names} no I/O at that time: whether the time went there, the recording cannot show"
        )
    if interval[0] <= 1:
        found.append("the interval holds 1: it may have been no slower than normal")
    if is_most:
        found.append(
            "it lasted for more than half of the recording: the recording cannot show which level is normal"
        )
    return found
