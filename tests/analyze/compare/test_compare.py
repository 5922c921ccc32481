"""Compare finds what was planted, and its intervals cover it as often as they say."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from iotrace.analyze.compare.comparison import ClassComparison, Figure
from iotrace.analyze.compare.recordings import compare, compare_all
from iotrace.analyze.compare.words import (
    _below,
    _own_ns,
    inconclusive_means,
    lifted,
    verdicts,
    without_interval,
)
from iotrace.analyze.present import plain
from iotrace.analyze.report.verdict import comparison_sentence
from iotrace.schemas import IotraceError, Quality
from iotrace.schemas.run import Watched, run_of

from ..planted import LOGNORMAL, SECOND, Planted

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


@pytest.mark.parametrize(("a_ns", "ratio"), [(0, None), (1, 7.0)])
def test_the_shortest_latency_has_a_ratio_and_none_at_all_has_not(make_recording, a_ns, ratio):
    at = np.arange(1000) * MS
    a, b = (make_recording({"issued_ns": at, "completed_ns": at + taken}) for taken in (a_ns, 7))
    assert {figure.ratio for figure in compare(a, b).classes[0].figures if figure.a_ns is not None} == {ratio}


def test_the_same_seed_gives_the_same_digits(pair):
    assert plain(compare(*pair, seed=3)) == plain(compare(*pair, seed=3))
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
    assert (found.is_replay_of_a, found.scale) == (True, 1.0)
    assert compare(replayed, replayed).scale is None
    assert found.headline_metric == "response"
    assert found.same_work, found.warnings
    assert found.headline("read").figures[0].ratio == pytest.approx(4, rel=0.001)
    (service,) = [e for e in found.classes if e.b_metric == "service" and e.role is None]
    assert service.figures[0].ratio == pytest.approx(1)


def test_a_replay_of_a_window_is_held_against_that_window(make_recording):
    """Before it the storage took a quarter of the time."""
    at = np.arange(4000) * 5 * MS
    took = np.where(at < 10 * SECOND, MS, 4 * MS)
    before = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=20 * SECOND)
    played = np.arange(2000) * 5 * MS
    replay = {
        "source_uuid": before.manifest.uuid, "scale": 1.0, "mode": "compress", "layer": "block",
        "window_ns": [10 * SECOND, 20 * SECOND],
    }  # fmt: skip
    columns = {"intended_ns": played, "issued_ns": played, "completed_ns": played + 4 * MS}
    found = compare(before, make_recording(columns, window_ns=10 * SECOND, kind="replayed", replay=replay))
    assert found.same_work, found.warnings
    assert found.headline("read").figures[0].ratio == pytest.approx(1, rel=0.001)


def test_sizes_are_in_order_and_what_is_over_the_largest_class_comes_last(make_recording):
    at = np.arange(3000) * MS
    sizes = np.resize([2 << 20, 8192, 65536], 3000)
    one = make_recording(
        {"issued_ns": at, "completed_ns": at + MS, "size_bytes": sizes}, window_ns=3 * SECOND
    )
    classes = [entry.size_class for entry in compare(one, one).classes if entry.role]
    assert classes == ["8 KiB", "64 KiB", "> 1 MiB"]


def test_each_side_has_its_own_number_of_ios(make_recording):
    def reads(count):
        at = np.arange(count) * MS
        return make_recording({"issued_ns": at, "completed_ns": at + MS}, window_ns=count * MS)

    headline = compare(reads(3000), reads(2000)).headline("read")
    assert (headline.a_io_count, headline.b_io_count) == (3000, 2000)


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
    assert found.unmatched == [
        f"only {whose} has {role} reads of {size}"
        for role in ("data", "log")
        for whose, size in (("A", "64 KiB"), ("B", "> 1 MiB"))
    ]
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
    with pytest.raises(IotraceError, match="27 recordings are too many"):
        compare_all(full, [empty] * 26)


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


def _watched(make_recording, base, factor, tail=1.0):
    """What a recorder saw beside a replay: 3 s later, each I/O a little off, and the look at the target before."""
    io = base.read("io")
    issued, took = io["issued_ns"].to_numpy(), (io["completed_ns"].to_numpy() - io["issued_ns"].to_numpy())
    noise = np.random.default_rng(5).normal(0, 0.2, len(took))
    slow = np.where(took > np.quantile(took, 0.95), tail, 1.0)
    looks = np.arange(14) * 100 * MS
    columns = {
        "issued_ns": np.concatenate([looks, issued + 3 * SECOND]),
        "completed_ns": np.concatenate(
            [looks + MS, issued + 3 * SECOND + (took * np.exp(noise) * slow * factor).astype(np.int64)]
        ),
        "offset_bytes": np.concatenate([np.zeros(14, np.int64), io["offset_bytes"].to_numpy()]),
    }
    replay = {
        "source_uuid": base.manifest.uuid, "scale": 1.0, "mode": "compress", "layer": "block",
        "planned_ios": len(took), "planned_duration_ns": int(issued[-1] - issued[0]),
        "issued_span_ns": int(issued[-1] - issued[0]),
    }  # fmt: skip
    load_ns = [3 * SECOND - 2 * MS, 23 * SECOND + 500 * MS]
    watched = Watched("played", load_ns, run_of(replay))
    return make_recording(columns, window_ns=30 * SECOND, watched=watched)


@pytest.fixture
def placed(make_recording):
    columns = {name: value for name, value in _columns(1).items() if name in {"issued_ns", "completed_ns"}}
    places = np.random.default_rng(3).integers(0, 1 << 20, len(columns["issued_ns"])) * 8192
    return make_recording(columns | {"offset_bytes": places}, window_ns=20 * SECOND)


@pytest.mark.parametrize(
    ("factor", "tail", "direction"),
    [
        (1.0, 1.0, "no difference"),
        (1.03, 1.0, "no difference"),
        (1.3, 1.0, "slower"),
        (1 / 1.3, 1.0, "faster"),
        (1.0, 2.0, "slower"),
    ],
)
def test_a_watched_replay_is_paired_with_its_source(make_recording, placed, factor, tail, direction):
    """A difference that one storage shows from one round to the next is none; a tail twice as slow is one."""
    watched = _watched(make_recording, placed, factor, tail)
    found = compare(placed, watched)
    assert found.is_replay_of_a
    assert found.same_work, found.warnings
    (verdict,) = found.verdicts
    assert verdict.direction == direction
    said = "no difference between A and B" if direction == "no difference" else f"B is {direction}"
    assert said in verdict.sentence
    (one,) = found.paired
    # The first 14 that were seen are the look at the target.
    before, after = (
        io["completed_ns"].to_numpy() - io["issued_ns"].to_numpy()
        for io in (placed.read("io"), watched.read("io").slice(14))
    )
    assert one.difference_ns == pytest.approx(after.mean() - before.mean(), rel=1e-6)
    low, high = one.difference_interval_ns
    assert low < one.difference_ns < high
    usual = 2 * 1.96 * (after - before).std() / np.sqrt(len(after))
    assert 0.8 * usual < high - low < 2.5 * usual
    assert (one.by, one.pair_count) == ("address, size and order", 20_000)
    # 5 % of the I/Os took `tail` times as long.
    truth = factor * tail**0.05
    low, high = one.ratio_interval
    assert low - 0.005 < truth < high + 0.005
    # Heavy tails and dependence make the interval of the means several times as wide.
    mean = found.headline("read").figures[0]
    assert high - low < (mean.ratio_interval[1] - mean.ratio_interval[0])


@pytest.mark.parametrize(("kept", "is_paired"), [(0.95, True), (0.8, False), (0.05, False)])
def test_a_watch_that_lost_ios_says_why_nothing_is_paired(make_recording, placed, kept, is_paired):
    """Too few of the recorded I/Os have a counterpart: no pairs, and the reason with its figures."""
    whole = _watched(make_recording, placed, 1.0)
    io = whole.read("io")
    stays = np.random.default_rng(2).random(io.num_rows) < kept
    columns = {
        name: io[name].filter(stays).to_numpy() for name in ("issued_ns", "completed_ns", "offset_bytes")
    }
    lost = int((~stays).sum())
    seen = make_recording(
        columns, window_ns=30 * SECOND, watched=whole.manifest.watched, quality=Quality(events_lost=lost)
    )
    found = compare(placed, seen)
    assert bool(found.paired) == is_paired
    if is_paired:
        assert found.paired[0].by == "address, size and order"
        assert found.unpaired == []
    else:
        (words,) = found.unpaired
        count = int(stays[14:].sum())
        assert f"of 20,000, {count:,} have a counterpart" in words
        assert "and 90 % would have to" in words
        assert f"lost {lost:,} events" in words


def test_a_replays_look_at_its_target_is_no_load(make_recording, placed):
    """Fourteen reads and three idle seconds before the load would halve its rate and double its burstiness."""
    found = compare(placed, _watched(make_recording, placed, 1.0))
    assert found.b.io_count == {"read": 20_000}
    assert found.b.interarrival_cv == pytest.approx(found.a.interarrival_cv, rel=1e-6)
    assert found.b.ios_per_s == pytest.approx(found.a.ios_per_s, rel=0.03)


def test_the_rate_is_that_of_the_load_not_of_the_open_window(make_recording):
    """One window stays open for two seconds after the same load."""
    one = make_recording(_columns(1), window_ns=20 * SECOND)
    other = make_recording(_columns(1), window_ns=22 * SECOND)
    found = compare(one, other)
    assert found.same_work, found.warnings
    assert found.a.ios_per_s == found.b.ios_per_s


@pytest.mark.parametrize(("own_ns", "direction"), [(0, "slower"), (MS // 5, "slower"), (3 * MS, "unknown")])
def test_what_a_replay_itself_adds_is_not_the_storages(make_recording, own_ns, direction):
    """Each I/O is 2 ms longer than the recorded 10 ms: of the storage, unless the replay says that it was its own."""
    at = np.arange(20_000) * MS
    took = 10 * MS + np.random.default_rng(1).integers(0, MS, len(at))
    before = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=20 * SECOND)
    replay = {
        "source_uuid": before.manifest.uuid, "scale": 1.0, "mode": "compress", "layer": "block",
        "generator_lateness_ns": {"p50": 0, "p99": 0},
        "pacing": {"asked": "auto", "used": "gentle", "reason": "", "own_service_ns_mean": own_ns},
    }  # fmt: skip
    columns = {"intended_ns": at, "issued_ns": at, "completed_ns": at + took + 2 * MS}
    after = make_recording(columns, window_ns=20 * SECOND, kind="replayed", replay=replay)
    (verdict,) = compare(before, after).verdicts
    assert verdict.direction == direction
    assert ("the replay's own doing" in verdict.sentence) == (own_ns > 0)
    assert ("whether B is slower cannot be told" in verdict.sentence) == (direction == "unknown")
    assert "no difference" not in verdict.sentence
    assert ("which may be the replay's own doing" in comparison_sentence(compare(before, after))) == (
        direction == "unknown"
    )


def test_a_model_that_states_no_time_is_not_called_faster(make_recording):
    """A catalogue's disk has limits only: what none of them holds up takes 0 ns there, which no storage does."""
    at = np.arange(20_000) * MS
    took = MS + np.random.default_rng(1).integers(0, MS, len(at))
    before = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=20 * SECOND)
    columns = {"intended_ns": at, "issued_ns": at, "completed_ns": at}
    after = make_recording(columns, window_ns=20 * SECOND, kind="simulated")
    (verdict,) = compare(before, after).verdicts
    assert verdict.direction == "unknown"
    assert "states no time of the storage itself" in verdict.sentence
    assert "faster" not in verdict.sentence.partition("cannot be told")[0]


