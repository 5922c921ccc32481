"""Nobody but its owner reads a recording, no command line gets into one, and an anonymous copy names nothing."""

import os
import re
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.capture.importing.anonymizing import Anonymizer, copy_anonymously
from iotrace.cli.main import run
from iotrace.schemas import (
    Alignment,
    Clock,
    IotraceError,
    Manifest,
    Quality,
    Recording,
    Source,
    conform,
    validate,
)
from iotrace.schemas.host import Host
from iotrace.schemas.manifest import Loss
from iotrace.schemas.run import Replay, TargetFacts
from iotrace.schemas.tables import TABLES

from ..hostile_names import HOSTILE_NAMES
from ..recordings import write_recording
from .cut_power import sparse
from .playing_on import attached

SECRET = "hunter2-swordfish"
NAME = "contoso"

needs_tracing = [
    pytest.mark.root,
    pytest.mark.xdist_group("root"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="tracing needs root"),
    pytest.mark.skipif(
        not Path("/sys/kernel/tracing/instances").is_dir(),
        reason="tracefs is not mounted at /sys/kernel/tracing",
    ),
    pytest.mark.skipif(shutil.which("losetup") is None, reason="losetup is not installed"),
]


def everything(folder):
    """All bytes of a folder's files, tables as text as well: Parquet compresses."""
    text = b""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            text += path.name.encode() + path.read_bytes()
            if path.suffix == ".parquet":
                text += repr(pq.read_table(path).to_pylist()).encode()
                text += repr(pq.read_metadata(path).metadata).encode()
    return text


@pytest.mark.parametrize("table", [pa.table, pa.record_batch])
def test_no_table_of_processes_takes_a_command_line(table):
    rows = table(
        {"process_id": [0], "os_process_id": [1], "name": ["sqlcmd"], "command_line": [f"sqlcmd -P {SECRET}"]}
    )
    assert conform(rows, "processes").column("command_line").to_pylist() == [None]


@pytest.mark.parametrize("umask", [0, 0o077])
class TestLive:
    pytestmark = needs_tracing

    def test_a_live_recording_has_no_password_and_is_its_owners_alone(self, tmp_path, umask):
        sparse(tmp_path / "disk.img", 16 << 20)
        output = tmp_path / "r.iotrace"
        seen = []
        with attached(tmp_path / "disk.img") as device:
            load = subprocess.Popen([
                sys.executable, "-c",
                ("import os, sys, time\nhandle = os.open(sys.argv[1], os.O_RDONLY)\n"
                "while True: os.pread(handle, 4096, 0); os.posix_fadvise(handle, 0, 0, 4); time.sleep(0.001)"),
                device, f"--password={SECRET}",
            ])  # fmt: skip
            recorder = subprocess.Popen([
                sys.executable, "-c",
                ("import os, sys; os.umask(int(sys.argv[3])); from iotrace.capture.linux import record;"
                "record([sys.argv[1]], sys.argv[2], seconds=4)"), device, str(output), str(umask),
            ])  # fmt: skip
            try:
                while recorder.poll() is None:
                    seen += list(modes(output.with_name("r.iotrace.unfinished")).items())
                    time.sleep(0.05)
            finally:
                for process in (load, recorder):
                    process.kill()
                    process.wait()
        assert recorder.returncode == 0
        recording = Recording.open(output)
        assert recording.manifest.rows["io"] > 0
        assert recording.manifest.rows["processes"] > 0
        assert SECRET.encode() not in everything(output)
        assert seen, "the recording was never seen to grow"
        for path, mode in [*seen, *modes(output).items()]:
            assert mode in {stat.S_IFDIR | 0o700, stat.S_IFREG | 0o600}, f"{path}: {mode:o}"


def modes(folder):
    found = {}
    for path in [folder, *folder.rglob("*")] if folder.exists() else []:
        try:
            found[path.name] = path.lstat().st_mode
        except FileNotFoundError:
            continue
    # Before it gets its mode a file has at most the one it was created with.
    return found


