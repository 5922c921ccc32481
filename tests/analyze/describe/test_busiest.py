"""The busiest stretch is found where it was planted."""

from pathlib import Path

import pytest

from iotrace.analyze.describe.busiest import busiest_window_ns
from iotrace.schemas import Recording

from ...recordings import write_recording

SECOND = 1_000_000_000


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    issued_seconds = [0, 1, 20, 21, 21.5, 25, 58]
    io = {"size_bytes": 512, "issued_ns": [int(at * SECOND) for at in issued_seconds]}
    return write_recording(tmp_path / "a.iotrace", io, kind="synthetic", window_end_ns=60 * SECOND)


@pytest.mark.parametrize(
    ("length_seconds", "expected"),
    [
        (1, (21, 22)),
        (2, (20, 22)),
        (5, (20, 25)),
        (6, (20, 26)),
        (59, (0, 59)),
        (60, (0, 60)),
        (600, (0, 60)),
    ],
)
def test_busiest_window(recording: Recording, length_seconds: int, expected: tuple[int, int]) -> None:
    start, end = expected
    assert busiest_window_ns(recording, length_seconds, layer="block") == (start * SECOND, end * SECOND)
