"""What is made to eat memory, time or disk is refused within bounds, and nothing is left behind or waited for."""

import io
import mmap
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.analyze.library import _readable
from iotrace.cli import main
from iotrace.schemas import IotraceError, Recording
from iotrace.schemas.spilling import private_room
from iotrace.schemas.writer import parquet_writer

from .measured import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")

MEMORY_MAX = 1 << 30
ADDRESSES_MAX = 12 << 30
"""So that what fails here does not take the machine's memory first."""
CPU_S = 60
WAIT_S = 900
"""A command that waits for what never comes uses no processor: it is killed after this."""


def rest_slow(values, quick):
    """``values``, of which only those in ``quick`` are tried in the quick run: each runs a command to its end."""
    return [pytest.param(*value, marks=() if value in quick else pytest.mark.slow) for value in values]


def iotrace(words, **options):
    limits = {"RLIMIT_CPU": CPU_S, "RLIMIT_AS": ADDRESSES_MAX}
    command = [sys.executable, "-m", "iotrace.cli", *words]
    return run(command, wait_s=WAIT_S, at_most=limits, stdout=subprocess.DEVNULL, **options)


def holds(done, *statuses):
    assert done.status in statuses, done.err[-2000:]
    assert "itself went wrong" not in done.err
    assert done.peak_bytes < MEMORY_MAX, f"{done.peak_bytes >> 20} MiB"
    print(f"{done.peak_bytes >> 20} MiB, {done.cpu_s:.1f} s of processor time")


def packed(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def overlapping(path, count):
    """``count`` members that all share the bytes of one."""
    raw = io.BytesIO()
    packed(raw, [("trace.etl", bytes(8 << 20))])
    data = raw.getvalue()
    at = data.rindex(b"PK\x05\x06")
    start = struct.unpack_from("<I", data, at + 16)[0]
    entry = data[start:at]
    directory = entry * count
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(directory), start, 0)
    path.write_bytes(data[:start] + directory + end)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["import", "inspect"])
@pytest.mark.parametrize("content", [bytes(128 << 10), bytes(256 << 10), b"a line of 7,2 words\n" * 400])
def test_many_members_of_a_zip_take_little_memory(tmp_path, command, content):
    path = packed(tmp_path / "many.zip", ((f"{number}.bin", content) for number in range(9_999)))
    words = [command, path] + (["-o", tmp_path / "r.iotrace"] if command == "import" else [])
    holds(iotrace(words), 1, 2)


@pytest.mark.parametrize(
    "count", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (1_000, 5_000, 10_000))]
)
def test_overlapping_members_are_refused(tmp_path, count):
    done = iotrace(["import", overlapping(tmp_path / "o.zip", count), "-o", tmp_path / "r.iotrace"])
    holds(done, 2)
    assert "overlap" in done.err


