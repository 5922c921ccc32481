"""How long each layer took in a step, where a recording shows more than one."""

from dataclasses import dataclass
from typing import Final

from iotrace.analyze import library
from iotrace.schemas import Layer, Recording

_MATCHED_MIN: Final = 0.5
"""A recorder that saw under half of a step's I/Os watched something else."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Mean latencies of reads and writes, nanoseconds, from the outermost clock to the innermost.

    ``total_ns`` runs from the submission of an I/O to its completion as its submitter sees it, ``block_ns`` and
    ``device_ns`` as the host's layers do; without rows of the block layer, ``block_ns`` is ``total_ns``.
    """

    name: str
    total_ns: float
    block_ns: float
    device_ns: float
    device_in_flight: float
    """Time average."""
    device_in_flight_max: int
    """At or below this for 95 % of the time."""


def measure_layers(
    recording: Recording,
    watched: Recording | None,
    *,
    name: str,
    io_count: int,
    total_ns: float,
) -> Layers | None:
    """Layers of a step: what a recorder saw of it meanwhile, or its own rows where it shows the device as well.

    ``name`` is its load in words, ``io_count`` and ``total_ns`` its I/Os and their mean service. ``watched`` is brought
    onto the step's clock by the UTC anchors of both. None where the device layer does not show.
    """
    start_ns, end_ns = recording.manifest.window_start_ns, recording.manifest.window_end_ns
    if watched is not None:
        shift_ns = recording.manifest.clock.start_utc_ns - watched.manifest.clock.start_utc_ns
        start_ns, end_ns = start_ns + shift_ns, end_ns + shift_ns
    with library.opened(watched or recording) as connection:
        rows = library.run(connection, "knee_layer_latency", start_ns=start_ns, end_ns=end_ns).to_pylist()
    by_layer = {row["layer"]: row for row in rows}
    device = by_layer.get(Layer.DEVICE)
    if device is None or device["io_count"] < _MATCHED_MIN * io_count:
        return None
    block = by_layer.get(Layer.BLOCK)
    block_ns = block["latency_ns_mean"] if block is not None else total_ns
    return Layers(
        name,
        max(total_ns, block_ns),
        block_ns,
        device["latency_ns_mean"],
        device["in_flight_mean"],
        int(device["in_flight_p95"]),
    )
