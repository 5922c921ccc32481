"""Linux block-layer events: btt's and blkparse's figures for a real trace, and pairings worked out by hand."""

import itertools
import re
import shutil
import struct
from pathlib import Path

import duckdb
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "linux"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "linux"
QUEUE, ISSUE, COMPLETE = 1, 7, 8
READ, WRITE, NOTIFY = 1 << 16, 1 << 17, 1 << 26
SEQUENCE = itertools.count(1)


@pytest.fixture
def rows(tmp_path):
    """Import files; return the recording and a function that asks its ``io``."""

    def run(*paths):
        recording = import_files(list(paths), tmp_path / "out.iotrace", overwrite=True)
        assert validate(recording.path) == []
        io = recording.path / "io.parquet"
        return recording, lambda query: duckdb.connect().sql(query.replace("io", f"'{io}'", 1)).fetchall()

    return run


def sample(name):
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def record(time, action, *, cpu=0, number=1, sector=100, size=4096, pid=7, payload=b"", error=0):
    return (
        struct.pack(
            "<IIQQIIIIIHH",
            0x65617407, number, time, sector, size, action, pid, 8 << 20, cpu, error, len(payload),
        )
        + payload
    )  # fmt: skip


def btt_line(name):
    """Minimum, mean and maximum in nanoseconds, and the count, of a line of btt's first table."""
    text = sample("takeoverjp_sample.btt.txt").read_text()
    cells = re.search(rf"^{name}\s+(\S+)\s+(\S+)\s+(\S+)\s+(\d+)$", text, re.MULTILINE).groups()
    return [round(float(cell) * 1e9) for cell in cells[:3]] + [int(cells[3])]


@pytest.mark.parametrize("name", ["takeoverjp_sample.blktrace.1", "takeoverjp_sample.blkparse.txt"])
def test_latencies_are_those_of_btt(rows, name):
    recording, ask = rows(sample(name))
    for layer, line in (("block", "Q2C"), ("device", "D2C")):
        low, mean, high, count = btt_line(line)
        ((got_low, got_mean, got_high, got_count),) = ask(
            "select min(d), avg(d), max(d), count(d) from (select completed_ns - issued_ns d from io "
            f"where layer = '{layer}')"
        )
        assert (got_low, got_high, got_count) == (low, high, count)
        assert abs(got_mean - mean) <= 1000  # btt prints microseconds
    low, mean, high, count = btt_line("Q2Q")
    ((got_low, got_mean, got_high, got_count),) = ask(
        "select min(d), avg(d), max(d), count(d) from (select issued_ns - lag(issued_ns) over (order by issued_ns) d "
        "from io where layer = 'block')"
    )
    assert (got_low, got_high, got_count) == (low, high, count)
    assert abs(got_mean - mean) <= 1000
    assert recording.manifest.sources[0].events >= 6741


def test_every_row_is_one_that_blkparse_prints(rows):
    """One I/O at a time on one processor: a completion's issue and queueing are the lines before it."""
    line = re.compile(r"259,0 +1 +\d+ +(\S+) +(\d+) +([QDC]) +(\S+) (\d+) \+ (\d+) ")
    began, expected = {}, []
    for text in sample("takeoverjp_sample.blkparse.txt").read_text().splitlines():
        if found := line.match(text):
            at, thread, stage, kind, sector, count = found.groups()
            at_ns = round(float(at) * 1e9)
            if stage != "C":
                began[stage] = at_ns, int(thread)
                continue
            place = int(sector) * 512, int(count) * 512, "A" in kind
            expected += [("block", *began["Q"], at_ns, *place), ("device", *began["D"], at_ns, *place)]
    _, ask = rows(sample("takeoverjp_sample.blktrace.1"))
    first_ns = expected[0][1]
    found = ask(
        "select layer, issued_ns, thread_id, completed_ns, offset_bytes, size_bytes, flags & 16 > 0, op from io"
    )
    shift_ns = min(row[1] for row in found) - first_ns
    assert len(found) == 2 * 963
    assert sorted(found) == sorted(
        (layer, issued + shift_ns, thread, completed + shift_ns, *place, "read")
        for layer, issued, thread, completed, *place in expected
    )


def test_binary_and_text_give_the_same_rows(rows):
    everything = "select * exclude process_id from io order by all"
    _, ask = rows(sample("takeoverjp_sample.blktrace.1"))
    binary = ask(everything)
    _, ask = rows(sample("takeoverjp_sample.blkparse.txt"))
    assert ask(everything) == binary


