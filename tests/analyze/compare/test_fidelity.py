"""What was recorded against what was played: planted differences are found, and only of a replay in step."""

import numpy as np
import pytest

from iotrace.analyze.compare.fidelity import fidelity
from iotrace.analyze.compare.paired import watched_beside
from iotrace.analyze.compare.side import is_in_step
from iotrace.schemas.run import Replay, Watched, run_of
from iotrace.schemas.sweep import watched_path

MS = 1_000_000
SECOND = 1_000_000_000
COUNT = 4_000
AT = np.arange(COUNT) * 5 * MS
TOOK = MS + np.random.default_rng(1).integers(0, MS, COUNT)
WORK = {
    "op": np.array(["read", "write"])[np.arange(COUNT) % 2],
    "size_bytes": np.array([8192, 65536])[np.arange(COUNT) // 2 % 2],
}
"""Of two sizes, which are told together."""
IN_STEP = {"scale": 1.0, "mode": "compress", "layer": "block", "planned_ios": COUNT, "issued_ios": COUNT}


@pytest.fixture
def source(make_recording):
    columns = {
        "issued_ns": AT,
        "completed_ns": AT + TOOK,
    }
    return make_recording(columns | WORK, window_ns=20 * SECOND)


def played(make_recording, source, *, longer_ns=0, empty=False, **replay):
    """A replay of the source, of which each I/O was issued 3 ms late and then took so much longer."""
    issued = AT + 3 * MS
    columns = {
        "intended_ns": AT, "issued_ns": issued, "completed_ns": issued + TOOK + longer_ns, **WORK,
    }  # fmt: skip
    if empty:
        columns = {name: values[:0] for name, values in columns.items()}
    entry = {"source_uuid": source.manifest.uuid} | IN_STEP | replay
    return make_recording(columns, window_ns=21 * SECOND, kind="replayed", replay=entry)


@pytest.mark.parametrize("longer_ns", [0, MS // 2])
def test_a_replays_own_service_is_held_against_what_was_recorded(make_recording, source, longer_ns):
    own = {"pacing": {"asked": "auto", "used": "gentle", "reason": "", "own_service_ns_mean": 7_000.0}}
    found = fidelity(source, played(make_recording, source, longer_ns=longer_ns, **own))
    assert [(one.layer, one.op, one.played_is) for one in found.layers] == [
        ("block", "read", "service of the replay"), ("block", "write", "service of the replay"),
    ]  # fmt: skip
    for one, first in zip(found.layers, (0, 1), strict=True):
        mean = one.figures[0]
        assert mean.a_ns == pytest.approx(TOOK[first::2].mean())
        assert mean.b_ns - mean.a_ns == pytest.approx(longer_ns, abs=1)
    assert found.own_service_ns_mean == 7_000.0
    assert (found.paired, found.unpaired) == ([], [])


@pytest.mark.parametrize(
    "changed",
    [
        {"source_uuid": "00000000-0000-4000-8000-000000000001"},
        {"scale": 2.0},
        {"mode": "think"},
        {"empty": True},
    ],
)
def test_what_is_no_replay_of_it_in_step_is_not_held_against_it(make_recording, source, changed):
    assert fidelity(source, played(make_recording, source, **changed)) is None


@pytest.mark.parametrize(
    ("entry", "is_so"),
    [
        ({}, True),
        ({"mode": "compress"}, True),
        ({"mode": "think"}, False),
        ({"mode": "superpose"}, False),
        ({"loop_seconds": 60.0}, False),
        ({"ramp_seconds": 5.0}, False),
        ({"thinning": {"error": 0.0}}, False),
        ({"repeat": 2}, False),
        ({"copies": 2}, False),
        ({"repeat": 2, "copies": 2}, False),
    ],
)
def test_a_replay_is_in_step_where_each_io_is_due_once_at_its_recorded_time(entry, is_so):
    replay = run_of(entry) if entry else Replay()
    assert is_in_step(replay) == is_so


@pytest.mark.parametrize("is_of_this_replay", [True, False])
def test_only_what_was_watched_of_this_replay_lies_beside_it(make_recording, source, is_of_this_replay):
    replay = played(make_recording, source)
    assert watched_beside(replay) is None
    uuid = replay.manifest.uuid if is_of_this_replay else source.manifest.uuid
    watched = Watched(uuid, [0, 20 * SECOND], replay.manifest.open_replay)
    seen = make_recording({"issued_ns": AT, "completed_ns": AT + TOOK}, 20 * SECOND, watched=watched)
    seen.path.rename(watched_path(replay.path))
    assert (watched_beside(replay) is not None) is is_of_this_replay


def test_what_was_watched_before_the_load_is_not_held_against_the_recording(make_recording, source):
    """It is the replay's look at its target, which takes 40 ms here."""
    replay = played(make_recording, source)
    look = np.arange(400) * MS
    # The device layer, which only the watch has, is held against nothing.
    columns = {
        "issued_ns": np.concatenate([look, AT + SECOND, AT + SECOND]),
        "completed_ns": np.concatenate([look + 40 * MS, AT + SECOND + TOOK, AT + SECOND + TOOK // 2]),
        "layer": np.repeat(["block", "device"], [len(look) + COUNT, COUNT]).tolist(),
        **{name: np.concatenate([values[:400], values, values]) for name, values in WORK.items()},
    }
    watched = Watched(replay.manifest.uuid, [SECOND, 22 * SECOND], replay.manifest.open_replay)
    make_recording(columns, 22 * SECOND, watched=watched).path.rename(watched_path(replay.path))
    found = fidelity(source, replay)
    assert {one.op for one in found.layers} == {"read", "write"}
    for one in found.layers:
        assert one.layer == "block"
        mean = one.figures[0]
        assert mean.b_ns == pytest.approx(mean.a_ns)
