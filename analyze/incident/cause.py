"""Was it the load, or was it the storage?

Load is what arrives: I/Os per second, how large they are, and how close together within a second (as many I/Os in
bursts wait for one another). It drives a slow window if it grew, and grew no later than latency. If it did not grow,
the storage served the same load more slowly: the window is service-driven. Where load grew only a little and latency
much, where it grew afterwards, or where normal seconds with just as much load were as fast as ever, the answer says so;
"cannot tell" is one.

I/Os in flight grow either way (Little 1961: in flight = arrivals x latency), so they are evidence of how much, not of
why. Except in one case: clients that wait for each I/O keep so many in flight and no more, so that slower storage
lowers their arrivals. More such clients of storage at its limit make it serve little more, but more than ever: then it
may be full and no slower, and "cannot tell" is the answer, however little load grew.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from iotrace.analyze.units import (
    format_bytes,
    format_duration_ns,
    format_figure,
    format_rate,
    format_ratio_with_interval,
    format_share,
)
from iotrace.schemas.arrays import Floats
from iotrace.schemas.units import SECOND_NS

from .change_points import Flags
from .result import Cause, Change
from .series import LayerSlots
from .stretches import mean_error

_GREW: Final = 1.2
_GREW_MUCH: Final = 1.5
_NEAR_SLOTS: Final = 600
_ONSET_SLOTS: Final = 15
_SAME_LOAD_LEAST: Final = 10
_SPARSE: Final = 0.2
_FLOWS: Final = 0.8
"""Share of normal slots with I/Os, from which on a time almost without any is a pause; and of the window without."""
_PAUSE_SLOTS: Final = 5
_ABOVE: Final = 1.03
"""By so much at least more is served than normally; less may be chance, which storage that slows has, too."""
_IN_FLIGHT_SHARE: Final = 0.5
"""Of the growth of latency, which more I/Os in flight have to show at least: else what got slow is a part of them."""
_LATE_SHARE: Final = 0.1
"""Of a slot: what ended so much later than it arrived may have arrived in another one."""


@dataclass(frozen=True, slots=True)
class _SameLoad:
    """Latency over normal in slots with as much load as the window, and its 95 % interval."""

    count: int
    factor: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _HowFull:
    """The share of slots in which anything arrived; arrivals in the window over normal ones, empty slots counted."""

    window: float
    normal: float
    ratio: float

    @classmethod
    def of(cls, arrivals: Floats, mine: Flags, near: Flags) -> "_HowFull":
        """From arrivals of each slot, of which some are the window's and some normal ones with at least one I/O."""
        window, normal = arrivals[mine], arrivals[near]
        ratio = float(window.mean() / normal.mean())
        return cls(float((window > 0).mean()), float((normal > 0).mean()), ratio)

    @property
    def is_window_sparse(self) -> bool:
        return self.window < _SPARSE

    @property
    def is_normal_sparse(self) -> bool:
        return self.normal < _SPARSE

    @property
    def is_sparse(self) -> bool:
        return self.is_window_sparse or self.is_normal_sparse

    @property
    def words(self) -> str:
        return f"{format_share(self.window)} here, {format_share(self.normal)} normally"


@dataclass(frozen=True, slots=True)
class Drive:
    """The verdict, the sentences that support it, and the figures."""

    cause: Cause
    evidence: list[str]
    changes: list[Change]
    is_as_ever: bool = False
    """It was as slow at other times under such a load."""

    @property
    def is_more_load(self) -> bool:
        """Whether more or larger I/Os drove the window, rather than as many closer together, or the storage."""
        if self.is_as_ever:
            return True
        asked = [change for change in self.changes if change.quantity in {"arrivals", "size"}]
        return self.cause == "load-driven" and any(map(_is_more, asked))


