"""Fit: planted service times come back, and a model of a model is refused."""

import tomllib

import numpy as np
import pytest

from iotrace.replay.virtual.fit import fit, predicted, to_toml
from iotrace.replay.virtual.service import run_of
from iotrace.schemas import IotraceError, Kind
from iotrace.schemas.models import parse_model
from iotrace.schemas.models.model import Cell, Disk, Model, Service
from iotrace.schemas.run import ModelFacts, Replay, TargetFacts

from ...hostile_names import HOSTILE_NAMES
from ...recordings import write_recording

SECOND = 1_000_000_000


def played(folder, name, *, rate, seed, kind=Kind.REPLAYED, factor=1.0):
    """Poisson reads of 8 and 64 KiB on a device without a queue: lognormal times with medians 200 and 900 us."""
    random = np.random.default_rng(seed)
    count = 20_000
    at = np.cumsum(random.exponential(SECOND / rate, count)).astype(np.int64)
    size = random.choice([8192, 65536], count, p=[0.7, 0.3])
    took = np.where(size == 8192, 200_000, 900_000) * np.exp(random.normal(0, 0.4, count)) * factor
    columns = {
        "device_id": np.zeros(count, np.int32),
        "offset_bytes": np.zeros(count, np.uint64),
        "size_bytes": size.astype(np.uint32),
        "intended_ns": at,
        "issued_ns": at,
        "completed_ns": at + took.astype(np.int64),
    }
    model = ModelFacts("m") if kind == Kind.SIMULATED else None
    replay = Replay(scale=1.0, targets=[TargetFacts("/dev/sdx")], model=model)
    devices = [{"device_id": 0, "name": "sdx", "kind": "disk", "size_bytes": 1 << 40}]
    return write_recording(
        folder / name,
        columns,
        tables={"devices": devices},
        kind=kind,
        title=name,
        window_end_ns=int(at[-1]),
        replay=replay,
    )


def test_a_load_never_measured_is_predicted_from_others(tmp_path):
    """Three rates teach it, a fourth is held out: quantiles of what was planted within 5 %."""
    model = fit([played(tmp_path, f"{rate}", rate=rate, seed=rate) for rate in (200, 800, 3200)])
    held_out = run_of(played(tmp_path, "held out", rate=1500, seed=9))
    figures = predicted(model, held_out)
    took = held_out.completed_ns - held_out.issued_ns
    for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
        assert figures["response"][name] == pytest.approx(np.quantile(took, share), rel=0.05)


def test_what_is_written_is_what_was_fitted_and_says_how_good_it_is(tmp_path):
    model = fit([played(tmp_path, f"{rate}", rate=rate, seed=rate) for rate in (200, 800)], name="sdx")
    again = parse_model(to_toml(model), "sdx.toml")
    assert again.disks[0].service == model.disks[0].service
    assert again.tested == model.tested
    assert again.tested.runs == 2
    assert again.tested.on == "/dev/sdx"
    assert again.tested.response_p50_error < 0.05
    assert "sizes beyond 8 to 64 KiB" in again.tested.beyond


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_a_name_in_a_model_file_is_nothing_but_a_name(name):
    disk = Disk(
        name=name,
        service=Service(
            shares=(0.0, 1.0),
            cells=(Cell(op="read", size_bytes=1.0, in_flight=1.0, quantiles_us=(1.0, 2.0)),),
        ),
    )
    again = tomllib.loads(to_toml(Model(title=name, disks=(disk,))))
    assert (again["title"], again["disk"][0]["name"]) == (name, name)
    assert again.keys() == {"title", "disk"}


def test_runs_that_contradict_one_another_show_in_the_error(tmp_path):
    """One run on a device twice as slow: predicted from the other it is off by half, or by as much again."""
    runs = [played(tmp_path, "a", rate=500, seed=1), played(tmp_path, "b", rate=500, seed=2, factor=2.0)]
    assert fit(runs).tested.response_p50_error == pytest.approx(1.0, abs=0.15)


def test_a_model_is_not_fitted_to_a_model(tmp_path):
    with pytest.raises(IotraceError, match="what a model said"):
        fit([played(tmp_path, "v", rate=500, seed=1, kind=Kind.SIMULATED)])
