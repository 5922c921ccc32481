"""Results in real files: every total and percentile that is printed there, read by other means than the readers'."""

import csv
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from iotrace.capture.importing.traces import import_any, import_files
from iotrace.schemas import Recording, Sweep, validate

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "results"
DISKSPD_TEXTS = (
    "virtualclient_Results_DiskSpd.txt",
    "virtualclient_DiskSpd_Write8k.txt",
    "virtualclient_DiskSpdExample-WriteOnly.txt",
    "virtualclient_DiskSpdExample-WriteOnly-v2.2.0.txt",
)
FIO = ("virtualclient_Results_FIO.json", "virtualclient_Results_FIO_ReadWrite.json")


def sample(name):
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def results(path, tmp_path):
    recording = import_files([path], tmp_path / "out.iotrace")
    assert validate(recording.path) == []
    assert recording.manifest.kind == "tested"
    return recording, {row["op"]: row for row in recording.read("results").to_pylist()}


def quantiles(row):
    return {entry["quantile"]: entry["latency_ns"] for entry in row["quantiles"] or []}


def ns(milliseconds):
    return round(float(milliseconds) * 1e6)


@pytest.mark.parametrize("name", DISKSPD_TEXTS)
def test_every_total_of_diskspd_text(tmp_path, name):
    text = sample(name).read_text("utf-8-sig")
    _, rows = results(sample(name), tmp_path)
    printed = re.findall(r"^(Total|Read|Write) IO$.*?^total:(.*?)$", text, re.MULTILINE | re.DOTALL)
    assert [op for op, _ in printed] == ["Total", "Read", "Write"]
    for op, line in printed:
        size, ios, mib, iops, mean, iops_stddev, stddev = (cell.strip() for cell in line.split("|"))
        row = rows[op.lower()]
        assert (row["bytes"], row["ios"], row["iops"]) == (int(size), int(ios), float(iops))
        assert row["iops_stddev"] == float(iops_stddev)
        # Rates are rounded to 1/100 in both places.
        assert row["bytes_per_second"] / 2**20 == pytest.approx(float(mib), abs=0.0051, rel=2e-5)
        if stddev == "N/A":
            assert row["latency_ns_mean"] is None
        else:
            assert (row["latency_ns_mean"], row["latency_ns_stddev"]) == (ns(mean), ns(stddev))


@pytest.mark.parametrize("name", DISKSPD_TEXTS)
def test_every_percentile_of_diskspd_text(tmp_path, name):
    text = sample(name).read_text("utf-8-sig")
    recording, rows = results(sample(name), tmp_path)
    *targets, total = re.split(r"^ *%-ile .*$", text, flags=re.MULTILINE)
    lines = [line.split("|") for line in total.splitlines() if line.count("|") == 3]
    assert len(lines) == 15
    for title, *cells in lines:
        label = title.strip()
        nines = {f"{count}-nines": float("0." + "9" * count) for count in range(3, 10)}
        for op, cell in zip(("read", "write", "total"), cells, strict=True):
            if cell.strip() == "N/A":
                assert rows[op]["quantiles"] is None
            elif label in {"min", "max"}:
                assert rows[op][f"latency_ns_{label}"] == ns(cell)
            else:
                quantile = nines.get(label) or int(label.removesuffix("th")) / 100
                assert quantiles(rows[op])[quantile] == ns(cell)
    by_target = [row for row in recording.read("counters").to_pylist() if row["object"] == "DiskSpd target"]
    printed = [
        (line.split("|")[0].strip(), ns(cell))
        for piece in targets[1:]
        for line in piece.splitlines()
        if line.count("|") == 3
        for cell in line.split("|")[1:]
        if cell.strip() != "N/A"
    ]
    assert sorted((row["counter"].split()[-1], round(row["value"])) for row in by_target) == sorted(printed)


