"""Replays a recording on a simulated disk in simulated time: RECORDING TARGET OUTPUT. Prints what it took."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from iotrace.replay import ReplayOptions, _engine, replay
from iotrace.schemas import Recording

DISK = {"servers": 8, "service": "constant", "service_ns": 80_000}


class Engine:
    """The engine on that disk; notes when it starts."""

    started_s = 0.0

    def __init__(self, *files: Any, **words: Any) -> None:
        self._engine = _engine.Engine(*files, **words, simulate=DISK)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def start(self) -> None:
        """Start, and note when."""
        self._engine.start()
        Engine.started_s = time.monotonic() - BEGAN_S


BEGAN_S = time.monotonic()


def peak_bytes() -> int:
    """Most memory of this program. Not ru_maxrss, which begins with the size of the program that started this one."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Replay, and tell time and memory."""
    source, target, output = sys.argv[1:]
    sys.modules["iotrace.replay.run.play"]._engine = SimpleNamespace(Engine=Engine)  # type: ignore[attr-defined]
    out = replay(Recording.open(source), Path(output), ReplayOptions(targets=(target,)), overwrite=True)
    facts = out.manifest.open_replay
    whole_s = time.monotonic() - BEGAN_S
    print(
        f"first I/O after {Engine.started_s:.1f} s (goal 10), "
        f"{facts.issued_ios / (whole_s - Engine.started_s):,.0f} I/O/s played and written, "
        f"memory at most {peak_bytes() >> 20:,} MiB"
    )


if __name__ == "__main__":
    main()
