"""--overwrite aimed at what iotrace did not write, by every command that has it, and at what it did."""

import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.cli.characterize_run import MARK as CHARACTERIZED
from iotrace.cli.main import run
from iotrace.schemas import (
    Clock,
    GrowingRecording,
    IotraceError,
    Manifest,
    Recording,
    RecordingWriter,
    Sweep,
    SweepWriter,
    partials,
    replacing,
)
from iotrace.schemas.replacing import SEAL, new_file, sealed_text

from .. import recordings
from ..recordings import SDA
from .evidence import evidence

CAN_EXCHANGE = partials._renameat2() is not None
Make = Callable[[Path, Path], None]
"""Lays something at a path; the second path is the folder of the recording that commands read."""


def write_recording(path: Path, ios: int = 800) -> Recording:
    """8 KiB reads over 8 MiB of one disk for two seconds, and a slow moment."""
    random = np.random.default_rng(7)
    issued_ns = np.sort(random.uniform(0, 2e9, ios)).astype(np.int64)
    io = {
        "issued_ns": issued_ns, "completed_ns": issued_ns + random.integers(200_000, 900_000, ios),
        "offset_bytes": random.integers(0, 1024, ios) * 8192, "device_id": 0,
    }  # fmt: skip
    return recordings.write_recording(
        path,
        io,
        tables={"devices": SDA},
        title="A small server",
        clock=Clock(1_790_000_000_000_000_000, 100, "QPC"),
        window_end_ns=2_000_000_000,
    )


def write_sweep(path: Path) -> None:
    with SweepWriter(path, title="of last week", source_uuid=None) as writer:
        writer.add(1, write_recording(writer.step_path(1), 50))


def write_characterization(path: Path) -> None:
    path.mkdir()
    write_sweep(path / "random-read-8K.iotrace")
    told = {"format_version": 1, "series": ["random-read-8K.iotrace"]}
    (path / CHARACTERIZED).write_text(json.dumps(told))
    replacing.seal_folder(path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "source" / "prod.iotrace").path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text("128166372003061629,usr,0,Read,0,4096,100\n" * 3)
    return path


# ---- files ----------------------------------------------------------------------------------------------------------

FILE_COMMANDS = {
    "report": ("report", "SOURCE", "-o", "PLACE"),
    "markdown": ("report", "SOURCE", "-o", "PLACE"),
    "workbook": ("report", "SOURCE", "-o", "PLACE"),
    "pdf": ("report", "SOURCE", "-o", "PLACE"),
    "model": ("model", "fit", "SOURCE", "-o", "PLACE"),
    "csv": ("export", "SOURCE", "--to", "csv", "-o", "PLACE"),
    "parquet": ("export", "SOURCE", "--to", "parquet", "-o", "PLACE"),
    "msr": ("export", "SOURCE", "--to", "msr", "-o", "PLACE"),
    "characterize": ("characterize", "--target", "PLAY", "--buffered", "--seconds", "0.1", "--warm-up", "0",
                     "--file-size", "1M", "--size", "8K", "--outstanding", "1", "-o", "PLACE"),
}  # fmt: skip


ENDINGS = {
    "report": "html",
    "characterize": "html",
    "markdown": "md",
    "workbook": "xlsx",
    "pdf": "pdf",
    "model": "toml",
}
"""Of the other commands' files: csv."""


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """What prints a PDF is no matter here."""
    monkeypatch.setattr("iotrace.analyze.report.write.installed", lambda: "chromium")
    monkeypatch.setattr("iotrace.analyze.report.write.print_pdf", lambda _: b"%PDF-1.7")


def text(words: str) -> Make:
    return lambda path, _source: path.write_text(words)  # type: ignore[return-value]


def bytes_of(content: bytes) -> Make:
    return lambda path, _source: path.write_bytes(content)  # type: ignore[return-value]


