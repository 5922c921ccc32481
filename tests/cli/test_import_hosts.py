"""A folder with a folder or an archive for each host becomes a recording of each, as each would alone."""

import json
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from iotrace.cli import main as command_line
from iotrace.schemas import Recording

from .conftest import check_answer

FIXTURES = Path(__file__).parents[1] / "fixtures"
TRACES = {"SQL01": FIXTURES / "xperf" / "dumper.csv", "SQL02": FIXTURES / "linux" / "blkparse.txt"}


@pytest.fixture
def hosts(tmp_path):
    """Two hosts' folders and a zip of a third's."""
    folder = tmp_path / "hosts"
    for host, trace in TRACES.items():
        (folder / host).mkdir(parents=True)
        shutil.copy(trace, folder / host)
    with zipfile.ZipFile(folder / "SQL03.zip", "w") as archive:
        archive.write(TRACES["SQL01"], "traces/dumper.csv")
    return folder


def run(capsys, *words) -> tuple[int, dict]:
    status = command_line.run(["import", *map(str, words), "--hosts", "--json"])
    answer = capsys.readouterr().out
    check_answer(answer)
    return status, json.loads(answer)


def test_each_host_has_what_it_would_have_alone(hosts, tmp_path, capsys):
    status, facts = run(capsys, hosts, "-o", tmp_path / "fleet")
    assert status == 0
    assert facts["left_out"] == []
    assert [one["host"] for one in facts["imported"]] == ["SQL01", "SQL02", "SQL03"]
    for host, trace in {**TRACES, "SQL03": TRACES["SQL01"]}.items():
        alone = tmp_path / "alone.iotrace"
        assert command_line.run(["import", str(trace), "-o", str(alone), "--overwrite"]) == 0
        made, expected = Recording.open(tmp_path / "fleet" / f"{host}.iotrace"), Recording.open(alone)
        assert made.manifest.rows == expected.manifest.rows
        assert made.read("io").equals(expected.read("io"))


def test_a_host_that_cannot_be_read_costs_the_others_nothing(hosts, tmp_path, capsys):
    (hosts / "SQL02" / TRACES["SQL02"].name).write_bytes(b"\0" * 100)
    status, facts = run(capsys, hosts, "-o", tmp_path / "fleet")
    assert status == 1
    assert [one["host"] for one in facts["imported"]] == ["SQL01", "SQL03"]
    assert [Path(one["path"]).name for one in facts["left_out"]] == ["SQL02"]
    assert sorted(path.name for path in (tmp_path / "fleet").iterdir()) == ["SQL01.iotrace", "SQL03.iotrace"]


def test_without_a_key_all_hosts_share_their_pseudonyms(hosts, tmp_path, capsys):
    _, facts = run(capsys, hosts, "-o", tmp_path / "fleet", "--anonymize")
    one, other = (
        Recording.open(made["path"]).read("files")["path"].to_pylist()
        for made in facts["imported"]
        if made["rows"].get("files")  # blkparse knows none
    )
    assert one
    assert one == other


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda hosts, _: (hosts / "x.etl").write_bytes(b"x"), "nothing says whose it is"),
        (
            lambda hosts, _: shutil.copytree(hosts / "SQL01", hosts / "SQL03"),
            "would both become SQL03.iotrace",
        ),
        (lambda _, fleet: (fleet / "SQL02.iotrace").mkdir(parents=True), "exists"),
        (lambda _, fleet: fleet.write_text("mine"), "names one recording"),
        (lambda hosts, _: (shutil.rmtree(hosts), hosts.mkdir()), "is empty"),
    ],
    ids=["a loose file", "two of one name", "an output in the way", "a file for a folder", "no host"],
)
def test_what_is_no_folder_of_hosts_is_refused_before_anything_is_read(hosts, tmp_path, capsys, spoil, said):
    fleet = tmp_path / "fleet"
    spoil(hosts, fleet)
    before = sorted(tmp_path.rglob("*"))
    assert command_line.run(["import", str(hosts), "--hosts", "-o", str(fleet)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
@pytest.mark.parametrize("umask", [0, 0o777])
def test_the_folder_that_lists_hosts_is_its_owners_alone(hosts, tmp_path, umask):
    before = os.umask(umask)
    try:
        assert command_line.run(["import", str(hosts), "--hosts", "-o", str(tmp_path / "fleet")]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fleet").stat().st_mode) == 0o700
