"""What a Prometheus is told while a recording is made, read with its own client's parser."""

import math
import re
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from iotrace.schemas import IotraceError, Layer, Op

from .test_recorder import (
    ask,
    fio,
    loop_device,  # noqa: F401 - a fixture
    needs_fio,
    recording_of,
)
from .test_recorder import pytestmark as needs_live_recording

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder is Linux's")

if sys.platform == "linux":
    from iotrace.capture.linux.metrics import BOUNDS_NS, Metrics, is_local, parse_address, serving

READ, WRITE = list(Op).index(Op.READ), list(Op).index(Op.WRITE)
BLOCK, DEVICE = list(Layer).index(Layer.BLOCK), list(Layer).index(Layer.DEVICE)


def metrics_of(*rows, names=("sdb",), layers=("block", "device"), roles=None):
    """Metrics that were given ``rows`` of (device, layer, op, latency in ns, bytes, error)."""
    metrics = Metrics()
    disks = [SimpleNamespace(name=name) for name in names]
    metrics.begin(SimpleNamespace(disks=disks, roles=roles or {}), layers)
    metrics.count(table(rows))
    return metrics


def table(rows):
    device, layer, op, latency, size, error = zip(*rows, strict=True)
    return pa.table(
        {
            "device_id": pa.array(device, pa.int32()),
            "layer": pa.array(layer, pa.int8()),
            "op": pa.array(op, pa.int8()),
            "issued_ns": pa.array([1_000] * len(rows), pa.int64()),
            "completed_ns": pa.array([1_000 + one for one in latency], pa.int64()),
            "size_bytes": pa.array(size, pa.uint32()),
            "error": pa.array(error, pa.int32()),
        }
    )


def samples(text):
    """(name, labels but empty ones) → value."""
    return {
        (sample.name, tuple(sorted(item for item in sample.labels.items() if item[1]))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(found, name, **labels):
    return found[f"iotrace_{name}", tuple(sorted(labels.items()))]


def test_an_io_is_in_every_bucket_from_its_latency_on():
    text = metrics_of(
        (0, BLOCK, READ, 10_000, 8192, 0),
        (0, BLOCK, READ, 10_001, 512, 0),
        (0, BLOCK, READ, 11 * 10**9, 512, 0),
    ).text()
    found = samples(text)
    where = {"device": "sdb", "layer": "block", "op": "read"}
    assert of(found, "io_latency_seconds_bucket", **where, le="1e-05") == 1
    assert of(found, "io_latency_seconds_bucket", **where, le="2e-05") == 2
    assert of(found, "io_latency_seconds_bucket", **where, le="10.0") == 2
    assert of(found, "io_latency_seconds_bucket", **where, le="+Inf") == 3
    assert of(found, "io_latency_seconds_count", **where) == 3
    assert of(found, "io_latency_seconds_sum", **where) == pytest.approx(11 + 20_001e-9, abs=1e-12)
    assert of(found, "io_bytes_total", **where) == 9216
    assert of(found, "io_latency_seconds_count", **where | {"op": "write"}) == 0


def test_devices_layers_and_roles_are_told_apart_and_failed_ios_counted_by_themselves():
    found = samples(
        metrics_of(
            (0, BLOCK, READ, 100, 1, 0),
            (1, DEVICE, WRITE, 100, 2, 0),
            (1, DEVICE, WRITE, 100, 4, 5),
            names=("sdb", 'sd"c'),
            roles={1: ("/dev/sdc", "log")},
        ).text()
    )
    log = {"device": 'sd"c', "role": "log", "layer": "device", "op": "write"}
    assert of(found, "io_bytes_total", device="sdb", layer="block", op="read") == 1
    assert (of(found, "io_bytes_total", **log), of(found, "io_failed_total", **log)) == (2, 1)
    assert of(found, "io_latency_seconds_count", **log) == 1
    assert of(found, "io_latency_seconds_count", **log | {"layer": "block"}) == 0


def test_io_of_no_known_device_is_shown_once_there_is_some():
    metrics = metrics_of((0, BLOCK, READ, 100, 1, 0))
    assert ("device", "") not in {label for _, labels in samples(metrics.text()) for label in labels}
    metrics.count(table([(None, BLOCK, READ, 100, 7, 0)]))
    assert of(samples(metrics.text()), "io_bytes_total", layer="block", op="read") == 7


def test_losses_are_those_that_the_recorder_knows_of():
    metrics = metrics_of((0, BLOCK, READ, 100, 1, 0))
    metrics.note({"events": 9, "events_lost": 3, "ios": 1}, 4096)
    found = samples(metrics.text())
    assert of(found, "events_lost_total") == 3
    assert of(found, "recording_size_bytes") == 4096
    assert of(found, "recorder_cpu_seconds_total") > 0


def test_it_answers_on_this_machine_and_nothing_but_metrics():
    with serving(metrics_of((0, BLOCK, READ, 100, 1, 0)), "0") as url:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url)
        with urllib.request.urlopen(url) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert samples(answer.read().decode())
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url.removesuffix("metrics"))
        port = int(url.rpartition(":")[2].partition("/")[0])
        with (
            pytest.raises(IotraceError, match=f"--metrics 127.0.0.1:{port}: cannot listen there"),
            serving(Metrics(), f"127.0.0.1:{port}"),
        ):
            pass
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def opened(url):
    """A connection that asks for nothing yet."""
    host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_who_connects_often_and_asks_nothing_holds_little_and_keeps_nobody_out(monkeypatch):
    monkeypatch.setattr("iotrace.capture.linux.metrics._SECONDS_TO_ASK", 600)
    monkeypatch.setattr("iotrace.capture.linux.metrics._Handler.timeout", 600)
    before = set(threading.enumerate())
    with serving(metrics_of((0, BLOCK, READ, 10_000, 8192, 0)), "0") as url, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(opened(url)).sendall(b"G")
        assert urllib.request.urlopen(url, timeout=60).status == 200
        for _ in range(600):  # those that were hung up on may just be ending
            if len(set(threading.enumerate()) - before) <= 16 + 1:
                return
            time.sleep(0.1)
    pytest.fail("more than 16 connections are held")


