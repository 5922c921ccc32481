"""An objective is judged wherever something tells of it, else said to be not judgeable: never left out."""

from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.report import write_report
from iotrace.schemas import TABLES, Clock

from ...recordings import write_recording

MS = 1_000_000


@pytest.fixture
def report(tmp_path):
    number = count()

    def write(slo, *recordings):
        return write_report(recordings, tmp_path / f"{next(number)}.md", slo=slo)

    return write


@pytest.fixture
def tested(tmp_path):
    """Runs of another tool with the p99s of reads that it printed, and with that of writes if there were any."""

    def write(*p99_ms, write_ms=None, title="fio.json"):
        ops = {"total": None, "read": None} | ({"write": write_ms} if write_ms else {})
        rows = [
            {"run": run, "op": op, "test": "t", "tool": "fio", "latency_clock": "service", "iops": 1000.0,
             "ios": 60_000, "quantiles": p99 and [{"quantile": 0.99, "latency_ns": p99 * MS}]}
            for run, ms in enumerate(p99_ms)
            for op, p99 in (ops | {"read": ms}).items()
        ]  # fmt: skip
        results = pa.Table.from_pylist(rows, schema=TABLES["results"])
        path = tmp_path / f"{title}.iotrace"
        clock = Clock(0, 1.0, "fio")
        return write_recording(path, tables={"results": results}, kind="tested", title=title, clock=clock)

    return write


@pytest.fixture
def counted(tmp_path):
    """Ten minutes of counters of a drive whose reads take 40 ms on average."""
    names = {"Avg. Disk sec/Read": 0.04, "Disk Reads/sec": 400.0}
    rows = [
        {"at_ns": second * 10**9, "source": "perfmon", "object": "LogicalDisk", "instance": "D:", "counter": name,
         "value": value}
        for second in range(0, 600, 15)
        for name, value in names.items()
    ]  # fmt: skip
    return write_recording(
        tmp_path / "pm.iotrace", tables={"counters": rows}, title="pm.csv", window_end_ns=600 * 10**9
    )


@pytest.fixture
def layered(make_recording):
    """60 s of the same reads, of which each takes as long as given at each layer, and writes at the block layer."""

    def write(**taken_ms):
        at = np.arange(30_000) * 2 * MS
        columns = [
            {"layer": layer, "issued_ns": at, "completed_ns": at + int(ms * MS)}
            for layer, ms in taken_ms.items()
        ]
        tables = [pa.table(one | {"layer": [one["layer"]] * len(at)}) for one in columns]
        joined = pa.concat_tables(tables)
        return make_recording(
            {name: joined[name].to_pylist() for name in joined.column_names},
            window_ns=60 * 10**9,
            title="prod",
        )

    return write


@pytest.mark.parametrize(
    ("slo", "is_met", "said"),
    [
        ("p99<5ms", False, "8.00 ms, above the objective of 5 ms"),
        ("read p99<15ms", True, "8.00 ms, within the objective of 15 ms"),
        ("p95<50ms", None, "fio printed no p95"),
        ("write p99<20ms", None, "fio ran no writes"),
        ("log read p99<20ms", None, "do not tell roles of files apart"),
    ],
)
def test_results_of_other_tools_are_judged_by_the_quantiles_that_they_printed(
    report, tested, slo, is_met, said
):
    facts = report(slo, tested(8))
    (check,) = facts.recordings[0].objectives
    assert check.is_met is is_met
    assert said in check.sentence
    assert facts.is_no is (is_met is not True)
    assert f"fio.json (tested): {check.sentence}" in facts.also


@pytest.mark.parametrize(("p99_ms", "is_met"), [((2, 3), True), ((2, 30), False)])
def test_of_several_runs_the_slowest_decides(report, tested, p99_ms, is_met):
    (check,) = report("p99<15ms", tested(*p99_ms)).recordings[0].objectives
    assert (check.is_met, check.quantile_ns) == (is_met, p99_ms[1] * MS)
    assert "in the slowest of 2 runs" in check.sentence


