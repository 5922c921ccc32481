"""The Windows program and a SQL Server: under Wine, against a stand-in for the server on this machine.

What needs Microsoft's XELite runs where XELITE_DLL names it.
"""

import importlib.util
import json
import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

from . import plays, windows
from .plays import HERTZ, READ, When
from .windows import Host, SqlServer, windows_path

MakeHost = Callable[..., Host]
MakeServer = Callable[..., SqlServer]

# Only one agent may record at a time.
pytestmark = pytest.mark.xdist_group("wine")

XELITE = os.environ.get("XELITE_DLL", "")
SECOND_NS = 1_000_000_000

_SPEC = importlib.util.spec_from_file_location(
    "xel_build", Path(__file__).parents[2] / "fixtures" / "xel" / "build.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
build: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)


@pytest.fixture
def server(built: None, tmp_path: Path) -> Iterator[MakeServer]:
    """Start a stand-in for a SQL Server."""
    started = []

    def start(**scenario: Any) -> SqlServer:
        path = tmp_path / "sql-server.json"
        path.write_text(json.dumps(scenario))
        started.append(windows.sql_server(path))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def xel_of(path: Path, *events: bytes) -> Path:
    path.write_bytes(build.file(list(events)))
    return path


def with_xelite(machine: Host) -> Host:
    """The same host with XELite beside the program."""
    if not Path(XELITE).is_file():
        pytest.skip("XELITE_DLL names no DLL of XELite: what needs it of --server was not tried")
    machine.program = machine.folder / windows.EXE.name
    shutil.copy(windows.EXE, machine.program)
    shutil.copy(XELITE, machine.folder / "Microsoft.SqlServer.XEvent.XELite.dll")
    return machine


def reads(count: int, **of_them: int) -> bytes:
    """A read every 10 ms, of a file that is named when a session stops."""
    return b"".join(
        plays.disk_io(READ, ticks=(place + 1) * HERTZ // 100, offset=place * 8192, key=0xA000, **of_them)
        for place in range(count)
    ) + plays.name(plays.NAME_LISTED, 0xA000, r"\Device\HarddiskVolume7\data\sales.mdf", when=When.AT_STOP)


@pytest.mark.slow
def test_events_of_a_sql_server_on_this_host_stay_in_its_files_which_the_import_reads(
    host: MakeHost, server: MakeServer, tmp_path: Path
) -> None:
    # One every ten seconds from now on, so that the recording lies among them whenever Wine has started it.
    now = (time.time_ns() - build.BASE_UTC_NS) // 100
    facts = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 3, "path": r"E:\data\sales.mdf"}
    events = [
        build.event("file_read_completed", now + place * 10 * HERTZ, facts | {"offset": place * 8192})
        for place in range(61)
    ]
    xel = xel_of(tmp_path / "session.xel", *events)
    log = tmp_path / "Log"
    log.mkdir()
    sql = server(
        host=socket.gethostname().split(".")[0][:15],
        errorLog=windows_path(log / "ERRORLOG"),
        logFolder=str(log),
        xel=str(xel),
    )
    end = host(reads(100)).run(
        "record", "--output", windows_path(tmp_path / "out"), "--for", "3s", "--server", sql.name, "--json"
    )
    assert end.status == 0, end
    told = sql.finish()
    assert told["syntax_errors"] == []
    assert told["sessions"] == []
    kinds = [
        word
        for statement in told["received"]
        for word in ("CREATE EVENT", "STATE = START", "STATE = STOP", "DROP EVENT")
        if word in statement
    ]
    assert kinds == ["CREATE EVENT", "STATE = START", "STATE = STOP", "DROP EVENT"]
    # Moved, not copied: nothing is left behind on the server.
    assert list(log.iterdir()) == []
    assert len(list((tmp_path / "out").glob("iotrace_agent_*.xel"))) == 1
    (stays,) = [note for note in json.loads(end.out)["notes"] if "the sql layer stays" in note]
    assert "XELite is not beside iotrace-agent" in stays
    recording = import_files([tmp_path / "out"], tmp_path / "live.iotrace")
    assert validate(recording.path) == []
    layers = Counter(recording.read("io").column("layer").to_pylist())
    assert dict(layers) == {"block": 100, "sql": 61}
    paths = {row["path"] for row in recording.read("files").to_pylist()}
    assert r"E:\data\sales.mdf" in paths
    assert recording.read("xevents").num_rows == 61


