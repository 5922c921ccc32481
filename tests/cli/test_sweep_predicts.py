"""A sweep says what a step will come to before it plays it, keeps that, and says how good it was."""

import json
from dataclasses import replace

import numpy as np
import pytest

from iotrace.analyze.knee.predicted import predicted_of
from iotrace.analyze.knee.step import measure
from iotrace.cli import main as command_line
from iotrace.schemas import Sweep
from iotrace.schemas.run import PredictedNs, Prediction

from .conftest import make_recording


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two steps on a file."""
    folder = tmp_path_factory.mktemp("swept")
    source = make_recording(folder / "prod.iotrace", reads_per_second=500, seconds=4).path
    words = ["sweep", source, "--target", folder / "target.bin", "--scales", "1x,2x", "--step-seconds", "2"]
    command_line.run([str(word) for word in (*words, "-o", folder / "sweep.iotrace")])
    return folder / "sweep.iotrace"


def test_every_step_but_the_first_is_predicted_or_refused(swept, capsys):
    first, *others = Sweep.open(swept).steps
    assert first.predicted is None
    assert others
    assert all(step.predicted.response_ns_p50 or step.predicted.refused for step in others)
    assert others[0].predicted.runs == 1
    command_line.run(["knee", str(swept), "--json"])
    found = json.loads(capsys.readouterr().out)["predicted"]
    assert len(found["said"]) == found["count"]
    command_line.run(["knee", str(swept)])
    assert "Predicted before it was played" in capsys.readouterr().out


def test_what_was_said_is_held_against_what_was_measured(swept):
    """One interval around the measured median, one beside it; a quantile that was refused is neither."""
    recording = Sweep.open(swept).recordings()[0]
    step = replace(measure(recording, 1.0)[0], generator_limited=False)
    io = recording.read("io", ["intended_ns", "completed_ns"])
    median = float(np.median(io["completed_ns"].to_numpy() - io["intended_ns"].to_numpy()))
    right = PredictedNs(round(2 * median), round(median / 2), round(3 * median))
    wrong = PredictedNs(round(4 * median), round(3 * median), round(5 * median))
    found = predicted_of(
        [
            (step, None),
            (step, Prediction(right, None, "few", 1)),
            (step, Prediction(wrong, None, "few", 2)),
        ]
    )
    assert [one.is_within for one in found.said] == [True, False]
    assert [one.error for one in found.said] == [pytest.approx(1, rel=0.05), pytest.approx(3, rel=0.05)]
    assert found.within == 1
    assert [one.why for one in found.refused] == ["few", "few"]
    assert "Of 2 predictions made before the steps were played 1 lay" in found.sentence
    assert predicted_of([(step, None)]) is None
    late = predicted_of([(replace(step, generator_limited=True), Prediction(right, None, "few", 1))])
    assert (late.said, late.unjudged) == ([], 1)
    assert "the load generator was late" in late.sentence
