"""A real Prometheus scrapes a recorder for a minute: its answers are those of the recording made meanwhile."""

import bisect
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrace.capture.linux import Metrics, serving
from iotrace.capture.linux.metrics import BOUNDS_NS

from .test_recorder import (
    ask,
    fio,
    loop_device,  # noqa: F401 - a fixture
    needs_fio,
    pytestmark,  # noqa: F401 - its needs are ours
    recording_of,
)

MONITORING = Path(__file__).parents[3] / "tools" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
SECONDS = 60


def expressions():
    """What the dashboard's panels ask, with Grafana's own words filled in."""
    words = {"$__rate_interval": "15s", "$device": ".*", "$layer": ".*", "$op": ".*"}
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    for word, value in words.items():
        found = [expression.replace(word, value) for expression in found]
    assert not [expression for expression in found if "$" in expression]
    return found


def test_the_dashboard_asks_for_what_is_served():
    metrics = Metrics()
    metrics.note(dict.fromkeys(("events", "events_lost"), 0), 0)
    served = set(re.findall(r"# TYPE (\w+)", metrics.text()))
    asked = {name for expression in expressions() for name in re.findall(r"iotrace_\w+", expression)}
    assert {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in asked} <= served
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) > 5


@contextmanager
def prometheus(folder, url):
    """One that scrapes ``url`` each second; yields a function that asks it."""
    config = (MONITORING / "prometheus.yml").read_text()
    config = config.replace("5s", "1s").replace("127.0.0.1:9464", urllib.parse.urlsplit(url).netloc)
    (folder / "prometheus.yml").write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
    process = subprocess.Popen(command)

    def answer(expression):
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=30) as told:
            return json.load(told)["data"]["result"]

    try:
        for _ in range(300):
            try:
                answer("1")
                break
            except OSError:
                time.sleep(0.1)
        yield answer
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@needs_fio
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_its_quantiles_are_the_recordings_within_a_bucket(loop_device, tmp_path):  # noqa: F811
    metrics = Metrics()
    with serving(metrics, "0") as url, prometheus(tmp_path, url) as answer:
        with recording_of([loop_device], tmp_path / "r.iotrace", metrics=metrics, seconds=300):
            fio(loop_device, "--rw=randrw", "--bs=8k", "--size=200M", "--iodepth=4", "--ioengine=libaio",
                "--rate_iops=400,400", "--time_based", f"--runtime={SECONDS}")  # fmt: skip
            rates = answer("sum(rate(iotrace_io_latency_seconds_count{layer='block'}[30s]))")
            drawn = {expression: answer(expression) for expression in expressions()}
        time.sleep(3)  # one more scrape, after the last I/O
        assert answer("min(count_over_time(up[2m]))")[0]["value"][1] != "0"
        assert answer("min_over_time(up[30s])")[0]["value"][1] == "1"
        rows = ask(
            tmp_path / "r.iotrace", "SELECT layer, op, completed_ns - issued_ns FROM io WHERE error = 0"
        )
        for layer in ("block", "device"):
            for op in ("read", "write"):
                latencies = sorted(latency for *kind, latency in rows if kind == [layer, op])
                where = f'layer="{layer}",op="{op}"'
                count = answer(f"iotrace_io_latency_seconds_count{{{where}}}")[0]["value"][1]
                assert int(count) == len(latencies) > 10_000
                for share in (0.5, 0.9, 0.99, 0.999):
                    told = answer(
                        f"histogram_quantile({share}, iotrace_io_latency_seconds_bucket{{{where}}})"
                    )
                    estimate = float(told[0]["value"][1]) * 1e9
                    exact = latencies[max(round(share * len(latencies)) - 1, 0)]
                    place = bisect.bisect_left(BOUNDS_NS, exact)
                    below = BOUNDS_NS[place - 1] if place else 0
                    print(
                        f"{layer} {op} {share}: Prometheus {estimate / 1e3:.1f} µs, recording {exact / 1e3:.1f} µs"
                    )
                    assert below * 0.999 <= estimate <= BOUNDS_NS[place] * 1.001
    assert float(rates[0]["value"][1]) == pytest.approx(800, rel=0.1)  # as fio was told
    assert all(drawn.values()), drawn
