"""Where each rule begins to fire: just within its limit it is silent, just beyond it fires.

The limits are those that docs/methods.md states; what a rule does not say there stands beside the case.
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from iotrace.analyze import validity
from iotrace.analyze.validity import Finding
from iotrace.analyze.validity.subject import spread
from iotrace.schemas import Clock, Manifest, Quality
from iotrace.schemas.manifest import Alignment, Source
from iotrace.schemas.run import (
    DeviceCounters,
    DeviceLook,
    Quantiles,
    Replay,
    Shard,
    TargetFacts,
    Thinning,
)

RULES = {rule.id: rule for rule in validity.RULES}
MIB, GIB = 1 << 20, 1 << 30
MS, SECOND = 1_000_000, 1_000_000_000


def judged(rule: str, manifest: Manifest | None = None, **facts: Any) -> Finding | None:
    """What the rule says of a subject of which just these facts are known."""
    manifest = manifest or Manifest("replayed", "", Clock(0, 1.0, "test"))
    replay = manifest.replay or Replay()
    known = {
        "recording": SimpleNamespace(manifest=manifest), "played": replay, "replay": replay, "scope": "replay",
        "run": "replay", "again": "replay", "is_tested": False, "is_empty": False, "quantile": 0.99, "comparison": None,
    }  # fmt: skip
    return RULES[rule].judge(cast("Any", SimpleNamespace(**known | facts)))


def run(**entries: Any) -> dict[str, Manifest]:
    """Facts: a replay that says so of itself."""
    return {"manifest": Manifest("replayed", "", Clock(0, 1.0, "test"), replay=Replay(**entries))}


def operations(**counts: tuple[int, int]) -> dict[str, Any]:
    """Facts: so many I/Os of each operation, and of these so many that failed."""
    return {
        "counts": {
            op: {"io_count": total, "failed_count": failed, "size_bytes": total * MIB}
            for op, (total, failed) in counts.items()
        }
    }


def moved(read: int, written: int = 0) -> dict[str, Any]:
    """Facts: the device's counters went on by so many bytes, and the replay moved 10 GiB or 10 MiB of them."""
    look = DeviceLook(
        DeviceCounters(read_bytes=5, written_bytes=7), DeviceCounters(read_bytes=5 + read, written_bytes=7 + written)
    )  # fmt: skip
    return run(device_counters={"sdx": look})


def fifths(*counts: int, means: tuple[float, ...] = (1.0, 1.1, 1.2, 1.3, 1.4)) -> dict[str, Any]:
    """Facts: so many I/Os in each fifth, with a mean response of so many milliseconds."""
    return {"fifths": [(count, mean * MS) for count, mean in zip(counts, means, strict=True)]}


def climbing(last: float) -> dict[str, Any]:
    """Facts: an even load, and a mean response that goes up to so many milliseconds from one."""
    return fifths(*[100] * 5, means=(1.0, 1.0, 1.5, 2.0, last))


def seconds_of(disk: list[tuple[int, int, int]], name: str = "sdx") -> dict[str, Any]:
    """Facts: bytes that a disk counted, that are recorded, and that are the recorder's own, second by second."""
    rows = [
        {"counted_bytes": counted, "recorded_bytes": recorded, "own_bytes": own,
         "from_ns": at * SECOND, "until_ns": (at + 1) * SECOND}
        for at, (counted, recorded, own) in enumerate(disk)
    ]  # fmt: skip
    return {"disk_counts": {name: rows}}