def test_a_remap_tells_where_the_partition_begins(rows):
    recording, _ = rows(sample("takeoverjp_sample.blktrace.1"))
    partition = recording.read("devices").to_pylist()[1]
    assert (partition["name"], partition["kind"], partition["parent_device_id"]) == ("259,3", "partition", 0)
    assert partition["start_bytes"] == (2348060440 - 2345510680) * 512


def line(at_us, device, action, sector, origin=""):
    """One of blkparse: a read of 16 sectors at a time in microseconds."""
    sequence = next(SEQUENCE)
    return (
        f"{device:>6}  0  {sequence}  {at_us / 1e6:.9f}  7  {action}   R {sector} + 16 {origin or '[db]'}\n"
    )


def sent_on(way, number):
    """A bio of a volume and what becomes of it on the way down; each way asks the volume for one I/O."""
    at, sector = number * 1000, number * 64
    last, shift = way[-1][0], 0
    text = line(at, way[0][0], "Q", sector)
    for above, device, is_queued in way[1:]:
        at, shift = at + 1, shift + 2048
        text += line(at, device, "A", sector + shift, f"<- ({above}) {sector + shift - 2048}")
        text += line(at, device, "Q", sector + shift) if is_queued else ""
        last = device
    text += line(at + 1, last, "D", sector + shift) + line(at + 500, last, "C", sector + shift)
    return text + line(at + 501, way[0][0], "C", sector)


@pytest.mark.parametrize(
    "way",
    [
        [("253,0",), ("253,0", "8,0", True)],
        [("9,0",), ("9,0", "8,0", False), ("8,1", "8,0", True)],
        [("9,0",), ("9,0", "8,1", False), ("8,1", "8,0", True)],
        [("253,1",), ("253,1", "253,0", True), ("253,0", "8,0", True)],
    ],
    ids=["volume", "array over a partition", "the same before Linux 5.12", "encrypted volume"],
)
def test_what_a_volume_sends_on_counts_once_on_the_block_layer(rows, tmp_path, way):
    text = tmp_path / "volume.txt"
    text.write_text("".join(sent_on(way, number) for number in range(20)))
    recording, ask = rows(text)
    names = {row["device_id"]: row["name"] for row in recording.read("devices").to_pylist()}
    found = ask("select layer, device_id, count(*), count(completed_ns) from io group by all order by all")
    assert [(layer, names[device], *counts) for layer, device, *counts in found] == [
        ("block", way[0][0], 20, 20),
        ("device", "8,0", 20, 20),
    ]
    twice = 20 * sum(is_queued for *_, is_queued in way[1:])
    assert f"{twice} I/Os that a volume sent on to its disks count once" in str(
        recording.manifest.quality.notes
    )


def test_a_disk_counts_what_others_ask_of_it_and_all_where_its_volume_is_not_in_the_trace(rows, tmp_path):
    text = tmp_path / "disk.txt"
    direct = line(900, "8,0", "Q", 5000) + line(901, "8,0", "D", 5000) + line(950, "8,0", "C", 5000)
    text.write_text(sent_on([("253,0",), ("253,0", "8,0", True)], 1) + direct)
    _, ask = rows(text)
    assert ask("select count(*) from io where layer = 'block'") == [(2,)]

    below = [one for one in text.read_text().splitlines(keepends=True) if one.split()[0] == "8,0"]
    text.write_text("".join(below))
    recording, ask = rows(text)
    assert ask("select count(*) from io where layer = 'block'") == [(2,)]
    assert "sent on" not in str(recording.manifest.quality.notes)


def test_a_real_perf_script(rows):
    """The counts are grep's: 31 reads and 43 writes end, and 2 writes of nothing end the flushes."""
    recording, ask = rows(FIXTURES / "perf-loop.txt")
    assert ask("select layer, op, count(*), count(completed_ns) from io group by all order by all") == [
        ("block", "flush", 2, 2), ("block", "read", 40, 31), ("block", "write", 49, 43),
        ("device", "flush", 2, 2), ("device", "read", 40, 31), ("device", "write", 49, 43),
    ]  # fmt: skip
    assert recording.manifest.quality.unpaired_completions == 0
    assert ask("select count(*) from io where completed_ns < issued_ns") == [(0,)]
    assert "fio" in recording.read("processes")["name"].to_pylist()


