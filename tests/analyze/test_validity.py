"""Each rule fires on what it is about, and is silent on a sound run."""

import numpy as np
import pytest

from iotrace.analyze import validity
from iotrace.analyze.compare import compare
from iotrace.analyze.describe import describe
from iotrace.schemas import Quality

GIB = 1 << 30
MINUTE = 60_000_000_000
COUNT = 12_000
SOUND = {
    "backend": "io_uring",
    "direct": True,
    "targets": [{"name": "/dev/sdx", "kind": "device", "direct": True, "filled": True}],
    "planned_ios": COUNT,
    "issued_ios": COUNT,
    "completed_ios": COUNT,
    "failed_ios": 0,
    "skipped_ios": 0,
    "adjusted_ios": 0,
    "delayed_ios": 0,
    "max_in_flight": 1024,
    "lateness_ns_p99": 5_000,
    "response_ns_p50": 300_000,
    "generator_limited": False,
    "interrupted": False,
    "device_counters": {
        "sdx": {
            "before": {"read_bytes": 0, "written_bytes": 0},
            "after": {"read_bytes": COUNT * (1 << 20), "written_bytes": 0},
        }
    },
}


def _replay(
    make_recording,
    *,
    count=COUNT,
    size_bytes=1 << 20,
    window_ns=MINUTE,
    failed=0,
    host=None,
    quality=None,
    **changes,
):
    at = np.arange(count) * (MINUTE // COUNT)
    error = np.zeros(count, dtype=np.int32)
    error[:failed] = 5
    return make_recording(
        {
            "intended_ns": at,
            "issued_ns": at,
            "completed_ns": at + 300_000,
            "offset_bytes": np.arange(count) << 20,
            "size_bytes": np.full(count, size_bytes),
            "device_id": np.zeros(count, dtype=np.int32),
            "error": error,
        },
        window_ns=window_ns,
        kind="replayed",
        host=host or {"cpu_governor": "performance"},
        quality=quality or Quality(),
        replay=SOUND | changes,
    )


def test_a_sound_replay_has_no_findings(make_recording):
    assert validity.check(_replay(make_recording)) == []


NOT_DIRECT = [SOUND["targets"][0] | {"direct": False}]
NOT_FILLED = [SOUND["targets"][0] | {"filled": False}]
BUSY = {
    "sdx": {
        "before": {"read_bytes": 0, "written_bytes": 0},
        "after": {"read_bytes": 20 * GIB, "written_bytes": 0},
    }
}


@pytest.mark.parametrize(
    ("rule", "level", "changes", "word"),
    [
        ("cache-not-bypassed", "invalid", {"direct": False}, "page cache"),
        ("cache-not-bypassed", "invalid", {"targets": NOT_DIRECT}, "/dev/sdx"),
        (
            "generator-limited",
            "invalid",
            {"generator_limited": True, "generator_lateness_ns": {"p50": 10, "p99": 30_001}},
            "p99 30.0 µs",
        ),
        ("target-not-filled", "warning", {"targets": NOT_FILLED}, "/dev/sdx"),
        ("small-footprint", "warning", {"size_bytes": 8192}, "MiB were touched"),
        ("interrupted", "warning", {"interrupted": True}, "12,000"),
        ("interrupted", "warning", {"issued_ios": 11_000}, "11,000 of 12,000"),
        (
            "threads-backend",
            "warning",
            {"backend": "threads", "backend_reason": "no io_uring here"},
            "no io_uring here",
        ),
        ("delayed-by-cap", "warning", {"delayed_ios": 1}, "1,024"),
        ("not-as-recorded", "warning", {"skipped_ios": 500}, "500"),
        ("not-as-recorded", "warning", {"adjusted_ios": 500}, "500"),
        ("other-io", "warning", {"device_counters": BUSY}, "20.0 GiB"),
        ("processor-slowed", "warning", {"host": {"cpu_governor": "powersave"}}, "powersave"),
        ("processor-slowed", "warning", {"host": {"cpu_governor": None}}, "unknown"),
        ("data-lost", "invalid", {"quality": Quality(events_lost=1000).judge(1000)}, "1,000 events lost"),
        ("data-lost", "warning", {"quality": Quality(truncated_tail=True).judge(1000)}, "cut off"),
        ("too-short", "warning", {"window_ns": 29_000_000_000}, "29.0 s"),
        (
            "too-few-ios",
            "warning",
            {"count": 9_999, "planned_ios": 9_999, "issued_ios": 9_999},
            "9,999 reads",
        ),
        ("failed-ios", "warning", {"failed": 1}, "1 of 12,000"),
        ("failed-ios", "invalid", {"failed": 200}, "200 of 12,000"),
    ],
)
def test_rule_fires(make_recording, rule, level, changes, word):
    found = {finding.rule: finding for finding in validity.check(_replay(make_recording, **changes))}
    assert rule in found
    assert found[rule].level == level
    assert word in found[rule].detail
    assert found[rule].title
    assert found[rule].hint


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"lateness_ns_p99": 30_000}, id="lateness at its limit"),
        pytest.param({"skipped_ios": 60, "adjusted_ios": 60}, id="one I/O in a hundred changed"),
        pytest.param({"device_counters": {"sdx": {"before": None, "after": None}}}, id="no counters"),
        pytest.param({"device_counters": {}}, id="no devices"),
        pytest.param({"window_ns": 30_000_000_000}, id="half a minute"),
        pytest.param({"host": {"name": "h"}}, id="nothing said of the governor"),
    ],
)
def test_no_rule_fires_at_its_limit(make_recording, changes):
    assert validity.check(_replay(make_recording, **changes)) == []


def test_rules_on_replays_are_silent_on_captures(make_recording):
    found = validity.check(make_recording([{"issued_ns": 0, "completed_ns": 1}], window_ns=MINUTE))
    assert [finding.rule for finding in found] == ["too-few-ios"]


def test_what_describe_found_spares_the_rules_their_queries(make_recording):
    rows = [
        {"issued_ns": i, "completed_ns": i + 9, "device_id": 0, "offset_bytes": i * 300_000, "op": op,
         "error": 5 if i % 7 == 0 else 0}
        for i in range(50)
        for op in ("read", "write", "flush")
    ]  # fmt: skip
    recording = make_recording(rows, window_ns=MINUTE)
    asked, told = validity.Subject(recording), validity.Subject(recording, description=describe(recording))
    assert told.counts == asked.counts
    assert told.working_set_bytes == asked.working_set_bytes > 0


def test_rules_on_comparisons(make_recording):
    def recording(size_bytes, device_ns):
        rows = [
            {"issued_ns": i, "completed_ns": i + length, "layer": layer, "size_bytes": size_bytes}
            for i in range(300)
            for layer, length in (("block", 700), ("device", device_ns))
        ]
        return make_recording(rows, window_ns=MINUTE)

    sound, other, skewed = recording(8192, 500), recording(65536, 500), recording(8192, 900)
    rules = {
        name: [finding.rule for finding in validity.check(b, comparison=compare(sound, b), quantile=0.5)]
        for name, b in (("sound", sound), ("other", other), ("skewed", skewed))
    }
    assert rules == {"sound": [], "other": ["unlike-work"], "skewed": ["clock-error"]}


def test_every_rule_has_a_test_that_makes_it_fire():
    tested = {mark.args[1][i][0] for mark in test_rule_fires.pytestmark for i in range(len(mark.args[1]))}
    assert {rule.id for rule in validity.RULES} == tested | {"unlike-work", "clock-error"}
