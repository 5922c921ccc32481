"""Knees of results that other tools printed: published tables, and tables made from laws."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.analyze.knee.series import knee
from iotrace.analyze.present import plain
from iotrace.schemas import TABLES, Clock, IotraceError

sys.path.insert(0, str(Path(__file__).parents[1]))
from published import DISKSPD_128K_READS, SQLIO_64K_RANDOM_READS

from ...recordings import write_recording


def run(folder, number, *rows, tool="diskspd"):
    """One run as an import writes it: its rows, of which the first is the total."""
    common = {"run": 0, "test": "t", "tool": tool, "op": "total", "latency_clock": "service"}
    results = pa.Table.from_pylist([common | row for row in rows], schema=TABLES["results"])
    path, clock = folder / f"{tool}-{number}.iotrace", Clock(0, 1.0, tool)
    return write_recording(
        path, tables={"results": results}, kind="tested", title=f"run {number}", clock=clock, overwrite=True
    )


def published_sqlio(folder):
    table = SQLIO_64K_RANDOM_READS
    columns = zip(*(table[name] for name in ("outstanding", "iops", "mb_per_s", "latency_ms")), strict=True)
    return [
        run(
            folder,
            number,
            {
                "outstanding": outstanding,
                "threads": 4,
                "iops": iops,
                "bytes_per_second": mb_per_s * 1e6,
                "size_bytes": 65536,
                "latency_ns_mean": latency_ms * 1e6,
            },
            tool="sqlio",
        )
        for number, (outstanding, iops, mb_per_s, latency_ms) in enumerate(columns)
    ]


def test_published_sqlio_runs_saturate_at_the_queue_depth_of_the_hba(tmp_path):
    found = knee(published_sqlio(tmp_path))

    assert found.state == "reached"
    assert found.outstanding.value == 32
    assert "queue depth of 32" in found.causes[0].sentence
    assert found.sentence.endswith("the plateau from 32 outstanding on is the mark of a queue depth of 32.")
    assert found.iops.value == pytest.approx(2400, rel=0.02)
    assert [step.outstanding for step in found.steps if step.is_saturated] == [48, 64, 128, 256, 512]
    # SQLIO gives whole milliseconds: 184 IOPS of 4 ms are 0.74 in flight, which the rounding explains.
    assert all(step.is_judged for step in found.steps)
    assert found.usl.sigma.value > 0


def test_published_diskspd_runs_have_their_knee_between_twenty_and_forty_threads(tmp_path):
    table = DISKSPD_128K_READS
    columns = zip(*(table[name] for name in ("threads", "mb_per_s", "latency_ms")), strict=True)
    steps = [
        run(
            tmp_path,
            number,
            {
                "threads": threads,
                "iops": mb_per_s * 1e6 / 131072,
                "bytes_per_second": mb_per_s * 1e6,
                "latency_ns_mean": latency_ms * 1e6,
            },
        )
        for number, (threads, mb_per_s, latency_ms) in enumerate(columns)
    ]

    found = knee(list(reversed(steps)))

    assert found.state == "reached"
    assert 20 < found.outstanding.value < 40
    assert found.mb_per_s.value == pytest.approx(3200, rel=0.01)
    assert "threads" in found.sentence
    assert [step.outstanding for step in found.steps] == [1, 10, 20, 40]


def test_an_mm1_queue_offered_rates_has_its_knee_at_its_capacity(tmp_path):
    """Mean response 1 / (capacity - load); offered more, it carries its capacity (vdbench's curve, DiskSpd -g)."""
    steps = []
    for number, offered in enumerate([200, 600, 1000, 1400, 1700, 1900, 2300, 3000]):
        latency_ns = 1e9 / (2000 - offered) if offered < 2000 else 2e9
        row = {"offered_iops": float(offered), "iops": min(offered, 2000.0), "latency_ns_mean": latency_ns}
        steps.append(run(tmp_path, number, row, tool="vdbench"))

    found = knee(steps)

    assert found.state == "reached"
    assert found.iops.low <= 2000 <= found.iops.high
    assert found.iops.low > 1400
    assert any("mean latency stands for the median" in note for note in found.notes)


def hammerdb(folder, users, new_orders, p99_ms):
    steps = []
    for number, (count, rate, tail) in enumerate(zip(users, new_orders, p99_ms, strict=True)):
        total = {"virtual_users": count, "new_orders_per_minute": rate, "transactions_per_minute": 2.3 * rate}
        order = {
            "virtual_users": count,
            "op": "NEWORD",
            "latency_clock": "transaction",
            "latency_ns_mean": tail * 4e5,
            "quantiles": [{"quantile": 0.99, "latency_ns": int(tail * 1e6)}],
        }
        steps.append(run(folder, number, total, order, tool="hammerdb"))
    return steps


def test_users_of_a_database_saturate_where_new_orders_stop(tmp_path):
    found = knee(
        hammerdb(tmp_path, [4, 8, 16, 32, 64], [40e3, 79e3, 120e3, 121e3, 120e3], [9, 10, 14, 40, 95])
    )

    assert found.state == "reached"
    assert 8 < found.outstanding.value <= 16
    assert found.per_minute.value == pytest.approx(120e3, rel=0.02)
    assert found.per_minute_word == "NOPM"
    assert found.iops is None
    assert "virtual users" in found.sentence
    assert (
        "p99 is 9 ms with 4 virtual users and passes twice that by 32 virtual users (40 ms)" in found.sentence
    )
    assert [step.is_saturated for step in found.steps][-2:] == [True, True]
    # A database has no queue depth; that its users are a power of two says nothing.
    assert found.causes == []


def test_a_tail_that_stays_is_told_in_milliseconds(tmp_path):
    found = knee(
        hammerdb(tmp_path, [4, 8, 16, 32, 64], [40e3, 79e3, 120e3, 121e3, 120e3], [9, 10, 11, 12, 18])
    )
    assert "A new order's p99 stays within twice its 9 ms with 4 virtual users." in found.sentence


def test_users_that_still_bring_more_have_no_knee(tmp_path):
    found = knee(hammerdb(tmp_path, [4, 8, 16], [40e3, 79e3, 150e3], [9, 10, 11]))
    assert found.state == "not_reached"


def test_objectives_are_judged_on_the_quantiles_of_the_tool(tmp_path):
    steps = []
    for number, (outstanding, iops, p99_ms) in enumerate(
        [(1, 1000, 2), (4, 3800, 4), (16, 6000, 16), (64, 6000, 70)]
    ):
        quantiles = [{"quantile": 0.99, "latency_ns": p99_ms * 10**6}]
        row = {"outstanding": outstanding, "iops": float(iops), "latency_ns_mean": 1e9 * outstanding / iops}
        read = row | {"op": "read", "ios": 60 * iops, "quantiles": quantiles}
        steps.append(run(tmp_path, number, row, read, tool="fio"))

    found = knee(steps, slo="p99<8ms, read p99<100ms, p95<1ms, log p99<1ms")
    crossed, met, unknown, absent = found.objectives

    # Half way between 4 and 16 ms on a scale of logarithms.
    assert crossed.state == "crossed"
    assert crossed.iops.value == pytest.approx((3800 + 6000) / 2)
    assert (crossed.iops.low, crossed.iops.high) == (3800, 6000)
    assert met.state == "met_everywhere"
    assert unknown.state == "too_few_ios"
    assert absent.state == "no_such_io"


def test_a_load_that_was_not_kept_up_is_noted_and_left_out(tmp_path):
    """By Little's law 300 IOPS of 10 ms are 3 in flight, not the 64 that were asked for."""
    rates = {1: (1000, 1e6), 2: (2000, 1e6), 4: (4000, 1e6), 8: (4000, 2e6), 16: (4000, 4e6), 64: (300, 1e7)}
    steps = [
        run(tmp_path, number, {"outstanding": count, "iops": float(iops), "latency_ns_mean": float(latency)})
        for number, (count, (iops, latency)) in enumerate(rates.items())
    ]

    found = knee(steps)

    assert not found.steps[-1].is_judged
    assert any("3 in flight, not 64" in note for note in found.notes)
    assert found.outstanding.value == 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"outstanding": 4}, {"outstanding": 4}),
        ({"outstanding": 4, "size_bytes": 8192}, {"outstanding": 8, "size_bytes": 65536}),
        ({}, {}),
    ],
    ids=["same load", "other size", "no load"],
)
def test_runs_that_are_no_series_are_refused(tmp_path, first, second):
    steps = [run(tmp_path, number, {"iops": 100.0} | row) for number, row in enumerate((first, second))]
    with pytest.raises(IotraceError) as problem:
        knee(steps)
    assert problem.value.hint