def test_merges_flushes_and_errors_of_blkparse_text(rows):
    _, ask = rows(FIXTURES / "blkparse.txt")
    assert ask(
        "select layer, op, issued_ns, completed_ns, offset_bytes, size_bytes, thread_id, error, flags & 512 "
        "from io order by all"
    ) == [
        ("block", "flush", 200_000, 302_000, None, 0, 100, 0, 0),
        ("block", "read", 400_000, 500_000, 5000 * 512, 4096, 100, 5, 0),
        ("block", "write", 0, 110_000, 1000 * 512, 4096, 100, 0, 512),
        ("block", "write", 2_000, 110_000, 1008 * 512, 4096, 100, 0, 512),
        ("device", "flush", 201_000, 301_000, None, 0, 100, 0, 0),
        ("device", "read", 401_000, 500_000, 5000 * 512, 4096, 100, 5, 0),
        ("device", "write", 10_000, 110_000, 1000 * 512, 8192, 100, 0, 0),
    ]


@pytest.fixture
def two_processors(tmp_path):
    """An I/O that begins on one processor and ends on another; the first tells wall clock and a name."""
    clock = struct.pack("<II", 1_700_000_000, 500)
    first = [
        record(1000, NOTIFY | 1, payload=clock),
        record(1000, NOTIFY, payload=b"sqlservr\0"),
        record(2000, QUEUE | READ),
        record(3000, ISSUE | READ, number=2),
    ]
    (tmp_path / "sda.blktrace.0").write_bytes(b"".join(first))
    (tmp_path / "sda.blktrace.1").write_bytes(record(9000, COMPLETE | READ, cpu=1, pid=0))
    return tmp_path / "sda.blktrace.0", tmp_path / "sda.blktrace.1"


@pytest.mark.parametrize("stages", ["QGDC", "DC", "QC"])
def test_an_io_without_an_end_is_one_on_however_many_layers_it_was_seen(rows, tmp_path, stages):
    """20 reads one after another, 3 of them without C."""
    lines = []
    for number, stage in itertools.product(range(20), stages):
        if stage == "C" and number % 7 == 3:
            continue
        at = number / 100 + "QGDC".index(stage) / 1e5
        lines.append(
            f"  8,16   0 {len(lines) + 1:8} {at:14.9f}  4242  {stage}   R {number * 64} + 16 [fio]\n"
        )
    (tmp_path / "blk.txt").write_text("".join(lines))
    recording, _ = rows(tmp_path / "blk.txt")
    assert [note for note in recording.manifest.quality.notes if "completion" in note] == [
        "3 I/Os have no completion in the trace, so when they ended is unknown"
    ]


def test_files_of_all_processors_are_read_together_once(rows, two_processors):
    for named in ([two_processors[0]], [two_processors[1]], list(two_processors)):
        recording, ask = rows(*named)
        assert ask("select layer, issued_ns, completed_ns from io order by all") == [
            ("block", 0, 7000), ("device", 1000, 7000),
        ]  # fmt: skip
        assert recording.read("processes")["name"].to_pylist() == ["sqlservr"]
        assert recording.manifest.clock.start_utc_ns == 1_700_000_000 * 10**9 + 500 + 1000


def test_big_endian_records(rows, tmp_path):
    def swapped(data):
        return struct.pack(">IIQQIIIIIHH", *struct.unpack("<IIQQIIIIIHH", data))

    path = tmp_path / "trace"
    path.write_bytes(swapped(record(5, QUEUE | WRITE)) + swapped(record(9, COMPLETE | WRITE, number=2)))
    _, ask = rows(path)
    assert ask("select op, issued_ns, completed_ns, offset_bytes from io") == [("write", 0, 4, 51200)]


