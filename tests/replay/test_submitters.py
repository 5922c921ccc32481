"""Several threads issue where one cannot keep up: how many, and what they leave as it was."""

from pathlib import Path

import numpy as np
import pytest

from iotrace.replay import ReplayOptions, replay
from iotrace.replay.submitters import submitters_for
from iotrace.schemas import IotraceError, validate

from .conftest import MakeRecording

REGION_BYTES = 64 << 20


@pytest.mark.parametrize(
    ("rate", "peak", "scale", "processors", "expected"),
    [
        (10_000, 1.0, 1.0, 64, 1),
        (150_000, 1.0, 2.0, 64, 2),
        (150_000, 4.0, 1.0, 64, 3),  # the fullest second holds 600,000
        (150_000, None, 1.0, 64, 1),  # too short for a fullest second
        (1_000_000, 1.0, 1.0, 4, 2),  # half of the processors
        (1_000_000, 1.0, 1.0, 1, 1),
        (None, None, 1.0, 64, 1),
    ],
)
def test_the_fullest_second_decides(
    rate: float | None, peak: float | None, scale: float, processors: int, expected: int
) -> None:
    shape = {"rate_per_s": rate, "peak_to_mean": {"1s": peak}}
    options = ReplayOptions(targets=("t",), scale=scale)
    assert submitters_for(options, shape, processors=processors) == expected


def test_what_the_user_says_holds_and_waiting_plans_have_one() -> None:
    shape = {"rate_per_s": 1e6, "peak_to_mean": {"1s": 1.0}}
    assert submitters_for(ReplayOptions(targets=("t",), submitters=5), shape, processors=2) == 5
    assert submitters_for(ReplayOptions(targets=("t",), mode="think"), shape, processors=64) == 1
    with pytest.raises(IotraceError, match="one thread issues them all"):
        ReplayOptions(targets=("t",), mode="think", submitters=2).check()
    with pytest.raises(IotraceError, match="65 submitters are not possible"):
        ReplayOptions(targets=("t",), submitters=65).check()


def test_three_submitters_play_every_io_once_and_each_place_in_its_order(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    rows = 6000
    offsets = random.integers(0, 256 << 20, rows) // 8192 * 8192
    recording = make_recording(
        issued_ns=np.sort(random.integers(0, 1_000_000_000, rows)),
        offset_bytes=offsets,
        size_bytes=[8192] * rows,
    )
    target = disk / "target"
    options = ReplayOptions(
        targets=(str(target),), buffered=True, submitters=3, file_bytes=256 << 20, addresses="identity"
    )
    out = replay(recording, tmp_path / "out.iotrace", options)
    assert out.manifest.replay is not None
    assert out.manifest.replay["submitters"] == 3
    assert out.manifest.replay["completed_ios"] == rows
    assert validate(out.path) == []
    io = out.read("io").to_pandas().sort_values("intended_ns", kind="stable")
    assert io["offset_bytes"].tolist() == offsets.tolist()
    for _, place in io.groupby(io["offset_bytes"] // REGION_BYTES):
        assert place["issued_ns"].is_monotonic_increasing
