"""Results of other tools on the command line: imported, described, reported."""

import json
from pathlib import Path

import pytest

from iotrace.cli.main import run

FIXTURES = Path(__file__).parents[1] / "fixtures" / "results"


def told(capsys, *arguments):
    status = run([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    return shown.out


def test_one_result_is_described_and_reported(tmp_path, capsys):
    told(capsys, "import", FIXTURES / "diskspd.xml", "-o", tmp_path / "a.iotrace")
    text = told(capsys, "describe", tmp_path / "a.iotrace")
    assert "diskspd 2.2.0, mixed 8 KiB, 200 IOPS asked for" in text.replace("\n", " ")
    assert "holds no I/Os" not in text
    facts = json.loads(told(capsys, "describe", tmp_path / "a.iotrace", "--json"))
    assert [row["op"] for row in facts["results"]] == ["read", "write", "total"]
    said = told(capsys, "report", tmp_path / "a.iotrace", "-o", tmp_path / "a.html")
    assert "1 run of diskspd" in said
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "Results of diskspd" in page
    assert "0.90 ms" in page


def test_several_become_a_sweep_by_virtual_users(tmp_path, capsys):
    paths = [FIXTURES / "hammerdb.log", FIXTURES / "hdbxtprofile.log"]
    text = told(capsys, "import", *paths, "-o", tmp_path / "a.iotrace")
    assert "3 runs in order of virtual users" in " ".join(text.split()), "wherever the path breaks the line"
    assert "230,100" in text
    facts = json.loads(told(capsys, "import", *paths, "-o", tmp_path / "b.iotrace", "--json"))
    assert facts["settings"]["axis"] == "virtual_users"
    assert [step["rows"]["results"] for step in facts["steps"]] == [3, 3, 3]


def test_query_has_a_view_of_results(tmp_path, capsys):
    told(capsys, "import", FIXTURES / "fio.json", "-o", tmp_path / "a.iotrace")
    text = told(capsys, "query", tmp_path / "a.iotrace", "SELECT op, ios FROM results WHERE op = 'read'")
    assert "1024" in text.replace(",", "")


@pytest.mark.parametrize("name", ["hammerdb.log", "iometer.csv", "flatfile.html", "fio-plus.txt"])
def test_a_sweep_exists_whole_or_not_at_all(tmp_path, capsys, name):
    told(capsys, "import", FIXTURES / name, "-o", tmp_path / "a.iotrace")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.iotrace"]
    assert run(["import", str(FIXTURES / name), "-o", str(tmp_path / "a.iotrace")]) == 2
    assert "exists already" in capsys.readouterr().err
    told(capsys, "import", FIXTURES / name, "-o", tmp_path / "a.iotrace", "--overwrite")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.iotrace"]
