"""Raw counters of ONTAP in two polls, cooked as NetApp's documentation says and worked out by hand."""

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from iotrace.capture.formats.array.ontap_polls import COUNTERS
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "array"


def poll(at, *luns):
    body = "".join(
        "<instance-data><counters>"
        + "".join(
            f"<counter-data><name>{k}</name><value>{v}</value></counter-data>" for k, v in totals.items()
        )
        + f"</counters><name>{name}</name><uuid>u-{name}</uuid></instance-data>"
        for name, totals in luns
    )
    return f'<results status="passed"><instances>{body}</instances><timestamp>{at}</timestamp></results>'


@pytest.fixture
def polls():
    paths = [SAMPLES / f"netapp_harvest_zapiperf_pollData{number}.xml" for number in (1, 2)]
    if not paths[0].is_file():
        pytest.skip(f"no {paths[0]}")
    return paths


def values(recording, instance=None):
    return {
        row["metric"]: row["value"]
        for row in recording.read("counters").to_pylist()
        if instance is None or row["instance"] == instance
    }


@pytest.mark.parametrize("named", [0, 1, 2])
def test_the_real_polls(tmp_path, polls, named):
    """One LUN of 12 worked: 16 reads and 317 writes in 61 s; differences taken from the files by hand."""
    recording = import_files(polls if named == 2 else [polls[named]], tmp_path / "out.iotrace")
    rows = recording.read("counters").to_pylist()
    busy = {row["instance"] for row in rows if row["value"]}
    assert len(busy) == 1
    assert values(recording, *busy) == pytest.approx(
        {
            "read_iops": 16 / 61,
            "write_iops": 317 / 61,
            "read_bytes_per_second": (210218643968 - 210218566144) / 61,
            "write_bytes_per_second": (327554674176 - 327550930432) / 61,
            "read_latency_ns": 123_000.0,
            "write_latency_ns": (14202189976 - 14202045440) / 317 * 1000,
        }
    )
    # Where nothing was done there is no latency; a LUN that the first poll lacks has no interval.
    assert len(rows) == 12 * 4 + 2
    assert {row["layer"] for row in rows} == {"array"}
    assert recording.manifest.clock.start_utc_ns == 1758292422 * 10**9
    assert recording.manifest.window_end_ns == 61 * 10**9
    assert [Path(source.name).name for source in recording.manifest.sources] == [path.name for path in polls]
    assert any("rates are within 1.6 %" in note for note in recording.manifest.quality.notes)


def test_properties_and_bases_are_those_of_the_arrays_own_list(polls):
    told = {
        entry.findtext("name"): (entry.findtext("properties"), entry.findtext("unit"), entry.findtext("base-counter"))
        for entry in ET.parse(
            polls[0].with_name("netapp_harvest_zapiperf_pollCounter.xml")
        ).iter("counter-info")
    }  # fmt: skip
    for name, about in COUNTERS.items():
        properties, unit, base = told[name]
        assert (properties, base) == (("rate", None) if about.base is None else ("average", about.base))
        assert unit == {"1/s": "per_sec", "bytes/s": "b_per_sec", "ns": "microsec"}[about.unit]


def test_totals_that_began_again_are_left_out(tmp_path):
    (tmp_path / "p1.xml").write_text(poll(100, ("a", {"read_ops": 50}), ("b", {"read_ops": 10})))
    (tmp_path / "p2.xml").write_text(poll(110, ("a", {"read_ops": 20}), ("b", {"read_ops": 30})))
    recording = import_files([tmp_path / "p1.xml"], tmp_path / "out.iotrace")
    assert values(recording) == {"read_iops": 2.0}
    assert any("began again" in note for note in recording.manifest.quality.notes)


def test_one_poll_tells_no_rate_and_says_so(tmp_path, polls):
    alone = shutil.copy(polls[0], tmp_path / "poll.xml")
    recording = import_files([alone], tmp_path / "out.iotrace")
    assert recording.manifest.rows["counters"] == 0
    assert any("one poll only" in note for note in recording.manifest.quality.notes)


@pytest.mark.parametrize("cut", [600, 5000, 17_000])
def test_a_poll_that_is_cut_is_named(tmp_path, polls, cut):
    path = tmp_path / "poll.xml"
    path.write_bytes(polls[0].read_bytes()[:cut])
    with pytest.raises(IotraceError, match="cut off"):
        import_files([path], tmp_path / "out.iotrace")


def test_a_document_type_is_refused(tmp_path):
    path = tmp_path / "p1.xml"
    path.write_text('<!DOCTYPE r [<!ENTITY a "aaaa">]>' + poll(1, ("x", {"read_ops": 1})))
    with pytest.raises(IotraceError, match="document type"):
        import_files([path], tmp_path / "out.iotrace")


def test_memory_is_that_of_the_totals_and_not_of_the_elements(tmp_path):
    """A tree of these elements would take some 100 MB."""
    resource = pytest.importorskip("resource", reason="there is no getrusage on Windows")
    filler = "<x/>" * 1_000_000
    for number, reads in ((1, 10), (2, 30)):
        whole = poll(100 * number, ("a", {"read_ops": reads}))
        (tmp_path / f"p{number}.xml").write_text(whole.replace("</counters>", f"</counters>{filler}"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    recording = import_files([tmp_path / "p1.xml"], tmp_path / "out.iotrace")
    assert values(recording) == {"read_iops": 0.2}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10  # KiB
