"""Array exports: ready mappings, one's own, time zones and units."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from iotrace.capture.formats.array.csv_files import ArrayTrace, with_map
from iotrace.capture.formats.array.mapping import load_mapping
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "array"
MAP = """
name = "my array"
object = "LUN"
delimiter = ";"
[time]
column = "When"
format = "%d.%m.%Y %H:%M"
zone = "Europe/Berlin"
[instance]
column = "LUN"
[metrics]
"Read ms" = { metric = "read_latency_ns", unit = "ms" }
"MB/s" = { metric = "bytes_per_second", unit = "MB/s" }
"Queue" = { metric = "queue_length", unit = "1", optional = true }
"""


def counters(path, tmp_path):
    recording = import_files([path], tmp_path / "out.iotrace")
    return recording, recording.read("counters").to_pylist()


def test_flasharray(tmp_path):
    recording, rows = counters(FIXTURES / "flasharray.csv", tmp_path)
    assert recording.manifest.clock.start_utc_ns == 1_697_630_400 * 10**9
    reads = [row for row in rows if row["metric"] == "read_latency_ns"]
    # The log was not read: a mean over no I/O is no latency.
    assert [
        (row["instance"], row["at_ns"], row["interval_ns"], row["value"], row["unit"]) for row in reads
    ] == [
        ("sql-data", 0, None, 250_000, "ns"),
        ("sql-data", 30 * 10**9, 30 * 10**9, 260_000, "ns"),
    ]
    assert {row["layer"] for row in rows} == {"array"}


def test_powerstore(tmp_path):
    recording, rows = counters(FIXTURES / "powerstore.csv", tmp_path)
    start = datetime(2023, 10, 18, 12, tzinfo=UTC).timestamp()
    assert recording.manifest.clock.start_utc_ns == int(start) * 10**9
    assert [row["value"] for row in rows if row["metric"] == "write_iops"] == [50, 55]
    assert [row["value"] for row in rows if row["metric"] == "read_latency_ns"] == [512_500, 500_000]


def test_a_mapping_beside_the_file(tmp_path):
    """Summer time ends at 01:00 UTC on 2026-10-25: 01:30 is still two hours ahead, 03:30 one."""
    (tmp_path / "export.columns.toml").write_text(MAP)
    path = tmp_path / "export.csv"
    path.write_text("When;LUN;Read ms;MB/s\n25.10.2026 01:30;a;1,5;20\n25.10.2026 03:30;a;2.0;30\n")
    recording, rows = counters(path, tmp_path)
    start = datetime(2026, 10, 24, 23, 30, tzinfo=UTC).timestamp()
    assert recording.manifest.clock.start_utc_ns == int(start) * 10**9
    assert [(row["metric"], row["at_ns"] // 10**9, row["value"], row["unit"]) for row in rows] == [
        ("read_latency_ns", 0, 1_500_000, "ns"),
        ("read_latency_ns", 3 * 3600, 2_000_000, "ns"),
        ("bytes_per_second", 0, 20e6, "bytes/s"),
        ("bytes_per_second", 3 * 3600, 30e6, "bytes/s"),
    ]


@pytest.mark.parametrize(
    ("wall", "utc"),
    [
        ("25.10.2026 02:30", (2026, 10, 25, 0, 30)),  # shown twice: the earlier
        ("29.03.2026 02:30", (2026, 3, 29, 1, 30)),  # never shown: 02:30 of winter time
        ("28.03.2026 23:59", (2026, 3, 28, 22, 59)),
        ("29.03.2026 03:00", (2026, 3, 29, 1, 0)),
        ("15.07.2040 12:00", (2040, 7, 15, 10, 0)),  # by the rule that goes on beyond the database's years
    ],
)
def test_the_hours_around_a_change_of_the_clock(tmp_path, wall, utc):
    (tmp_path / "export.columns.toml").write_text(MAP)
    (tmp_path / "export.csv").write_text(f"When;LUN;Read ms;MB/s\n{wall};a;1,5;20\n")
    recording, _ = counters(tmp_path / "export.csv", tmp_path)
    start = datetime(*utc, tzinfo=UTC).timestamp()
    assert recording.manifest.clock.start_utc_ns == int(start) * 10**9


def test_a_mapping_handed_over(tmp_path):
    (tmp_path / "map.toml").write_text(MAP)
    path = tmp_path / "export.csv"
    path.write_text("When;LUN;Read ms;MB/s\n01.02.2026 01:30;a;1.5;20\n")
    entry = with_map(tmp_path / "map.toml")
    assert entry.recognises(path.read_bytes(), path)
    trace = entry.read(path, "export.csv", lambda *_: None)
    assert isinstance(trace, ArrayTrace)
    assert sum(len(batch) for _, batch in trace.batches()) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('unit = "ms"', 'unit = "fortnights"'), "fortnights"),
        (('zone = "Europe/Berlin"', 'zone = "Europe/Atlantis"'), "Atlantis"),
        (('zone = "Europe/Berlin"', ""), "zone"),
        (('column = "When"', ""), "column"),
        (
            ('metric = "read_latency_ns", unit = "ms"', 'metric = "read_latency_ns", unit = "MB/s"'),
            "unit of time",
        ),
        (('delimiter = ";"', 'delimiter = ";;"'), "delimiter"),
        (('delimiter = ";"', "delimiter = '\"'"), "delimiter"),
        (('delimiter = ";"', "delimiter = " + "[" * 50_000), "too deeply"),
        (("[time]", "[time"), "not a column mapping"),
    ],
)
def test_a_mapping_that_is_wrong_says_where(change, words):
    with pytest.raises(IotraceError) as caught:
        load_mapping(MAP.replace(*change), "map.toml")
    assert "map.toml" in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint


def test_a_time_that_cannot_be_read_is_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text((FIXTURES / "flasharray.csv").read_text().replace("16976", "10/18/2023 "))
    with pytest.raises(IotraceError, match="no time in its column Time") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert "epoch" in caught.value.hint
