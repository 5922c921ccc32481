"""Counters of disks from monitoring and from Linux' own files: every figure against totals planted by hand."""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

from .test_registry import FIXTURES

NOON = 1_772_366_400 * 10**9  # 2026-03-01 12:00 UTC


def rows_of(tmp_path, name, **options):
    recording = import_files(
        [name if name.is_absolute() else FIXTURES / name], tmp_path / "out.iotrace", **options
    )
    assert validate(recording.path) == []
    start_ns = recording.manifest.clock.start_utc_ns
    rows = recording.read("counters").to_pylist()
    for row in rows:
        row["utc_ns"] = start_ns + row["at_ns"]
    return recording, rows


def values(rows, key="metric"):
    return [(row["utc_ns"], row[key], row["value"]) for row in rows]


@pytest.fixture
def fixture():
    return lambda name: FIXTURES / name


def test_prometheus_totals_become_rates_and_mean_latencies(tmp_path, fixture):
    recording, rows = rows_of(tmp_path, fixture("monitoring/prometheus.json"))
    at = NOON + 15 * 10**9
    told = {row["metric"]: row["value"] for row in rows if row["utc_ns"] == at}
    assert told == pytest.approx({
        "read_iops": 20.0,  # 300 reads in 15 s
        "write_iops": 10.0,
        "read_bytes_per_second": 163_840.0,
        "read_latency_ns": 2e6,  # 0.6 s of 300 reads
        "write_latency_ns": 3e6,
        "busy_percent": 20.0,
        "queue_length": 0.3,
        "in_flight": 3.0,
    })  # fmt: skip
    # Writes fell: the host started again, and nothing is known of that interval but what is no total.
    assert {row["metric"] for row in rows if row["utc_ns"] == NOON + 30 * 10**9} == {"in_flight"}
    assert {(row["source"], row["instance"], row["layer"]) for row in rows} == {("db1:9100", "sda", "block")}
    notes = " ".join(recording.manifest.quality.notes)
    assert "totals fell 1 time" in notes
    assert "node_network_up" in notes


def test_prometheus_expressions_are_refused_with_the_query_to_run(tmp_path):
    path = tmp_path / "rate.json"
    path.write_text(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"device":"sda"},'
        '"values":[[1772366400,"1"],[1772366415,"2"]]}]}}'
    )
    with pytest.raises(IotraceError, match="to an expression") as refused:
        rows_of(tmp_path, path)
    assert "node_disk_" in refused.value.hint


def test_cloudwatch_sums_become_rates_over_the_period_that_begins_at_their_time(tmp_path, fixture):
    _, rows = rows_of(tmp_path, fixture("monitoring/cloudwatch.json"))
    minutes = 60 * 10**9
    assert values(rows) == [
        (NOON + 5 * minutes, "read_iops", 100.0),
        (NOON + 10 * minutes, "read_iops", 200.0),
    ]
    assert {row["interval_ns"] for row in rows} == {5 * minutes}


def test_cloudwatch_values_of_an_unknown_statistic_get_no_metric(tmp_path, fixture):
    recording, rows = rows_of(tmp_path, fixture("monitoring/cloudwatch-data.json"))
    by = {
        (row["counter"], row["utc_ns"] - NOON): (row["metric"], row["value"], row["instance"]) for row in rows
    }
    minute, volume = 60 * 10**9, "vol-0123456789abcdef0"
    assert by["VolumeTotalReadTime", minute] == ("read_queue_length", 0.5, volume)  # 30 s within 60 s
    assert by["VolumeTotalReadTime", 2 * minute] == ("read_queue_length", 1.5, volume)
    assert by["VolumeQueueLength", 2 * minute] == ("queue_length", 1.75, volume)
    assert by["VolumeWriteOps (statistic not told)", minute] == (None, 60.0, None)
    assert any("PROP('Stat')" in note for note in recording.manifest.quality.notes)


def test_azure_monitor(tmp_path, fixture):
    recording, rows = rows_of(tmp_path, fixture("monitoring/azure-monitor.json"))
    by = {row["counter"]: row for row in rows}
    minute = 60 * 10**9
    reads = by["Data Disk Read Operations/Sec"]
    assert (reads["metric"], reads["value"], reads["utc_ns"]) == ("read_iops", 250.5, NOON + minute)
    assert reads["instance"] == "sql1 Data lun 0"
    assert by["Data Disk Latency"]["value"] == 4.25e6
    assert by["Disk Write Bytes"]["value"] == 100_000.0
    peak = by["Data Disk Queue Depth (maximum)"]
    assert (peak["metric"], peak["value"]) == (None, 7.0)
    assert len(rows) == 4
    assert any("Percentage CPU" in note for note in recording.manifest.quality.notes)


