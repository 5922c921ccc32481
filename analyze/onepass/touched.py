"""Which blocks were touched, by whom and when: the working set, how it grew, and where it was hot.

Blocks of 64 KiB lie in pages of 16 MiB, which are made when something touches them; a page belongs to one place (a
device, or above the block layer a file). For each role and operation a block keeps the number of the last slice of time
that touched it, and for all together how many I/Os began in it. Where that would take about a gigabyte, blocks are made
twice as large, as often as it takes: `Touched.block_bytes` says what it came to.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..description import TouchedSlice
from .rows import Int64s
from .streams import Ints

FIRST_BLOCK_BYTES: Final = 64 * 1024
SLICES_MAX: Final = 30
_PAGE_SHIFT: Final = 8
_PAGE_BLOCKS: Final = 1 << _PAGE_SHIFT
_MARKS_MAX: Final = 1 << 29
_TABLE_PAGES_MAX: Final = 1 << 22
_PLACE_SHIFT: Final = 40


@dataclass(frozen=True, slots=True)
class HotPage:
    """A page in which many I/Os began: where, how many, and how many of them in each slice of time."""

    place: int
    offset_bytes: int
    size_bytes: int
    io_count: int
    io_count_by_slice: list[int]


class Touched:
    """Takes in I/Os in order of time, and answers when all have been taken in (`finish`)."""

    def __init__(self, place_count: int, kind_count: int, slices_ns: Int64s) -> None:
        """``kind_count``: roles times operations; ``slices_ns``: borders of the slices of time, ascending."""
        self.block_bytes = FIRST_BLOCK_BYTES
        self.slices: list[TouchedSlice] = []
        self._borders = slices_ns
        self._kinds = kind_count
        self._slots: dict[int, int] = {}
        self._place_count = place_count
        self._stride = 1
        self._slot_table: Int64s | None = None
        self._marks = np.zeros((kind_count, 0), dtype=np.uint8)
        self._row_starts = np.zeros(kind_count, dtype=np.int64)
        self._ever = np.zeros(0, dtype=bool)
        self._begun = np.zeros(0, dtype=np.uint32)
        self._begun_total = np.zeros(0, dtype=np.uint32)
        self._begun_by_page: list[npt.NDArray[np.uint32]] = []
        self._slice = 0
        self._slice_ios = 0
        self._touched_blocks = 0

    def add(self, times_ns: Int64s, places: Ints, kinds: Ints, offsets: Int64s, sizes: Int64s) -> None:
        """Take in I/Os that move data, at ascending times; ``kinds`` number the combinations of role and operation."""
        cuts = np.searchsorted(times_ns, self._borders[1:-1])
        start = 0
        for number, end in enumerate([*cuts.tolist(), len(times_ns)]):
            if end > start:
                while self._slice < number:
                    self._end_slice()
                piece = slice(start, end)
                self._add(places[piece], kinds[piece], offsets[piece], sizes[piece])
            start = max(start, end)

    def finish(self) -> None:
        """End the last slice."""
        while self._slice < len(self._borders) - 1:
            self._end_slice()

    def touched_blocks(self, kinds: list[int], places: set[int] | None = None) -> int:
        """Different blocks that any of ``kinds`` touched, in some places or in all."""
        is_touched = self._any(kinds)
        if places is None:
            return int(np.count_nonzero(is_touched))
        slots = [slot for key, slot in self._slots.items() if key >> _PLACE_SHIFT in places]
        return int(np.count_nonzero(is_touched.reshape(-1, _PAGE_BLOCKS)[slots]))

    def share_of_busiest(self, part: float) -> float | None:
        """Share of all I/Os that began in the busiest ``part`` of the touched blocks; None below 100 blocks."""
        return _share_of_busiest(self._begun_total, self._touched_blocks, part)

    def hot_pages(self, count: int) -> list[HotPage]:
        """The pages in which most I/Os began, the busiest first."""
        per_page = self._begun_total.reshape(-1, _PAGE_BLOCKS).sum(axis=1, dtype=np.int64)
        key_of_slot = {slot: key for key, slot in self._slots.items()}
        page_bytes = _PAGE_BLOCKS * self.block_bytes
        return [
            HotPage(
                key_of_slot[slot] >> _PLACE_SHIFT,
                (key_of_slot[slot] & ((1 << _PLACE_SHIFT) - 1)) * page_bytes,
                page_bytes,
                int(per_page[slot]),
                [int(counts[slot]) if slot < len(counts) else 0 for counts in self._begun_by_page],
            )
            for slot in np.argsort(-per_page, kind="stable")[:count].tolist()
            if per_page[slot]
        ]

    def _add(self, places: Ints, kinds: Ints, offsets: Int64s, sizes: Int64s) -> None:
        self._slice_ios += len(places)
        shift = self.block_bytes.bit_length() - 1
        first, last = offsets >> shift, (offsets + sizes - 1) >> shift
        is_begin = True
        while len(places):
            page_end = first | (_PAGE_BLOCKS - 1)
            beyond = np.flatnonzero(last > page_end)
            spans = (np.minimum(last, page_end) if len(beyond) else last) - first
            where = self._where(places, first >> _PAGE_SHIFT)
            where += first & (_PAGE_BLOCKS - 1)
            if is_begin:
                np.add.at(self._begun, where, np.uint32(1))
            self._mark(kinds, where, spans)
            # An I/O over the end of a page goes on in the next one.
            places, kinds, first, last = places[beyond], kinds[beyond], page_end[beyond] + 1, last[beyond]
            is_begin = False
        while self._marks.size > _MARKS_MAX and self._coarsen():
            pass

    def _where(self, places: Ints, pages: Int64s) -> Int64s:
        """Where the blocks of each page begin among those of all pages; pages are made as they are needed."""
        top = int(pages.max()) + 1
        if top > self._stride:
            self._stride = 1 << (top - 1).bit_length()
            self._slot_table = None
        place_count = self._place_count
        if place_count * self._stride > _TABLE_PAGES_MAX:
            coded = pa.array((places.astype(np.int64) << _PLACE_SHIFT) + pages).dictionary_encode()
            slots = np.array([self._slot(key) for key in coded.dictionary.to_pylist()], dtype=np.int64)
            found: Int64s = slots[coded.indices.to_numpy()]
        else:
            if self._slot_table is None:
                self._slot_table = np.full(place_count * self._stride, -1, dtype=np.int64)
                for key, slot in self._slots.items():
                    self._slot_table[self._place_in_table(key)] = slot
            keys = pages if place_count == 1 else places.astype(np.int64) * self._stride + pages
            found = self._slot_table[keys]
            if found.min() < 0:
                for key in np.unique(keys[found < 0]).tolist():
                    place, page = divmod(key, self._stride)
                    self._slot_table[key] = self._slot((place << _PLACE_SHIFT) + page)
                found = self._slot_table[keys]
        if len(self._slots) * _PAGE_BLOCKS > len(self._begun):
            self._grow(max(len(self._slots), len(self._begun) // _PAGE_BLOCKS * 3 // 2) * _PAGE_BLOCKS)
        found *= _PAGE_BLOCKS
        return found

    def _slot(self, key: int) -> int:
        return self._slots.setdefault(key, len(self._slots))

    def _place_in_table(self, key: int) -> int:
        return (key >> _PLACE_SHIFT) * self._stride + (key & ((1 << _PLACE_SHIFT) - 1))

    def _mark(self, kinds: Ints, where: Int64s, spans: Int64s) -> None:
        marks, mark = self._marks.reshape(-1), self._slice + 1
        where = where + self._row_starts[kinds]
        marks[where] = mark
        last = where + spans
        marks[last] = mark
        wide = np.flatnonzero(spans > 1)
        if len(wide):
            lengths = spans[wide] - 1
            begins = np.cumsum(lengths) - lengths
            marks[np.arange(int(lengths.sum())) + np.repeat(where[wide] + 1 - begins, lengths)] = mark

    def _end_slice(self) -> None:
        touched, one = (np.zeros(len(self._begun), dtype=bool) for _ in range(2))
        for marks in self._marks:
            touched |= np.equal(marks, self._slice + 1, out=one)
        now = int(np.count_nonzero(touched))
        self._ever |= touched
        ever = int(np.count_nonzero(self._ever))
        self.slices.append(
            TouchedSlice(
                int(self._borders[self._slice]),
                int(self._borders[self._slice + 1]),
                self._slice_ios,
                now * self.block_bytes,
                (ever - self._touched_blocks) * self.block_bytes,
                _share_of_busiest(self._begun, now, 0.01),
            )
        )
        self._touched_blocks, self._slice_ios = ever, 0
        self._begun_by_page.append(self._begun.reshape(-1, _PAGE_BLOCKS).sum(axis=1, dtype=np.uint32))
        self._begun_total += self._begun
        self._begun[:] = 0
        self._slice += 1

    def _any(self, kinds: list[int]) -> npt.NDArray[np.bool_]:
        is_touched = np.zeros(len(self._begun), dtype=bool)
        for kind in kinds:
            is_touched |= self._marks[kind] != 0
        return is_touched

    def _grow(self, size: int) -> None:
        more = size - len(self._begun)
        self._begun, self._begun_total, self._ever = (
            np.concatenate([part, np.zeros(more, part.dtype)])
            for part in (self._begun, self._begun_total, self._ever)
        )
        self._marks = np.concatenate([self._marks, np.zeros((self._kinds, more), np.uint8)], axis=1)
        self._row_starts = np.arange(self._kinds, dtype=np.int64) * size

    def _coarsen(self) -> bool:
        """Make blocks twice as large. Gives whether that made fewer of them."""
        mask = (1 << _PLACE_SHIFT) - 1
        old = np.array(list(self._slots), dtype=np.int64)
        pairs, at = np.unique((old & ~mask) | ((old & mask) >> 1), return_inverse=True)
        half = (old & 1) * (_PAGE_BLOCKS // 2)
        places = at * _PAGE_BLOCKS + half

        def folded(part: npt.NDArray[Any], *, add: bool) -> npt.NDArray[Any]:
            two = part[: len(old) * _PAGE_BLOCKS].reshape(len(old), -1, 2)
            one = two.sum(axis=2, dtype=part.dtype) if add else two.max(axis=2)
            whole = np.zeros(len(pairs) * _PAGE_BLOCKS, dtype=part.dtype)
            whole[places[:, None] + np.arange(_PAGE_BLOCKS // 2)] = one
            return whole

        self._begun, self._begun_total = (folded(part, add=True) for part in (self._begun, self._begun_total))
        self._ever = folded(self._ever, add=False)
        self._marks = np.stack([folded(marks, add=False) for marks in self._marks])
        self._row_starts = np.arange(self._kinds, dtype=np.int64) * len(self._begun)
        self._slot_table = None
        for number, counts in enumerate(self._begun_by_page):
            whole = np.zeros(len(pairs), dtype=counts.dtype)
            known = min(len(counts), len(at))
            np.add.at(whole, at[:known], counts[:known])
            self._begun_by_page[number] = whole
        self._slots = {int(key): slot for slot, key in enumerate(pairs.tolist())}
        self.block_bytes *= 2
        self._touched_blocks = int(np.count_nonzero(self._ever))
        return len(pairs) < len(old)


def _share_of_busiest(begun: npt.NDArray[np.uint32], touched: int, part: float) -> float | None:
    if touched < 100:
        return None
    counts = begun[begun > 0]
    busiest = max(round(touched * part), 1)
    if busiest < len(counts):
        counts = np.concatenate([np.partition(counts, -busiest)[-busiest:], [0]])
    total = int(begun.sum(dtype=np.int64))
    return float(counts.sum(dtype=np.int64)) / total if total else None
