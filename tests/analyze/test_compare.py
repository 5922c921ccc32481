"""Compare finds what was planted, and its intervals cover it as often as they say."""

import numpy as np
import pytest

from iotrace.analyze.bootstrap import SlotHistograms, interval
from iotrace.analyze.compare import compare
from iotrace.analyze.histogram import latency_bucket_ns
from iotrace.analyze.same_work import Work, check_same_work
from iotrace.schemas import IotraceError

MS = 1_000_000
SECOND = 1_000_000_000


def _columns(seed, count=20_000, factor=1.0, correlation=0.9):
    """Reads at random over 20 s, latencies log-normal, neighbours dependent (an AR(1) in the logarithm)."""
    source = np.random.default_rng(seed)
    times = np.sort(source.integers(0, 20 * SECOND, count))
    noise = source.normal(0, np.sqrt(1 - correlation**2), count)
    logs = np.empty(count)
    logs[0] = noise[0]
    for i in range(1, count):
        logs[i] = correlation * logs[i - 1] + noise[i]
    latency = factor * 400_000 * np.exp(0.5 * logs)
    return {
        "issued_ns": times,
        "completed_ns": times + latency.astype(np.int64),
        "file_id": np.zeros(count, dtype=np.int32),
        "device_id": np.zeros(count, dtype=np.int32),
    }


@pytest.fixture
def pair(make_recording):
    """B does what a does, and takes twice as long."""
    return (
        make_recording(_columns(1), window_ns=20 * SECOND),
        make_recording(_columns(2, factor=2.0), window_ns=20 * SECOND),
    )


def test_a_planted_factor_of_two_is_found_and_covered(pair):
    found = compare(*pair)
    assert found.same_work, found.warnings
    (entry,) = [entry for entry in found.classes if entry.role == "data"]
    assert entry.size_class == "8 KiB"
    for figure in entry.figures:
        low, high = figure.ratio_interval
        assert low < 2 < high, figure
        assert low <= figure.ratio <= high
        assert high - low < 0.4
        assert figure.difference_ns == figure.b_ns - figure.a_ns
    assert [figure.quantity for figure in entry.figures] == ["mean", "p50", "p95", "p99"]


def test_the_same_seed_gives_the_same_digits(pair):
    assert compare(*pair, seed=3).to_dict() == compare(*pair, seed=3).to_dict()
    assert compare(*pair, seed=3).classes != compare(*pair, seed=4).classes


def test_a_replay_is_judged_by_response_and_shows_service_beside_it(make_recording):
    """The replay's storage takes 1 ms, but each I/O is issued 3 ms late because it fell behind."""
    at = np.arange(1000) * MS
    before = make_recording({"issued_ns": at, "completed_ns": at + MS}, window_ns=1000 * MS)
    replayed = make_recording(
        {"intended_ns": at, "issued_ns": at + 3 * MS, "completed_ns": at + 4 * MS},
        window_ns=1000 * MS,
        kind="replayed",
        replay={"source_uuid": before.manifest.uuid, "scale": 1.0, "mode": "compress", "layer": "block"},
    )
    found = compare(before, replayed)
    assert found.is_replay_of_a
    assert found.headline_metric == "response"
    assert found.same_work, found.warnings
    assert found.headline("read").figures[0].ratio == pytest.approx(4, rel=0.001)
    (service,) = [e for e in found.classes if e.b_metric == "service" and e.role is None]
    assert service.figures[0].ratio == pytest.approx(1)


def test_a_quantile_without_a_hundred_beyond_it_is_not_given(make_recording):
    at = np.arange(1000) * 10 * MS
    recording = make_recording({"issued_ns": at, "completed_ns": at + MS}, window_ns=10 * SECOND)
    figures = {figure.quantity: figure for figure in compare(recording, recording).headline("read").figures}
    assert figures["p50"].ratio == 1
    assert figures["p95"].ratio is figures["p99"].ratio is None


def test_classes_match_by_role_operation_and_size(make_recording):
    def recording(sizes):
        rows = [
            {"issued_ns": i * MS, "completed_ns": i * MS + size, "size_bytes": size, "file_id": i % 2}
            for i in range(2000)
            for size in [sizes[i % len(sizes)]]
        ]
        return make_recording(rows, window_ns=2 * SECOND)

    found = compare(recording([8192, 8192, 65536]), recording([8192, 8192, 2 << 20]))
    matched = {(e.role, e.size_class) for e in found.classes if e.role}
    assert matched == {("data", "8 KiB"), ("log", "8 KiB")}
    assert len(found.unmatched) == 4
    assert not found.same_work
    assert found.mix_distance == pytest.approx(1 / 3, abs=0.001)


def test_roles_known_to_one_side_only_are_not_held_against_it(make_recording):
    known = _columns(1, 2000)
    unknown = {name: column for name, column in _columns(1, 2000).items() if name != "file_id"}
    found = compare(make_recording(known), make_recording(unknown))
    assert not found.unmatched
    assert [e.figures[0].ratio for e in found.classes if e.role] == [1.0]


