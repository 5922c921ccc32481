"""The busiest stretch of a recording: the part worth playing when the whole is too long."""

from iotrace.analyze import library
from iotrace.schemas import IotraceError, Recording


def busiest_window_ns(recording: Recording, length_seconds: int, *, layer: str) -> tuple[int, int]:
    """Start and end, in nanoseconds since the recording's start, of the ``length_seconds`` with the most I/Os issued.

    The stretch starts on a whole second and lies inside the recorded window; a recording that is shorter is returned
    whole. Raises `IotraceError` when the layer has no I/O.
    """
    first, last = max(0, recording.manifest.window_start_ns), recording.manifest.window_end_ns
    length_ns = length_seconds * 1_000_000_000
    if last - first <= length_ns:
        return first, last
    with library.opened(recording) as connection:
        found = library.run(
            connection, "busiest_window", layer=layer, seconds_after=length_seconds - 1
        ).to_pylist()
    if not found:
        raise IotraceError(
            f"'{recording.path}' has no I/O at the {layer} layer",
            hint="choose another with --layer, or see iotrace describe",
        )
    start = min(found[0]["start_ns"], last - length_ns)
    return start, start + length_ns
