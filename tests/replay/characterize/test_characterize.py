"""Closed loops of one kind of I/O: what is run, and that what is measured obeys the law of the disk it is run on."""

import functools
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay import ReplayOptions, _engine
from iotrace.replay.characterize import (
    PRESETS,
    PROFILES,
    Cell,
    CellOptions,
    Characterization,
    Matrix,
    aligned,
)
from iotrace.replay.characterize.run import batches
from iotrace.schemas import IoFlags, IotraceError, Recording

FILE_BYTES = 4 << 20
SERVICE_NS = 100_000


def plan(cell: Cell, target_bytes: int = FILE_BYTES) -> pa.Table:
    return pa.Table.from_batches(islice(batches(cell, target_bytes, 0), 2))


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """From now on the engine plays on a simulated disk."""

    def use(servers: int, service: str = "constant") -> None:
        law = {"servers": servers, "service": service, "service_ns": SERVICE_NS}
        monkeypatch.setattr(_engine, "Engine", functools.partial(_engine.Engine, simulate=law))

    return use


def run(
    tmp_path: Path, cell: Cell, seconds: float = 2.0, warm_up: float = 0.5, **options: object
) -> Recording:
    matrix = Matrix(
        patterns=(cell.pattern,),
        ops=(cell.op,),
        sizes_bytes=(cell.size_bytes,),
        outstanding=(cell.outstanding,),
    )
    words = ReplayOptions(targets=(str(tmp_path / "t.bin"),), file_bytes=FILE_BYTES, **options)  # type: ignore[arg-type]
    try:
        running = Characterization(matrix.series(), words, CellOptions(seconds, warm_up))
    except IotraceError as problem:
        if "direct I/O" in problem.message:
            pytest.skip(f"direct I/O is refused at {tmp_path}")
        raise
    with running:
        return running.run(cell, tmp_path / f"{cell.outstanding}.iotrace")


def test_the_sqlio_preset_is_its_matrix_of_220_runs() -> None:
    cells = [cell for one in PRESETS["sqlio"].series() for cell in one.cells]

    assert len(cells) == len(set(cells)) == 220
    assert {cell.outstanding for cell in cells} == {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
    assert {cell.size_bytes >> 10 for cell in cells} == {8, 64, 128, 256, 512}


def test_a_series_changes_one_parameter_only() -> None:
    for matrix in (*PRESETS.values(), *PROFILES.values()):
        for one in matrix.series():
            kinds = {(cell.pattern, cell.read_share, cell.durable) for cell in one.cells}
            others = {
                cell.size_bytes if one.axis == "outstanding" else cell.outstanding for cell in one.cells
            }
            assert len(kinds) == len(others) == 1


def test_names_of_series_are_their_own() -> None:
    for matrix in (*PRESETS.values(), *PROFILES.values()):
        folders = [one.folder for one in matrix.series()]
        assert len(set(folders)) == len(folders)


def test_sizes_that_a_target_cannot_take_are_left_out() -> None:
    kept, left_out = aligned(PROFILES["log"].series(), 4096)

    assert left_out == [512, 1024, 2048]
    assert [cell.size_bytes for cell in kept[0].cells] == [4096, 8192, 16384, 32768, 61440]


def test_random_places_are_whole_blocks_all_over_the_target() -> None:
    offsets = plan(Cell("random", 1.0, 65536, 1))["offset_bytes"].to_numpy()

    places, counts = np.unique(offsets, return_counts=True)
    assert places.tolist() == list(range(0, FILE_BYTES, 65536))
    assert counts.max() < 1.2 * counts.min()


def test_sequential_places_follow_one_another_and_start_over() -> None:
    offsets = plan(Cell("sequential", 1.0, 65536, 8))["offset_bytes"].to_numpy().astype(np.int64)

    assert set(np.diff(offsets).tolist()) == {65536, 65536 - FILE_BYTES}
    assert offsets.max() == FILE_BYTES - 65536


def test_a_mix_has_its_share_of_reads() -> None:
    table = plan(Cell("random", 0.6, 8192, 1, durable=True))
    writes = table["op"].to_numpy() == 1

    assert abs(writes.mean() - 0.4) < 4 * (0.24 / len(writes)) ** 0.5
    assert (table["durable"].to_numpy() == writes).all()
    assert ((table["flags"].to_numpy() == IoFlags.WRITE_THROUGH) == writes).all()


@pytest.mark.parametrize(("outstanding", "at_work"), [(1, 1), (3, 3), (4, 4), (9, 4)])
def test_a_disk_of_four_servers_works_on_at_most_four(
    tmp_path: Path, simulated: Callable[..., None], outstanding: int, at_work: int
) -> None:
    simulated(servers=4)

    recording = run(tmp_path, Cell("random", 1.0, 8192, outstanding))

    io = recording.read("io", ["issued_ns", "completed_ns", "intended_ns"])
    issued, completed = io["issued_ns"].to_numpy(), io["completed_ns"].to_numpy()
    # N in flight and c servers of constant service S: min(N, c)/S a second, each taking max(1, N/c) S.
    assert len(issued) == pytest.approx(2e9 * at_work / SERVICE_NS, rel=0.01)
    assert np.mean(completed - issued) == pytest.approx(SERVICE_NS * outstanding / at_work, rel=0.01)
    assert (io["intended_ns"].to_numpy() == issued).all()


def test_the_warm_up_is_left_out(tmp_path: Path, simulated: Callable[..., None]) -> None:
    simulated(servers=1)

    recording = run(tmp_path, Cell("random", 1.0, 8192, 2), seconds=1.0, warm_up=0.5)

    issued = recording.read("io", ["issued_ns"])["issued_ns"].to_numpy()
    assert issued.min() >= 500_000_000
    assert issued.max() < 1_500_000_000
    assert recording.manifest.window_start_ns == 500_000_000
    assert recording.manifest.replay.issued_ios == len(issued)


def test_a_real_file_is_read(tmp_path: Path) -> None:
    recording = run(tmp_path, Cell("random", 1.0, 8192, 4), seconds=0.3, warm_up=0.1)

    io = recording.read("io")
    assert io.num_rows > 10
    assert set(io["op"].to_pylist()) == {"read"}
    assert set(io["error"].to_pylist()) == {0}
    most = max((io["offset_bytes"].to_numpy() + io["size_bytes"].to_numpy()).tolist())
    assert most <= FILE_BYTES


def test_a_foreign_file_may_be_read_but_is_not_written(tmp_path: Path) -> None:
    theirs = os.urandom(FILE_BYTES)
    (tmp_path / "t.bin").write_bytes(theirs)

    run(tmp_path, Cell("random", 1.0, 8192, 2), seconds=0.2, warm_up=0.0)
    with pytest.raises(IotraceError, match=r"t\.bin"):
        run(tmp_path, Cell("random", 0.0, 8192, 3), seconds=0.2, warm_up=0.0)

    assert (tmp_path / "t.bin").read_bytes() == theirs


def test_a_target_too_small_for_the_io_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IotraceError, match="too small"):
        run(tmp_path, Cell("sequential", 1.0, 1 << 20, 1))