def judge_drive(
    load: LayerSlots,
    window: tuple[int, int],
    is_normal: Flags,
    excess: Floats,
    factor: float,
    *,
    slot_ns: int,
    what: str,
    together: Floats | None = None,
    is_mean: bool = False,
) -> Drive:
    """Judge the slots ``window`` of ``load``, the streams that share what got slow.

    ``is_normal`` marks slots outside every window; ``excess`` is ln(latency / normal) of the slow series in each slot,
    NaN where there is none; ``factor`` how slow the window was. ``what`` names the streams; ``together`` is how many
    I/Os begin in the same few moments, as an I/O of each slot sees it, None or NaN where that is not known; ``is_mean``
    says that the figures are means of counters.
    """
    seconds = slot_ns / 1e9
    arrived = _arrived(load, slot_ns) if is_mean else (load.io_count.sum(axis=0), load.size_bytes.sum(axis=0))
    arrivals, size_bytes = (amount / seconds for amount in arrived)
    in_flight = load.in_flight.sum(axis=0)
    mine = _inner(window, len(arrivals))
    near = _nearest(is_normal, window)
    if not near.any() or arrivals[near].sum() <= 0:
        sentence = f"no load of {what} is known outside the window: load and service cannot be separated"
        return Drive("cannot tell", [sentence], [])
    changes = [
        _change("arrivals", arrivals, mine, near),
        _change("size", np.exp(_log_size(arrivals, size_bytes)), mine, near),
        _change("bytes", size_bytes, mine, near),
        *([_change("bursts", together, mine, near)] if together is not None else []),
        _change("in_flight", in_flight, mine, near),
    ]
    onset = {
        "arrivals": _onset(np.log(arrivals + 0.5 / seconds), window, near),
        "size": _onset(_log_size(arrivals, size_bytes), window, near),
    }
    if together is not None:
        onset["bursts"] = _onset(np.log(together), window, near)
    changes = [
        Change(c.quantity, c.normal, c.slow, c.ratio, c.ratio_interval, _lead_ns(onset, c, window, slot_ns))
        for c in changes
    ]
    by_name = {str(change.quantity): change for change in changes}
    how_full = _HowFull.of(arrivals, mine, near)
    alike = [arrivals, size_bytes]
    if together is not None and _is_more(by_name["bursts"]):
        alike.append(together)
    ops = ", ".join(sorted({stream.op for stream in load.streams}))
    same_load = _same_load(alike, mine, is_normal, excess)
    evidence = [
        _sentence(change, f"({ops}) of {what}", slot_ns, how_full)
        for change in changes
        if change.quantity in {"arrivals", "size", "bursts"} and change.ratio is not None
    ]
    flight = by_name["in_flight"]
    if flight.ratio is not None:
        by_law = ", by Little's law" if is_mean else ""
        evidence.append(
            f"in flight {format_figure(flight.slow)} against {format_figure(flight.normal)}{by_law}"
        )
    if same_load is not None:
        evidence.append(
            f"{same_load.count:,} normal slots with as much load: "
            f"{format_ratio_with_interval(same_load.factor, (same_load.low, same_load.high))} normal latency"
        )
    else:
        evidence.append(
            "fewer than ten normal slots carried as much load, so what it does there is not known"
        )
    most = _most_served(arrivals, int(mine.sum()), is_normal)
    full = None
    if most is not None and float(arrivals[mine].mean()) > most and not how_full.is_sparse:
        full = _full(by_name, factor, most)
    paused = _paused(arrivals, in_flight, window, near, slot_ns)
    cause, reason = _verdict(by_name, same_load, factor, slot_ns, how_full, full, paused)
    if is_mean and cause == "service-driven":
        reason += "; means do not show whether as many I/Os came in bursts, which is slow too"
    return Drive(cause, [*evidence, reason], changes)


def explained_by_load(drive: Drive) -> Drive:
    """The same, with the finding that the load, second by second, makes the storage as slow at other times."""
    reason = "second by second, the storage is about as slow at other times under as much load"
    return Drive("load-driven", [*drive.evidence[:-1], reason], drive.changes, is_as_ever=True)