def test_diskstats_between_two_copies(tmp_path, fixture):
    recording, rows = rows_of(tmp_path, fixture("linux/diskstats.log"))
    at = NOON + 10_500_000_000
    told = {row["metric"]: row["value"] for row in rows if row["utc_ns"] == at}
    assert told == pytest.approx({
        "read_iops": 20.0,  # 210 in 10.5 s
        "write_iops": 0.0,
        "read_bytes_per_second": 163_840.0,  # 3,360 sectors
        "write_bytes_per_second": 0.0,
        "read_latency_ns": 2e6,
        "busy_percent": 20.0,
        "queue_length": 0.04,
        "in_flight": 2.0,
    })  # fmt: skip
    assert "totals fell 1 time" in " ".join(recording.manifest.quality.notes)
    assert [row["value"] for row in rows if row["utc_ns"] == NOON + 21 * 10**9] == [0.0]


def test_collectl_raw_names_its_host(tmp_path):
    path = tmp_path / "db1.raw"
    path.write_text(
        "# Collectl:   V4.3.1-1  HiRes: 1  Options: -D\n# Host:       db1  DaemonOpts:\n"
        ">>> 1772366400.000 <<<\ncpu 1 2 3\ndisk    8       0 sda 100 0 800 50 0 0 0 0 0 0 0\n"
        ">>> 1772366410.000 <<<\ndisk    8       0 sda 200 0 1600 250 0 0 0 0 0 0 0\n"
    )
    _, rows = rows_of(tmp_path, path)
    told = {row["metric"]: (row["value"], row["source"]) for row in rows if row["utc_ns"] > NOON}
    assert told["read_iops"] == (10.0, "db1")
    assert told["read_latency_ns"] == (2e6, "db1")


def test_one_copy_of_diskstats_alone_is_refused(tmp_path):
    path = tmp_path / "diskstats"
    path.write_text("   8       0 sda 100 0 800 50 0 0 0 0 0 0 0\n")
    with pytest.raises(IotraceError, match="no value") as refused:
        rows_of(tmp_path, path)
    assert "date +%s" in refused.value.hint


def test_local_times_of_date_need_a_zone(tmp_path):
    path = tmp_path / "disks.log"
    row = "   8       0 sda {0} 0 800 50 0 0 0 0 0 0 0\n"
    path.write_text(
        "Sun Mar  1 13:00:00 CET 2026\n"
        + row.format(100)
        + "Sun Mar  1 13:00:10 CET 2026\n"
        + row.format(200)
    )
    with pytest.raises(IotraceError, match="time zone"):
        rows_of(tmp_path, path)
    _, rows = rows_of(tmp_path, path, timezone="Europe/Berlin")
    assert {row["utc_ns"] for row in rows} == {NOON, NOON + 10 * 10**9}


def test_biolatency_says_between_what_and_what(tmp_path, fixture):
    recording, rows = rows_of(tmp_path, fixture("linux/biolatency.txt"))
    first, last = min(row["at_ns"] for row in rows), max(row["at_ns"] for row in rows)
    assert last - first == 2 * 10**9  # over midnight
    told = {row["counter"]: row["value"] for row in rows if row["at_ns"] == first}
    assert told == {
        "I/Os": 100.0,
        "mean latency, at least": (10 * 128 + 80 * 256 + 10 * 1024) / 100 * 1000,
        "mean latency, at most": (10 * 256 + 80 * 512 + 10 * 2048) / 100 * 1000,
        "p50 latency, at least": 256_000.0,
        "p50 latency, at most": 512_000.0,
        "p90 latency, at least": 256_000.0,
        "p90 latency, at most": 512_000.0,
        "p99 latency, at least": 1_024_000.0,
        "p99 latency, at most": 2_048_000.0,
    }
    assert {row["instance"] for row in rows} == {"sda"}
    assert any("no date" in note for note in recording.manifest.quality.notes)


def test_biolatency_of_bpftrace(tmp_path):
    path = tmp_path / "biolatency.txt"
    path.write_text(
        "Attaching 3 probes...\nTracing block device I/O... Hit Ctrl-C to end.\n^C\n\n@usecs:\n"
        "[256, 512)             2 |@         |\n[1K, 2K)              98 |@@@@@@@@@@|\n"
    )
    _, rows = rows_of(tmp_path, path)
    told = {row["counter"]: row["value"] for row in rows}
    assert (told["p50 latency, at least"], told["p50 latency, at most"]) == (1_024_000.0, 2_048_000.0)
    assert told["I/Os"] == 100.0


