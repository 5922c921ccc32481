"""What a comparison says in sentences: which clocks are held against each other, and the answer per operation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from iotrace.analyze.stats.bootstrap import SLOTS_MIN
from iotrace.analyze.units import (
    format_duration_ns,
    format_duration_with_interval,
    format_ratio_with_interval,
    format_share,
    format_share_with_interval,
)
from iotrace.schemas.run import Replay
from iotrace.schemas.vocabulary import listed, load_layer

from .comparison import (
    ClassComparison,
    Comparison,
    Figure,
    Interval,
    Paired,
    Side,
    Verdict,
    WorkAspect,
)

_CLOCKS: Final = {
    "sql": "from the worker's request until SQL Server saw the completion",
    "filesystem": "from entering to leaving the read or write call",
    "block": "from the block driver's queue to completion, the host's queue included",
    "device": "from handing over to the driver to completion: wire and controller",
}
_DOING: Final = {"read": "Reads", "write": "Writes", "flush": "Flushes", "discard": "Discards"}

ROUND_TRIP: Final = 0.05
"""How close a replay is meant to come to its recording on the same storage: a goal, not a measured spread."""
ROUND_TRIP_TAIL: Final = 0.15
"""The same for a p99."""

_LITTLE_MORE: Final = 0.10
"""More load up to here looks like too little to matter, and close to a limit is not."""
_FARTHER: Final = 1.25
"""How much farther than the figure that decides the mean must be to be said as well."""

Direction = Literal["faster", "slower", "no difference", "unknown"]


def basis(a: Side, b: Side, replay: Replay | None, *, is_watched: bool = False) -> list[str]:
    """Which clock of a is held against which of b, and what of it is like with like; ``replay`` where b is one of a."""
    name = b.label
    found = [f"A is measured at its {a.layer} layer: {_CLOCKS[a.layer]}."]
    if replay is not None:
        load = "" if replay.scale is None else f" at {replay.scale:g}x of its load"
        loop = ", as a closed loop that waits for completions" if replay.mode == "think" else ""
        found.append(
            f"{name} {'was recorded beside a replay of' if is_watched else 'replays'} A{load}{loop}."
        )
    if b.kind == "simulated":
        found.append(
            f"{name} is what a model says, from when an I/O was issued (service) and due (response) until it ended: no "
            "storage took part."
        )
    elif b.kind == "replayed":
        like = (
            f"it is the like of A's {a.layer} latency"
            if a.layer == b.layer
            else f"A's {a.layer} layer has more in it than that"
            if a.layer in {"sql", "filesystem"}
            else f"it has the host's queue in it, which A's {a.layer} layer has not"
        )
        found.append(
            f"A replay's service runs from handing an I/O to the kernel until its completion was seen: {like}. Its "
            "response runs from when the I/O was due, and is what users would have waited."
        )
    elif a.layer != b.layer:
        found.append(
            f"{name} is measured at its {b.layer} layer: {_CLOCKS[b.layer]}. This is not like with like: part of any "
            "difference is what lies between the two clocks."
        )
    elif whose := lifted(a, b):
        found.append(
            f"{name} is measured at the same layer, the first that both have. What {whose} recorded at other layers is "
            "not compared."
        )
    else:
        found.append(f"{name} is measured at the same layer.")
    return found + _below(a, b)


def lifted(a: Side, b: Side) -> str:
    """Which side is held at another layer than its load is counted at, because the other lacks that; empty if none."""
    if a.layer != b.layer or b.kind in {"replayed", "simulated"}:
        return ""
    lifted = [
        side.label
        for side in (a, b)
        if load_layer({step.layer for step in side.waterfall}) not in {side.layer, None}
    ]
    return listed(lifted)


def without_interval(classes: Sequence[ClassComparison]) -> str:
    """How many of the ratios have no interval, and why and what would give them one; empty where all have."""
    given = [figure for entry in classes for figure in entry.figures if figure.ratio is not None]
    missing = [figure for figure in given if figure.ratio_interval is None]
    if not missing:
        return ""
    names = ", ".join(dict.fromkeys(figure.quantity for figure in missing))
    return (
        f"{len(missing)} of {len(given)} ratios ({names}) have no interval: the I/Os beyond the figure came from a few "
        f"stretches of time, or there are fewer than {SLOTS_MIN} stretches at all, so that how much the next one may "
        "differ is not known. Longer recordings give intervals."
    )


def _below(a: Side, b: Side) -> list[str]:
    """What the layers below tell of one side only."""
    found = []
    for one, other in ((a, b), (b, a)):
        steps = [step for step in one.waterfall if step.layer == "device"]
        others = {step.layer for step in other.waterfall}
        if one.layer != "block" or not steps or "device" in others or other.layer != "block":
            continue
        shares = " and ".join(
            f"{format_share_with_interval(step.share, step.share_interval)} of a mean {step.op}"
            for step in steps
        )
        found.append(
            f"{one.label}'s device layer makes up {shares}; the rest is the host's queue above it. What has no device "
            f"layer is to be held against {one.label}'s block layer only, for it has a queue in it as well."
        )
    return found


def verdicts(
    label: str,
    classes: Sequence[ClassComparison],
    headline_metric: str,
    work: Sequence[WorkAspect],
    paired: Sequence[Paired] = (),
    replay: Replay | None = None,
) -> list[Verdict]:
    """The answer per operation, by the headline metric at the highest quantile that both sides can show.

    Of a ``replay`` of a, a difference counts from where it is more than one storage shows from one round to the next
    (`ROUND_TRIP`) and more than the replay itself adds. Where its I/Os are ``paired`` with a's, the pairs at the lowest
    layer decide, and beside them the tail.
    """
    found = []
    for entry in classes:
        if entry.role is None and entry.b_metric == headline_metric:
            service = next(
                (
                    one
                    for one in classes
                    if one.role is None
                    and one.op == entry.op
                    and one.b_metric == "service" != headline_metric
                ),
                None,
            )
            verdict = _verdict(label, entry, service, work, replay)
            by_pairs = next((one for one in paired if one.op == entry.op and one.ratio_interval), None)
            if by_pairs is not None:
                verdict = _by_pairs(label, by_pairs, verdict, work)
            if verdict is not None:
                found.append(verdict)
    return sorted(found, key=lambda one: list(_DOING).index(one.op))


def _by_pairs(label: str, one: Paired, tail: Verdict | None, work: Sequence[WorkAspect]) -> Verdict:
    """The answer of the pairs; where they show no difference, that of the tail."""
    direction = _direction(one.ratio_interval, ROUND_TRIP)
    reservation = _reservation(label, direction, work)
    ratio = format_ratio_with_interval(one.ratio, one.ratio_interval)
    sentence = (
        f"{_DOING[one.op]}: {_in_words(label, direction)}. Each held against the same one of A at the {one.layer} "
        f"layer, {label} took {ratio} of A's time, "
        f"{format_duration_with_interval(one.difference_ns, one.difference_interval_ns)} more at the mean."
    )
    if tail is not None:
        sentence += f" {tail.sentence}"
        if direction == "no difference" and tail.direction in {"slower", "faster"}:
            direction = tail.direction
    return Verdict(one.op, "typical", direction, one.ratio, one.ratio_interval, reservation, sentence)


def _own_ns(replay: Replay, quantity: str, metric: str) -> float:
    """What a replay itself adds to a figure, as far as it knows: its lateness, and its share of the service."""
    lateness = replay.generator_lateness_ns
    late_ns = lateness.p50 if quantity in {"mean", "p50"} else lateness.p99
    service_ns = replay.pacing.own_service_ns_mean if replay.pacing else None
    own = (late_ns if metric == "response" else None, service_ns)
    return sum(max(one_ns, 0.0) for one_ns in own if one_ns is not None)


def _verdict(
    label: str,
    entry: ClassComparison,
    service: ClassComparison | None,
    work: Sequence[WorkAspect],
    replay: Replay | None,
) -> Verdict | None:
    figure = _highest(entry)
    if figure is None or figure.ratio is None:
        return None
    if not figure.b_ns:
        return _without_time(label, entry.op, figure, entry.b_metric)
    direction, own = _figure_direction(figure, entry.b_metric, replay)
    shown, ratio = figure.quantity, format_ratio_with_interval(figure.ratio, figure.ratio_interval)
    took = f"{_took(figure, entry.b_metric)}{own}"
    is_late = direction == "unknown" and bool(own)
    apart, mean = _mean_apart(entry, direction, is_late=is_late), _same(entry, "mean")
    is_farther = mean is not None and _is_farther(mean, figure, direction)
    rare = _rare_in_words(label, entry, service)
    is_untold = bool(rare and entry.rare and entry.rare.may_have_ended)
    if is_untold:
        rare += "; ends may have been lost, so how long I/Os without one took is not known"
        direction = "unknown" if direction == "no difference" else direction
    seen: Direction = entry.rare.direction if rare and entry.rare else _clear_mean(entry, replay)
    seen = "unknown" if is_untold else seen
    decides = direction in {"no difference", "unknown"} and seen not in {direction, "unknown"}
    if decides or is_farther:
        # What the quantile does not show, or only a little of, comes first.
        first = [
            rare if decides or (seen == direction and not is_untold) else "",
            _took(mean, entry.b_metric) if mean is not None else "",
        ]
        took, apart = "; ".join([one for one in first if one] + [took]), ""
    if rare and not decides and (is_untold or seen != direction):
        apart += f"; {rare}"
    if decides:
        direction, figure = seen, mean if mean is not None and mean.ratio is not None else figure
    assert figure.ratio is not None
    reservation = _reservation(label, direction, work)
    late = f"but the replay itself may be why: whether {label} is slower cannot be told"
    sentence = (
        f"{_DOING[entry.op]}: whether {label} is faster or slower cannot be told: {took}"
        if direction == "unknown" and is_untold
        else f"{_DOING[entry.op]}: {took}, {late if is_late else _in_words(label, direction)}"
        if direction == "unknown"
        else f"{_DOING[entry.op]}: {_in_words(label, direction)}: {took}"
    )
    by_service = None if service is None else _same(service, shown)
    if by_service is not None and by_service.ratio is not None:
        alone = format_ratio_with_interval(by_service.ratio, by_service.ratio_interval)
        sentence += f"; service alone {alone}" if alone != ratio else ""
    sentence += f"{apart}."
    return Verdict(
        entry.op, figure.quantity, direction, figure.ratio, figure.ratio_interval, reservation, sentence
    )


def _figure_direction(figure: Figure, metric: str, replay: Replay | None) -> tuple[Direction, str]:
    """Where a figure points, and how much of it is a ``replay``'s own doing, in words."""
    if not replay:
        return _direction(figure.ratio_interval), ""
    margin = ROUND_TRIP_TAIL if figure.quantity == "p99" else ROUND_TRIP
    direction = _direction(figure.ratio_interval, margin)
    own_ns = _own_ns(replay, figure.quantity, metric)
    if direction != "slower" or own_ns <= 0 or figure.ratio_interval is None:
        return direction, ""
    share = own_ns / (figure.a_ns or 1.0)
    low, high = figure.ratio_interval
    own = f" (up to {format_duration_ns(own_ns)} of it the replay's own doing)"
    return "slower" if _direction((low - share, high), margin) == "slower" else "unknown", own


