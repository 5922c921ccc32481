"""What others did to the device while something was played on it."""

from typing import Any


def others_bytes(replay: dict[str, Any], own_bytes: int) -> int | None:
    """Bytes that the device's own counters moved by beyond ``own_bytes``; None where they are not known.

    ``replay`` is the manifest's entry on a replay. Counters are there only where the target is a whole device, or the
    device of its file is known.
    """
    counters = replay.get("device_counters")
    if not isinstance(counters, dict) or not counters:
        return None
    seen = 0
    for entry in counters.values():
        before, after = (entry.get("before"), entry.get("after")) if isinstance(entry, dict) else (None, None)
        if not before or not after:
            return None
        seen += sum(after[name] - before[name] for name in ("read_bytes", "written_bytes"))
    return seen - own_bytes