def sqlio(folder, number, op, outstanding, size_bytes=8192):
    """SQLIO prints rates, but no counts."""
    told = {"outstanding": outstanding, "iops": 1000.0 * outstanding, "size_bytes": size_bytes,
            "access": "random", "latency_ns_mean": 1e6}  # fmt: skip
    return run(folder, number, told, told | {"op": op}, tool="sqlio")


def test_reads_and_writes_of_a_tool_without_counts_are_no_one_series(tmp_path):
    steps = [sqlio(tmp_path, 2**k, "read" if k < 3 else "write", 2**k) for k in range(6)]
    with pytest.raises(IotraceError, match="reads and writes are not the same"):
        knee(steps)


def test_a_matrix_is_refused_with_what_to_do_about_it(tmp_path):
    steps = [
        sqlio(tmp_path, f"{op}{size}-{load}", op, load, size)
        for op in ("read", "write")
        for size in (8192, 65536)
        for load in (1, 2, 4)
    ]
    with pytest.raises(IotraceError, match="they have 4 sizes, patterns or mixes") as caught:
        knee(steps)
    assert "each series by itself" in caught.value.hint


def test_two_sizes_at_the_same_loads_are_two_series(tmp_path):
    steps = [
        sqlio(tmp_path, f"{size}-{load}", "read", load, size) for size in (8192, 65536) for load in (1, 2, 4)
    ]
    with pytest.raises(IotraceError, match="they have 2 sizes, patterns or mixes"):
        knee(steps)


