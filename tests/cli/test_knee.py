"""Exit status of the knee command: an answer that cannot be told is none."""

import json

import numpy as np
import pytest

from ..analyze.knee import knee_simulator as simulator
from ..analyze.report.report_inputs import write_sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """One of the two sweeps in a folder."""
    folder = tmp_path_factory.mktemp("swept")
    write_sweep(folder / "old.iotrace")
    return write_sweep(folder / "new.iotrace").path


def sweep(folder, device, loads, *, seconds, late=()):
    """Steps at ``loads`` a second, by paths; the generator was late at those in ``late``."""
    for load in loads:
        random = np.random.default_rng([3, load])
        arrival = simulator.poisson(random, load, load * seconds)
        yield simulator.write_step(
            folder, arrival, device(random, arrival), scale=load / 500, name=f"{load}",
            replay={"generator_limited": True} if load in late else {},
        ).path  # fmt: skip


def test_too_few_judged_steps_are_no_answer_and_no_headroom(iotrace, tmp_path):
    def steady(random, arrival_s):
        return arrival_s + simulator.device_latency_s(random, len(arrival_s))

    steps = sweep(tmp_path, steady, [500, 1000, 2000], seconds=6, late={1000, 2000})
    told = iotrace("knee", *steps)
    said = " ".join(told.out.split())
    assert told.status == 1
    assert "Where the storage breaks cannot be judged: of 3 steps 1 can be used." in said
    assert "the load generator was late" in said
    assert "the storage kept up" not in said
    assert "of what the storage" not in said


def test_an_objective_missed_below_and_met_above_is_no_answer(iotrace, tmp_path):
    def uneven(random, arrival_s):
        slower = 1.6 if len(arrival_s) < 900 * 20 else 1.0
        return arrival_s + simulator.device_latency_s(random, len(arrival_s), 0.004 * slower)

    steps = list(sweep(tmp_path, uneven, [600, 1000, 1400], seconds=20))
    assert iotrace("knee", *steps).status == 0
    told = iotrace("knee", *steps, "--slo", "p50<5ms")
    assert told.status == 1
    assert "cannot be told" in " ".join(told.out.split())


STATUS_OF = {
    "p50<15ms": 0,
    "p50<0.1ms": 1,
    "p99<15ms": 1,  # 4,000 I/Os a step are too few
    "log write p50<15ms": 1,  # none of them is one
    "p50<15ms, p99<15ms": 1,
}
"""Status of an objective on `write_sweep`, whose 1x is 500 IOPS at some 0.2 ms on storage that carries 2,000."""


@pytest.mark.parametrize("slo", STATUS_OF)
def test_only_an_objective_that_is_known_to_hold_ends_in_0(iotrace, swept, tmp_path, slo):
    report = tmp_path / "report.md"
    for words in (["knee", swept], ["report", swept, "-o", report, "--overwrite"]):
        told = iotrace(*words, "--slo", slo)
        assert told.status == STATUS_OF[slo], told.out


def test_one_of_many_sweeps_of_which_an_objective_is_not_known_ends_in_1(iotrace, swept):
    assert iotrace("knee", swept.parent, "--slo", "p99<15ms").status == 1


@pytest.mark.parametrize(("scale", "answer"), [("2x", "YES"), ("6x", "NO"), ("3.95x", "CANNOT TELL")])
def test_only_a_load_that_is_carried_ends_in_0(iotrace, swept, tmp_path, scale, answer):
    for words in (["knee", swept], ["report", swept, "-o", tmp_path / "report.md"]):
        told = iotrace(*words, "--need", scale)
        assert (told.out.startswith(answer), told.status) == (True, 0 if answer == "YES" else 1)


def test_a_report_on_a_recording_that_misses_an_objective_ends_in_1(iotrace, reads, tmp_path):
    """Its reads take 0.2 to 0.9 ms."""
    for slo, status in (("p50<5ms", 0), ("p50<0.1ms", 1), ("p99.9<5ms", 1)):
        told = iotrace("report", reads.path, "-o", tmp_path / "report.md", "--overwrite", "--slo", slo)
        assert told.status == status, told.out
    assert iotrace("report", reads.path, "-o", tmp_path / "other.md").status == 0


def test_the_load_that_is_needed_is_answered_in_the_first_line(iotrace, tmp_path):
    def server(random, arrival_s):
        return simulator.first_come_first_served(arrival_s, np.full(len(arrival_s), 1 / 2000))

    steps = list(sweep(tmp_path, server, [500, 1000, 1500, 1800, 2400, 3000], seconds=8))
    for scale, answer, status in (("2x", "YES: 2x (", 0), ("6x", "NO: 6x (", 1)):
        told = iotrace("knee", *steps, "--need", scale)
        assert told.out.startswith(answer)
        assert told.status == status
    refused = iotrace("knee", *steps, "--need", "twice")
    assert refused.status == 2
    assert "'twice' is not a scale" in refused.err
    facts = json.loads(iotrace("knee", *steps, "--need", "2x", "--json").out)
    assert facts["need"]["verdict"] == "yes"
    assert facts["need"]["headroom"]["low"] <= 2 <= facts["need"]["headroom"]["high"]


def test_a_folder_of_sweeps_is_a_row_each(iotrace, tmp_path):
    """Each carries 2,000 IOPS, four times its load; one has no finished step."""
    folder = tmp_path / "candidates"
    for name in ("old", "new"):
        write_sweep(folder / f"{name}.iotrace")
    for scale, answer, status in (
        ("2x", "YES: 2 of 2 sweeps carry 2x", 0),
        ("7x", "NO: 0 of 2 sweeps carry 7x", 1),
    ):
        told = iotrace("knee", folder, "--need", scale)
        assert told.out.startswith(answer)
        assert told.status == status
    facts = json.loads(iotrace("knee", folder, "--need", "2x", "--json").out)
    alone = json.loads(iotrace("knee", folder / "new.iotrace", "--need", "2x", "--json").out)
    assert [one["sweep"] for one in facts["sweeps"]] == ["new", "old"]
    assert facts["is_yes"]
    assert facts["sweeps"][0]["need"] == alone["need"]
    assert facts["sweeps"][0]["knee_iops"] == alone["iops"]
    assert facts["sweeps"][0]["doubted_by"] == list(
        dict.fromkeys(one["title"] for one in alone["findings"] if one["level"] != "invalid")
    )
    said = " ".join(iotrace("knee", folder, "--need", "2x").out.split())
    assert "Before you trust it: the footprint may fit the storage's own cache; 3 more, see" in said
    assert "carries knee 95 % knee over sweep it IOPS from to at 2x" in said
    assert "over" not in iotrace("knee", folder).out.partition("Each sweep")[2]

    damaged = folder / "broken.iotrace"
    damaged.mkdir()
    (damaged / "sweep.json").write_text("{}")
    told = iotrace("knee", folder, "--need", "2x")
    assert told.status == 1
    said = " ".join(told.out.split())
    assert said.startswith("Left out: ")
    assert "has a damaged sweep.json" in said
    assert "CANNOT TELL: 2 of 3 sweeps carry 2x" in said


def test_a_folder_of_replays_is_one_series(iotrace, tmp_path):
    def server(random, arrival_s):
        return simulator.first_come_first_served(arrival_s, np.full(len(arrival_s), 1 / 2000))

    steps = list(sweep(tmp_path, server, [500, 1000, 1500, 1800, 2400, 3000], seconds=8))
    named = json.loads(iotrace("knee", *steps, "--json").out)
    assert json.loads(iotrace("knee", tmp_path, "--json").out)["iops"] == named["iops"]