def test_of_a_model_the_answer_is_what_its_limits_held_up(make_recording):
    """Nine in ten pass at once; one in ten waits 1 s, all in the same 2 s of 20: that is what a user would feel."""
    at = np.arange(20_000) * MS
    took = MS + np.random.default_rng(1).integers(0, MS, len(at))
    before = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=21 * SECOND)
    held = np.where((at >= 8 * SECOND) & (at < 10 * SECOND), SECOND, 0)
    columns = {"intended_ns": at, "issued_ns": at, "completed_ns": at + held}
    after = make_recording(columns, window_ns=21 * SECOND, kind="simulated")
    found = compare(before, after)
    (verdict,) = found.verdicts
    assert verdict.quantity == "p99"
    assert verdict.ratio == pytest.approx(SECOND / np.quantile(took, 0.99), rel=0.01)
    assert f"p99 response 1.00 s against {np.quantile(took, 0.99) / MS:.2f} ms" in verdict.sentence
    assert "(1.99 ms → 1.00 s)" in comparison_sentence(found)


@pytest.mark.parametrize(
    ("interval", "in_verdict", "in_note"),
    [
        ((0.35, 0.6), "", ""),
        ((0.09, 1.39), "", "reads (0.50x [0.09, 1.39]) differs from A's cannot be told"),
        (None, "", "reads (0.50x) differs from A's cannot be told"),
        ((1.1, 1.3), "; the mean is slower, 0.50x [1.10, 1.30]", ""),
    ],
)
def test_a_median_that_decides_does_not_hide_a_mean_that_does_not(interval, in_verdict, in_note):
    figures = [
        Figure("mean", 2e6, 1e6, -1e6, None, 0.5, interval),
        Figure("p50", 2e6, 0.94e6, -1.06e6, None, 0.47, (0.4, 0.5)),
    ]
    entry = ClassComparison("read", None, None, "all sizes", "service", "service", 900, 900, figures)
    found = verdicts("B", [entry], "service", [])
    assert found[0].sentence.endswith(f"0.47x [0.40, 0.50]{in_verdict}.")
    note = inconclusive_means(SimpleNamespace(verdicts=found, classes=[entry], headline_metric="service"))
    assert in_note in note
    assert bool(note) == bool(in_note)


