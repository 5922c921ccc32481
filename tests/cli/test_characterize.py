"""The characterize command on a simulated disk, whose saturation point is its number of servers."""

import functools
import json
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrace.cli.characterize import parse_counts
from iotrace.replay import _engine
from iotrace.replay.characterize import Characterization
from iotrace.schemas import IotraceError, Sweep

from .conftest import Result

SERVICE_NS = 500_000
QUICK = ("--file-size", "4M", "--seconds", "2", "--warm-up", "0.2")


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file beneath a simulated disk of six servers."""
    law = {"servers": 6, "service": "constant", "service_ns": SERVICE_NS}
    monkeypatch.setattr(_engine, "Engine", functools.partial(_engine.Engine, simulate=law))
    return tmp_path / "t.bin"


def characterize(iotrace: Callable[..., Result], target: Path, *words: object) -> Result:
    result = iotrace("characterize", "--target", target, *QUICK, *words)
    if "direct I/O" in result.err:
        pytest.skip(f"direct I/O is refused at {target.parent}")
    return result


def test_the_disk_saturates_at_its_number_of_servers(iotrace: Callable[..., Result], target: Path) -> None:
    result = characterize(iotrace, target, "--outstanding", "1..32", "--json")

    (series,) = json.loads(result.out)["series"]
    assert series["name"] == "random read 8K"
    assert [cell["outstanding"] for cell in series["cells"]] == [1, 2, 4, 8, 16, 32]
    assert series["saturation"]["state"] == "reached"
    assert series["saturation"]["outstanding"]["value"] == pytest.approx(6, rel=0.02)
    assert series["saturation"]["iops"]["value"] == pytest.approx(6e9 / SERVICE_NS, rel=0.02)
    for cell in series["cells"]:
        assert cell["iops"] * cell["service_ns_mean"] / 1e9 == pytest.approx(cell["outstanding"], rel=0.02)
        low, high = cell["iops_interval"]
        assert low <= cell["iops"] * 1.01
        assert high >= cell["iops"] * 0.99


def test_a_quantile_with_fewer_than_100_ios_beyond_it_is_not_printed(
    iotrace: Callable[..., Result], target: Path
) -> None:
    """Four thousand I/Os leave 40 beyond the p99; 24,000 leave 240, and 24 beyond the p99.9."""
    result = characterize(iotrace, target, "--outstanding", "1,6", "--json")

    few, many = json.loads(result.out)["series"][0]["cells"]
    assert few["service_ns_p95"] is not None
    assert few["service_ns_p99"] is None
    assert many["service_ns_p99"] is not None
    assert many["service_ns_p99_9"] is None


def test_runs_that_a_rule_fired_for_are_named_by_what_they_ran(
    iotrace: Callable[..., Result], target: Path
) -> None:
    """Four thousand I/Os are too few for a p99, 24,000 are not."""
    result = characterize(iotrace, target, "--size", "8K,64K", "--outstanding", "1,6", "--json")

    (few,) = [one for one in json.loads(result.out)["findings"] if one["rule"] == "too-few-ios"]
    assert few["detail"].endswith("(at random read 8K, 1 outstanding; random read 64K, 1 outstanding)")


def test_what_is_under_way_at_the_end_is_no_load_that_was_not_carried(
    iotrace: Callable[..., Result], target: Path
) -> None:
    """Six servers end 12,000 I/Os in the second; a closed loop offers no more than that."""
    result = characterize(iotrace, target, "--outstanding", "2048", "--seconds", "1", "--json")

    (cell,) = json.loads(result.out)["series"][0]["cells"]
    assert "load offered" not in " ".join(cell["notes"])


def test_each_series_is_kept_as_a_sweep(iotrace: Callable[..., Result], target: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.iotrace"
    result = characterize(iotrace, target, "--size", "8K,64K", "--outstanding", "1..4", "-o", output)

    assert result.status in (0, 1)
    for name in ("random-read-8K", "random-read-64K"):
        sweep = Sweep.open(output / f"{name}.iotrace")
        assert [step.scale for step in sweep.steps] == [1, 2, 4]
        assert all(step.manifest.is_closed_loop for step in sweep.recordings())
    assert "6 runs of 2 s" in result.err
    again = characterize(iotrace, target, "-o", output)
    assert again.status == 2
    assert "exists already" in again.err


def test_a_log_is_written_one_flush_after_another_in_growing_sizes(
    iotrace: Callable[..., Result], target: Path
) -> None:
    """A disk whose flushes take equally long whatever their size moves the more the larger they are."""
    result = characterize(
        iotrace, target, "--profile", "log", "--size", "4K,8K,16K", "--outstanding", "1,64", "--json"
    )

    one, many = json.loads(result.out)["series"]
    assert one["name"] == "sequential write, 1 outstanding"
    assert {cell["durable"] for cell in one["cells"]} == {True}
    assert [cell["size_bytes"] for cell in one["cells"]] == [4096, 8192, 16384]
    assert [cell["iops"] for cell in one["cells"]] == pytest.approx([1e9 / SERVICE_NS] * 3, rel=0.02)
    assert one["best_size"]["size_bytes"] is None
    assert many["cells"][0]["iops"] == pytest.approx(6e9 / SERVICE_NS, rel=0.02)


def test_a_log_is_contrasted_with_what_a_queue_gets(iotrace: Callable[..., Result], target: Path) -> None:
    """The disk serves six at a time, so 64 outstanding move six times as much, whatever the size."""
    result = characterize(iotrace, target, "--profile", "log", "--size", "4K,16K")

    said = " ".join(result.out.split())
    found = re.search(r"64 outstanding move (\S+) times the MB/s of 1 at 4K and (\S+) times at 16K", said)
    assert found is not None
    assert [float(value) for value in found.groups()] == pytest.approx([6, 6], rel=0.05)


@pytest.mark.parametrize("profile", ["oltp-read", "log"])
def test_a_report_is_drawn(
    iotrace: Callable[..., Result], target: Path, tmp_path: Path, profile: str
) -> None:
    report = tmp_path / "report.html"
    words = ("--profile", profile, "--size", "4K,8K", "--outstanding", "1,16", "-o", report)

    characterize(iotrace, target, *words)

    text = report.read_text("utf-8")
    assert ("IOPS by I/Os outstanding" in text) == (profile == "oltp-read")
    assert "load offered" not in text
    assert "1 outstanding" in text


def test_a_kept_series_has_a_knee(iotrace: Callable[..., Result], target: Path, tmp_path: Path) -> None:
    characterize(iotrace, target, "--outstanding", "1..32", "-o", tmp_path / "a.iotrace")

    result = iotrace("knee", tmp_path / "a.iotrace" / "random-read-8K.iotrace")

    assert "Saturates at 6 outstanding" in result.out


def test_the_table_fits_a_terminal(iotrace: Callable[..., Result], target: Path) -> None:
    result = characterize(iotrace, target, "--outstanding", "1,1024")

    assert "saturat" in result.out.lower()
    assert max(len(line.rstrip()) for line in result.out.splitlines()) <= 80


def test_ctrl_c_keeps_what_was_measured(iotrace: Callable[..., Result], tmp_path: Path) -> None:
    """On the real clock: simulated time would be over before the interrupt."""
    output = tmp_path / "a.iotrace"
    timer = threading.Timer(2.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    words = ("--file-size", "4M", "--seconds", "60", "--warm-up", "0", "--outstanding", "1,2", "-o", output)
    result = iotrace("characterize", "--target", tmp_path / "t.bin", *words)
    timer.cancel()

    if "direct I/O" in result.err:
        pytest.skip(f"direct I/O is refused at {tmp_path}")
    assert result.status == 130
    assert "stopped after 1 of 2 runs" in result.err
    assert "random read 8K" in result.out
    assert len(Sweep.open(output / "random-read-8K.iotrace").steps) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--outstanding", "0"), "--outstanding"),
        (("--outstanding", "9..3"), "--outstanding"),
        (("--size", "1000"), "1,000 bytes"),
        (("--pattern", "zigzag"), "zigzag"),
        (("--op", "erase"), "erase"),
        (("--profile", "olap"), "olap"),
        (("--preset", "sqlio", "--profile", "log"), "--preset"),
        (("--op", "mix", "--mix", "100:0"), "not a mix"),
        (("--seconds", "0"), "0 s"),
        (("--size", "1M", "--file-size", "1M"), "too small"),
    ],
)
def test_what_means_nothing_is_refused_before_a_target_is_made(
    iotrace: Callable[..., Result], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    result = iotrace("characterize", "--target", tmp_path / "t.bin", *words)

    assert result.status == 2
    assert said in result.err
    assert "hint:" in result.err
    assert not list(tmp_path.iterdir())


def test_counts_double_from_the_first_to_the_last() -> None:
    assert parse_counts("1..256") == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert parse_counts("4..20, 64") == (4, 8, 16, 20, 64)
    with pytest.raises(IotraceError):
        parse_counts("many")


def test_a_refused_target_costs_no_earlier_result(
    iotrace: Callable[..., Result], target: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "c.iotrace"
    assert characterize(iotrace, target, "--outstanding", "1", "-o", kept).status == 0
    before = sorted(path.relative_to(kept) for path in kept.rglob("*"))
    foreign = tmp_path / "payroll.mdf"
    foreign.write_bytes(b"\1" * (8 << 20))

    refused = characterize(iotrace, foreign, "--op", "write", "-o", kept, "--overwrite")

    assert refused.status == 2
    assert "payroll.mdf" in refused.err
    assert sorted(path.relative_to(kept) for path in kept.rglob("*")) == before
    new = tmp_path / "new.iotrace"
    assert characterize(iotrace, foreign, "--op", "write", "-o", new).status == 2
    assert not new.exists()


def test_an_earlier_result_is_back_if_no_run_is_finished(
    iotrace: Callable[..., Result], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "c.iotrace"
    assert characterize(iotrace, target, "--outstanding", "1", "-o", kept).status == 0
    before = sorted(path.relative_to(kept) for path in kept.rglob("*"))

    def fail(*_: object, **__: object) -> None:
        raise IotraceError("the backend does not start")

    monkeypatch.setattr(Characterization, "run", fail)
    for output in (kept, tmp_path / "new.iotrace"):
        assert characterize(iotrace, target, "-o", output, "--overwrite").status == 2
    assert sorted(path.relative_to(kept) for path in kept.rglob("*")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.iotrace", "t.bin"]


def test_what_was_put_beside_the_series_outlives_the_next(
    iotrace: Callable[..., Result], target: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "c.iotrace"
    assert characterize(iotrace, target, "--outstanding", "1", "-o", kept).status == 0
    (kept / "report.html").write_text("signed")
    refused = characterize(iotrace, target, "--outstanding", "1", "-o", kept, "--overwrite")
    assert refused.status == 2
    assert "report.html" in refused.err
    assert (kept / "report.html").read_text() == "signed"


@pytest.mark.parametrize("place", ["missing/r.html", "folder.html"])
def test_a_report_that_cannot_be_written_is_refused_before_the_first_run(
    iotrace: Callable[..., Result], target: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder.html").mkdir()
    result = characterize(iotrace, target, "-o", tmp_path / place, "--overwrite")
    assert result.status == 2
    assert Path(place).parts[0] in result.err
    assert not target.exists()
