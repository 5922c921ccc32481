"""The report: one file, offline, the verdict first, and no text from a trace ever becomes markup."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iotrace.analyze.report import write_report
from iotrace.analyze.report.charts import label
from iotrace.analyze.report.page import embedded_json
from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter, Source, SweepWriter

sys.path.insert(0, str(Path(__file__).parent))
import knee_simulator as simulator

PLANTED = (
    "<script>document.documentElement.dataset.planted=1</script>",
    "</script><script>document.documentElement.dataset.planted=2</script>",
    "<img src=x onerror=document.documentElement.dataset.planted=3>",
    "{{7*7}}",
    "<!--",
    "%{y} <b>bold</b> \u2028 line",
)


@pytest.fixture
def sweep(tmp_path):
    writer = SweepWriter(
        tmp_path / "sweep.iotrace", title="pgbench", source_uuid=None, settings={"targets": ["/dev/sdb"]}
    )
    for index, scale in enumerate([1, 2, 3, 3.8, 4.4, 8]):
        random = np.random.default_rng(index)
        arrival = simulator.poisson(random, 500 * scale, 4000)
        path = writer.step_path(scale)
        completed = simulator.throttled(random, arrival, 2000)
        step = simulator.write_step(
            path.parent, arrival, completed, scale=scale, name=path.name.removesuffix(".iotrace")
        )
        writer.add(scale, step)
    return writer.sweep


@pytest.fixture
def recording(tmp_path):
    """Every text a trace can bring along is hostile."""
    random = np.random.default_rng(1)
    count = 3000
    arrival = simulator.poisson(random, 300, count)
    completed = arrival + simulator.device_latency_s(random, count)
    manifest = Manifest(
        "captured",
        PLANTED[1],
        Clock(1_700_000_000_000_000_000, 1.0, "simulated"),
        window_end_ns=int(completed.max() * 1e9) + 1,
        host={"name": PLANTED[2]},
        sources=[Source(PLANTED[0], "etl", 12, "ab" * 32, 7)],
    )
    manifest.quality.notes.append(PLANTED[0])
    with RecordingWriter(tmp_path / "hostile.iotrace") as writer:
        names = {"device_id": [0, 1], "name": [PLANTED[0], PLANTED[3]], "kind": ["disk", "disk"]}
        writer.append("devices", pa.table(names))
        files = {
            "file_id": list(range(6)),
            "path": list(PLANTED),
            "role": ["data", "log"] * 3,
            "device_id": [0, 1] * 3,
        }
        writer.append("files", pa.table(files))
        processes = {"process_id": list(range(6)), "os_process_id": list(range(6)), "name": list(PLANTED)}
        writer.append("processes", pa.table(processes))
        for layer, extra_ns in (("device", 0), ("block", 50_000)):
            issued = np.round(arrival * 1e9).astype(np.int64)
            io = {
                "layer": pa.array([layer] * count),
                "op": pa.array(["read", "write", "write"] * (count // 3)),
                "issued_ns": issued,
                "completed_ns": np.round(completed * 1e9).astype(np.int64) + extra_ns,
                "offset_bytes": np.arange(count) * 8192,
                "size_bytes": np.where(np.arange(count) % 3 == 0, 8192, 4096),
                "device_id": np.arange(count) % 2,
                "file_id": np.arange(count) % 6,
                "process_id": np.arange(count) % 6,
            }
            writer.append("io", pa.table(io))
        return writer.commit(manifest)


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def of(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def test_sweep_report_gives_the_verdict_first(tmp_path, sweep):
    facts = write_report([sweep], tmp_path / "report.html", slo="p95<15ms")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert facts.is_enough is True
    assert facts.sweeps[0].knee.iops.value == pytest.approx(2000, rel=0.1)
    assert "The candidate /dev/sdb carries" in facts.verdict
    assert "its knee lies at" in facts.verdict
    assert "headroom" in facts.verdict
    assert text.index("The candidate /dev/sdb carries") < text.index("<figure>")
    assert facts.path == tmp_path / "report.html"
    assert facts.size_bytes == len(text.encode()) <= 5_000_000


def test_nothing_is_claimed_without_a_sweep(tmp_path, recording):
    facts = write_report([recording], tmp_path / "report.html", slo="p95<15ms")
    assert "its knee" not in facts.verdict
    assert "says nothing of a knee or of headroom" in facts.verdict
    assert facts.recordings[0].objectives[0].is_met is True
    assert facts.sweeps == []


def test_objective_missed_from_the_start_is_not_enough(tmp_path, sweep):
    facts = write_report([sweep], tmp_path / "report.html", slo="p95<100us")
    assert facts.is_enough is False
    assert "already at the lowest load" in facts.verdict


def test_late_generator_gives_no_verdict_on_the_storage(tmp_path):
    random = np.random.default_rng(1)
    writer = SweepWriter(tmp_path / "late.iotrace", title="late", source_uuid=None)
    arrival = simulator.poisson(random, 500, 4000)
    issued = arrival + random.exponential(0.001, len(arrival))
    path = writer.step_path(1)
    step = simulator.write_step(
        path.parent,
        arrival,
        issued + 0.0001,
        scale=1,
        name=path.name.removesuffix(".iotrace"),
        issued_s=issued,
    )
    writer.add(1, step)
    facts = write_report([writer.sweep], tmp_path / "report.html", slo="p95<15ms")
    assert facts.is_enough is None
    assert "No step tells of the storage" in facts.verdict
    assert "not judged: generator late" in (tmp_path / "report.html").read_text("utf-8")


def test_facts_are_json(tmp_path, sweep, recording):
    facts = write_report([sweep, recording], tmp_path / "report.html", slo="p95<15ms")
    data = json.loads(json.dumps(facts.to_dict(), allow_nan=False))
    assert data["sweeps"][0]["knee"]["state"] == "reached"
    assert data["recordings"][0]["description"]["workload_layer"] == "block"
    assert len(data["origins"]) == 7


def test_page_asks_for_nothing_and_runs_two_scripts(tmp_path, sweep, recording):
    write_report([sweep, recording], tmp_path / "report.html", slo="p95<15ms")
    text = (tmp_path / "report.html").read_text("utf-8")
    elements = Elements(text)
    policy = next(
        meta["content"]
        for meta in elements.of("meta")
        if "content" in meta and "default-src" in meta["content"]
    )
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src ('sha256-[^']+' ?){2}\s*;", policy)
    assert all("src" not in script for script in elements.of("script"))
    assert len(elements.of("script")) == 3, "the figures as JSON, Plotly, and our own"
    assert not elements.of("link")
    assert not elements.of("img")
    assert not elements.of("iframe")
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on")]


def test_text_of_a_trace_never_becomes_markup(tmp_path, recording):
    facts = write_report([recording], tmp_path / "report.html", title=PLANTED[1])
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "<script>document." not in text
    assert "<img src=x" not in text
    assert "{{7*7}}" in text, "shown as it is, not computed"
    assert "&lt;img src=x onerror" in text
    assert len(Elements(text).of("script")) == 3
    assert facts.title == PLANTED[1]


def test_every_figure_has_words_and_a_table(tmp_path, sweep, recording):
    write_report([sweep, recording], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    elements = Elements(text)
    charts = [each for each in elements.of("div") if each.get("class") == "chart"]
    assert len(charts) == len(elements.of("figcaption")) == len(elements.of("details")) - 7 >= 7
    assert all(each["role"] == "img" and len(each["aria-label"]) > 30 for each in charts)
    assert all("scope" in head for head in elements.of("th"))
    assert len(elements.of("caption")) == len(elements.of("table"))
    assert len(elements.of("h1")) == 1


def test_json_in_the_page_holds_no_markup():
    value = {"a": "</script><!--", "b": ["&", "\u2028", 1.5]}
    text = str(embedded_json(value))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_labels_are_plain_to_plotly():
    assert (
        label("<b>x</b>\n<a href='javascript:1'>y</a>")
        == "&lt;b&gt;x&lt;/b&gt; &lt;a href='javascript:1'&gt;y&lt;/a&gt;"
    )
    assert len(label("x" * 500)) <= 60


def test_existing_files_are_kept(tmp_path, recording):
    target = tmp_path / "report.html"
    target.write_text("mine")
    with pytest.raises(IotraceError, match="exists already"):
        write_report([recording], target)
    assert target.read_text() == "mine"
    write_report([recording], target, overwrite=True)
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.glob(".report*")] == []


def test_bad_wishes_are_named(tmp_path, recording):
    with pytest.raises(IotraceError, match="nothing to report"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(IotraceError, match="fast"):
        write_report([recording], tmp_path / "report.html", slo="fast")
    with pytest.raises(IotraceError, match="cannot write"):
        write_report([recording], tmp_path / "absent" / "report.html")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_browser_draws_the_charts_and_runs_nothing_planted(tmp_path, sweep, recording):
    # A role outside the vocabulary can only come from a file somebody tampered with; it is drawn in a chart's legend.
    files = pq.read_table(recording.path / "files.parquet")
    roles = pa.array([PLANTED[0], PLANTED[2], "<a href='javascript:1'>z</a>", "data", "data", "log"])
    tampered = files.set_column(files.schema.get_field_index("role"), "role", roles)
    pq.write_table(tampered, recording.path / "files.parquet")
    write_report([sweep, Recording.open(recording.path)], tmp_path / "report.html", title=PLANTED[0])
    profile = tmp_path / "profile"
    finished = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--virtual-time-budget=8000",
            "--dump-dom",
            (tmp_path / "report.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    elements = Elements(finished.stdout)
    drawn = [each for each in elements.of("svg") if "main-svg" in each.get("class", "")]
    charts = [each for each in elements.of("div") if "js-plotly-plot" in each.get("class", "")]
    assert len(charts) == 8
    assert len(drawn) >= 2 * len(charts)
    assert "data-planted" not in elements.of("html")[0]
    assert not [each for each in elements.of("img") if each.get("src") == "x"]
    assert not [each for each in elements.of("a") if "javascript" in str(each)]
    assert len(elements.of("script")) == 3
