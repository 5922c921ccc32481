"""The query library: house rules of the files, several recordings, errors, histograms."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.analyze import library
from iotrace.analyze.stats import histogram
from iotrace.schemas import IotraceError, Recording

QUERIES = library.list_queries()
SAMPLE_PARAMETERS = {
    "layer": "block",
    "metric": "service",
    "from_ns": 0,
    "zero_utc_ns": 0,
    "until_ns": 100,
    "ended_ns": 100,
    "window_ns": 1_000_000_000,
    "slot_ns": 10,
    "row_limit": 5,
    "block_bytes": 65536,
    "file_stride": 3,
    "lead_ns": 10,
    "kept_files": [0],
    "longest_slots": 3,
    "with_roles": True,
    "classes": [
        {
            "class_key": 0,
            "role": "data",
            "op": "read",
            "size_class_bytes": 8192,
            "limits_ns": [1, 2, 3],
            "op_limits_ns": [1, 2, 3],
        }
    ],
}
OWN = [query for query in QUERIES if {p.name for p in query.parameters} <= SAMPLE_PARAMETERS.keys()]
# A unit and the words a name may show it by.
UNIT_WORDS = {
    "ns": ("_ns",),
    "bytes": ("_bytes",),
    "I/Os": ("_count", "_ios"),
    "blocks": ("_count",),
    "samples": ("_count",),
    "id": ("_id", "_key"),
    "I/Os/s": ("_per_s",),
    "bytes/s": ("_per_s",),
    "files": ("_count",),
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_query_has_a_question_and_says_what_each_name_means(query):
    assert query.question.endswith("?")
    assert query.columns
    for column in (*query.columns, *query.parameters):
        assert column.meaning, column
        words = UNIT_WORDS.get(column.unit)
        assert words is None or any(word in f"_{column.name}" for word in words), column


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_query_keeps_the_house_rules(query):
    body = re.sub(r"--.*|'[^']*'", "", query.sql)
    keywords = r"select|from|where|group by|order by|with|join|left|union|case|when|then|else|end|over|as|and|or|filter"
    assert not re.findall(rf"\b({keywords})\b", body), "keywords are upper case"
    assert {name[1:] for name in re.findall(r"\$\w+", body)} == {p.name for p in query.parameters}
    assert ";" not in body


def test_every_query_has_a_test_with_a_trace_and_an_expected_table():
    folder = Path(__file__).parent / "queries"
    tests = "".join(path.read_text("utf-8") for path in folder.glob("test_*.py"))
    assert [query.name for query in QUERIES if f'"{query.name}"' not in tests] == []


@pytest.mark.parametrize("query", OWN, ids=lambda query: query.name)
def test_query_returns_the_columns_its_head_names(query, make_recording):
    recording = make_recording([{"issued_ns": 0, "completed_ns": 10}])
    parameters = {p.name: SAMPLE_PARAMETERS[p.name] for p in query.parameters}
    with library.opened(recording) as connection:
        assert library.run(connection, query.name, **parameters).column_names == [
            c.name for c in query.columns
        ]


def test_two_recordings_side_by_side(make_recording):
    one, two = (make_recording([{"issued_ns": i, "completed_ns": i + 1} for i in range(n)]) for n in (3, 5))
    with library.connected() as connection:
        library.attach(connection, one, "a")
        library.attach(connection, two, "b")
        counts = [
            library.run(connection, "layers", prefix=p)["io_count"].to_pylist() for p in ("a", "b", "a")
        ]
        both = connection.sql("SELECT (SELECT count(*) FROM a.io) + (SELECT count(*) FROM b.io) AS n")
        assert both.fetchall() == [(8,)]
    assert counts == [[3], [5], [3]]


def test_wrong_parameters_are_a_defect_of_the_caller(make_recording):
    with library.opened(make_recording([{"issued_ns": 0}])) as connection:
        with pytest.raises(TypeError, match="layer"):
            library.run(connection, "streams")
        with pytest.raises(KeyError):
            library.run(connection, "../library")


def test_parameters_are_values_never_sql(make_recording):
    with library.opened(make_recording([{"issued_ns": 0}])) as connection:
        assert library.run(connection, "streams", layer="' OR 1=1 --").num_rows == 0


def _bytes_of(recording: Recording) -> Path:
    return recording.path / "io.parquet"


@pytest.mark.parametrize(
    ("name", "neighbour"), [("night[1]", "night1"), ("night*", "night2"), ("night?", "night3")]
)
def test_a_folder_whose_name_is_a_pattern_is_not_taken_for_its_neighbour(make_recording, name, neighbour):
    """Browsers call a second download night[1]."""
    mine, other = make_recording([{"issued_ns": 0}]), make_recording([{"issued_ns": 0}] * 5)
    other.path.rename(other.path.with_name(f"{neighbour}.iotrace"))
    path = mine.path.rename(mine.path.with_name(f"{name}.iotrace"))
    with library.opened(Recording.open(path)) as connection:
        assert connection.sql("SELECT count(*) FROM io").fetchall() == [(1,)]


def test_a_folder_called_like_a_column_adds_none(make_recording, tmp_path):
    recording = make_recording([{"issued_ns": 0, "op": "write"}])
    path = tmp_path / "op=read" / "year=2026" / "x.iotrace"
    path.parent.mkdir(parents=True)
    recording.path.rename(path)
    with library.opened(Recording.open(path)) as connection:
        assert connection.sql("SELECT op FROM io").fetchall() == [("write",)]
        assert "year" not in connection.sql("FROM io LIMIT 0").columns


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(lambda _: b"not parquet at all", id="foreign"),
        pytest.param(lambda data: data[:4] + bytes(len(data) - 400) + data[-396:], id="zeroed"),
    ],
)
def test_damaged_parquet_is_an_error_for_users(make_recording, damage):
    recording = make_recording([{"issued_ns": i, "completed_ns": i + 7} for i in range(1000)])
    path = _bytes_of(recording)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(IotraceError) as caught, library.opened(recording) as connection:
        library.run(connection, "latency_histogram", metric="service")
    assert "\n" not in caught.value.message
    assert str(recording.path) in caught.value.message
    assert str(recording.path) in caught.value.hint


def test_a_column_whose_name_is_no_text_is_an_error_for_users(make_recording):
    recording = make_recording([{"issued_ns": 0}])
    (path,) = recording.parquet_paths("io")
    table = pq.read_table(path)
    pq.write_table(table.append_column("zzzz", pa.array([1])), path)
    path.write_bytes(path.read_bytes().replace(b"zzzz", b"\xff\xfe\xff\xfe"))
    with (
        pytest.raises(IotraceError, match="damaged table io: the name of a column is not text"),
        library.opened(recording),
    ):
        pass


def test_of_several_recordings_an_error_names_the_damaged_one(make_recording):
    good, bad = (
        make_recording([{"issued_ns": i, "completed_ns": i + 7} for i in range(1000)]) for _ in range(2)
    )
    table = bad.read("io").drop_columns(["error"])
    with library.connected() as connection:
        library.attach(connection, good, "a")
        pq.write_table(table, bad.path / "io.parquet")
        library.attach(connection, bad, "b")
        assert library.run(connection, "layers", prefix="a").num_rows == 1
        with pytest.raises(IotraceError, match=re.escape(f"'{bad.path}' cannot be read while asking layers")):
            library.run(connection, "layers", prefix="b")
        with library.cursor(connection) as other, pytest.raises(IotraceError, match=re.escape(str(bad.path))):
            library.run(other, "layers", prefix="b")


def test_nothing_is_left_in_the_working_folder(make_recording, tmp_path, monkeypatch):
    recording = make_recording([{"issued_ns": 0}])
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with library.opened(recording) as connection:
        library.run(connection, "layers")
    assert sorted(tmp_path.iterdir()) == before


@given(st.lists(st.integers(0, 1 << 45), min_size=1))
def test_a_bucket_is_within_half_a_thousandth_of_its_values(values):
    buckets = histogram.latency_bucket_ns(values)
    assert (np.abs(buckets - np.array(values)) <= np.array(values) / 2000).all()
    assert (histogram.latency_bucket_ns(buckets) == buckets).all()


def test_sql_and_python_put_values_into_the_same_buckets():
    edges = [2**k + d for k in range(1, 46) for d in (-1, 0, 1)]
    values = sorted({0, *edges, *np.random.default_rng(1).integers(0, 1 << 40, 2000).tolist()})
    with library.connected() as connection:
        sql = "SELECT latency_bucket_ns(v) AS bucket_ns FROM (SELECT unnest($values) AS v) ORDER BY v"
        rows = connection.sql(sql, params={"values": values})
        assert rows.to_arrow_table()["bucket_ns"].to_pylist() == histogram.latency_bucket_ns(values).tolist()


def test_merged_histograms_are_the_histogram_of_everything():
    """The law that lets hosts and parts be summarised apart."""
    values = np.random.default_rng(2).lognormal(13, 1, 30_000).astype(np.int64)

    def of(part):
        buckets, counts = np.unique(histogram.latency_bucket_ns(part), return_counts=True)
        return pa.table({"bucket_ns": buckets, "io_count": counts})

    assert histogram.merge([of(values[::3]), of(values[1::3]), of(values[2::3])]) == of(values)


def test_quantiles_are_those_of_the_values_within_the_buckets_width():
    values = np.random.default_rng(3).lognormal(13, 1, 50_000).astype(np.int64)
    buckets, counts = np.unique(histogram.latency_bucket_ns(values), return_counts=True)
    for quantile in (0.5, 0.9, 0.99):
        exact = np.quantile(values, quantile, method="inverted_cdf")
        assert histogram.quantile_ns(buckets, counts, quantile) == pytest.approx(exact, rel=0.0005)


@pytest.mark.parametrize(
    ("io_count", "quantile", "printable"),
    [(200, 0.5, True), (199, 0.5, False), (10_000, 0.99, True), (9_999, 0.99, False), (100_000, 0.999, True)],
)
def test_a_quantile_needs_a_hundred_beyond_it(io_count, quantile, printable):
    assert (histogram.quantile_ns([5], [io_count], quantile) == 5) == printable