def edited(mode: str) -> Make:
    """A result of iotrace's own that somebody has worked on since."""

    def make(path: Path, _source: Path) -> None:
        with new_file(path, overwrite=False) as partial:
            partial.write_text(
                sealed_text("<!DOCTYPE html>\n<p>as it was</p>\n") if mode != "table" else "a,b\n1,2\n"
            )
        before = path.stat()
        with path.open("r+b") as file:
            file.seek(-3 if mode == "tail" else 3, os.SEEK_END if mode == "tail" else os.SEEK_SET)
            file.write(b"x")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return make


def own_seal_on_anothers_content(path: Path, _source: Path) -> None:
    with new_file(path, overwrite=False) as partial:
        partial.write_text("a,b\n1,2\n")
    seal = os.getxattr(path, SEAL)
    path.unlink()
    path.write_text("a,b\n1,3\n")
    os.setxattr(path, SEAL, seal)


def derived_table(path: Path, source: Path) -> None:
    """What pandas makes of an export keeps its metadata, and is somebody's work."""
    exported = path.with_name("exported.parquet")
    assert run(["export", str(source), "--to", "parquet", "-o", str(exported)]) == 0
    pq.write_table(pq.read_table(exported).slice(0, 10), path)
    exported.unlink()


def appended_table(path: Path, source: Path) -> None:
    assert run(["export", str(source), "--to", "csv", "-o", str(path)]) == 0
    with path.open("a") as file:
        file.write("my,own,remarks\n")


def copied_without_seal(path: Path, source: Path) -> None:
    exported = path.with_name("exported.csv")
    assert run(["export", str(source), "--to", "csv", "-o", str(exported)]) == 0
    shutil.copyfile(exported, path)
    exported.unlink()


def anothers_table(path: Path, _source: Path) -> None:
    """The table of a recording; the place is a link to the folder, so that the name leads into it."""
    other = write_recording(path.with_name("other.iotrace"), 60)
    shutil.copy2(other.path / "io.parquet", path)


def socket_at(path: Path, _source: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def block_node(path: Path, _source: Path) -> None:
    os.mknod(path, 0o600 | 0o060000, os.makedev(7, 250))


def null_node(path: Path, _source: Path) -> None:
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))


def link_to_a_file(path: Path, _source: Path) -> None:
    path.with_name("precious").write_text("ten years of work")
    path.symlink_to("precious")


def link_to_an_own_file(path: Path, _source: Path) -> None:
    with new_file(path.with_name("own"), overwrite=False) as partial:
        partial.write_text("a,b\n")
    path.symlink_to("own")


PAGE = bytes([1, 15, 0, 0, 8]) + bytes(8187)
FILES: dict[str, Make] = {
    "mdf": bytes_of(PAGE * 20),
    "empty": bytes_of(b""),
    "notes": text("what I found out"),
    "html": text("<!DOCTYPE html><title>Ours</title><p>the annual report"),
    "html naming iotrace": text('<!DOCTYPE html><meta name="generator" content="iotrace 1.0"><title>iotrace demo'),
    "html with a false seal": text(f"<p>mine</p>\n<!-- written by iotrace, sha256 {'ab' * 32} -->\n"),
    "html edited": edited("head"),
    "html edited at its end": edited("tail"),
    "table edited": edited("table"),
    "table with lines added": appended_table,
    "table derived": derived_table,
    "table copied without its seal": copied_without_seal,
    "seal moved": own_seal_on_anothers_content,
    "table of a recording": anothers_table,
    "csv": text("issued_utc,layer,op\n2026-01-01,block,read\n"),
    "fifo": lambda path, _source: os.mkfifo(path),
    "socket": socket_at,
    "block node": block_node,
    "character node": null_node,
    "link": link_to_a_file,
    "link to an own file": link_to_an_own_file,
    "dangling link": lambda path, _source: path.symlink_to("nowhere"),
    "empty folder": lambda path, _source: path.mkdir(),
    "recording": lambda path, _source: write_recording(path, 20) and None,
}  # fmt: skip


def words(command: tuple[str, ...], **names: Path) -> list[str]:
    return [str(names.get(word.lower(), word)) for word in command] + ["--overwrite"]


