# ruff: noqa: ARG002 - all devices take the same arguments
"""Simulated storage with a known sustained rate, and state that outlives a step. Times are seconds on one clock."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .laws import Floats, TokenBucket, many_servers, md1_mean_s, mmc_mean_s, one_server, where_doubled
from .loads import Mix

Flags = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.int64]


class Device(Protocol):
    """Serves I/Os in order of arrival."""

    def serve(self, rng: np.random.Generator, at_s: Floats, is_read: Flags, size_bytes: Sizes) -> Floats:
        """When each I/O ends. ``at_s`` rises, also from call to call."""
        ...

    def sustained_iops(self, mix: Mix) -> float:
        """What it carries for ever; infinite where nothing limits it."""
        ...

    def burst_iops(self, mix: Mix) -> float:
        """What it carries while its credits last."""
        ...

    def credits(self, at_s: float) -> float | None:
        """What is saved now, in `credits_unit`; None where it saves nothing."""
        ...

    def refill_seconds(self) -> float:
        """How long it must rest until it has saved all it can."""
        ...

    def mean_doubles_iops(self, mix: Mix) -> float | None:
        """Poisson rate at which the mean response is twice the unloaded one, by theory; None without a theory."""
        ...


@dataclass(slots=True)
class _Base:
    """Time that every I/O takes beside waiting: log-normal, in parallel."""

    base_s: float = 0.0004
    sigma: float = 0.3

    def _ends(self, rng: np.random.Generator, started_s: Floats) -> Floats:
        return started_s + self.base_s * np.exp(self.sigma * rng.standard_normal(len(started_s)))


@dataclass(slots=True)
class Flat(_Base):
    """Never saturates: every I/O is served at once."""

    def serve(self, rng: np.random.Generator, at_s: Floats, is_read: Flags, size_bytes: Sizes) -> Floats:
        return self._ends(rng, at_s)

    def sustained_iops(self, mix: Mix) -> float:
        return np.inf

    def burst_iops(self, mix: Mix) -> float:
        return np.inf

    def credits(self, at_s: float) -> float | None:
        return None

    def refill_seconds(self) -> float:
        return 0.0

    def mean_doubles_iops(self, mix: Mix) -> float | None:
        return None


@dataclass(slots=True)
class Bucketed(_Base):
    """A token bucket before a device that carries ``peak_iops``: a cloud disk, a throttle, a write cache that drains.

    ``unit``: ``ios`` (every I/O costs one token), or ``write_bytes`` (a write costs its bytes, a read nothing: the free
    space of a cache that drains at ``bucket.rate`` bytes a second). ``reads_wait``: reads queue behind writes that wait
    for space, as where all share the device's queue; else they overtake them.
    """

    bucket: TokenBucket = field(default_factory=lambda: TokenBucket(2000, 2000))
    peak_iops: float = 6000.0
    unit: str = "ios"
    reads_wait: bool = True
    saves: bool = True
    """False for a plain throttle, whose bucket is too small to be called credits."""
    _free_at_s: float = 0.0

    def serve(self, rng: np.random.Generator, at_s: Floats, is_read: Flags, size_bytes: Sizes) -> Floats:
        if self.unit == "ios":
            admitted = self.bucket.admit(at_s, np.ones(len(at_s)))
        elif self.reads_wait:
            admitted = self.bucket.admit(at_s, np.where(is_read, 0.0, size_bytes))
        else:
            admitted = at_s.copy()
            admitted[~is_read] = self.bucket.admit(at_s[~is_read], size_bytes[~is_read].astype(float))
        order = np.argsort(admitted, kind="stable")
        started = np.empty(len(at_s))
        started[order] = one_server(admitted[order], np.full(len(at_s), 1 / self.peak_iops), self._free_at_s)
        self._free_at_s = max(self._free_at_s, float(started.max(initial=0.0)))
        return self._ends(rng, started)

    def sustained_iops(self, mix: Mix) -> float:
        per_io = 1.0 if self.unit == "ios" else mix.mean_bytes(writes_only=True)
        return min(self.bucket.rate / per_io, self.peak_iops)

    def burst_iops(self, mix: Mix) -> float:
        return self.peak_iops

    def credits(self, at_s: float) -> float | None:
        return self.bucket.tokens(at_s) if self.saves else None

    def refill_seconds(self) -> float:
        return self.bucket.burst / self.bucket.rate

    def mean_doubles_iops(self, mix: Mix) -> float | None:
        return None


@dataclass(slots=True)
class SlcCache(_Base):
    """Flash whose writes go to a fast region until that is full, then straight to the slow cells.

    The fast region is emptied only while nothing has come for ``idle_s``. One queue, first come first served; a read
    takes the time of its base alone.
    """

    cache_bytes: float = 1e9
    fast_bytes_per_second: float = 400e6
    slow_bytes_per_second: float = 60e6
    recover_bytes_per_second: float = 100e6
    idle_s: float = 1.0
    filled_bytes: float = 0.0
    _free_at_s: float = 0.0

    def serve(self, rng: np.random.Generator, at_s: Floats, is_read: Flags, size_bytes: Sizes) -> Floats:
        started, free, filled = [], self._free_at_s, self.filled_bytes
        fast, slow = 1 / self.fast_bytes_per_second, 1 / self.slow_bytes_per_second
        written = np.where(is_read, 0, size_bytes)
        for at, size in zip(at_s.tolist(), written.tolist(), strict=True):
            if at - free > self.idle_s:
                filled = max(0.0, filled - (at - free - self.idle_s) * self.recover_bytes_per_second)
            if filled + size <= self.cache_bytes:
                filled += size
                free = max(at, free) + size * fast
            else:
                free = max(at, free) + size * slow
            started.append(free)
        self._free_at_s, self.filled_bytes = free, filled
        return self._ends(rng, np.array(started))

    def sustained_iops(self, mix: Mix) -> float:
        return self.slow_bytes_per_second / mix.mean_bytes(writes_only=True)

    def burst_iops(self, mix: Mix) -> float:
        return self.fast_bytes_per_second / mix.mean_bytes(writes_only=True)

    def credits(self, at_s: float) -> float | None:
        rested = max(0.0, at_s - self._free_at_s - self.idle_s)
        return min(
            self.cache_bytes, self.cache_bytes - self.filled_bytes + rested * self.recover_bytes_per_second
        )

    def refill_seconds(self) -> float:
        return self.cache_bytes / self.recover_bytes_per_second + self.idle_s

    def mean_doubles_iops(self, mix: Mix) -> float | None:
        return None


@dataclass(slots=True)
class OneServer:
    """M/D/1 under Poisson arrivals: one server, every I/O takes ``service_s``."""

    service_s: float = 0.0005
    _free_at_s: float = 0.0

    def serve(self, rng: np.random.Generator, at_s: Floats, is_read: Flags, size_bytes: Sizes) -> Floats:
        ends = one_server(at_s, np.full(len(at_s), self.service_s), self._free_at_s)
        self._free_at_s = float(ends.max(initial=self._free_at_s))
        return ends

    def sustained_iops(self, mix: Mix) -> float:
        return 1 / self.service_s

    def burst_iops(self, mix: Mix) -> float:
        return 1 / self.service_s

    def credits(self, at_s: float) -> float | None:
        return None

    def refill_seconds(self) -> float:
        return 0.0

    def mean_doubles_iops(self, mix: Mix) -> float | None:
        return where_doubled(
            lambda rate: md1_mean_s(rate, self.service_s), self.service_s, 1 / self.service_s
        )


@dataclass(slots=True)
class Servers:
    """M/M/c under Poisson arrivals: ``servers`` servers, exponential service of mean ``service_s``."""

    service_s: float = 0.004
    servers: int = 8
    _free_at_s: list[float] = field(default_factory=list)

    def serve(self, rng: np.random.Generator, at_s: Floats, is_read: Flags, size_bytes: Sizes) -> Floats:
        self._free_at_s = self._free_at_s or [0.0] * self.servers
        return many_servers(at_s, rng.exponential(self.service_s, len(at_s)), self._free_at_s)

    def sustained_iops(self, mix: Mix) -> float:
        return self.servers / self.service_s

    def burst_iops(self, mix: Mix) -> float:
        return self.servers / self.service_s

    def credits(self, at_s: float) -> float | None:
        return None

    def refill_seconds(self) -> float:
        return 0.0

    def mean_doubles_iops(self, mix: Mix) -> float | None:
        capacity = self.servers / self.service_s
        return where_doubled(
            lambda rate: mmc_mean_s(rate, self.service_s, self.servers), self.service_s, capacity
        )
