"""What a submitter does between two deadlines, and what that costs the storage's own threads.

``precise`` spins before each deadline, which keeps it to microseconds and takes a processor. On a host with few of
them that is the one which the storage path (interrupts, a loop device's worker, the hypervisor) needs, and the replay
measures what it causes itself. ``gentle`` sleeps on precise timers, is some tens of microseconds late instead, and
spins, giving way to others, only for a moment before an I/O that comes while none is under way that it could hold up.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.replay import _engine
from iotrace.schemas import Recording

PACINGS: Final = ("auto", "precise", "gentle")
TRIAL_SECONDS: Final = 1.0
_PROCESSORS_LEFT_MIN: Final = 2
"""Processors that spinning submitters must leave to everybody else: one serves the device, one runs what it wakes."""
_NEGLIGIBLE: Final = 0.1
"""Lateness up to this share of the median service changes no answer (as in `result.is_generator_limited`)."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """What was asked for, what was used and why. ``trial`` is what `_engine.try_waiting` found, where it was asked."""

    asked: str
    used: Literal["precise", "gentle"]
    reason: str
    trial: dict[str, int] | None = None


VIRTUAL: Final = Pacing("auto", "precise", "time is virtual")
"""On a model nobody waits."""


def choose_pacing(
    asked: str, recording: Recording, layer: str, *, submitters: int, processors: int
) -> Pacing:
    """How to pace a run of ``recording`` at ``layer`` on this host. ``auto`` takes a second, once for each process."""
    if asked != "auto":
        return Pacing(asked, cast("Literal['precise', 'gentle']", asked), "asked for")
    used, reason = decide(
        _trial(),
        processors=processors,
        submitters=submitters,
        service_ns=median_service_ns(recording, layer),
    )
    return Pacing(asked, used, reason, dict(_trial()))


def decide(
    trial: Mapping[str, int], *, processors: int, submitters: int, service_ns: float | None
) -> tuple[Literal["precise", "gentle"], str]:
    """``precise`` or ``gentle``, and why: what makes the smaller error beside a median service of ``service_ns``.

    Sleeping makes the replay late; spinning lets the threads that the storage wakes wait for a processor. Spinning has
    to err less at the p90 and at the p99: it may disturb few I/Os, and those for milliseconds.
    """
    late_p90_ns, late_p99_ns = trial["lateness_ns_p90"], trial["lateness_ns_p99"]
    disturbed_p90_ns, disturbed_p99_ns = (
        max(0, trial[f"others_beside_spinner_ns_{one}"] - trial[f"others_beside_sleeper_ns_{one}"])
        for one in ("p90", "p99")
    )
    tried = (
        f"tried for {TRIAL_SECONDS:g} s, sleepers wake {late_p90_ns / 1e3:,.0f} us late at the p90 and "
        f"{late_p99_ns / 1e3:,.0f} us at the p99, and threads woken beside a spinning one wait "
        f"{disturbed_p90_ns / 1e3:,.0f} us longer at the p90 and {disturbed_p99_ns / 1e3:,.0f} us at the p99"
    )
    left = processors - submitters
    if left < _PROCESSORS_LEFT_MIN:
        return "gentle", f"of {processors} processors spinning would leave {left} to the storage; {tried}"
    if service_ns is not None and late_p99_ns <= _NEGLIGIBLE * service_ns:
        return "gentle", f"being late is under a tenth of the median service; {tried}"
    errs_less = disturbed_p90_ns < late_p90_ns and disturbed_p99_ns < late_p99_ns
    return ("precise" if errs_less else "gentle"), tried


@cache
def _trial() -> dict[str, int]:
    return _engine.try_waiting(TRIAL_SECONDS)


def median_service_ns(recording: Recording, layer: str) -> float | None:
    """Median service of the recording's first row group with I/Os of ``layer`` that completed; None without any."""
    for path in recording.parquet_paths("io"):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, ["layer", "issued_ns", "completed_ns"])
            rows = rows.filter(pc.equal(rows["layer"].cast(pa.string()), layer)).drop_null()
            if rows.num_rows:
                return float(np.median(rows["completed_ns"].to_numpy() - rows["issued_ns"].to_numpy()))
    return None


class HostLoad:
    """What kept others from a processor while a run lasted, by the kernel's own books; Linux only."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before = self._read()

    def shares(self) -> dict[str, float | None]:
        """Since it was made, as shares of the time; None where the system does not tell.

        ``others_waited_share``: some thread of this host was ready and had no processor (pressure stall information;
        the replay's own threads included). ``stolen_share``: of the processors' time, what the hypervisor gave away.
        """
        before, now = self._before, self._read()
        found: dict[str, float | None] = {"others_waited_share": None, "stolen_share": None}
        ticks = now.get("ticks", 0) - before.get("ticks", 0)
        if ticks > 0:
            found["stolen_share"] = (now["stolen"] - before["stolen"]) / ticks
            seconds = ticks / os.sysconf("SC_CLK_TCK") / max(now["processors"], 1)
            if "waited_us" in before and "waited_us" in now:
                found["others_waited_share"] = min(
                    (now["waited_us"] - before["waited_us"]) / 1e6 / seconds, 1.0
                )
        return found

    def _read(self) -> dict[str, int]:
        found = {}
        try:
            lines = (self._root / "proc/stat").read_text("ascii").splitlines()
            numbers = [int(word) for word in lines[0].split()[1:9]]
            found = {
                "ticks": sum(numbers),
                "stolen": numbers[7],
                "processors": sum(line.startswith("cpu") for line in lines) - 1,
            }
            some = (self._root / "proc/pressure/cpu").read_text("ascii").splitlines()[0]
            found["waited_us"] = int(some.rpartition("total=")[2])
        except (OSError, ValueError, IndexError):
            pass  # kernels without pressure stall information, and other systems
        return found