@pytest.fixture
def named(tmp_path):
    """A recording with one name wherever a recording takes text."""
    one = {"at_ns": [1]}
    return write_recording(
        tmp_path / "named.iotrace",
        {
            "op": ["read", "write"], "issued_ns": [0, 10], "completed_ns": [5, 30], "offset_bytes": [0, 8192],
            "size_bytes": [8192, 4096], "device_id": 0, "file_id": 0, "process_id": 0,
        },
        tables={
            "devices": {"device_id": [0], "name": f"/dev/{NAME}", "kind": "disk", "mount": f"/srv/{NAME}"},
            "files": {"file_id": [0], "path": f"D:\\{NAME}.mdf", "role": "data", "database": NAME},
            "processes": {"process_id": [0], "os_process_id": 1, "name": f"{NAME}.exe"},
            "waits": one | {"wait_type": "WRITELOG", "duration_ns": 5, "database": NAME},
            "markers": one | {"kind": "note", "text": f"{NAME} went slow"},
            "counters": one | {
                "source": f"\\\\{NAME}", "object": f"MSSQL${NAME}:Databases", "instance": NAME,
                "counter": "Log Flushes/sec", "value": 1.0,
            },
            "xevents": one | {"fields": f"SELECT * FROM {NAME}"},
        },
        title=f"{NAME} at night",
        window_end_ns=100,
        host=Host(NAME, processors=2),
        sources=[Source(f"/srv/{NAME}.etl", "etl", 10)],
        quality=Quality(ended=f"{NAME} vanished", notes=[f"{NAME} took bios"]),
    )  # fmt: skip


def test_an_anonymous_copy_of_a_recording_names_nothing_and_keeps_the_io(named, tmp_path):
    before = everything(named.path)
    assert run(["import", str(named.path), "--anonymize", "-o", str(tmp_path / "copy.iotrace")]) == 0
    copy = Recording.open(tmp_path / "copy.iotrace")
    assert validate(copy.path) == []
    assert NAME.encode() not in everything(copy.path).lower()
    assert copy.read("io").equals(named.read("io"))
    assert copy.manifest.uuid != named.manifest.uuid
    assert copy.manifest.host.processors == 2
    assert everything(named.path) == before
    assert str(copy.read("files")["path"][0]).startswith("D:\\n")


FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def named_hosts(tmp_path):
    """Folders and an archive with a host's name, also in the names of files; one has a name that every system has."""
    folder = tmp_path / "hosts"
    for host, trace in ((f"{NAME}1", "xperf/dumper.csv"), ("model", "linux/blkparse.txt")):
        (folder / host).mkdir(parents=True)
        shutil.copy(FIXTURES / trace, folder / host / f"{NAME}-{Path(trace).name}")
    with zipfile.ZipFile(folder / f"{NAME}2.zip", "w") as archive:
        archive.write(FIXTURES / "xperf" / "dumper.csv", f"{NAME}/{NAME}.csv")
    (folder / f"{NAME}3").mkdir()
    (folder / f"{NAME}3" / f"{NAME}3.etl").write_bytes(b"nothing")
    return folder


def test_an_anonymous_fleet_names_no_host(named_hosts, tmp_path, capsys):
    words = ("--hosts", "--anonymize-key", "secret")
    for form in ([], ["--json"]):
        fleet = tmp_path / f"fleet{len(form)}"
        assert run(["import", str(named_hosts), *words, "-o", str(fleet), *form]) == 1
        answer, warned = capsys.readouterr()
        assert NAME not in answer
        assert f"{NAME}3 is left out" in warned
        assert [line for line in warned.splitlines() if NAME in line and "is left out" not in line] == []
        given = sorted(
            Anonymizer("secret").host(Host(host)).name for host in (f"{NAME}1", f"{NAME}2", "model")
        )
        assert [path.name for path in sorted(fleet.iterdir())] == [f"{name}.iotrace" for name in given]
        assert all(re.fullmatch("n[0-9a-f]{10}", name) for name in given)
        assert NAME.encode() not in everything(fleet).lower()
    for form in ([], ["--json"]):
        assert run(["describe", str(fleet), *form]) == 0
        assert NAME not in "".join(capsys.readouterr())
    assert run(["report", str(fleet), "-o", str(tmp_path / "fleet.html")]) == 0
    page = (tmp_path / "fleet.html").read_text("utf-8")
    assert given[0] in page
    assert NAME not in page


