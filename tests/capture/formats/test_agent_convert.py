"""The Windows agent's own handlers over two real traces, against the reader of .etl: every row is the same.

The .btl files hold the events of the .etl files in a form that TraceEvent, the agent's library, reads on any system.
"""

import gzip
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import validate

ROOT = Path(__file__).parents[3]
AGENT = ROOT / "build" / "agent" / "any" / "iotrace-agent.dll"
WITH_DOTNET = ROOT / "capture" / "agent" / "with-dotnet.sh"
TRACES = ("perfview_net.4.5.2.x64", "perfview_net.4.5.x86")


@pytest.fixture(scope="session")
def convert():
    """Run the agent's convert."""
    if not AGENT.exists():
        pytest.skip(f"{AGENT} is not built: make agent builds it, with a .NET 10 SDK")

    def run(trace: Path, output: Path, *options: str) -> None:
        command = ["sh", WITH_DOTNET, "dotnet", AGENT, "convert", trace, "--output", output, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture(scope="session")
def btl(samples, tmp_path_factory):
    """The events of a sample, unpacked."""
    folder = tmp_path_factory.mktemp("btl")

    def unpack(name: str) -> Path:
        path = folder / f"{name}.btl"
        path.write_bytes(gzip.decompress((samples / "etl" / f"{name}.btl.gz").read_bytes()))
        return path

    return unpack


@pytest.mark.parametrize("name", TRACES)
def test_every_row_is_the_one_that_the_reader_of_etl_gives(name, samples, btl, convert, tmp_path) -> None:
    convert(btl(name), tmp_path / "streams")
    agents = import_files([tmp_path / "streams"], tmp_path / "agent.iotrace")
    with zipfile.ZipFile(samples / "etl" / f"{name}.etl.zip") as archive:
        (log,) = [member for member in archive.namelist() if member.endswith(".etl")]
        archive.extract(log, tmp_path)
    natives = import_files([tmp_path / log], tmp_path / "native.iotrace")
    for table in ("devices", "files", "processes", "io"):
        assert agents.read(table).to_pylist() == natives.read(table).to_pylist(), table
    assert agents.manifest.clock.start_utc_ns == natives.manifest.clock.start_utc_ns
    assert agents.manifest.quality.verdict == natives.manifest.quality.verdict == "good"


def test_pseudonyms_keep_what_the_analysis_needs(btl, convert, tmp_path) -> None:
    trace = btl(TRACES[0])
    convert(trace, tmp_path / "plain")
    convert(trace, tmp_path / "hidden", "--anonymize")
    plain = import_files([tmp_path / "plain"], tmp_path / "plain.iotrace")
    hidden = import_files([tmp_path / "hidden"], tmp_path / "hidden.iotrace")
    columns = ["issued_ns", "completed_ns", "offset_bytes", "size_bytes", "file_id", "process_id", "flags"]
    assert hidden.read("io").select(columns).equals(plain.read("io").select(columns))
    assert hidden.read("files").column("role").to_pylist() == plain.read("files").column("role").to_pylist()
    told = {part for path in plain.read("files").column("path").to_pylist() for part in path.split("\\")}
    kept = {part for path in hidden.read("files").column("path").to_pylist() for part in path.split("\\")}
    shared = {part for part in told & kept if not part.startswith("$")}
    assert shared <= {"C:", "Windows", "System32", "system32", "System Volume Information"}
    assert set(hidden.read("processes").column("command_line").to_pylist()) == {None}


@pytest.mark.parametrize("cut", [0, 7, 100, 5000, 300_000])
def test_a_cut_file_is_no_crash(cut, btl, tmp_path, convert) -> None:
    """A file without its whole first block is refused in a sentence; nothing half-written stays."""
    whole = btl(TRACES[0]).read_bytes()
    trace = tmp_path / "cut.btl"
    trace.write_bytes(whole[:cut])
    command = ["sh", WITH_DOTNET, "dotnet", AGENT, "convert", trace, "--output", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=os.environ)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "   at " not in done.stderr
    assert not (tmp_path / "out").exists()


def test_every_package_inside_the_program_is_in_the_list_of_licences() -> None:
    folder = ROOT / "capture" / "agent"
    lock = json.loads((folder / "src" / "packages.lock.json").read_text())
    inside = {
        (name, found["resolved"])
        for target in lock["dependencies"].values()
        for name, found in target.items()
        # Our own statement of XELite's surface is compiled against, and is no package.
        if found["type"] != "Project"
    }
    # One checks the build, the other is left out of it.
    inside = {
        package
        for package in inside
        if package[0] not in {"Meziantou.Analyzer", "Microsoft.Data.SqlClient.SNI.runtime"}
    }
    rows = [
        line.split(" | ")
        for line in (folder / "LICENCES.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    listed = {(row[0].removeprefix("| "), row[1]) for row in rows[1:]}
    assert listed == inside
    assert {row[2] for row in rows[1:]} <= {"MIT", "Apache-2.0"}
    for path in folder.rglob("packages.lock.json"):
        assert "://" not in path.read_text(), path


XELITE = os.environ.get("XELITE_DLL", "")
"""Microsoft's reader of Extended Events, which is no part of the project."""


def native_rows(recording, table):
    """Rows without what XELite does not tell of other events: their packages, and the units of their durations."""
    told = {"at_ns", "name", "event_sequence", "fields", "actions"}
    rows = recording.read(table).to_pylist()
    return [{key: row[key] for key in row if table != "xevents" or key in told} for row in rows]


@pytest.mark.parametrize("name", ["sqltoolsservice_TestXel_0", "tx_sqlhealth", "tx_sqltrace"])
def test_events_of_sql_server_are_the_ones_that_the_native_reader_gives(name, samples, tmp_path) -> None:
    if not Path(XELITE).is_file():
        pytest.skip("XELITE_DLL names no DLL of XELite: convert x.xel was not tried")
    program = tmp_path / "agent"
    shutil.copytree(AGENT.parent, program)
    shutil.copy(XELITE, program / "Microsoft.SqlServer.XEvent.XELite.dll")
    source = samples / "xel" / f"{name}.xel"
    command = ["sh", WITH_DOTNET, "dotnet", program / AGENT.name, "convert", source, "-o", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    agents = import_files([tmp_path / "out"], tmp_path / "agent.iotrace")
    natives = import_files([source], tmp_path / "native.iotrace")
    assert validate(agents.path) == []
    assert agents.manifest.clock.start_utc_ns == natives.manifest.clock.start_utc_ns
    for table in ("xevents", "io", "waits", "markers", "files"):
        assert native_rows(agents, table) == native_rows(natives, table), table


def test_without_xelite_events_of_sql_server_are_left_to_the_import(samples, tmp_path) -> None:
    if not AGENT.exists():
        pytest.skip(f"{AGENT} is not built: make agent builds it, with a .NET 10 SDK")
    command = [
        "sh",
        WITH_DOTNET,
        "dotnet",
        AGENT,
        "convert",
        samples / "xel" / "tx_sqltrace.xel",
        "-o",
        tmp_path / "out",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "XELite" in done.stderr
    assert "iotrace import" in done.stderr
    assert not (tmp_path / "out").exists()
