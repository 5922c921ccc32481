"""No name out of a recording, and no target, makes the program that reads an export do anything else.

fio and a spreadsheet's reader are asked themselves, DiskSpd's files are read as XML and as Windows reads command lines.
"""

import csv
import json
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

from iotrace.replay.export import export_diskspd, export_fio, export_table, measure, parse_targets
from iotrace.schemas import Clock, IotraceError
from iotrace.schemas.host import Host

from ..hostile_names import HOSTILE_NAMES
from ..recordings import write_recording

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")

SECTION = "[evil]\nioengine=null\nsize=4k\nexec_prerun=touch {}\n"
TITLES = {
    "a section after a line break": "night\n" + SECTION,
    "after a carriage return": "night\r" + SECTION.replace("\n", "\r"),
    "after both": "night\r\n" + SECTION.replace("\n", "\r\n"),
    "after a line separator": "night\u2028" + SECTION.replace("\n", "\u2028"),
    "after a next line": "night\u0085" + SECTION.replace("\n", "\u0085"),
    "after a form feed": "night\f" + SECTION.replace("\n", "\f"),
    "after a vertical tab": "night\v" + SECTION.replace("\n", "\v"),
    "after a zero": "night\0\n" + SECTION,
    "beyond a line's buffer": "x" * 4088 + SECTION.replace("\n", " "),
    "beyond one of 4 KiB": "x" * 4096 + "[evil] " + "y" * 4095 + "exec_prerun=touch {}",
    "an include": "night\ninclude /etc/passwd\n",
    "an option of all jobs": "night\n[global]\nexec_prerun=touch {}\n",
    "a variable": "${HOME} $ncpus $(touch {}) `touch {}`",
    **{f"name: {name}": text for name, text in HOSTILE_NAMES.items()},
}
GROUPS = [
    "a\nb",
    'x" & calc & "',
    "$(touch {})",
    "%PATH%",
    "<x> C:\\evil",
    "[evil]\nexec_prerun=touch {}",
    "../../etc",
    "^&|",
]


def write(folder, title, device="disk 0"):
    """A recording of a second with hostile words wherever an export takes some."""
    at = np.arange(400) * 2_500_000
    return write_recording(
        folder / "source.iotrace",
        {
            "issued_ns": at, "completed_ns": at + 100_000, "offset_bytes": np.arange(400) * 8192, "device_id": 0,
            "file_id": pa.array([None] * 400, pa.int32()), "process_id": 0,
        },
        tables={
            "devices": {"device_id": [0], "name": device, "kind": "disk", "mount": device},
            "files": {"file_id": [0], "path": title, "role": "data", "database": title},
            "processes": {"process_id": [0], "os_process_id": 1, "name": title},
        },
        title=title,
        clock=Clock(0, 100, title),
        window_end_ns=10**9,
        host=Host(title),
    )  # fmt: skip


def hostile(folder, text, **words):
    mark = folder / "executed"
    return measure(write(folder, text.replace("{}", str(mark)), **{
        key: word.replace("{}", str(mark)) for key, word in words.items()
    })), mark  # fmt: skip


