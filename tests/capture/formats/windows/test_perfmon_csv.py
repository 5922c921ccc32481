"""Text counter logs in the forms that Windows and other tools leave, with planted values."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from iotrace.capture.counters.names import _COUNTERS, _OBJECTS, DISK_COUNTER_TITLES, METRICS, english, meaning
from iotrace.capture.formats.windows import perfmon_csv
from iotrace.capture.formats.windows.perfmon_text import split_path
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

READ = r"\\HOST\PhysicalDisk(0 C:)\Avg. Disk sec/Read"
RATE = r"\\HOST\PhysicalDisk(0 C:)\Disk Reads/sec"
QUEUE = r"\\HOST\PhysicalDisk(0 C:)\Current Disk Queue Length"
START_NS = 1_609_266_868_308 * 10**6  # 2020-12-29 18:34:28.308 UTC


def silent(*_):
    pass


def line(*cells, by=","):
    return by.join(f'"{cell}"' for cell in cells) + "\r\n"


def text_log(*rows, columns=(READ, RATE, QUEUE), zone="(PDH-CSV 4.0) (GMT Standard Time)(0)", by=","):
    return line(zone, *columns, by=by) + "".join(line(*row, by=by) for row in rows)


ROWS = (
    ("12/29/2020 18:34:28.308", " ", " ", "2"),
    ("12/29/2020 18:34:29.308", "0.000201", "17.066449", "3"),
    ("12/29/2020 18:34:30.308", "0.0004", "20", "0"),
)


@pytest.fixture
def read(tmp_path):
    """Write a log, read all of it; its rows and its trace."""

    def rows(data):
        path = tmp_path / "a.csv"
        path.write_bytes(data if isinstance(data, bytes) else data.encode("cp1252"))
        trace = perfmon_csv.read(path, "a.csv", silent)
        batches = [batch for _, batch in trace.batches()]
        return (pa.Table.from_batches(batches).to_pylist() if batches else []), trace

    return rows


def values(rows):
    return [(row["at_ns"] // 10**9, row["counter"], row["value"]) for row in rows]


EXPECTED = [
    (0, "Current Disk Queue Length", 2.0),
    (1, "Avg. Disk sec/Read", pytest.approx(201_000)),
    (1, "Disk Reads/sec", 17.066449),
    (1, "Current Disk Queue Length", 3.0),
    (2, "Avg. Disk sec/Read", pytest.approx(400_000)),
    (2, "Disk Reads/sec", 20.0),
    (2, "Current Disk Queue Length", 0.0),
]


def test_a_log_of_a_collector_set(read):
    rows, trace = read(text_log(*ROWS))
    assert values(rows) == EXPECTED
    assert rows[1] == {
        "at_ns": 10**9, "interval_ns": 10**9, "source": "HOST", "object": "PhysicalDisk", "instance": "0 C:",
        "counter": "Avg. Disk sec/Read", "value": pytest.approx(201_000), "unit": "ns", "layer": "block",
        "metric": "read_latency_ns",
    }  # fmt: skip
    assert [row["interval_ns"] for row in rows if row["counter"].startswith("Current")] == [None] * 3
    assert trace.clock.start_utc_ns == START_NS
    assert trace.outcome().quality.notes == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("tabs", text_log(*ROWS, zone="(PDH-TSV 4.0) (GMT Standard Time)(0)", by="\t").encode()),
        ("line feeds", text_log(*ROWS).replace("\r\n", "\n").encode()),
        ("utf-8 with mark", b"\xef\xbb\xbf" + text_log(*ROWS).encode()),
        ("utf-16 of PowerShell", text_log(*ROWS).encode("utf-16")),
        ("utf-16 without mark", text_log(*ROWS).encode("utf-16-le")),
        ("empty instead of blank", text_log(*ROWS).replace('" "', '""').encode()),
        ("no quotes", text_log(*ROWS).replace('"', "").encode()),
        ("no last line end", text_log(*ROWS).rstrip().encode()),
        ("blank lines before", b"\r\n\r\n" + text_log(*ROWS).encode()),
        ("semicolons", text_log(*ROWS, by=";").encode()),
    ],
)
def test_forms_of_the_same_log(read, tmp_path, name, data):
    assert perfmon_csv.recognises(data[: 1 << 17], tmp_path)
    rows, trace = read(data)
    assert values(rows) == EXPECTED
    assert trace.outcome().quality.notes == []
    assert not trace.outcome().quality.truncated_tail


def test_a_typeperf_transcript(read):
    """A prompt, no time zone, six decimals, and what typeperf says at its end."""
    data = "C:\\>typeperf -si 1 \\x\r\n\r\n" + text_log(*ROWS, zone="(PDH-CSV 4.0)")
    rows, trace = read(data + "\r\nExiting, please wait...\r\nThe command completed successfully.\r\n")
    assert values(rows) == EXPECTED
    notes = trace.outcome().quality.notes
    assert any("no time zone" in note for note in notes)
    assert any(note.startswith("3 lines of other text") for note in notes)
    assert trace.clock.start_utc_ns == START_NS


@pytest.mark.parametrize(
    ("zone", "bias_minutes"),
    [
        ("(PDH-CSV 4.0) (India Standard Time)(-330)", -330),
        ("(PDH-CSV 4.0) (Eastern Daylight Time)(240)", 240),
        ("(PDH-CSV 4.0) (Pacific Daylight Time)(420)", 420),
        ("(PDH-CSV 4.0) (RTZ 2 (", None),
        ("(PDH-CSV 4.0) (Paris, Madrid (heure d", None),
        ("(PDH-CSV 4.0) (", None),
        ("(PDH-CSV 4.0)", None),
    ],
)
def test_zones_as_seen_in_real_headers(read, zone, bias_minutes):
    _, trace = read(text_log(*ROWS, zone=zone))
    assert trace.header.bias_minutes == bias_minutes
    assert trace.clock.start_utc_ns == START_NS + (bias_minutes or 0) * 60 * 10**9


@pytest.mark.parametrize(
    ("path", "host", "object_name", "instance", "counter"),
    [
        (r"\\H\PhysicalDisk(0 C:)\Avg. Disk sec/Read", "H", "PhysicalDisk", "0 C:", "Avg. Disk sec/Read"),
        (r"\\H\Processor Information(0,_Total)\% x", "H", "Processor Information", "0,_Total", "% x"),
        (r"\Memory\Pages/sec", "", "Memory", None, "Pages/sec"),
        (r"\\H\LogicalDisk(C:\mnt\a (1))\Disk Reads/sec", "H", "LogicalDisk", r"C:\mnt\a (1)", "Disk Reads/sec"),
        (r"\\H\MSSQL$A:Databases(x)\Log (ms)", "H", "MSSQL$A:Databases", "x", "Log (ms)"),
        (r"\\H\SQLServer:Databases\Size (KB)", "H", "SQLServer:Databases", None, "Size (KB)"),
        (r"\\H\Process(AnyDesk#2)\% User Time", "H", "Process", "AnyDesk#2", "% User Time"),
    ],
)  # fmt: skip
def test_counter_paths(path, host, object_name, instance, counter):
    found = split_path(path)
    assert (found.host, found.object_name, found.instance, found.counter) == (
        host,
        object_name,
        instance,
        counter,
    )


def test_instances_with_commas_do_not_split_columns(read):
    column = r"\\HOST\Processor Information(0,_Total)\% Processor Time"
    rows, _ = read(text_log(("12/29/2020 18:34:28.308", "1071.5"), columns=(column,)))
    assert [(row["instance"], row["value"], row["unit"]) for row in rows] == [("0,_Total", 1071.5, "percent")]


def test_later_blanks_are_missing_values_and_mark_nothing_else(read):
    rows, _ = read(text_log(*ROWS, ("12/29/2020 18:34:31.308", " ", "5", "1")))
    assert values(rows)[-2:] == [(3, "Disk Reads/sec", 5.0), (3, "Current Disk Queue Length", 1.0)]


def test_numbers_keep_all_their_digits(read):
    """20 significant digits of a real log; the nearest double is the same as Python's."""
    rows, _ = read(text_log(("12/29/2020 18:34:28.308", "0.032083023520161361"), columns=(r"\\H\X\y",)))
    assert rows[0]["value"] == 0.032083023520161361
    rows, _ = read(text_log(("12/29/2020 18:34:28.308", "-1.5E-07"), columns=(r"\\H\X\y",)))
    assert rows[0]["value"] == -1.5e-7


