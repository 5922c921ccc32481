"""Maps that move every byte somewhere of its own, in order, on the grid, within the target."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.addresses import align, footprint, lay_out
from iotrace.schemas import IotraceError

transfers = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1 << 40), st.integers(1, 1 << 20)), min_size=1, max_size=60
)
blocks = st.sampled_from([512, 4096, 8192])


@given(transfers, blocks)
def test_compact_moves_each_stretch_as_a_whole_into_a_place_of_its_own(
    ios: list[tuple[int, int, int]], block_bytes: int
) -> None:
    space = np.array([io[0] for io in ios], np.int32)
    starts, sizes, _ = align(np.array([io[1] for io in ios]), np.array([io[2] for io in ios]), block_bytes)
    touched = footprint(space, starts.astype(np.uint64), sizes.astype(np.uint32), block_bytes)
    target_bytes = touched.compact_bytes
    layout = lay_out(touched, target_bytes, "t")

    taken: dict[int, tuple[int, int]] = {}
    for one in np.unique(space):
        mine = space == one
        placed = layout.spaces[int(one)].place(starts[mine])
        assert (placed % block_bytes == 0).all()
        assert (placed % 4096 == starts[mine] % 4096).all()
        assert placed.min() >= 0
        assert (placed + sizes[mine]).max() <= target_bytes
        order = np.argsort(starts[mine], kind="stable")
        assert (np.diff(placed[order]) >= 0).all()
        for was, now, size in zip(starts[mine], placed, sizes[mine], strict=True):
            for offset in range(0, int(size), block_bytes):
                # One place for each block of the source, one block of the source for each place.
                assert taken.setdefault(int(now) + offset, (int(one), int(was) + offset)) == (
                    int(one),
                    int(was) + offset,
                )


@given(transfers)
def test_identity_wherever_the_target_is_large_enough(ios: list[tuple[int, int, int]]) -> None:
    offsets, sizes = np.array([io[1] for io in ios]), np.array([io[2] for io in ios])
    starts, sizes, _ = align(offsets, sizes, 512)
    touched = footprint(np.zeros(len(ios), np.int32), starts.astype(np.uint64), sizes.astype(np.uint32), 512)
    layout = lay_out(touched, touched.identity_bytes, "t")
    assert layout.mode == "identity"
    assert (layout.spaces[0].place(starts) == starts).all()


def test_two_devices_on_one_target_lie_side_by_side() -> None:
    space = np.array([0, 1], np.int32)
    touched = footprint(space, np.array([4096, 4096], np.uint64), np.array([4096, 4096], np.uint32), 512)
    layout = lay_out(touched, 1 << 30, "t")
    assert layout.mode == "identity"
    assert layout.spaces[0].place(np.array([4096])).tolist() == [4096]
    assert layout.spaces[1].place(np.array([4096])).tolist() == [(1 << 20) + 4096]


def test_packing_by_hand() -> None:
    """Three stretches: two neighbours that touch, one far away; the gap between goes, the order stays."""
    offsets = np.array([1 << 40, 8192, 12288], np.uint64)
    touched = footprint(np.zeros(3, np.int32), offsets, np.array([4096, 4096, 4096], np.uint32), 512)
    layout = lay_out(touched, 3 * 4096, "t")
    assert layout.mode == "compact"
    assert layout.spaces[0].place(offsets.astype(np.int64)).tolist() == [8192, 0, 4096]
    assert layout.describe(0) == {"mode": "compact", "base_bytes": 0, "extents": 2, "touched_bytes": 12288}


def test_a_target_too_small_is_named_with_both_sizes() -> None:
    touched = footprint(np.zeros(1, np.int32), np.array([0], np.uint64), np.array([16384], np.uint32), 512)
    with pytest.raises(IotraceError, match=r"target '/dev/small' is too small.* 16,384 bytes, it has 8,192"):
        lay_out(touched, 8192, "/dev/small")


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
