"""What `iotrace inspect` says first of a trace."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result

Run = Callable[..., Result]

FIRST_FILETIME = 132_539_328_000_000_000
"""2021-01-01 00:00:00 UTC in steps of 100 ns since 1601."""


def write_msr(path: Path, reads: int, writes: int) -> Path:
    """I/Os one second apart, in the columns of the traces of MSR Cambridge."""
    ops = ["Read"] * reads + ["Write"] * writes
    path.write_text(
        "".join(
            f"{FIRST_FILETIME + number * 10_000_000},srv,0,{op},{number * 8192},8192,10000\n"
            for number, op in enumerate(ops)
        )
    )
    return path


def test_the_first_lines_tell_how_many_where_and_when(iotrace: Run, tmp_path: Path) -> None:
    told = iotrace("inspect", write_msr(tmp_path / "day.csv", 65, 471)).out
    first = " ".join(told.splitlines()[:4])
    assert "65 reads and 471 writes on srv disk 0 2021-01-01 00:00:00 to 00:08:5" in first  # 535 s later
    assert "File names not known; usable for replay: yes" in told.splitlines()


@pytest.mark.parametrize(
    ("fixture", "words"),
    [
        ("corpus/etl/circular", "Windows event trace"),
        ("linux/iostat.txt", "likely: reports of iostat or sar"),
        ("results/per_clat.1.log", "a guess: latency, bandwidth or IOPS log of fio"),
    ],
)
def test_what_a_file_is_and_how_sure_that_is(iotrace: Run, fixture: str, words: str) -> None:
    told = iotrace("inspect", Path(__file__).parents[1] / "fixtures" / fixture).out
    assert f"({words}," in " ".join(told.split())


def test_programs_get_the_same_counts(iotrace: Run, tmp_path: Path) -> None:
    answer = json.loads(iotrace("inspect", write_msr(tmp_path / "day.csv", 3, 2), "--json").out)
    assert answer["schema"] == "iotrace.inspect/1"
    (trace,) = answer["traces"]
    assert trace["contents"]["layers"]["block"]["ops"] == {"read": 3, "write": 2}
    assert trace["contents"]["layers"]["block"]["playable"] == 5


def test_counters_are_no_load_to_replay(iotrace: Run, tmp_path: Path) -> None:
    log = tmp_path / "counters.csv"
    log.write_text(
        '"(PDH-CSV 4.0) (UTC)(0)","\\\\DB01\\PhysicalDisk(0 C:)\\Disk Reads/sec"\n'
        + "".join(f'"01/02/2026 03:00:{second:02}.000","{second}"\n' for second in range(10))
    )
    told = iotrace("inspect", log)
    assert told.status == 0
    assert "2026-01-02 03:00:00" in told.out or "2026-01-02 02:59:59" in told.out
    assert "replay: no, it holds no individual I/Os; describe and incident read it" in " ".join(
        told.out.split()
    )


def test_local_times_are_said_to_be_local(iotrace: Run, tmp_path: Path) -> None:
    log = tmp_path / "sar.txt"
    head = "Linux 6.1.0 (db01) \t01/22/26 \t_x86_64_\t(4 CPU)\n\n"
    columns = "DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util"
    figures = "dev8-0     10.00     80.00      0.00      0.00      8.00      0.01      1.00      1.00"
    log.write_text(f"{head}03:00:01 {columns}\n03:10:01 {figures}\n03:20:01 {figures}\n")
    told = iotrace("inspect", log)
    assert told.status == 0, told.out
    assert "import with --timezone" in " ".join(told.out.split())


@pytest.mark.parametrize("full", [False, True])
def test_no_fact_is_a_count_of_nanoseconds(iotrace: Run, full: bool) -> None:
    """A length in the units of people has no digits like these."""
    trace = Path(__file__).parents[1] / "fixtures" / "corpus" / "etl" / "circular"
    told = iotrace("inspect", trace, *(["--full"] if full else [])).out
    assert "_ns" not in told
    assert not [word for word in told.replace(",", "").split() if word.isdigit() and len(word) > 9]


def test_a_fact_in_seconds_since_1970_is_a_date(iotrace: Run) -> None:
    """1,700,000,060 s, which ONTAP wrote into the poll."""
    polls = Path(__file__).parents[1] / "fixtures" / "corpus" / "ontap" / "poll"
    assert "starts: 2023-11-14 22:14:20 UTC" in iotrace("inspect", polls, "--full").out
