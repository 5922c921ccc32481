"""Holds what was traced against what the kernel itself counts of the disks, over the same time.

/proc/diskstats (Documentation/admin-guide/iostats.rst) counts a request when it has ended, after merging and splitting,
as the device layer does; a flush that somebody asked for without data is a write of no sectors there, and the flushes
that a driver is given are counted apart. So the requests traced plus the flushes asked for equal its I/Os, and their
bytes its sectors. Between the two looks they can differ by what was in flight at the first one: whose start was not
seen is not recorded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iotrace.schemas import Quality, counted

from .counters import DISCARDS, IN_FLIGHT, READS, SECTOR_BYTES, WRITES, disk_lines
from .devices import BlockDevice, Selection

Ended = Sequence[Mapping[str, int]]
"""What ended on each disk: `BlockTrace.ended`."""

_SECTORS = 2
"""Position of the sectors after that of the I/Os."""
_REQUEST_BYTES_MAX = 1 << 20


@dataclass(slots=True)
class _Held:
    """A disk that is held, and the lines of /proc/diskstats that count what is traced of it."""

    disk: BlockDevice
    position: int
    lines: list[str]
    has_ios: bool
    """Whether I/Os can be held as well as bytes: what a volume sends down is traced as requests only."""

    @property
    def is_whole(self) -> bool:
        return self.lines == [self.disk.name]

    @property
    def layer(self) -> str:
        return "device" if self.disk.takes_requests else "block"

    def queue_setting(self, name: str) -> str:
        try:
            return (self.disk.folder / "queue" / name).read_text("ascii").strip()
        except OSError:
            return ""


@dataclass(slots=True)
class KernelCounts:
    """Looks at the counters of a selection's disks when tracing begins and before it ends."""

    selection: Selection
    _disks: list[_Held] = field(default_factory=list)
    _before: dict[str, list[int]] = field(default_factory=dict)
    _after: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asked = list(self.selection.words.values())
        below = [part for parts in self.selection.beneath.values() for part in parts]
        for position, disk in enumerate(self.selection.disks):
            mine = [one for one in (*asked, *below) if one.disk_number == disk.number]
            is_volume = any(
                self.selection.words[word].disk_number == disk.number for word in self.selection.beneath
            )
            if is_volume:  # its requests are those of the disks beneath
                continue
            is_whole = any(one.number == disk.number for one in mine)
            lines = [disk.name] if is_whole else list(dict.fromkeys(one.name for one in mine))
            is_below = any(one.disk_number == disk.number for one in below)
            self._disks.append(_Held(disk, position, lines, disk.takes_requests and not is_below))

    def begin(self) -> None:
        """Look for the first time: tracing is on."""
        self._before = self._look()

    def end(self) -> None:
        """Look for the last time: tracing is still on."""
        self._after = self._look()

    def own(self, ended: Ended) -> list[tuple[str, str, int]]:
        """Disk, layer and bytes so far of iotrace's own I/O, of the disks that are traced as a whole."""
        word = {"device": "own_request_bytes", "block": "own_bio_bytes"}
        return [
            (held.disk.name, layer, ended[held.position][word[layer]])
            for held in self._disks
            if held.is_whole
            for layer in dict.fromkeys(("block", held.layer))
        ]

    def hold(self, ended: Ended, quality: Quality) -> None:
        """Say in ``quality`` how many I/Os were counted, and how many of them the trace lacks."""
        seen_ios = seen_bytes = 0
        for held in self._disks:
            if not all(line in self._before and line in self._after for line in held.lines):
                quality.notes.append(f"{held.disk.name} could not be held against the kernel's own counters")
                continue
            if held.queue_setting("iostats") == "0":
                quality.notes.append(
                    f"the kernel does not count the I/O of {held.disk.name} (queue/iostats is 0): "
                    "whether the trace is whole cannot be told from its counters"
                )
                continue
            change = [
                sum(self._after[line][index] - self._before[line][index] for line in held.lines)
                for index in range(len(self._before[held.lines[0]]))
            ]
            starts_unseen = sum(self._before[line][IN_FLIGHT] for line in held.lines)
            told = ended[held.position]
            groups = (READS, WRITES, DISCARDS)
            counted_bytes = sum(change[group + _SECTORS] for group in groups) * SECTOR_BYTES
            ended_bytes = told["request_bytes" if held.disk.takes_requests else "bio_bytes"]
            largest = int(held.queue_setting("max_sectors_kb") or 0) * 1024 or _REQUEST_BYTES_MAX
            quality.counted_bytes += counted_bytes
            seen_bytes += ended_bytes
            lacks_ios = False
            if held.has_ios:
                counted_ios = sum(change[group] for group in groups)
                ended_ios = told["requests"] + told["empty_flushes"]
                quality.counted_ios += counted_ios
                seen_ios += ended_ios
                if lacks_ios := counted_ios - ended_ios > starts_unseen:
                    quality.missing_ios += counted_ios - ended_ios
            missing = counted_bytes - ended_bytes
            if missing > 0 and (lacks_ios or missing > starts_unseen * largest):
                quality.missing_bytes += missing
        if quality.counted_ios or quality.counted_bytes:
            names = ", ".join(line for held in self._disks for line in held.lines)
            ios = f"{counted(quality.counted_ios, 'I/O')} and " if quality.counted_ios else ""
            seen = f"{counted(seen_ios, 'I/O')} and " if quality.counted_ios else ""
            quality.notes.append(
                f"the kernel's own counters of {names} show {ios}{counted(quality.counted_bytes, 'byte')}, "
                f"the trace {seen}{counted(seen_bytes, 'byte')}, iotrace's own included"
            )

    def _look(self) -> dict[str, list[int]]:
        names = {line for held in self._disks for line in held.lines}
        return {name: numbers for name, numbers in disk_lines() if name in names}
