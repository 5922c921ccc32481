"""What other estimators say of a knee, and in words whether they agree.

Kneedle looks at the shape of the curve alone; the Universal Scalability Law (`estimators`) says at which throughput
contention ends growth; peak power (Kleinrock 1979) is the load with the best ratio of throughput to latency. Peak power
lies well below the knee by its nature (at half the capacity for M/M/1), so it never counts as disagreement.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from iotrace.analyze.stats.estimate import Estimate
from iotrace.analyze.units import DASH, format_figure
from iotrace.schemas.arrays import Floats
from iotrace.schemas.vocabulary import listed

from .answer import Vote
from .estimators import Usl, fit_usl, kneedle, kneedle_concave, peak_power

VOTE_SHARE: Final = 0.25
PEAK_POWER: Final = "peak power"
USL: Final = "USL"
_POINTS_MIN: Final = 3


def open_votes(
    marks: Sequence[Estimate],
    load: Floats,
    latency: Floats,
    points: tuple[Floats, Floats, Floats],
    *,
    has_wall: bool,
    tail: tuple[str, float | None] | None,
) -> tuple[list[Vote], Usl | None]:
    """Votes on an open loop's knee: ``marks`` are the knee, and the onset of climbing latency where it lies apart.

    ``load`` and ``latency`` are the latency-load curve, in IOPS and ns. ``points`` are the mean in flight, the IOPS
    carried and the mean latency of each judged step. ``tail`` names the fit of a high quantile and its bend.
    """
    in_flight, carried, mean_ns = points
    votes = [] if tail is None else [_vote(f"two segments through {tail[0]}", tail[1], marks, load)]
    votes.append(_vote("Kneedle", kneedle(load, latency), marks, load))
    usl = fit_usl(in_flight, carried)
    votes.append(_usl_vote(usl, marks, load, most=float(carried.max())))
    # At an end of the range tested the greatest power is only the greatest so far.
    power = peak_power(carried, carried, mean_ns) if len(carried) >= _POINTS_MIN else None
    inside = power is not None and carried.min() < power and (power < carried.max() or has_wall)
    votes.append(_vote(PEAK_POWER, power if inside else None, marks, load))
    return votes, usl


def closed_votes(
    knee: Estimate | None, knee_rate: Estimate | None, load: Floats, throughput: Floats
) -> tuple[list[Vote], Usl | None]:
    """Votes on the knee of closed loops, each with its load in ``outstanding``.

    ``load`` is in flight, ``throughput`` what came of it; by Little's law N / X is the mean latency.
    """
    usl = fit_usl(load, throughput)
    power = float(load[int(np.argmax(throughput**2 / load))])
    seen = {
        "Kneedle": kneedle_concave(load, throughput),
        PEAK_POWER: power if load[0] < power < load[-1] else None,
    }
    votes = [
        Vote(
            name,
            None if at is None else float(np.interp(at, load, throughput)),
            _agrees([knee] if knee else [], at, load),
            at,
        )
        for name, at in seen.items()
    ]
    by_rate = np.unique(throughput)
    votes.insert(1, _usl_vote(usl, [knee_rate] if knee_rate else [], by_rate, most=float(throughput.max())))
    return votes, usl


def agreement(votes: Sequence[Vote], knee: str, load: str = "in flight", throughput: str = "IOPS") -> str:
    """A sentence on what the votes say of the knee, whose own words are ``knee``; empty where nobody sees one.

    ``load`` and ``throughput`` are the units of closed loops.
    """
    heard = [vote for vote in votes if vote.method != PEAK_POWER and vote.agrees is not None]
    against = [vote for vote in heard if not vote.agrees]
    if against:
        said = ", ".join(f"{vote.method} sees it at {place(vote, load, throughput)}" for vote in against)
        return f"The estimators disagree: the knee is put at {knee}, but {said}."
    names = [vote.method for vote in heard]
    if not names:
        return ""
    return f"{listed(names)} {'agree' if len(names) > 1 else 'agrees'}, within a step or {100 * VOTE_SHARE:.0f} %."


def usl_text(usl: Usl) -> str:
    """The law's parameters in words: ``sigma 0.052 [0.047, 0.058], kappa 0 [0, 2e-05]``."""
    parts = [
        f"{name} {one.value:.2g} [{one.low:.2g}, {one.high:.2g}]"
        for name, one in (("sigma", usl.sigma), ("kappa", usl.kappa))
    ]
    fit = "" if usl.fits else f"; it does not fit (off by {100 * usl.misfit:.0f} %), and does not count"
    return f"USL: {', '.join(parts)}{fit}"


def _usl_vote(usl: Usl | None, marks: Sequence[Estimate], load: Floats, *, most: float) -> Vote:
    ceiling = usl.ceiling.value if usl is not None and usl.fits and usl.ceiling is not None else None
    # A law that levels off far beyond all that was carried has not seen a knee.
    seen = ceiling is not None and ceiling <= (1 + VOTE_SHARE) * most
    return _vote(USL, ceiling if seen else None, marks, load)


def _vote(method: str, iops: float | None, marks: Sequence[Estimate], load: Floats) -> Vote:
    return Vote(method, iops, _agrees(marks, iops, load))


def _agrees(marks: Sequence[Estimate], vote: float | None, load: Floats) -> bool | None:
    """Whether a vote lies within a step of one of the marks, its interval, or `VOTE_SHARE` of it."""
    if not marks or vote is None:
        return None
    return any(_is_near(mark, vote, load) for mark in marks)


def _is_near(knee: Estimate, vote: float, load: Floats) -> bool:
    position = int(np.searchsorted(load, knee.value))
    low = min(load[max(position - 2, 0)], knee.low, knee.value * (1 - VOTE_SHARE))
    high = max(load[min(position + 1, len(load) - 1)], knee.high, knee.value * (1 + VOTE_SHARE))
    return bool(low <= vote <= high)


def place(vote: Vote, load: str = "in flight", throughput: str = "IOPS") -> str:
    """Where a vote sees the knee: ``32 in flight``, ``2,010 IOPS``, a dash where it sees none."""
    if vote.outstanding is not None:
        return f"{format_figure(vote.outstanding)} {load}"
    return DASH if vote.iops is None else f"{vote.iops:,.0f} {throughput}"
