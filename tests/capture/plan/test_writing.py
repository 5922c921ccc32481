"""A plan appears whole or not at all, and never over anything that somebody else made or changed."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from iotrace.capture.plan import PlanOptions, write_plan
from iotrace.capture.plan import writing as writing_module
from iotrace.schemas import IotraceError

OPTIONS = PlanOptions()


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_every_file_is_there_and_recorded(tmp_path):
    plan = write_plan(OPTIONS, tmp_path / "new" / "plan")
    found = contents(tmp_path / "new" / "plan")
    assert found == plan.files
    recorded = json.loads(found.pop("plan.json"))
    assert recorded["sha256"] == {path: hashlib.sha256(data).hexdigest() for path, data in found.items()}
    assert recorded["options"]["minutes"] == 60
    assert sorted(tmp_path.rglob(".*")) == []


@pytest.mark.skipif(os.name == "nt", reason="there is no umask on Windows")
@pytest.mark.parametrize("umask", [0, 0o002, 0o022])
def test_nobody_else_may_change_what_a_dba_will_run(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_plan(OPTIONS, tmp_path / "plan")
    finally:
        os.umask(before)
    for path in (tmp_path / "plan", *(tmp_path / "plan").rglob("*")):
        mode = path.stat().st_mode
        assert mode & 0o022 == 0, path


def test_two_plans_never_share_a_name(tmp_path):
    assert write_plan(OPTIONS, tmp_path / "a").name != write_plan(OPTIONS, tmp_path / "b").name


def test_windows_tools_read_the_files_as_written():
    files = writing_module.make_plan(OPTIONS, "n").files
    for path, content in files.items():
        if path != "plan.json":
            assert content.count(b"\n") == content.count(b"\r\n"), path
        assert content.startswith(b"\xef\xbb\xbf") == path.endswith((".ps1", ".sql")), path
    assert files["counters.txt"].isascii()


def make_file(target: Path) -> None:
    target.write_text("thesis")


def make_folder(target: Path) -> None:
    target.mkdir()
    (target / "thesis.txt").write_text("ten years")


def make_plan_with_a_change(target: Path) -> None:
    write_plan(OPTIONS, target)
    (target / "settings.ps1").write_text("$Iotrace = @{}")


def make_plan_with_an_addition(target: Path) -> None:
    write_plan(OPTIONS, target)
    (target / "sql" / "mine.sql").write_text("SELECT 1")


def make_folder_with_a_false_record(target: Path) -> None:
    target.mkdir()
    (target / "plan.json").write_text('{"sha256": []}')


def make_link(target: Path) -> None:
    write_plan(OPTIONS, target.with_name("elsewhere"))
    target.symlink_to(target.with_name("elsewhere"))


@pytest.mark.parametrize(
    "make",
    [
        make_file, make_folder, make_plan_with_a_change, make_plan_with_an_addition, make_folder_with_a_false_record,
        make_link,
    ],
)  # fmt: skip
def test_what_is_no_untouched_plan_stays(tmp_path, make):
    make(tmp_path / "plan")
    before = contents(tmp_path)
    with pytest.raises(IotraceError, match="plan"):
        write_plan(OPTIONS, tmp_path / "plan", overwrite=True)
    assert contents(tmp_path) == before


def test_an_untouched_plan_is_replaced_only_when_asked(tmp_path):
    write_plan(OPTIONS, tmp_path / "plan")
    before = contents(tmp_path)
    with pytest.raises(IotraceError, match="exists already"):
        write_plan(PlanOptions(minutes=5), tmp_path / "plan")
    assert contents(tmp_path) == before
    write_plan(PlanOptions(minutes=5), tmp_path / "plan", overwrite=True)
    assert json.loads((tmp_path / "plan" / "plan.json").read_text())["options"]["minutes"] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, existing):
    if existing:
        write_plan(OPTIONS, tmp_path / "plan")
    before = contents(tmp_path)
    write_bytes, written = Path.write_bytes, []

    def fail_at_the_fifth(path, data):
        written.append(path)
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", fail_at_the_fifth)
    with pytest.raises(IotraceError, match="No space left"):
        write_plan(OPTIONS, tmp_path / "plan", overwrite=True)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == (["plan"] if existing else [])