@pytest.mark.parametrize(
    ("name", "version", "outstanding", "threads", "size", "starts"),
    [
        (DISKSPD_TEXTS[0], "2.0.21 by its layout", 1, 1, 4096, "2021-04-16 19:03:38+15"),
        (DISKSPD_TEXTS[1], "2.0.21 by its layout", 5 * 23 * 22, 115, 8192, "2024-01-08 04:54:01+15"),
        (DISKSPD_TEXTS[2], "2.0.21", 32 * 16, 32, 8192, "2023-10-13 06:22:25+30"),
        (DISKSPD_TEXTS[3], "2.2.0", 800 * 3, 800, 4096, "2026-05-22 07:21:47+15"),
    ],
)
def test_the_load_of_diskspd_text(tmp_path, name, version, outstanding, threads, size, starts):
    from datetime import UTC, datetime

    recording, rows = results(sample(name), tmp_path)
    total = rows["total"]
    assert (total["tool_version"], total["outstanding"], total["threads"]) == (version, outstanding, threads)
    assert (total["size_bytes"], total["access"], total["latency_clock"]) == (size, "random", "service")
    moment, warmup = starts.split("+")
    told = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() + int(warmup)
    assert recording.manifest.clock.start_utc_ns == told * 1e9
    notes = " ".join(recording.manifest.quality.notes)
    assert ("DiskSpd 2.2 drains completions sooner" in notes) == version.startswith("2.2")
    # Little's law holds between what is printed: in flight = rate x mean latency. Only the file whose parameters were
    # shortened, and the one whose device stalled for seconds, are further off.
    in_flight = total["iops"] * total["latency_ns_mean"] / 1e9
    assert 0.75 * outstanding < in_flight < 1.02 * outstanding


def test_every_total_of_diskspd_xml(tmp_path):
    path = sample("virtualclient_Results_DiskSpd.xml")
    recording, rows = results(path, tmp_path)
    span = ET.parse(path).getroot().find("TimeSpan")
    for op, count, size in (("total", "IOCount", "BytesCount"), ("read", "ReadCount", "ReadBytes"),
                            ("write", "WriteCount", "WriteBytes")):  # fmt: skip
        ios = sum(int(target.findtext(count)) for target in span.findall("Thread/Target"))
        assert rows[op]["ios"] == ios
        assert rows[op]["bytes"] == sum(int(one.findtext(size)) for one in span.findall("Thread/Target"))
        assert rows[op]["iops"] == pytest.approx(ios / float(span.findtext("TestTimeSeconds")))
    latency = span.find("Latency")
    for op, mean, stddev in (
        ("read", "AverageReadMilliseconds", "ReadLatencyStdev"),
        ("write", "AverageWriteMilliseconds", "WriteLatencyStdev"),
        ("total", "AverageTotalMilliseconds", "LatencyStdev"),
    ):
        assert rows[op]["latency_ns_mean"] == ns(latency.findtext(mean))
        assert rows[op]["latency_ns_stddev"] == ns(latency.findtext(stddev))
    for tag, op in (("ReadIopsStdDev", "read"), ("WriteIopsStdDev", "write"), ("IopsStdDev", "total")):
        assert rows[op]["iops_stddev"] == float(span.findtext(f"Iops/{tag}"))
    assert (rows["total"]["tool_version"], rows["total"]["outstanding"]) == ("2.0.21a", 1)
    assert recording.manifest.window_end_ns == 120_010_000_000


def test_every_percentile_of_diskspd_xml(tmp_path):
    path = sample("virtualclient_Results_DiskSpd.xml")
    _, rows = results(path, tmp_path)
    buckets = ET.parse(path).getroot().findall("TimeSpan/Latency/Bucket")
    assert len(buckets) == 108
    for bucket in buckets:
        percentile = bucket.findtext("Percentile")
        for op in ("read", "write", "total"):
            told = ns(bucket.findtext(f"{op.capitalize()}Milliseconds"))
            if percentile in {"0", "100"}:
                assert rows[op][f"latency_ns_{'min' if percentile == '0' else 'max'}"] == told
            else:
                whole, _, decimals = percentile.partition(".")
                assert quantiles(rows[op])[float(f"0.{int(whole):02}{decimals}")] == told


def test_every_interval_of_diskspd_xml(tmp_path):
    path = sample("virtualclient_Results_DiskSpd.xml")
    recording, _ = results(path, tmp_path)
    rows = recording.read("counters").to_pylist()
    for bucket in ET.parse(path).getroot().findall("TimeSpan/Iops/Bucket"):
        at_ns = int(bucket.get("SampleMillisecond")) * 1_000_000
        told = {row["metric"]: row["value"] for row in rows if row["at_ns"] == at_ns and row["metric"]}
        assert told["iops"] == float(bucket.get("Total"))
        assert (told["read_iops"], told["write_iops"]) == (
            float(bucket.get("Read")),
            float(bucket.get("Write")),
        )
        if "read_latency_ns" in told:
            assert told["read_latency_ns"] == ns(bucket.get("ReadAvgLatencyMilliseconds"))


