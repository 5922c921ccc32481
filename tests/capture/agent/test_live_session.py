"""The Windows program records a live trace session: under Wine, against a stand-in for Windows' event tracing.

Wine shows that the program runs and what it asks of Windows, not how Windows answers: the answers are the
stand-in's, by documentation.
"""

import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import Recording, validate

from . import plays
from .plays import HERTZ, READ, WRITE, When
from .windows import Finished, Host, windows_path

MakeHost = Callable[..., Host]

# Only one agent may record at a time.
pytestmark = pytest.mark.xdist_group("wine")

SAMPLE = "perfview_net.4.5.2.x64"
TICK_NS = 1_000_000_000 // HERTZ
UNIX_EPOCH_FILETIME = 116_444_736_000_000_000
SYSTEM_LOGGER_IN_REAL_TIME = 0x0200_0000 | 0x100
PROCESS_THREAD_DISK_AND_NAMES = 0x1 | 0x2 | 0x100 | 0x200


def record(host: Host, tmp_path: Path, *options: str) -> Finished:
    return host.run("record", "--output", windows_path(tmp_path / "out"), *options)


def imported(folder: Path, tmp_path: Path) -> Recording:
    recording = import_files([folder], tmp_path / "live.iotrace")
    assert validate(recording.path) == []
    return recording


def rows_in(stream: Path) -> int:
    """Rows of the whole batches of a stream that grows, as Arrow's own reader counts them."""
    rows = 0
    try:
        with pa.OSFile(str(stream)) as file, pa.ipc.open_stream(file) as reader:
            while True:
                rows += len(reader.read_next_batch())
    except (StopIteration, OSError, pa.ArrowException):
        return rows


