"""fio's logs, and everything that fio prints against fio's own text of the same run, where fio is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iotrace.capture.importing.inspecting import inspect_path
from iotrace.capture.importing.traces import import_any, import_files
from iotrace.capture.results.fio_json import quantiles_of
from iotrace.schemas import IotraceError, Recording, validate

FIXTURES = Path(__file__).parents[2] / "fixtures" / "results"
UNITS = {"nsec": 1, "usec": 1000, "msec": 1_000_000}


def lines_of(path):
    return [[int(cell) for cell in line.split(",")] for line in path.read_text().splitlines()]


def test_a_log_of_single_ios_becomes_ios(tmp_path):
    recording = import_files([FIXTURES / "per_clat.1.log"], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    rows = sorted(
        (
            row["completed_ns"] // 10**6, row["completed_ns"] - row["issued_ns"], ["read", "write"].index(row["op"]),
            row["size_bytes"], row["offset_bytes"],
        )
        for row in recording.read("io").to_pylist()
    )  # fmt: skip
    told = lines_of(FIXTURES / "per_clat.1.log")
    assert rows == sorted(tuple(line[:5]) for line in told)
    assert any("bw, lat list the same I/Os again" in note for note in recording.manifest.quality.notes)
    assert {row["layer"] for row in recording.read("io").to_pylist()} == {"filesystem"}


def test_a_log_of_means_becomes_counters(tmp_path):
    recording = import_files([FIXTURES / "avg_bw.1.log"], tmp_path / "out.iotrace")
    rows = recording.read("counters").to_pylist()
    for kind, metric, scale in (
        ("clat", "read_latency_ns", 1),
        ("bw", "read_bytes_per_second", 1024),
        ("iops", "read_iops", 1),
    ):
        told = [(line[0] * 10**6, line[1] * scale) for line in lines_of(FIXTURES / f"avg_{kind}.1.log")]
        assert [(row["at_ns"], row["value"]) for row in rows if row["metric"] == metric] == told
    assert all(200 * 10**6 < row["interval_ns"] < 300 * 10**6 for row in rows)


def test_a_log_is_nothing_without_its_name(tmp_path):
    path = tmp_path / "renamed.txt"
    path.write_bytes((FIXTURES / "per_clat.1.log").read_bytes())
    with pytest.raises(IotraceError, match="does not say what it measures"):
        import_files([path], tmp_path / "out.iotrace")
    path = tmp_path / "a_bw.1.log"
    path.write_bytes((FIXTURES / "per_bw.1.log").read_bytes())
    with pytest.raises(IotraceError, match="no latencies of single I/Os"):
        import_files([path], tmp_path / "out.iotrace")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("5, 2000000, 0, 4096\n", (3_000_000, 5_000_000, 4096, 0)),
        ("5, 2000000, 1, 4096, 65536\n", (3_000_000, 5_000_000, 4096, 65536)),
        ("5, 2000000, 1, 4096, 0x0000\n", (3_000_000, 5_000_000, 4096, 0)),
        ("5, 2000000, 0, 4096, 8192, 0\n", (3_000_000, 5_000_000, 4096, 8192)),
        ("5, 2000000, 0, 4096, 8192, 0x4001, 2950000\n", (3_000_000, 5_000_000, 4096, 8192)),
    ],
)
def test_the_columns_of_every_version(tmp_path, line, expected):
    path = tmp_path / "a_clat.1.log"
    path.write_text(line * 3)
    row = import_files([path], tmp_path / "out.iotrace").read("io").to_pylist()[0]
    assert (
        tuple(row[name] for name in ("issued_ns", "completed_ns", "size_bytes", "offset_bytes")) == expected
    )


def test_times_since_1970_date_the_recording(tmp_path):
    path = tmp_path / "a_clat.1.log"
    path.write_text("1795315812038, 1000000, 0, 4096, 0\n1795315812040, 1000000, 0, 4096, 0\n")
    recording = import_files([path], tmp_path / "out.iotrace")
    assert recording.manifest.clock.start_utc_ns == 1_795_315_812_038 * 10**6
    assert sorted(recording.read("io")["completed_ns"].to_pylist()) == [0, 2_000_000]


def test_a_percentile_is_the_first_bin_that_reaches_its_share():
    bins = [(10, 1), (20, 2), (30, 1)]
    assert quantiles_of(bins, [0.25, 0.5, 0.75, 0.76]) == [(0.25, 10), (0.5, 20), (0.75, 20), (0.76, 30)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of fio that prints its text and json+, and logs every I/O."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    folder = tmp_path_factory.mktemp("fio")
    command = (
        "fio --name=mix --ioengine=psync --filename=data --size=4m --rw=randrw --rwmixread=60 --bs=8k --io_size=16m "
        "--log_offset=1 --write_lat_log=mix --write_bw_log=mix --output-format=normal,json+ --output=result.txt"
    )
    done = subprocess.run(
        command.split(), cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        pytest.skip(f"fio does not run here: {done.stderr[-200:]}")
    (folder / "data").unlink()
    return folder


def text_of(folder):
    """Blocks of fio's own text, by op."""
    text = (folder / "result.txt").read_text().rpartition("\n}")[2]
    parts = re.split(r"^  (read|write): ", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=False)), text


