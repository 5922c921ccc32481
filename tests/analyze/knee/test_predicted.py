"""Predictions held against what came: by hand, of steps that say what a measured one says."""

from types import SimpleNamespace

import pytest

from iotrace.analyze.knee.predicted import predicted_of, predicted_sections
from iotrace.analyze.units import DASH
from iotrace.schemas.run import PredictedNs, Prediction


def step(scale, p50_ns, p99_ns, *, is_late=False):
    response = {"p50": p50_ns, "p99": p99_ns}
    return SimpleNamespace(scale=scale, response_ns=response, generator_limited=is_late)


def test_what_was_said_is_held_against_what_came():
    first = Prediction(PredictedNs(1000, 900, 1100), PredictedNs(3000, 2000, 4000), runs=2)
    second = Prediction(PredictedNs(1000, 900, 1100), None, runs=3)
    found = predicted_of(
        [(step(1.0, 800, 500), None), (step(2.0, 1100, 4001), first), (step(4.0, 800, 500), second)]
    )
    assert [(one.scale, one.quantile, one.is_within) for one in found.said] == [
        (2.0, "p50", True), (2.0, "p99", False), (4.0, "p50", False),
    ]  # fmt: skip
    assert (found.count, found.within, found.unjudged) == (3, 1, 0)
    # 1000 for 1100 and for 800: 9 % too low, 25 % too high.
    assert found.error_median_p50 == pytest.approx((100 / 1100 + 200 / 800) / 2)
    assert found.error_median_p99 == pytest.approx(1001 / 4001)
    assert found.sentence.startswith("Of 3 predictions made before the steps were played 1 lay within")


def test_a_late_generator_tells_nothing_of_a_prediction():
    said = Prediction(PredictedNs(1000, 900, 1100), None, runs=2)
    found = predicted_of([(step(2.0, 1000, None, is_late=True), said)])
    assert (found.said, found.unjudged) == ([], 1)
    assert "the load generator was late" in found.sentence


def test_what_could_not_be_predicted_says_why():
    found = predicted_of([(step(None, 1000, None), Prediction(refused="one run only"))])
    assert [(one.scale, one.why) for one in found.refused] == [(1.0, "one run only")]
    assert found.sentence == "No step could be predicted from the ones before it."
    assert found.error_median_p50 is None


def test_a_sweep_of_earlier_days_predicted_nothing():
    assert predicted_of([(step(1.0, 1000, 2000), None)]) is None


@pytest.mark.parametrize(("predicted_ns", "said"), [(10_900, "+990 %"), (11_100, DASH)])
def test_how_far_off_a_prediction_was_is_said_up_to_ten_times(predicted_ns, said):
    told = Prediction(PredictedNs(predicted_ns, 900, 20_000), None, runs=2)
    (table,) = [one.table for one in predicted_sections(predicted_of([(step(2.0, 1000, None), told)]))]
    assert table.rows[0][-1] == said
