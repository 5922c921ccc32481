"""Student's t distribution."""

import math

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def t_quantile(share: float, degrees: float) -> float:
    """The value below which a ``share`` (one half or more) of the t distribution lies; ``degrees``: 1 to 10,000, real.

    With t = sqrt(n) tan(a) its density becomes cos(a) ** (n - 1) over B(1/2, n/2), which is smooth: what lies between
    0 and a is integrated by Gauss and Legendre's rule, and a found by bisection. SciPy has the same (``stats.t.ppf``),
    but would have to be there wherever a replay says how like its recording it was.
    """
    whole = math.exp(math.lgamma(0.5) + math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2))
    wanted = (share - 0.5) * whole

    def below(angle: float) -> float:
        logs = (degrees - 1) * np.log(np.cos(angle * (_NODES + 1) / 2))
        return float(angle / 2 * (_WEIGHTS @ np.exp(logs)))

    # Nearly all lies within some standard deviations, 1 / sqrt(n) each: beyond, the rule's nodes would be too few.
    low, high = 0.0, min(math.pi / 2, 40 / math.sqrt(degrees))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < wanted else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)