def _took(figure: Figure, metric: str) -> str:
    values = f"{format_duration_ns(figure.b_ns)} against {format_duration_ns(figure.a_ns)}"
    ratio = format_ratio_with_interval(figure.ratio or 0.0, figure.ratio_interval)
    return f"{figure.quantity} {metric} {values}, {ratio}"


def _rare_in_words(label: str, entry: ClassComparison, service: ClassComparison | None) -> str:
    """Whose rare I/Os are the slow ones; empty where neither has more, or a replay's storage is not why."""
    rare = entry.rare
    if rare is None or (
        service is not None and (not service.rare or service.rare.direction != rare.direction)
    ):
        return ""
    sides = [
        ("A", rare.a_io_count, rare.a_unfinished_count, entry.a_io_count, rare.a_longest_ns),
        (label, rare.b_io_count, rare.b_unfinished_count, entry.b_io_count, rare.b_longest_ns),
    ]
    (quick, few, few_open, of_quick, longest_ns), (slow, many, many_open, of_slow, _) = (
        sides if rare.direction == "slower" else reversed(sides)
    )
    return (
        f"{many:,} of {slow}'s {of_slow + many_open:,} took {format_duration_ns(rare.at_least_ns)} or longer"
        f"{_open_in_words(many, many_open)}, "
        f"{f'{few:,}' if few else 'none'} of {quick}'s {of_quick + few_open:,}{_open_in_words(few, few_open)}, "
        f"whose longest took {format_duration_ns(longest_ns)}"
    )