def manifest_of(tmp_path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((tmp_path / "out" / "manifest.json").read_text())
    return manifest


def rows_of(recording: Recording) -> list[dict[str, Any]]:
    """Every I/O with what its ids stand for, and times relative to the first completion."""
    io = recording.read("io").to_pylist()
    names = {
        table: {row[key]: row for row in recording.read(table).to_pylist()}
        for table, key in (("files", "file_id"), ("processes", "process_id"), ("devices", "device_id"))
    }
    first = min(row["completed_ns"] for row in io)
    return sorted(
        (
            {
                "completed": row["completed_ns"] - first,
                "issued": row["issued_ns"] - first,
                "file": (names["files"].get(row["file_id"]) or {}).get("path"),
                "process": (names["processes"].get(row["process_id"]) or {}).get("os_process_id"),
                "disk": (names["devices"].get(row["device_id"]) or {}).get("name"),
                **{
                    key: row[key]
                    for key in ("op", "offset_bytes", "size_bytes", "thread_id", "flags", "layer")
                },
            }
            for row in io
        ),
        key=lambda row: (row["completed"] // 1000, row["offset_bytes"] or 0, row["issued"]),
    )


def without_drives(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Paths without drive letters: a live session has those of the host it runs on, here Wine's."""
    for row in rows:
        row["file"] = row["file"] and re.sub(r"^[A-Z]:", "", row["file"])
    return rows


@pytest.fixture
def steady() -> bytes:
    """Four seconds of it."""
    return steady_for(400)


def steady_for(count: int) -> bytes:
    """A read and a write every 10 ms, on two disks; names of both files come when a session stops."""
    play = [
        plays.disk_io(op, ticks=(place + 1) * HERTZ // 100, disk=disk, offset=place * 8192, key=0xA000 + disk)
        for place in range(count)
        for op, disk in ((READ, 0), (WRITE, 1))
    ]
    play += [
        plays.name(plays.NAME_LISTED, 0xA000, r"\Device\HarddiskVolume7\data\sales.mdf", when=When.AT_STOP),
        plays.name(plays.NAME_LISTED, 0xA001, r"\Device\HarddiskVolume7\log\sales.ldf", when=When.AT_STOP),
    ]
    return b"".join(play)


@pytest.mark.slow
def test_a_real_trace_comes_out_of_a_live_session_as_its_file_is_imported(
    host: MakeHost, samples: Path, tmp_path: Path
) -> None:
    machine = host(plays.sample(samples / "etl" / f"{SAMPLE}.btl.gz"), lost_events=7, lost_after=1000)
    agent = machine.start("record", "--output", windows_path(tmp_path / "out"), "--for", "10m")
    agent.wait_for("played")
    stop = Host(tmp_path / "another-window")
    assert stop.run("stop").status == 0
    end = agent.finish()
    assert end.status == 0, end
    assert "7 events" in end.out
    assert "lost" in end.out

    live = imported(tmp_path / "out", tmp_path)
    ops = Counter(live.read("io").column("op").to_pylist())
    assert dict(ops) == {"read": 1208, "write": 21, "flush": 2}
    quality = manifest_of(tmp_path)["quality"]
    assert (quality["events_lost"], quality["buffers_lost"], quality["ended"]) == (7, 0, "normally")
    assert sum(loss["events"] for loss in quality["losses"]) == 7

    with zipfile.ZipFile(samples / "etl" / f"{SAMPLE}.etl.zip") as archive:
        archive.extractall(tmp_path / "etl")
    (log,) = list((tmp_path / "etl").rglob("*.etl"))
    expected = without_drives(rows_of(import_files([log], tmp_path / "etl.iotrace")))
    got = without_drives(rows_of(live))
    for want, have in zip(expected, got, strict=True):
        assert abs(want.pop("completed") - have.pop("completed")) <= TICK_NS
        assert abs(want.pop("issued") - have.pop("issued")) <= TICK_NS
        assert have == want


@pytest.mark.slow
def test_what_the_session_asks_of_windows(host: MakeHost, steady: bytes, tmp_path: Path) -> None:
    machine = host(steady)
    end = record(machine, tmp_path, "--for", "6s")
    assert end.status == 0, end
    calls = [call for call in machine.calls if call.get("session") == "iotrace-agent"]
    (start,) = [call for call in calls if call["call"] == "StartTraceW"]
    assert start["mode"] & SYSTEM_LOGGER_IN_REAL_TIME == SYSTEM_LOGGER_IN_REAL_TIME
    assert not start["file"]
    assert (start["clock"], start["flush_s"], start["flags"]) == (1, 1, 0)
    assert 256 <= start["buffer_kb"] <= 1024
    assert start["buffers_min"] * start["buffer_kb"] >= 64 << 10
    assert start["buffers_max"] >= start["buffers_min"]
    flags = [call for call in calls if call["call"] == "TraceSetInformation" and call["class"] == 4]
    assert [call["flags"] for call in flags] == [PROCESS_THREAD_DISK_AND_NAMES]
    (opened,) = [call for call in calls if call["call"] == "OpenTraceW"]
    assert opened["mode"] == 0x1000_1100  # real time, event records, raw times
    assert [call["what"] for call in calls if call["call"] == "ControlTraceW"].count("stop") >= 1
    assert "NT Kernel Logger" not in {call.get("session") for call in machine.calls}
    assert machine.sessions == set()


@pytest.mark.slow
def test_names_that_come_only_when_a_session_stops_are_given_to_every_io(
    host: MakeHost, steady: bytes, tmp_path: Path
) -> None:
    assert record(host(steady), tmp_path, "--for", "6s").status == 0
    rows = rows_of(imported(tmp_path / "out", tmp_path))
    ends = Counter((row["op"], row["disk"], row["file"].rsplit("\\", 1)[-1]) for row in rows)
    assert ends == {("read", "disk 0", "sales.mdf"): 400, ("write", "disk 1", "sales.ldf"): 400}
    assert {row["size_bytes"] for row in rows} == {8192}


@pytest.mark.slow
def test_a_key_that_comes_back_stands_for_the_file_of_its_time(host: MakeHost, tmp_path: Path) -> None:
    second = HERTZ
    play = (
        plays.name(plays.NAME_CREATED, 0xB000, r"\Device\HarddiskVolume7\a.mdf", ticks=second // 10)
        + plays.disk_io(READ, ticks=second // 5, key=0xB000, offset=1 << 20)
        + plays.name(plays.NAME_DELETED, 0xB000, r"\Device\HarddiskVolume7\a.mdf", ticks=second // 4)
        + plays.name(plays.NAME_CREATED, 0xB000, r"\Device\HarddiskVolume7\b.ldf", ticks=second // 3)
        + plays.disk_io(WRITE, ticks=second // 2, key=0xB000, offset=2 << 20)
        + plays.name(plays.NAME_LISTED, 0xB000, r"\Device\HarddiskVolume7\b.ldf", when=When.AT_STOP)
    )
    assert record(host(play), tmp_path, "--for", "3s").status == 0
    rows = rows_of(imported(tmp_path / "out", tmp_path))
    assert [(row["op"], row["file"].rsplit("\\", 1)[-1]) for row in rows] == [
        ("read", "a.mdf"),
        ("write", "b.ldf"),
    ]


@pytest.mark.slow
def test_a_flush_has_the_thread_that_stands_behind_its_request(host: MakeHost, tmp_path: Path) -> None:
    assert record(host(plays.flush(HERTZ // 10, thread=4321)), tmp_path, "--for", "3s").status == 0
    (row,) = rows_of(imported(tmp_path / "out", tmp_path))
    assert (row["op"], row["thread_id"], row["completed"] - row["issued"]) == ("flush", 4321, 5_000_000)


@pytest.mark.slow
def test_losses_that_only_the_stop_tells_are_in_the_manifest(
    host: MakeHost, steady: bytes, tmp_path: Path
) -> None:
    end = record(host(steady, lost_buffers=2, lost_at_stop=3), tmp_path, "--for", "3s")
    assert end.status == 0, end
    quality = manifest_of(tmp_path)["quality"]
    assert (quality["events_lost"], quality["buffers_lost"]) == (3, 2)
    assert quality["verdict"] == "poor"


@pytest.mark.parametrize(
    ("scenario", "words", "way_out"),
    [
        ({"start_error": 5}, "access denied", "Run as administrator"),
        ({"flags_error": 5}, "access denied", "Run as administrator"),
        ({"start_error": 1450}, "1450", "logman query -ets"),
    ],
)
def test_what_windows_refuses_is_one_sentence_with_the_way_out(
    host: MakeHost, tmp_path: Path, scenario: dict[str, int], words: str, way_out: str
) -> None:
    machine = host(**scenario)
    end = record(machine, tmp_path, "--for", "3s")
    assert end.status == 2, end
    assert words in end.error
    assert way_out in end.error
    assert end.error.startswith("error: ")
    assert "Exception" not in end.error
    assert "   at " not in end.error
    assert not (tmp_path / "out").exists()
    assert machine.sessions == set()


def test_a_folder_that_is_missing_or_in_use_is_refused_before_a_session_starts(
    host: MakeHost, tmp_path: Path
) -> None:
    machine = host()
    end = machine.run("record", "--output", windows_path(tmp_path / "nowhere" / "out"), "--for", "3s")
    assert end.status == 2, end
    assert "nowhere" in end.error
    assert "--output" in end.error
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    end = record(machine, tmp_path, "--for", "3s")
    assert end.status == 2, end
    assert "there already" in end.error
    assert "--output" in end.error
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert not [call for call in machine.calls if call["call"] == "StartTraceW"]


@pytest.mark.slow
def test_a_killed_agent_leaves_its_batches_and_its_session_which_the_next_replaces(
    host: MakeHost, steady: bytes, tmp_path: Path
) -> None:
    machine = host(steady, others="NT Kernel Logger;AcmeMonitor")
    agent = machine.start("record", "--output", windows_path(tmp_path / "out"))
    agent.wait_until(lambda: rows_in(tmp_path / "out" / "io.arrows") == 800)
    agent.kill()
    assert "iotrace-agent" in machine.sessions

    live = imported(tmp_path / "out", tmp_path)
    assert live.read("io").num_rows == 800
    assert "killed" in live.manifest.quality.ended or "cut" in live.manifest.quality.ended

    end = machine.run("record", "--output", windows_path(tmp_path / "next"), "--for", "6s")
    assert end.status == 0, end
    assert "iotrace-agent" in end.error
    assert "left" in end.error
    stopped = {
        call["session"]
        for call in machine.calls
        if call["call"] == "ControlTraceW" and call["what"] == "stop"
    }
    assert stopped <= {"iotrace-agent", "iotrace-agent-names"}
    assert import_files([tmp_path / "next"], tmp_path / "next.iotrace").read("io").num_rows == 800


def test_a_session_of_our_name_that_cannot_be_stopped_is_one_sentence_with_the_way_out(
    host: MakeHost, tmp_path: Path
) -> None:
    machine = host(stop_error=5)
    (machine.folder / "session-iotrace-agent").touch()
    end = record(machine, tmp_path, "--for", "3s")
    assert end.status == 2, end
    assert end.error.count("error: ") == 1
    assert "Exception" not in end.error
    assert "logman stop iotrace-agent -ets" in end.error or "Run as administrator" in end.error
    assert not (tmp_path / "out").exists()


def test_a_session_that_another_program_stops_ends_the_recording_and_is_told(
    host: MakeHost, steady: bytes, tmp_path: Path
) -> None:
    end = record(host(steady, end_after=300), tmp_path, "--for", "60s")
    assert end.status == 0, end
    assert "another program" in end.error
    live = imported(tmp_path / "out", tmp_path)
    assert live.read("io").num_rows == 300
    assert "another program" in live.manifest.quality.ended


@pytest.mark.slow
def test_every_event_of_a_flood_is_a_row_or_a_counted_loss(host: MakeHost, tmp_path: Path) -> None:
    made = 1_000_000
    machine = host(rate=500_000, count=made, disks=2, bounded=1)
    agent = machine.start("record", "--output", windows_path(tmp_path / "out"), "--for", "10m")
    played = agent.wait_for("played")
    assert Host(tmp_path / "another-window").run("stop").status == 0
    end = agent.finish()
    assert end.status == 0, end
    recording = imported(tmp_path / "out", tmp_path)
    io = recording.read("io")
    lost = manifest_of(tmp_path)["quality"]["events_lost"]
    assert lost == played["lost"]
    assert io.num_rows + lost == made
    assert sorted(pc.unique(io.column("device_id")).to_pylist()) == [0, 1]


@pytest.mark.slow
def test_an_agent_that_stands_still_loses_what_the_buffers_cannot_hold_and_says_so(
    host: MakeHost, tmp_path: Path
) -> None:
    made = 200_000
    machine = host(rate=50_000, count=made, bounded=1, room=20_000)
    agent = machine.start("record", "--output", windows_path(tmp_path / "out"), "--for", "10m")
    agent.wait_for("OpenTraceW")
    agent.freeze(seconds=3)
    agent.wait_for("played")
    assert Host(tmp_path / "another-window").run("stop").status == 0
    assert agent.finish().status == 0
    quality = manifest_of(tmp_path)["quality"]
    assert quality["events_lost"] > 0
    assert imported(tmp_path / "out", tmp_path).read("io").num_rows + quality["events_lost"] == made
    assert quality["losses"]
    assert all(loss["at_ns"] > 0 for loss in quality["losses"])


@pytest.mark.slow
def test_operations_on_files_and_requests_of_the_port_driver_are_layers_of_their_own(
    host: MakeHost, tmp_path: Path
) -> None:
    second = HERTZ
    play = b"".join(
        plays.file_read(at - 6_000, 7_000, key=0xA000, offset=place * 8192)
        + plays.port_request(at - 10, of=at, duration_us=150)
        + plays.disk_io(READ, at, offset=(1 << 20) + place * 8192, key=0xA000, response=2_000)
        for place, at in enumerate(range(second // 2, second, second // 100))
    )
    play += plays.name(
        plays.NAME_LISTED, 0xA000, r"\Device\HarddiskVolume7\data\sales.mdf", when=When.AT_STOP
    )
    machine = host(play)
    end = record(machine, tmp_path, "--for", "4s", "--layers", "block,filesystem,device")
    assert end.status == 0, end
    rows = rows_of(imported(tmp_path / "out", tmp_path))
    took = Counter(
        (row["layer"], row["op"], row["completed"] - row["issued"], row["size_bytes"]) for row in rows
    )
    assert took == {
        ("filesystem", "read", 700_000, 8192): 50,
        ("block", "read", 200_000, 8192): 50,
        ("device", "read", 150_000, 8192): 50,
    }
    assert {row["file"].rsplit("\\", 1)[-1] for row in rows} == {"sales.mdf"}
    in_the_file = sorted(row["offset_bytes"] for row in rows if row["layer"] == "filesystem")
    assert in_the_file == [place * 8192 for place in range(50)]
    enabled = [call for call in machine.calls if call["call"] == "EnableTraceEx2" and call["code"] == 1]
    assert [(call["provider"], call["any"]) for call in enabled] == [("c4636a1e", 0x100000)]


@pytest.mark.slow
def test_the_live_view_tells_each_second_of_each_disk_and_kind_of_file(host: MakeHost) -> None:
    # Twelve seconds: the names of open files take the agent one or two.
    machine = host(steady_for(1200))
    agent = machine.start("watch", "--json")

    def seconds() -> list[dict[str, Any]]:
        return [{line["name"]: line for line in second["lines"]} for second in machine.json_lines("out")]

    def total(name: str, what: str) -> int:
        return sum(second.get(name, {}).get(what, 0) for second in seconds())

    agent.wait_until(
        lambda: total("disk 0", "reads_per_second") + total("disk 1", "writes_per_second") >= 2400
    )
    agent.kill()
    lines = seconds()
    full = [second for second in lines if second.get("disk 0", {}).get("reads_per_second", 0) >= 50]
    assert full
    for second in full:
        disk = second["disk 0"]
        assert disk["writes_per_second"] == 0
        assert disk["bytes_per_second"] == disk["reads_per_second"] * 8192
        assert disk["ios_to_8k"] == disk["reads_per_second"]
        # Each took 200 µs; bins are a sixteenth wide.
        assert (
            200_000 <= disk["latency_ns_p50"] <= disk["latency_ns_p99"] <= disk["latency_ns_max"] == 200_000
        )
        assert disk["in_flight_mean"] == pytest.approx(disk["reads_per_second"] * 200e-6)
    assert (total("disk 0", "reads_per_second"), total("disk 1", "writes_per_second")) == (1200, 1200)
    assert {"data", "log"} <= {name for second in lines for name in second}


def test_doctor_tells_what_is_there_and_what_to_do(host: MakeHost, tmp_path: Path) -> None:
    machine = host(others="NT Kernel Logger;AcmeMonitor")
    (machine.folder / "session-iotrace-agent").touch()
    end = machine.run("doctor", "--json", "--output", windows_path(tmp_path), "--for", "60m")
    assert end.status == 0, end
    told = json.loads(end.out)
    assert told["can_record"] is True
    checks = {check["name"]: check for check in told["checks"]}
    assert all(check["advice"] for check in checks.values())
    assert "3 trace sessions" in checks["kernel sessions"]["found"]
    assert "NT Kernel Logger" in checks["kernel sessions"]["found"]
    assert "AcmeMonitor" not in checks["kernel sessions"]["found"]
    assert (checks["leftovers"]["level"], "iotrace-agent" in checks["leftovers"]["found"]) == (
        "warning",
        True,
    )
    assert checks["StorPort events"]["level"] == "ok"
    assert "10,000,000" in checks["clock"]["found"]
    assert not [call for call in machine.calls if call["call"] == "StartTraceW"]