def assert_left_alone(
    sentence: list[str], out: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused by the name of ``out``, with a hint, and nothing beside it or in ``source`` has changed."""
    before = evidence(out.parent, source)
    capsys.readouterr()
    status = run(sentence)
    said = capsys.readouterr().err
    assert status == 2, said
    assert out.name in said
    assert "hint:" in said
    assert evidence(out.parent, source) == before


@pytest.mark.slow
@pytest.mark.parametrize("command", FILE_COMMANDS)
@pytest.mark.parametrize("kind", FILES)
def test_no_file_of_anothers_is_replaced(
    source: Path, place: Path, capsys: pytest.CaptureFixture[str], kind: str, command: str
) -> None:
    out = place / f"result.{ENDINGS.get(command, 'html')}"
    try:
        FILES[kind](out, source)
    except PermissionError:
        pytest.skip("device nodes need root")
    sentence = words(FILE_COMMANDS[command], source=source, place=out, play=place / "t.bin")
    assert_left_alone(sentence, out, source, capsys)


@pytest.mark.parametrize("command", FILE_COMMANDS)
@pytest.mark.parametrize("table", ["io.parquet", "manifest.json"])
def test_no_part_of_another_recording_is_replaced(
    source: Path, place: Path, command: str, table: str
) -> None:
    other = write_recording(place / "other.iotrace", 30)
    before = evidence(place, source)
    out = other.path / table
    status = run(words(FILE_COMMANDS[command], source=source, place=out, play=place / "t.bin"))
    assert status == 2
    assert evidence(place, source) == before


@pytest.mark.parametrize("command", FILE_COMMANDS)
def test_an_own_file_is_replaced(source: Path, place: Path, command: str) -> None:
    out = place / f"result.{ENDINGS.get(command, 'csv')}"
    sentence = words(FILE_COMMANDS[command], source=source, place=out, play=place / "t.bin")
    assert run(sentence[:-1]) in (0, 1)
    first = out.stat().st_ino
    assert run(sentence[:-1]) == 2
    assert out.stat().st_ino == first
    assert run(sentence) in (0, 1)
    assert out.stat().st_ino != first


def test_a_report_is_known_after_any_copy(source: Path, place: Path) -> None:
    assert run(["report", str(source), "-o", str(place / "a.html")]) in (0, 1)
    (place / "b.html").write_bytes((place / "a.html").read_bytes())
    first = (place / "b.html").stat().st_ino
    assert run(["report", str(source), "-o", str(place / "b.html"), "--overwrite"]) in (0, 1)
    assert (place / "b.html").stat().st_ino != first


def test_where_no_seal_can_be_kept_nothing_is_replaced(
    source: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    sentence = ["export", str(source), "--to", "csv", "-o", str(place / "x.csv"), "--overwrite"]
    assert run(sentence) == 0
    before = evidence(place)
    assert run(sentence) == 2
    assert evidence(place) == before


# ---- folders --------------------------------------------------------------------------------------------------------

FOLDER_COMMANDS = {
    "import": ("import", "TRACE", "-o", "PLACE"),
    "replay": ("replay", "SOURCE", "--target", "PLAY", "--buffered", "-o", "PLACE"),
    "sweep": ("sweep", "SOURCE", "--target", "PLAY", "--buffered", "--scales", "1x", "-o", "PLACE"),
    "incident": ("incident", "SOURCE", "--cut", "1", "-o", "PLACE"),
    "characterize": ("characterize", "--target", "PLAY", "--buffered", "--seconds", "0.1", "--file-size", "1M",
                     "--warm-up", "0", "--size", "8K", "--outstanding", "1", "-o", "PLACE"),
    "fio": ("export", "SOURCE", "--to", "fio", "-o", "PLACE"),
    "diskspd": ("export", "SOURCE", "--to", "diskspd", "-o", "PLACE"),
    "plan": ("capture", "plan", "--output", "PLACE"),
}  # fmt: skip


def own_folder(path: Path, source: Path, command: str) -> None:
    """A result as the command leaves it."""
    if command in {"fio", "diskspd"}:
        assert run(["export", str(source), "--to", command, "-o", str(path)]) == 0
    elif command == "plan":
        assert run(["capture", "plan", "--output", str(path)]) == 0
    elif command == "characterize":
        write_characterization(path)
    elif command == "sweep":
        write_sweep(path)
    else:
        write_recording(path, 40)


def index_of(path: Path) -> Path:
    names = ("manifest.json", "sweep.json", CHARACTERIZED, "export.json", "plan.json")
    return next(path / name for name in names if (path / name).exists())


def notes_beside_a_copied_index(path: Path, source: Path, command: str) -> None:
    own = path.with_name("own")
    own_folder(own, source, command)
    path.mkdir()
    shutil.copy2(index_of(own), path)
    (path / "thesis.txt").write_text("ten years of work")
    (path / "chapters").mkdir()
    (path / "chapters" / "one.txt").write_text("and one chapter")


def notes_added(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    (path / "notes.txt").write_text("what I found out")


def folder_added(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    (path / "mine").mkdir()


def hidden_added(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    (path / ".notes").write_text("what I found out")


def link_added(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    path.with_name("precious").write_text("x")
    (path / "linked").symlink_to("../precious")


def fifo_added(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    os.mkfifo(path / "pipe")


def one_exchanged(path: Path, source: Path, command: str) -> None:
    """A file of iotrace's name with somebody else's content."""
    own_folder(path, source, command)
    largest = max((file for file in path.rglob("*") if file.is_file() and file != index_of(path)),
                  key=lambda file: file.stat().st_size)  # fmt: skip
    largest.write_bytes(b"somebody's only copy\n" * 1000)


def one_a_link(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    file = next(file for file in sorted(path.rglob("*")) if file.is_file() and file != index_of(path))
    file.rename(path.with_name("moved"))
    file.symlink_to(path.with_name("moved"))


def index_a_fifo(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    index = index_of(path)
    index.unlink()
    os.mkfifo(index)


def index_of_another_program(path: Path, source: Path, command: str) -> None:
    own_folder(path, source, command)
    index = index_of(path)
    index.write_text(json.dumps({"format_version": 2, "name": "addon", "uuid": "x", "kind": "theme"}))


def index_leading_out(path: Path, source: Path, command: str) -> None:
    """The index names what lies elsewhere as its own."""
    other = path.with_name("elsewhere.iotrace")
    write_recording(other, 25)
    own_folder(path, source, command)
    index = index_of(path)
    told = json.loads(index.read_text())
    name = "../elsewhere.iotrace"
    if "steps" in told:
        told["steps"].append({"scale": 2.0, "folder": name})
    elif "series" in told:
        told["series"].append(name)
    elif "sha256" in told:
        told["sha256"][f"{name}/io.parquet"] = "ab" * 32
    else:
        told["rows"][f"{name}/io"] = 25
    index.write_text(json.dumps(told))
    if SEAL in os.listxattr(path):  # as a copy has it
        os.removexattr(path, SEAL)
    (path / "notes.txt").write_text("x")


def link_to_an_own_folder(path: Path, source: Path, command: str) -> None:
    own_folder(path.with_name("own"), source, command)
    path.symlink_to("own")


def a_file(path: Path, _source: Path, _command: str) -> None:
    path.write_bytes(PAGE)


def an_empty_folder(path: Path, _source: Path, _command: str) -> None:
    path.mkdir()


def another_kind(path: Path, source: Path, command: str) -> None:
    """A result of iotrace's own of which this command is not the maker."""
    own_folder(path, source, "plan" if command != "plan" else "fio")


def index_edited(path: Path, source: Path, command: str) -> None:
    """As many editors do it: a new file takes the name."""
    own_folder(path, source, command)
    index = index_of(path)
    told = json.loads(index.read_text()) | {"title": "with my findings"}
    index.with_name("new").write_text(json.dumps(told))
    index.with_name("new").replace(index)


def step_edited(path: Path, source: Path, command: str) -> None:
    """The index of a recording within; its own of what is one."""
    own_folder(path, source, command)
    index = next(iter(path.rglob("manifest.json")), index_of(path))
    index.write_text(index.read_text().replace("A small server", "A small server, by me") + " ")


def column_added(path: Path, source: Path, command: str) -> None:
    """A table with as many rows as before."""
    own_folder(path, source, command)
    if (table := next(iter(path.rglob("devices.parquet")), None)) is None:
        index_of(path).write_text(index_of(path).read_text() + " ")
        return
    found = pq.read_table(table)
    pq.write_table(found.append_column("remark", pa.array(["mine"] * found.num_rows)), table)


FOLDERS = {
    make.__name__: make
    for make in (
        notes_beside_a_copied_index, notes_added, folder_added, hidden_added, link_added, fifo_added, one_exchanged,
        one_a_link, index_a_fifo, index_of_another_program, index_leading_out, link_to_an_own_folder, a_file,
        an_empty_folder, another_kind,
    )
}  # fmt: skip


def folder_words(command: str, tmp_path: Path, source: Path, out: Path) -> list[str]:
    names = {"source": source, "trace": tmp_path / "trace.csv", "place": out, "play": tmp_path / "t.bin"}
    return words(FOLDER_COMMANDS[command], **names)


@pytest.fixture
def slow_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happened is no matter here: any stretch can be cut out."""
    window = SimpleNamespace(number=1, cause="unknown")
    monkeypatch.setattr("iotrace.cli.incident.window_to_cut", lambda *_: (window, 0, 1_000_000_000))


@pytest.mark.slow
@pytest.mark.usefixtures("slow_moment", "trace")
@pytest.mark.parametrize("command", FOLDER_COMMANDS)
@pytest.mark.parametrize("kind", FOLDERS)
def test_no_folder_with_anothers_work_is_replaced(
    source: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, command: str
) -> None:
    out = place / "result.iotrace"
    FOLDERS[kind](out, source, command)
    assert_left_alone(folder_words(command, tmp_path, source, out), out, source, capsys)


@pytest.mark.usefixtures("slow_moment", "trace")
@pytest.mark.parametrize("command", FOLDER_COMMANDS)
@pytest.mark.parametrize("edit", [index_edited, step_edited, column_added])
def test_no_result_that_was_edited_is_replaced(
    source: Path,
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[Path, Path, str], None],
    command: str,
) -> None:
    out = place / "result.iotrace"
    edit(out, source, command)
    assert_left_alone(folder_words(command, tmp_path, source, out), out, source, capsys)


@pytest.mark.usefixtures("slow_moment", "trace")
@pytest.mark.parametrize("command", FOLDER_COMMANDS)
def test_an_own_folder_is_replaced_and_what_it_names_elsewhere_is_not(
    source: Path, place: Path, tmp_path: Path, command: str
) -> None:
    out = place / "result.iotrace"
    index_leading_out(out, source, command)
    (out / "notes.txt").unlink()
    elsewhere = evidence(place / "elsewhere.iotrace")
    inode = out.stat().st_ino
    extra = ["--step-seconds", "0.5"] if command == "sweep" else []
    assert run(folder_words(command, tmp_path, source, out) + extra) in (0, 1)
    assert evidence(place / "elsewhere.iotrace") == elsewhere
    assert out.stat().st_ino != inode
    assert sorted(entry.name for entry in place.iterdir()) == ["elsewhere.iotrace", "result.iotrace"]


@pytest.fixture(params=["exchanged", "renamed twice"])
def at_the_last_moment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], None]:
    """Lays a file between the last look at a place and its replacement, with and without an exchange of names."""

    def set_up(out: Path, late: Callable[[], object]) -> None:
        exchange, rename = partials.exchange, Path.rename
        done = []

        def lay() -> None:
            if not done:
                done.append(late())

        def late_exchange(one: Path, other: Path) -> bool:
            lay()
            return exchange(one, other)

        def late_rename(path: Path, target: Path) -> Path:
            if path == out:
                lay()
            return rename(path, target)

        if request.param == "exchanged":
            monkeypatch.setattr(replacing, "exchange", late_exchange)
        else:
            monkeypatch.setattr(replacing, "exchange", lambda *_: False)
            monkeypatch.setattr(Path, "rename", late_rename)

    return set_up  # type: ignore[return-value]


def test_what_is_put_there_at_the_last_moment_stays(
    place: Path, at_the_last_moment: Callable[[Path, Callable[[], object]], None]
) -> None:
    out = place / "result.iotrace"
    write_recording(out, 30)
    at_the_last_moment(out, lambda: (out / "late.txt").write_text("ten years of work"))
    with (
        pytest.raises(Exception, match="has just been changed"),
        RecordingWriter(out, overwrite=True) as writer,
    ):
        writer.commit(Manifest("captured", "new", Clock(0, 1, "x")))
    assert (out / "late.txt").read_text() == "ten years of work"
    assert (out / "manifest.json").exists()
    assert sorted(entry.name for entry in place.iterdir()) == ["result.iotrace"]


def test_a_sweep_puts_nothing_in_the_place_of_what_came_at_the_last_moment(
    place: Path, at_the_last_moment: Callable[[Path, Callable[[], object]], None]
) -> None:
    out = place / "result.iotrace"
    write_sweep(out)
    at_the_last_moment(out, lambda: (out / "late.txt").write_text("ten years of work"))
    with pytest.raises(Exception, match="has just been changed"):
        SweepWriter(out, title="new", source_uuid=None, overwrite=True)
    assert (out / "late.txt").read_text() == "ten years of work"
    assert len(Sweep.open(out).recordings()) == 1
    assert sorted(entry.name for entry in place.iterdir()) == ["result.iotrace"]


@pytest.mark.skipif(not CAN_EXCHANGE, reason="no exchange of names in this kernel or C library")
def test_a_file_exchanged_at_the_last_moment_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = place / "x.csv"
    with new_file(out, overwrite=False) as partial:
        partial.write_text("a,b\n")
    exchange = partials.exchange

    def late(one: Path, other: Path) -> bool:
        if not out.read_text().startswith("ten"):
            out.unlink()
            out.write_text("ten years of work")
        return exchange(one, other)

    monkeypatch.setattr(replacing, "exchange", late)
    with pytest.raises(Exception, match="has just been changed"), new_file(out, overwrite=True) as partial:
        partial.write_text("a,b\n1,2\n")
    assert out.read_text() == "ten years of work"
    assert sorted(entry.name for entry in place.iterdir()) == ["x.csv"]


@pytest.mark.skipif(not CAN_EXCHANGE, reason="no exchange of names in this kernel or C library")
@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_comes_to_a_free_name_at_the_last_moment_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    """An ordinary rename replaces an empty folder, or any file."""
    for out in (place / "r.iotrace", place / "x.csv"):
        rename = partials.rename_to_free

        def late(one: Path, other: Path, rename: Callable[..., None] = rename) -> None:
            make(other)
            rename(one, other)

        monkeypatch.setattr(replacing, "rename_to_free", late)
        with pytest.raises(IotraceError):
            if out.suffix == ".csv":
                with new_file(out, overwrite=False) as partial:
                    partial.write_text("a,b\n")
            else:
                with RecordingWriter(out) as writer:
                    writer.commit(Manifest("captured", "new", Clock(0, 1, "x")))
        monkeypatch.undo()
        before = place / "made"
        make(before)
        assert stat.S_IFMT(out.lstat().st_mode) == stat.S_IFMT(before.lstat().st_mode)
        assert not (list(out.iterdir()) if out.is_dir() else out.stat().st_size)
        before.rmdir() if before.is_dir() else before.unlink()
    assert sorted(entry.name for entry in place.iterdir()) == ["r.iotrace", "x.csv"]


# ---- what a recorder that was killed left ---------------------------------------------------------------------------


def unfinished(folder: Path) -> Path:
    """A recording that was cut off."""
    path = folder / "live.iotrace"
    with GrowingRecording.create(path) as growing:
        growing.append("io", write_recording(folder / "made.iotrace", 100).read("io"))
        growing.flush(Manifest("captured", "cut off", Clock(0, 1, "x"), window_end_ns=2_000_000_000))
        growing.seal()
    shutil.rmtree(folder / "made.iotrace")
    return path.with_name("live.iotrace.unfinished")


STRANGERS: dict[str, Callable[[Path], object]] = {
    "notes": lambda folder: (folder / "notes.txt").write_text("what I found out"),
    "hidden notes": lambda folder: (folder / ".notes").write_text("what I found out"),
    "folder": lambda folder: (folder / "mine" / "deeper").mkdir(parents=True),
    "hidden file in a folder": lambda folder: ((folder / "mine").mkdir(), (folder / "mine" / ".env").write_text("x")),
    "file in a table": lambda folder: (folder / "io" / "part-mine.parquet").write_text("x"),
    "hidden file in a table": lambda folder: (folder / "io" / ".gitignore").write_text("x"),
    "file among the synced": lambda folder: (
        (folder / "synced").mkdir(exist_ok=True), (folder / "synced" / "thesis.txt").write_text("x"),
    ),
    "link": lambda folder: (folder / "devices.parquet").symlink_to("/etc/hostname"),
    "fifo": lambda folder: os.mkfifo(folder / "waits.parquet"),
}  # fmt: skip


@pytest.mark.parametrize("kind", STRANGERS)
def test_recovering_removes_nothing_that_no_recorder_wrote(place: Path, kind: str) -> None:
    folder = unfinished(place)
    STRANGERS[kind](folder)
    before = evidence(place)
    assert run(["capture", "recover", str(place / "live.iotrace")]) == 2
    assert evidence(place) == before


def test_recovering_where_nothing_was_added(place: Path) -> None:
    unfinished(place)
    assert run(["capture", "recover", str(place / "live.iotrace")]) == 0
    assert Recording.open(place / "live.iotrace").manifest.rows["io"] == 100


def test_recovering_replaces_no_others_work(place: Path, source: Path) -> None:
    unfinished(place)
    for make in FOLDERS.values():
        out = place / "live.iotrace"
        make(out, source, "replay")
        before = evidence(place)
        assert run(["capture", "recover", str(out), "--overwrite"]) == 2
        assert {
            path: told for path, told in evidence(place).items() if "live.iotrace.unfinished" not in path
        } == {path: told for path, told in before.items() if "live.iotrace.unfinished" not in path}
        for left in place.iterdir():
            if left.name != "live.iotrace.unfinished":
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def test_the_demo_replaces_no_report_but_its_own(place: Path) -> None:
    report = place / "iotrace-demo-report.html"
    report.write_text("<!DOCTYPE html><title>iotrace demo</title><p>with my remarks")
    before = evidence(place)
    assert run(["demo", "--folder", str(place)]) == 2
    assert evidence(place) == before


def test_what_was_copied_from_the_bundled_recording_replaces_nothing(place: Path) -> None:
    (place / "demo.iotrace").mkdir()
    before = evidence(place)
    assert run(["demo", "--recording", str(place / "demo.iotrace")]) == 2
    assert evidence(place) == before


LOOPS = {
    "html": ("report", "SOURCE", "-o", "LOOP"),
    "md": ("report", "SOURCE", "-o", "LOOP"),
    "csv": ("export", "SOURCE", "--to", "csv", "-o", "LOOP"),
    "fio": ("export", "SOURCE", "--to", "fio", "-o", "LOOP"),
    "iotrace": ("replay", "SOURCE", "--target", "PLAY", "-o", "LOOP"),
    "import": ("import", "TRACE", "-o", "LOOP"),
    "read": ("describe", "LOOP"),
    "read twice": ("report", "SOURCE", "LOOP", "-o", "PLAY"),
    "queried": ("query", "LOOP", "select 1"),
    "imported": ("import", "LOOP", "-o", "NEW"),
}


@pytest.mark.parametrize("command", LOOPS)
def test_a_link_to_itself_is_refused_in_words(
    source: Path, place: Path, trace: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    loop = place / f"s.{command if ' ' not in command else 'iotrace'}"
    loop.symlink_to(loop.name)
    names = {
        "SOURCE": source,
        "LOOP": loop,
        "PLAY": place / "t.html",
        "NEW": place / "n.iotrace",
        "TRACE": trace,
    }
    assert run([str(names.get(word, word)) for word in LOOPS[command]]) == 2
    assert loop.name in capsys.readouterr().err
    assert loop.is_symlink()
