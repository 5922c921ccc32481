"""What a replay prints fits a terminal of 80 columns and says what scaling did."""

from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.analyze.present import Number
from iotrace.cli import console
from iotrace.cli.replay import _scaling
from iotrace.schemas import Recording
from iotrace.schemas.run import LoadShape, Replay, Scaling

from .conftest import Result


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.data, "_width", 80)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--scale", "2x"),
            ["Played at 2x (compress)", "2.00", "peak/mean is lower because 10 ms hold 2x as much"],
        ),
        (("--mode", "superpose", "--scale", "2x"), ["superpose, 2 copies, disjoint footprint"]),
        (
            ("--mode", "think"),
            ["were recorded, and the storage decides", "0 % of the I/Os waited for another"],
        ),
        (("--op", "read"), ["800 reads and writes ("]),
        (("--ramp", "1s"), ["the first 1 s are a ramp, and left out of the table"]),
        (("--addresses", "identity", "--compressible", "2:1"), ["identity", "compressible 2:1"]),
    ],
)
def test_the_load_before_and_after(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, words: tuple[str, ...], said: list[str]
) -> None:
    where = ("--target", tmp_path / "target", "--buffered", "-o", tmp_path / "out.iotrace")
    result = iotrace("replay", reads.path, *where, *words)
    assert result.status in {0, 1}, result.err
    text = " ".join(result.out.split())
    for words_ in (
        "as recorded as played times",
        "gaps CV",
        "peak/mean 100ms",
        "sequential",
        "touched",
        *said,
    ):
        assert words_ in text
    assert "of memory" in text
    assert max(map(len, result.out.splitlines())) <= 80


def test_a_fraction_that_cannot_be_had_is_refused(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    """The recording knows neither threads nor files, and touches less than one stretch of 64 MiB."""
    where = ("--target", tmp_path / "target", "--buffered", "-o", tmp_path / "out.iotrace")
    result = iotrace("replay", reads.path, *where, "--mode", "superpose", "--scale", "1.5x")
    assert result.status == 2
    assert "no whole stream is as small as 0.5 of this workload" in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["reads.iotrace"]


def test_two_shares_near_zero_have_no_ratio() -> None:
    before, after = (LoadShape(10, 5, sequential_share=share) for share in (0.0002, 0.005))
    answer = _scaling(Scaling(before, after), Replay(scale=2.0, mode="compress"))
    assert answer.table is not None
    (times,) = (row[-1] for row in answer.table.rows if row[0] == "sequential")
    assert times == Number(None, 2)