def test_partly_overlapping_members_are_refused(tmp_path):
    """Each local header lies in the data of the one before (a quoted-overlap bomb)."""
    path = packed(tmp_path / "p.zip", [("a.etl", b"x" * 5000), ("b.etl", b"y" * 5000)], zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    struct.pack_into("<II", data, entry + 20, 5100, 5100)
    path.write_bytes(data)
    done = iotrace(["import", path, "-o", tmp_path / "r.iotrace"])
    holds(done, 2)
    assert "overlap" in done.err


def test_more_members_than_are_read(tmp_path):
    path = packed(tmp_path / "m.zip", ((str(number), b"") for number in range(10_001)))
    done = iotrace(["import", path, "-o", tmp_path / "r.iotrace"])
    holds(done, 2)
    assert "10,001 files" in done.err


@pytest.mark.slow
def test_a_folder_of_large_files_takes_little_memory(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(9_000):
        with (folder / str(number)).open("wb") as file:
            file.truncate(1 << 20)
    holds(iotrace(["inspect", folder]), 1, 2)


PLAYED = {
    "model": ["replay", "{0}", "--target", "model:{1}", "-o", "{2}"],
    "prices": ["size", "{0}", "--catalogue", "azure", "--prices", "{1}"],
}
"""Commands that take a recording, then a file of TOML."""

WAITING = [
    "fifo",
    "/proc/kmsg",
    "/sys/kernel/tracing/trace_pipe",
    "/dev/zero",
    "/dev/random",
    "/dev/tty",
    "/proc/self/mem",
]


@pytest.mark.parametrize(
    ("source", "command"),
    rest_slow(
        # Each source by the commands that take any file, and each command on one source.
        [
            *((source, command) for source in WAITING for command in ("import", "inspect")),
            *(
                ("fifo", command)
                for command in ("describe", "validate", "report", "import --map", "ceiling", *PLAYED)
            ),
            ("/dev/zero", "import --map"),
        ],
        quick=[
            ("fifo", "import"),
            ("/proc/kmsg", "inspect"),
            ("/dev/zero", "import --map"),
            ("fifo", "report"),
            ("fifo", "ceiling"),
            ("fifo", "import --map"),
            ("fifo", "model"),
            ("fifo", "prices"),
        ],
    ),
)
def test_what_never_ends_is_refused_at_once(tmp_path, make, source, command):
    path = Path(source)
    if source == "fifo":
        path = tmp_path / "fifo"
        os.mkfifo(path)
    elif not path.exists():
        pytest.skip(f"no {source} here")
    words = {
        "import": ["import", path, "-o", tmp_path / "r.iotrace"],
        "import --map": ["import", path, "--map", path, "-o", tmp_path / "r.iotrace"],
        "report": ["report", path, "-o", tmp_path / "r.html"],
        "ceiling": ["ceiling", path],
    }.get(command, [command, path])
    if command in PLAYED:
        if command == "model":  # whose name ends so
            path = path.rename(tmp_path / "waits.toml")
        recording = make(tmp_path).path
        words = [word.format(recording, path, tmp_path / "o.iotrace") for word in PLAYED[command]]
    holds(iotrace(words, stdin=subprocess.DEVNULL), 2)


@pytest.mark.parametrize("index", ["sweep.json", "manifest.json"])
def test_an_index_nested_too_deep_is_refused(tmp_path, index):
    folder = tmp_path / "r.iotrace"
    folder.mkdir()
    (folder / index).write_text("[" * 200_000)
    done = iotrace(["knee" if index == "sweep.json" else "describe", folder])
    holds(done, 2)
    assert f"damaged {index}" in done.err


NESTED = {
    "lists": "x = " + "[" * 150_000,
    "tables": "x = " + "{a = " * 150_000,
    "sections": "[[a]]\n" * 150_000,
    "a key": "a" + ".a" * 150_000 + " = 1",
    "a quoted key": '"a"' + " . 'a'" * 100_000 + " = 1",
    "a heading": "[a" + ".a" * 150_000 + "]",
}


@pytest.mark.parametrize(
    ("command", "nested"),
    rest_slow(
        # Each shape by one command, and each command on some shape.
        [
            *(("ceiling", nested) for nested in NESTED),
            ("import --map", "tables"),
            ("import --map", "a key"),
            ("model", "a key"),
            ("prices", "a heading"),
        ],
        quick=[
            ("ceiling", "lists"),
            ("import --map", "tables"),
            ("ceiling", "sections"),
            ("import --map", "a key"),
            ("ceiling", "a quoted key"),
            ("model", "a key"),
            ("prices", "a heading"),
        ],
    ),
)
def test_a_toml_nested_too_deep_or_too_long_is_refused(tmp_path, make, command, nested):
    path = tmp_path / "deep.toml"
    path.write_text(NESTED[nested])
    if command == "ceiling":
        done = iotrace(["ceiling", path])
    elif command in PLAYED:
        recording = make(tmp_path).path
        done = iotrace([word.format(recording, path, tmp_path / "o.iotrace") for word in PLAYED[command]])
    else:
        (tmp_path / "t.csv").write_text("a,b\n1,2\n")
        done = iotrace(["import", tmp_path / "t.csv", "--map", path, "-o", tmp_path / "r.iotrace"])
    holds(done, 2)
    assert "deep.toml" in done.err


@pytest.mark.parametrize(
    "limit",
    [
        "iops = 1e-9",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("iops = 1e-300", "mb_per_s = 1e-9", "mb_per_s = 1e-300", "iops = 9e11\nslice_ms = 1e-9",
                        "iops = 9\ndepth_ms = 1e-300", "iops = 9\ntick_ms = 1e-9\nslice_ms = 1e11")
        ),
    ],
)  # fmt: skip
def test_a_model_without_end_ends(tmp_path, make, limit):
    (tmp_path / "slow.toml").write_text(f"[[disk]]\n[[disk.limit]]\n{limit}\n")
    words = ["replay", make(tmp_path, 10_000).path, "--target", f"model:{tmp_path / 'slow.toml'}"]
    holds(iotrace([*words, "-o", tmp_path / "o.iotrace"]), 0, 1, 2)


def test_an_index_of_a_sweep_beyond_its_bound_is_refused(tmp_path):
    folder = tmp_path / "r.iotrace"
    folder.mkdir()
    with (folder / "sweep.json").open("wb") as file:
        file.truncate(3 << 30)
    done = iotrace(["knee", folder])
    holds(done, 2)
    assert "over 16 MiB" in done.err


@pytest.mark.parametrize(
    ("inside", "command"),
    rest_slow(
        [
            (inside, command)
            for inside in (
                "manifest.json",
                "io.parquet",
                "io/part-00000.parquet",
                "processes.parquet",
                "sweep.json",
            )
            for command in ("describe", "validate", "query")
        ],
        quick=[("manifest.json", "describe"), ("io.parquet", "validate"), ("io/part-00000.parquet", "query")],
    ),
)
def test_a_fifo_in_a_recording_is_not_waited_for(tmp_path, make, inside, command):
    recording = make(tmp_path)
    path = recording.path / inside
    path.unlink(missing_ok=True)
    if "/" in inside:
        (recording.path / "io.parquet").unlink()
        path.parent.mkdir()
    os.mkfifo(path)
    question = ["SELECT count(*) FROM io"] if command == "query" else []
    holds(iotrace([command, recording.path, *question]), 0, 1, 2)


@pytest.fixture(scope="module")
def make():
    from iotrace.schemas import Clock, Manifest, RecordingWriter

    def make(folder, rows=10, group=None, name="r"):
        with RecordingWriter(folder / f"{name}.iotrace") as writer:
            writer.append("devices", pa.table({"device_id": [0], "name": ["sda"], "kind": ["disk"]}))
            writer.append("io", pa.table({
                "layer": ["block"], "op": ["read"], "issued_ns": [1], "completed_ns": [2], "size_bytes": [8192],
                "offset_bytes": [0], "device_id": [0],
            }))  # fmt: skip
            recording = writer.commit(Manifest("captured", "r", Clock(0, 1.0, "c"), window_end_ns=10**9))
        io_path = recording.path / "io.parquet"
        one = pq.read_table(io_path)
        step = min(rows, group or rows)
        piece = pa.concat_tables([one] * min(step, 1000)).combine_chunks()
        io_path.unlink()
        with parquet_writer(io_path, one.schema) as writer:
            batch = pa.concat_tables([piece] * (step // len(piece)))
            for _ in range(rows // step):
                writer.write_table(batch, row_group_size=len(batch))
        manifest = recording.manifest
        manifest.rows["io"] = pq.read_metadata(io_path).num_rows
        (recording.path / "manifest.json").write_text(manifest.to_json(), "utf-8")
        return recording

    return make


COMMANDS = {
    "describe": ["describe", "{}"],
    "validate": ["validate", "{}"],
    "query": ["query", "{}", "SELECT count(*), min(issued_ns), max(size_bytes) FROM io"],
    "report": ["report", "{}", "-o", "{out}.html"],
    "compare": ["compare", "{}", "{}"],
    "export csv": ["export", "{}", "--to", "csv", "-o", "{out}.csv"],
    "export fio": ["export", "{}", "--to", "fio", "-o", "{out}"],
    "incident": ["incident", "{}"],
    "replay": ["replay", "{}", "--target", "{out}.bin", "-o", "{out}.iotrace"],
    "anonymize": ["import", "{}", "--anonymize", "-o", "{out}.iotrace"],
}


@pytest.fixture(scope="module", params=[None, 1 << 19], ids=["one group", "many groups"])
def claiming(request, make, tmp_path_factory):
    """A small recording that claims 40 million I/Os, in one group of rows or many; made once, which takes long."""
    group = request.param
    rows = 40_000_000 // (group or 1000) * (group or 1000)
    recording = make(tmp_path_factory.mktemp("claiming"), rows, group)
    assert sum(file.stat().st_size for file in recording.path.rglob("*")) < 4 << 20
    return recording


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_small_file_that_claims_many_rows(tmp_path, claiming, command):
    words = [
        word.replace("{}", str(claiming.path)).replace("{out}", str(tmp_path / "out"))
        for word in COMMANDS[command]
    ]
    holds(iotrace(words), 0, 1, 2)


@pytest.mark.parametrize(
    "command",
    ["describe", *(pytest.param(one, marks=pytest.mark.slow) for one in ("validate", "report", "query"))],
)
def test_a_small_table_of_one_long_name_many_times(tmp_path, make, command):
    recording = make(tmp_path)
    path = recording.path / "processes.parquet"
    count = 3000
    long = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * (1 << 20)])
    table = pa.table({
        "process_id": pa.array(range(count), pa.int32()),
        "os_process_id": pa.array(range(count), pa.int64()),
        "name": long,
    })  # fmt: skip
    pq.write_table(table, path, use_dictionary=["name"], compression="zstd")
    assert path.stat().st_size < 8 << 20
    question = ["SELECT count(*) FROM processes"] if command == "query" else []
    output = ["-o", tmp_path / "r.html"] if command == "report" else []
    holds(iotrace([command, recording.path, *question, *output]), 0, 1, 2)


SNAPSHOT_COLUMNS = (
    "capture_utc,wait_type,waiting_tasks_count,wait_time_ms,max_wait_time_ms,signal_wait_time_ms"
)


@pytest.mark.parametrize(
    ("command", "header"),
    [
        ("inspect", "," * 100_000),
        pytest.param("import", "," * 100_000, marks=pytest.mark.slow),
        pytest.param("inspect", ",".join(map(str, range(20_000))), marks=pytest.mark.slow),
        ("import", ",".join([SNAPSHOT_COLUMNS, *map(str, range(8_000))])),
    ],
    ids=["inspect, no names", "import, no names", "inspect, names", "import, a snapshot"],
)
def test_a_header_of_very_many_columns_is_read_in_little_time(tmp_path, command, header):
    path = tmp_path / "wide.csv"
    path.write_text(header)
    words = [command, path] + (["-o", tmp_path / "r.iotrace"] if command == "import" else [])
    holds(iotrace(words), 1, 2)


def disks(path, count):
    """A trace (MSR Cambridge's form) of one read on each of ``count`` disks."""
    path.write_text("".join(f"{134397003252828688 + i},h,{i},Read,0,4096,1\n" for i in range(count)))
    return path


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("inspect", 60_000),
        ("export fio", 20_000),
        pytest.param("describe", 20_000, marks=pytest.mark.slow),
    ],
)
def test_very_many_disks_take_time_and_memory_by_their_number(tmp_path, command, count):
    path = disks(tmp_path / "disks.csv", count)
    if command != "inspect":
        done = iotrace(["import", path, "-o", tmp_path / "r.iotrace"])
        assert done.status == 0, done.err
        path = tmp_path / "r.iotrace"
    words = {"inspect": ["inspect", path]} | {
        name: [word.format(path, out=tmp_path / "out") for word in COMMANDS[name]]
        for name in ("export fio", "describe")
    }
    holds(iotrace(words[command]), 0)