def test_repeated_headers_and_other_columns(read):
    """A log that was begun again: the same columns, then one more disk. Series of one name stay one."""
    other = r"\\HOST\PhysicalDisk(1 D:)\Disk Reads/sec"
    later = text_log(
        ("12/29/2020 18:40:28.308", " ", " ", "7", " "),
        ("12/29/2020 18:40:29.308", "0.001", "1", "8", "99"),
        columns=(READ, RATE, QUEUE, other),
    )
    rows, trace = read(text_log(*ROWS) + later)
    assert values(rows)[: len(EXPECTED)] == EXPECTED
    assert values(rows)[-1] == (361, "Disk Reads/sec", 99.0)
    assert (trace.headers, len(trace.series), trace.samples) == (2, 4, 5)
    # The first value after a new header stands for the time since that header's first line.
    assert rows[-1]["interval_ns"] == 10**9


def test_an_unknown_counter_is_a_rate_if_its_first_value_is_blank(read):
    columns = (r"\\H\X\some rate", r"\\H\X\some gauge")
    rows, _ = read(
        text_log(
            ("12/29/2020 18:34:28.308", " ", "1"), ("12/29/2020 18:34:30.308", "5", "2"), columns=columns
        )
    )
    assert [(row["counter"], row["interval_ns"]) for row in rows] == [
        ("some gauge", None),
        ("some rate", 2 * 10**9),
        ("some gauge", None),
    ]


