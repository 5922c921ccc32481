"""The incident command: bundled truth, means alone, cutting, words and exit status."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from iotrace.schemas import Clock, Recording, validate

from ..recordings import write_recording
from .conftest import Result, make_recording

Iotrace = Callable[..., Result]
BUNDLED = Path(__file__).parents[2] / "cli" / "bundled" / "pgbench.iotrace"


def test_the_bundled_recording_holds_what_its_readme_says(iotrace: Iotrace) -> None:
    """From second 155, for 20.4 s, another program's I/O on the same disk: the load is the same, the disk slower."""
    first = json.loads(iotrace("incident", BUNDLED, "--json").out)["windows"][0]
    assert abs(first["start_ns"] / 1e9 - 155) <= 2
    assert abs(first["end_ns"] / 1e9 - 175.4) <= 2
    assert (first["cause"], first["layer"]) == ("service-driven", "device")
    assert "another program" in first["markers"][0]["text"]
    assert "meanwhile, cause or not: another program's I/O" in first["headline"]
    arrived = "arrivals (flush, read, write) of the block layer, typically 365/s against 432/s: "
    assert first["evidence"][0].startswith(arrived)
    opening = iotrace("incident", BUNDLED).out.partition("\n\n")[0].splitlines()
    assert len(opening) == 5
    assert opening[3].startswith(
        "Meanwhile, cause or not: another program's I/O begins on the same disk (fio"
    )


def test_the_bundled_recording_has_no_other_window_than_what_was_done_to_it(iotrace: Iotrace) -> None:
    """A scan of 1.1 s at second 110 and the other program's I/O, and one figure of what is normal."""
    found = json.loads(iotrace("incident", BUNDLED, "--json").out)
    assert [round(one["start_ns"] / 1e9) for one in found["windows"]] == [155, 110]
    assert [one["cause"] for one in found["windows"]] == ["service-driven", "load-driven"]
    assert all(one["lost_ns"] > 0 for one in found["windows"])
    assert (found["drifts"], found["periodic"]) == ([], [])
    for layer in found["timelines"]:
        assert len({value for value in layer["normal_ns"] if value is not None}) == 1
    shown = iotrace("incident", BUNDLED).out
    assert shown.count("normally 0.13 ms") == 2, "once for each layer"
    assert "90 % of normal slots" not in shown


def test_tables_fit_a_terminal_and_name_cause_layer_and_evidence(iotrace: Iotrace) -> None:
    found = iotrace("incident", BUNDLED)
    assert found.status == 0
    assert "service-driven" in found.out
    assert "Slow windows, the costliest first" in found.out
    assert "neither more nor larger I/Os arrived" in " ".join(found.out.split())
    assert "Trust: recorded without known loss" in found.out
    tables = [line for line in found.out.splitlines() if line.startswith("  ") and "x" in line]
    assert tables
    assert max(map(len, found.out.splitlines())) <= 80


def test_nothing_found_says_what_would_have_been(iotrace: Iotrace, tmp_path: Path) -> None:
    make_recording(tmp_path / "calm.iotrace", reads_per_second=100, seconds=120)
    found = iotrace("incident", tmp_path / "calm.iotrace")
    assert found.status == 0
    assert "No slow window was found" in found.out
    words = " ".join(found.out.split())
    assert (
        "of the typical I/O would have been found, nine times in ten: block layer, a sudden one, from"
        in words
    )
    assert "Not looked for: what lasts less than 2.00 s" in words
    as_json = json.loads(iotrace("incident", tmp_path / "calm.iotrace", "--json").out)
    assert as_json["windows"] == []
    assert as_json["sensitivity"]


def test_a_recording_too_short_to_say_what_is_normal(iotrace: Iotrace, tmp_path: Path) -> None:
    make_recording(tmp_path / "short.iotrace", seconds=3)
    found = iotrace("incident", tmp_path / "short.iotrace")
    assert found.status == 0
    assert "too few seconds hold I/Os" in found.out


