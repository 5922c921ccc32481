"""Bad input is the normal case: one line that names the user's word, a hint, exit status 2, and nothing left behind."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.schemas import Recording

from ..ordinary import USER, open_folder, reads_this_checkout
from .conftest import Result, make_recording


def assert_refused(result: Result, *words: object) -> None:
    assert result.status == 2
    assert result.out == ""
    lines = result.err.splitlines()
    assert lines[0].startswith("error: ")
    assert not lines[0].endswith(".")
    assert lines[1] == ""
    assert lines[2].startswith("hint: ")
    assert len(lines) == 3
    for word in words:
        assert str(word) in lines[0]


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def make_truncated_header(path: Path) -> None:
    path.write_bytes((1 << 16).to_bytes(4, "little") + bytes(200))


def make_zip_bomb(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("kernel.etl", "w") as member,
    ):
        for _ in range(2000):
            member.write(bytes(1 << 20))


def test_what_is_missing_is_said_with_what_it_is(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    told = iotrace("compare", tmp_path / "a.iotrace")
    assert_refused(told, "Missing argument 'B…': a second recording to compare with")
    assert "hint: iotrace compare --help" in told.err


def test_an_option_without_its_value_leads_to_the_help_of_its_command(iotrace: Callable[..., Result]) -> None:
    for words in (["demo", "--recording"], ["model", "list", "--nothing"]):
        told = iotrace(*words)
        assert_refused(told, words[-1])
        assert f"hint: iotrace {' '.join(words[:-1])} --help" in told.err


@pytest.mark.parametrize(
    "words", ["import a.blg -o", "replay a.iotrace --target t -o", "characterize --target t -o"]
)
def test_a_recording_is_not_called_like_a_file(
    iotrace: Callable[..., Result], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = iotrace(*words.split(), "a.TXT")
    assert_refused(told, "'a.TXT'", "folder")
    assert "call it a.iotrace" in told.err
    assert not entries(tmp_path)


BAD_TRACES = {
    "truncated.etl": make_truncated_header,
    "random.etl": lambda path: path.write_bytes(os.urandom(100_000)),
    "empty.etl": Path.touch,
    "folder.etl": Path.mkdir,
    "missing.etl": lambda _: None,
    "bomb.zip": make_zip_bomb,
    "text.txt": lambda path: path.write_text("not a trace\n" * 1000),
    "broken.zip": lambda path: path.write_bytes(b"PK\x03\x04" + os.urandom(1000)),
}


@pytest.mark.parametrize("name", BAD_TRACES)
def test_a_bad_trace_is_refused_by_name(iotrace: Callable[..., Result], tmp_path: Path, name: str) -> None:
    BAD_TRACES[name](tmp_path / name)
    before = entries(tmp_path)
    result = iotrace("import", tmp_path / name, "-o", tmp_path / "out.iotrace")
    assert_refused(result, name)
    assert entries(tmp_path) == before


@pytest.mark.parametrize("command", ["describe", "validate", "knee"])
def test_a_missing_recording_is_named(iotrace: Callable[..., Result], tmp_path: Path, command: str) -> None:
    assert_refused(iotrace(command, tmp_path / "nowhere.iotrace"), "nowhere.iotrace")


def test_an_existing_output_is_not_touched(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("ten years of work")
    result = iotrace("replay", reads.path, "--target", tmp_path / "t", "-o", tmp_path / "mine", "--overwrite")
    assert_refused(result, "mine")
    assert entries(tmp_path / "mine") == ["thesis.txt"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--scale", "fast"], "fast"),
        (["--scale", "0x"], "0x"),
        (["--mode", "hope"], "hope"),
        (["--backend", "magic"], "magic"),
        (["--map", "0"], "0"),
        (["--map", "9=t"], "9"),
        (["--busiest", "soon"], "soon"),
        (["--file-size", "big"], "big"),
        (["--layer", "cloud"], "cloud"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_a_bad_option_is_named(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, arguments: list[str], word: str
) -> None:
    result = iotrace(
        "replay", reads.path, "--target", tmp_path / "t", "-o", tmp_path / "o.iotrace", *arguments
    )
    assert_refused(result, word)
    assert entries(tmp_path) == ["reads.iotrace"]


@pytest.mark.parametrize("slo", ["fast", "p99<", "p99<15", "p101<15ms", "<script>"])
def test_a_bad_slo_is_named(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, slo: str
) -> None:
    result = iotrace(
        "sweep", reads.path, "--target", tmp_path / "t", "-o", tmp_path / "s.iotrace", "--slo", slo
    )
    assert_refused(result, slo)
    assert entries(tmp_path) == ["reads.iotrace"]


def test_a_replay_without_target_says_how_to_name_one(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    result = iotrace("replay", reads.path, "-o", tmp_path / "o.iotrace")
    assert_refused(result, "target")
    assert "--target" in result.err


def test_a_missing_target_folder_is_named(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    target = tmp_path / "nowhere" / "t.bin"
    assert_refused(iotrace("replay", reads.path, "--target", target, "-o", tmp_path / "o.iotrace"), target)
    assert entries(tmp_path) == ["reads.iotrace"]


def test_a_target_too_small_is_named(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    small = tmp_path / "small.bin"
    small.write_bytes(os.urandom(65536))
    assert_refused(iotrace("replay", reads.path, "--target", small, "-o", tmp_path / "o.iotrace"), small)
    assert entries(tmp_path) == ["reads.iotrace", "small.bin"]


def test_a_foreign_file_is_not_written(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    make_recording(tmp_path / "mixed.iotrace", writes=True)
    foreign = tmp_path / "foreign.bin"
    foreign.write_bytes(b"precious" * (4 << 20))
    result = iotrace("replay", tmp_path / "mixed.iotrace", "--target", foreign, "-o", tmp_path / "o.iotrace")
    assert_refused(result, foreign)
    assert foreign.read_bytes() == b"precious" * (4 << 20)
    assert entries(tmp_path) == ["foreign.bin", "mixed.iotrace"]


def test_a_mounted_device_is_not_written(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may open devices")
    root = next(
        (line.split() for line in Path("/proc/mounts").read_text().splitlines() if line.startswith("/dev/")),
        None,
    )
    if root is None:
        pytest.skip("nothing here is mounted from a device")
    device = root[0]
    make_recording(tmp_path / "mixed.iotrace", writes=True)
    result = iotrace(
        "replay", tmp_path / "mixed.iotrace", "--target", device, "--allow-writes", "--destroy-data", device,
        "-o", tmp_path / "o.iotrace",
    )  # fmt: skip
    assert_refused(result, device, "mounted")
    assert entries(tmp_path) == ["mixed.iotrace"]


def test_a_folder_in_memory_refuses_direct_io(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path
) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        pytest.skip("no folder in memory here")
    target = memory / f"iotrace-test-{os.getpid()}"
    result = iotrace("replay", reads.path, "--target", target, "-o", tmp_path / "o.iotrace")
    assert_refused(result, target)
    assert "--buffered" in result.err
    assert not target.exists()


AS_AN_ORDINARY_USER = f"""
import encodings.ascii, importlib, os, pkgutil, sys
import iotrace.capture, iotrace.cli
from iotrace.cli.main import run
for room in iotrace.capture, iotrace.cli:  # an ordinary user may have no right to read them later
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({USER})
    os.setuid({USER})