def test_waterfall_adds_up_and_a_negative_residual_is_a_clock_error(make_recording):
    def recording(device_ns):
        rows = [
            {"issued_ns": i * MS, "completed_ns": i * MS + length, "layer": layer}
            for i in range(100)
            for layer, length in (("filesystem", 900), ("block", 700), ("device", device_ns))
        ]
        return make_recording(rows, window_ns=SECOND)

    found = compare(recording(300), recording(800))
    assert [(s.layer, s.mean_ns, s.residual_ns, s.problem) for s in found.a.waterfall] == [
        ("filesystem", 900, 200, None),
        ("block", 700, 400, None),
        ("device", 300, None, None),
    ]
    assert [s.residual_ns for s in found.b.waterfall] == [200, -100, None]
    assert found.b.waterfall[1].problem.startswith("clock error")


def test_layers_that_saw_different_ios_are_not_subtracted_in_silence(make_recording):
    rows = [{"issued_ns": i * MS, "completed_ns": i * MS + 10, "layer": "filesystem"} for i in range(100)]
    rows += [{"issued_ns": i * MS, "completed_ns": i * MS + 900, "layer": "block"} for i in range(10)]
    found = compare(make_recording(rows), make_recording(rows))
    assert "not the same I/Os" in found.a.waterfall[0].problem


def test_a_slow_request_that_was_split_is_no_clock_error(make_recording):
    """Found in a recording of a database: 37,123 reads became 37,235 for the device, whose mean was 4 µs higher."""
    rows = [
        {"issued_ns": i * MS, "completed_ns": i * MS + length, "layer": layer}
        for i in range(100)
        for layer, length in (("block", 110), ("device", 100))
    ]
    rows += [{"issued_ns": SECOND, "completed_ns": SECOND + 9000, "layer": "block"}]
    rows += [{"issued_ns": SECOND, "completed_ns": SECOND + 8900, "layer": "device"}] * 2
    step = compare(make_recording(rows), make_recording(rows)).a.waterfall[0]
    assert step.residual_ns < 0
    assert "split or merged" in step.problem
    assert "clock error" not in step.problem


@pytest.mark.parametrize(
    ("mix", "span_ns", "replay", "warning"),
    [
        ({("read", 8192): 1000}, SECOND, {"scale": 1}, None),
        ({("read", 8192): 999}, SECOND, {"scale": 1}, "999 reads were replayed, 1,000 were to be"),
        ({("read", 8192): 1000}, SECOND // 2, {"scale": 2, "mode": "compress"}, None),
        ({("read", 8192): 2000}, SECOND, {"scale": 1, "repeat": 2}, None),
        (
            {("read", 8192): 1000},
            SECOND,
            {"scale": 1, "repeat": 2},
            "1,000 reads were replayed, 2,000 were to be",
        ),
        (
            {("read", 8192): 1000},
            SECOND,
            {"scale": 2, "mode": "compress", "planned_duration_ns": SECOND // 2, "issued_span_ns": SECOND},
            "issued its I/Os in 1.00 s; 500 ms were planned at 2x",
        ),
        (
            {("read", 8192): 900, ("read", 512): 100},
            SECOND,
            {"scale": 1},
            "mix of operations and sizes differs: 10%",
        ),
        ({("write", 8192): 1000}, SECOND, None, "100% of the I/Os have no counterpart"),
        ({("read", 8192): 1200}, SECOND, None, "a has 1,000 I/Os, b 1,200"),
    ],
)
def test_different_work_is_said(mix, span_ns, replay, warning):
    a, b = Work("a", "block", SECOND, {("read", 8192): 1000}), Work("b", "block", span_ns, mix)
    _, warnings = check_same_work(a, b, replay)
    assert warnings == [] if warning is None else any(warning in words for words in warnings), warnings


def test_nothing_to_compare_is_an_error_for_users(make_recording):
    full = make_recording([{"issued_ns": 0, "completed_ns": 1}])
    empty = make_recording({"issued_ns": np.array([], dtype=np.int64)})
    with pytest.raises(IotraceError, match="holds no I/Os"):
        compare(full, empty)


def _slots(seed, correlation):
    columns = _columns(seed, 12_000, correlation=correlation)
    latency = latency_bucket_ns(columns["completed_ns"] - columns["issued_ns"])
    slot = columns["issued_ns"] * 240 // (20 * SECOND)
    return SlotHistograms(slot, latency, np.ones_like(slot), 240)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.97])
def test_intervals_cover_the_truth_about_as_often_as_they_say(correlation):
    """200 recordings of a known distribution; a 95 % interval may miss between about 1 % and 11 % of them."""
    truth = {"p50": 400_000, "p95": 400_000 * np.exp(0.5 * 1.6448536)}
    hits = np.zeros(2)
    for seed in range(200):
        _, resamples = _slots(seed, correlation).estimate([0.5, 0.95], np.random.default_rng(seed))
        for index, value in enumerate(truth.values()):
            low, high = interval(resamples[:, index + 1])
            hits[index] += low <= value <= high
    assert (hits / 200 > 0.89).all(), hits / 200
    assert (hits / 200 < 0.995).all(), hits / 200