def _open_in_words(io_count: int, open_count: int) -> str:
    """How many of some I/Os have no end."""
    if not open_count:
        return ""
    some = f"{open_count:,} of them" if open_count < io_count else "all of them" if io_count > 1 else "it"
    return f" ({some} without an end, and so in no mean or p99)"


def _clear_mean(entry: ClassComparison, replay: Replay | None) -> Direction:
    """Where the mean points, if so clearly that more than the few longest I/Os must be why.

    A mean of heavy tails has intervals that are too narrow: one twice as wide must hold no 1 either, and the median or
    the p95 must point there as well.
    """
    mean = _same(entry, "mean")
    if mean is None or mean.ratio is None or mean.ratio_interval is None:
        return "unknown"
    low, high = mean.ratio_interval
    wider = replace(mean, ratio_interval=(low * low / mean.ratio, high * high / mean.ratio))
    direction, _ = _figure_direction(wider, entry.b_metric, replay)
    others = (_same(entry, quantity) for quantity in ("p50", "p95"))
    agree = any(_figure_direction(one, entry.b_metric, replay)[0] == direction for one in others if one)
    return direction if direction != "no difference" and agree else "unknown"


def _mean_apart(entry: ClassComparison, direction: Direction, *, is_late: bool) -> str:
    """What the mean says where it points the other way than the figure that decided, or that shows no difference.

    ``is_late``: a late replay is why that figure tells nothing.
    """
    mean = _same(entry, "mean")
    if mean is None or not mean.ratio:
        return ""
    ratio = format_ratio_with_interval(mean.ratio, mean.ratio_interval)
    if {direction, _direction(mean.ratio_interval)} == {"faster", "slower"}:
        return f"; the mean is {_direction(mean.ratio_interval)}, {ratio}"
    if not (is_late or direction == "no difference") or max(mean.ratio, 1 / mean.ratio) < _FARTHER:
        return ""
    if is_late and mean.ratio > 1:
        return f"; the mean is {ratio}, which the replay itself may explain"
    if _direction(mean.ratio_interval) in {"faster", "slower"}:
        return f"; the mean is {ratio}, which a few long I/Os may explain"
    return f"; the mean is {ratio}, which may be chance"