@pytest.mark.slow
def test_events_of_a_sql_server_become_rows_where_xelite_is_and_the_import_is_the_same(
    host: MakeHost, server: MakeServer, samples: Path, tmp_path: Path
) -> None:
    machine = with_xelite(host(reads(100)))
    # The sample may be read-only, and a session's file is not.
    sample = tmp_path / "session.xel"
    sample.write_bytes((samples / "xel" / "sqltoolsservice_TestXel_0.xel").read_bytes())
    log = tmp_path / "Log"
    log.mkdir()
    # What the file itself says of its durations.
    stated = ("rpc_completed", "sql_batch_completed", "logout", "existing_connection")
    sql = server(
        host=socket.gethostname().split(".")[0][:15],
        errorLog=windows_path(log / "ERRORLOG"),
        logFolder=str(log),
        xel=str(sample),
        durations=dict.fromkeys(stated, "in microseconds"),
    )
    out = tmp_path / "out"
    end = machine.run("record", "--output", windows_path(out), "--for", "3s", "--server", sql.name, "--json")
    assert end.status == 0, end
    told = sql.finish()
    assert (told["syntax_errors"], told["sessions"]) == ([], [])
    assert any("149 events of SQL Server became rows" in note for note in json.loads(end.out)["notes"])
    assert list(log.iterdir()) == []
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["sql"]
    assert list(out.glob("*.xel")) == []
    # The file is of 2017.
    by_xelite = import_files([out], tmp_path / "by-xelite.iotrace", apart_in_time=True)
    assert validate(by_xelite.path) == []
    # The same recording with the file that the rows came from, as it is where XELite is not.
    shutil.rmtree(out / "sql")
    shutil.copy(sample, out)
    by_iotrace = import_files([out], tmp_path / "by-iotrace.iotrace", apart_in_time=True)
    assert by_xelite.read("xevents").num_rows == 149
    for table in ("xevents", "io", "waits", "markers", "files", "devices", "processes"):
        assert rows_of(by_xelite, table) == rows_of(by_iotrace, table), table
    one, other = by_xelite.manifest, by_iotrace.manifest
    assert one.clock.start_utc_ns == other.clock.start_utc_ns
    assert (one.quality.verdict, one.quality.events_lost) == (
        other.quality.verdict,
        other.quality.events_lost,
    )


def rows_of(recording: Any, table: str) -> list[str]:
    """Its rows in any order, with JSON as what it says."""
    return sorted(
        json.dumps(
            {key: json.loads(value) if key in {"fields", "actions"} else value for key, value in row.items()},
            sort_keys=True,
            default=str,
        )
        for row in recording.read(table).to_pylist()
    )


@pytest.mark.slow
def test_a_file_that_xelite_cannot_read_stays_for_the_import(
    host: MakeHost, server: MakeServer, tmp_path: Path
) -> None:
    machine = with_xelite(host(reads(100)))
    # Constructed after the documentation: the import's reader takes it, and Microsoft's does not.
    facts = {"database_id": 7, "file_id": 1, "size": 8192, "duration": 3, "path": r"E:\data\sales.mdf"}
    now = (time.time_ns() - build.BASE_UTC_NS) // 100
    events = [build.event("file_read_completed", now + place * 10 * HERTZ, facts) for place in range(61)]
    xel = xel_of(tmp_path / "session.xel", *events)
    log = tmp_path / "Log"
    log.mkdir()
    sql = server(
        host=socket.gethostname().split(".")[0][:15],
        errorLog=windows_path(log / "ERRORLOG"),
        logFolder=str(log),
        xel=str(xel),
    )
    out = tmp_path / "out"
    end = machine.run("record", "--output", windows_path(out), "--for", "3s", "--server", sql.name)
    assert end.status == 0, end
    assert "the sql layer stays in its .xel files" in end.out
    (kept,) = out.glob("*.xel")
    assert kept.read_bytes() == xel.read_bytes()
    assert [path for path in out.iterdir() if path.is_dir()] == []
    recording = import_files([out], tmp_path / "kept.iotrace")
    assert Counter(recording.read("io").column("layer").to_pylist()) == {"block": 100, "sql": 61}


@pytest.mark.slow
def test_files_of_a_sql_server_on_another_host_are_named_with_where_they_are(
    host: MakeHost, server: MakeServer, tmp_path: Path
) -> None:
    sql = server(host="ELSEWHERE", errorLog=r"D:\MSSQL\Log\ERRORLOG")
    end = host(reads(100)).run(
        "record", "--output", windows_path(tmp_path / "out"), "--for", "3s", "--server", sql.name
    )
    assert end.status == 0, end
    assert sql.finish()["sessions"] == []
    assert "ELSEWHERE" in end.out
    assert r"D:\MSSQL\Log\iotrace_agent_" in end.out


def test_a_sql_server_that_grants_nothing_is_one_sentence_with_the_way_out(
    host: MakeHost, server: MakeServer, tmp_path: Path
) -> None:
    sql = server(mayAlter=False)
    machine = host()
    end = machine.run(
        "record", "--output", windows_path(tmp_path / "out"), "--for", "3s", "--layers", "block,sql", "--server",
        sql.name,
    )  # fmt: skip
    assert end.status == 2, end
    assert "GRANT ALTER ANY EVENT SESSION" in end.error
    assert end.error.count("error: ") == 1
    assert "Exception" not in end.error
    assert machine.sessions == set()


