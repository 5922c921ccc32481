"""The shape of a load by hand, and by pieces: how it is cut up must not matter."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.replay.plan.rows import FLUSH, NAMES, READ, WRITE, Rows, constant
from iotrace.replay.plan.survey import Shape


def rows_of(
    at_ns: list[int], offset: list[int], size: list[int], space: list[int], op: list[int] | None = None
) -> Rows:
    count = len(at_ns)
    same = {name: constant(np.int64(0), count) for name in NAMES}
    return Rows(**same).changed(
        at_ns=np.array(at_ns, np.int64),
        op=np.array(op or [READ] * count, np.uint8),
        space=np.array(space, np.int32),
        offset_bytes=np.array(offset, np.int64),
        size_bytes=np.array(size, np.int64),
        file_id=np.zeros(count, np.int32),
    )


def shape(
    at_ns: list[int], offset: list[int], size: list[int], space: list[int] | None = None, piece: int = 10**9
) -> dict[str, Any]:
    found = Shape()
    for start in range(0, len(at_ns), piece):
        part = slice(start, start + piece)
        found.add(rows_of(at_ns[part], offset[part], size[part], (space or [0] * len(at_ns))[part]))
    return found.result()


def test_a_metronome() -> None:
    """1,001 reads, one a millisecond, each where the last one ended."""
    found = shape([n * 10**6 for n in range(1001)], [n * 8192 for n in range(1001)], [8192] * 1001)
    assert found.rate_per_s == 1000
    assert found.cv_interarrival == 0
    assert found.sequential_share == 1000 / 1001
    assert found.footprint_bytes == 1001 * 8192
    assert found.peak_to_mean == {
        "10ms": pytest.approx(1, abs=0.01),
        "100ms": pytest.approx(1, abs=0.01),
        "1s": None,
    }


def test_flushes_are_counted_and_no_load() -> None:
    """A log's write and flush by turns: the flushes are neither arrivals nor sequential."""
    ops, ends = [WRITE, FLUSH] * 200, [4096 * (n // 2) for n in range(400)]
    found = Shape()
    found.add(rows_of([n * 10**6 for n in range(400)], ends, [4096, 0] * 200, [0] * 400, ops))
    said = found.result()
    assert (said.ios, said.span_ns, said.cv_interarrival) == (400, 398 * 10**6, 0)
    assert said.sequential_share == 199 / 200


def test_bursts_are_seen_at_the_widths_they_have() -> None:
    """A hundred at once, once a second, for ten seconds (1,099 gaps): 100 times the mean in 10 ms, ten in 100 ms."""
    at_ns = [second * 10**9 for second in range(11) for _ in range(100)]
    peaks = shape(at_ns, [0] * 1100, [8192] * 1100).peak_to_mean
    assert peaks["10ms"] == pytest.approx(100 * 1000 / 1099)
    assert peaks["100ms"] == pytest.approx(100 * 100 / 1099)
    assert peaks["1s"] == pytest.approx(100 * 10 / 1099)


def test_poisson_arrivals_have_a_variation_of_one() -> None:
    at_ns = np.cumsum(np.random.default_rng(1).exponential(10**6, 40_000)).astype(np.int64).tolist()
    found = shape(at_ns, [0] * 40_000, [8192] * 40_000)
    assert found.cv_interarrival == pytest.approx(1, abs=0.02)  # four standard errors of a CV of 40,000


def test_two_interleaved_streams_are_both_sequential() -> None:
    found = shape([0, 1, 2, 3], [0, 0, 512, 512], [512] * 4, space=[0, 1, 0, 1])
    assert found.sequential_share == 1 / 2


def test_bytes_touched_twice_count_once() -> None:
    assert shape([0, 1, 2], [0, 2048, 100 * 4096], [4096] * 3).footprint_bytes == 3 * 4096


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3 * 10**9),
            st.integers(0, 3),
            st.integers(0, 50).map(lambda n: n * 4096),
            st.just(4096),
        ),
        min_size=1,
        max_size=50,
    ),
    st.integers(1, 7),
)
def test_the_answer_does_not_depend_on_the_pieces(ios: list[tuple[int, int, int, int]], piece: int) -> None:
    ios.sort(key=lambda io: io[0])
    at_ns, space, offset, size = (list(column) for column in zip(*ios, strict=True))
    whole, cut = shape(at_ns, offset, size, space), shape(at_ns, offset, size, space, piece)
    variations = [found.cv_interarrival or 0.0 for found in (whole, cut)]
    assert variations[0] == pytest.approx(variations[1], rel=1e-6, abs=1e-6)
    assert replace(cut, cv_interarrival=whole.cv_interarrival) == whole


def test_thousands_of_spaces_are_told_apart() -> None:
    spaces = list(range(5000)) * 2
    found = shape(list(range(10_000)), [0] * 5000 + [4096] * 5000, [4096] * 10_000, spaces, piece=777)
    assert found.sequential_share == 1 / 2
    assert found.footprint_bytes == 10_000 * 4096
