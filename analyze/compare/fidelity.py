"""What was recorded against what was played, on the same layer: how true a replay at 1x was, or how storages differ.

Where a recorder watched the target, its layers are held against the recording's, the same clocks on both sides.
Otherwise the recorded layer is held against the replay's own service, in which the replay's share is
(`Fidelity.own_service_ns_mean`).
"""

from dataclasses import dataclass
from functools import partial

from iotrace.analyze import library
from iotrace.schemas import Layer, Recording

from .class_latency import ClassKey
from .comparison import Figure, Paired
from .paired import Pairs, pair_up, watched_beside
from .recordings import compare_class
from .side import ComparedSide, is_in_step, replayed_span


@dataclass(frozen=True, slots=True)
class LayerFidelity:
    """One operation at one layer; ``figures`` are a: recorded, b: played."""

    layer: str
    op: str
    played_is: str
    """``layer`` where a recorder watched, else ``service of the replay``."""
    figures: list[Figure]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """See the module. Intervals are 95 %, the same stretches of the load drawn for both sides."""

    layers: list[LayerFidelity]
    paired: list[Paired]
    unpaired: list[str]
    """What a recorder watched and could not be paired, and why, in words."""
    own_service_ns_mean: float | None
    """Of a mean service, what the device's own counters say is the replay's share; None where they do not tell."""


def fidelity(source: Recording, played: Recording, *, seed: int = 0) -> Fidelity | None:
    """Hold ``played``, a whole replay of ``source`` at 1x in step, against it; None for any other, or without I/Os."""
    replay = played.manifest.open_replay
    if (
        replay.source_uuid != source.manifest.uuid
        or replay.scale != 1
        or not is_in_step(replay)
        or replay.stopped_early
        or not played.row_count("io")
    ):
        return None
    seen = watched_beside(played)
    other = seen or played
    with library.connected() as connection:
        asks = []
        for number, one in enumerate((source, other)):
            library.attach(connection, one, f"r{number}")
            asks.append(partial(library.run, connection, prefix=f"r{number}"))
        layer, from_ns, until_ns = replayed_span(asks[0], source, replay)
        known = [set(ask("layers")["layer"].to_pylist()) for ask in asks]
        shared = (
            [str(one) for one in (Layer.DEVICE, Layer.BLOCK) if one in known[0] & known[1]] if seen else []
        )
        load = (
            other.manifest.watched.load_ns
            if other.manifest.watched
            else [0, played.manifest.window_end_ns + 1]
        )
        found: list[LayerFidelity] = []
        for name in shared or [layer]:
            a = ComparedSide(asks[0], source, (name, from_ns, until_ns), seed=seed, number=0)
            span = (name if shared else str(Layer.BLOCK), int(load[0]), int(load[1]))
            b = ComparedSide(asks[1], other, span, seed=seed, number=1, alongside=a)
            keys = [side.histograms("service", with_roles=False).keys() for side in (a, b)]
            for key in sorted(keys[0] & keys[1], key=lambda key: key.op):
                if key == ClassKey(key.op, None, None):
                    entry = compare_class(key, (a, "service"), (b, "service"), with_roles=False)
                    kind = "layer" if shared else "service of the replay"
                    found.append(LayerFidelity(name, key.op, kind, entry.figures))
        base = ("r0", from_ns, until_ns)
        paired = pair_up(connection, base, seen, "r1", seed=seed) if seen is not None else Pairs()
    own_ns = replay.pacing.own_service_ns_mean if replay.pacing else None
    return Fidelity(found, paired.found, paired.unpaired, own_ns)