@pytest.mark.parametrize(("limit_ms", "is_met"), [(2, False), (5, None), (15, True)])
def test_between_reads_and_writes_lies_what_the_tool_did_not_print_of_both(report, tested, limit_ms, is_met):
    """Of reads 8 ms, of writes 3 ms: of all of them it is no less than 3 ms, and no more than 8."""
    facts = report(f"p99<{limit_ms}ms", tested(8, write_ms=3))
    (check,) = facts.recordings[0].objectives
    assert (check.is_met, facts.is_no) == (is_met, is_met is not True)
    assert "8.00 ms of reads and 3.00 ms of writes" in check.sentence


def test_counters_know_no_quantile_and_the_report_says_so(report, counted):
    facts = report("p99<15ms", counted)
    (check,) = facts.recordings[0].objectives
    assert (check.is_met, check.quantile_ns, facts.is_enough, facts.is_no) == (None, None, None, True)
    assert "cannot be told" in check.sentence
    assert "counters alone" in check.sentence
    assert any(check.sentence in one for one in facts.also)


def test_beside_a_recording_that_meets_it_what_cannot_be_judged_is_not_passed_over(report, counted, layered):
    facts = report("p99<15ms", layered(block=1), counted)
    assert [one.objectives[0].is_met for one in facts.recordings] == [True, None]
    assert (facts.is_no, facts.answer) == (True, "")
    missed = report("p99<15ms", layered(block=20), counted)
    assert missed.answer == "prod (captured) misses an objective."


@pytest.mark.parametrize(
    ("taken_ms", "is_met", "layer", "said"),
    [
        ({"sql": 40, "block": 2}, False, "sql", "above the objective of 15 ms. It is 2.00 ms at the block layer"),
        ({"sql": 10, "block": 2}, True, "sql", "within the objective of 15 ms. It is 2.00 ms at the block layer"),
        ({"sql": 40, "filesystem": 9, "device": 2}, False, "sql", " at the filesystem layer and 2.00 ms at the device"),
        # Below the load's layer nobody waits but what is in it already.
        ({"block": 2, "device": 20}, True, "block", "at the block layer is 2.00 ms"),
        ({"sql": 2, "block": 20}, False, "block", "above the objective of 15 ms. It is 2.00 ms at the sql layer"),
    ],
)  # fmt: skip
def test_an_objective_holds_where_sql_server_waits_and_names_its_layer(
    report, layered, taken_ms, is_met, layer, said
):
    facts = report("p99<15ms", layered(**taken_ms))
    (check,) = facts.recordings[0].objectives
    assert (check.is_met, check.layer, facts.is_no) == (is_met, layer, not is_met)
    assert said in check.sentence
    assert f" at the {layer} layer is " in check.sentence
    names_load = "Latency at the " in facts.recordings[0].sentence
    assert names_load is ("sql" in taken_ms)
    assert facts.answer == f"prod (captured) {'meets every' if is_met else 'misses an'} objective."


def test_a_layer_above_that_saw_too_few_ios_or_others_is_said_to(report, make_recording):
    """Of 20,000 I/Os the sql layer holds a part, each of which took 40 ms."""
    at = np.arange(20_000) * 3 * MS
    for few, is_met in ((1000, True), (15_000, False)):
        part = at[:few]
        rows = {
            "layer": ["block"] * len(at) + ["sql"] * few,
            "issued_ns": np.concatenate([at, part]),
            "completed_ns": np.concatenate([at + 2 * MS, part + 40 * MS]),
        }
        (check,) = report("p99<15ms", make_recording(rows, window_ns=60 * 10**9)).recordings[0].objectives
        assert check.is_met is is_met
        assert ("2.00 ms at the block layer (of 20,000 I/Os; sql saw 15,000)" in check.sentence) is not is_met
