"""What others did to the device while something was played on it."""

from iotrace.schemas.run import Run


def others_bytes(run: Run | None, own_bytes: int) -> int | None:
    """Bytes that the device's own counters moved by beyond ``own_bytes``; None where they are not known.

    ``run`` is what a replay says of itself. Counters are there only where the target is a whole device, or the
    device of its file is known.
    """
    if run is None or not run.device_counters:
        return None
    seen = 0
    for look in run.device_counters.values():
        before, after = look.before, look.after
        if before is None or after is None:
            return None
        seen += after.read_bytes - before.read_bytes + after.written_bytes - before.written_bytes
    return seen - own_bytes
