"""Compare finds what was planted, and its intervals cover it as often as they say."""

import re

import numpy as np
import pytest

from iotrace.analyze.compare import compare, compare_all
from iotrace.analyze.compare_words import without_interval
from iotrace.schemas import IotraceError

from .planted import LOGNORMAL, SECOND, Planted

MS = 1_000_000


def _columns(seed, count=20_000, factor=1.0):
    """Reads at random over 20 s, latencies log-normal, neighbours dependent."""
    times, latency = Planted(LOGNORMAL, 0.9, count).draw(seed, factor)
    return {
        "issued_ns": times,
        "completed_ns": times + latency,
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
    assert compare_all(pair[0], [pair[1], pair[0]], seed=3)[0] == compare(*pair, seed=3)


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


def test_nothing_to_compare_is_an_error_for_users(make_recording):
    full = make_recording([{"issued_ns": 0, "completed_ns": 1}])
    empty = make_recording({"issued_ns": np.array([], dtype=np.int64)})
    with pytest.raises(IotraceError, match="holds no I/Os"):
        compare(full, empty)


@pytest.mark.parametrize("spread_ns", [0, 1000])
def test_a_tail_out_of_one_spell_has_no_interval_and_that_is_said(make_recording, spread_ns):
    """Two I/Os in a hundred are slow, all within half a second of twenty: of such spells one is known."""
    at = np.arange(20_000) * MS
    took = (
        np.where((at >= 8 * SECOND) & (at < 8.4 * SECOND), 50 * MS, MS) + np.arange(20_000) % 400 * spread_ns
    )
    one = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=20 * SECOND)
    found = compare(one, one)
    figures = {figure.quantity: figure for figure in found.headline("read").figures}
    assert figures["p50"].ratio_interval is not None
    assert figures["p99"].ratio == 1
    assert figures["p99"].ratio_interval is None
    words = without_interval(found.classes)
    assert re.search(r"ratios \(.*p99\) have no interval", words)
    assert "Longer recordings" in words