@pytest.mark.slow
@pytest.mark.parametrize("may_alter", [True, False])
def test_doctor_tells_what_a_login_may_do(host: MakeHost, server: MakeServer, may_alter: bool) -> None:
    sql = server(mayAlter=may_alter)
    machine = host()
    end = machine.run("doctor", "--json", "--server", sql.name)
    (check,) = [check for check in json.loads(end.out)["checks"] if check["name"] == "SQL Server"]
    assert sql.name in check["found"]
    assert "16.0" in check["found"]
    assert check["level"] == ("ok" if may_alter else "warning")
    assert check["advice"] == (
        f"--server {sql.name}"
        if may_alter
        else "a sysadmin grants it: GRANT ALTER ANY EVENT SESSION TO [LOGIN]"
    )
    # It looks, and makes nothing.
    assert all(text.startswith("SELECT") for text in sql.finish()["received"])


@pytest.mark.parametrize("command", ["watch", "keep"])
def test_live_events_without_xelite_are_refused_in_one_sentence(
    host: MakeHost, tmp_path: Path, command: str
) -> None:
    machine = host()
    kept = ["--output", windows_path(tmp_path / "kept"), "--last", "1m", "--when", "lost > 0"]
    end = machine.run(command, "--server", "127.0.0.1,1", *(kept if command == "keep" else []))
    assert end.status == 2, end
    assert "XELite" in end.error
    assert "leave --server out" in end.error
    assert end.error.count("error: ") == 1
    assert machine.sessions == set()


@pytest.mark.slow
def test_the_live_view_shows_the_rare_events_of_a_sql_server(
    host: MakeHost, server: MakeServer, samples: Path
) -> None:
    machine = with_xelite(host(reads(400)))
    sql = server(live=str(samples / "xel" / "sqltoolsservice_TestXel_0.xel"))
    listed = (samples / "xel" / "sqltoolsservice_TestXel_0.xelite.txt").read_text().splitlines()
    agent = machine.start("watch", "--json", "--server", sql.name)

    def texts() -> list[str]:
        return [marker["text"] for line in machine.json_lines("out") for marker in line["markers"]]

    agent.wait_until(lambda: len(texts()) >= 149)
    agent.wait_for("played")
    agent.kill()
    names = [line.split("\t")[1] for line in listed if not line.startswith("#")]
    assert [text.split(":")[0] for text in texts()] == names
    assert sql.finish()["syntax_errors"] == []


@pytest.mark.slow
@pytest.mark.parametrize("has_server", [False, True])
def test_the_flight_recorder_keeps_what_came_before_its_condition_and_after(
    host: MakeHost, server: MakeServer, samples: Path, tmp_path: Path, has_server: bool
) -> None:
    # In the third second one read of a hundred takes 150 ms; before and after all take 200 µs.
    slow = plays.disk_io(READ, ticks=3 * HERTZ, offset=1 << 30, key=0xA000, response=1_500_000)
    machine = host(reads(1200) + slow)
    kept = tmp_path / "kept"
    words = ["keep", "--output", windows_path(kept), "--last", "1m", "--after", "3s", "--when", "max > 100ms"]
    sql = None
    if has_server:
        machine = with_xelite(machine)
        sql = server(live=str(samples / "xel" / "sqltoolsservice_TestXel_0.xel"))
        words += ["--server", sql.name]
    agent = machine.start(*words)
    agent.wait_until(lambda: any(kept.glob("incident-*")))
    assert Host(tmp_path / "another-window").run("stop").status == 0
    end = agent.finish()
    assert end.status == 0, end
    assert "made 1 recording" in end.out
    assert machine.sessions == set()
    if sql is not None:
        told = sql.finish()
        assert (told["syntax_errors"], told["sessions"]) == ([], [])
        (create,) = [text for text in told["received"] if text.startswith("CREATE EVENT SESSION")]
        assert "long_io_detected" in create
        assert [text for text in told["received"] if "fn_MSxe_read_event_stream" in text]
    (folder,) = list(kept.iterdir())
    recording = import_files([folder], tmp_path / "kept.iotrace")
    assert validate(recording.path) == []
    texts = [row["text"] for row in recording.read("markers").to_pylist()]
    assert texts == ["kept because max > 100ms"]
    io = recording.read("io").to_pylist()
    (long,) = [row for row in io if row["completed_ns"] - row["issued_ns"] > 100_000_000]
    # All of the second before it, and two after it.
    assert min(row["completed_ns"] for row in io) <= long["completed_ns"] - SECOND_NS
    assert max(row["completed_ns"] for row in io) >= long["completed_ns"] + 2 * SECOND_NS