def test_lost_records_are_counted(rows, tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(record(5, QUEUE | READ) + record(9, COMPLETE | READ, number=5))
    recording, _ = rows(path)
    assert recording.manifest.quality.events_lost == 3
    assert recording.manifest.quality.verdict == "poor"


@pytest.mark.parametrize(
    ("numbers", "lost"),
    [
        ([1, 2, 3_000_000_000, 4, 5], 0),
        ([3_000_000_000, 2, 3, 6], 2),
        ([1, 2, 3, 3_000_000_000], 0),
        ([1, 2, 2_000_000, 2_000_001], 1_999_997),
        ([2**32 - 2, 2**32 - 1, 1, 2], 1),
        ([7, 8, 1, 2], 0),
    ],
)
def test_a_wrong_number_claims_no_loss(rows, tmp_path, numbers, lost):
    """A gap is what both its sides agree on; a number of four bytes that is damaged could claim four billion."""
    path = tmp_path / "trace"
    path.write_bytes(
        b"".join(record(at, QUEUE | READ, number=number) for at, number in enumerate(numbers, 5))
    )
    recording, _ = rows(path)
    assert recording.manifest.quality.events_lost == lost


@pytest.mark.parametrize("cut", [1, 30, 47])
def test_a_cut_record_is_left_out_and_said(rows, tmp_path, cut):
    path = tmp_path / "trace"
    path.write_bytes(
        record(5, QUEUE | READ) + record(9, COMPLETE | READ, number=2) + record(11, QUEUE | READ)[:cut]
    )
    recording, ask = rows(path)
    assert ask("select count(*) from io") == [(1,)]
    assert recording.manifest.quality.truncated_tail


def test_a_cut_line_is_left_out_and_said(rows, tmp_path):
    path = tmp_path / "text"
    shutil.copy(FIXTURES / "blkparse.txt", path)
    with path.open("a") as file:
        file.write("  8,0    0        5     0.000600000     0  C   R 6000 + ")
    recording, ask = rows(path)
    assert ask("select count(*) from io") == [(7,)]
    assert recording.manifest.quality.truncated_tail


def test_a_first_record_that_is_cut_is_named(tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(record(5, QUEUE | READ, payload=b"x" * 9)[:50])
    with pytest.raises(IotraceError, match="holds no complete event") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert str(path) in caught.value.message


def test_another_version_is_named(tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(b"\x08tae" + bytes(60))
    with pytest.raises(IotraceError, match="no blktrace file of version 7") as caught:
        import_files([path], tmp_path / "out.iotrace")
    assert str(path) in caught.value.message


def test_a_file_that_holds_its_trace_twice_is_read_once(rows, tmp_path):
    once = sample("takeoverjp_sample.blktrace.1")
    twice = tmp_path / "twice.blktrace.1"
    twice.write_bytes(2 * once.read_bytes())
    everything = "select * from io order by all"
    _, ask = rows(once)
    expected = ask(everything)
    recording, ask = rows(twice)
    assert ask(everything) == expected
    assert any("the file holds the same trace twice" in note for note in recording.manifest.quality.notes)


def test_a_text_that_holds_its_trace_twice_is_read_once(rows, tmp_path):
    once = sample("takeoverjp_sample.blkparse.txt").read_text()
    text = tmp_path / "twice.txt"
    everything = "select * exclude process_id from io order by all"
    text.write_text(once)
    _, ask = rows(text)
    expected = ask(everything)
    for between in ("", "CPU1 (259,0):\n Reads Queued:      3,       12KiB\nTotal (259,0):\n\n"):
        text.write_text(once + between + once)
        recording, ask = rows(text)
        assert ask(everything) == expected
        assert any("the file holds the same trace twice" in note for note in recording.manifest.quality.notes)


def test_a_trace_after_the_totals_of_another_is_read(rows, tmp_path):
    text = tmp_path / "two.txt"
    traces = ["".join(line(at + pause, "8,0", action, at) for pause, action in ((0, "Q"), (9, "D"), (99, "C")))
              for at in (1000, 2000)]  # fmt: skip
    text.write_text("CPU0 (8,0):\n Reads Queued:      1,        4KiB\nTotal (8,0):\n".join(traces))
    recording, ask = rows(text)
    assert ask("select count(*) from io where layer = 'block'") == [(2,)]
    assert recording.manifest.quality.events_lost == 0


@pytest.mark.parametrize("later", [0, 1], ids=["again", "another"])
def test_only_what_begins_as_the_file_does_is_there_again(rows, tmp_path, later):
    """A second trace in the same file, whose numbers begin anew, is another one if its times are."""
    path = tmp_path / "two.blktrace.0"
    traces = [
        record(
            base + 1000 * at, (QUEUE if at % 2 else COMPLETE) | READ, number=at, sector=8 * ((at + 1) // 2)
        )
        for base in (10_000, 10_000 + later * 30_000)
        for at in range(1, 21)
    ]
    path.write_bytes(b"".join(traces))
    _, ask = rows(path)
    assert ask("select count(*) from io") == [(10 * (1 + later),)]


def test_a_record_that_zeros_begin_in_is_left_out(rows, tmp_path):
    """Its time would be 0, that of the machine's start, and the recording two days long."""
    whole = sample("takeoverjp_sample.blktrace.1").read_bytes()
    torn = tmp_path / "torn.blktrace.1"
    cut = len(whole) // 2
    torn.write_bytes(whole[:cut] + bytes(len(whole) - cut))
    recording, _ = rows(torn)
    manifest = recording.manifest
    assert manifest.window_end_ns < 1e9
    assert manifest.quality.truncated_tail
    assert manifest.quality.events_lost < 100
