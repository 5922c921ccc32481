"""Incidents in recordings with planted truth: found, dated, classed, and nothing found where nothing was planted."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.incident import NoLatencyError, incident
from iotrace.analyze.incident.find import is_told

from . import incident_generator as generator


@dataclass
class Score:
    """Counts over many recordings."""

    hits: int = 0
    misses: int = 0
    extras: int = 0
    wrong: list[str] = field(default_factory=list)

    def take(self, found, truths, name) -> None:
        left = list(found.windows)
        for truth in truths:
            near = [w for w in left if w.start_ns / 1e9 < truth.end_s and w.end_ns / 1e9 > truth.start_s]
            if not near:
                self.misses += 1
                continue
            window = max(near, key=lambda entry: entry.lost_ns)
            left.remove(window)
            self.hits += 1
            self.wrong += [f"{name}: {problem}" for problem in problems(window, truth)]
        self.extras += len(left)


def problems(window, truth):
    if abs(window.start_ns / 1e9 - truth.start_s) > 2:
        yield f"starts at {window.start_ns / 1e9}, not {truth.start_s:.1f}"
    if abs(window.end_ns / 1e9 - truth.end_s) > 2:
        yield f"ends at {window.end_ns / 1e9}, not {truth.end_s:.1f}"
    if window.cause != truth.cause:
        yield f"is {window.cause}, not {truth.cause}"
    if truth.layer and window.layer != truth.layer:
        yield f"lies in {window.layer}, not {truth.layer}"
    low, high = window.factor_interval
    if truth.factor and not low <= truth.factor <= high:
        yield f"factor [{low:.2f}, {high:.2f}], not {truth.factor}"
    blamed = [row.name for row in window.blame if row.dimension == "file"]
    if truth.file and blamed[:1] != [truth.file]:
        yield f"blames {blamed[:1]}, not {truth.file}"


@pytest.mark.parametrize("scenario", generator.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_what_was_planted_is_found(scenario, tmp_path):
    score = Score()
    recording, truths = scenario(
        tmp_path / "planted.iotrace", np.random.default_rng([1, len(scenario.__name__)])
    )
    score.take(incident(recording), truths, scenario.__name__)
    assert (score.misses, score.extras, score.wrong) == (0, 0, [])


@pytest.mark.parametrize("seed", [5, 17])
def test_a_load_that_is_no_more_than_ever_explains_nothing(seed, tmp_path):
    """Storage becomes three times slower within a daily swing of the load, which is then where it often is."""
    recording, (truth,) = generator.drift_and_slow(tmp_path / "p.iotrace", np.random.default_rng([2, seed]))
    (window,) = incident(recording).windows
    assert window.cause == truth.cause == "service-driven"


def test_a_rare_file_that_is_slow_costs_nobody_anything(tmp_path):
    """One I/O in 150 of its disk takes five times as long for a minute: all of them together hardly longer."""
    random = np.random.default_rng(6)
    load = generator.base_load(random, 300, 250)
    rare = (load.file == 3) & (random.random(len(load.at_s)) < 0.95)
    load = generator.Load(
        *(getattr(load, name)[~rare] for name in ("at_s", "file", "is_write", "size", "process"))
    )
    latency = generator.service_times(random, load, 300)
    latency[(load.at_s >= 120) & (load.at_s < 180) & (load.file == 3)] *= 5
    found = incident(generator.write(tmp_path / "p.iotrace", load, load.at_s + latency, 300))
    assert found.windows == []


def test_the_costliest_window_comes_first(tmp_path):
    random = np.random.default_rng(7)
    load = generator.base_load(random, 300, 150)
    latency = generator.service_times(random, load, 300)
    latency[(load.at_s >= 60) & (load.at_s < 90)] *= 2
    latency[(load.at_s >= 200) & (load.at_s < 260)] *= 6
    found = incident(generator.write(tmp_path / "p.iotrace", load, load.at_s + latency, 300))
    assert [(window.number, round(window.start_ns / 1e9)) for window in found.windows] == [(1, 200), (2, 60)]


def test_what_ends_within_a_second_is_not_told_to_last_longer(tmp_path):
    """Slots are of whole seconds; the recording ends at 240.4 s, and was slow since 200 s."""
    random = np.random.default_rng(7)
    load = generator.base_load(random, 241, 150)
    latency = generator.service_times(random, load, 241)
    latency[load.at_s >= 200] *= 6
    done = np.where(load.at_s < 240.3, np.minimum(load.at_s + latency, 240.39), load.at_s)
    recording = generator.write(tmp_path / "p.iotrace", load, done, 240.4)
    found = incident(recording)
    (window,) = found.windows
    assert (found.start_ns, found.end_ns, window.end_ns) == (0, 240_400_000_000, 240_400_000_000)


@pytest.mark.parametrize(
    ("window_ns", "span_ns"), [(300 * 10**9, (0, 300 * 10**9)), (0, (20 * 10**9, 220 * 10**9))]
)
def test_what_is_looked_at_is_the_recordings_window_or_without_one_what_its_ios_span(
    make_recording, window_ns, span_ns
):
    """A slot is a second, and the last I/O of 2,000 ends shortly before 220 s."""
    ios = [
        {"issued_ns": (200 + at) * 10**8, "completed_ns": (200 + at) * 10**8 + 10**6} for at in range(2000)
    ]
    found = incident(make_recording(ios, window_ns=window_ns))
    assert (found.start_ns, round(found.end_ns, -9)) == span_ns


def test_a_source_without_latencies_has_no_slow_windows(make_recording):
    """Its I/Os have no end, which is not that they hang until the recording ends."""
    ios = [{"issued_ns": at * 10**8, "completed_ns": None} for at in range(3000)]
    with pytest.raises(NoLatencyError, match="none of its I/Os has a latency"):
        incident(make_recording(ios, window_ns=300 * 10**9))


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        ([(0, 60, "service-driven")], True), ([(10, 70, "cannot tell")], True), ([(0, 60, "load-driven")], False),
        ([(16, 90, "service-driven")], False), ([(70, 90, "service-driven")], False), ([], False),
        ([(0, 30, "service-driven"), (20, 60, "service-driven")], True),
        ([(0, 30, "service-driven"), (45, 90, "service-driven")], False),
        ([(0, 40, "service-driven"), (0, 40, "service-driven")], False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "span_s", [(-2, None, None, 62), (-2, -2, 62, 62), (-22, 18, 42, 82)], ids=["level", "jumps", "slopes"]
)
def test_a_change_that_is_windows_is_told_once(windows, told, span_s):
    """It stands above half of its height from 2 s before the first window to 62 s after."""
    start_ns, risen_ns, falling_ns, end_ns = (None if at is None else at * 10**9 for at in span_s)
    gradual = SimpleNamespace(risen_ns=risen_ns, falling_ns=falling_ns)
    change = SimpleNamespace(start_ns=start_ns, end_ns=end_ns, gradual=gradual)
    assert (
        is_told(
            change,
            [
                SimpleNamespace(start_ns=start_s * 10**9, end_ns=end_s * 10**9, cause=cause)
                for start_s, end_s, cause in windows
            ],
        )
        is told
    )


@pytest.mark.slow
def test_precision_and_recall_over_hundreds_of_recordings(tmp_path):
    """At least 95 of 100 windows found are planted ones, and of those planted; dates, causes, layers, files as well.

    The conditions are those of `incident_generator`: 20 to 340 I/Os a second, ten minutes at most, one incident or two,
    at least half as slow again as normal.
    """
    score, truths_planted = Score(), 0
    for scenario in generator.SCENARIOS:
        for seed in range(30):
            recording, truths = scenario(tmp_path / "planted.iotrace", np.random.default_rng([2, seed]))
            score.take(incident(recording), truths, scenario.__name__)
            truths_planted += len(truths)
    print(score.hits, score.misses, score.extras, score.wrong)
    assert score.hits >= 0.95 * truths_planted
    assert score.hits >= 0.95 * (score.hits + score.extras)
    assert len(score.wrong) <= 0.05 * 3 * score.hits, score.wrong