def test_a_log_cut_within_a_line(read):
    """The logger was killed: whole lines are kept, the cut one is not, even where its cells would do."""
    rows, trace = read(text_log(*ROWS).rstrip()[:-9])
    assert values(rows) == EXPECTED[:4]
    assert trace.outcome().quality.truncated_tail
    assert trace.outcome().quality.judge(0).verdict == "usable"


def test_a_last_line_cut_within_a_number(read):
    """`"20"` cut to `"2` must not become 2."""
    rows, trace = read(text_log(*[row[:3] for row in ROWS], columns=(READ, RATE)).rstrip()[:-2])
    assert values(rows)[-1][0] == 1
    assert trace.outcome().quality.truncated_tail


def test_a_last_line_cut_within_a_number_without_quotes(read):
    """As a spreadsheet saves it: 345 cut to 34 has as many cells, and nothing tells that a digit is missing."""
    rows = [*ROWS[:2], ("12/29/2020 18:34:30.308", "0.0004", "20", "345")]
    whole = text_log(*rows).replace('"', "")
    for text in (whole[:-3], whole[:-2]):
        found, trace = read(text)
        assert values(found) == EXPECTED[:4]
        assert trace.outcome().quality.truncated_tail
    assert values(read(whole)[0])[-1] == (2, "Current Disk Queue Length", 345.0)


def test_a_log_begins_with_its_first_sample_however_much_other_text_comes_before(read):
    """Remarks and broken lines between header and samples: the recording must not begin in 1970."""
    header, *samples = text_log(*ROWS).splitlines(keepends=True)
    rows, trace = read(
        header + "a remark\r\n" * 100 + '"13/40/2020 18:34:00.000","1","1","1"\r\n' + "".join(samples)
    )
    assert values(rows) == EXPECTED
    assert trace.clock.start_utc_ns == 1_609_266_868_308_000_000