sys.exit(run(sys.argv[1:]))
"""


@reads_this_checkout
@pytest.mark.skipif(sys.platform != "linux", reason="the recorder is Linux's")
def test_tracing_without_permission_says_what_to_grant() -> None:
    device = Path("/proc/partitions").read_text(encoding="ascii").split()[-1]
    with open_folder() as folder:
        words = ["capture", "linux", f"/dev/{device}", "--seconds", "1", "-o", str(folder / "o.iotrace")]
        done = subprocess.run(
            [sys.executable, "-c", AS_AN_ORDINARY_USER, *words], capture_output=True, text=True, check=False
        )
        assert entries(folder) == []
    assert_refused(Result(done.returncode, done.stdout, done.stderr), "/sys/kernel/tracing")


def test_a_device_that_is_none_cannot_be_recorded(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    result = iotrace("capture", "linux", "/dev/no-such-disk", "-o", tmp_path / "o.iotrace", "--seconds", "1")
    assert_refused(result)
    assert entries(tmp_path) == []


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "iotrace.cli", "describe", str(tmp_path / "no.iotrace"), "--debug"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("command", ["describe", "query"])
def test_signs_that_a_code_page_lacks_stop_nothing(tmp_path: Path, reads: Recording, command: str) -> None:
    """As where Windows redirects to a file: its code page has no ≤, and ASCII not even µ."""
    more = ["SELECT 'µ ≤ █' AS sign"] if command == "query" else []
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", command, str(reads.path), *more],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert b"went wrong" not in done.stderr
    assert done.returncode in {0, 1}
    assert done.stdout.isascii()


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
def test_a_full_disk_is_said_of_the_answer(reads: Recording, unbuffered: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "iotrace.cli", "describe", str(reads.path)]
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert_refused(Result(done.returncode, "", done.stderr), "No space left on device")


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "x", "-o", "{long}"),
        ("knee", "{long}"),
        ("capture", "recover", "{long}"),
        ("capture", "recover", "."),
        ("capture", "snapshot", "/", "-o", "o.iotrace"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    iotrace: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("x")
    assert_refused(iotrace(*(word.format(long="x" * 300) for word in arguments)))
    assert entries(tmp_path) == ["x"]


@pytest.mark.parametrize("command", ["replay", "export"])
@pytest.mark.parametrize("damage", ["cut off", "without times", "times as text"])
def test_a_damaged_table_is_named(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, command: str, damage: str
) -> None:
    file = reads.path / "io.parquet"
    table = pq.read_table(file)
    if damage == "cut off":
        file.write_bytes(file.read_bytes()[:1000])
    elif damage == "without times":
        pq.write_table(table.drop_columns(["issued_ns"]), file)
    else:
        at = table.schema.get_field_index("issued_ns")
        pq.write_table(table.set_column(at, "issued_ns", table["issued_ns"].cast(pa.string())), file)
    more = ["--to", "csv"] if command == "export" else ["--target", tmp_path / "t"]
    assert_refused(iotrace(command, reads.path, *more, "-o", tmp_path / "out"), reads.path)
    assert entries(tmp_path) == ["reads.iotrace"]


@pytest.mark.parametrize("command", ["describe", "incident", "export"])
@pytest.mark.parametrize("field", ["start_utc_ns", "window_end_ns"])
def test_a_time_beyond_any_clock_is_damage(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, command: str, field: str
) -> None:
    file = reads.path / "manifest.json"
    manifest = json.loads(file.read_text())
    (manifest["clock"] if field == "start_utc_ns" else manifest)[field] = 10**20
    file.write_text(json.dumps(manifest))
    more = ["--to", "csv", "-o", tmp_path / "out"] if command == "export" else []
    assert_refused(iotrace(command, reads.path, *more), reads.path, "manifest.json")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (option, value)
        for option in (
            ("sweep", "--step-seconds"),
            ("replay", "--seed"),
            ("replay", "--max-errors"),
            ("query", "--limit"),
            ("capture linux", "--seconds"),
            ("capture linux", "--ring"),
        )
        for value in ("inf", "nan", "1e400", "9" * 30)
        if value != "9" * 30 or option[0] != "capture linux"  # which records as long as you like
    ],
)
def test_a_number_beyond_all_is_refused(
    iotrace: Callable[..., Result], reads: Recording, tmp_path: Path, option: tuple[str, str], value: str
) -> None:
    command, name = option
    words = {
        "query": [reads.path, "SELECT 1"],
        "capture linux": ["/dev/no-such-disk", "-o", tmp_path / "o.iotrace"],
    }.get(command, [reads.path, "--target", tmp_path / "t", "-o", tmp_path / "o.iotrace"])
    assert_refused(iotrace(*command.split(), *words, name, value), name)
    assert entries(tmp_path) == ["reads.iotrace"]


DELETED = "the working folder was deleted"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no folder that is in use")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("report x.iotrace -o x.html", f"'x.iotrace' leads nowhere: {DELETED}"),
        ("report {recording} -o x.html", f"'x.html' leads nowhere: {DELETED}"),
        ("replay {recording} --target t -o x.iotrace", f"'x.iotrace' leads nowhere: {DELETED}"),
        ("replay {recording} --target t -o {elsewhere}", DELETED),
        ("import x -o x.iotrace", f"'x.iotrace' leads nowhere: {DELETED}"),
        ("inspect x", DELETED),
    ],
)
def test_a_deleted_working_folder_is_no_circle_of_links(
    iotrace: Callable[..., Result],
    reads: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    said: str,
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    given = words.format(recording=reads.path, elsewhere=tmp_path / "o.iotrace").split()
    result = iotrace(*given)
    assert_refused(result)
    assert result.err.splitlines()[0] == f"error: {said}"
    assert "cd" in result.err.splitlines()[2]
    assert entries(tmp_path) == ["reads.iotrace"]


def test_a_circle_of_links_is_named(
    iotrace: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle").symlink_to("circle")
    assert_refused(iotrace("import", "x", "-o", "circle"), "'circle'", "a link that leads back to itself")