def _verdict(
    changes: dict[str, Change],
    same_load: _SameLoad | None,
    factor: float,
    slot_ns: int,
    how_full: _HowFull,
    full: str | None = None,
    paused: str | None = None,
) -> tuple[Cause, str]:
    """The cause, and the sentence that decides it.

    ``full`` is the one of storage that may have been at its limit, ``paused`` that of a load that stood still.
    """
    asked = [changes[name] for name in ("arrivals", "size", "bursts") if name in changes]
    if paused is not None:
        return "service-driven", paused
    if how_full.is_window_sparse:
        # Mostly nothing arrived: that is no more load, however much came in the few slots that had any.
        asked = [change for change in asked if change.quantity != "arrivals"]
    grew = [change for change in asked if _is_more(change)]
    if not grew:
        unsure = [
            change.quantity
            for change in asked
            if change.ratio_interval and change.ratio_interval[1] > _GREW_MUCH
        ]
        if unsure:
            return "cannot tell", f"whether {' and '.join(unsure)} grew is uncertain: the interval holds both"
        if how_full.is_normal_sparse and how_full.ratio > _GREW_MUCH:
            return "cannot tell", "too few normal slots have any I/O to say whether arrivals grew"
        if full is not None:
            return "cannot tell", full
        return "service-driven", f"{_nothing_grew(changes)}: the load does not explain it"
    leads = [change.lead_ns for change in grew if change.lead_ns is not None]
    if len(leads) == len(grew) and max(leads) < -2 * slot_ns:
        return "cannot tell", f"load grew only {format_duration_ns(-max(leads))} after latency did"
    if same_load is not None and same_load.high < 1 + 0.3 * (factor - 1):
        return "service-driven", "as much load was carried well at other times"
    most = max(change.ratio or 1.0 for change in grew)
    if most < _GREW_MUCH and factor > 2 * most:
        return "cannot tell", f"load grew {most:.2f}x and latency {factor:.2f}x: that may be either, or both"
    return "load-driven", _grew(leads, slot_ns)


def _paused(
    arrivals: Floats, in_flight: Floats, window: tuple[int, int], near: Flags, slot_ns: int
) -> str | None:
    """What to say where the load, which normally flows, stood still for most of the window. None: it did not.

    Clients that wait for I/Os that hang do so; what they held back comes at once afterwards, and is no more load. It is
    no pause if a burst came first, for whose end the clients may wait, nor if none is in flight: then the load may not
    have been recorded.
    """
    inside = arrivals[slice(*window)]
    ends = np.flatnonzero(np.diff(np.concatenate([[1.0], inside > 0, [1.0]])))
    if not len(ends) or float((arrivals[near] > 0).mean()) < _FLOWS:
        return None
    first, end = max(zip(ends[::2], ends[1::2], strict=True), key=lambda run: run[1] - run[0])
    usual = float(arrivals[near].mean())
    before = arrivals[max(window[0] - 1, 0) : window[0] + first]
    if end - first < max(_PAUSE_SLOTS, _FLOWS * len(inside)) or np.any(before > _GREW_MUCH * usual):
        return None
    if not np.all(in_flight[window[0] + first : window[0] + end] > 0):
        return None
    lasted = format_duration_ns(int(end - first) * slot_ns)
    return f"no I/O arrived for {lasted}, in which others waited to be answered: the load does not explain it"


def _most_served(arrivals: Floats, slots: int, is_normal: Flags) -> float | None:
    """The most I/Os per second in as many normal slots in a row; None where there are not as many."""
    totals, normal = (np.concatenate([[0], np.cumsum(one)]) for one in (arrivals, is_normal))
    whole = normal[slots:] - normal[:-slots] == slots
    return float((totals[slots:] - totals[:-slots])[whole].max()) / slots if whole.any() else None