def test_cells_that_are_no_number_and_times_that_are_none(read):
    rows, trace = read(
        text_log(
            *ROWS[:2],
            ("13/45/2020 18:34:30.308", "1", "1", "1"),
            ("12/29/2020 18:34:31.308", "n/a", "2", "0;5"),
            ("12/29/2020 18:34:32.308", "0.001", "3", "4"),
            ("12/29/2020 18:34:33.308", "0.001"),
        )
    )
    assert values(rows)[4:] == [
        (3, "Disk Reads/sec", 2.0),
        (4, "Avg. Disk sec/Read", pytest.approx(1e6)),
        (4, "Disk Reads/sec", 3.0),
        (4, "Current Disk Queue Length", 4.0),
    ]
    notes = " ".join(trace.outcome().quality.notes)
    for words in ("1 line left out with more", "1 line left out: the time", "2 cells left out"):
        assert words in notes


def wall(moment):
    return moment.strftime("%m/%d/%Y %H:%M:%S.000")


@pytest.mark.parametrize(
    ("start_utc", "change_utc", "bias_before", "bias_after", "zone"),
    [
        (
            datetime(2020, 10, 25, 0, 50, tzinfo=UTC),
            datetime(2020, 10, 25, 1, tzinfo=UTC),
            -120,
            -60,
            "Summer",
        ),
        (datetime(2020, 3, 29, 0, 50, tzinfo=UTC), datetime(2020, 3, 29, 1, tzinfo=UTC), -60, -120, "Winter"),
    ],
)
def test_a_log_across_the_change_of_daylight_saving(
    read, start_utc, change_utc, bias_before, bias_after, zone
):
    """A sample every 15 s for 20 minutes of real time, told in the local time of Central Europe."""
    moments = [start_utc + timedelta(seconds=15 * number) for number in range(80)]
    rows = [
        (wall(moment - timedelta(minutes=bias_before if moment < change_utc else bias_after)), "1")
        for moment in moments
    ]
    found, trace = read(text_log(*rows, columns=(QUEUE,), zone=f"(PDH-CSV 4.0) ({zone})({bias_before})"))
    assert trace.clock.start_utc_ns == int(start_utc.timestamp()) * 10**9
    assert [row["at_ns"] for row in found] == [15 * 10**9 * number for number in range(80)]
    assert any("daylight saving" in note for note in trace.outcome().quality.notes)
    assert trace.outcome().quality.clock_steps == 0


def test_a_gap_of_an_hour_is_no_change_of_daylight_saving(read):
    times = ["12/29/2020 18:10:00.000", "12/29/2020 18:10:15.000", "12/29/2020 19:10:30.000"]
    found, trace = read(text_log(*[(time, "1") for time in times], columns=(QUEUE,)))
    assert found[-1]["at_ns"] == 3_630 * 10**9
    assert trace.outcome().quality.notes == []


def test_a_clock_that_was_set_back_is_counted(read):
    times = ["12/29/2020 18:10:00.000", "12/29/2020 18:10:15.000", "12/29/2020 18:05:00.000"]
    _, trace = read(text_log(*[(time, "1") for time in times], columns=(QUEUE,)))
    assert trace.outcome().quality.clock_steps == 1


@pytest.mark.parametrize(
    ("code_page", "object_name", "counter", "metric"),
    [
        ("cp1252", "Physikalischer Datenträger", "Mittlere Sek./Lesevorgänge", "read_latency_ns"),
        ("cp1252", "Disque physique", "Moyenne disque s/écriture", "write_latency_ns"),
        ("utf-8", "Disque logique", "Longueur moyenne de file d\u2019attente du disque", "queue_length"),
        ("cp1252", "Disco físico", "Transferencias de disco/s", "iops"),
        ("cp1252", "Disco fisico", "Byte letti da disco/sec", "read_bytes_per_second"),
        ("cp1251", "Физический диск", "Текущая длина очереди диска", "in_flight"),
        ("cp1251", "Логический диск", "Обращений чтения с диска/с", "read_iops"),  # noqa: RUF001
        ("cp1251", "Физический диск", "Среднее время обращения к диску (с)", "latency_ns"),  # noqa: RUF001
    ],
)
def test_known_translations_in_the_code_page_of_their_machine(read, code_page, object_name, counter, metric):
    column = f"\\\\HOST\\{object_name}(_Total)\\{counter}"
    data = text_log(("12/29/2020 18:34:28.308", "0.5"), columns=(column,))
    rows, trace = read(data.encode(code_page))
    assert [(row["object"], row["counter"], row["metric"]) for row in rows] == [
        (object_name, counter, metric)
    ]
    assert trace.outcome().quality.notes == []