VOLUME = "vol-0123456789abcdef0"
OTHER = "vol-0fedcba9876543210"
CONSOLE = f"""Full label,"{VOLUME} VolumeReadOps","{OTHER} VolumeReadOps",{VOLUME} VolumeQueueLength,CPUUtilization
Label,VolumeReadOps,VolumeReadOps,VolumeQueueLength,CPUUtilization
Statistic,Sum,Sum,Average,Average
Period,300,300,300,300
2026/03/01 12:00:00,3000,600,1.5,99
2026/03/01 12:05:00,6000,,2.5,99
2026/03/01 12:15:00,9000,1200,0.5,99
"""
EXPLORER = f"""Timestamp,MetricName,VolumeId,Sum,Unit
2026-03-01T12:00:00Z,VolumeReadOps,{VOLUME},3000,Count
2026-03-01T12:00:00Z,VolumeReadOps,{OTHER},600,Count
2026-03-01T12:05:00Z,VolumeReadOps,{VOLUME},6000,Count
2026-03-01T12:15:00Z,VolumeReadOps,{VOLUME},9000,Count
2026-03-01T12:15:00Z,VolumeReadOps,{OTHER},1200,Count
"""
ANSWER = f"""METRICDATARESULTS\tm1\t{VOLUME} VolumeReadOps Sum\tComplete
TIMESTAMPS\t2026-03-01T12:15:00+00:00
TIMESTAMPS\t2026-03-01T12:05:00+00:00
TIMESTAMPS\t2026-03-01T12:00:00+00:00
VALUES\t9000.0
VALUES\t6000.0
VALUES\t3000.0
METRICDATARESULTS\tm2\t{OTHER} VolumeReadOps Sum\tComplete
TIMESTAMPS\t2026-03-01T12:00:00+00:00\t2026-03-01T12:05:00+00:00
VALUES\t600\t1200
"""