@pytest.mark.parametrize("name", ["48213", "master", "x86"])
def test_a_folder_of_a_host_that_is_called_like_anything_is_named_nowhere(tmp_path, name, capsys):
    (tmp_path / "hosts" / name).mkdir(parents=True)
    shutil.copy(FIXTURES / "xperf" / "dumper.csv", tmp_path / "hosts" / name / "dumper.csv")
    words = ("--hosts", "--anonymize-key", "secret", "-o", str(tmp_path / "fleet"))
    assert run(["import", str(tmp_path / "hosts"), *words]) == 0, capsys.readouterr().err
    [recording] = (tmp_path / "fleet").glob("*.iotrace")
    for source in Recording.open(recording).manifest.sources:
        assert name not in re.split(r"[/\\\\]", source.name)


def test_a_terminal_alone_shows_whose_a_pseudonym_is(named_hosts, tmp_path):
    """Whoever sits at it knows both; a log of what a command said could be passed on."""
    words = (
        "import",
        str(named_hosts),
        "--hosts",
        "--anonymize-key",
        "secret",
        "-o",
        str(tmp_path / "fleet"),
    )
    given = Anonymizer("secret").host(Host(f"{NAME}1")).name
    inside, screen = os.openpty()
    log = tmp_path / "log"
    command = [sys.executable, "-m", "iotrace.cli", *words]
    environment = os.environ | {"IOTRACE_LOG": str(log)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=screen, env=environment) as running:
        os.close(screen)
        shown = b""
        with suppress(OSError):  # how a terminal says that nobody has its other end any more
            while True:
                shown += os.read(inside, 1 << 16)
        answer = running.stdout.read()
    os.close(inside)
    assert running.returncode == 1
    assert f"{NAME}1 becomes {given}" in shown.decode()
    assert NAME.encode() not in answer
    assert "becomes" not in log.read_text("utf-8")


def test_two_hosts_of_one_pseudonym_are_refused_before_anything_is_written(
    named_hosts, tmp_path, monkeypatch
):
    monkeypatch.setattr(Anonymizer, "_hashed", lambda _self, _name: "n0000000000")
    assert run(["import", str(named_hosts), "--hosts", "--anonymize", "-o", str(tmp_path / "fleet")]) == 2
    assert not (tmp_path / "fleet").exists()


CLOSED = {"method", "sha256", "verdict"}
"""Fields of text that are refused when they hold a name: `Manifest.to_json` checks them."""


def names_in(kind, text):
    """A value with the name for each field of a dataclass that holds text."""
    texts = [field.name for field in fields(kind) if "str" in str(field.type) and field.name not in CLOSED]
    lists = {field.name for field in fields(kind) if "list[str]" in str(field.type)}
    return {name: [text] if name in lists else text for name in texts}


@pytest.fixture(params=[NAME, NAME.upper(), f"{NAME} Reads/sec", f"MSSQL$x:{NAME}", f"5.10.0-{NAME}"])
def spelling(request):
    return request.param


@pytest.fixture
def full(named, spelling):
    """A tampered recording: the name stands in every text of its manifest, tables and Parquet metadata."""
    told = named.manifest
    alignment = Alignment(method="utc", **names_in(Alignment, spelling))
    told = replace(
        told,
        title=spelling,
        clock=replace(told.clock, **names_in(Clock, spelling)),
        host=replace(told.host, **names_in(Host, spelling)),
        sources=[Source(alignment=alignment, **names_in(Source, spelling))],
        quality=Quality(losses=[Loss(1, 2, 3, **names_in(Loss, spelling))], **names_in(Quality, spelling)),
        tools={spelling: spelling},
    )
    texts = {"uuid", "title", "kind", "tools"}
    assert {field.name for field in fields(Manifest) if "str" in str(field.type)} - {"rows"} <= texts
    for name, schema in TABLES.items():
        path = named.path / f"{name}.parquet"
        rows = pq.read_table(path).slice(0, 1) if path.exists() else pa.table({})
        columns = {}
        for field in schema:
            if field.type == pa.string():
                columns[field.name] = pa.array([spelling])
            elif pa.types.is_dictionary(field.type):
                # A word that no row has: nothing that checks rows sees it.
                word = rows.column(field.name)[0].as_py()
                columns[field.name] = pa.DictionaryArray.from_arrays(
                    pa.array([0], pa.int8()), [word, spelling]
                )
            elif field.name in rows.column_names:
                columns[field.name] = rows.column(field.name).combine_chunks()
            else:
                columns[field.name] = pa.array([None if field.nullable else 0], field.type)
        write_planted(path, columns)
    write_planted(named.path / f"{NAME}.parquet", {"at_ns": pa.array([1]), NAME: pa.array([1])})
    write_planted(named.path / "xevents.parquet", {"at_ns": pa.array([1]), "fields": pa.array([spelling])})
    told.rows = {path.stem: 1 for path in named.path.glob("*.parquet")}
    (named.path / "manifest.json").write_text(told.to_json(), "utf-8")
    return named.path