ENDLESS = [
    "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b",
    "SELECT * FROM range(100000000000)",  # DuckDB has each batch at once; to write it takes the time
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    "SELECT count(*) FROM io, range(100000000000)",
    "SELECT count(DISTINCT md5(range::VARCHAR)) FROM range(100000000000)",
    "SELECT max(regexp_replace(repeat('ab', 1000), '(a|b)*c', range::VARCHAR)) FROM range(100000000000)",
]


@pytest.mark.parametrize(
    "sql", [*ENDLESS[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in ENDLESS[2:])]
)
def test_a_query_ends_after_its_time(tmp_path, make, sql):
    recording = make(tmp_path)
    done = iotrace(["query", recording.path, sql, "--limit", "1000000000", "--timeout", "2s", "--csv"])
    assert done.status == 2, done.err
    assert "--timeout" in done.err


HUNGRY = [
    "SELECT list_sum(range(1000000000))",
    "SELECT unnest(range(1000000000))",
    "SELECT list_sum(range(250000000))",  # fits, and takes long in a single step
    "SELECT repeat('x', 1000000000)",
    "SELECT repeat('x', 300000000) FROM range(20)",
    "SELECT range(3000000) FROM range(1000)",
    "WITH RECURSIVE t(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM t) SELECT max(length(n)) FROM t",
]
"""Queries of lists and long texts, which DuckDB neither counts as memory nor looks up from."""