def test_every_disk_counter_of_a_german_windows():
    """Names by number, as the index of counter names (perfc007.dat) of a German Windows 8 or later has them."""
    index = {
        198: "Aktuelle Warteschlangenlänge", 200: "Zeit (%)", 202: "Lesezeit (%)", 204: "Schreibzeit (%)",
        206: "Mittlere Sek./Übertragung", 208: "Mittlere Sek./Lesevorgänge", 210: "Mittlere Sek./Schreibvorgänge",
        212: "Übertragungen/s", 214: "Lesevorgänge/s", 216: "Schreibvorgänge/s", 218: "Bytes/s",
        220: "Bytes gelesen/s", 222: "Bytes geschrieben/s", 224: "Mittlere Bytes/Übertragung",
        226: "Mittlere Bytes/Lesevorgang", 228: "Mittlere Bytes/Schreibvorgang",
        1400: "Durchschnittl. Warteschlangenlänge des Datenträgers",
        1402: "Durchschnittl. Warteschlangenlänge der Datenträger-Lesevorgänge",
        1404: "Durchschnittl. Warteschlangenlänge der Datenträger-Schreibvorgänge",
        1482: "Leerlaufzeit (%)", 1484: "Teil-E/A/s",
    }  # fmt: skip
    for number, name in index.items():
        assert english("Physikalischer Datenträger", name) == ("PhysicalDisk", DISK_COUNTER_TITLES[number])
    assert index.keys() == DISK_COUNTER_TITLES.keys() - {408, 410}  # free space, which is of logical disks


def test_a_translation_that_is_not_known_is_kept_and_said(read):
    """From a real log of a Russian machine; not in the tables, so no meaning and a guessed code page."""
    column = "\\\\HOST\\Процесс(_Total)\\I/O - чтение байт в сек"
    rows, trace = read(text_log(("12/29/2020 18:34:28.308", "7"), columns=(column,)).encode("cp1251"))
    assert [(row["object"], row["counter"], row["metric"], row["unit"]) for row in rows] == [
        ("Процесс", "I/O - чтение байт в сек", None, None)
    ]
    notes = " ".join(trace.outcome().quality.notes)
    assert "cp1251" in notes
    assert "localized" in notes


def test_tables_of_names_are_consistent():
    """Every translation leads to a counter with a meaning; every metric is defined and in its unit."""
    for object_name in _OBJECTS:
        for counter in _COUNTERS:
            assert meaning(object_name, counter).layer == "block", counter
    for object_name, counter in (
        ("PhysicalDisk", "Avg. Disk sec/Write"),
        ("MSSQL$A:Resource Pool Stats", "Avg Disk Read IO (ms)"),
        ("SQLServer:Databases", "Log Bytes Flushed/sec"),
    ):
        found = meaning(object_name, counter)
        assert found.metric is not None
        assert found.unit == METRICS[found.metric][0]


def test_counters_of_sql_server(read):
    columns = (
        r"\\H\SQLServer:Buffer Manager\Page reads/sec",
        r"\\H\MSSQL$PROD:Databases(Sales)\Log Flushes/sec",
        r"\\H\MSSQL$PROD:Resource Pool Stats(default)\Avg Disk Read IO (ms)",
    )
    rows, _ = read(text_log(("12/29/2020 18:34:28.308", "1", "2", "3"), columns=columns))
    assert [(row["unit"], row["layer"], row["metric"], row["value"]) for row in rows] == [
        ("pages/s", "sql", None, 1.0),
        ("1/s", "sql", "log_flushes_per_second", 2.0),
        ("ns", "sql", "read_latency_ns", 3e6),
    ]