def lacking(missing: int) -> dict[str, Any]:
    """Facts: 1,000 seconds in each of which a disk counted 1,000 bytes, of which so many are not recorded."""
    within = [(1000, 1000, 0)] * 1000
    for at in range(missing // 1000 + 1):
        within[500 + at] = (1000, 1000 - min(missing - at * 1000, 1000), 0)
    return seconds_of([(1000, 0, 0), *within])


def resolution(of_ns: float, mean_ms: float = 0.01) -> dict[str, Any]:
    """Facts: a clock of this resolution, and a mean response of so many milliseconds."""
    return {"manifest": Manifest("captured", "", Clock(0, of_ns, "XE"))} | fifths(
        *[10] * 5, means=(mean_ms,) * 5
    )


def placed(uncertainty_ns: int) -> dict[str, Manifest]:
    """Facts: a source placed by its UTC, to so many nanoseconds."""
    source = Source("a.xel", "xel", alignment=Alignment("utc", "UTC", uncertainty_ns=uncertainty_ns))
    return {"manifest": Manifest("captured", "", Clock(0, 1.0, "test"), sources=[source])}


def unlike(mix: float, b: float | None, expected: float | None, *, differs: bool = True) -> dict[str, Any]:
    """Facts: a comparison of work that differs, by so much in its mix and in its rate."""
    rate = SimpleNamespace(name="rate", differs=differs, b=b, expected=expected)
    return {
        "comparison": SimpleNamespace(
            same_work=False, mix_distance=mix, work=[SimpleNamespace(name="mix", differs=True), rate],
            b=SimpleNamespace(label="B"), warnings=["one", "two", "three"],
        )
    }  # fmt: skip


SILENT_OR_NOT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("small-footprint", {"working_set_bytes": 8 * GIB}, {"working_set_bytes": 8 * GIB - 1}),
    ("small-footprint", {"working_set_bytes": 0}, {"working_set_bytes": 1}),
    (
        "target-smaller-than-cache",
        run(targets=[TargetFacts("a", bytes=8 * GIB), TargetFacts("b", bytes=0), TargetFacts("c")]),
        run(targets=[TargetFacts("a", bytes=1)]),
    ),
    (
        "target-smaller-than-cache",
        run(targets=[TargetFacts("a", bytes=8 * GIB)]),
        run(targets=[TargetFacts("a", bytes=8 * GIB - 1)]),
    ),
    # 2 % of 10,000 MiB are more than 16 MiB, of 100 MiB less; written and read bytes count alike.
    (
        "other-io",
        moved(10_000 * MIB, 200 * MIB) | operations(read=(9_000, 0), write=(1_000, 0), flush=(50, 0)),
        moved(10_000 * MIB, 200 * MIB + 1) | operations(read=(9_000, 0), write=(1_000, 0), flush=(50, 0)),
    ),
    (
        "other-io",
        moved(116 * MIB) | operations(read=(100, 0)),
        moved(116 * MIB + 1) | operations(read=(100, 0)),
    ),
    ("not-as-recorded", run(issued_ios=9_900, skipped_ios=100), run(issued_ios=9_899, skipped_ios=101)),
    ("not-as-recorded", run(issued_ios=100, adjusted_ios=1), run(issued_ios=100, adjusted_ios=2)),
    ("not-as-recorded", run(), run(skipped_ios=1)),
    # Discards are never played, and are another rule's.
    (
        "not-as-recorded",
        run(issued_ios=100, skipped_ios=51, skipped={"discards": 50}),
        run(issued_ios=100, skipped_ios=52, skipped={"discards": 50}),
    ),
    (
        "discards-not-replayed",
        run(issued_ios=99, skipped_ios=1, skipped={"discards": 1, "over 256 MiB": 100}),
        run(issued_ios=98, skipped_ios=1, skipped={"discards": 1}),
    ),
    ("discards-not-replayed", run(), run(skipped={"discards": 1})),
    (
        "load-not-as-asked",
        run(thinning=Thinning(error=-0.05)),
        run(thinning=Thinning(error=-0.0501)),
    ),
    ("load-not-as-asked", run(thinning=Thinning(error=0.05)), run(thinning=Thinning(error=0.0501))),
    (
        "load-not-as-asked",
        run(planned_duration_ns=SECOND, issued_span_ns=1_050_000_000),
        run(planned_duration_ns=SECOND, issued_span_ns=1_050_000_001),
    ),
    # A run that is paced by the storage, or was cut short, may take any time.
    (
        "load-not-as-asked",
        run(planned_duration_ns=SECOND, issued_span_ns=3 * SECOND, mode="think"),
        run(planned_duration_ns=SECOND, issued_span_ns=3 * SECOND, mode="compress"),
    ),
    (
        "load-not-as-asked",
        run(planned_duration_ns=SECOND, issued_span_ns=3 * SECOND, interrupted=True),
        run(planned_duration_ns=1, issued_span_ns=3 * SECOND),
    ),
    ("interrupted", run(planned_ios=5, issued_ios=5), run(planned_ios=5, issued_ios=4)),
    ("delayed-by-cap", run(issued_ios=5, max_in_flight=2), run(issued_ios=5, max_in_flight=2, delayed_ios=1)),
    ("backlog-grew", climbing(2.0), climbing(2.001)),
    ("backlog-grew", {"fifths": []}, climbing(3.0)),
    # Rising in each; and with 100 I/Os, below which a mean is chance.
    ("backlog-grew", fifths(*[100] * 5, means=(1.0, 1.5, 1.4999, 2.0, 4.0)), climbing(4.0)),
    (
        "backlog-grew",
        fifths(100, 100, 99, 100, 100, means=(1, 2, 3, 4, 5)),
        fifths(100, 100, 100, 100, 100, means=(1, 2, 3, 4, 5)),
    ),
    (
        "backlog-grew",
        fifths(1000, 1000, 1000, 1000, 1251 + 50, means=(1, 2, 3, 4, 5)),
        fifths(1000, 1000, 1000, 1000, 1250, means=(1, 2, 3, 4, 5)),
    ),
    # The spread of 20 % of the mean, at a slope of nothing; the slope of 10 %, at a spread below that.
    ("not-steady", fifths(1100, 900, 1000, 900, 1100), fifths(1101, 900, 999, 899, 1101)),
    ("not-steady", fifths(950, 975, 1000, 1025, 1050), fifths(949, 975, 1000, 1025, 1051)),
    ("not-steady", fifths(1050, 1025, 1000, 975, 950), fifths(1051, 1025, 1000, 975, 949)),
    ("not-steady", fifths(79, 99, 99, 99, 119), fifths(80, 100, 100, 100, 120)),
    ("not-steady", {"fifths": []}, fifths(0, 0, 0, 0, 500)),
    # What prints as 30.0 s is not said to be too short for 30.0 s.
    ("too-short", {"length_ns": 29_951 * MS}, {"length_ns": 29_949 * MS}),
    ("too-short", {"length_ns": None}, {"length_ns": 0}),
    ("too-short", {"length_ns": 1, "is_empty": True}, {"length_ns": 1, "is_empty": False}),
    (
        "too-short",
        {"length_ns": 4_996 * MS, "scope": "characterization"},
        {"length_ns": 4_994 * MS, "scope": "characterization"},
    ),
    # Of 10,000, 100 lie beyond the p99; of 1,000 beyond the p90; failed ones have no latency.
    (
        "too-few-ios",
        operations(read=(10_001, 1), write=(10_000, 0), flush=(3, 0)),
        operations(read=(10_000, 1), write=(10_000, 0)),
    ),
    (
        "too-few-ios",
        operations(write=(1_000, 0)) | {"quantile": 0.9},
        operations(write=(999, 0)) | {"quantile": 0.9},
    ),
    ("failed-ios", operations(read=(5, 0)), operations(read=(5, 1))),
    (
        "unfinished-ios",
        operations(read=(2_000, 0), flush=(1_000, 0)) | {"unfinished_count": 3},
        operations(read=(2_000, 0), flush=(999, 0)) | {"unfinished_count": 3},
    ),
    # A clock finer than 10 microseconds is never too coarse.
    ("coarse-clock", resolution(9_999, mean_ms=0.001), resolution(10_000, mean_ms=0.001)),
    ("coarse-clock", resolution(1e6, mean_ms=10), resolution(1e6, mean_ms=9.999)),
    (
        "coarse-clock",
        resolution(1e6) | fifths(0, 0, 0, 0, 0),
        resolution(1e6) | fifths(0, 0, 0, 0, 1),
    ),
    ("clocks-not-aligned", placed(MS), placed(MS + 1)),
    # Over 0.1 % of what the disk counted beyond what may lie on the other side of the first and the last second's
    # border, a twentieth of each; the recorder's own I/O is not missing, and may lie beyond a border, too.
    ("trace-lacks-ios", lacking(1000), lacking(1001)),
    ("trace-lacks-ios", seconds_of([(1000, 0, 0)]), seconds_of([(1000, 0, 0), (1000, 0, 0)])),
    (
        "trace-lacks-ios",
        seconds_of([(9, 0, 0), (1000, 950, 0), (1000, 950, 0)]),
        seconds_of([(9, 0, 0), (1000, 949, 0), (1000, 950, 0)]),
    ),
    (
        "trace-lacks-ios",
        seconds_of([(9, 0, 0), (1000, 930, 10), (1000, 940, 10)]),
        seconds_of([(9, 0, 0), (1000, 929, 10), (1000, 940, 10)]),
    ),
    (
        "unlike-layers",
        {"comparison": SimpleNamespace(a=SimpleNamespace(layer="block"), b=SimpleNamespace(layer="block", label="B"))},
        {"comparison": SimpleNamespace(a=SimpleNamespace(layer="sql"), b=SimpleNamespace(layer="block", label="B"))},
    ),
]  # fmt: skip
"""A rule; facts just within its limit; facts just beyond."""


