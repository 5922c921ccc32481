"""What a recording in progress tells about itself, about once a second."""

from typing import Any


class ProgressMeter:
    """Differences since the last report; each I/O is counted once, on the block layer."""

    def __init__(self) -> None:
        self._last_ns = 0
        self._before: dict[str, int] = {}

    def report(self, at_ns: int, counts: dict[str, int], size_bytes: int) -> dict[str, Any]:
        """Elapsed time, I/Os so far, and rates and mean latency since the last report (None without I/O).

        ``counts`` are those of `BlockTrace.statistics`. Keys: ``elapsed_ns``, ``ios``, ``read_iops``, ``write_iops``,
        ``bytes_per_second``, ``latency_ns_mean``, ``events_lost``, ``size_bytes`` (of the recording on disk so far).
        """
        seconds = max(at_ns - self._last_ns, 1) / 1e9
        change = {name: number - self._before.get(name, 0) for name, number in counts.items()}
        self._last_ns, self._before = at_ns, dict(counts)
        return {
            "elapsed_ns": at_ns,
            "ios": counts["ios"],
            "read_iops": change["reads"] / seconds,
            "write_iops": change["writes"] / seconds,
            "bytes_per_second": change["bytes"] / seconds,
            "latency_ns_mean": change["latency_ns"] / change["ios"] if change["ios"] else None,
            "events_lost": counts["events_lost"],
            "size_bytes": size_bytes,
        }
