"""How much of a slow change of latency the load explains.

More work makes a disk slower, and a day's swing of the load is no incident. What load explains is therefore part of
what is normal: for each load, the latency that the recording shows at that load **or a greater one** in its faster
times. So a load explains slowness only if it never went with less; storage that slowed while clients waited for it, and
so asked for less, is not explained away.
"""

from typing import Final

import numpy as np

from iotrace.schemas.arrays import Floats

_CHANGED: Final = float(np.log(1.2))
"""A load that stays within a fifth explains nothing."""
_BIN: Final = float(np.log(1.15))
_BINS_MAX: Final = 12
_BIN_LEAST: Final = 5
_FAST_SHARE: Final = 0.3


def load_effect(values: Floats, loads: list[Floats]) -> Floats:
    """The ln of the latency that each of ``loads`` (ln of a quantity, as long as ``values``) adds.

    Loads are taken one after another, each for what those before it leave.
    """
    effect = np.zeros(len(values))
    for load in loads:
        effect += _one(values - effect, load)
    return effect


def _one(values: Floats, load: Floats) -> Floats:
    chosen = np.flatnonzero(np.isfinite(load) & np.isfinite(values))
    if len(chosen) < 4 * _BIN_LEAST:
        return np.zeros(len(values))
    low, high = np.quantile(load[chosen], [0.05, 0.95])
    if high - low < _CHANGED:
        return np.zeros(len(values))
    chosen = chosen[np.argsort(load[chosen], kind="stable")]
    width = max(_BIN, float(high - low) / _BINS_MAX)
    least = max(_BIN_LEAST, len(chosen) // 40)
    centres, levels = [], []
    first = 0
    while first < len(chosen):
        end = int(np.searchsorted(load[chosen], load[chosen[first]] + width, side="right"))
        end = max(end, first + least)
        if len(chosen) - end < least:
            end = len(chosen)
        piece = chosen[first:end]
        centres.append(float(np.median(load[piece])))
        levels.append(float(np.quantile(values[piece], _FAST_SHARE)))
        first = end
    # No load explains more than what the storage did in its fast times under that load or a greater one.
    explained = np.minimum.accumulate(np.array(levels)[::-1])[::-1]
    known = np.where(np.isfinite(load), load, np.median(load[chosen]))
    effect: Floats = np.interp(known, centres, explained - explained[0])
    return effect