@pytest.mark.parametrize(("rule", "within", "beyond"), SILENT_OR_NOT)
def test_a_rule_begins_to_fire_just_beyond_its_limit(
    rule: str, within: dict[str, Any], beyond: dict[str, Any]
) -> None:
    assert judged(rule, **within) is None
    finding = judged(rule, **beyond)
    assert finding is not None
    assert finding.rule == rule


def shards(*starts_ms: tuple[int | None, int], lost: int = 0) -> dict[str, Manifest]:
    """Facts: several generators of a run of 60 s, that began so late, give or take; some more were lost."""
    played = [
        Shard(host=f"g{number}", start_skew_ns=None if at is None else at * MS, start_skew_bound_ns=give * MS)
        for number, (at, give) in enumerate(starts_ms)
    ]
    gone = [Shard(host=f"lost{number}", ended="lost") for number in range(lost)]
    return run(duration_ns=60 * SECOND, shards=[*played, *gone])


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (shards(), None),
        (shards((None, 0)), None),
        (shards((0, 900)), None),
        (shards((-100, 200), (200, 100)), None),
        (shards((-100, 200), (200, 101)), "their starts may lie 601 ms apart, 1.0 % of the run"),
        (shards((0, 0), (None, 0)), "could not be compared"),
        (shards((0, 0), lost=2), "what lost0 and lost1 played is not in it (2 of 3 generators)"),
    ],
)
def test_generators_play_together_where_their_starts_lie_a_hundredth_of_the_run_apart(
    facts: dict[str, Any], said: str | None
) -> None:
    found = judged("not-together", **facts)
    assert (found is None) == (said is None)
    assert found is None or (said or "") in found.detail