@pytest.mark.parametrize(
    ("counter", "unit"),
    [
        ("Bytes Total/sec", "bytes/s"),
        ("Bytes Sent/sec", "bytes/s"),
        ("IO Read Bytes/sec", "bytes/s"),
        ("Packets/sec", "1/s"),
        ("Bytes", None),
    ],
)
def test_units_that_names_state(counter, unit):
    """Names of the documented objects Network Interface and Process."""
    assert meaning("Network Interface", counter).unit == unit


def test_imported_and_inspected(tmp_path):
    path = tmp_path / "DataCollector01.csv"
    path.write_text(text_log(*ROWS), "ascii", newline="")
    recording = import_files([path], tmp_path / "a.iotrace")
    assert validate(tmp_path / "a.iotrace") == []
    assert recording.manifest.rows["counters"] == 7
    assert recording.manifest.duration_ns == 2 * 10**9
    facts = perfmon_csv.inspect(path, "x")
    json.dumps(facts)
    assert (facts["samples"], facts["series"], facts["interval_s"]) == (3, 3, 1.0)
    assert facts["first_utc"] == "2020-12-29T18:34:28.308+00:00"
    assert facts["whole"]


@pytest.mark.parametrize(
    "text", ['"(PDH-CSV 4.0)"\r\n', '"(PDH-CSV 4.0) (x)(0)",""\r\n"1/1/2020 1:00:00"\r\n']
)
def test_a_header_without_counters_is_refused(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    with pytest.raises(IotraceError, match="without counters") as caught:
        import_files([path], tmp_path / "a.iotrace")
    assert caught.value.hint


def test_a_log_of_many_pieces(read, monkeypatch):
    """Lines across the ends of pieces, and a segment that goes on in the next piece."""
    monkeypatch.setattr("iotrace.capture.formats.windows.perfmon_text.PIECE_BYTES", 100)
    start = datetime(2020, 12, 29, 18, 34, 28, tzinfo=UTC)
    moments = [start + timedelta(seconds=number) for number in range(500)]
    rows, trace = read(
        text_log(*[(wall(moment), str(number)) for number, moment in enumerate(moments)], columns=(RATE,))
    )
    assert [(row["at_ns"], row["value"]) for row in rows] == [
        (number * 10**9, float(number)) for number in range(500)
    ]
    assert [row["interval_ns"] for row in rows[1:]] == [10**9] * 499
    assert trace.outcome().quality.notes == []


def test_the_table_of_a_migration_assessment_without_counters_is_named(tmp_path):
    path = tmp_path / "CommonDbLevel_Counters.csv"
    path.write_text(
        "ServerName,DatabaseName,LogicalName,PhysicalFullName,FileType,SizeMB,TimeDataCollected\n"
        "S,d,d,D:\\d.mdf,Rows,3,2026-03-01 12:00:00\n"
    )
    with pytest.raises(IotraceError, match="migration assessment without counters") as caught:
        import_files([path], tmp_path / "a.iotrace")
    assert "PerformanceAggregated" in caught.value.hint


def test_lines_of_one_moment_are_said(read):
    """As in a log that holds every line twice."""
    lines = [(f"12/29/2020 18:34:2{second}.308", "0.001", "17", "3") for second in (7, 7, 8, 8, 9)]
    assert read(text_log(*lines))[1].outcome().quality.notes == ["2 lines with the moment of the line before"]


@pytest.mark.parametrize("cell", ["1.7e308", "-1e201", "inf", "1e999"])
def test_a_value_that_no_counter_has_is_left_out(read, cell):
    rows, trace = read(
        text_log(
            ("12/29/2020 18:34:28.308", cell, "17", "3"), ("12/29/2020 18:34:29.308", "0.001", "20", "4")
        )
    )
    assert [row["value"] for row in rows] == pytest.approx([17, 3, 1_000_000, 20, 4])
    assert "1 cell left out without a number" in trace.outcome().quality.notes


def test_a_decimal_comma_within_quotes(read):
    rows, trace = read(
        text_log(
            ("12/29/2020 18:34:28.308", "0,000201", "17,066449", "3"),
            ("12/29/2020 18:34:29.308", "4,5e-05", "20", "1,2,3"),
        )
    )
    assert [row["value"] for row in rows] == pytest.approx([201_000, 17.066449, 3, 45_000, 20])
    assert "1 cell left out without a number" in trace.outcome().quality.notes


def test_a_log_whose_times_a_spreadsheet_wrote_anew_is_refused(read):
    """Its numbers are not what they were: 1.5 is the first of May where dates have points."""
    data = text_log().replace(",", ";") + "29.12.2020 18:34;01. Mai;20;3\r\n"
    with pytest.raises(IotraceError, match=r"29\.12\.2020 18:34") as refused:
        read(data)
    assert "as it was recorded" in refused.value.hint


@pytest.mark.parametrize("cell", ["-1", "-1.000000", "-0.004", "-12345"])
def test_a_cell_below_zero_is_no_sample(read, cell):
    """Three lines with values and one without: what stands there is no latency, no rate and no queue."""
    failed = ("12/29/2020 18:34:31.308", cell, cell, cell)
    rows, trace = read(text_log(*ROWS, failed, ("12/29/2020 18:34:32.308", "0.0002", "30", "1")))
    assert {row["at_ns"] // 10**9 for row in rows} == {0, 1, 2, 4}
    assert all(row["value"] >= 0 for row in rows)
    # The next values are over their own second: the lines say when they were taken.
    assert {row["interval_ns"] for row in rows if row["at_ns"] == 4 * 10**9 and row["interval_ns"]} == {10**9}
    quality = trace.outcome().quality.judge(0)
    assert quality.verdict == "usable"
    assert quality.reasons == [
        "3 of 15 cells are below zero, which their counters never are: 1 of 5 lines lack a sample"
    ]


def test_a_mean_without_any_sample_is_none_not_below_zero(tmp_path):
    """No write in ten minutes; every tenth sample is -1. Law: the mean of nothing is nothing."""
    path = tmp_path / "a.csv"
    write = r"\\HOST\PhysicalDisk(0 C:)\Avg. Disk sec/Write"
    moment = datetime(2020, 12, 29, 18, 34, 28, tzinfo=UTC)
    rows = [
        ((moment + timedelta(seconds=5 * number)).strftime("%m/%d/%Y %H:%M:%S.000"), "100.0", "0.004", "0.0")
        if number % 10
        else ((moment + timedelta(seconds=5 * number)).strftime("%m/%d/%Y %H:%M:%S.000"), "-1", "-1", "-1")
        for number in range(120)
    ]
    path.write_text(text_log(*rows, columns=(RATE, READ, write)))
    found = import_files([path], tmp_path / "x.iotrace").read("counters").to_pylist()
    assert {row["value"] for row in found if row["metric"] == "read_iops"} == {100}
    assert {row["value"] for row in found if row["metric"] == "read_latency_ns"} == {4_000_000}
    assert not [row for row in found if row["metric"] == "write_latency_ns"]


def test_a_counter_whose_meaning_is_not_known_may_be_below_zero(read):
    rows, trace = read(
        text_log(
            *ROWS,
            ("12/29/2020 18:34:31.308", "-1", "5", "-1"),
            columns=(r"\\H\Oven\Chill", RATE, r"\\H\Oven\Drift"),
        )
    )
    assert [row["value"] for row in rows if row["at_ns"] == 3 * 10**9] == [-1, 5, -1]
    assert trace.outcome().quality.judge(0).verdict == "good"
