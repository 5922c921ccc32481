"""Are these recordings the steps of one sweep: one recording, replayed on one target at several loads?"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from iotrace.schemas import IotraceError, Kind, Recording

_USE: Final = (
    "a knee takes replays of one recording at several loads, as iotrace sweep makes them; iotrace compare A B holds "
    "two recordings against each other, iotrace describe shows one"
)

_SAME: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "recordings that were replayed": lambda replay: replay.get("source_uuid"),
    "targets": lambda replay: [target.get("name") for target in replay.get("targets") or ()] or None,
    "parts of the recording": lambda replay: replay.get("window_ns"),
    "modes": lambda replay: replay.get("mode"),
    "filters": lambda replay: replay.get("filters"),
}
"""What steps have in common, where their manifests say it."""


def refuse_unless_series(steps: Sequence[Recording], *, has_scales: bool) -> None:
    """Raise `IotraceError` where ``steps`` are no steps of one sweep.

    ``has_scales``: a sweep says what their loads are.
    """
    seen: dict[str, Recording] = {}
    for step in steps:
        twin = seen.setdefault(step.manifest.uuid, step)
        if twin is not step:
            raise IotraceError(f"'{twin.path}' and '{step.path}' are one recording, given twice", hint=_USE)
        if step.manifest.kind != Kind.REPLAYED:
            raise IotraceError(
                f"'{step.path}' is no step of a sweep: it was {step.manifest.kind}, not replayed", hint=_USE
            )
    for name, fact in _SAME.items():
        known = [(step, value) for step in steps if (value := fact(step.manifest.replay or {})) is not None]
        for step, value in known[1:]:
            if value != known[0][1]:
                raise IotraceError(
                    f"'{known[0][0].path}' and '{step.path}' are no steps of one sweep: their {name} differ",
                    hint=_USE,
                )
    scales = [(step.manifest.replay or {}).get("scale") for step in steps]
    if not has_scales and len(steps) > 1 and None not in scales and len(set(scales)) == 1:
        raise IotraceError(
            f"these {len(steps)} replays are all at {scales[0]:g}x, so there is no load to find a knee over",
            hint=_USE,
        )
