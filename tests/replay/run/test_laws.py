"""The engine on a simulated disk obeys the laws of queues: whole distributions of response, not only their means.

In simulated time, so that the only error is that of sampling. Each figure is the mean over independent runs; the error
stated is four standard errors of that mean, found from the spread between the runs.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from scipy.optimize import brentq

from iotrace.replay import _engine

SERVICE_NS = 100_000
ROWS = 100_000
RUNS = 20
SHARES = (0.5, 0.9, 0.99)

# Eighteen comparisons at four of them fail by chance once in some 900 times; and seeds are fixed.
STANDARD_ERRORS = 4.0


def responses(servers: int, service: str, load: float, seed: int) -> npt.NDArray[np.int64]:
    """Response times of reads that arrive at random (Poisson) at ``load`` of what the disk can do."""
    gaps = np.random.default_rng(seed).exponential(SERVICE_NS / (servers * load), ROWS)
    arrivals = np.cumsum(gaps).astype(np.int64)
    engine = _engine.Engine(
        [],
        in_flight_max=1 << 16,
        read_bytes_max=8192,
        write_bytes_max=0,
        seed=seed + 1,
        simulate={"servers": servers, "service": service, "service_ns": SERVICE_NS},
    )
    engine.offer(
        pa.record_batch(
            {
                "intended_ns": arrivals,
                "offset_bytes": np.zeros(ROWS, np.uint64),
                "size_bytes": np.full(ROWS, 8192, np.uint32),
                "op": np.zeros(ROWS, np.uint8),
                "target": np.zeros(ROWS, np.uint16),
                "durable": pa.array(np.zeros(ROWS, np.bool_)),
            }
        )
    )
    engine.end_plan()
    engine.start()
    while not engine.wait(1.0):
        pass
    outcome = engine.take()
    assert outcome is not None
    assert outcome.num_rows == ROWS
    assert engine.ended()["word"] == "normally"
    issued, intended = outcome["issued_ns"].to_numpy(), outcome["intended_ns"].to_numpy()
    assert (issued == intended).all(), "an open loop never holds back an arrival"
    # The first tenth sees an empty disk, which the law does not know.
    return (outcome["completed_ns"].to_numpy() - intended)[ROWS // 10 :]


def wait_within_m_d_1(wait_services: float, load: float) -> float:
    """P(wait ≤ t) in front of one server of constant service time, t in services: Erlang 1909.

    (1 - r) times the sum over k from 0 to t of e^{r (t - k)} (-r (t - k))^k / k!, r being the load; in many digits
    because the terms alternate.
    """
    with localcontext() as digits:
        digits.prec = 150
        r, t = Decimal(load), Decimal(wait_services)
        terms = ((r * (t - k)).exp() * (-r * (t - k)) ** k / math.factorial(k) for k in range(int(t) + 1))
        return float((1 - r) * sum(terms, Decimal(0)))


def erlang_c(servers: int, offered: float) -> float:
    """The share of arrivals that find all servers busy: Erlang 1917."""
    terms = [offered**k / math.factorial(k) for k in range(servers + 1)]
    last = terms[-1] * servers / (servers - offered)
    return last / (sum(terms[:-1]) + last)


def response_within_m_m_c(response_services: float, servers: int, load: float) -> float:
    """P(response ≤ t), t in mean services: a wait, 0 or exponential of rate c - a, and then an exponential service.

    1 - e^{-t} - C(c, a) (e^{-t} - e^{-(c-a) t}) / (c - a - 1), which follows from Erlang's C by convolution.
    """
    offered = servers * load
    spare = servers - offered
    wait = erlang_c(servers, offered)
    t = response_services
    both = t * math.exp(-t) if abs(spare - 1) < 1e-9 else (math.exp(-t) - math.exp(-spare * t)) / (spare - 1)
    return 1 - math.exp(-t) - wait * both


def check(measured: npt.NDArray[np.float64], law: Callable[[float], float], what: str) -> None:
    """Compare quantiles of many runs, one row each, with those of a distribution function."""
    for share, found in zip(SHARES, measured.T, strict=True):
        exact = brentq(lambda t, share=share: law(t) - share, 0.0, 60.0, xtol=1e-6)
        error = STANDARD_ERRORS * found.std(ddof=1) / math.sqrt(len(found))
        assert error < 0.05 * exact, f"{what}: the runs are too short to tell"
        assert abs(found.mean() - exact) <= error, (
            f"{what}: p{100 * share:g} is {found.mean():.4f} ± {error:.4f} services, the law says {exact:.4f}"
        )


def quantiles(servers: int, service: str, load: float) -> npt.NDArray[np.float64]:
    """Of each run, in services."""
    return np.array(
        [np.quantile(responses(servers, service, load, seed), SHARES) / SERVICE_NS for seed in range(RUNS)]
    )


@pytest.mark.parametrize("load", [0.6, 0.7, 0.8])
def test_response_quantiles_of_m_d_1(load: float) -> None:
    measured = quantiles(1, "constant", load)
    check(measured, lambda t: wait_within_m_d_1(t - 1, load) if t >= 1 else 0.0, f"M/D/1 at {load}")


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (4, 0.8), (16, 0.9)])
def test_response_quantiles_of_m_m_c(servers: int, load: float) -> None:
    measured = quantiles(servers, "exponential", load)
    check(measured, lambda t: response_within_m_m_c(t, servers, load), f"M/M/{servers} at {load}")