def _is_farther(mean: Figure, decided: Figure, direction: Direction) -> bool:
    """Whether the mean points where the figure that decided does, or has no interval, and much farther."""
    if not mean.ratio or not decided.ratio or _direction(mean.ratio_interval) not in {direction, "unknown"}:
        return False
    by = mean.ratio / decided.ratio
    return (by if direction == "slower" else 1 / by if direction == "faster" else 0.0) >= _FARTHER


def inconclusive_means(found: Comparison) -> str:
    """The operations that a quantile decides and the mean does not; empty where there are none."""
    decided = {
        one.op
        for one in found.verdicts
        if one.direction in {"faster", "slower"} and one.quantity not in {"mean", "typical"}
    }
    means = {
        entry.op: mean
        for entry in found.classes
        if entry.op in decided
        and entry.role is None
        and entry.b_metric == found.headline_metric
        and (mean := _same(entry, "mean")) is not None
        and mean.ratio is not None
        and _direction(mean.ratio_interval) in {"no difference", "unknown"}
    }
    if not means:
        return ""
    said = listed(
        [
            f"{_DOING[op].lower()} ({format_ratio_with_interval(mean.ratio or 0.0, mean.ratio_interval)})"
            for op, mean in means.items()
        ]
    )
    return (
        f"whether the mean of {said} differs from A's cannot be told: its interval holds 1, or there are too few "
        "stretches of time for one. A quantile says what single I/Os take, not what all of them cost together"
    )


