"""Single I/Os from tables of them, by a mapping: planted rows."""

import gzip

import pyarrow.compute as pc
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

MAP = """
name = "trace"
[time]
column = "ts"
unit = "us"
[io]
op = "rw"
reads = ["R", 0]
writes = ["W", 1]
offset = "lba"
offset_unit = "sectors"
size = "bytes"
latency = "us"
device = "vol"
"""
TABLE = "ts,vol,rw,lba,bytes,us\n1772366400000000,v1,R,8,4096,250\n1772366400000100,v2,w,16,8192,1000.5\n"


@pytest.fixture
def imported(tmp_path):
    def run(table, mapping):
        (tmp_path / "t.csv").write_text(table)
        (tmp_path / "t.toml").write_text(mapping)
        recording = import_files(
            [tmp_path / "t.csv"], tmp_path / "x.iotrace", maps=[tmp_path / "t.toml"], overwrite=True
        )
        assert validate(recording.path) == []
        return recording

    return run


def test_rows_are_ios_with_their_latency_and_device(imported):
    recording = imported(TABLE, MAP)
    assert recording.manifest.clock.start_utc_ns == 1_772_366_400 * 10**9
    names = {row["device_id"]: row["name"] for row in recording.read("devices").to_pylist()}
    rows = [
        (row["op"], row["issued_ns"], row["completed_ns"], row["offset_bytes"], row["size_bytes"],
         names[row["device_id"]])
        for row in recording.read("io").to_pylist()
    ]  # fmt: skip
    assert rows == [("read", 0, 250_000, 4096, 4096, "v1"), ("write", 100_000, 1_100_500, 8192, 8192, "v2")]


def test_the_csv_that_libcachesim_writes_is_the_trace_it_was_made_of(imported, samples, tmp_path):
    """A real trace of VMware, row by row: its CSV by a mapping, its own file by its reader."""
    block = samples / "block"
    table = gzip.decompress((block / "libcachesim_cloudPhysicsIO.csv.gz").read_bytes()).decode()
    mapping = """
    name = "libCacheSim"
    [time]
    column = "time"
    format = "relative"
    [io]
    op = "op"
    reads = [8, 28, 88, "a8"]
    writes = ["0a", "2a", "8a", "aa"]
    offset = "lbn"
    offset_unit = "sectors"
    size = "size"
    """
    columns = ["op", "completed_ns", "offset_bytes", "size_bytes"]
    by_map = imported(table, mapping).read("io")
    own = import_files([block / "libcachesim_cloudPhysicsIO.vscsi"], tmp_path / "own.iotrace").read("io")
    assert by_map.num_rows == 113_872
    assert by_map.select(columns).to_pylist() == own.select(columns).to_pylist()
    # Its times are whole seconds.
    apart = pc.subtract(by_map["issued_ns"], own["issued_ns"])
    assert pc.max(pc.abs(apart)).as_py() < 10**9


def test_a_relative_time_in_seconds_names_no_date(imported):
    mapping = MAP.replace('unit = "us"', 'unit = "s"\nformat = "relative"').replace('latency = "us"\n', "")
    mapping = mapping.replace('name = "trace"', 'name = "trace"\ndelimiter = "|"')
    recording = imported("ts|vol|rw|lba|bytes\n0.5|v|0|8|4096\n0.75|v|1|16|512\nx|v|1|16|512\n", mapping)
    rows = recording.read("io").to_pylist()
    assert [(row["issued_ns"], row["completed_ns"], row["size_bytes"]) for row in rows] == [
        (0, None, 4096), (250_000_000, None, 512),
    ]  # fmt: skip
    quality = recording.manifest.quality
    assert quality.events_lost == 1
    assert any("has no date" in note for note in quality.notes)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('op = "rw"\n', "", "'op' is missing"),
        ('"sectors"', '"acres"', "'acres' is missing or of the wrong kind"),
        ('unit = "us"', 'unit = "us"\nformat = "iso"', "epoch, filetime, or relative"),
        ('"lba"', '"sector"', "unknown columns"),
        ('name = "trace"', 'delimiter = "é"', "as delimiter"),
        ('reads = ["R", 0]', "reads = 7", "is missing or of the wrong kind"),
    ],
)
def test_what_is_wrong_is_named(imported, old, new, words):
    with pytest.raises(IotraceError) as problem:
        imported(TABLE, MAP.replace(old, new))
    assert words in problem.value.message
    assert problem.value.hint


def test_a_table_like_msr_s_under_other_names(imported):
    """Windows' file times; 2007-02-22 17:00:00.3061629 is the first line of the published trace hm_1."""
    table = (
        "ts,host,disk,type,off,len,resp\n128166372003061629,hm,1,Read,8192,4096,413\n"
        "128166372013061630,hm,1,Write,0,512,90\n"
    )
    mapping = """
[time]
column = "ts"
format = "filetime"
[io]
op = "type"
reads = ["Read"]
writes = ["Write"]
offset = "off"
size = "len"
latency = "resp"
latency_unit = "100ns"
device = "disk"
"""
    recording = imported(table, mapping)
    assert recording.manifest.clock.start_utc_ns == 1_172_163_600_306_162_900
    rows = [
        (row["op"], row["issued_ns"], row["completed_ns"], row["offset_bytes"], row["size_bytes"])
        for row in recording.read("io").to_pylist()
    ]
    assert rows == [("read", 0, 41_300, 8192, 4096), ("write", 1_000_000_100, 1_000_009_100, 0, 512)]


def test_the_hint_of_an_unknown_table_leads_to_a_mapping_of_i_os(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("version,time,op,size,lbn\n1,5633898,2a,512,42932745\n")
    with pytest.raises(IotraceError, match="unknown columns") as problem:
        import_files([path], tmp_path / "x.iotrace")
    assert "section io is for a table of I/Os" in problem.value.hint
