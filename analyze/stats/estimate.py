"""A figure with its uncertainty."""

from dataclasses import dataclass
from typing import Final

_CHI_SQUARE_95: Final = 3.841


def worse_at_95(best: float, freedom: int, noise: float) -> float:
    """By how much a sum of squared residuals may exceed the ``best`` one's before its parameter is ruled out.

    ``freedom`` is the number of points less that of parameters, ``noise`` what a point is known to at best: where the
    residuals are larger, they count instead (F-test of one parameter), else the noise is taken as known (chi-square).
    """
    known = _CHI_SQUARE_95 * noise**2
    if freedom < 1:
        return known
    from scipy import special  # noqa: PLC0415 - it takes long to import, and every command would wait for it

    spread = best / freedom
    if spread <= noise**2:
        return known
    return max(known, float(special.fdtri(1, freedom, 0.95)) * spread)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Estimate":
        """The same estimate in another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)
