"""What waited for what, against a plain loop over the rows and a simulation of who waits."""

import heapq
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iotrace.replay import ReplayOptions, replay
from iotrace.replay.plan.dependencies import Dependencies
from iotrace.replay.plan.rows import NAMES, NEVER, Rows

from ..conftest import MakeRecording
from .planning import plan_of

MS = 1_000_000


def rows_of(ios: list[tuple[int, int, int, int]]) -> Rows:
    """From issue, completion, thread and file of each I/O."""
    issued, completed, thread, file = (np.array(column, np.int64) for column in zip(*ios, strict=True))
    columns: dict[str, Any] = {name: np.zeros(len(ios), np.int64) for name in NAMES}
    columns |= {
        "at_ns": issued, "issued_ns": issued, "completed_ns": completed,
        "thread_id": thread.astype(np.int32), "file_id": file.astype(np.int32),
    }  # fmt: skip
    return Rows(**columns)


def waited_for(ios: list[tuple[int, int, int, int]], log: int) -> list[tuple[int, int]]:
    """The definition, row by row: the last completion before the issue on the same log file, else thread."""
    found = []
    for number, (issued, _, thread, file) in enumerate(ios):
        mine = ("log", file) if file == log else ("thread", thread)
        ended = [
            (completed, earlier)
            for earlier, (began, completed, thread_, file_) in enumerate(ios[:number])
            if began <= completed < issued and completed != NEVER
            and mine == (("log", file_) if file_ == log else ("thread", thread_)) and mine != ("thread", -1)
        ]  # fmt: skip
        latest = max(ended, default=None)
        found.append((0, 0) if latest is None else (issued - latest[0], latest[0]))
    return found


ios_in_order = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 60), st.sampled_from([-1, 1, 2]), st.integers(0, 2)),
    min_size=1,
    max_size=40,
).map(
    lambda raw: [
        (at, NEVER if length == 60 else at + length, thread, file)
        for at, length, thread, file in sorted(raw, key=lambda io: io[0])
    ]
)


@given(ios_in_order, st.integers(1, 9))
@example([(0, 0, 1, 0), (0, 1, 1, 0), (1, 1, -1, 0), (1, 1, 1, 0)], 1)
def test_the_last_completion_on_the_thread_or_log_is_waited_for(
    ios: list[tuple[int, int, int, int]], piece: int
) -> None:
    """However the rows are cut into batches. Which of two completions of the same instant it is does not matter."""
    dependencies = Dependencies(np.array([2], np.int32))
    after: list[int] = []
    think: list[int] = []
    rows = rows_of(ios)
    for start in range(0, len(ios), piece):
        found = dependencies.infer(rows[start : start + piece], start)
        after += found[0].tolist()
        think += found[1].tolist()
    expected = waited_for(ios, log=2)
    for number, (thought, completed) in enumerate(expected):
        if completed == 0 and thought == 0:
            assert (after[number], think[number]) == (0, 0)
        else:
            assert ios[number - after[number]][1] == completed
            assert think[number] == thought
    assert dependencies.waiting + dependencies.clocked == len(ios)
    assert dependencies.waiting == sum(step > 0 for step in after)


def test_what_lies_too_far_back_stays_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iotrace.replay.plan.dependencies.DISTANCE_MAX", 5)
    ios = [(0, 1, 1, 0), *[(n, n + 1, -1, 0) for n in range(2, 8)], (20, 21, 1, 0)]
    after, _ = Dependencies(np.zeros(0, np.int32)).infer(rows_of(ios), 0)
    assert after.tolist() == [0] * 8
    near = [*ios[:4], (20, 21, 1, 0)]
    assert Dependencies(np.zeros(0, np.int32)).infer(rows_of(near), 0)[0].tolist() == [0, 0, 0, 0, 4]


def play(intended: list[int], after: list[int], think: list[int], service: list[int]) -> list[int]:
    """When each I/O comes due on storage that takes ``service`` and never queues."""
    due = list(intended)
    waiting: dict[int, list[int]] = {}
    ready: list[tuple[int, int]] = []
    for number, step in enumerate(after):
        if step:
            waiting.setdefault(number - step, []).append(number)
        else:
            heapq.heappush(ready, (intended[number], number))
    while ready:
        at, number = heapq.heappop(ready)
        due[number] = at
        for follower in waiting.pop(number, []):
            heapq.heappush(ready, (at + service[number] + think[follower], follower))
    assert not waiting
    return due


def closed_loop(make_recording: MakeRecording, threads: int = 6, each: int = 100) -> tuple[Any, list[int]]:
    """Threads that read, think, and read again; and how long each read took, in the order of issue."""
    random = np.random.default_rng(9)
    ios = []
    for thread in range(threads):
        at = int(random.integers(0, 5 * MS))
        for _ in range(each):
            took = int(random.integers(MS, 3 * MS))
            ios.append((at, took, thread))
            at += took + int(random.integers(1, 4 * MS))
    ios.sort()
    issued, took, thread = (list(column) for column in zip(*ios, strict=True))
    recording = make_recording(
        issued_ns=issued,
        completed_ns=[at + length for at, length in zip(issued, took, strict=True)],
        thread_id=thread,
    )
    return recording, took