def _full(changes: dict[str, Change], factor: float, most: float) -> str | None:
    """What to say where it served more than ``most`` of normal times: it may have been full. None: not clearly more."""
    served, flight = changes["arrivals"], changes["in_flight"]
    if served.ratio is None or served.ratio_interval is None or flight.ratio is None:
        return None
    if served.ratio_interval[0] <= _ABOVE or flight.ratio / served.ratio < _IN_FLIGHT_SHARE * factor:
        return None
    return (
        f"it served more than ever in as long ({format_rate(served.slow)}, at most {format_rate(most)} otherwise) "
        "while more I/Os waited for it: it may have been at its limit, or slower"
    )


def _nothing_grew(changes: dict[str, Change]) -> str:
    """What is known not to have grown."""
    more = "neither more nor larger I/Os" if changes["size"].ratio is not None else "no more I/Os"
    has_bursts = "bursts" in changes and changes["bursts"].ratio is not None
    return f"{more} arrived{', nor closer together' if has_bursts else ''}"


def _grew(leads: list[int], slot_ns: int) -> str:
    if leads and max(leads) >= 0:
        return "load grew, and no later than latency"
    if leads and max(leads) >= -2 * slot_ns:
        return (
            f"load grew within {format_duration_ns(-max(leads))} of latency, too close to say which was first"
        )
    return "load grew; whether before or after latency is not clear"


def _sentence(change: Change, what: str, slot_ns: int, how_full: _HowFull) -> str:
    ratio = format_ratio_with_interval(change.ratio, change.ratio_interval)
    if change.quantity == "arrivals":
        where = f", in the slots that have any ({how_full.words})" if how_full.is_sparse else ""
        level = f"{format_rate(change.slow)} against {format_rate(change.normal)}"
        words = f"arrivals {what}, typically {level}: {ratio}{where}"
    elif change.quantity == "bursts":
        words = f"I/Os that begin together {format_figure(change.slow)} against {format_figure(change.normal)}: {ratio}"
    else:
        words = f"mean size {format_bytes(change.slow)} against {format_bytes(change.normal)}: {ratio}"
    if change.lead_ns is None or not _is_more(change):
        return words
    if change.lead_ns == 0:
        slot = "second" if slot_ns == SECOND_NS else format_duration_ns(slot_ns)
        return f"{words}, growing in the same {slot} as latency"
    when = "before" if change.lead_ns > 0 else "after"
    return f"{words}, growing {format_duration_ns(abs(change.lead_ns))} {when} latency"


def _is_more(change: Change) -> bool:
    """Whether it surely grew."""
    return bool(change.ratio_interval and change.ratio_interval[0] > _GREW)


def _arrived(load: LayerSlots, slot_ns: int) -> tuple[Floats, Floats]:
    """I/Os and bytes by the slot that they arrived in, from counters, which count what ended.

    What ended in a slot had arrived its mean latency earlier, on the mean: it is spread evenly from twice that before
    the slot to the slot's end. Else a disk that answers everything at once after it was frozen had more load then.
    """
    ended = np.stack([load.io_count.sum(axis=0), load.size_bytes.sum(axis=0)])
    counted, waited_ns = load.begun_count.sum(axis=0), load.latency_sum_ns.sum(axis=0)
    latency_ns = np.divide(waited_ns, counted, out=np.zeros(len(counted)), where=counted > 0)
    late = np.flatnonzero((2 * latency_ns > _LATE_SHARE * slot_ns) & (ended[0] > 0))
    arrived = ended.copy()
    arrived[:, late] = 0.0
    for slot in late:
        back = 2 * float(latency_ns[slot]) / slot_ns
        first = max(int(np.floor(slot - back)), 0)
        parts = np.diff(np.clip(np.arange(first, slot + 2), slot - back, slot + 1))
        arrived[:, first : slot + 1] += ended[:, slot, None] * parts / (1 + back)
    return arrived[0], arrived[1]


def _inner(window: tuple[int, int], slots: int) -> Flags:
    """The window's slots without its first and last, which belong to it only in part, if enough are left."""
    flags = np.zeros(slots, dtype=bool)
    first, end = (window[0] + 1, window[1] - 1) if window[1] - window[0] >= 5 else window
    flags[first:end] = True
    return flags