def test_who_asks_a_byte_at_a_time_is_hung_up_on(monkeypatch):
    monkeypatch.setattr("iotrace.capture.linux.metrics._SECONDS_TO_ASK", 1)
    with serving(metrics_of((0, BLOCK, READ, 10_000, 8192, 0)), "0") as url, opened(url) as slow:
        slow.settimeout(0.2)
        for _ in range(100):
            try:
                slow.sendall(b"G")
                if slow.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("it was answered for 20 s")


def test_who_hangs_up_first_leaves_no_traceback(capfd):
    with serving(metrics_of((0, BLOCK, READ, 10_000, 8192, 0)), "0") as url:
        for asked in (b"GET /metrics HTTP/1.0\r\n", b"GET /metrics HTTP/1.0\r\n\r\n") * 5:
            with opened(url) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.sendall(asked)
        assert urllib.request.urlopen(url, timeout=20).status == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "address", ["", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "host.name:1", ":-1"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(IotraceError, match="is no address to listen at"):
        parse_address(address)


def test_only_this_machine_is_local():
    assert parse_address("[::1]:9") == ("::1", 9)
    assert [is_local(one) for one in ("9", "localhost:9", "127.0.0.2:9", "[::1]:9")] == [True] * 4
    assert [is_local(one) for one in ("0.0.0.0:9", "[::]:9", "192.0.2.1:9")] == [False] * 3


@needs_fio
@pytest.mark.parametrize("needs", [pytest.param(None, marks=needs_live_recording)])
def test_the_buckets_hold_the_ios_of_the_recording(needs, loop_device, tmp_path):  # noqa: F811
    metrics = Metrics()
    with recording_of([loop_device], tmp_path / "r.iotrace", metrics=metrics):
        fio(loop_device, "--rw=randrw", "--bs=4k", "--size=64M", "--io_size=8M", "--iodepth=8",
            "--ioengine=libaio", "--fsync=64")  # fmt: skip
    name = Path(loop_device).name
    found = samples(metrics.text())
    rows = ask(
        tmp_path / "r.iotrace",
        """SELECT layer, op, completed_ns - issued_ns, size_bytes FROM io WHERE error = 0""",
    )
    assert len(rows) > 4000
    for layer in ("block", "device"):
        for op in ("read", "write", "flush"):
            where = {"device": name, "layer": layer, "op": op}
            latencies = [row[2] for row in rows if row[:2] == (layer, op)]
            for bound in (*BOUNDS_NS, math.inf):
                le = "+Inf" if bound == math.inf else repr(bound / 1e9)
                counted = of(found, "io_latency_seconds_bucket", **where, le=le)
                assert counted == sum(latency <= bound for latency in latencies)
            assert of(found, "io_latency_seconds_sum", **where) == pytest.approx(sum(latencies) / 1e9)
            assert of(found, "io_bytes_total", **where) == sum(
                row[3] for row in rows if row[:2] == (layer, op)
            )
