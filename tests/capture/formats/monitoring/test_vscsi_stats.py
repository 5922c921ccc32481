"""Histograms of vscsiStats, with values reckoned by hand from the bins that are planted."""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

from ..test_registry import FIXTURES

PRINTOUT = FIXTURES / "monitoring" / "vscsistats.csv"
AS_TEXT = """Histogram: latency of IOs in Microseconds (us) for virtual machine worldGroupID : 1200, \
virtual disk handleID : 8201 (scsi0:1) {
 min : 3
 max : 900
 mean : 200
 count : 4
   {
      0                (<=                 1)
      1                (<=                10)
      2                (<=               100)
      1                (>                100)
   }
}
"""


def told(path, tmp_path):
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    return recording, recording.read("counters").to_pylist()


def of(rows, kind):
    return {row["counter"].removeprefix(f"{kind}: "): row["value"] for row in rows if kind in row["counter"]}


def test_quantiles_lie_between_the_ends_of_a_bin(tmp_path):
    recording, rows = told(PRINTOUT, tmp_path)
    assert of(rows, "latency of Read IOs") == {
        "number": 100,
        "mean": 1_510_000,
        "least": 120_000,
        "most": 42_000_000,
        "p50, at least": 120_000,  # the bin begins at 101 µs, but nothing was below 120
        "p50, at most": 500_000,
        "p90, at least": 1_001_000,  # 85 took up to 1,000 µs
        "p90, at most": 5_000_000,
        "p99, at least": 15_001_000,
        "p99, at most": 30_000_000,
    }
    lengths = of(rows, "IO lengths of Write commands")
    assert (lengths["p50, at least"], lengths["p50, at most"]) == (4097 + 4095, 8192)
    # Above the last limit only the most of all is known.
    assert (lengths["p99, at least"], lengths["p99, at most"]) == (524_289, 1_048_576)
    assert of(rows, "distance between successive commands")["p50, at least"] == 1
    assert {row["metric"]: row["value"] for row in rows if row["metric"]} == {
        "write_size_bytes": 40_960,
        "read_latency_ns": 1_510_000,
    }
    assert {row["instance"] for row in rows} == {"scsi0:1 of world group 1200"}  # the other disk did nothing
    assert any("the source tells no time" in note for note in recording.manifest.quality.notes)


def test_as_it_prints_without_commas(tmp_path):
    path = tmp_path / "print.txt"
    path.write_text(AS_TEXT)
    _, rows = told(path, tmp_path)
    figures = of(rows, "latency of IOs")
    assert (figures["p50, at least"], figures["p50, at most"]) == (11_000, 100_000)
    assert (figures["p99, at least"], figures["p99, at most"]) == (101_000, 900_000)


def test_printouts_one_after_the_other_are_told_apart(tmp_path):
    path = tmp_path / "print.csv"
    path.write_text(PRINTOUT.read_text() * 3)
    recording, rows = told(path, tmp_path)
    assert len({row["at_ns"] for row in rows}) == 3
    assert any("each of its 3 printouts" in note for note in recording.manifest.quality.notes)


def test_a_cut_histogram_is_left_out(tmp_path):
    path = tmp_path / "print.csv"
    text = PRINTOUT.read_text()
    path.write_text(text[: text.index("1,30000")])
    recording, rows = told(path, tmp_path)
    assert recording.manifest.quality.truncated_tail
    assert not of(rows, "latency of Read IOs")


def test_a_histogram_whose_bins_fall_is_left_out(tmp_path):
    path = tmp_path / "print.csv"
    path.write_text(PRINTOUT.read_text().replace("25,1000\n", "25,100\n"))
    recording, rows = told(path, tmp_path)
    assert not of(rows, "latency of Read IOs")
    assert any("not understood" in note for note in recording.manifest.quality.notes)


def test_nothing_but_idle_disks_says_what_to_do(tmp_path):
    path = tmp_path / "print.csv"
    text = PRINTOUT.read_text()
    path.write_text(text[text.rindex("Histogram: ") :])
    with pytest.raises(IotraceError, match="holds no value") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert "vscsiStats -s while the disk is busy" in caught.value.hint