def test_what_no_limit_holds_up_is_no_ratio_in_a_report(make_recording):
    at = np.arange(20_000) * MS
    took = MS + np.random.default_rng(1).integers(0, MS, len(at))
    before = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=20 * SECOND)
    columns = {"intended_ns": at, "issued_ns": at, "completed_ns": at}
    said = comparison_sentence(
        compare(before, make_recording(columns, window_ns=20 * SECOND, kind="simulated"))
    )
    assert "of reads it cannot be told: no limit of the model holds up their p99" in said
    assert "as long" not in said


@pytest.mark.parametrize(
    ("layers", "others", "is_said"),
    [
        (["block", "device"], ["block"], True),
        (["block", "device"], ["block", "device"], False),
        (["block"], ["block"], False),
    ],
)
def test_a_device_layer_that_one_side_lacks_is_said_with_its_share(layers, others, is_said):
    def side(label, names):
        steps = [
            SimpleNamespace(
                layer=name, op="read", share=0.3 if name == "device" else 1.0, share_interval=(0.2, 0.4)
            )
            for name in names
        ]
        return SimpleNamespace(label=label, layer="block", waterfall=steps)

    found = _below(side("A", layers), side("B", others))
    assert [words[:55] for words in found] == [
        "A's device layer makes up 30 % [20, 40] of a mean read;"
    ] * is_said


