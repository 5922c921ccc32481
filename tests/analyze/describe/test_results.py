"""Results as tables: what each run was, dashes where too few lie beyond a quantile, one line where a total repeats."""

from iotrace.analyze.describe.results import quantile_ns, result_tables
from iotrace.schemas import TABLES

EMPTY = dict.fromkeys(TABLES["results"].names)
QUANTILES = [{"quantile": 0.5, "latency_ns": 900_000}, {"quantile": 0.99, "latency_ns": 4_000_000}]


def row(op, **told):
    return EMPTY | {"step": 0, "run": 0, "test": "a", "tool": "diskspd", "op": op} | told


def test_a_total_of_one_op_is_not_shown_twice():
    both = [row(op, iops=1000.0, ios=60_000, bytes_per_second=8.192e6) for op in ("read", "total")]
    assert [line[1] for line in result_tables(both).storage] == ["read"]
    mixed = [row(op, iops=1000.0) for op in ("read", "write", "total")]
    assert [line[1] for line in result_tables(mixed).storage] == ["read", "write", "total"]


def test_a_quantile_with_too_few_beyond_it_is_not_shown():
    assert quantile_ns(row("read", ios=10_000, quantiles=QUANTILES), 0.99) == 4_000_000
    assert quantile_ns(row("read", ios=9_000, quantiles=QUANTILES), 0.99) is None
    assert quantile_ns(row("read", ios=9_000, quantiles=QUANTILES), 0.5) == 900_000
    assert quantile_ns(row("NEWORD", transactions=500, quantiles=QUANTILES), 0.99) is None


def test_what_sqlio_cuts_off_to_0_ms_took_less_than_one():
    told = {"iops": 9000.0, "latency_ns_mean": 0.0, "latency_ns_max": 3_000_000}
    mean, *_, most = result_tables([row("read", tool="sqlio", **told)]).storage[0][4:]
    assert (mean, most) == ("< 1 ms", "3.00 ms")


def test_runs_are_numbered_and_told_by_their_load():
    rows = [
        row("read", iops=100.0, size_bytes=8192, access="random", outstanding=16, duration_ns=60 * 10**9),
        row("read", iops=100.0, step=1, test="b", offered_iops=4000.0, outstanding=64),
    ]
    found = result_tables(rows)
    assert found.legends == [
        "1  a: diskspd, random 8 KiB, 16 outstanding, 60.0 s",
        "2  b: diskspd, 4,000 IOPS asked for",
    ]
    assert [line[0] for line in found.storage] == ["1", "2"]


def test_a_database_has_its_own_table():
    rows = [
        row("NEWORD", transactions=40_000, quantiles=QUANTILES, latency_ns_max=9_000_000, virtual_users=8),
        row("total", new_orders_per_minute=12_000.0, transactions_per_minute=27_000.0, virtual_users=8),
    ]
    found = result_tables(rows)
    assert found.storage == []
    assert found.database == [("1", "8", "12,000", "27,000", "0.90 ms", "–", "4.00 ms", "9.00 ms")]  # noqa: RUF001
    assert result_tables([]) is None
