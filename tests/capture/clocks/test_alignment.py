"""Files of one incident whose clocks differ, by offsets that are planted in the files."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, Recording, validate

FIXTURES = Path(__file__).parents[2] / "fixtures"
SAMPLES = Path(__file__).parents[4] / "shared" / "samples"
HOUR_NS = 3_600 * 10**9
MS = 10**6


def load(kind):
    spec = importlib.util.spec_from_file_location(f"{kind}_build", FIXTURES / kind / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


etl, xel = load("etl"), load("xel")


@pytest.fixture
def write(tmp_path):
    def run(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return run


@pytest.fixture
def imported(tmp_path):
    def run(*paths):
        recording = import_files(list(paths), tmp_path / "out.iotrace", overwrite=True)
        assert validate(recording.path) == []
        return Recording.open(recording.path)

    return run


def requests(seed, count=400, seconds=20):
    """Random reads of one file: start and length in 100 ns, offset."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, seconds * 10**7, count))
    return start.tolist(), (rng.exponential(4_000, count).astype(int) + 500).tolist(), (
        rng.integers(0, 10**6, count) * 8192
    ).tolist()  # fmt: skip


def file_log(seed, path="\\db\\Sales.mdf", **header):
    """An .etl that sees the reads in the file system."""
    starts, lengths, offsets = requests(seed)
    t0 = etl.T0
    events = [(0, etl.system(etl.FILE_CREATE, t0 + 1, etl.name(5, path)))]
    for irp, (start, length, offset) in enumerate(zip(starts, lengths, offsets, strict=True), 1):
        payload = etl.operation("read", irp=irp, key=5, offset=offset, size=8192)
        events.append((start, etl.system(etl.OPERATIONS["read"], t0 + start, payload)))
        moved = etl.operation_end(irp, moved=8192)
        ended = etl.system(etl.OPERATION_END, t0 + start + length, moved)
        events.append((start + length, ended))
    ordered = [event for _, event in sorted(events, key=lambda entry: entry[0])]
    pieces = [ordered[at : at + 300] for at in range(0, len(ordered), 300)]
    return etl.log(*pieces, **header)


def session(seed, *, late_100ns, path="D:\\db\\Sales.mdf"):
    """An .xel that sees the same reads end 30 us later, in whole milliseconds, and all ``late_100ns`` later."""
    starts, lengths, offsets = requests(seed)
    events = []
    for start, length, offset in zip(starts, lengths, offsets, strict=True):
        took_100ns = length + 600
        at = start - 300 + took_100ns + late_100ns
        fields = {"database_id": 7, "file_id": 1, "size": 8192, "offset": offset, "path": path}
        fields["duration"] = took_100ns // 10_000
        events.append((at, xel.event("file_read_completed", at, fields)))
    events = [event for _, event in sorted(events, key=lambda entry: entry[0])]
    return xel.file(*[events[at : at + 100] for at in range(0, len(events), 100)])


def alignments(recording):
    return {Path(source.name).name: source.alignment for source in recording.manifest.sources}