def run_fio(folder, job="workload.fio"):
    return subprocess.run(["fio", job], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def sections(folder):
    """The sections and options that fio itself finds in a job file."""
    told = subprocess.run(
        ["fio", "--parse-only", "--debug=parse", "workload.fio"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    return re.findall(r"Parsing section \[(.*)\]", told.stdout), re.findall(
        r"handle_option=(\w+)", told.stdout
    )


@needs_fio
@pytest.mark.parametrize("title", TITLES)
def test_fio_finds_only_what_was_exported(tmp_path, title):
    workload, mark = hostile(tmp_path, TITLES[title])
    export_fio(workload, tmp_path / "job", {}, seconds=1, iolog=True)
    names, options = sections(tmp_path / "job")
    assert [name for name in names if name != "global"] == ["disk-0-8k-32k"] or len(names) == 2
    assert not {"exec_prerun", "exec_postrun", "include"} & set(options)
    text = (tmp_path / "job" / "workload.fio").read_text("utf-8")
    assert max(len(line.encode()) for line in text.split("\n")) < 4000
    assert not mark.exists()


@needs_fio
def test_fio_runs_nothing(tmp_path):
    workload, mark = hostile(tmp_path, TITLES["a section after a line break"])
    export_fio(workload, tmp_path / "job", {}, seconds=1, iolog=False)
    run_fio(tmp_path / "job")
    assert not mark.exists()


def test_this_fio_would_have_run_it(tmp_path):
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    mark = tmp_path / "executed"
    (tmp_path / "workload.fio").write_text("# night\n" + SECTION.replace("{}", str(mark)))
    run_fio(tmp_path)
    assert mark.exists()


TARGETS = [
    "plain",
    "a b",
    "a'b",
    'a"b',
    "a%b",
    "a,b",
    "a\\b",
    "a=b",
    "[x]",
    "a*b",
    "a:b",
    "{a}",
    "~a",
    "a&b",
    "a|b",
    "<a>",
    "include",
    "a`touch executed`b",
    "a(b)",
    "ünï",
    "a\\",
    "!a",
    "@a",
    "-rw",
    "%(x)s",
    "a;b",
    "a#b",
    "a$pagesize",
    "a$ncpus",
    "x';touch executed;'$ncpus",
    "a${HOME}b",
    "$mb_memory",
    "-",
    " a",
    "a ",
    "x" * 999,
]


@needs_fio
@pytest.mark.parametrize("target", TARGETS)
def test_fio_writes_the_target_of_this_name_or_the_export_is_refused(tmp_path, target):
    workload, _ = hostile(tmp_path, "night")
    folder = tmp_path / "job"
    with suppress(IotraceError):
        export_fio(workload, folder, parse_targets([target], workload.groups), seconds=1, iolog=False)
    if not folder.exists():
        return
    before = set(folder.iterdir())
    job = (folder / "workload.fio").read_text("utf-8").replace("direct=1", "create_only=1")
    job = job.replace("ioengine=libaio", "ioengine=sync")
    (folder / "workload.fio").write_text(job, "utf-8")
    run_fio(folder)
    assert {path.name for path in set(folder.iterdir()) - before} <= {target}
    if len(target) < 255:
        assert (folder / target).is_file()


@pytest.mark.parametrize("title", TITLES)
def test_a_readme_has_no_line_that_a_name_wrote(tmp_path, title):
    workload, _ = hostile(tmp_path, TITLES[title])
    (tmp_path / "plain").mkdir()
    plain, _ = hostile(tmp_path / "plain", "night")
    for tool, export in (("fio", export_fio), ("diskspd", export_diskspd)):
        more = {"iolog": False} if tool == "fio" else {"most_classes": 4}
        for name, one in (("hostile", workload), ("plain", plain)):
            export(one, tmp_path / f"{name}-{tool}", {}, seconds=1, **more)
        for file in (tmp_path / f"hostile-{tool}").iterdir():
            text = file.read_text("utf-8")
            assert not {char for char in text if not char.isprintable() and char != "\n"}, file.name
            same = (tmp_path / f"plain-{tool}" / file.name).read_text("utf-8")
            assert len(text.split("\n")) == len(same.split("\n")), file.name


@pytest.mark.parametrize("group", GROUPS)
def test_diskspd_s_files_hold_no_word_of_a_device(tmp_path, group):
    workload, _ = hostile(tmp_path, "night", device=group)
    _, facts = export_diskspd(workload, tmp_path / "out", {}, seconds=1, most_classes=4)
    for line in (tmp_path / "out" / "command-lines.txt").read_text("utf-8").split("\n")[2:]:
        assert re.fullmatch(r'diskspd( -[A-Za-z]+[0-9]*)+ "<[A-Za-z0-9_-]+ target>"|', line), line
    assert re.fullmatch(r"diskspd -Xprofile.xml( <[A-Za-z0-9_-]+ target>)+", facts.run)
    ET.parse(tmp_path / "out" / "profile.xml")
    json.loads((tmp_path / "out" / "export.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "target",
    ['E:\\a" & calc & "', "E:\\%COMSPEC%", "E:\\a<b>&c", "E:\\]]></Path><Path>C:\\Windows", "E:\\a'b"],
)
def test_diskspd_gets_the_target_of_this_name_or_the_export_is_refused(tmp_path, target):
    workload, _ = hostile(tmp_path, "night")
    with suppress(IotraceError):
        export_diskspd(
            workload, tmp_path / "out", parse_targets([target], workload.groups), seconds=1, most_classes=4
        )
    if not (tmp_path / "out").exists():
        return
    paths = [node.text for node in ET.parse(tmp_path / "out" / "profile.xml").iter("Path")]
    assert set(paths) == {target}
    for line in (tmp_path / "out" / "command-lines.txt").read_text("utf-8").split("\n")[2:-1]:
        assert line.endswith(f' "{target}"')
        assert line.count('"') == 2


SEPARATORS = ",;\t|"


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize(
    "name",
    [
        "=cmd|' /C calc'!A0",
        "a;=1+1",
        'a";"=1+1',
        "a\t@SUM(1)",
        "a|-2+3",
        "a,+1",
        "x\n=1+1",
        "x\r\n=1",
        *HOSTILE_NAMES.values(),
    ],
)
def test_no_cell_is_a_formula_whatever_separates_cells(tmp_path, name, separator):
    recording = write(tmp_path, name)
    export_table(recording, tmp_path / "io.csv", "csv")
    with (tmp_path / "io.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=separator))
    cells = [cell.strip('"') for row in rows for cell in row]
    formulas = {
        cell for cell in cells if cell[:1] in set("=+-@\t\r") and not re.fullmatch(r"[+-]?[0-9.]*", cell)
    }
    assert not formulas


def test_a_csv_gives_back_the_names_it_was_given(tmp_path):
    name = 'a "quoted", name; of\ntwo lines\tand a tab'
    recording = write(tmp_path, name)
    export_table(recording, tmp_path / "io.csv", "csv")
    with (tmp_path / "io.csv").open(newline="", encoding="utf-8") as file:
        assert {row["process"] for row in csv.DictReader(file)} == {name}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_msr_lines_have_their_seven_columns(tmp_path, name):
    export_table(write(tmp_path, HOSTILE_NAMES[name]), tmp_path / "io.csv", "msr", layer="block")
    for line in (tmp_path / "io.csv").read_text("utf-8").splitlines():
        assert re.fullmatch(r"[0-9]+,[A-Za-z0-9_.-]+,[0-9]+,(Read|Write),[0-9]+,[0-9]+,[0-9]+", line)


def test_an_iolog_holds_no_name_that_fio_would_cut(tmp_path):
    workload, _ = hostile(tmp_path, "night")
    with pytest.raises(IotraceError, match="too long for an iolog"):
        export_fio(workload, tmp_path / "job", {None: "x" * 256}, seconds=1, iolog=True)
    with pytest.raises(IotraceError, match="too long for a job file"):
        parse_targets(["x" * 1001], workload.groups)
    assert not Path(tmp_path / "job").exists()