def _without_time(label: str, op: str, figure: Figure, metric: str) -> Verdict:
    """No storage answers in no time: only a model of limits does, which states no time of the storage itself."""
    why = f"{label}'s model has limits and states no time of the storage itself"
    sentence = (
        f"{_DOING[op]}: no limit of {label} holds up the {figure.quantity}; A's {metric} is "
        f"{format_duration_ns(figure.a_ns)}. {why}, so it cannot be told which is faster."
    )
    return Verdict(op, figure.quantity, "unknown", figure.ratio or 0.0, None, why, sentence)


def _highest(entry: ClassComparison) -> Figure | None:
    """The highest quantile with an interval, else the highest there is.

    One that no limit of a model holds up says less than one that is held up.
    """
    given = [figure for figure in entry.figures if figure.ratio is not None]
    given = [figure for figure in given if figure.b_ns] or given
    return next((one for one in reversed(given) if one.ratio_interval), given[-1] if given else None)


def _same(entry: ClassComparison, quantity: str) -> Figure | None:
    return next((figure for figure in entry.figures if figure.quantity == quantity), None)


def _direction(found: Interval | None, margin: float = 0.0) -> Direction:
    """A ratio is a difference where its whole interval lies beyond ``margin``, either way."""
    if found is None:
        return "unknown"
    return "faster" if found[1] < 1 / (1 + margin) else "slower" if found[0] > 1 + margin else "no difference"


def _in_words(label: str, direction: Direction) -> str:
    if direction == "unknown":
        return f"but too few independent stretches of time to tell whether {label} is faster"
    if direction == "no difference":
        return f"these recordings show no difference between A and {label}"
    return f"{label} is {direction}"


def _near_a_limit(work: Sequence[WorkAspect]) -> str:
    """What little more load can do; empty where it is not little, or not more."""
    rate = next((one for one in work if one.name == "rate" and one.differs), None)
    if rate is None or not rate.expected or not rate.b or not 1 < rate.b / rate.expected <= 1 + _LITTLE_MORE:
        return ""
    more = format_share(rate.b / rate.expected - 1)
    return f"; close to a limit of the storage {more} more I/Os per second are enough to slow it"


def _reservation(label: str, direction: Direction, work: Sequence[WorkAspect]) -> str:
    """What in the work makes a direction doubtful, or all the more certain."""
    easier, harder, unclear = (
        [aspect.name for aspect in work if aspect.differs and aspect.favours == whom]
        for whom in ("b", "a", None)
    )
    if direction == "unknown":
        return ""
    said = []
    if easier and direction in {"faster", "no difference"}:
        said.append(f"{label} had it easier ({', '.join(easier)}): this may flatter it")
    if harder and direction in {"slower", "no difference"}:
        said.append(f"{label} had it harder ({', '.join(harder)}): this may be why{_near_a_limit(work)}")
    if direction == "faster" and harder and not easier:
        said.append(f"{label} had it harder ({', '.join(harder)}) and is faster all the same")
    if direction == "slower" and easier and not harder:
        said.append(f"{label} had it easier ({', '.join(easier)}) and is slower all the same")
    if unclear:
        said.append(
            f"the work differs ({', '.join(unclear)}): the classes that match say more than the whole"
        )
    sentence = "; ".join(said)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""