@pytest.mark.parametrize(
    ("rule", "facts", "level"),
    [
        ("failed-ios", operations(read=(60, 1), write=(40, 0)), "warning"),
        ("failed-ios", operations(read=(59, 1), write=(40, 0)), "invalid"),
        ("trace-lacks-ios", seconds_of([(9, 0, 0), *[(1000, 991, 0)] * 1000]), "warning"),
        ("trace-lacks-ios", seconds_of([(9, 0, 0), *[(1000, 990, 0)] * 1000]), "invalid"),
        ("unlike-work", unlike(0.20, 1.0, 2.0), "warning"),
        ("unlike-work", unlike(0.2001, 1.0, 2.0), "invalid"),
        ("unlike-work", unlike(0.20, 0.999, 2.0), "invalid"),
        ("unlike-work", unlike(0.20, 2.001, 1.0), "invalid"),
        ("unlike-work", unlike(0.20, 0.1, 2.0, differs=False), "warning"),
        ("unlike-work", unlike(0.0, None, 2.0), "invalid"),
        ("target-not-filled", run(targets=[TargetFacts("a", filled=False)]) | operations(read=(1, 0)), "warning"),
        (
            "target-not-filled",
            run(targets=[TargetFacts("a", filled=False)]) | operations(read=(1, 0), write=(1, 0)),
            "invalid",
        ),
    ],
)  # fmt: skip
def test_a_rule_invalidates_from_its_second_limit_on(rule: str, facts: dict[str, Any], level: str) -> None:
    finding = judged(rule, **facts)
    assert finding is not None
    assert finding.level == level


