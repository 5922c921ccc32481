"""A recording goes in, the same workload comes out, on its deadlines and with its facts."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from iotrace.replay import Progress, ReplayOptions, replay
from iotrace.schemas import IoFlags, IotraceError, Recording, validate

from ..conftest import MakeRecording
from ..playing import start


def options(disk: Path, **more: object) -> ReplayOptions:
    return ReplayOptions(targets=(str(disk / "target"),), **more)  # type: ignore[arg-type]


def on_disk(recording: Recording, disk: Path, output: Path, **more: object) -> Recording:
    """Replay with direct I/O, or skip where the checkout's file system has none."""
    try:
        return replay(recording, output, options(disk, **more))
    except IotraceError as problem:
        if "direct I/O" in problem.message or "in memory" in problem.message:
            pytest.skip(problem.message)
        raise


@pytest.fixture
def mixed(make_recording: MakeRecording) -> Recording:
    """400 I/Os of two devices over 0.2 s, a tenth of them out of line."""
    random = np.random.default_rng(5)
    rows = 400
    offsets = random.integers(0, 500, rows) * 8192
    offsets[::10] += 100
    return make_recording(
        op=random.choice(["read", "write", "flush"], rows, p=[0.6, 0.35, 0.05]).tolist(),
        issued_ns=np.sort(random.integers(0, 200_000_000, rows)),
        offset_bytes=offsets,
        device_id=random.integers(0, 2, rows).tolist(),
        file_id=random.integers(0, 3, rows).tolist(),
        thread_id=random.integers(100, 104, rows).tolist(),
        flags=random.choice([0, 8, 16, 512], rows).tolist(),
    )