@pytest.mark.parametrize(
    ("text", "read", "other"),
    [
        (CONSOLE, [(5, 10.0), (10, 20.0), (20, 30.0)], [(5, 2.0), (20, 4.0)]),
        (CONSOLE.replace(",", ";"), [(5, 10.0), (10, 20.0), (20, 30.0)], [(5, 2.0), (20, 4.0)]),
        (EXPLORER, [(5, 10.0), (10, 20.0), (20, 30.0)], [(5, 2.0), (20, 4.0)]),
        (ANSWER, [(5, 10.0), (10, 20.0), (20, 30.0)], [(5, 2.0), (10, 4.0)]),
    ],
    ids=["console", "semicolons", "long", "get-metric-data"],
)
def test_cloudwatch_tables(tmp_path, text, read, other):
    """Sums by the period, which is told in the first two and the shortest step of the file in the others."""
    path = tmp_path / "ebs.csv"
    path.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    recording, rows = rows_of(tmp_path, path, timezone="UTC")
    found = {
        volume: [((row["utc_ns"] - NOON) // (60 * 10**9), row["value"]) for row in rows
                 if row["instance"] == volume and row["metric"] == "read_iops"]
        for volume in (VOLUME, OTHER)
    }  # fmt: skip
    assert found == {VOLUME: read, OTHER: other}
    assert {row["layer"] for row in rows} == {"array"}
    if "Queue" in text:
        assert [row["value"] for row in rows if row["metric"] == "queue_length"] == [1.5, 2.5, 0.5]
        assert any(
            "1 column left out: not a metric of a volume" in note for note in recording.manifest.quality.notes
        )


def test_a_cloudwatch_table_that_tells_no_statistic_gets_no_metric(tmp_path):
    path = tmp_path / "ebs.csv"
    path.write_text(f"Timestamp,{VOLUME} VolumeReadOps\n2026-03-01T12:00:00Z,5\n2026-03-01T12:05:00Z,6\n")
    recording, rows = rows_of(tmp_path, path)
    assert [(row["metric"], row["counter"]) for row in rows] == [
        (None, "VolumeReadOps (statistic not told)")
    ] * 2
    assert any("which statistic" in note for note in recording.manifest.quality.notes)


PORTAL = """Metrics chart
Resource,/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/db1
Aggregation,Avg
Timestamp,"Data Disk Read Operations/Sec (Avg), LUN: 0",Data Disk Latency (Avg) LUN 0,OS Disk Queue Depth (Avg),CPU
2026-03-01 12:00:00,20,2.5,0.5,99
2026-03-01 12:01:00,,,,99
2026-03-01 12:02:00,40,3.5,1.5,99
2026-03-01 12:03:00,60,,1.0,99
"""
TABLE = """Timestamp             Name                           Lun    Average
--------------------  -----------------------------  -----  ---------
2026-03-01T12:00:00Z  Data Disk Read Operations/Sec  0      20.0
2026-03-01T12:01:00Z  Data Disk Read Operations/Sec  0
2026-03-01T12:02:00Z  Data Disk Read Operations/Sec  0      40.0
2026-03-01T12:03:00Z  Data Disk Read Operations/Sec  0      60.0
"""


@pytest.mark.parametrize("text", [PORTAL, PORTAL.replace(",", "\t").replace("\t LUN", ", LUN"), TABLE],
                         ids=["portal", "tabs", "az -o table"])  # fmt: skip
def test_azure_monitor_tables(tmp_path, text):
    path = tmp_path / "disks.csv"
    path.write_text(text, encoding="utf-8")
    recording, rows = rows_of(tmp_path, path, timezone="UTC")
    minutes = [((row["utc_ns"] - NOON) // (60 * 10**9), row["metric"], row["value"]) for row in rows]
    assert [one for one in minutes if one[1] == "read_iops"] == [
        (1, "read_iops", 20.0), (3, "read_iops", 40.0), (4, "read_iops", 60.0)
    ]  # fmt: skip
    assert {row["instance"] for row in rows if row["metric"] == "read_iops"} <= {"Data LUN 0", "Data"}
    if text != TABLE:
        assert [value for _, metric, value in minutes if metric == "latency_ns"] == [2.5e6, 3.5e6]
        assert {row["instance"] for row in rows} == {"Data LUN 0", "OS"}
        assert any(
            "1 column left out: not a metric of disks" in note for note in recording.manifest.quality.notes
        )


@pytest.mark.parametrize("name", ["prometheus", "cloudwatch", "azure-monitor"])
def test_cut_json_is_refused_by_name(tmp_path, name, fixture):
    path = tmp_path / "cut.json"
    path.write_bytes(fixture(f"monitoring/{name}.json").read_bytes()[:-40])
    with pytest.raises(IotraceError, match="not complete JSON"):
        rows_of(tmp_path, path)


def test_codes_of_a_migration_assessment_are_kept_without_a_metric(tmp_path, fixture):
    """No public source says what FRL or IM are: a guessed metric would be worse than none."""
    with pytest.raises(IotraceError, match="local times"):
        rows_of(tmp_path, fixture("corpus/sql-assessment/codes"))
    recording, rows = rows_of(tmp_path, fixture("corpus/sql-assessment/codes"), timezone="+0100")
    assert [(row["utc_ns"], row["source"], row["instance"], row["counter"], row["value"], row["metric"])
            for row in rows] == [
        (NOON, "SQL1", None, "IM (mean)", 366.0, None),
        (NOON, "SQL1", "D:\\sales.mdf", "FRL (mean)", 2.5, None),
        (NOON, "SQL1", "D:\\sales.mdf", "FRL (most)", 9.0, None),
        (NOON + 600 * 10**9, "SQL1", "sales", "DCS (mean)", 6.03, None),
    ]  # fmt: skip
    assert any("published nowhere" in note for note in recording.manifest.quality.notes)


def test_a_disk_is_named_without_the_marks_of_python_3(tmp_path):
    """bcc prints its keys as bytes: ``disk = b'sda'``."""
    path = tmp_path / "biolatency.txt"
    row = "       128 -> 255        : 12       |********|\n"
    path.write_text(
        f"Tracing block device I/O... Hit Ctrl-C to end.\n\ndisk = b'sda'\n     usecs : count     distribution\n{row}"
        f"\ndisk = bcache0\n     usecs : count     distribution\n{row}"
    )
    _, rows = rows_of(tmp_path, path)
    assert {row["instance"] for row in rows} == {"sda", "bcache0"}


def test_a_queue_depth_of_anybody_is_not_azures(tmp_path):
    path = tmp_path / "host.csv"
    path.write_text("Timestamp,Disk,Read IOPS,Queue Depth\n2026-03-01 12:00:00,C:,100,1\n")
    with pytest.raises(IotraceError, match="unknown columns"):
        rows_of(tmp_path, path)


def test_a_chart_of_azure_with_times_as_a_browser_writes_them(tmp_path):
    path = tmp_path / "chart.csv"
    path.write_text(
        '"Time","Data Disk Read Operations/Sec (Avg), sqlvm, LUN 0"\n'
        '"3/13/2026, 1:00:00 PM",100.5\n"3/13/2026, 1:01:00 PM",101.5\n'
    )
    _, rows = rows_of(tmp_path, path, timezone="Europe/Berlin")
    minute, days = 60 * 10**9, 12 * 86400 * 10**9
    assert values(rows) == [
        (NOON + days + minute, "read_iops", 100.5),
        (NOON + days + 2 * minute, "read_iops", 101.5),
    ]