def test_a_window_is_cut_out_and_described(iotrace: Iotrace, tmp_path: Path) -> None:
    night = tmp_path / "night.iotrace"
    found = iotrace("incident", BUNDLED, "--cut", 1, "--margin", "20s", "-o", night)
    assert found.status == 0, found.err
    assert validate(night) == []
    manifest = Recording.open(night).manifest
    assert 55e9 <= manifest.window_end_ns <= 65e9
    assert "service-driven" in manifest.title
    assert iotrace("describe", night).status == 0
    again = json.loads(iotrace("incident", night, "--json").out)
    assert again["windows"][0]["cause"] == "service-driven"
    assert abs(again["windows"][0]["start_ns"] / 1e9 - 20) <= 3
    refused = iotrace("incident", BUNDLED, "--cut", 1, "-o", night)
    assert refused.status == 2
    assert "exists already" in refused.err
    assert iotrace("incident", BUNDLED, "--cut", 1, "-o", night, "--overwrite").status == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--cut", "1"], "--cut and --output go together"),
        (["-o", "x.iotrace"], "--cut and --output go together"),
        (["--margin", "5s"], "--margin says how much --cut takes"),
        (["--cut", "9", "-o", "x.iotrace"], "there is no slow window 9"),
    ],
)
def test_wrong_use(iotrace: Iotrace, tmp_path: Path, words: list[str], problem: str) -> None:
    make_recording(tmp_path / "calm.iotrace", reads_per_second=20, seconds=60)
    found = iotrace("incident", tmp_path / "calm.iotrace", *words)
    assert found.status == 2
    assert problem in found.err
    assert "hint: " in found.err


def perfmon_log(random: np.random.Generator, slow: range, *, factor: float, load: float) -> str:
    """Five-second samples of one disk: 200 reads of 8 KiB a second at 2 ms."""
    names = (
        "Avg. Disk sec/Read",
        "Disk Reads/sec",
        "Disk Read Bytes/sec",
        "Avg. Disk sec/Write",
        "Disk Writes/sec",
    )
    paths = [rf"\\HOST\PhysicalDisk({disk})\{name}" for disk in ("0 D:", "_Total") for name in names]
    lines = [",".join(f'"{cell}"' for cell in ["(PDH-CSV 4.0) (UTC)(0)", *paths])]
    start = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
    for sample in range(240):
        is_slow = sample in slow
        rate = 200 * random.uniform(0.9, 1.1) * (load if is_slow else 1)
        read = 0.002 * np.exp(random.normal(0, 0.1)) * (factor if is_slow else 1)
        cells = [read, rate, rate * 8192, 0.001 * np.exp(random.normal(0, 0.1)), 50]
        at = f"{start + timedelta(seconds=5 * sample):%m/%d/%Y %H:%M:%S}.000"
        lines.append(",".join(f'"{cell}"' for cell in [at, *cells, *cells]))
    return "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize(("load", "cause"), [(1.0, "service-driven"), (3.0, "load-driven")])
def test_a_counter_log_alone(iotrace: Iotrace, tmp_path: Path, load: float, cause: str) -> None:
    log = tmp_path / "night.csv"
    log.write_text(perfmon_log(np.random.default_rng(1), range(100, 130), factor=4.0, load=load), newline="")
    assert iotrace("import", log, "-o", tmp_path / "night.iotrace").status == 0
    found = json.loads(iotrace("incident", tmp_path / "night.iotrace", "--json").out)
    assert found["basis"] == "means"
    (window,) = found["windows"]
    assert abs(window["start_ns"] / 1e9 - 500) <= 10
    assert abs(window["end_ns"] / 1e9 - 650) <= 10
    assert (window["cause"], window["layer"]) == (cause, "block")
    read = next(entry for entry in window["seen_in"] if entry["stream"] == "read 0 D:")
    assert read["factor_interval"][0] <= 4.0 <= read["factor_interval"][1]
    assert not any("_Total" in (entry["stream"] or "") for entry in window["seen_in"])
    assert any("quantiles cannot be known" in note for note in found["notes"])
    assert any("Little's law" in sentence for sentence in window["evidence"])
    shown = iotrace("incident", tmp_path / "night.iotrace")
    assert "quantiles cannot be known" in " ".join(shown.out.split())
    assert "no validity rule fired" not in shown.out


