"""Factors as people write them, and the shape of a load by hand."""

import numpy as np
import pytest

from iotrace.replay import parse_scale
from iotrace.replay.scale import compress, load_shape
from iotrace.schemas import IotraceError


@pytest.mark.parametrize(
    ("text", "factor"),
    [("2x", 2), ("0.25x", 0.25), ("1.5x", 1.5), ("2", 2), (".5X", 0.5), (" 4 x ", 4), ("1.", 1)],
)
def test_parse_scale(text: str, factor: float) -> None:
    assert parse_scale(text) == factor


@pytest.mark.parametrize("text", ["", "x", "0x", "-1x", "two", "1e9", "nan", "inf", "2x2", "99999x", "1,5x"])
def test_not_a_scale(text: str) -> None:
    with pytest.raises(IotraceError) as caught:
        parse_scale(text)
    assert caught.value.message == f"'{text}' is not a scale"
    assert caught.value.hint


def test_compress_divides_every_time_and_keeps_nanoseconds_at_1x() -> None:
    issued = np.array([5, 1005, 10**15 + 7])
    assert compress(issued, 5, 1.0).tolist() == [0, 1000, 10**15 + 2]
    assert compress(issued, 5, 2.0).tolist() == [0, 500, (10**15 + 2) // 2]
    assert compress(issued, 5, 0.5).tolist() == [0, 2000, 2 * 10**15 + 4]


def shape(
    at_ns: list[int], offset: list[int], size: list[int], space: list[int] | None = None
) -> dict[str, object]:
    count = len(at_ns)
    return load_shape(
        np.array(at_ns),
        np.array(space or [0] * count, np.int32),
        np.array(offset, np.uint64),
        np.array(size, np.uint32),
        np.ones(count, np.bool_),
    )


def test_a_metronome() -> None:
    """1,001 reads, one a millisecond, each where the last one ended."""
    found = shape([n * 10**6 for n in range(1001)], [n * 8192 for n in range(1001)], [8192] * 1001)
    assert found["rate_per_s"] == 1000
    assert found["cv_interarrival"] == 0
    assert found["sequential_share"] == 1
    assert found["footprint_bytes"] == 1001 * 8192
    assert found["peak_to_mean"] == {
        "10ms": pytest.approx(1, abs=0.01),
        "100ms": pytest.approx(1, abs=0.01),
        "1s": None,
    }


def test_bursts_are_seen_at_the_widths_they_have() -> None:
    """A hundred at once, once a second, for ten seconds: 100 times the mean in 10 ms, ten times in 100 ms."""
    at_ns = [second * 10**9 for second in range(11) for _ in range(100)]
    found = shape(at_ns, [0] * 1100, [8192] * 1100)
    peaks = found["peak_to_mean"]
    assert isinstance(peaks, dict)
    assert peaks["10ms"] == pytest.approx(100 * 10 / 11)
    assert peaks["100ms"] == pytest.approx(10 * 10 / 11)
    assert peaks["1s"] == pytest.approx(10 / 11)


def test_compressing_sharpens_bursts_and_keeps_their_variation() -> None:
    at_ns = np.cumsum(np.random.default_rng(1).exponential(10**6, 10_000)).astype(np.int64)
    before = shape(at_ns.tolist(), [0] * 10_000, [8192] * 10_000)
    after = shape(compress(at_ns, int(at_ns[0]), 4.0).tolist(), [0] * 10_000, [8192] * 10_000)
    assert after["rate_per_s"] == pytest.approx(4 * before["rate_per_s"], rel=1e-6)
    assert after["cv_interarrival"] == pytest.approx(before["cv_interarrival"], rel=1e-4)


def test_two_interleaved_streams_are_both_sequential() -> None:
    found = shape([0, 1, 2, 3], [0, 0, 512, 512], [512] * 4, space=[0, 1, 0, 1])
    assert found["sequential_share"] == pytest.approx(2 / 3)


def test_bytes_touched_twice_count_once() -> None:
    assert shape([0, 1, 2], [0, 2048, 100 * 4096], [4096] * 3)["footprint_bytes"] == 3 * 4096