def test_everything_printed_by_fio_here(tmp_path, run):
    recording = import_any([run / "result.txt"], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    rows = {row["op"]: row for row in recording.read("results").to_pylist()}
    blocks, text = text_of(run)
    counts = re.search(r"issued rwts: total=(\d+),(\d+)", text).groups()
    for op, count in zip(("read", "write"), counts, strict=True):
        row, block = rows[op], blocks[op]
        assert row["ios"] == int(count)
        unit, least, greatest, mean, spread = re.search(
            r"^ +clat \((\w+)\): min= *(\S+), max= *(\S+), avg= *([\d.]+), stdev= *([\d.]+)",
            block,
            re.MULTILINE,
        ).groups()
        scale = UNITS[unit]
        assert row["latency_ns_mean"] / scale == pytest.approx(float(mean), abs=0.0051)
        assert row["latency_ns_stddev"] / scale == pytest.approx(float(spread), abs=0.0051)
        if least.isdigit():
            assert row["latency_ns_min"] // scale == int(least)
        if greatest.isdigit():
            assert row["latency_ns_max"] // scale == int(greatest)
        unit, table = re.search(r"clat percentiles \((\w+)\):\n((?: +\| .*\n)+)", block).groups()
        printed = dict(re.findall(r"([\d.]+)th=\[ *(\d+)\]", table))
        assert len(printed) == len(row["quantiles"]) == 17
        kept = {entry["quantile"]: entry["latency_ns"] for entry in row["quantiles"]}
        for percentile, value in printed.items():
            assert round(kept[round(float(percentile) / 100, 8)] / UNITS[unit]) == pytest.approx(
                int(value), abs=1
            )
    assert rows["total"]["ios"] == 2048


def test_quantiles_from_merged_bins_lie_within_a_bin_of_the_exact_ones(tmp_path, run):
    """The log has every latency; bins of fio are 1/64 wide, so what is taken from them is at most that far off."""
    recording = import_any([run / "result.txt"], tmp_path / "out.iotrace")
    total = next(row for row in recording.read("results").to_pylist() if row["op"] == "total")
    exact = sorted(line[1] for line in lines_of(run / "mix_clat.1.log"))
    assert sum(entry["ios"] for entry in total["histogram"]) == len(exact) == total["ios"]
    for entry in total["quantiles"]:
        rank = max(0, -(-int(entry["quantile"] * 10**8) * len(exact) // 10**8) - 1)
        assert entry["latency_ns"] == pytest.approx(exact[rank], rel=1 / 64, abs=1)
    assert total["latency_ns_mean"] == pytest.approx(sum(exact) / len(exact), rel=1e-6)


def test_logs_go_to_the_run_that_wrote_them(tmp_path, run):
    made = import_any([run], tmp_path / "out.iotrace")
    assert isinstance(made, Recording)
    assert validate(made.path) == []
    ios = made.read("io").to_pylist()
    rows = {row["op"]: row for row in made.read("results").to_pylist()}
    assert len(ios) == rows["total"]["ios"]
    for op in ("read", "write"):
        latencies = [row["completed_ns"] - row["issued_ns"] for row in ios if row["op"] == op]
        assert sum(latencies) / len(latencies) == pytest.approx(rows[op]["latency_ns_mean"], rel=1e-6)
        assert (min(latencies), max(latencies)) == (rows[op]["latency_ns_min"], rows[op]["latency_ns_max"])
    ended_ms = int(re.search(r'"timestamp_ms" : (\d+)', (run / "result.txt").read_text())[1])
    assert abs(made.manifest.clock.start_utc_ns / 1e6 - ended_ms) < 60_000


def test_inspect_counts_what_is_logged():
    (found,) = inspect_path(FIXTURES / "per_clat.1.log").traces
    assert (found.format, found.facts["I/Os"], found.facts["whole"]) == ("fio-log", 40, True)
