"""A user's own questions: answered from the recording, and from nothing else."""

import shutil
import threading
import time

import duckdb
import pyarrow as pa
import pytest

from iotrace.analyze import query
from iotrace.schemas import IotraceError


@pytest.fixture
def recording(make_recording):
    ios = [{"issued_ns": i, "completed_ns": i + 10, "device_id": 0, "file_id": 0} for i in range(3)]
    return make_recording(ios, window_ns=1000)


def select(recording, sql):
    with query.opened(recording) as connection:
        return [row for batch in query.select(connection, sql) for row in batch.to_pylist()]


def ask(recording, name, **words):
    with query.opened(recording) as connection:
        return [row for batch in query.ask(connection, recording, name, words) for row in batch.to_pylist()]


def test_tables_are_views_named_after_their_files(recording):
    assert {row["name"] for row in select(recording, "SHOW TABLES")} >= {
        "io", "devices", "files", "processes", "waits", "counters", "markers",
    }  # fmt: skip
    assert select(recording, "SELECT sum(io.size_bytes)::BIGINT AS n FROM io JOIN files USING (file_id)") == [
        {"n": 3 * 8192}
    ]


@pytest.mark.parametrize(
    "sql",
    ["DROP VIEW io", "COPY io TO 'x.csv'", "SELECT 1; SELECT 2", "SET threads = 1", "", "INSTALL httpfs",
     "ATTACH 'x.db'", "CREATE TABLE x AS SELECT 1", "EXPORT DATABASE 'x'"],
)  # fmt: skip
def test_only_what_reads_is_run(recording, sql):
    with pytest.raises(IotraceError) as caught:
        select(recording, sql)
    assert caught.value.hint


@pytest.mark.parametrize(
    "source",
    ["read_csv('{}')", "read_text('{}')", "read_blob('{}')", "glob('{}*')", "read_parquet('{}')", "'{}'",
     "read_json('http://x.invalid/')", "parquet_scan('{}/../other.parquet')"],
)  # fmt: skip
def test_no_other_file_is_read(recording, tmp_path, source):
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\n", "utf-8")
    with pytest.raises(IotraceError) as caught:
        select(recording, f"SELECT * FROM {source.format(secret)}")
    assert "hunter2" not in caught.value.message


def test_a_path_with_quotes_and_stars_is_only_a_path(recording, tmp_path):
    odd = recording.path.rename(tmp_path / "it's [1] *.iotrace")
    # A neighbour that it would name, were it a pattern.
    shutil.copytree(odd, tmp_path / "it's 1 x.iotrace")
    moved = type(recording).open(odd)
    assert select(moved, "SELECT count(*) AS n FROM io") == [{"n": 3}]
    with pytest.raises(IotraceError, match="disabled by configuration"):
        select(
            moved,
            "SELECT * FROM '{}'".format(str(tmp_path / "it's 1 x.iotrace/io.parquet").replace("'", "''")),
        )


def test_answers_larger_than_memory_are_streamed(recording):
    """Ten thousand million rows: only as much is made as is looked at."""
    with query.opened(recording) as connection:
        batches = query.select(connection, "SELECT range AS n FROM range(10000000000)")
        assert next(batches)["n"][0].as_py() == 0


@pytest.mark.parametrize(
    ("sql", "word", "hint"),
    [
        ("SELECT * FROM iox", "iox", '"io"'),
        ("SELECT issud_ns FROM io", "issud_ns", "issued_ns"),
        ("SELEC 1", "SELEC", "SHOW TABLES"),
        ("SELECT coun(*) FROM io", "coun", "count"),
        ("SELECT 'x'::INTEGER", "'x'", "SHOW TABLES"),
        ("SELECT * FROM io WHERE size_bytes > $n", "n", "value"),
    ],
)
def test_a_mistake_is_told_by_the_users_word(recording, sql, word, hint):
    with pytest.raises(IotraceError) as caught:
        select(recording, sql)
    assert word in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in caught.value.hint


def test_no_rows_still_have_columns(recording):
    with query.opened(recording) as connection:
        (batch,) = query.select(connection, "SELECT op FROM io WHERE FALSE")
    assert (batch.num_rows, batch.schema.names) == (0, ["op"])


def test_a_query_of_the_library_by_name(recording):
    assert ask(recording, "size_distribution", layer="block") == [
        {"device_id": 0, "role": "data", "op": "read", "size_bytes": 8192, "io_count": 3}
    ]
    assert ask(recording, "size_distribution", layer="sql") == []


def test_parameters_have_the_recordings_own_defaults(recording):
    assert ask(recording, "work_mix") == [{"op": "read", "size_bytes": 8192, "io_count": 3}]
    assert ask(recording, "work_mix", until_ns="2ns") == [{"op": "read", "size_bytes": 8192, "io_count": 2}]


@pytest.mark.parametrize(
    ("name", "words", "told", "hint"),
    [
        ("size_distributon", {}, "size_distributon", "size_distribution"),
        ("../library", {}, "../library", "--list"),
        ("layers", {"layer": "block"}, "'layer'", "none"),
        ("work_mix", {"from_ns": "soon"}, "soon", "10s"),
        ("top_files", {"row_limit": "5s"}, "5s", "whole number"),
        ("issued_in_slice", {}, "file_stride", "file_stride="),
    ],
)
def test_a_wrong_name_or_value_is_told(recording, name, words, told, hint):
    with pytest.raises(IotraceError) as caught:
        ask(recording, name, **words)
    assert told in caught.value.message
    assert hint in caught.value.hint


def test_the_clock_of_a_query_has_ended_with_it(monkeypatch):
    """A thread that still holds the connection when Python ends made DuckDB print 30 lines about leaks."""

    class SlowToEnd(threading.Timer):
        def run(self) -> None:
            super().run()
            time.sleep(0.2)

    monkeypatch.setattr(threading, "Timer", SlowToEnd)
    with duckdb.connect() as connection:
        batches = iter([pa.RecordBatch.from_pydict({"n": [1]})])
        assert [batch.num_rows for batch in query.limited(connection, batches, 60)] == [1]
    assert not [one for one in threading.enumerate() if isinstance(one, SlowToEnd)]


def test_what_does_not_stop_is_ended(monkeypatch):
    """A batch that DuckDB is still busy with after its time, and after it was told to stop."""
    monkeypatch.setattr(query, "STOP_S", 0.01)
    ended, told = threading.Event(), []

    def batches():
        assert ended.wait(60)
        yield pa.RecordBatch.from_pydict({"n": [1]})

    def end(problem):
        told.append(problem.message)
        ended.set()

    with duckdb.connect() as connection, pytest.raises(IotraceError, match=r"stopped after 0\.01 s"):
        list(query.limited(connection, batches(), 0.01, end))
    assert told == ["the query was stopped after 0.01 s"]


def test_what_stops_in_time_is_not_ended(monkeypatch):
    monkeypatch.setattr(query, "STOP_S", 60)
    with duckdb.connect() as connection, pytest.raises(IotraceError, match="stopped after"):
        endless = query.select(connection, "SELECT count(*) FROM range(1000000000000) a, range(1000000000) b")
        list(query.limited(connection, endless, 0.2, lambda _: pytest.fail("it was ended")))


def test_memory_that_does_not_suffice_is_an_error_in_words_and_the_limit_goes_with_it():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(IotraceError, match="not enough memory"), query.within_memory():
        bytearray(1 << 40)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
