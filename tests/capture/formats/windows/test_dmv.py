"""Snapshots of DMVs: what happened between them, worked out by hand from planted totals."""

import random
from pathlib import Path

import pytest

from iotrace.capture.formats.windows import dmv, dmv_lines
from iotrace.capture.formats.windows.dmv_columns import (
    FILE_STATS_COLUMNS,
    FILE_STATS_QUERY,
    WAIT_STATS_COLUMNS,
    WAIT_STATS_QUERY,
)
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

FIXTURES = Path(__file__).parents[3] / "fixtures" / "dmv"
SECOND = 1_000_000_000
SALES, LOG = "D:\\data, fast\\Sales.mdf", "L:\\log\\Sales_log.ldf"
HEADER = (
    "capture_utc,database_id,file_id,sample_ms,num_of_reads,num_of_bytes_read,io_stall_read_ms,"
    "num_of_writes,num_of_bytes_written,io_stall_write_ms"
)


@pytest.fixture
def imported(tmp_path):
    def run(data, name="files.csv"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        recording = import_files([path], tmp_path / "x.iotrace", overwrite=True)
        assert not validate(recording.path)
        return recording

    return run


def counters(recording, **wanted):
    """{(seconds, instance, counter): value} of the rows that match."""
    return {
        (row["at_ns"] / SECOND, row["instance"], row["counter"]): row["value"]
        for row in recording.read("counters").to_pylist()
        if all(row[key] == value for key, value in wanted.items())
    }


def test_files_as_sqlcmd_writes_them(imported):
    recording = imported((FIXTURES / "files_sqlcmd.txt").read_bytes())
    busy = {key: value for key, value in counters(recording).items() if value}
    assert busy == {
        # 2,000 reads of 8 KiB in 10 s, 10,000 ms of stall, 1,000 of it in the governor's queue.
        (10, SALES, "reads per second"): 200,
        (10, SALES, "read bytes per second"): 1_638_400,
        (10, SALES, "mean read latency"): 5_000_000,
        (10, SALES, "mean read delay by resource governor"): 500_000,
        # 1,000 writes of 1,024 bytes, 500 ms of stall.
        (10, LOG, "writes per second"): 100,
        (10, LOG, "write bytes per second"): 102_400,
        (10, LOG, "mean write latency"): 500_000,
        (10, "T:\\tempdb.mdf", "reads per second"): 0.1,
        (10, "T:\\tempdb.mdf", "read bytes per second"): 6553.6,
        (10, "T:\\tempdb.mdf", "mean read latency"): 7_000_000,
        # After the restart; the interval across it has no row, though Sales.mdf's totals had grown past the old ones.
        (3640, SALES, "writes per second"): 10,
        (3640, SALES, "write bytes per second"): 81_920,
        (3640, SALES, "mean write latency"): 2_000_000,
    }
    rows = recording.read("counters").to_pylist()
    assert {row["at_ns"] for row in rows} == {10 * SECOND, 3640 * SECOND}
    assert {(row["layer"], row["source"], row["interval_ns"]) for row in rows} == {
        ("sql", "SQL01", 10 * SECOND)
    }
    assert counters(recording, metric="read_latency_ns").keys() == {
        (10, SALES, "mean read latency"), (10, "T:\\tempdb.mdf", "mean read latency"),
    }  # fmt: skip
    files = {row["path"]: (row["role"], row["database"]) for row in recording.read("files").to_pylist()}
    assert files == {
        SALES: ("data", "Sales"),
        LOG: ("log", "Sales"),
        "T:\\tempdb.mdf": ("tempdb_data", "tempdb"),
        "database 2 file 2": ("tempdb_log", "tempdb"),
    }
    (marker,) = recording.read("markers").to_pylist()
    assert (marker["at_ns"], marker["kind"]) == (3630 * SECOND, "note")
    assert marker["text"] == "SQL Server restarted before this snapshot (4 files or wait types)"
    assert any("means" in note for note in recording.manifest.quality.notes)
    assert recording.manifest.quality.verdict == "good"
    assert recording.manifest.clock.start_utc_ns == 1_772_366_400 * SECOND


def test_waits_as_ssms_saves_them(imported):
    recording = imported((FIXTURES / "waits_ssms.csv").read_bytes())
    # 40 waits, 4,000 ms in all, 20 of them for a processor, in 20 s; then the totals were cleared.
    assert counters(recording) == {
        (20, "WRITELOG", "waits per second"): 2,
        (20, "WRITELOG", "waiting tasks"): 0.2,
        (20, "WRITELOG", "mean wait"): 100_000_000,
        (20, "WRITELOG", "mean wait for a processor"): 500_000,
    }
    (marker,) = recording.read("markers").to_pylist()
    assert marker["text"].startswith("totals began again")


def lines(*rows, header=HEADER, separator=","):
    return "".join(
        separator.join(map(str, row)) + "\n" for row in ([header.split(",")] if header else []) + list(rows)
    )


def snapshot(second, reads, stall_ms=0, sample_ms=None, file=1):
    sample_ms = second * 1000 if sample_ms is None else sample_ms
    return (
        f"2026-03-01 12:00:{second:02}.5000000",
        7,
        file,
        sample_ms,
        reads,
        reads * 8192,
        stall_ms,
        0,
        0,
        0,
    )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_and_encodings(imported, separator, encoding):
    text = lines(snapshot(0, 10), snapshot(5, 60, 100), separator=separator)
    recording = imported(text.encode(encoding))
    assert counters(recording, metric="read_iops") == {(5, "database 7 file 1", "reads per second"): 10}


def test_lines_without_a_header_in_the_documented_order(imported):
    rows = [
        (
            time,
            "SQL01",
            "2026-02-01T06:00:00",
            7,
            1,
            0,
            reads,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            8192,
            "ROWS",
            "Sales",
            "D:\\a.mdf",
        )
        for time, reads in (("2026-03-01T12:00:00", 5), ("2026-03-01T12:00:10", 25))
    ]
    recording = imported(lines(*rows, header=None, separator="\t"))
    assert counters(recording, metric="read_iops") == {(10, "D:\\a.mdf", "reads per second"): 2}


def test_padded_cells_and_row_counts_of_sqlcmd(imported):
    first, second = (" , ".join(map(str, snapshot(at, reads))) for at, reads in ((0, 0), (10, 50)))
    text = f"Changed database context to 'master'.\n{HEADER}\n{'-' * 20}\n{first}\n\n(1 rows affected)\n{second}\n"
    recording = imported(text)
    assert counters(recording, metric="read_iops") == {(10, "database 7 file 1", "reads per second"): 5}
    assert not any("left out" in note for note in recording.manifest.quality.notes)


def test_snapshots_in_any_order(imported):
    recording = imported(lines(snapshot(20, 300), snapshot(0, 0), snapshot(10, 100)))
    assert list(counters(recording, metric="read_iops").values()) == [10, 20]
    assert recording.manifest.window_end_ns == 20 * SECOND


@pytest.mark.parametrize("order", ["as taken", "shuffled"])
def test_a_file_of_many_blocks(imported, monkeypatch, order):
    """Blocks end within snapshots; a file that is not there for a while is differenced with when it was."""
    monkeypatch.setattr(dmv_lines, "_BLOCK_BYTES", 1024)
    chance = random.Random(3)
    rows, expected = [], {}
    last = {}
    for second in range(60):
        for file in range(1, 8):
            if file == 7 and 5 < second < 50:
                continue
            before, reads = last.get(file, (None, 0))
            reads += chance.randrange(100)
            if before is not None:
                expected[second, f"database 7 file {file}", "reads per second"] = (reads - last[file][1]) / (
                    second - before
                )
            last[file] = second, reads
            rows.append(snapshot(second, reads, file=file))
    if order == "shuffled":
        first, *rest = rows
        chance.shuffle(rest)
        rows = [first, *rest]
    recording = imported(lines(*rows))
    assert counters(recording, metric="read_iops") == pytest.approx(expected)
    assert recording.row_count("files") == 7
    assert recording.manifest.sources[0].events == len(rows)
    assert not any("repeat" in note for note in recording.manifest.quality.notes)


def test_a_reboot_shows_in_the_uptime_alone(imported):
    recording = imported(lines(snapshot(0, 0, sample_ms=90_000), snapshot(10, 50, sample_ms=4_000)))
    assert not counters(recording)
    assert recording.row_count("markers") == 1


def test_an_uptime_past_31_bits_is_no_reboot(imported):
    recording = imported(
        lines(snapshot(0, 0, sample_ms=2**31 - 5000), snapshot(10, 50, sample_ms=-(2**31) + 5000))
    )
    assert counters(recording, metric="read_iops") == {(10, "database 7 file 1", "reads per second"): 5}


def test_where_the_clock_stepped_the_uptime_counts(imported):
    """The wall clock says 10 s, the computer's uptime 20."""
    recording = imported(lines(snapshot(0, 0, sample_ms=0), snapshot(10, 100, sample_ms=20_000)))
    assert counters(recording, metric="read_iops") == {(10, "database 7 file 1", "reads per second"): 5}
    assert recording.manifest.quality.clock_steps == 1


def test_a_file_that_comes_and_goes(imported):
    recording = imported(
        lines(
            snapshot(0, 0),
            snapshot(10, 10),
            snapshot(10, 5, file=2),
            snapshot(20, 20),
            snapshot(20, 25, file=2),
        )
    )
    assert counters(recording, metric="read_iops", instance="database 7 file 2") == {
        (20, "database 7 file 2", "reads per second"): 2
    }


def test_a_last_line_without_an_end_is_not_trusted(imported):
    recording = imported(lines(snapshot(0, 0), snapshot(10, 10), snapshot(20, 1000))[:-1])
    assert list(counters(recording, metric="read_iops").values()) == [1]
    assert recording.manifest.quality.truncated_tail


def test_lines_that_do_not_fit_are_counted(imported):
    text = lines(snapshot(0, 0), ("yesterday", *snapshot(5, 1)[1:]), (1, 2, 3), snapshot(10, 10))
    recording = imported(text)
    assert list(counters(recording, metric="read_iops").values()) == [1]
    assert any(note.startswith("2 lines left out") for note in recording.manifest.quality.notes)


def test_a_line_without_end_takes_no_memory(imported):
    with pytest.raises(IotraceError, match="has a line over 1 MiB"):
        imported(HEADER + "\n" + "1" * 5_000_000)


def test_nothing_but_a_header(imported):
    with pytest.raises(IotraceError, match=r"'.*files\.csv' holds no snapshot"):
        imported(HEADER + "\n")


def test_inspect(tmp_path):
    found = dmv.inspect(FIXTURES / "files_sqlcmd.txt", "files_sqlcmd.txt")
    assert (found["snapshots"], found["keys"], found["lines"], found["resets"]) == (4, 4, 16, 1)
    assert found["whole"]
    assert found["servers"] == ["SQL01"]
    assert not found["columns_absent"]
    path = tmp_path / "cut.csv"
    path.write_text(lines(snapshot(0, 0), snapshot(10, 10))[:-3])
    assert not dmv.inspect(path, "cut.csv")["whole"]


@pytest.mark.parametrize(
    ("columns", "query"), [(FILE_STATS_COLUMNS, FILE_STATS_QUERY), (WAIT_STATS_COLUMNS, WAIT_STATS_QUERY)]
)
def test_the_queries_give_the_columns_in_order(columns, query):
    select = query.partition("SELECT")[2].rpartition("\nFROM sys.dm")[0]
    depth, names, name = 0, [], ""
    for letter in select + ",":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            names.append(name.rsplit(maxsplit=1)[-1].rpartition(".")[2])
            name = ""
        else:
            name += letter
    assert tuple(names) == columns


def test_fuzz_damaged_snapshots(tmp_path):
    chance = random.Random(5)
    originals = [path.read_bytes() for path in sorted(FIXTURES.iterdir()) if path.suffix != ".md"]
    path = tmp_path / "x.csv"
    for _ in range(60):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.choice((1, 5, 50))):
            data[chance.randrange(len(data))] = chance.choice(
                (0, 10, 34, 44, 45, 57, 124, 255, chance.randrange(256))
            )
        path.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.3 else data)
        if not dmv.recognises(path.read_bytes()[:4096], path):
            continue
        try:
            trace = dmv.read(path, "x.csv", lambda *_: None)
        except IotraceError:
            continue
        for _ in trace.batches():
            pass
        assert trace.outcome().window_end_ns >= trace.outcome().window_start_ns


def test_lines_are_closed_after_their_file_as_well_as_before(tmp_path):
    """A reader that is collected late closes what is closed already; Python 3.13 prints what goes wrong then."""
    (tmp_path / "a.csv").write_text("a\n")
    with (tmp_path / "a.csv").open("rb") as file:
        lines = dmv_lines._WholeLines(file, "utf-8", "a.csv")
    lines.close()
    assert lines.closed
