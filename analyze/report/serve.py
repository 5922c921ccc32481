"""Serves a report's page from its recordings, which it asks for finer steps as the reader zooms in, to single I/Os.

It listens on 127.0.0.1 only, and answers nobody who does not know the secret in its address: another user of the
machine, or a page elsewhere on the web. A page that makes its name resolve to 127.0.0.1 is told by the header Host.
Nothing is written, answers are bounded, and one request is answered at a time.
"""

import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import duckdb

from iotrace.analyze import library
from iotrace.analyze import slo as slo_module
from iotrace.analyze.units import format_bytes, format_duration_ns
from iotrace.schemas import IotraceError, Recording, Sweep

from .charts_time import COURSE, course_level, read_course
from .page import render
from .plot import LIGHT, SYMBOLS, TimeAxis, number, words
from .write import tell

_ADDRESS: Final = "127.0.0.1"
_STEPS_MAX: Final = 1000
_IOS_MAX: Final = 2000
"""More than this are shown as steps."""
_STEP_MIN_NS: Final = 1000
_SECONDS_TO_READ: Final = 20


@dataclass(frozen=True, slots=True)
class _Open:
    """A recording that a chart over time is drawn of; ``names`` are the chart's traces in their order."""

    recording: Recording
    connection: duckdb.DuckDBPyConnection
    layer: str
    time: TimeAxis
    names: tuple[str, ...]


@contextmanager
def served(
    inputs: Sequence[Recording | Sweep],
    *,
    slo: str | Sequence[slo_module.Objective] | None = None,
    need: float | None = None,
    port: int = 0,
) -> Iterator[tuple[HTTPServer, str]]:
    """A server of the report on ``inputs``, and its whole address; whoever gets it calls ``serve_forever``.

    Raises `IotraceError` as `write_report` does, and if the port cannot be had.
    """
    facts, sections = tell(inputs, slo=slo, need=need)
    recordings = [one for one in inputs if isinstance(one, Recording)]
    charts = {chart.group: chart for section in sections for chart in section.charts if chart.name == COURSE}
    with ExitStack() as stack:
        opened: dict[str, _Open] = {}
        for place, (recording, told) in enumerate(zip(recordings, facts.recordings, strict=True), 1):
            chart, described = charts.get(f"r{place}"), told.description
            if chart is None or described.workload_layer is None:
                continue
            opened[f"r{place}"] = _Open(
                recording,
                stack.enter_context(library.opened(recording)),
                described.workload_layer,
                TimeAxis(
                    described.window_start_ns,
                    max(described.window_ns, 1),
                    recording.manifest.clock.start_utc_ns,
                ),
                tuple(trace["name"] for trace in chart.figure["data"]),
            )
        page = render(facts, sections, is_served=True).encode()
        secret = secrets.token_urlsafe(24)
        try:
            server = _Server((_ADDRESS, port), _handler(page, opened, secret))
        except OSError as problem:
            raise IotraceError(
                f"port {port} of {_ADDRESS} is not available: {problem.strerror}",
                hint="leave --port out to have a free one chosen",
            ) from problem
        with server:
            yield server, f"http://{_ADDRESS}:{server.server_port}/{secret}/"


class _Server(HTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library calls it
        """A reader that went away is no fault; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _handler(page: bytes, opened: dict[str, _Open], secret: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS_TO_READ
        server_version = "iotrace"
        sys_version = ""

        def do_GET(self) -> None:
            """The page, or what it asks for."""
            assert isinstance(self.server, HTTPServer)
            try:
                address = urlsplit(self.path)
            except ValueError:
                address = urlsplit("")
            _, given, *rest = address.path.split("/", 2) if address.path.count("/") >= 2 else ("", "", "")
            hosts = {f"{name}:{self.server.server_port}" for name in (_ADDRESS, "localhost")}
            is_known = secrets.compare_digest(given.encode(), secret.encode())
            if self.headers.get("Host") not in hosts or not is_known:
                self._answer(403, "text/plain", b"This is not for you.\n")
            elif rest == [""]:
                self._answer(200, "text/html; charset=utf-8", page)
            elif rest == ["course"]:
                asked = parse_qs(address.query)
                try:
                    body = _course(opened[asked["group"][0]], float(asked["low"][0]), float(asked["high"][0]))
                except (KeyError, ValueError, OverflowError):
                    self._answer(400, "text/plain", b"There is no such stretch.\n")
                    return
                self._answer(200, "application/json", json.dumps(body, allow_nan=False).encode())
            else:
                self._answer(404, "text/plain", b"There is nothing here.\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"),
                ("X-Content-Type-Options", "nosniff"),
                ("X-Frame-Options", "DENY"),
                ("Cross-Origin-Resource-Policy", "same-origin"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
            """Say nothing: addresses hold the secret."""

    return Handler


def _course(one: _Open, low: float, high: float) -> dict[str, Any]:
    """A stretch of the time axis in at most `_STEPS_MAX` steps, and its I/Os where they are few.

    Raises ``ValueError`` if there is no such stretch.
    """
    first = max(round(one.time.time_ns(low)), one.time.start_ns)
    last = min(round(one.time.time_ns(high)), one.time.start_ns + one.time.window_ns)
    if first >= last:
        raise ValueError("nothing between them")
    length = max(last - first, _STEP_MIN_NS)
    course = read_course(
        one.recording, one.layer, (first, length), max(-(-length // _STEPS_MAX), _STEP_MIN_NS)
    )
    level = None
    if course is not None:
        found = course_level(course, one.time, one.names)
        level = {
            "low": found.low,
            "high": found.high,
            "x0": found.x0,
            "dx": found.dx,
            "traces": found.traces,
            "values": found.values,
        }
    rows = library.run(
        one.connection,
        "report_ios",
        layer=one.layer,
        start_ns=first,
        end_ns=first + length,
        row_limit=_IOS_MAX + 1,
    ).to_pylist()
    return {"level": level, "singles": _singles(one, rows) if len(rows) <= _IOS_MAX else []}


def _singles(one: _Open, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A trace of points for each operation, one for every I/O."""
    found = []
    for op in ("read", "write"):
        some = [row for row in rows if row["op"] == op]
        if not some:
            continue
        found.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"single {op}s",
                "yaxis": "y",
                "x": [one.time.at(row["begun_ns"]) for row in some],
                "y": [number(row["latency_ns"] / 1e6) for row in some],
                "marker": {"color": LIGHT[op], "symbol": SYMBOLS[op], "size": 6, "opacity": 0.7},
                "customdata": [words(_told(row)) for row in some],
                "hovertemplate": "%{customdata}",
            }
        )
    return found


def _told(row: dict[str, Any]) -> str:
    """One I/O in words: how long, how much, where."""
    at = "" if row["offset_bytes"] is None else f" at byte {row['offset_bytes']:,}"
    file = "" if row["path"] is None else f" of {row['path']}"
    return f"{format_duration_ns(row['latency_ns'])}, {format_bytes(row['size_bytes'])}{at}{file}"
