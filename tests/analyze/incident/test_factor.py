"""How many times slower a window was: the interval holds the planted factor as often as it says."""

import numpy as np
import pytest

from iotrace.analyze.incident import incident
from iotrace.analyze.incident.factor import factor_of
from iotrace.analyze.incident.series import Series
from iotrace.analyze.incident.stretches import judge

from . import factor_generator as generator


def found_at(planted, stretches):
    """The stretch or window that overlaps the planted one the longest; None where none does."""

    def shared(one):
        return min(one[1], planted.end_s) - max(one[0], planted.start_s)

    best = max(stretches, key=lambda pair: shared(pair[0]), default=None)
    return best[1] if best is not None and shared(best[0]) > 0 else None


def series_of(values):
    """A layer that serves so many I/Os each second that the scatter of a second's mean is nothing."""
    count = len(values)
    return Series("block", None, np.arange(count), values, np.full(count, 1e-6), np.full(count, 1e4))


def test_a_step_in_plain_noise_has_the_error_that_theory_gives():
    """Two means of 200 and of 48 independent seconds: their difference has a known standard error."""
    random, sigma = np.random.default_rng(5), 0.1
    values = random.normal(14, sigma, 250)
    values[100:150] += np.log(3)
    judged = judge(series_of(values))
    (stretch,) = judged.stretches
    found = factor_of(judged, stretch)
    width = np.log(found.high / found.low)
    expected = 2 * 1.96 * sigma * np.sqrt(1 / 200 + 1 / 48)
    assert found.low < 3 < found.high
    assert 0.85 * expected < width < 1.6 * expected


def test_storage_that_wanders_has_a_wider_interval_than_steady_storage():
    """AR(1) noise of 0.9 leaves a mean over 50 seconds about four times as uncertain as independent noise."""
    random = np.random.default_rng(6)
    steps = random.normal(0, 0.1, 400)
    wandering = np.zeros(400)
    for index in range(1, 400):
        wandering[index] = 0.9 * wandering[index - 1] + np.sqrt(1 - 0.81) * steps[index]
    widths = []
    for noise in (steps, wandering):
        values = 14 + noise
        values[200:250] += np.log(4)
        judged = judge(series_of(values))
        found = factor_of(judged, max(judged.stretches, key=lambda one: one.evidence))
        widths.append(np.log(found.high / found.low))
    assert widths[1] > 2 * widths[0]


def test_a_window_of_which_little_else_is_known_has_no_figure_more_sure_than_that():
    """Twelve seconds, half of them slow: an interval, and a wide one."""
    values = np.array([14.0, 14.1, 13.9, 14.05, 13.95, 14.0, 15.1, 15.0, 15.2, 15.1, 15.0, 15.1])
    judged = judge(series_of(values))
    assert judged.stretches
    for stretch in judged.stretches:
        found = factor_of(judged, stretch)
        assert 0 < found.low <= found.value <= found.high


@pytest.mark.slow
def test_95_percent_intervals_hold_what_was_planted_in_93_to_97_percent(tmp_path):
    """Whole recordings, of every noise, drift, rate, length and factor that `factor_generator` draws."""
    held, missed, wrong = 0, 0, []
    for seed in range(400):
        planted = generator.planted(np.random.default_rng([11, seed]))
        recording = generator.write(tmp_path / "planted.iotrace", planted)
        windows = incident(recording).windows
        window = found_at(planted, [((one.start_ns / 1e9, one.end_ns / 1e9), one) for one in windows])
        if window is None:
            missed += 1
            continue
        low, high = window.factor_interval
        if low <= planted.factor <= high:
            held += 1
        else:
            wrong.append(f"{seed}: {planted.factor:.2f} not in [{low:.2f}, {high:.2f}], {planted.conditions}")
    share = held / (400 - missed)
    print(f"held {share:.1%}, missed {missed}", *wrong, sep="\n")
    assert missed <= 8
    assert 0.93 <= share <= 0.97, wrong