def dmv_snapshots(random: np.random.Generator, slow: range) -> str:
    """Two files, a snapshot every ten seconds; one file's stall grows fivefold for a while at the same rate."""
    head = "capture_utc,database_id,file_id,sample_ms,num_of_reads,num_of_bytes_read,io_stall_read_ms,num_of_writes,"
    lines = [head + "num_of_bytes_written,io_stall_write_ms,physical_name,type_desc,database_name"]
    totals = {1: [0, 0, 0.0], 2: [0, 0, 0.0]}
    start = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
    for sample in range(181):
        for file, name in ((1, "D:\\sales.mdf"), (2, "E:\\stock.mdf")):
            if sample:
                reads = int(random.poisson(1000))
                is_slow = file == 1 and sample in slow
                totals[file][0] += reads
                totals[file][1] += reads * 8192
                totals[file][2] += reads * 3 * np.exp(random.normal(0, 0.1)) * (5 if is_slow else 1)
            reads, size, stall = totals[file]
            at = f"{start + timedelta(seconds=10 * sample):%Y-%m-%d %H:%M:%S}.000"
            lines.append(
                f"{at},5,{file},{sample * 10_000},{reads},{size},{int(stall)},0,0,0,{name},ROWS,Sales"
            )
    return "\n".join(lines) + "\n"


def test_dmv_snapshots_alone(iotrace: Iotrace, tmp_path: Path) -> None:
    log = tmp_path / "files.csv"
    log.write_text(dmv_snapshots(np.random.default_rng(2), range(61, 73)))
    imported = iotrace("import", log, "-o", tmp_path / "dmv.iotrace")
    assert imported.status == 0, imported.err
    found = json.loads(iotrace("incident", tmp_path / "dmv.iotrace", "--json").out)
    (window,) = found["windows"]
    assert abs(window["start_ns"] / 1e9 - 600) <= 20
    assert abs(window["end_ns"] / 1e9 - 720) <= 20
    assert (window["cause"], window["layer"]) == ("service-driven", "sql")
    streams = [entry["stream"] for entry in window["seen_in"] if entry["stream"]]
    assert streams == ["read D:\\sales.mdf"]


def test_a_disk_and_its_files_are_not_added_up(iotrace: Iotrace, tmp_path: Path) -> None:
    """The disk had 200 reads and 50 writes a second; the file on it has some of the same."""
    log, files = tmp_path / "counters.csv", tmp_path / "files.csv"
    log.write_text(perfmon_log(np.random.default_rng(1), range(121, 145), factor=4.0, load=1.0), newline="")
    files.write_text(dmv_snapshots(np.random.default_rng(2), range(61, 73)))
    assert iotrace("import", log, files, "-o", tmp_path / "both.iotrace").status == 0
    (window,) = json.loads(iotrace("incident", tmp_path / "both.iotrace", "--json").out)["windows"]
    assert {one["layer"] for one in window["seen_in"]} == {"block", "sql"}
    assert window["evidence"][0].startswith(
        'arrivals (read, write) of disk "0 D:", typically 249/s against 249/s'
    )


def test_neither_io_nor_latency_counters(iotrace: Iotrace, tmp_path: Path) -> None:
    log = tmp_path / "cpu.csv"
    rows = "".join(f'"11/20/2026 01:00:{second:02}.000","{second}"\r\n' for second in range(30))
    log.write_text(
        '"(PDH-CSV 4.0) (UTC)(0)","\\\\H\\Processor(_Total)\\% Processor Time"\r\n' + rows, newline=""
    )
    assert iotrace("import", log, "-o", tmp_path / "cpu.iotrace").status == 0
    found = iotrace("incident", tmp_path / "cpu.iotrace")
    assert found.status == 2
    assert "no I/Os and no counters of latency" in found.err


@pytest.mark.parametrize("latency_s", ["0", "-0.005"], ids=["idle", "impossible"])
def test_counters_that_tell_no_latency(iotrace: Iotrace, tmp_path: Path, latency_s: str) -> None:
    """No sample is left to tell what is typical."""
    log = tmp_path / "disk.csv"
    names = ("Avg. Disk sec/Read", "Disk Reads/sec")
    head = ",".join(rf'"\\H\PhysicalDisk(0 D:)\{name}"' for name in names)
    rows = "".join(f'"11/20/2026 01:00:{second:02}.000","{latency_s}","50"\r\n' for second in range(30))
    log.write_text(f'"(PDH-CSV 4.0) (UTC)(0)",{head}\r\n{rows}', newline="")
    assert iotrace("import", log, "-o", tmp_path / "disk.iotrace").status == 0
    found = iotrace("incident", tmp_path / "disk.iotrace")
    assert found.status == 2
    assert "no I/Os and no counters of latency" in found.err


