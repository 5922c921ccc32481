"""Maps that move every byte somewhere of its own, in order, on the grid, within the target."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.plan.addresses import (
    AddressMap,
    Layout,
    Slots,
    Stretches,
    Touched,
    align,
    compact_bytes,
    identity_bytes,
    lay_out,
    slot_of,
)
from iotrace.schemas import IotraceError

Transfers = list[tuple[int, int, int]]
MIB = 1 << 20

transfers = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1 << 40), st.integers(1, 1 << 20)), min_size=1, max_size=60
)
blocks = st.sampled_from([512, 4096, 8192])


class Work:
    """Transfers of some spaces, what they touch, and where a layout puts them."""

    def __init__(self, ios: Transfers) -> None:
        self.space, self.offset, self.size = (np.array(column, np.int64) for column in zip(*ios, strict=True))
        slots, touched = Slots(), Touched()
        self.slot = slots.of(self.space)
        touched.add(self.slot, self.offset, self.size)
        starts, ends = touched.stretches()
        self.stretches = [
            Stretches(space, slot, starts[slot_of(starts) == slot], ends[slot_of(starts) == slot])
            for slot, space in enumerate(slots.ids)
        ]

    def placed(
        self, layout: Layout, block_bytes: int = 512, copy: int = 0
    ) -> tuple[list[int], list[int], list[bool]]:
        """Offsets, sizes and whether changed."""
        here = np.zeros(len(self.slot), np.int64)
        found = AddressMap.of([layout], [block_bytes]).map(
            self.slot, here, here + copy, self.offset, self.size
        )
        return found[0].tolist(), found[1].tolist(), found[2].tolist()


@given(transfers, blocks)
def test_compact_moves_each_stretch_as_a_whole_into_a_place_of_its_own(
    ios: Transfers, block_bytes: int
) -> None:
    work = Work(ios)
    widened = [space.widened(block_bytes) for space in work.stretches]
    target_bytes = compact_bytes(widened)
    layout = lay_out(work.stretches, target_bytes, "t", mode="compact", block_bytes=block_bytes)
    offsets, sizes, _ = work.placed(layout, block_bytes)
    starts, _, _ = align(work.offset, work.size, block_bytes)
    taken: dict[int, tuple[int, int]] = {}
    for space, was, now, size in zip(work.space.tolist(), starts.tolist(), offsets, sizes, strict=True):
        assert now % block_bytes == 0
        assert now % 4096 == was % 4096
        assert 0 <= now <= target_bytes - size
        for step in range(0, size, block_bytes):
            # One place for each block of the source, one block of the source for each place.
            assert taken.setdefault(now + step, (space, was + step)) == (space, was + step)
    for one in set(work.space.tolist()):
        mine = np.flatnonzero(work.space == one)
        order = mine[np.argsort(starts[mine], kind="stable")]
        assert (np.diff(np.array(offsets)[order]) >= 0).all()


@given(transfers)
def test_identity_wherever_the_target_is_large_enough(ios: Transfers) -> None:
    work = Work([(0, offset, size) for _, offset, size in ios])
    layout = lay_out(work.stretches, identity_bytes(work.stretches), "t")
    assert layout.mode == "identity"
    assert work.placed(layout)[0] == (work.offset // 512 * 512).tolist()


@given(transfers, st.integers(2, 5), st.sampled_from(["identity", "compact"]))
def test_copies_never_share_a_byte(ios: Transfers, copies: int, mode: str) -> None:
    work = Work(ios)
    layout = lay_out(work.stretches, 1 << 50, "t", mode=mode, copies=copies)
    reaches = []
    for copy in range(copies):
        offsets, sizes, _ = work.placed(layout, copy=copy)
        reaches.append((min(offsets), max(map(sum, zip(offsets, sizes, strict=True)))))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(reaches))
    assert reaches[-1][1] <= layout.bytes


@given(transfers, blocks, st.integers(1, 64))
def test_folding_stays_on_the_target_and_keeps_what_fits(
    ios: Transfers, block_bytes: int, granules: int
) -> None:
    work = Work(ios)
    target_bytes = granules * 8192 + 512
    layout = lay_out(work.stretches, target_bytes, "t", mode="fold", block_bytes=block_bytes)
    compact = lay_out(work.stretches, 1 << 60, "t", mode="compact", block_bytes=block_bytes)
    unfolded, whole, _ = work.placed(compact, block_bytes)
    offsets, sizes, changed = work.placed(layout, block_bytes)
    crooked = align(work.offset, work.size, block_bytes)[2].tolist()
    for was, now, size, all_of_it, said, widened in zip(
        unfolded, offsets, sizes, whole, changed, crooked, strict=True
    ):
        assert now % block_bytes == 0
        assert 0 <= now <= target_bytes - size
        turned = was % layout.capacity_bytes
        fits = turned + all_of_it <= layout.capacity_bytes
        assert (now, size) == (turned, all_of_it) if fits else said
        assert said == (widened or not fits)


def test_two_devices_on_one_target_lie_side_by_side() -> None:
    work = Work([(0, 4096, 4096), (1, 4096, 4096)])
    layout = lay_out(work.stretches, 1 << 30, "t")
    assert layout.mode == "identity"
    assert work.placed(layout)[0] == [4096, MIB + 4096]


def test_packing_by_hand() -> None:
    """Three transfers: two neighbours that touch, one far away; the gap between goes, the order stays."""
    work = Work([(0, 1 << 40, 4096), (0, 8192, 4096), (0, 12288, 4096)])
    layout = lay_out(work.stretches, 3 * 4096, "t")
    assert layout.mode == "compact"
    assert work.placed(layout)[0] == [8192, 0, 4096]
    assert layout.spaces[0] == {"mode": "compact", "base_bytes": 0, "extents": 2, "touched_bytes": 12288}


def test_folding_by_hand() -> None:
    """Six neighbours of 4 KiB and one of 16 KiB across the edge of a target of 16 KiB, which is moved to fit."""
    work = Work([(0, n * 4096, 4096) for n in range(6)] + [(0, 2 * 4096, 4 * 4096)])
    offsets, sizes, changed = work.placed(lay_out(work.stretches, 16384, "t", mode="fold"))
    assert offsets == [0, 4096, 8192, 12288, 0, 4096, 0]
    assert sizes == [4096] * 6 + [16384]
    assert changed == [False] * 6 + [True]


def test_a_known_size_is_kept_whole_by_identity() -> None:
    work = Work([(7, 0, 4096)])
    one = work.stretches[0]
    sized = Stretches(one.space, one.slot, one.starts, one.ends, 3 * MIB)
    assert identity_bytes([sized]) == 3 * MIB
    assert compact_bytes([sized]) == 4096


@pytest.mark.parametrize(
    ("mode", "copies", "message"),
    [
        ("auto", 1, r"target '/dev/small' is too small: the workload touches 16,384 bytes, it has 8,192"),
        ("identity", 1, "identity addresses need 1,064,960 bytes"),
        ("auto", 3, "touches 2,113,536 bytes, 3 copies of it"),
    ],
)
def test_a_target_too_small_is_named_with_both_sizes(mode: str, copies: int, message: str) -> None:
    work = Work([(0, MIB, 16384)])
    with pytest.raises(IotraceError, match=message) as caught:
        lay_out(work.stretches, 8192, "/dev/small", mode=mode, copies=copies)
    assert "--addresses fold" in caught.value.hint
    assert ("--footprint same" in caught.value.hint) == (copies > 1)


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 28), blocks)
def test_aligning_covers_what_was_asked_and_less_than_a_block_more(
    offset: int, size: int, block_bytes: int
) -> None:
    starts, sizes, changed = align(np.array([offset]), np.array([size]), block_bytes)
    start, end = int(starts[0]), int(starts[0] + sizes[0])
    assert start % block_bytes == end % block_bytes == 0
    assert start <= offset < start + block_bytes
    assert end - block_bytes < offset + size <= end
    assert changed[0] == (offset % block_bytes != 0 or size % block_bytes != 0)


@given(transfers)
def test_stretches_cover_exactly_the_granules_that_transfers_touch(ios: Transfers) -> None:
    touched = {
        (space, granule)
        for space, offset, size in ios
        for granule in range(offset // 4096, (offset + size - 1) // 4096 + 1)
    }
    work = Work(ios)
    covered = {
        (one.space, int(granule) & ((1 << 44) - 1))
        for one in work.stretches
        for start, end in zip(one.starts, one.ends, strict=True)
        for granule in range(int(start), int(end))
    }
    assert covered == touched


def test_more_stretches_than_memory_allows_are_joined_across_the_smallest_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("iotrace.replay.plan.addresses.EXTENTS_MAX", 8)
    touched = Touched()
    for pair in range(10):  # ten pairs, a granule apart within a pair, far from pair to pair
        for offset in (pair << 30, (pair << 30) + 8192):
            touched.add(np.zeros(1, np.int64), np.array([offset]), np.array([4096]))
    starts, ends = touched.stretches()
    assert len(starts) <= 8
    for pair in range(10):
        for granule in (pair << 18, (pair << 18) + 2):
            assert ((starts <= granule) & (ends > granule)).any()
