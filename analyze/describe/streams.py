"""Which rows belong together: streams (device, file, operation), and the groups figures are given for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from iotrace.analyze.rows import LAYERS, OPS
from iotrace.schemas import LOAD_OPS, Layer, Op, Role

_OF_FILES: Final = (Layer.SQL, Layer.FILESYSTEM)
"""Layers whose offsets are in a file."""


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """I/Os that could continue one another: one device, one file, one operation. Ids are None where unknown."""

    layer: str
    device_id: int | None
    file_id: int | None
    role: str
    op: str


class Numbering:
    """Numbers what streams are counted in; figures of load are those of one layer.

    ``groups``: device and role; ``areas``: device, and above the block layer file; ``areas_of``: their numbers by
    device; ``latency_groups``: layer, device, role and operation. Kinds number the roles with the operations that move
    data.
    """

    def __init__(self, streams: Sequence[Stream], layer: str) -> None:
        """``streams`` names every combination that occurs, each once."""
        mine = [stream for stream in streams if stream.layer == layer]
        self.streams = list(streams)
        self.roles = sorted({stream.role for stream in streams})
        self.groups = list(dict.fromkeys((stream.device_id, stream.role) for stream in mine))
        self.devices = list(dict.fromkeys(stream.device_id for stream in mine))
        self.areas = list(dict.fromkeys(_area(stream) for stream in mine))
        self.areas_of: dict[int | None, list[int]] = {}
        for number, (device_id, _) in enumerate(self.areas):
            self.areas_of.setdefault(device_id, []).append(number)
        self.latency_groups = list(dict.fromkeys(_latency_group(stream) for stream in streams))
        self._layer = layer

    def kinds(self, roles: Iterable[str], ops: Iterable[str]) -> list[int]:
        """Numbers of the roles with operations that move data."""
        places = [LOAD_OPS.index(Op(op)) for op in ops]
        return [self.roles.index(role) * len(LOAD_OPS) + place for role in roles for place in places]

    def rows(self) -> "Iterable[NumberedStream]":
        """The streams as `Tally` takes them."""
        groups, devices, areas, latency_groups = (
            {key: number for number, key in enumerate(keys)}
            for keys in (self.groups, self.devices, self.areas, self.latency_groups)
        )
        for one in self.streams:
            load = None
            if one.layer == self._layer:
                kind = self.kinds([one.role], [one.op])[0] if one.op in LOAD_OPS else None
                load = (groups[one.device_id, one.role], devices[one.device_id], areas[_area(one)], kind)
            place = LAYERS.index(Layer(one.layer)), OPS.index(Op(one.op)), one.device_id, one.file_id
            yield (*place, _is_log(one.role), latency_groups[_latency_group(one)], load)


NumberedStream = tuple[
    int, int, int | None, int | None, bool, int, tuple[int, int, int, int | None] | None
]  # see _tally.pyi


def _is_log(role: str) -> bool:
    """A role is a word of the vocabulary, or that of a file nobody knows."""
    return role in set(Role) and Role(role).is_log


def _area(stream: Stream) -> tuple[int | None, int | None]:
    return stream.device_id, stream.file_id if stream.layer in _OF_FILES else None


def _latency_group(stream: Stream) -> tuple[str, int | None, str, str]:
    return stream.layer, stream.device_id, stream.role, stream.op
