"""The page that is served: to nobody but who has its address, from 127.0.0.1, bounded, down to single I/Os."""

import http.client
import json
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest

from iotrace.analyze.report.serve import served
from iotrace.schemas import IotraceError

from .browser import CHROMIUM, browser

MS = 1_000_000


@pytest.fixture
def steady(make_recording):
    """100 reads a second of 8 KiB for 60 s, each 25 ms long."""
    issued = np.arange(6000) * 10 * MS
    return make_recording(
        {"issued_ns": issued, "completed_ns": issued + 25 * MS, "file_id": np.zeros(6000, int)},
        tables={"files": [{"file_id": 0, "path": "<b>sales</b>.mdf", "role": "data", "device_id": 0}]},
    )


@contextmanager
def running(recording):
    with served([recording]) as (server, address):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server, address
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def test_it_answers_whoever_has_its_address_and_nobody_else(steady):
    with running(steady) as (server, address):
        assert server.server_address[0] == "127.0.0.1"
        path = urlsplit(address).path
        assert len(path) >= 32, "nobody guesses it"
        status, headers, body = ask(server, path)
        assert status == 200
        assert headers["Cache-Control"] == "no-store"
        assert b"connect-src 'self'; base-uri 'none'" in body
        for other in ("/", "/x/", f"{path[:-2]}/", "/course?group=r1&low=0&high=1", "//", "http://[/"):
            assert ask(server, other)[0] == 403, other
        for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", ""):
            assert ask(server, path, host=host or "localhost")[0] == 403, "a name that was made to point here"
        assert ask(server, f"{path}../../etc/passwd")[0] == 404
        assert ask(server, path, method="POST")[0] == 501
    with pytest.raises(ConnectionRefusedError):
        ask(server, path)


def test_a_stretch_comes_in_steps_and_as_single_ios_where_they_are_few(steady):
    with running(steady) as (server, address):
        path = urlsplit(address).path
        status, _, body = ask(server, f"{path}course?group=r1&low=10&high=11")
        assert status == 200
        found = json.loads(body)
        assert found["level"]["dx"] == pytest.approx(0.001)
        (reads,) = found["singles"]
        assert len(reads["x"]) == 100
        assert set(reads["y"]) == {25}
        assert reads["x"][:2] == [10, 10.01]
        assert "&lt;b&gt;sales&lt;/b&gt;.mdf" in reads["customdata"][0]
        whole = json.loads(ask(server, f"{path}course?group=r1&low=-5&high=1e6")[2])
        assert whole["singles"] == [], "6,000 are too many"
        assert max(len(values) for values in whole["level"]["values"]) <= 1000
        for wrong in ("group=r2&low=0&high=1", "group=r1&low=nan&high=1", "group=r1&low=5&high=4", "group=r1", "",
                      "group=r1&low=1e400&high=inf"):  # fmt: skip
            assert ask(server, f"{path}course?{wrong}")[0] == 400, wrong


def test_a_port_that_is_taken_is_named(steady):
    with running(steady) as (server, _):
        taken = server.server_port
        with pytest.raises(IotraceError, match=f"port {taken} of 127"), served([steady], port=taken):
            pass


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed")
def test_a_browser_zooms_to_single_ios(steady):
    with running(steady) as (_, address), browser() as page:
        page.look()
        page.visit(address)
        page.wait_for("document.documentElement.dataset.ready")
        page.evaluate("document.querySelectorAll('details.rest').forEach(one => { one.open = true; })")
        chart = "document.querySelector(\".chart[aria-label^='Latency, load']\")"
        page.evaluate(f"{chart}.scrollIntoView()")
        page.wait_for(f"{chart}.querySelector('.nsewdrag')")
        left, top, right = page.evaluate(
            f"(() => {{ const b = {chart}.querySelector('.nsewdrag').getBoundingClientRect();"
            " return [b.left, b.top, b.right]; })()"
        )
        page.drag(left + (right - left) / 2, top + 40, left + (right - left) / 2 + 30, top + 42)
        page.wait_for(f"{chart}.data.some(trace => trace.name === 'single reads')")
        shown = page.evaluate(f"{chart}.data.find(trace => trace.name === 'single reads').x.length")
        low, high = page.evaluate(f"{chart}._fullLayout.xaxis.range")
        assert shown == pytest.approx((high - low) * 100, abs=2)
        assert page.complaints == []
        assert {url.startswith(address) for url in page.requests} == {True}