@pytest.mark.parametrize(
    "sql", [HUNGRY[0], *(pytest.param(one, marks=pytest.mark.slow) for one in HUNGRY[1:])]
)
def test_a_query_of_long_lists_ends_within_time_and_memory(tmp_path, make, sql):
    done = iotrace(["query", make(tmp_path).path, sql, "--limit", "0", "--timeout", "3s", "--json"])
    assert done.status == 2, done.err
    assert "not enough memory" in done.err or "stopped after 3 s" in done.err or "buffers" in done.err
    assert done.peak_bytes < 4 << 30, f"{done.peak_bytes >> 20} MiB"


@pytest.mark.parametrize("form", ["--json", "--csv", "--limit=0"])
def test_a_query_prints_times_that_python_has_no_value_for(tmp_path, make, form):
    sql = "SELECT *, timestamp '290000-01-01' AS late, date '4713-01-02 (BC)' AS early FROM test_all_types()"
    command = [sys.executable, "-m", "iotrace.cli", "query", make(tmp_path).path, sql, form]
    done = run(command, wait_s=WAIT_S, at_most={"RLIMIT_CPU": CPU_S})
    assert done.status == 0, done.err
    for text in (b"290000-01-01 00:00:00", b"4713-01-02 (BC)", b"5877642-06-25 (BC)", b"infinity"):
        assert text in done.out


