"""A report on a sweep whose path is described: the knee stands beside what the path allows."""

from iotrace.analyze.ceiling import parse_path
from iotrace.analyze.present import plain
from iotrace.analyze.report import write_report

from .report_inputs import write_sweep

# The sweep's storage carries 2,000 reads a second of 8 KiB; two disks would carry twice that.
PATH = '[[disk]]\nname = "<b>data</b>"\ncount = 2\niops = 2000'


def test_the_report_says_how_far_the_knee_is_from_the_ceiling(tmp_path):
    sweep = write_sweep(tmp_path / "sweep.iotrace")
    facts = write_report([sweep], tmp_path / "r.html", ceiling=parse_path(PATH, "path.toml"))
    (one,) = facts.sweeps
    assert one.beside_ceiling.state == "below"
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "The path allows at most 33 MB/s at this size and mix" in text
    assert "It is as if 1 of the 2 disks &lt;b&gt;data&lt;/b&gt; in use (16 MB/s): look at striping" in text
    assert plain(facts)["sweeps"][0]["beside_ceiling"]["state"] == "below"


def test_without_a_description_nothing_is_said(tmp_path):
    facts = write_report([write_sweep(tmp_path / "sweep.iotrace")], tmp_path / "r.html")
    assert facts.sweeps[0].beside_ceiling is None
    assert "The path allows" not in (tmp_path / "r.html").read_text("utf-8")
