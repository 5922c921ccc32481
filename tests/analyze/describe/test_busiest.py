"""The busiest stretch is found where it was planted."""

from pathlib import Path

import pyarrow as pa
import pytest

from iotrace.analyze.describe.busiest import busiest_window_ns
from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter

SECOND = 1_000_000_000


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    issued_seconds = [0, 1, 20, 21, 21.5, 25, 58]
    with RecordingWriter(tmp_path / "a.iotrace") as writer:
        writer.append("io", pa.table({
            "layer": ["block"] * 7, "op": ["read"] * 7, "size_bytes": [512] * 7,
            "issued_ns": [int(at * SECOND) for at in issued_seconds],
        }))  # fmt: skip
        return writer.commit(Manifest("synthetic", "test", Clock(0, 1, "test"), window_end_ns=60 * SECOND))


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
