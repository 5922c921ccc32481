"""Real counter logs against values that Microsoft's own readers gave for them, and against laws they must obey."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from iotrace.capture.formats.windows import blg
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate


def silent(*_):
    pass


def table_of(path):
    trace = blg.read(path, path.name, silent)
    return pa.Table.from_batches([batch for _, batch in trace.batches()]), trace


@pytest.fixture(scope="module")
def tx(samples):
    path = samples / "perfmon" / "tx_BasicPerfCounters.blg"
    assert hashlib.sha256(path.read_bytes()).hexdigest().startswith("806ad6c6fb7fa869")
    return table_of(path)


@pytest.fixture(scope="module")
def pal(samples):
    path = samples / "perfmon" / "pal_SampleLog.blg"
    assert hashlib.sha256(path.read_bytes()).hexdigest().startswith("9517de275a6b8be5")
    return table_of(path)


def series(table, object_name, instance, counter):
    kept = pc.and_(pc.equal(table["object"], object_name), pc.equal(table["counter"], counter))
    kept = pc.and_(kept, pc.equal(table["instance"], instance))
    return table.filter(kept).sort_by("at_ns")


def values(table, *path):
    return series(table, *path)["value"].to_numpy()


def test_counts_that_the_official_reader_asserts(tx):
    """Test/Tx.Windows.Tests/PerfCounterTest.cs: 6,000 values, 3,000 of them of PhysicalDisk."""
    table, trace = tx
    assert len(table) == 6000
    assert pc.sum(pc.equal(table["object"], "PhysicalDisk")).as_py() == 3000
    assert (trace.samples, len(trace.series)) == (601, 10)


def test_processor_time_as_performance_monitor_shows_it(tx):
    """PerfCtr_1_RawData.JPG and PerfCtr_PerfMon.JPG of the repository."""
    found = values(tx[0], "Processor", "_Total", "% Processor Time")
    assert found[:4].tolist() == [9.378262382554226, 5.865413440457123, 8.204103036507815, 3.128380819509402]
    assert [round(float(one), 3) for one in (found.mean(), found.min(), found.max(), found[-1])] == [
        11.527,
        1.569,
        53.908,
        32.816,
    ]


def published_deviation(found):
    """As 2_AverageAndDeviation.linq computes it: over n² - 1, and with a sum of squares that starts at 0.1."""
    count = len(found)
    return ((count * ((found**2).sum() + 0.1) - found.sum() ** 2) / (count**2 - 1)) ** 0.5


def test_minute_means_as_the_repository_shows_them(tx):
    """PerfCtr_2_AverageAndDeviation_Output.JPG: first and last of ten windows of a minute."""
    rows = series(tx[0], "Processor", "_Total", "% Processor Time")
    at_ns, found = rows["at_ns"].to_numpy(), rows["value"].to_numpy()
    window = (at_ns - at_ns[0]) // 60_000_000_000
    first, last = found[window == 0], found[window == 9]
    assert [f"{one:.15g}" for one in (first.mean(), published_deviation(first))] == [
        "12.0669069305063",
        "6.64177991988439",
    ]
    assert [f"{one:.15g}" for one in (last.mean(), published_deviation(last))] == [
        "18.3763305167822",
        "14.5102758548969",
    ]


def test_disk_counters_computed_by_another_reader_the_same_way(tx):
    writes = values(tx[0], "PhysicalDisk", "0 C:", "Avg. Disk Bytes/Write")
    assert (f"{writes[0]:.14f}", f"{writes.mean():.7f}") == ("8795.42857142857065", "7643.8857795")
    queue = values(tx[0], "PhysicalDisk", "0 C:", "Avg. Disk Queue Length")
    assert f"{queue[0]:.11f}" == "0.03969857085"
    assert [f"{one:.10f}" for one in (queue.mean(), queue.max())] == [
        "0.1007003432",
        "4.0065415781",
    ]
    reads = values(tx[0], "PhysicalDisk", "0 C:", "Avg. Disk Bytes/Read")
    assert (f"{reads.mean():.7f}", f"{reads.max():.7f}") == ("3995.8409568", "146602.6666667")


def test_times_are_utc(tx, pal):
    """The logs count local time, 8 hours and (daylight saving) 4 hours behind UTC."""
    for (_, trace), first, last in (
        (tx, "2013-02-20T02:50:17.844+00:00", "2013-02-20T03:00:17.840+00:00"),
        (pal, "2007-08-14T19:40:38.659+00:00", "2007-08-14T19:50:38.599+00:00"),
    ):
        outcome = trace.outcome()
        assert trace.utc_text(outcome.window_start_ns) == first
        assert trace.utc_text(outcome.window_end_ns) == last


def test_whole_objects_of_vista(pal):
    """First interval of ``PhysicalDisk(_Total)``; latencies are stored in nanoseconds."""
    expected = {
        "Avg. Disk sec/Read": "7794827.58",
        "Avg. Disk sec/Write": "10540575.20",
        "Disk Reads/sec": "32.89",
        "Disk Writes/sec": "5.22",
        "Disk Read Bytes/sec": "537803.87",
        "Avg. Disk Queue Length": "0.31",
    }
    found = {counter: f"{values(pal[0], 'PhysicalDisk', '_Total', counter)[0]:.2f}" for counter in expected}
    assert found == expected


def test_littles_law_and_sums_hold_in_every_interval(pal):
    """Mean latency times rate is the queue's length; bytes per transfer times rate is bytes per second."""
    table, _ = pal

    def disk(counter):
        return values(table, "PhysicalDisk", "_Total", counter)

    rate = disk("Disk Transfers/sec")
    assert np.allclose(disk("Avg. Disk sec/Transfer") / 1e9 * rate, disk("Avg. Disk Queue Length"), rtol=1e-3)
    assert np.allclose(disk("Avg. Disk Bytes/Transfer") * rate, disk("Disk Bytes/sec"))
    assert np.allclose(disk("Disk Reads/sec") + disk("Disk Writes/sec"), rate)
    assert np.allclose(disk("% Disk Time") / 100, disk("Avg. Disk Queue Length"), rtol=1e-3)