def _nearest(is_normal: Flags, window: tuple[int, int]) -> Flags:
    """The normal slots nearest the window, on both sides; a slot next to it may belong to it in part."""
    flags = np.zeros(len(is_normal), dtype=bool)
    before = np.flatnonzero(is_normal[: max(window[0] - 1, 0)])[-_NEAR_SLOTS:]
    after = np.flatnonzero(is_normal[window[1] + 1 :])[:_NEAR_SLOTS] + window[1] + 1
    flags[before] = True
    flags[after] = True
    return flags


def _change(quantity: str, per_slot: Floats, mine: Flags, near: Flags) -> Change:
    """Geometric means over the slots where there is something, so that one busy second is no load; and their ratio.

    Its interval takes neighbouring slots to be correlated.
    """
    figures, errors = [], []
    values_near = np.ones(1)
    for flags in (near, mine):
        values = per_slot[flags]
        values = values[np.isfinite(values) & (values > 0)]
        if len(values) < (2 if flags is near else 1):
            return Change(quantity, 0.0, 0.0, None, None)  # type: ignore[arg-type]
        figures.append(float(np.exp(np.log(values).mean())))
        # A single slot varies as the normal ones do.
        single = float(np.log(values_near).std()) if len(values) == 1 else 0.0
        errors.append(single or mean_error(np.log(values), np.ones(len(values))))
        values_near = values
    ratio = figures[1] / figures[0]
    freedom = int(near.sum()) if mine.sum() == 1 else int(mine.sum())
    reach = min(_quantile(freedom) * float(np.hypot(errors[0], errors[1])), 20.0)
    interval = (ratio * float(np.exp(-reach)), ratio * float(np.exp(reach)))
    return Change(quantity, figures[0], figures[1], ratio, interval)  # type: ignore[arg-type]


def _quantile(count: int) -> float:
    from scipy.stats import t as student  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    return float(student.ppf(0.975, max(min(count - 1, 200), 1)))


def _log_size(arrivals: Floats, size_bytes: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(np.where((arrivals > 0) & (size_bytes > 0), size_bytes / arrivals, np.nan))


def _onset(values: Floats, window: tuple[int, int], near: Flags) -> int | None:
    """The slot near the window's start at which ``values`` rise, by the best split in two levels; None if unclear."""
    first = max(window[0] - _ONSET_SLOTS, 0)
    end = min(window[0] + min(_ONSET_SLOTS, max(window[1] - window[0], 2)), len(values))
    piece = values[first:end]
    at = np.flatnonzero(np.isfinite(piece))
    if len(at) < 4 or not np.isfinite(values[near]).any():
        return None
    piece = piece[at]
    best, gain, count = None, 0.0, len(piece)
    for split in range(1, count):
        left, right = piece[:split], piece[split:]
        rise = float(right.mean() - left.mean())
        saved = split * (count - split) / count * rise * rise
        if rise > 0 and saved > gain:
            best, gain = split, saved
    spread = float(np.nanstd(values[near]))
    if best is None or gain < 9 * spread * spread:
        return None
    return first + int(at[best])


def _lead_ns(
    onset: dict[str, int | None], change: Change, window: tuple[int, int], slot_ns: int
) -> int | None:
    slot = onset.get(change.quantity)
    return None if slot is None else (window[0] - slot) * slot_ns


def _same_load(load: list[Floats], mine: Flags, is_normal: Flags, excess: Floats) -> _SameLoad | None:
    """How slow normal slots were with at least as much of each ``load``; None where there are fewer than ten."""
    alike = is_normal & np.isfinite(excess)
    for per_slot in load:
        alike &= per_slot >= 0.9 * np.nanmedian(per_slot[mine])
    count = int(alike.sum())
    if count < _SAME_LOAD_LEAST:
        return None
    mean = float(excess[alike].mean())
    reach = _quantile(count) * mean_error(excess[alike], np.ones(count))
    return _SameLoad(count, float(np.exp(mean)), float(np.exp(mean - reach)), float(np.exp(mean + reach)))