def write_planted(path, columns):
    planted = columns | {f"{NAME} column": pa.array([7]), f"{NAME} words": pa.array([NAME])}
    metadata = {NAME: NAME}
    schema = pa.schema(
        [pa.field(name, one.type, metadata=metadata) for name, one in planted.items()], metadata
    )
    pq.write_table(pa.Table.from_arrays([*planted.values()], schema=schema), path)


def test_a_name_in_every_text_of_a_recording_is_nowhere_in_its_anonymous_copy(full, tmp_path):
    assert everything(full).lower().count(NAME.encode()) > 60
    copy = copy_anonymously(full, tmp_path / "copy.iotrace", Anonymizer())
    assert validate(copy.path) == []
    assert set(copy.table_names()) == {*TABLES, "xevents"}
    assert NAME.encode() not in everything(copy.path).lower()


def test_the_same_key_gives_the_same_names(named, tmp_path):
    paths = [
        copy_anonymously(named.path, tmp_path / f"{number}.iotrace", Anonymizer(key))
        .read("files")["path"][0]
        .as_py()
        for number, key in enumerate(["one", "one", "two"])
    ]
    assert paths[0] == paths[1] != paths[2]


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES.values() if len(name.strip()) > 12])
def test_no_hostile_name_survives_in_an_anonymous_copy(tmp_path, hostile_recording, name):
    copy = copy_anonymously(hostile_recording.path, tmp_path / "copy.iotrace", Anonymizer())
    for table in ("files", "processes", "markers"):
        for row in copy.read(table).to_pylist():
            assert name not in [value for key, value in row.items() if key != "kind"]
    assert name not in copy.manifest.title


def test_what_cannot_be_made_anonymous_is_refused(named, tmp_path):
    told = named.manifest
    told.kind = "replayed"
    told.replay = Replay(targets=[TargetFacts(NAME)])
    (named.path / "manifest.json").write_text(told.to_json(), "utf-8")
    with pytest.raises(IotraceError, match="is a replay"):
        copy_anonymously(named.path, tmp_path / "copy.iotrace", Anonymizer())
    assert not (tmp_path / "copy.iotrace").exists()


def test_a_damaged_recording_leaves_no_half_copy(named, tmp_path):
    (named.path / "io.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(IotraceError, match="damaged table io"):
        copy_anonymously(named.path, tmp_path / "copy.iotrace", Anonymizer())
    assert [path.name for path in tmp_path.iterdir()] == ["named.iotrace"]


def test_a_recording_is_not_replaced_by_its_own_copy(named, tmp_path):
    before = everything(named.path)
    assert run(["import", str(named.path), "--anonymize", "-o", str(named.path), "--overwrite"]) == 2
    assert everything(named.path) == before


def test_an_import_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        trace = next((Path(__file__).parents[1] / "fixtures" / "corpus" / "blktrace").glob("*"))
        assert run(["import", str(trace), "-o", str(tmp_path / "r.iotrace")]) == 0
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.lstat().st_mode) for path in (tmp_path / "r.iotrace").rglob("*")} == {0o600}
    assert stat.S_IMODE((tmp_path / "r.iotrace").lstat().st_mode) == 0o700