def test_numbers_that_are_not_known_are_null_in_json(tmp_path):
    rows = zip((1, 2, 4, 8), (10, 20, 40, 40), strict=True)
    steps = [run(tmp_path, count, {"outstanding": count, "iops": float(iops)}) for count, iops in rows]
    facts = plain(knee(steps))
    assert facts["steps"][0]["littles_law_ratio"] is None
    assert not any(isinstance(value, float) and np.isnan(value) for value in facts["steps"][0].values())


@pytest.mark.parametrize("unit_ns", [1e6, 1e5, 1e4, 1e3])
@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_tool_rounds_away_of_its_latency_is_no_load_that_was_not_kept_up(unit_ns, is_whole, tmp_path):
    """Each I/O takes 1.45 units, which the tool prints as 1; that it knows tenths shows where one load takes 1.1."""
    steps = [
        run(
            tmp_path,
            count,
            {"outstanding": count, "iops": count * 1e9 / (1.45 * unit_ns), "latency_ns_mean": unit_ns},
        )
        for count in (1, 2, 4)
    ]
    last = 1.0 if is_whole else 1.1
    row = {"outstanding": 8, "iops": 8 * 1e9 / (1.45 * unit_ns), "latency_ns_mean": last * unit_ns}
    found = knee([*steps, run(tmp_path, 8, row)])
    assert any("was not kept" in note for step in found.steps for note in step.notes) != is_whole


def test_a_run_far_beyond_the_corner_has_not_kept_up(tmp_path):
    """Eight servers that take 1 ms: 64 in flight wait for 8 ms."""
    rows = {1: (1000.0, 1e6), 64: (8000.0, 8e6)}
    found = knee(
        [
            run(tmp_path, count, {"outstanding": count, "iops": iops, "latency_ns_mean": latency_ns})
            for count, (iops, latency_ns) in rows.items()
        ]
    )

    assert found.state == "onset"
    assert [step.is_saturated for step in found.steps] == [False, True]
    assert found.outstanding is found.iops is found.highest_kept_up_iops is None
    assert found.headroom == ""
    assert found.sentence == (
        "Where it saturates cannot be told from these runs, but there is a queue at 64 outstanding: from 1 to 64, IOPS "
        "grew 8 times for 64 times as many outstanding, so that latency grew 8 times. To know where, run 8, 16, 32 and "
        "128 outstanding as well."
    )