@pytest.mark.parametrize("seed", range(5))
def test_events_of_sql_server_are_moved_onto_the_trace_of_the_kernel(write, imported, seed):
    """The .xel says three hours less than the .etl: the same reads in both tell so, to within a millisecond or so."""
    wrong_ns = 3 * HOUR_NS + 1_234_567_800
    header = {"start": xel.BASE + wrong_ns // 100}
    recording = imported(
        write("k.etl", file_log(seed, **header)), write("e.xel", session(seed, late_100ns=5_000_000))
    )
    # The .xel's zero is BASE and its events lie half a second late by it.
    truth_ns = wrong_ns - 500_000_000
    found = alignments(recording)
    kernel, events = found["k.etl"], found["e.xel"]
    measured, fixed = (kernel, events) if kernel.method == "measured" else (events, kernel)
    sign = 1 if measured is events else -1
    assert fixed.method == "reference"
    assert abs(measured.offset_ns - sign * truth_ns) <= measured.uncertainty_ns <= 1_500_000
    assert measured.matched_ios >= 380
    rows = recording.read("io").to_pylist()
    by_layer = {
        layer: {row["offset_bytes"]: row for row in rows if row["layer"] == layer}
        for layer in ("sql", "filesystem")
    }
    away = [
        by_layer["sql"][offset]["completed_ns"] - row["completed_ns"]
        for offset, row in by_layer["filesystem"].items()
    ]
    assert abs(np.median(away) - 30_000) <= measured.uncertainty_ns
    assert any("clock is 3.00 h" in note for note in recording.manifest.quality.notes)
    # One machine: the file is one, whatever drive letter or case either knows it by.
    assert recording.manifest.window_end_ns < 30 * 10**9


def test_files_of_one_path_become_one_where_the_machine_is_one(write, imported):
    path = "D:\\db\\Sales.mdf"
    log = file_log(1, path=path, start=xel.BASE)
    recording = imported(write("k.etl", log), write("e.xel", session(1, late_100ns=0, path=path.upper())))
    assert len(recording.read("files")) == 1
    assert {row["layer"] for row in recording.read("io").to_pylist()} == {"sql", "filesystem"}


def test_other_files_of_the_same_offsets_are_not_taken_for_the_same_io(write, imported):
    """Two databases laid out alike and read alike: only names tell them apart, and both files name them."""
    recording = imported(
        write("k.etl", file_log(1, start=xel.BASE)),
        write("e.xel", session(1, late_100ns=70_000_000, path="D:\\db\\Other.mdf")),
    )
    assert {alignment.method for alignment in alignments(recording).values()} == {"utc"}


def test_by_utc_alone_the_uncertainty_is_that_of_both_clocks(write, imported):
    """Both clocks are set from Windows' system time, which moves in ticks of up to 15.625 ms."""
    recording = imported(
        write("k.etl", file_log(1, start=xel.BASE)), write("e.xel", session(2, late_100ns=0))
    )
    found = alignments(recording).values()
    assert {alignment.method for alignment in found} == {"utc"}
    assert sorted(alignment.uncertainty_ns for alignment in found) == [15_625_000, 31_250_000]
    assert recording.manifest.clock.start_utc_uncertainty_ns == 15_625_000


@pytest.fixture
def kernel_trace():
    path = SAMPLES / "linux" / "takeoverjp_sample.blktrace.1"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def biosnoop_of(recording, *, ahead_ns=0, jitter_ns=0, only=slice(None)):
    """What biosnoop would have printed of the same requests, on its own clock."""
    rng = np.random.default_rng(0)
    rows = [
        row for row in recording.read("io").to_pylist() if row["layer"] == "device" and row["completed_ns"]
    ]
    rows = sorted(rows, key=lambda row: row["completed_ns"])[only]
    lines = ["TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)"]
    for row in rows:
        at_ns = row["completed_ns"] + ahead_ns + int(rng.integers(0, jitter_ns + 1))
        lines.append(
            f"{at_ns // 1000 / 1e6:.6f} fio 77 nvme0n1 R {row['offset_bytes'] // 512} {row['size_bytes']} "
            f"{(row['completed_ns'] - row['issued_ns']) / 1e6:.3f}"
        )
    return "\n".join(lines) + "\n"


def test_a_text_without_a_date_finds_its_place_by_the_io_it_shares(write, imported, kernel_trace):
    """biosnoop counts from its own start; here that was 41.5 s before the trace began."""
    plain = imported(kernel_trace)
    shown = len([row for row in plain.read("io").to_pylist() if row["layer"] == "device"])
    text = write("biosnoop.txt", biosnoop_of(plain, ahead_ns=41_500_000_000))
    recording = imported(kernel_trace, text)
    found = alignments(recording)["biosnoop.txt"]
    assert found.method == "measured"
    first_ns = min(row["issued_ns"] for row in plain.read("io").to_pylist() if row["layer"] == "device")
    assert found.uncertainty_ns < 5_000
    assert abs(found.offset_ns - (recording.manifest.clock.start_utc_ns + _own_zero(text, first_ns))) < 10_000
    # Both show the device layer: what the trace holds already is left out, so nothing counts twice.
    assert len([row for row in recording.read("io").to_pylist() if row["layer"] == "device"]) == shown
    assert any("I/Os left out" in note for note in recording.manifest.quality.notes)


def _own_zero(text, first_ns):
    """Where the text's first I/O began is its own zero; it is the trace's first request."""
    del text
    return first_ns


def test_a_text_without_a_date_and_without_shared_io_is_refused(write, tmp_path, kernel_trace):
    text = write("biosnoop.txt", (FIXTURES / "linux" / "biosnoop.txt").read_bytes())
    with pytest.raises(IotraceError, match="has no date, and ") as caught:
        import_files([kernel_trace, text], tmp_path / "out.iotrace")
    assert "recording of its own" in caught.value.hint
    assert not (tmp_path / "out.iotrace").exists()


def test_two_texts_without_a_date_stand_to_each_other_as_their_io_says(write, imported, kernel_trace):
    plain = imported(kernel_trace)
    one = write("one.txt", biosnoop_of(plain, only=slice(0, 600)))
    other = write(
        "other.txt", biosnoop_of(plain, ahead_ns=5_000_000_000, jitter_ns=2_000, only=slice(300, None))
    )
    recording = imported(one, other)
    rows = recording.read("io").to_pylist()
    assert len(rows) == len(plain.read("io").filter(_is_device(plain)))
    methods = {alignment.method for alignment in alignments(recording).values()}
    assert methods == {"reference", "measured"}


def _is_device(recording):
    import pyarrow.compute as pc

    io = recording.read("io")
    return pc.equal(io["layer"].cast("string"), "device")


def test_the_same_file_twice_is_taken_once(write, imported):
    log = file_log(1)
    recording = imported(write("a.etl", log), write("b.etl", log))
    assert recording.manifest.rows["io"] == 400
    assert [Path(source.name).name for source in recording.manifest.sources] == ["a.etl"]
    assert any("b.etl' is byte for byte the same as" in note for note in recording.manifest.quality.notes)


def test_sources_apart_are_refused_unless_that_is_meant(write, imported, tmp_path):
    """Nothing in common, and 30 hours between them."""
    msr = "{},host,0,Read,{},4096,100\n"
    ticks = xel.BASE
    one = write("one.csv", "".join(msr.format(ticks + 10_000 * n, 4096 * n) for n in range(50)))
    later = ticks + 30 * 36_000_000_000
    other = write("other.csv", "".join(msr.format(later + 10_000 * n, 8192 * n) for n in range(50)))
    with pytest.raises(
        IotraceError, match=r"other.csv' begins 30.00 h after '.*one.csv' ends: they share no time"
    ) as told:
        imported(one, other)
    assert "--apart-in-time" in told.value.hint
    assert not list(tmp_path.glob("*.iotrace"))
    quality = import_files([one, other], tmp_path / "meant.iotrace", apart_in_time=True).manifest.quality
    assert quality.verdict == "usable"
    assert quality.reasons == ["1 pair of sources without time in common"]
    assert "they share no time" in quality.shared_time[0]


def test_a_step_of_ten_years_inside_one_source_is_named(write, imported):
    """A host whose clock was set while it was traced."""
    msr = "{},host,0,Read,{},4096,100\n"
    decade = 3_652 * 86_400 * 10**7
    ticks = [xel.BASE - decade + 10_000 * n for n in range(30)] + [xel.BASE + 10_000 * n for n in range(30)]
    manifest = imported(
        write("step.csv", "".join(msr.format(tick, 4096 * n) for n, tick in enumerate(ticks)))
    ).manifest
    assert any("10.0 years" in note and "set" in note for note in manifest.quality.notes)
    assert (manifest.quality.clock_steps, manifest.quality.verdict) == (1, "usable")


@pytest.mark.parametrize(("kinds", "times"), [("k", 0), ("kk", 0), ("kx", 2)])
def test_traces_are_read_twice_only_where_their_clocks_can_be_compared(write, tmp_path, kinds, times):
    paths = [
        write(f"{n}.etl", file_log(1, start=xel.BASE + n))
        if kind == "k"
        else write(f"{n}.xel", session(1, late_100ns=0))
        for n, kind in enumerate(kinds)
    ]
    said = []
    import_files(paths, tmp_path / "out.iotrace", progress=lambda what, *_: said.append(what))
    assert len([what for what in said if what.startswith("comparing the clock")]) == times