def test_hostile_names_do_not_drive_the_terminal(iotrace: Iotrace, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    issued = np.sort(random.uniform(0, 120e9, 12_000)).astype(np.int64)
    latency = 1e6 * np.exp(random.normal(0, 0.3, 12_000)) * np.where((issued > 50e9) & (issued < 70e9), 8, 1)
    names = ["D:\\\x1b[31m<script>\u202e" + "x" * 4000 + ".mdf", "D:\\other.mdf"]
    write_recording(
        tmp_path / "hostile.iotrace",
        {
            "layer": "sql", "issued_ns": issued, "completed_ns": issued + latency.astype(np.int64),
            "file_id": random.integers(0, 2, 12_000),
        },
        tables={
            "files": {"file_id": [0, 1], "path": names, "role": "data"},
            "markers": {"at_ns": [51_000_000_000], "kind": "note", "text": "\x1b]0;gone\x07"},
        },
        title="\x1b[2Jhostile",
        clock=Clock(1_790_000_000_000_000_000, 100, "QPC"),
        window_end_ns=120_000_000_000,
    )  # fmt: skip
    found = iotrace("incident", tmp_path / "hostile.iotrace")
    assert found.status == 0
    assert "service-driven" in found.out
    assert "\x1b" not in found.out
    assert "\x07" not in found.out
    assert "\u202e" not in found.out
    assert max(map(len, found.out.splitlines())) <= 80
    as_json = json.loads(iotrace("incident", tmp_path / "hostile.iotrace", "--json").out)
    assert names[0] in [row["name"] for row in as_json["windows"][0]["blame"]]


def test_of_several_recordings_it_says_what_slowed_together_and_what_they_share(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "all"
    for number, host in enumerate(("a1", "a2", "a3", "a4", "b1", "b2", "b3")):
        slow_host(folder / f"{host}.iotrace", number, is_slow=host.startswith("a"))
    groups = tmp_path / "hosts.csv"
    groups.write_text("host,array\na1,A\na2,A\na3,A\na4,A\nb1,B\nb2,B\nb3,B\n")
    shown = iotrace("incident", folder, "--groups", groups)
    assert shown.status == 0
    assert " ".join(shown.out.split()).startswith("4 of 4 hosts on array A slowed together, 2026-")
    assert "; none of 3 others" in " ".join(shown.out.split())
    found = json.loads(iotrace("incident", folder, "--groups", groups, "--json").out)
    assert found["shared"][0]["group"]["name"] == "A"
    (folder / "c.iotrace").mkdir()
    (folder / "c.iotrace" / "manifest.json").write_text("{")
    assert iotrace("incident", folder).status == 1


def slow_host(path: Path, number: int, *, is_slow: bool) -> None:
    """Reads of two minutes, six times as slow for 20 s in the middle."""
    random = np.random.default_rng(number)
    issued_s = np.sort(random.uniform(0, 120, 12_000))
    took_ms = random.lognormal(0, 0.3, len(issued_s))
    took_ms[(issued_s >= 50) & (issued_s < 70) & is_slow] *= 6
    issued_ns = (issued_s * 1e9).astype(np.int64)
    io = {"issued_ns": issued_ns, "completed_ns": issued_ns + (took_ms * 1e6).astype(np.int64)}
    clock = Clock(1_780_000_000_000_000_000, 100, "QPC")
    write_recording(path, io, title="a host", clock=clock, window_end_ns=120_000_000_000)


def test_what_is_for_one_recording_or_for_several_is_told_apart(
    iotrace: Callable[..., Result], tmp_path: Path
) -> None:
    for host in ("a", "b"):
        slow_host(tmp_path / "all" / f"{host}.iotrace", 1, is_slow=False)
    of_one = iotrace("incident", tmp_path / "all", "--cut", "1", "-o", tmp_path / "cut.iotrace")
    assert (of_one.status, "takes a window out of one recording" in of_one.err) == (2, True)
    of_several = iotrace("incident", tmp_path / "all" / "a.iotrace", "--groups", tmp_path / "hosts.csv")
    assert (of_several.status, "what several hosts share" in of_several.err) == (2, True)
