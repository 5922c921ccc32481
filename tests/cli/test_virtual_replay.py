"""A model as a target: the recording that comes of it, and that whatever quotes it says so."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from iotrace.cli import bundled
from iotrace.cli import main as command_line
from iotrace.cli import model as model_command
from iotrace.schemas import Recording, Sweep
from iotrace.schemas.models.model import Disk, Model
from iotrace.schemas.run import ModelTest

from ..recordings import write_recording

TOML = """
[[disk]]
name = "data"
[[disk.limit]]
iops = 600
[disk.service]
read_us = 300
write_us = 300

[[disk]]
name = "log"
roles = ["log"]
[disk.service]
write_us = 100
flush_us = 100
"""


@pytest.fixture
def source():
    return str(Path(bundled.__file__).parent / "pgbench.iotrace")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "two disks.toml"
    path.write_text(TOML, "utf-8")
    return f"model:{path}"


def run(capsys, *words) -> tuple[int, str]:
    status = command_line.run([str(word) for word in words])
    return status, " ".join(capsys.readouterr().out.split())


def test_a_recording_of_a_model_is_read_by_whatever_reads_recordings(source, model, tmp_path, capsys):
    output = tmp_path / "new.iotrace"
    status, said = run(capsys, "replay", source, "--target", model, "--window", "0s..20s", "-o", output)
    assert status == 0
    assert "never held against real storage" in said
    result = Recording.open(output)
    assert (result.manifest.kind, result.manifest.clock.name) == ("simulated", "virtual time")
    assert result.manifest.model.title == "two disks"
    devices = dict(
        zip(*(result.read("devices")[name].to_pylist() for name in ("device_id", "name")), strict=True)
    )
    assert devices == {0: "data", 1: "log"}
    io, files = result.read("io"), result.read("files").to_pylist()
    logs = {row["file_id"] for row in files if row["role"] == "log"}
    assert all(
        (device == 1) == (file in logs)
        for device, file in zip(io["device_id"].to_pylist(), io["file_id"].to_pylist(), strict=True)
    )
    took = (io["completed_ns"].to_numpy() - io["issued_ns"].to_numpy())[io["device_id"].to_numpy() == 1]
    assert set(took.tolist()) <= {100_000, 0}  # it has no reads' time, and no limit
    for words in (["describe", output], ["compare", source, output], ["validate", output]):
        status, said = run(capsys, *words)
        assert status == 0
        assert words[0] == "validate" or "a model answered, not storage" in said


def test_rows_that_are_handed_on_are_said_to_be_a_model_s(source, model, tmp_path, capsys):
    """Queries and exports give rows as they are, without an answer that says where they come from."""
    output = tmp_path / "new.iotrace"
    run(capsys, "replay", source, "--target", model, "--window", "0s..5s", "-o", output)
    for words in (
        ["query", str(output), "SELECT count(*) AS n FROM io", "--json"],
        ["export", str(output), "--to", "csv", "-o", str(tmp_path / "rows.csv")],
        ["export", str(output), "--to", "fio", "-o", str(tmp_path / "for-fio")],
    ):
        assert command_line.run(words) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert "a model answered, not storage" in said
        assert "which was never held against real storage" in said
    assert command_line.run(["query", source, "SELECT count(*) AS n FROM io"]) == 0
    assert "model" not in capsys.readouterr().err


def test_a_report_on_a_simulated_recording_says_what_its_model_held_back(source, tmp_path, capsys):
    output, page, words = (tmp_path / name for name in ("new.iotrace", "page.html", "page.md"))
    run(capsys, "replay", source, "--target", "model:azure/P4", "--window", "0s..10s", "-o", output)
    for report in (page, words):
        assert run(capsys, "report", output, "-o", report)[0] == 0
        said = report.read_text("utf-8")
        assert "never held against real storage" in said
        assert "What the model held back" in said
        assert "P4: 120 IOPS" in said


def test_latency_of_nothing_does_not_rise(source, tmp_path, capsys):
    """A catalogue disk that holds nothing back answers at once, from the beginning to the end."""
    target = "model:azure/Ultra-160000-10000"
    output = tmp_path / "new.iotrace"
    run(capsys, "replay", source, "--target", target, "--mode", "think", "-o", output)
    assert "latency rose" not in " ".join(run(capsys, "describe", output)[1].split())


def test_a_model_has_room_for_more_in_flight_than_storage(source, model, tmp_path, capsys):
    """A cap there would hold the log back because the data is slow."""
    for more, expected in ([], 16_384), (["--max-in-flight", "64"], 64):
        output = tmp_path / f"{expected}.iotrace"
        run(capsys, "replay", source, "--target", model, "--window", "0s..2s", *more, "-o", output)
        facts = Recording.open(output).manifest.replay
        assert facts is not None
        assert facts.max_in_flight == expected


def test_the_same_model_plays_the_same(source, model, tmp_path, capsys):
    ends = []
    for name in ("a", "b"):
        run(capsys, "replay", source, "--target", model, "--window", "0s..5s", "-o", tmp_path / name)
        ends.append(Recording.open(tmp_path / name).read("io")["completed_ns"].to_pylist())
    assert ends[0] == ends[1]


def test_a_sweep_over_a_model_ends_in_a_verdict_that_says_so(source, model, tmp_path, capsys):
    output = tmp_path / "sweep.iotrace"
    status, said = run(
        capsys, "sweep", source, "--target", model, "--window", "0s..20s", "--step-seconds", 5, "--scales",
        "0.25x,0.5x,1x,2x,8x", "--need", "8x", "-o", output,
    )  # fmt: skip
    assert status == 1
    assert said.startswith(("NO: 8x", "CANNOT TELL whether 8x"))
    assert "That is from the model 'two disks', which was never held against real storage." in said
    assert all(step.manifest.kind == "simulated" for step in Sweep.open(output).recordings())
    status, said = run(capsys, "report", source, output, "--need", "8x", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "never held against real storage" in page


def test_limits_and_credits_are_kept(source, tmp_path, capsys):
    output = tmp_path / "new.iotrace"
    status, said = run(
        capsys, "replay", source, "--target", "model:azure/P4", "--window", "0s..10s", "-o", output, "--json"
    )
    assert status == 0
    limits = json.loads(said)["replay"]["model"]["limits"]
    assert [limit["name"] for limit in limits] == [
        "P4: 120 IOPS", "P4: 3,500 IOPS burst", "P4: 25 MB/s", "P4: 170 MB/s burst",
    ]  # fmt: skip
    assert limits[0]["credits"] == (3500 - 120) * 1800
    assert 0 < limits[0]["credits_least"] < limits[0]["credits"]


def test_a_model_is_not_characterized(tmp_path, capsys):
    words = ["characterize", "--target", "model:azure/P30", "--size", "8K", "-o", tmp_path / "new.iotrace"]
    assert command_line.run([str(word) for word in words]) == 2
    assert "'model:azure/P30' is a model, and characterize measures storage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "model:azure/P31"], "azure has no disk 'P31'"),
        (["--target", "model:nothing.toml"], "cannot read 'nothing.toml'"),
        (["--target", "model:azure/P30", "--map", "0=model:azure/P40"], "a model stands for all storage"),
        (["--target", "model:azure/P30", "--watch"], "--watch"),
        (["--target", "model:azure/P30", "--pacing", "gentle"], "--pacing: not on a model"),
        (["--target", "model:azure/P30", "--buffered", "--backend", "threads"], "--buffered, --backend: not"),
        (["--target", "model:azure/P30", "--allow-writes"], "--allow-writes: not on a model"),
        (["--target", "model:azure/P30", "--destroy-data", "/dev/sdb"], "--destroy-data: not on a model"),
        (["--target", "model:azure/P30", "--compressible", "2:1"], "--compressible: not on a model"),
        (["--target", "model:azure/P30", "--dedupe", "2:1"], "--dedupe: not on a model"),
        (["--target", "model:azure/P30", "--submitters", "2"], "--submitters: not on a model"),
        (["--target", "model:azure/P30", "--max-errors", "0"], "--max-errors: not on a model"),
        (["--target", "model:azure/P30", "--stall-timeout", "10s"], "--stall-timeout: not on a model"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "sweep"])
def test_what_a_model_cannot_do_is_refused(command, words, message, source, tmp_path, capsys):
    status = command_line.run([command, source, *words, "-o", str(tmp_path / "new.iotrace")])
    assert status == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_rate_of_a_load_that_the_cap_holds_back_is_that_of_its_length(source, model, tmp_path, capsys):
    """40 times the load on 600 IOPS, with 64 in flight, takes longer than was planned."""
    output = tmp_path / "late.iotrace"
    words = ("--target", model, "--scale", "40x", "--max-in-flight", "64", "-o", output)
    _, said = run(capsys, "replay", source, *words)
    load = r"Load: ([\d,]+) reads and writes \(([\d,]+)/s, .*\) and 16,211 flushes issued in ([\d.]+) s"
    counted, rate, seconds = re.search(load, " ".join(said.split())).groups()
    reads_and_writes = 86_399
    assert counted == f"{reads_and_writes:,}"
    assert float(rate.replace(",", "")) == pytest.approx(reads_and_writes / float(seconds), rel=0.02)


@pytest.mark.parametrize(("scale", "is_spent"), [("1x", False), ("8x", True)])
def test_what_saved_credits_carried_is_said_at_once(tmp_path, capsys, scale, is_spent):
    """A P10 gives 500 a second for ever, and 3,500 from saved credits: 200 and 1,600 a second."""
    issued_ns = np.arange(4000) * 5_000_000
    columns = {
        "issued_ns": issued_ns, "completed_ns": issued_ns + 1000, "size_bytes": 8192, "device_id": 0,
        "offset_bytes": np.arange(4000) % 640 * 8192,
    }  # fmt: skip
    source = write_recording(tmp_path / "s.iotrace", columns).path
    words = ("replay", source, "--target", "model:azure/P10", "--scale", scale, "-o", tmp_path / "r.iotrace")
    _, said = run(capsys, *words)
    opening = said.partition("How exactly")[0]
    first = " ".join(opening.split()).partition(": only saved credits carried it")
    assert (first[0] == "1,600/s exceeds what the model sustains (P10: 500 IOPS)") is is_spent
    assert "no limit held an I/O back" in opening


@pytest.mark.parametrize(("factor", "is_fit"), [(4.9, True), (5.1, False)])
def test_a_model_that_is_far_off_is_not_one_to_size_with(tmp_path, capsys, monkeypatch, factor, is_fit):
    tested = ModelTest(
        on="x", date="2026-11-28", runs=2, response_p50_error=0.1, response_p99_error=0.1,
        response_p50_ratio=(1 / factor, 1.1), response_p99_ratio=(0.9, 1.2), read_shares=(1.0, 1.0), beyond="writes",
    )  # fmt: skip
    fitted = Model(title="x", disks=(Disk(),), tested=tested)
    monkeypatch.setattr(model_command, "fit", lambda *_, **__: fitted)
    monkeypatch.setattr(model_command, "_recordings", lambda _: [])
    status, said = run(capsys, "model", "fit", "a.iotrace", "-o", tmp_path / "m.toml")
    assert status == 0
    assert said.startswith("Do not size with this model: what is measured may be 5.1 times off") is not is_fit


def test_a_report_prints_no_time_that_a_model_does_not_state(source, tmp_path, capsys):
    output, page = tmp_path / "p30.iotrace", tmp_path / "r.md"
    run(capsys, "replay", source, "--target", "model:azure/P30", "--window", "10s..40s", "-o", output)
    status, said = run(capsys, "report", source, output, "-o", page)
    assert status == 0
    assert "of reads, writes and flushes it cannot be told: no limit of the model holds up their p" in said
    assert not re.search(r"\b0 ns\b", page.read_text("utf-8").partition("## Comparison")[0])