def test_a_query_has_a_time_limit_by_default():
    from iotrace.cli.query import TIMEOUT

    assert TIMEOUT == "10m"


def spill_folders(place):
    return [path for path in place.iterdir() if path.name.startswith(".iotrace-")]


SPILLING = """
import time
from iotrace.schemas.spilling import private_room
with private_room() as room:
    (room / "x").write_bytes(b"secret")
    print(room, flush=True)
    time.sleep(60)
"""


def spilling(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", SPILLING],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    return child, Path(child.stdout.readline().strip())


def test_what_a_killed_command_spilled_is_private_and_gone_at_the_next_start(tmp_path, monkeypatch):
    before = os.umask(0)
    try:
        killed, room = spilling(tmp_path)
        living, other = spilling(tmp_path)
    finally:
        os.umask(before)
    for folder in (room, room.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with killed:
        killed.send_signal(signal.SIGKILL)
    assert room.exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with private_room() as mine:
        assert not room.parent.exists()
        assert (other / "x").exists(), "another command still uses it"
        assert mine.is_dir()
    with living:
        living.kill()
    with private_room():
        pass
    assert spill_folders(tmp_path) == []


def test_what_only_bears_such_a_name_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    away = tmp_path / "away"
    away.mkdir()
    (away / "in-use").touch()
    (tmp_path / ".iotrace-spill-link").symlink_to(away)
    (tmp_path / ".iotrace-spill-file").write_text("mine")
    (tmp_path / ".iotrace-spill-new").mkdir()
    with private_room():
        pass
    assert {path.name for path in tmp_path.iterdir()} == {
        "away", ".iotrace-spill-link", ".iotrace-spill-file", ".iotrace-spill-new",
    }  # fmt: skip
    assert (away / "in-use").exists()


@pytest.mark.slow
def test_a_killed_export_s_spill_goes_with_the_next_command(tmp_path, make):
    recording = make(tmp_path, 4_000_000, 1 << 17)
    place = tmp_path / "tmp"
    place.mkdir()
    environment = os.environ | {"TMPDIR": str(place)}
    words = [
        sys.executable,
        "-m",
        "iotrace.cli",
        "export",
        str(recording.path),
        "--to",
        "csv",
        "-o",
        str(tmp_path / "x.csv"),
    ]
    child = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not spill_folders(place) and child.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    child.kill()
    child.wait()
    iotrace(["query", recording.path, "SELECT 1"], env=environment)
    assert spill_folders(place) == []


def start_with_a_stack_of_128_tib():
    before = threading.stack_size(1 << 47)
    try:
        threading.Thread(target=print).start()
    finally:
        threading.stack_size(before)


def allocate_in_duckdb():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SELECT list_sum(range(400000000))").fetchall()


WANTS = {
    "Python": lambda: bytearray(1 << 62),
    "Arrow": lambda: pa.allocate_buffer(1 << 62),
    "the system": lambda: mmap.mmap(-1, 1 << 48),
    "a thread": start_with_a_stack_of_128_tib,
    "DuckDB": allocate_in_duckdb,
}


@contextmanager
def little_more_memory():
    """As `ulimit -d` gives it: 256 MiB more than are used already."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (psutil.Process().memory_info().data + (256 << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.mark.parametrize("of", WANTS)
def test_want_of_memory_is_said_with_what_to_do(monkeypatch, capsys, of):
    """Whatever wants more than there is, in its own words."""
    monkeypatch.setattr("iotrace.cli.inspect.inspect_path", lambda *_, **__: WANTS[of]())
    with little_more_memory():
        status = main.run(["inspect", __file__])
    said = capsys.readouterr().err
    assert status == 2, said
    assert "there is not enough memory" in said.splitlines()[0]
    assert "hint: close other programs, or raise the limit: ulimit -a" in said


def test_want_of_memory_in_an_answer_is_none_of_the_disk_s():
    with (
        little_more_memory(),
        pytest.raises(IotraceError, match="not enough memory to answer layers") as found,
        _readable(None, "layers"),
    ):
        allocate_in_duckdb()
    assert "TMPDIR" not in found.value.hint


def test_the_recording_used_here_is_one(tmp_path, make):
    assert Recording.open(make(tmp_path, 5000).path).manifest.rows["io"] == 5000
