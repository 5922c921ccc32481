"""The same figure is the same in every command that states it (docs/methods.md, "Describing a load")."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.describe.recording import describe
from iotrace.cli.main import run
from iotrace.replay.export import measure
from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.source import Source
from iotrace.replay.plan.survey import survey
from iotrace.schemas import Recording

FIXTURES = Path(__file__).parents[1] / "fixtures"


def bundled(_: Path) -> Recording:
    return Recording.open(Path(str(resources.files("iotrace.cli.bundled") / "pgbench.iotrace")))


def imported(folder: Path) -> Recording:
    trace = folder / "disk.csv"
    random = np.random.default_rng(3)
    at = np.cumsum(random.exponential(300_000, 4000)).astype(int) // 100 + 128166372000000000
    offset, size = random.integers(0, 1 << 14, 4000) * 8192, random.choice([4096, 8192, 65536], 4000)
    # Two scans that take turns, among random I/O.
    offset[::4], size[::4] = np.arange(1000) * 8192, 8192
    offset[2::4], size[2::4] = (1 << 33) + np.arange(1000) * 65536, 65536
    words = random.choice(["Read", "Write"], 4000, p=[0.7, 0.3])
    rows = zip(at, words, offset, size, strict=True)
    trace.write_text("".join(f"{t},host,0,{op},{place},{length},900\n" for t, op, place, length in rows))
    assert run(["import", str(trace), "-o", str(folder / "disk.iotrace")]) == 0
    return Recording.open(folder / "disk.iotrace")


@pytest.mark.parametrize("made", [bundled, imported])
def test_describe_replay_compare_and_export_agree(made, tmp_path: Path) -> None:
    recording = made(tmp_path)
    described = describe(recording).total
    before = survey(Source.open(recording, select(recording, ReplayOptions()))).shape
    compared = compare(recording, recording).a
    exported = measure(recording)
    assert described is not None

    assert before.peak_to_mean == described.peak_to_mean
    assert before.cv_interarrival == described.interarrival_cv == compared.interarrival_cv
    assert described.interarrival_cv is not None

    footprint = before.footprint_bytes
    assert footprint == described.working_set_bytes == compared.footprint_bytes
    assert sum(exported.touched_bytes.values()) == footprint

    flows = {"read": described.read, "write": described.write}
    assert compared.sequential_share == {op: flow.sequential_share for op, flow in flows.items()}
    sequential = sum(one.ios for one in exported.classes if one.sequential) / exported.ios
    ios = sum(flow.io_count for flow in flows.values())
    mean = sum((flow.sequential_share or 0) * flow.io_count for flow in flows.values()) / ios
    assert before.sequential_share == pytest.approx(mean) == pytest.approx(sequential)
    assert exported.read_share == pytest.approx(described.read_share_of_ios)
    # Flushes are no load. A replay's rate is over the time from the first arrival to the last.
    assert compared.ios_per_s == pytest.approx(described.ios_per_s, rel=0.01)
    assert before.rate_per_s == pytest.approx(described.ios_per_s, rel=0.01)