@pytest.mark.parametrize(
    ("quantity", "metric", "service_ns", "own_ns"),
    [
        ("p50", "response", 100.0, 130),
        ("mean", "response", 100.0, 130),
        ("p95", "response", 100.0, 1000),
        ("p99", "service", 100.0, 100),
        ("p50", "response", None, 30),
        # A replay does not make storage faster.
        ("p50", "response", -5.0, 30),
    ],
)
def test_what_a_replay_adds_is_its_lateness_and_its_share_of_the_service(
    quantity, metric, service_ns, own_ns
):
    pacing = SimpleNamespace(own_service_ns_mean=service_ns)
    replay = SimpleNamespace(generator_lateness_ns=SimpleNamespace(p50=30, p99=900), pacing=pacing)
    assert _own_ns(replay, quantity, metric) == own_ns


def _at_layers(make_recording, seed, **added_ms):
    """A quarter of a minute of reads; each layer takes so much longer than 1 ms (mean, gamma), as planted."""
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, 20 * SECOND, 20_000))
    took = random.gamma(4, MS / 4, len(at)).astype(np.int64)
    rows = {
        "layer": [layer for layer in added_ms for _ in at],
        "issued_ns": np.concatenate([at - added * MS for added in added_ms.values()]),
        "completed_ns": np.concatenate([at + took for _ in added_ms]),
    }
    return make_recording(rows, window_ns=21 * SECOND)


