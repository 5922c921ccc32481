"""Every command over every damaged recording: an answer or a clear word, never an exception, never over 1 GiB."""

import json
import os
import re
import sys
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from iotrace.analyze.knee import knee
from iotrace.cli.main import app
from iotrace.cli.main import run as run_commands
from iotrace.replay.targets.fill import is_note, noted_fill
from iotrace.replay.virtual.fit import fit
from iotrace.schemas import (
    Clock,
    GrowingRecording,
    IotraceError,
    Manifest,
    Recording,
    RecordingWriter,
    Sweep,
    SweepWriter,
)
from iotrace.schemas.run import Replay
from iotrace.schemas.streams import read_stream

from .. import hostile_names
from .damaged_recordings import damages
from .measured import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")

MEMORY_MAX = 1 << 30
PROGRAM = Path(__file__).with_name("commands_on.py")
STORED = Path(__file__).parents[1] / "fixtures" / "corpus"
COMMANDS = Path(__file__).parents[1] / "fuzzing" / "commands.py"
SHARES = 12
QUICK_DAMAGES = 4

ROWS = pa.table({
    "layer": ["block"] * 300,
    "op": ["read", "write", "read"] * 100,
    "issued_ns": range(0, 300_000_000, 1_000_000),
    "completed_ns": range(500_000, 300_500_000, 1_000_000),
    "offset_bytes": range(0, 300 * 8192, 8192),
    "size_bytes": [8192] * 300,
    "device_id": [0] * 300,
})  # fmt: skip
DEVICES = pa.table({"device_id": [0], "name": ["sda"], "kind": ["disk"]})


def manifest(scale: float | None = None) -> Manifest:
    played = scale and Replay(scale=scale)
    return Manifest(
        "replayed" if played else "captured",
        "planted",
        Clock(10**18, 1.0, "planted"),
        window_end_ns=400_000_000,
        replay=played or None,
    )


def hostile(folder: Path) -> Path:
    return hostile_names.write_recording(folder / "r.iotrace").path


def sweep(folder: Path) -> Path:
    with SweepWriter(folder / "r.iotrace", title="planted", source_uuid=None) as written:
        for scale in (1.0, 2.0):
            with RecordingWriter(written.step_path(scale)) as writer:
                writer.append("devices", DEVICES)
                writer.append("io", ROWS)
                recording = writer.commit(manifest(scale))
            written.add(scale, recording)
    return folder / "r.iotrace"


def unfinished(folder: Path) -> Path:
    with GrowingRecording.create(folder / "r.iotrace") as growing:
        growing.replace("devices", DEVICES)
        growing.append("io", ROWS)
        growing.flush(manifest())
        return growing.folder


WHOLES = {"recording": hostile, "sweep": sweep, "unfinished": unfinished}

REFUSED_WITHOUT_DAMAGE = {
    "inspect {}": "it looks into traces",
    "import {} --output {out}.iotrace": "so does it, but for --anonymize",
    "incident {} --cut 1 --output {out}.iotrace": "none of them has a slow window",
    "capture snapshot {} --output {out}.iotrace": "nothing is recording into any of them",
}