def columns(table: Any) -> tuple[list[int], list[int], list[int]]:
    return tuple(table[name].to_pylist() for name in ("intended_ns", "after", "think_ns"))  # type: ignore[return-value]


def test_at_1x_on_equal_storage_every_io_comes_when_it_was_recorded(make_recording: MakeRecording) -> None:
    recording, took = closed_loop(make_recording)
    plan, table = plan_of(recording, mode="think")
    due = play(*columns(table), service=took)
    recorded = recording.read("io")["issued_ns"].to_numpy()
    assert due == (recorded - recorded[0]).tolist()
    assert plan.describe()["dependencies"].waiting_ios == 6 * 99


def test_faster_storage_pulls_later_ios_forward(make_recording: MakeRecording) -> None:
    recording, took = closed_loop(make_recording, threads=1)
    _, table = plan_of(recording, mode="think")
    due = play(*columns(table), service=[0] * len(took))
    assert due[-1] == table["intended_ns"].to_pylist()[-1] - sum(took[:-1])


def test_the_scale_divides_the_time_thought_and_leaves_the_storage_alone(
    make_recording: MakeRecording,
) -> None:
    recording, took = closed_loop(make_recording, threads=1)
    _, plain = plan_of(recording, mode="think")
    _, table = plan_of(recording, mode="think", scale=4.0)
    thought = np.array(plain["think_ns"].to_pylist())
    due = play(*columns(table), service=took)
    assert due[-1] == pytest.approx(thought.sum() / 4 + sum(took[:-1]), abs=len(took))


@pytest.mark.parametrize(("service_us", "scale"), [(0, 1.0), (1500, 1.0), (6000, 1.0), (1500, 4.0)])
def test_a_model_waits_as_storage_does(
    service_us: int, scale: float, make_recording: MakeRecording, tmp_path: Path
) -> None:
    """In virtual time every I/O comes due exactly when it does on storage that takes so long and never queues."""
    recording, took = closed_loop(make_recording)
    file = tmp_path / "one.toml"
    file.write_text(
        f'[[disk]]\nname = "one"\n[disk.service]\nread_us = {service_us}\ndistribution = "constant"\n',
        "utf-8",
    )
    options = ReplayOptions(targets=(f"model:{file}",), mode="think", scale=scale)
    out = replay(recording, tmp_path / "out.iotrace", options)
    _, table = plan_of(recording, mode="think", scale=scale)
    due = play(*columns(table), service=[service_us * 1000] * len(took))
    io = out.read("io")
    assert sorted(io["intended_ns"].to_pylist()) == sorted(due)
    assert io["intended_ns"].to_pylist() == io["issued_ns"].to_pylist()
    facts = out.manifest.replay
    assert facts is not None
    assert facts.scaling.after.span_ns == max(due) - min(due)


def test_a_real_run_waits_and_says_what_the_load_became(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    """Every I/O comes when the one before it on its thread has ended and the recorded time of thought is over."""
    recording, _ = closed_loop(make_recording, threads=2, each=40)
    options = ReplayOptions(targets=(str(disk / "target"),), buffered=True, mode="think")
    out = replay(recording, tmp_path / "out.iotrace", options)
    io = out.read("io")
    intended, issued, completed = (
        io[name].to_numpy() for name in ("intended_ns", "issued_ns", "completed_ns")
    )
    source = recording.read("io")
    thread = source["thread_id"].to_numpy()
    for one in (0, 1):
        mine = np.flatnonzero(io["thread_id"].to_numpy() == one)
        recorded = source.filter(thread == one)
        thought = recorded["issued_ns"].to_numpy()[1:] - recorded["completed_ns"].to_numpy()[:-1]
        assert (intended[mine][1:] == completed[mine][:-1] + thought).all()
        assert (issued[mine] >= intended[mine]).all()
    facts = out.manifest.replay
    assert facts is not None
    before, after = facts.scaling.before, facts.scaling.after
    assert after.ios == before.ios == 80
    assert after.span_ns == intended.max() - intended.min()
    assert after.rate_per_s == pytest.approx(79e9 / after.span_ns)
    assert after.footprint_bytes == before.footprint_bytes
    assert facts.dependencies.waiting_ios == 78


def test_nothing_waits_across_the_passes_of_a_loop(make_recording: MakeRecording) -> None:
    recording, _ = closed_loop(make_recording, threads=2, each=5)
    _, table = plan_of(recording, mode="think", repeat=3)
    after = table["after"].to_pylist()
    assert after == after[:10] * 3
