"""One stream of real block events through every door: the live recorder's, blktrace's, blkparse's and perf's.

`fixtures/linux/README.md` tells how it was taken. What the doors have to agree on is the stream itself: the kernel
wrote its pages and its text from the same events, and blkparse its text from the same records.
"""

import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from iotrace.capture import _recorder
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import conform

from ...perf_lines import perf_lines

ROOT = Path(__file__).parents[3]
STREAM = ROOT / "tests" / "fixtures" / "linux" / "one-stream"
LAYOUTS = ROOT / "capture" / "recorder" / "fixtures"
DEVICE = 7 << 20 | 5
PAGE_BYTES = 4096
TAKEN_NS = 3_131_000_000_000
"""The host had been up for this long when the pages were written."""
COLUMNS = "layer, op, issued_ns, completed_ns, offset_bytes, size_bytes, flags, error"

pytestmark = pytest.mark.skipif(not hasattr(_recorder, "BlockTrace"), reason="the recorder is for Linux")


def rows_of(table, where="completed_ns is not null"):
    query = f"select {COLUMNS} from rows where {where} order by all"
    return duckdb.connect().from_arrow(table).query("rows", query).fetchall()


@pytest.fixture
def imported(tmp_path):
    def run(*paths):
        return import_files(list(paths), tmp_path / "out.iotrace", overwrite=True)

    return run


def just_booted(pages):
    """The pages as a host writes them that has been up for a second: a later time than the present is damage."""
    moved = bytearray(pages)
    for page in range(0, len(moved), PAGE_BYTES):
        (at_ns,) = struct.unpack_from("<Q", moved, page)
        struct.pack_into("<Q", moved, page, at_ns - TAKEN_NS)
    return bytes(moved)


@pytest.fixture
def live(tmp_path):
    """What the recorder makes of the pages: rows of ``io``, and its counts."""
    instance = tmp_path / "instance"
    for cpu in (0, 1):
        folder = instance / "per_cpu" / f"cpu{cpu}"
        folder.mkdir(parents=True)
        (folder / "trace_pipe_raw").write_bytes(just_booted((STREAM / f"cpu{cpu}.bin").read_bytes()))
        (folder / "stats").write_text("overrun: 0\n")
    for file in ("header_page", "header_event"):
        (instance / "events").mkdir(exist_ok=True)
        shutil.copy(LAYOUTS / file, instance / "events")
    own = [("task", "task_newtask"), ("sched", "sched_process_exit")]
    blocks = [("block", path.stem) for path in LAYOUTS.glob("block_*.format")]
    for group, name in own + blocks:
        folder = instance / "events" / group / name
        folder.mkdir(parents=True)
        source = LAYOUTS if group == "block" else STREAM
        shutil.copy(source / f"{name}.format", folder / "format")
    trace = _recorder.BlockTrace(
        str(instance), numbers={DEVICE: 0}, devices=[(0, None)], start_ns=0, own_process=1
    )
    rows = conform(pa.record_batch(trace.read(0, last=True)), "io")
    return rows_of(rows), trace.statistics()


def in_us(rows):
    """Times in microseconds, as the kernel rounds them in its text, since the first."""
    rounded = [
        (layer, op, (start + 500) // 1000, (end + 500) // 1000, *rest)
        for layer, op, start, end, *rest in rows
    ]
    first = min(row[2] for row in rounded)
    return sorted(
        (layer, op, start - first, end - first, *(-1 if value is None else value for value in rest))
        for layer, op, start, end, *rest in rounded
    )


def without_times(rows):
    return Counter((layer, op, *rest) for layer, op, _start, _end, *rest in rows)


def test_live_and_as_text_the_rows_are_equal(live, imported, tmp_path):
    text = tmp_path / "perf.txt"
    text.write_text(perf_lines((STREAM / "trace.txt").read_text()))
    recording = imported(text)
    rows, counts = live
    assert in_us(rows) == in_us(rows_of(recording.read("io")))
    assert {op for _, op, *_ in rows} == {"read", "write", "flush", "discard"}
    quality = recording.manifest.quality
    for told in (counts["unpaired_issues"], quality.unpaired_issues):
        assert told == 0
    for told in (counts["unpaired_completions"], quality.unpaired_completions):
        assert told == 0


def test_binary_and_blkparses_text_of_it_give_equal_rows(imported):
    binary = imported(STREAM / "loop.blktrace.0")
    rows, quality = rows_of(binary.read("io"), "true"), binary.manifest.quality
    text = imported(STREAM / "blkparse.txt")
    assert rows_of(text.read("io"), "true") == rows
    assert text.manifest.quality == quality
    assert quality.unpaired_issues == quality.unpaired_completions == 0


def test_live_and_binary_tell_the_same_ios(live, imported):
    """They time each event for themselves. A binary record has no bit for write-zeroes: they look like a write."""
    rows = rows_of(imported(STREAM / "loop.blktrace.0").read("io"))
    zeroes = [row for row in live[0] if row[1] == "discard" and row[5] == 1 << 20]
    assert len(zeroes) == 2
    seen = [(row[0], "write", *row[2:]) if row in zeroes else row for row in live[0]]
    assert without_times(rows) == without_times(seen)


def test_what_the_stream_holds(live):
    """Each bio that the text shows queued is a row of layer block, each request it shows issued one of layer device."""
    text = (STREAM / "trace.txt").read_text()
    rows, _ = live
    device = Counter(op for layer, op, *_ in rows if layer == "device")
    block = Counter(op for layer, op, *_ in rows if layer == "block")
    queued = Counter(re.findall(r"block_bio_queue: \S+ (\w+)", text))
    issued = Counter(re.findall(r"block_rq_issue: \S+ (\w+)", text))
    assert device == {
        "read": issued["R"], "write": issued["WS"], "flush": issued["FF"], "discard": issued["DS"] + issued["NS"],
    }  # fmt: skip
    assert block == {
        "read": queued["R"], "write": queued["WS"] + queued["WFS"], "flush": queued["FWS"],
        "discard": queued["DS"] + queued["NS"],
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("blkparse") is None, reason="blkparse is not installed")
@pytest.mark.parametrize("size", [0, 4096])
def test_every_category_reads_as_the_letters_blkparse_prints_for_it(imported, tmp_path, size):
    """READ or WRITE, FLUSH, SYNC, AHEAD, META, DISCARD and FUA in every combination, each a bio of its own."""
    bits = (1 << 2, 1 << 3, 1 << 11, 1 << 12, 1 << 13, 1 << 15)
    records = []
    for number in range(1 << (len(bits) + 1)):
        category = 1 << (number & 1) | sum(bit for at, bit in enumerate(bits, 1) if number >> at & 1)
        records.append(
            struct.pack(
                "<IIQQIIIIIHH",
                0x65617407, number + 1, 1000 + number, number * 64, size, 1 | category << 16, 7, 8 << 20, 0, 0, 0,
            )
        )  # fmt: skip
    (tmp_path / "all.blktrace.0").write_bytes(b"".join(records))
    done = subprocess.run(
        ["blkparse", "-q", "-i", "all"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("  8,0")]
    (tmp_path / "all.txt").write_text("".join(f"{line}\n" for line in lines))
    binary = rows_of(imported(tmp_path / "all.blktrace.0").read("io"), "true")
    assert len(lines) == len(records)
    assert len(binary) >= (64 if size else 48)
    assert rows_of(imported(tmp_path / "all.txt").read("io"), "true") == binary