@pytest.mark.parametrize("name", FIO)
def test_every_figure_of_fio(tmp_path, name):
    _, rows = results(sample(name), tmp_path)
    (job,) = json.loads(sample(name).read_text())["jobs"]
    for op in ("read", "write"):
        told, row = job[op], rows[op]
        assert (row["ios"], row["bytes"]) == (told["total_ios"], told["io_bytes"])
        assert (row["iops"], row["bytes_per_second"]) == (told["iops"], told["bw_bytes"])
        assert (row["iops_stddev"], row["iops_intervals"]) == (told["iops_stddev"], told["iops_samples"])
        clat = told["clat_ns"]
        assert {key: row[f"latency_ns_{key}"] for key in ("min", "max", "mean", "stddev")} == {
            key: clat[key] for key in ("min", "max", "mean", "stddev")
        }
        assert quantiles(row) == {
            round(float(key) / 100, 8): value for key, value in clat["percentile"].items()
        }
        assert len(row["quantiles"]) == len(clat["percentile"]) == 17
    total = rows["total"]
    assert total["ios"] == sum(job[op]["total_ios"] for op in ("read", "write"))
    assert total["bytes"] == sum(job[op]["io_bytes"] for op in ("read", "write"))
    assert total["quantiles"] is None


@pytest.mark.parametrize("name", FIO)
def test_slat_and_lat_of_fio_are_counters(tmp_path, name):
    recording, _ = results(sample(name), tmp_path)
    (job,) = json.loads(sample(name).read_text())["jobs"]
    rows = {row["counter"]: row["value"] for row in recording.read("counters").to_pylist()}
    for op in ("read", "write"):
        for base in ("slat", "lat"):
            for key in ("min", "max", "mean", "stddev"):
                assert rows[f"{op} {base} {key}"] == job[op][f"{base}_ns"][key]


def test_the_load_of_fio(tmp_path):
    recording, rows = results(sample(FIO[1]), tmp_path)
    total = rows["total"]
    assert (total["test"], total["tool_version"]) == ("disk_fill", "3.26-19-ge7e53")
    assert (total["outstanding"], total["threads"], total["size_bytes"]) == (64, 1, 256 << 10)
    assert (total["access"], total["duration_ns"]) == ("sequential", 4957 * 10**6)
    # The output's time is its end.
    assert (
        recording.manifest.clock.start_utc_ns
        == (json.loads(sample(FIO[1]).read_text())["timestamp_ms"] - 4957) * 10**6
    )


def test_hammerdb(tmp_path):
    path = sample("virtualclient_Results_HammerDB.txt")
    recording, rows = results(path, tmp_path)
    nopm, tpm = re.search(
        r"achieved (\d+) NOPM from (\d+) PostgreSQL TPM", path.read_text("utf-8-sig")
    ).groups()
    total = rows["total"]
    assert (
        (total["new_orders_per_minute"], total["transactions_per_minute"])
        == (int(nopm), int(tpm))
        == (11400, 26163)
    )
    assert (total["virtual_users"], total["duration_ns"], total["target"]) == (1, 300 * 10**9, "PostgreSQL")
    assert total["tool_version"] == "4.5"
    assert "1234" not in total["command"]
    assert "nmalkapuramuser" not in json.dumps(recording.read("results").to_pylist())


def test_a_folder_of_results_becomes_a_sweep(tmp_path):
    sample(DISKSPD_TEXTS[0])
    made = import_any([SAMPLES / name for name in DISKSPD_TEXTS], tmp_path / "out.iotrace")
    assert isinstance(made, Sweep)
    assert made.settings.axis == "outstanding"
    assert [step.scale for step in made.steps] == [1, 512, 2400, 2530]
    for step, recording in zip(made.steps, made.recordings(), strict=True):
        assert validate(recording.path) == []
        assert {row["outstanding"] for row in recording.read("results").to_pylist()} == {step.scale}
        assert len(recording.manifest.sources) == 1
    everything = import_any([SAMPLES], tmp_path / "all.iotrace")
    assert len(everything.steps) == 8
    assert everything.settings.axis == "run"


def test_tables_of_a_migration_assessment(tmp_path):
    """Its counters are kept under their codes; its other table is refused by name."""
    from iotrace.schemas import IotraceError

    with pytest.raises(IotraceError, match="migration assessment without counters"):
        import_any([sample("sqltoolsservice_migration_CommonDbLevel_Counters.csv")], tmp_path / "out.iotrace")
    path = sample("sqltoolsservice_migration_PerformanceAggregated_Counters.csv")
    rows = import_any([path], tmp_path / "a.iotrace", timezone="UTC").read("counters").to_pylist()
    with path.open(newline="", encoding="utf-8-sig") as file:
        told = [float(row["Value"]) for row in csv.DictReader(file)]
    assert [row["value"] for row in rows] == told
    assert len({row["counter"] for row in rows}) == 44
    assert not isinstance(import_any([sample(FIO[0])], tmp_path / "out.iotrace"), Sweep)
    assert isinstance(Recording.open(tmp_path / "out.iotrace"), Recording)