TOLD: list[tuple[str, dict[str, Any], str]] = [
    ("failed-ios", operations(read=(150, 3), write=(50, 1)), "4 of 200 (2.0 %)"),
    ("unfinished-ios", operations(read=(150, 0), write=(50, 0)) | {"unfinished_count": 5}, "5 of 200 (2.5 %)"),
    ("unfinished-ios", operations(read=(150, 0), write=(50, 0)) | {"unfinished_count": 200}, "none of 200"),
    ("delayed-by-cap", run(issued_ios=200, delayed_ios=5, max_in_flight=2), "5 I/Os (2.5 %) waited because 2"),
    ("delayed-by-cap", run(issued_ios=1, delayed_ios=1, max_in_flight=2), "1 I/O (100.0 %) waited because 2"),
    ("not-as-recorded", run(issued_ios=90, skipped_ios=10, adjusted_ios=5), "15.0 % together"),
    ("discards-not-replayed", run(issued_ios=90, skipped={"discards": 10}), "10 discards of the recording (10.0 %"),
    ("load-not-as-asked", run(thinning=Thinning(error=-0.25)), "make 0.75 times the part"),
    ("not-steady", fifths(80, 90, 100, 110, 120), "spread over 40.0 % of their mean and changed by +40 % from"),
    ("not-steady", fifths(120, 110, 100, 90, 80), "changed by -40 % from"),
    ("too-few-ios", operations(read=(9, 1)), "8 reads; it takes 10,000 for 100"),
    ("too-few-ios", operations(read=(9, 1)) | {"quantile": 0.999}, "it takes 100,000 for 100"),
    ("too-few-ios", operations(read=(9, 1)) | {"quantile": 0.01}, "it takes 10,000 for 100"),
    ("other-io", moved(3 * GIB) | operations(read=(1024, 0)), "moved by 3.0 GiB, the replay by 1.0 GiB"),
    ("coarse-clock", resolution(1e6, mean_ms=2.5), "steps of 1.00 ms, and the mean latency is 2.50 ms"),
    ("trace-lacks-ios", seconds_of([(9, 0, 0), *[(MIB, MIB // 2, 0)] * 20]), "10.0 MiB (50.0 %)"),
    ("unlike-work", unlike(0.5, 1.0, 2.0), "one; 2 more aspects differ"),
]  # fmt: skip
"""A rule, facts, and words of its sentence with a figure that follows from the facts."""


@pytest.mark.parametrize(("rule", "facts", "words"), TOLD)
def test_a_rule_states_the_figures_that_follow_from_the_facts(
    rule: str, facts: dict[str, Any], words: str
) -> None:
    finding = judged(rule, **facts)
    assert finding is not None
    assert words in finding.detail


@pytest.mark.parametrize(
    ("lost_seconds", "share", "words"),
    [
        ((), 0, ""),
        ((7,), 0.10, ""),
        ((7,), 0.11, ", most of it from 7.00 s to 8.00 s after its start"),
        ((7, 8, 40), 1.0, ", most of it from 7.00 s to 41.0 s after its start"),
    ],
)
def test_a_gap_is_where_a_tenth_of_a_second_is_missing(
    lost_seconds: tuple[int, ...], share: float, words: str
) -> None:
    """Beside it each second lacks a little, by which the rule fires."""
    rows = [(1000, 0, 0), *[(1000, 960, 20)] * 60]
    for second in lost_seconds:
        rows[second] = (1000, round(980 - 1000 * share), 20)
    finding = judged("trace-lacks-ios", **seconds_of(rows))
    assert finding is not None
    assert finding.detail.endswith(f"is not in the recording{words}")


def test_a_gap_is_dated_from_the_start_of_the_recording() -> None:
    manifest = Manifest("captured", "", Clock(0, 1.0, "test"), window_start_ns=2 * SECOND)
    finding = judged(
        "trace-lacks-ios", manifest, **seconds_of([(9, 0, 0), *[(9, 9, 0)] * 6, (9, 0, 0), (9, 9, 0)])
    )
    assert finding is not None
    assert "from 5.00 s to 6.00 s after" in finding.detail


def test_generators_after_one_that_was_lost_are_looked_at_too() -> None:
    found = spread(
        Replay(shards=[Shard("a", ended="lost"), *shards((0, 1), (5, 2))["manifest"].open_replay.shards])
    )
    assert found == 8 * MS


@pytest.mark.parametrize(
    ("is_tested", "hint"), [(True, "import the tool's whole output"), (False, "record again")]
)
def test_what_to_do_about_losses_depends_on_who_recorded(is_tested: bool, hint: str) -> None:
    manifest = Manifest("captured", "", Clock(0, 1.0, "test"), quality=Quality(events_lost=1).judge(9))
    finding = judged("data-lost", manifest, is_tested=is_tested, scope="captured")
    assert finding is not None
    assert finding.hint.startswith(hint)


def test_of_what_a_source_holds_no_larger_buffer_brings_more() -> None:
    quality = Quality(events_lost=1, left_out=["1 line of a.mdf: rounded"]).judge(9)
    finding = judged(
        "data-lost", Manifest("captured", "", Clock(0, 1.0, "test"), quality=quality), scope="captured"
    )
    assert finding is not None
    assert finding.hint.startswith("export the source again")


@pytest.mark.parametrize("unknown", ["before", "after", "both"])
def test_what_others_moved_is_not_known_from_one_look_at_the_counters(unknown: str) -> None:
    seen = DeviceCounters(read_bytes=GIB)
    look = DeviceLook(None if unknown != "after" else seen, None if unknown != "before" else seen)
    facts = run(device_counters={"sdx": look}) | operations(read=(1, 0))
    assert judged("other-io", **facts) is None


@pytest.mark.parametrize(("quantile", "name"), [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")])
def test_a_quantile_is_named_by_its_percentage(quantile: float, name: str) -> None:
    finding = judged("too-few-ios", **operations(read=(9, 0)), quantile=quantile)
    assert finding is not None
    assert finding.title == f"too few I/Os for a {name}"


def test_lateness_and_response_are_told_as_they_were() -> None:
    entries = {
        "generator_limited": True, "generator_lateness_ns": Quantiles(1 * MS, 2 * MS),
        "generator_response_ns": Quantiles(3 * MS, 4 * MS),
    }  # fmt: skip
    finding = judged("generator-limited", **run(**entries))
    assert finding is not None
    assert "lateness p50 1.00 ms, p99 2.00 ms; response p50 3.00 ms, p99 4.00 ms" in finding.detail


@pytest.mark.parametrize(
    ("quality", "level"),
    [
        (Quality(events_lost=1).judge(99), "invalid"),
        (Quality(events_lost=1).judge(100), "warning"),
        (Quality(shared_time=["a"], source_gaps=1).judge(9), None),
        (Quality(verdict="usable"), "warning"),
    ],
)
def test_what_is_lost_is_judged_by_its_share_and_shared_time_by_another_rule(
    quality: Quality, level: str | None
) -> None:
    finding = judged("data-lost", Manifest("captured", "", Clock(0, 1.0, "test"), quality=quality))
    assert (finding and finding.level) == level