@pytest.mark.parametrize(
    ("a", "b", "layer", "ratio", "whose"),
    [
        ({"device": 0}, {"block": 1, "device": 0}, "device", 1, "B"),
        ({"block": 1, "device": 0}, {"device": 0}, "device", 1, "A"),
        ({"sql": 2}, {"sql": 2, "block": 0}, "sql", 1, "B"),
        ({"sql": 2, "device": 0}, {"sql": 2, "filesystem": 1}, "sql", 1, "A and B"),
        ({"sql": 2, "block": 1}, {"sql": 9, "block": 1}, "block", 1, ""),
        ({"device": 0}, {"block": 1}, None, 2, ""),
    ],
)
def test_what_both_recorded_at_one_layer_is_compared_there(make_recording, a, b, layer, ratio, whose):
    found = compare(_at_layers(make_recording, 1, **a), _at_layers(make_recording, 2, **b))
    assert {found.a.layer, found.b.layer} == ({layer} if layer else {"device", "block"})
    mean = found.headline("read").figures[0]
    assert mean.ratio == pytest.approx(ratio, rel=0.02)
    assert lifted(found.a, found.b) == whose
    assert any("the first that both have" in one for one in found.basis) is bool(whose)
    assert (f"both at the {layer} layer" in comparison_sentence(found)) is bool(whose)
    # What lies above is shown all the same.
    assert {step.layer for step in found.b.waterfall} == {*b}


def test_of_a_late_replay_that_is_slower_nothing_is_told_and_chance_is_not_blamed(make_recording):
    """It takes 5 times as long, and 30 ms of the tail and the typical I/O are said to be the replay's own."""
    random = np.random.default_rng(4)
    at = np.arange(20_000) * MS
    took = random.gamma(4, MS, len(at)).astype(np.int64)
    before = make_recording({"issued_ns": at, "completed_ns": at + took}, window_ns=20 * SECOND)
    replay = {
        "source_uuid": before.manifest.uuid, "scale": 1.0, "mode": "compress", "layer": "block",
        "generator_lateness_ns": {"p50": 30 * MS, "p99": 60 * MS},
    }  # fmt: skip
    columns = {"intended_ns": at, "issued_ns": at + 4 * took, "completed_ns": at + 5 * took}
    after = make_recording(columns, window_ns=21 * SECOND, kind="replayed", replay=replay)
    (verdict,) = compare(before, after).verdicts
    low, _ = verdict.ratio_interval
    assert low > 3
    assert verdict.direction == "unknown"
    assert "which the replay itself may explain" in verdict.sentence
    for word in ("no difference", "chance", "too few"):
        assert word not in verdict.sentence
