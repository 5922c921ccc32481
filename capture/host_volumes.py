"""Which traces the told volumes are for: those packed into one folder with them, and so of one host."""

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from .formats import volumes
from .formats.etl import EtlTrace
from .formats.format import Trace
from .formats.volumes import Volumes
from .gathering import Group

Place = tuple[str, str]

_FACTS_FOLDER: Final = "facts"


class HostVolumes:
    """Volumes by the folder, or folder in a zip, whose traces they are for."""

    def __init__(self) -> None:
        self._by_place: dict[Place, Volumes] = {}
        self._first: tuple[Path, str] | None = None

    def take(self, group: Group, paths: Sequence[Path]) -> bool:
        """Read ``group`` if it tells volumes; whether it does."""
        if group.format is not volumes.FORMAT:
            return False
        archive, folder = group.files[0].place
        inner = PurePosixPath(folder)
        # The plan's facts lie in a folder of their own, in that of the traces.
        root = inner.parent if inner.name == _FACTS_FOLDER else inner
        told = self._by_place.setdefault((archive, root.as_posix()), Volumes())
        volumes.read_volumes(paths[0], group.name, told)
        self._first = self._first or (paths[0], group.name)
        return True

    def refuse_alone(self, traces: Sequence[object]) -> None:
        """Say what is missing where volumes are told of no trace."""
        if self._first and not traces:
            volumes.FORMAT.read(*self._first, lambda _what, _done, _total: None)

    def tell(self, trace: Trace, place: Place, is_known: Callable[[str], bool]) -> None:
        """Let ``trace``, which lies at ``place``, use the volumes of its folder."""
        if isinstance(trace, EtlTrace) and (told := self._by_place.get(place)):
            trace.use_volumes(told, is_known)

    def one_host(self, hosts: Sequence[object], places: Sequence[Place]) -> list[object]:
        """``hosts`` of the traces at ``places``, where those beside the same volumes are of the same host."""
        joined = list(hosts)
        for root in self._by_place:
            same = {joined[number] for number, place in enumerate(places) if place == root}
            if same:
                (kept, *_) = (host for host in joined if host in same)
                joined = [kept if host in same else host for host in joined]
        return joined