def test_up_time_runs_with_the_clock(pal):
    """Seconds since boot grow as the samples' times do, and no process is older than the system."""
    table, _ = pal
    rows = table.filter(pc.equal(table["counter"], "System Up Time")).sort_by("at_ns")
    assert np.allclose(np.diff(rows["value"]), np.diff(rows["at_ns"]) / 1e9, atol=0.01)
    elapsed = table.filter(pc.equal(table["counter"], "Elapsed Time"))
    explorer = elapsed.filter(pc.equal(elapsed["instance"], "explorer"))
    assert pc.max(explorer["value"]).as_py() < pc.max(rows["value"]).as_py()


def test_objects_and_instances_of_the_first_sample(pal):
    table, trace = pal
    assert trace.samples == 11
    first = table.filter(pc.equal(table["at_ns"], table["at_ns"][0]))
    names = {
        name: {
            instance.partition("#")[0]
            for instance in first.filter(pc.equal(first["object"], name))["instance"].to_pylist()
        }
        for name in ("LogicalDisk", "Process", "PhysicalDisk", "Processor")
    }
    # 51 processes, of 37 names: the others are told apart as svchost#1, svchost#2, …
    assert {name: len(found) for name, found in names.items()} == {
        "LogicalDisk": 3,
        "Process": 37,
        "PhysicalDisk": 2,
        "Processor": 2,
    }


def test_no_latency_is_claimed_where_no_read_ended(tx):
    """Windows shows 0 bytes per read when there was none: kept as shown, but no mean of reads."""
    rows = series(tx[0], "PhysicalDisk", "0 C:", "Avg. Disk Bytes/Read")
    idle = pc.equal(rows["value"], 0)
    assert pc.sum(idle).as_py() > 0
    assert rows.filter(idle)["metric"].null_count == pc.sum(idle).as_py()
    assert set(rows.filter(pc.invert(idle))["metric"].to_pylist()) == {"read_size_bytes"}


def test_imported_together_with_its_quality(samples, tmp_path):
    logs = sorted((samples / "perfmon").glob("*.blg"))
    with pytest.raises(IotraceError, match="they share no time"):
        import_files(logs, tmp_path / "a.iotrace")
    recording = import_files(logs, tmp_path / "a.iotrace", apart_in_time=True)
    assert validate(tmp_path / "a.iotrace") == []
    assert recording.manifest.rows["counters"] == 6000 + 17_278
    assert [source.kind for source in recording.manifest.sources] == ["blg", "blg"]
    # The two logs are years apart; each by itself is whole.
    assert recording.manifest.quality.source_gaps == 1
    assert recording.manifest.quality.verdict == "usable"


def test_inspect(samples):
    facts = blg.inspect(samples / "perfmon" / "tx_BasicPerfCounters.blg", "a.blg")
    assert facts["whole"]
    assert (facts["series"], facts["samples"], facts["values"]) == (10, 601, 6000)
    assert (facts["interval_s"], facts["machines"]) == (1.0, ["GEORGIS3"])
    assert facts["objects"] == {"PhysicalDisk": 5, "Processor": 5}
    assert facts["time_zone_bias_minutes"] == 480
