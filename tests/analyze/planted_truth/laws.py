"""Queues in closed form and exact simulation. Times are seconds, rates 1/s."""

import heapq
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def one_server(at_s: Floats, service_s: Floats, free_at_s: float = 0.0) -> Floats:
    """When each of a first-come-first-served server's jobs ends; ``at_s`` rises.

    Lindley's recursion end[i] = max(at[i], end[i-1]) + service[i], written as a running maximum.
    """
    if not len(at_s):
        return at_s
    done = np.cumsum(service_s)
    started = np.maximum.accumulate(at_s - (done - service_s))
    return done + np.maximum(started, free_at_s)


def many_servers(at_s: Floats, service_s: Floats, free_at_s: list[float]) -> Floats:
    """The same with one queue before several servers. ``free_at_s`` is a heap, one entry a server, and is updated."""
    ends = np.empty(len(at_s))
    for index, (at, service) in enumerate(zip(at_s.tolist(), service_s.tolist(), strict=True)):
        end = max(at, free_at_s[0]) + service
        heapq.heapreplace(free_at_s, end)
        ends[index] = end
    return ends


@dataclass(slots=True)
class TokenBucket:
    """Admits work of ``rate`` a second, and ``burst`` more at once when it was idle long enough.

    The virtual-scheduling form of the generic cell rate algorithm (ITU-T I.371, annex A), with a queue instead of
    discarding: work that finds too few tokens waits, first come first served. ``empty_until_s`` is when the bucket
    will be full again if nothing more comes.
    """

    rate: float
    burst: float
    full_at_s: float = -math.inf

    def admit(self, at_s: Floats, cost: Floats) -> Floats:
        """When each job may go. ``at_s`` rises; no cost may exceed ``burst``."""
        if not len(at_s):
            return at_s
        assert cost.max() <= self.burst * (1 + 1e-9), "a job larger than the bucket would wait for ever"
        full = one_server(at_s, cost / self.rate, self.full_at_s)
        full_before = np.concatenate([[self.full_at_s], full[:-1]])
        self.full_at_s = float(full[-1])
        may_go = full_before - (self.burst - cost) / self.rate
        return np.maximum.accumulate(np.maximum(at_s, may_go))

    def tokens(self, at_s: float) -> float:
        """What is saved at ``at_s``, no work having come since the last that was admitted."""
        return min(self.burst, self.burst - (self.full_at_s - at_s) * self.rate)


def erlang_c(servers: int, offered_erlang: float) -> float:
    """Probability that a job of an M/M/c queue has to wait (Erlang 1917), by the recursion of Erlang B."""
    blocked = 1.0
    for busy in range(1, servers + 1):
        blocked = offered_erlang * blocked / (busy + offered_erlang * blocked)
    utilisation = offered_erlang / servers
    return blocked / (1 - utilisation + utilisation * blocked)


def mmc_mean_s(rate: float, service_s: float, servers: int) -> float:
    """Mean time in an M/M/c queue, service included. Infinite at or past saturation."""
    offered = rate * service_s
    if offered >= servers:
        return math.inf
    return service_s + erlang_c(servers, offered) * service_s / (servers - offered)


def md1_mean_s(rate: float, service_s: float) -> float:
    """Mean time in an M/D/1 queue, service included (Pollaczek-Khinchine)."""
    utilisation = rate * service_s
    return math.inf if utilisation >= 1 else service_s * (1 + utilisation / (2 * (1 - utilisation)))


def where_doubled(mean_s, unloaded_s: float, capacity: float) -> float:
    """The rate at which ``mean_s(rate)``, which rises, is twice ``unloaded_s``; found by halving."""
    low, high = 0.0, capacity
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_s(middle) < 2 * unloaded_s else (low, middle)
    return low