def holds(words, folder):
    """Nothing unexpected came of it, within the memory that is allowed; each command's statuses."""
    done = run(
        [sys.executable, PROGRAM, *words],
        wait_s=7200,
        env=os.environ | {"TMPDIR": str(folder), "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    told = [json.loads(line) for line in done.out.splitlines()]
    assert done.status == 0, f"after {told[-1:]}: {done.status} {done.err[-2000:]}"
    assert done.peak_bytes < MEMORY_MAX, f"{done.peak_bytes >> 20} MiB"
    wrong = [
        (one["damage"], command, status)
        for one in told
        for command, status in one["statuses"].items()
        if not isinstance(status, int)
    ]
    assert wrong == []
    assert told
    tried = sum(len(one["statuses"]) for one in told)
    print(f"{len(told)} recordings, {tried} commands, {done.peak_bytes >> 20} MiB, {done.cpu_s:.0f} s of CPU")
    return [one["statuses"] for one in told]


def test_every_command_does_its_work_on_what_is_not_damaged(tmp_path):
    """One that is refused whatever it is given shows nothing about damage."""
    tried, worked = set(), set()
    for kind, whole in WHOLES.items():
        (room := tmp_path / kind).mkdir()
        (statuses,) = holds(["--undamaged", whole(room)], room)
        tried |= set(statuses)
        worked |= {command for command, status in statuses.items() if status != 2}
    assert tried - worked == set(REFUSED_WITHOUT_DAMAGE)


@pytest.mark.parametrize("kind", WHOLES)
def test_some_damages(kind, tmp_path):
    whole = WHOLES[kind](tmp_path)
    count = sum(1 for _ in damages(whole))
    holds(
        [whole, 5, count // QUICK_DAMAGES, "describe {}", "validate {}", "knee {}", "capture recover {}"],
        tmp_path,
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("kind", WHOLES)
def test_every_damage(kind, share, tmp_path):
    holds([WHOLES[kind](tmp_path), share, SHARES], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
def test_whatever_the_corpus_of_the_fuzzers_becomes(share, tmp_path):
    holds(["--corpus", share, 4], tmp_path)


@pytest.mark.parametrize("file", ["counters.parquet", "markers.parquet"])
def test_rows_of_a_table_with_a_damaged_footer_are_not_counted(file, tmp_path):
    recording = Recording.open(hostile(tmp_path))
    name = file.removesuffix(".parquet")
    assert recording.row_count(name)
    path = recording.path / file
    data = path.read_bytes()
    start = data.index(b"ARROW:schema") + 40
    path.write_bytes(data[:start] + b"*" * 100 + data[start + 100 :])
    with pytest.raises(IotraceError, match=f"damaged table {name}"):
        recording.row_count(name)


BEYOND = pa.array([1 << 40], pa.int64())
WRONG_VALUES = {
    "a number beyond its column": ("files", "file_id", BEYOND, "file_id: Integer value"),
    "a number beyond its column, of I/Os": ("io", "file_id", BEYOND, "file_id: Integer value"),
    "nothing where a time is required": (
        "io",
        "issued_ns",
        pa.nulls(1, pa.int64()),
        "issued_ns is missing in",
    ),
    "a time centuries away": (
        "io",
        "completed_ns",
        pa.array([1 << 62], pa.int64()),
        "completed_ns is over a cent",
    ),
    "a key beyond what is numbered": (
        "files",
        "file_id",
        pa.array([1 << 24], pa.int32()),
        "file_id is 16,777,216",
    ),
    "a key below 0": ("devices", "device_id", pa.array([-1], pa.int32()), "device_id is -1, not from 0"),
    "nothing where a key is required": (
        "devices",
        "device_id",
        pa.nulls(1, pa.int32()),
        "device_id is missing in",
    ),
    "nothing where a word is required": ("files", "role", pa.nulls(1, pa.string()), "role is missing in"),
}


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("case", WRONG_VALUES)
def test_values_that_the_format_rules_out_are_damage(case, has_statistics, tmp_path, capsys):
    """Commands ended in exceptions wherever they first counted by them or wrote them."""
    table, column, value, said = WRONG_VALUES[case]
    recording = Recording.open(hostile(tmp_path))
    (path,) = recording.parquet_paths(table)
    rows = pq.read_table(path)
    at = rows.column_names.index(column)
    last = pa.concat_arrays(
        [pa.array([0 if column != "role" else "data"] * (len(rows) - 1), value.type), value]
    )
    pq.write_table(rows.set_column(at, column, last), path, write_statistics=has_statistics)
    with pytest.raises(IotraceError, match=f"damaged table {table}: {said}"):
        Recording.open(recording.path)
    assert run_commands(["validate", str(recording.path)]) == 1
    assert f"error: {table}.parquet: " in capsys.readouterr().out


def test_a_word_that_the_format_does_not_have_is_damage(tmp_path):
    path = hostile(tmp_path)
    files = pq.read_table(path / "files.parquet")
    at = files.column_names.index("role")
    pq.write_table(files.set_column(at, "role", pa.array(["attic"] * len(files))), path / "files.parquet")
    with pytest.raises(IotraceError, match=r"damaged table files: files.role cannot be 'attic'"):
        Recording.open(path).read("files", ["file_id", "role"])


def test_a_layer_of_no_known_name_is_not_judged_by_a_knee(tmp_path):
    path = sweep(tmp_path)
    for io in path.glob("steps/*/io.parquet"):
        rows = pq.read_table(io)
        at = rows.column_names.index("layer")
        pq.write_table(rows.set_column(at, "layer", pa.array(["another"] * len(rows))), io)
    with pytest.raises(IotraceError, match="damaged table io: 'another' is not a valid Layer"):
        knee(Sweep.open(path).recordings())


@pytest.mark.parametrize("key", ["window_end_ns", "start_utc_ns"])
def test_a_number_of_thousands_of_digits_is_damage(key, tmp_path):
    """Python refuses to read it with an error of its own."""
    path = hostile(tmp_path) / "manifest.json"
    text, count = re.subn(rf'"{key}": \d+', f'"{key}": {"7" * 5000}', path.read_text("utf-8"))
    assert count == 1
    with pytest.raises(IotraceError, match=r"damaged manifest\.json"):
        Manifest.from_json(text, "r.iotrace")


@pytest.mark.parametrize("mark", [b"[" * 60_000, b'{"compressible": 1%s}' % (b"0" * 400), b"7" * 5000])
def test_a_mark_on_a_target_that_is_none_is_none(mark, tmp_path):
    (tmp_path / "t.bin").touch()
    with (tmp_path / "t.bin").open("rb") as file:
        assert noted_fill(mark, file.fileno()) is None
    assert not is_note(mark)


def test_a_stream_whose_lengths_lie_is_left_out():
    """A checksum tells of accidents only: what reads outside of a batch would end the process."""
    table = read_stream(STORED / "arrow-streams" / "dictionary-beyond-its-bytes")
    assert table is not None
    table.validate(full=True)


def test_no_command_that_takes_a_recording_is_forgotten():
    tried = set(
        re.findall(r'^    f?"((?:capture |model )?[a-z]+) \{', COMMANDS.read_text("utf-8"), re.MULTILINE)
    )

    def taking(command, above=""):
        for name, below in getattr(command, "commands", {}).items():
            yield from taking(below, f"{above} {name}".strip())
        if any(parameter.param_type_name == "argument" for parameter in command.params):
            yield above

    plans_and_names = {"fleet plan", "fleet certificates", "fleet replay", "fleet sweep"}
    taking_something_else = {"ceiling", "capture linux", "model list"} | plans_and_names
    reading_as_report_does_and_then_serving = {"view"}
    left = taking_something_else | reading_as_report_does_and_then_serving
    assert set(taking(get_command(app))) - tried == left


READING_IO = ["describe {}", "incident {}", "compare {} {}"]


@pytest.mark.parametrize(
    ("column", "command"),
    [*product(["layer", "op"], READING_IO), ("op", "export {} --to fio -o {out}")],
)
def test_a_layer_or_operation_that_nobody_knows_is_damage(command, column, tmp_path, capsys):
    path = hostile(tmp_path)
    rows = pq.read_table(path / "io.parquet")
    at = rows.column_names.index(column)
    words = rows[column].cast(pa.string()).to_pylist()
    words[::7] = ["attic"] * len(words[::7])
    pq.write_table(rows.set_column(at, column, pa.array(words)), path / "io.parquet")
    assert run_commands(command.format(path, path, out=tmp_path / "o").split()) == 2
    assert "damaged table io: " in capsys.readouterr().err


def test_a_step_whose_last_io_took_years_is_refused(tmp_path):
    """One place in memory for each hundredth of the load's length would be petabytes."""
    path = sweep(tmp_path)
    io = next(path.glob("steps/000*/io.parquet"))
    rows = pq.read_table(io)
    at = rows.column_names.index("completed_ns")
    ends = [*rows["completed_ns"].to_pylist()[:-1], 1 << 61]
    pq.write_table(rows.set_column(at, "completed_ns", pa.array(ends)), io)
    with pytest.raises(IotraceError, match="times as long as the load lasted"):
        knee(Sweep.open(path).recordings())


@pytest.mark.parametrize("scale", ["NaN", "Infinity", "1e999"])
def test_a_sweep_with_a_step_at_no_number_is_damaged(scale, tmp_path):
    path = sweep(tmp_path)
    index = path / "sweep.json"
    text, count = re.subn(r'"scale": 2.0', f'"scale": {scale}', index.read_text("utf-8"))
    assert count == 1
    index.write_text(text, "utf-8")
    with pytest.raises(IotraceError, match=r"damaged sweep\.json: the scale of step .* is (nan|inf)"):
        Sweep.open(path)


@pytest.mark.parametrize("values", [["a", "b"], None], ids=["text", "no such column"])
def test_a_small_table_that_is_another_is_recovered_without(values, tmp_path):
    """The copy that is known to be on the disk is taken; the power cut left the other one in another's blocks."""
    folder = unfinished(tmp_path)
    rows = pa.table({"device_id" if values else "other": values or [1]})
    pq.write_table(rows, folder / "devices.parquet")
    assert run_commands(["capture", "recover", str(tmp_path / "r.iotrace")]) == 0
    recovered = Recording.open(tmp_path / "r.iotrace")
    assert recovered.row_count("io") == len(ROWS)
    assert recovered.read("devices")["name"].to_pylist() == ["sda"]


def test_a_model_is_not_fitted_to_times_that_run_backwards(tmp_path):
    path = hostile(tmp_path)
    rows = pq.read_table(path / "io.parquet")
    at = rows.column_names.index("completed_ns")
    pq.write_table(rows.set_column(at, "completed_ns", pa.array([0] * len(rows))), path / "io.parquet")
    with pytest.raises(IotraceError, match="I/Os completed before being issued"):
        fit([Recording.open(path)])


def test_a_sweep_of_a_recording_without_length_is_refused(tmp_path, capsys):
    """Each step would have played it 500 times, and lasted 500 times as long as was asked."""
    path = hostile(tmp_path)
    written = path / "manifest.json"
    text, count = re.subn(r'"window_end_ns": \d+', '"window_end_ns": 0', written.read_text("utf-8"))
    assert count == 1
    written.write_text(text, "utf-8")
    words = [
        "sweep",
        path,
        "--target",
        "model:azure/P10",
        "-o",
        tmp_path / "s.iotrace",
        "--step-seconds",
        "0.5",
    ]
    assert run_commands(list(map(str, words))) == 2
    assert "lasts 0 ns, too short" in capsys.readouterr().err
