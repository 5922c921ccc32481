"""Factors as people write them."""

import pytest

from iotrace.replay import parse_scale
from iotrace.replay.plan.scale import whole_and_part
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


@pytest.mark.parametrize(
    ("scale", "copies"), [(1.0, (1, 0)), (3.0, (3, 0)), (1.5, (1, 0.5)), (0.25, (0, 0.25)), (2.9999, (3, 0))]
)
def test_whole_copies_and_a_part(scale: float, copies: tuple[int, float]) -> None:
    assert whole_and_part(scale) == pytest.approx(copies)