def test_every_io_is_played_in_order_at_its_time(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    out = on_disk(mixed, disk, tmp_path / "out.iotrace", scale=2.0)
    source, played = mixed.read("io").sort_by("issued_ns"), out.read("io").sort_by("intended_ns")
    assert validate(out.path) == []
    assert out.manifest.kind == "replayed"
    assert played["op"].to_pylist() == source["op"].to_pylist()
    assert played["layer"].unique().to_pylist() == ["block"]
    expected = np.rint((source["issued_ns"].to_numpy() - source["issued_ns"][0].as_py()) / 2)
    assert played["intended_ns"].to_pylist() == expected.astype(int).tolist()
    assert pc.all(pc.greater_equal(played["issued_ns"], played["intended_ns"])).as_py()
    assert pc.all(pc.greater(played["completed_ns"], played["issued_ns"])).as_py()
    assert pc.sum(played["error"]).as_py() == 0
    for column in ("file_id", "thread_id"):
        assert played[column].to_pylist() == source[column].to_pylist()


def test_out_of_line_ios_are_widened_and_flagged(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    out = on_disk(mixed, disk, tmp_path / "out.iotrace", scale=4.0)
    source, played = mixed.read("io").sort_by("issued_ns"), out.read("io").sort_by("intended_ns")
    transfers = np.array(source["op"].to_pylist()) != "flush"
    crooked = transfers & (source["offset_bytes"].to_numpy() % 512 != 0)
    flags = played["flags"].to_numpy()
    assert ((flags & IoFlags.ADJUSTED != 0) == crooked).all()
    assert out.manifest.replay is not None
    assert out.manifest.replay.adjusted_ios == crooked.sum()
    block = out.manifest.replay.targets[0].logical_block_bytes
    assert (played["offset_bytes"].to_numpy() % block == 0).all()
    assert (played["size_bytes"].to_numpy()[crooked] == 8192 + block).all()


def test_meaning_is_carried_over_and_history_is_not(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    out = on_disk(mixed, disk, tmp_path / "out.iotrace", scale=4.0)
    source, played = mixed.read("io").sort_by("issued_ns"), out.read("io").sort_by("intended_ns")
    meant = IoFlags.WRITE_THROUGH | IoFlags.READAHEAD
    before, after = source["flags"].to_numpy(), played["flags"].to_numpy()
    assert ((before & meant) == (after & meant)).all()
    assert not (after & IoFlags.MERGED).any()
    assert (after & IoFlags.NO_CACHE).all()


def test_the_manifest_tells_what_was_done(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    out = on_disk(mixed, disk, tmp_path / "out.iotrace", scale=4.0, title="Candidate A")
    facts = out.manifest.replay
    assert facts is not None
    assert out.manifest.title == "Candidate A"
    assert facts.source_uuid == mixed.manifest.uuid
    assert facts.planned_ios == facts.issued_ios == facts.completed_ios == 400
    assert (facts.failed_ios, facts.delayed_ios, facts.skipped_ios) == (0, 0, 0)
    assert [entry.mode for entry in facts.mapping] == ["compact", "compact"]
    assert [entry.name for entry in facts.mapping] == ["sda", "sdb"]
    assert facts.targets[0].filled
    assert facts.direct
    assert not facts.interrupted
    before, after = facts.scaling.before, facts.scaling.after
    assert after.rate_per_s == pytest.approx(4 * before.rate_per_s, rel=1e-4)
    assert out.manifest.quality.verdict == "good"
    assert out.manifest.clock.start_utc_ns > 1_600_000_000 * 10**9
    io = out.read("io")
    lateness = np.sort(pc.subtract(io["issued_ns"], io["intended_ns"]).to_numpy())
    assert facts.lateness_ns_p50 == pytest.approx(lateness[199], rel=1e-3)
    assert facts.lateness_ns_max == lateness[-1]


def test_two_devices_go_to_two_targets(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    first, second = str(disk / "first"), str(disk / "second")
    plan = ReplayOptions(targets=(first,), maps={"sdb": second}, scale=4.0, buffered=True)
    out = replay(mixed, tmp_path / "out.iotrace", plan)
    source, played = mixed.read("io").sort_by("issued_ns"), out.read("io").sort_by("intended_ns")
    assert out.read("devices")["name"].to_pylist() == [first, second]
    assert played["device_id"].to_pylist() == source["device_id"].to_pylist()


def test_a_window_repeated_keeps_its_idle_ends(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    recording = make_recording(issued_ns=[0, 5_000_000, 9_000_000, 90_000_000])
    plan = options(disk, window_ns=(4_000_000, 14_000_000), repeat=3, buffered=True)
    out = replay(recording, tmp_path / "out.iotrace", plan)
    intended = out.read("io")["intended_ns"].to_pylist()
    assert intended == [1_000_000, 5_000_000, 11_000_000, 15_000_000, 21_000_000, 25_000_000]


def test_reads_only_needs_no_permission_and_changes_nothing(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    foreign = disk / "foreign.mdf"
    foreign.write_bytes(b"r" * 65536)
    recording = make_recording(op=["read", "write", "flush", "read"])
    plan = ReplayOptions(targets=(str(foreign),), reads_only=True, buffered=True)
    out = replay(recording, tmp_path / "out.iotrace", plan)
    assert out.manifest.replay is not None
    assert out.manifest.replay.skipped == {"not reads": 2}
    assert out.read("io")["op"].to_pylist() == ["read", "read"]
    assert foreign.read_bytes() == b"r" * 65536


def test_an_existing_file_too_small_is_named(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    (disk / "target").write_bytes(bytes(16384))
    with pytest.raises(IotraceError, match=r"target '.*target' is too small: .* 32,768 bytes, it has 16,384"):
        replay(make_recording(op=["read"] * 4), tmp_path / "out.iotrace", options(disk, buffered=True))
    assert not (tmp_path / "out.iotrace").exists()


def test_the_output_is_checked_before_anything_is_played(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    recording = make_recording(op=["write"])
    with pytest.raises(IotraceError, match="is what is read"):
        replay(recording, recording.path, options(disk))
    assert list(disk.iterdir()) == []


def test_interrupting_keeps_what_was_measured(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    """SIGINT while a replay of 100 s runs, from within it as soon as something was played."""
    recording = make_recording(issued_ns=np.arange(1000) * 100_000_000)
    reports: list[Progress] = []

    def interrupt(report: Progress) -> None:
        reports.append(report)
        if report.phase == "play" and report.completed_ios:
            signal.raise_signal(signal.SIGINT)

    out = replay(recording, tmp_path / "out.iotrace", options(disk, buffered=True), progress=interrupt)
    facts = out.manifest.replay
    assert facts is not None
    assert facts.interrupted
    assert 0 < facts.issued_ios == facts.completed_ios < 1000
    assert out.manifest.rows["io"] == facts.issued_ios
    assert out.manifest.quality.verdict == "usable"
    assert out.manifest.quality.ended.startswith("interrupted after")
    assert {report.phase for report in reports} == {"survey", "fill", "play"}
    assert validate(out.path) == []


def test_a_callback_that_fails_ends_the_run_and_leaves_nothing(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    def fail(report: Progress) -> None:
        if report.phase == "play":
            raise RuntimeError("terminal gone")

    recording = make_recording(issued_ns=np.arange(1000) * 100_000_000)
    with pytest.raises(RuntimeError, match="terminal gone"):
        replay(recording, tmp_path / "out.iotrace", options(disk, buffered=True), progress=fail)
    assert not (tmp_path / "out.iotrace").exists()


def test_failing_ios_are_recorded_and_too_many_end_the_run(
    make_recording: MakeRecording, disk: Path, tmp_path: Path
) -> None:
    """The file shrinks under the replay: reads beyond its end fail one by one."""
    recording = make_recording(issued_ns=np.arange(300) * 1_000_000)
    (disk / "target").write_bytes(bytes(300 * 8192))

    def shrink(report: Progress) -> None:
        if report.completed_ios:
            with (disk / "target").open("r+b") as file:
                file.truncate(0)

    out = replay(
        recording, tmp_path / "out.iotrace", options(disk, buffered=True, max_errors=5), progress=shrink
    )
    facts = out.manifest.replay
    assert facts is not None
    assert facts.ended == "too_many_errors"
    assert 6 <= facts.failed_ios <= 10
    assert facts.errors == {"No data available": facts.failed_ios}
    assert out.manifest.quality.verdict == "usable"


@pytest.mark.parametrize("backend", ["io_uring", "threads"])
def test_a_cap_delays_and_says_so(
    make_recording: MakeRecording, disk: Path, tmp_path: Path, backend: str
) -> None:
    recording = make_recording(issued_ns=[0] * 200)
    try:
        out = replay(
            recording,
            tmp_path / "out.iotrace",
            options(disk, max_in_flight=2, backend=backend, buffered=True),
        )
    except IotraceError as problem:
        pytest.skip(problem.message)
    facts = out.manifest.replay
    assert facts is not None
    assert facts.backend == backend
    assert facts.delayed_ios == 198
    io = out.read("io")
    changes = [(at, 1) for at in io["issued_ns"].to_pylist()] + [
        (at, -1) for at in io["completed_ns"].to_pylist()
    ]
    assert max(np.cumsum([change for _, change in sorted(changes)])) <= 2


WITHOUT_IO_URING = """
import ctypes, struct, sys
from pathlib import Path
from iotrace.replay import ReplayOptions, replay
from iotrace.schemas import Recording

# A seccomp filter: io_uring_setup (425 everywhere) answers EPERM, everything else is allowed.
code = b"".join(struct.pack("HBBI", *step) for step in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)))
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, "no seccomp here"

source, target, output = sys.argv[1:]
facts = replay(Recording.open(source), output, ReplayOptions(targets=(target,), buffered=True)).manifest.replay
print(facts.backend, facts.backend_reason, facts.completed_ios, sep="|")
"""


def test_threads_take_over_where_io_uring_is_forbidden_and_the_result_says_so(
    mixed: Recording, disk: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WITHOUT_IO_URING, mixed.path, disk / "target", tmp_path / "out.iotrace"]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if "no seccomp here" in run.stderr:
        pytest.skip("no seccomp here")
    assert run.returncode == 0, run.stderr
    backend, reason, completed = run.stdout.strip().split("|")
    assert (backend, completed) == ("threads", "400")
    assert reason == "io_uring is switched off (sysctl kernel.io_uring_disabled) or forbidden by a sandbox"


def test_asking_for_what_is_forbidden_is_an_error(mixed: Recording, disk: Path, tmp_path: Path) -> None:
    program = WITHOUT_IO_URING.replace("buffered=True", "buffered=True, backend='io_uring'")
    command = [sys.executable, "-c", program, mixed.path, disk / "target", tmp_path / "out.iotrace"]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if "no seccomp here" in run.stderr:
        pytest.skip("no seccomp here")
    assert "IotraceError: the backend 'io_uring' does not start: Operation not permitted" in run.stderr
    assert not (tmp_path / "out.iotrace").exists()


@pytest.mark.root
def test_it_plays_in_a_container_whose_monotonic_clock_is_set_ahead(
    mixed: Recording, disk: Path, tmp_path: Path
) -> None:
    apart = ["unshare", "--time", "--monotonic=1000", "--fork", "--kill-child", "--"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here")
    with start(mixed, disk / "target", tmp_path / "out.iotrace", within=apart, buffered=True) as run:
        try:
            said, problem = run.communicate(timeout=100)  # it would wait for a thousand seconds
        finally:
            run.kill()
    assert said.splitlines()[-1:] == ["normally|400|400|0"], problem


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"maps": {"sdz": "x"}}, "has no I/O on a device 'sdz'"),
        ({"maps": {5: "x"}}, "has no I/O on a device '5'"),
        ({"targets": ("a", "b")}, "nothing is played on 'b'"),
        ({"destroy_data": ("/dev/sdz",)}, "nothing is played on '/dev/sdz'"),
        ({"targets": ()}, "a replay needs a target"),
        ({"targets": (), "maps": {0: "a"}}, r"source device 1 \(sdb\) has no target"),
        ({"scale": 0.0}, "0 is not a scale"),
        ({"scale": float("nan")}, "nan is not a scale"),
        ({"mode": "stretch"}, "there is no mode 'stretch'"),
        ({"repeat": 0}, "cannot be played 0 times"),
        ({"max_in_flight": 0}, "0 I/Os in flight are not possible"),
        ({"window_ns": (5, 5)}, "the window ends before it starts"),
        ({"backend": "sata"}, "there is no backend 'sata'"),
        ({"file_bytes": 1}, "a target file of 1 bytes is too small"),
    ],
)
def test_options_that_mean_nothing(
    mixed: Recording, tmp_path: Path, more: dict[str, object], message: str
) -> None:
    plan = ReplayOptions(**({"targets": (str(tmp_path / "t"),)} | more))  # type: ignore[arg-type]
    with pytest.raises(IotraceError, match=message) as caught:
        replay(mixed, tmp_path / "out.iotrace", plan)
    assert caught.value.hint
    assert not (tmp_path / "t").exists()
