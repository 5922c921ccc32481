"""What the recorder sees, for a Prometheus to scrape while it records: histograms of latency, rates, losses.

In OpenMetrics' text (version 1.0.0). Counters run from the recorder's start, whatever ``--ring`` has dropped since.
"""

import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.schemas import IotraceError, Layer, Op

from .devices import Selection

BOUNDS_NS: Final = (*(step * 10**decade for decade in range(4, 10) for step in (1, 2, 5)), 10**10)
"""Upper bounds of the histograms' buckets, from 10 µs to 10 s. The last bucket is open."""

_CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_CONNECTIONS_MAX: Final = 16
_SECONDS_TO_ASK: Final = 10
_LAYERS: Final = tuple(Layer)
_OPS: Final = tuple(Op)
_LOSSES: Final = {
    "events": "Block events that the kernel delivered.",
    "events_lost": "Block events lost for want of room in the kernel's buffers, or too close to such a gap.",
    "damaged_pages": "Pages of the kernel's buffers that could not be read.",
    "unpaired_issues": "I/Os that began and were not seen to end.",
    "unpaired_completions": "I/Os that ended and were not seen to begin.",
}

IntArray = np.ndarray[Any, np.dtype[np.int64]]


class Metrics:
    """Counts of the I/Os that pass through the recorder. One thread adds to it, any may read `text`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: list[tuple[str, str]] = []
        self._layers: list[Layer] = []
        self._statistics: dict[str, int] = {}
        self._size_bytes = 0
        self._latencies = np.zeros((0, 0), np.int64)
        self._sum_ns, self._bytes, self._failed = (np.zeros(0, np.int64) for _ in range(3))

    def begin(self, selection: Selection, layers: Sequence[str]) -> None:
        """Name what is recorded; until then `text` has no series."""
        roles = {position: str(role) for position, (_, role) in selection.roles.items()}
        devices = [(disk.name, roles.get(position, "")) for position, disk in enumerate(selection.disks)]
        with self._lock:
            # The last stands for I/O whose device the layer does not know.
            self._devices = [*devices, ("", "")]
            self._layers = [layer for layer in _LAYERS if layer in layers]
            groups = len(self._devices) * len(_LAYERS) * len(_OPS)
            self._latencies = np.zeros((groups, len(BOUNDS_NS) + 1), np.int64)
            self._sum_ns, self._bytes, self._failed = (np.zeros(groups, np.int64) for _ in range(3))

    def count(self, io: pa.Table) -> None:
        """Add rows as the recorder hands them on: words as positions in their lists."""
        if not io.num_rows:
            return
        device, layer, op, error, size, issued, completed = (
            _numbers(io[name])
            for name in ("device_id", "layer", "op", "error", "size_bytes", "issued_ns", "completed_ns")
        )
        device = np.where((device < 0) | (device >= len(self._devices) - 1), len(self._devices) - 1, device)
        group = (device * len(_LAYERS) + layer) * len(_OPS) + op
        groups, buckets = self._latencies.shape
        is_good = error == 0
        good, latency = group[is_good], np.maximum(completed - issued, 0)[is_good]
        bucket = np.searchsorted(np.array(BOUNDS_NS), latency)  # a bound belongs to its bucket
        latencies = np.bincount(good * buckets + bucket, minlength=groups * buckets).reshape(groups, buckets)
        with self._lock:
            self._latencies += latencies
            # Sums of doubles are exact here: a batch's nanoseconds and bytes stay far below 2**53.
            self._sum_ns += np.bincount(good, latency, groups).astype(np.int64)
            self._bytes += np.bincount(good, size[is_good], groups).astype(np.int64)
            self._failed += np.bincount(group[~is_good], minlength=groups)

    def note(self, statistics: Mapping[str, int], size_bytes: int) -> None:
        """Take over what `BlockTrace.statistics` counts, and the size of the recording so far."""
        with self._lock:
            self._statistics, self._size_bytes = dict(statistics), size_bytes

    def text(self) -> str:
        """All of it as OpenMetrics."""
        with self._lock:
            shown = list(self._shown_groups())
            latencies, sums = self._latencies.cumsum(axis=1), self._sum_ns.copy()
            moved, failed = self._bytes.copy(), self._failed.copy()
            statistics, size_bytes = self._statistics, self._size_bytes
        bounds = [repr(bound / 1e9) for bound in BOUNDS_NS] + ["+Inf"]
        lines = _head(
            "io_latency_seconds",
            "histogram",
            "Time from an I/O's start to its end, as its layer sees it; failed I/Os are not in it.",
            unit="seconds",
        )
        for group, labels in shown:
            lines += [
                f'iotrace_io_latency_seconds_bucket{{{labels},le="{bound}"}} {count}'
                for bound, count in zip(bounds, latencies[group], strict=True)
            ]
            lines.append(f"iotrace_io_latency_seconds_count{{{labels}}} {latencies[group][-1]}")
            lines.append(f"iotrace_io_latency_seconds_sum{{{labels}}} {int(sums[group]) / 1e9!r}")
        lines += _head("io_bytes", "counter", "Bytes of I/Os that ended well.", unit="bytes")
        lines += [f"iotrace_io_bytes_total{{{labels}}} {moved[group]}" for group, labels in shown]
        lines += _head("io_failed", "counter", "I/Os that ended with an error.")
        lines += [f"iotrace_io_failed_total{{{labels}}} {failed[group]}" for group, labels in shown]
        for name, meaning in _LOSSES.items():
            if name in statistics:
                lines += [*_head(name, "counter", meaning), f"iotrace_{name}_total {statistics[name]}"]
        lines += _head("recording_size_bytes", "gauge", "Size of the recording on disk.", unit="bytes")
        lines.append(f"iotrace_recording_size_bytes {size_bytes}")
        lines += _head("recorder_cpu_seconds", "counter", "Processor time the recorder took.", unit="seconds")
        lines.append(f"iotrace_recorder_cpu_seconds_total {time.process_time()!r}")
        return "\n".join([*lines, "# EOF", ""])

    def _shown_groups(self) -> Iterator[tuple[int, str]]:
        """Position and labels of every device, recorded layer and operation; unknown devices where there are any."""
        for device, (name, role) in enumerate(self._devices):
            for layer in self._layers:
                for op, word in enumerate(_OPS):
                    group = (device * len(_LAYERS) + _LAYERS.index(layer)) * len(_OPS) + op
                    if name or self._latencies[group].any() or self._failed[group]:
                        labels = {"device": name, "role": role, "layer": layer, "op": word}
                        yield group, ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


@contextmanager
def serving(metrics: Metrics, address: str) -> Iterator[str]:
    """Answer at ``address`` (PORT or HOST:PORT; 0 for any free port) while the block runs; yields the URL.

    Without a host it is this machine only. Raises `IotraceError` for an address that is none or is taken.
    """
    host, port = parse_address(address)
    try:
        server = _Server((host, port), metrics)
    except OSError as problem:
        raise IotraceError(
            f"--metrics {address}: cannot listen there: {problem.strerror or problem}",
            hint="take another port; ss --listening --tcp shows those in use",
        ) from problem
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parse_address(address: str) -> tuple[str, int]:
    """Host and port. Raises `IotraceError` if it is neither PORT nor HOST:PORT."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdecimal() or int(port) > 0xFFFF or not _is_host(host):
        raise IotraceError(
            f"--metrics '{address}' is no address to listen at", hint="for example --metrics 127.0.0.1:9464"
        )
    return ("127.0.0.1" if host == "localhost" else host), int(port)


def is_local(address: str) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(parse_address(address)[0]).is_loopback


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


class _Server(ThreadingHTTPServer):
    """Takes no more of the recorder than a few threads and descriptors, whoever connects and however slowly."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], metrics: Metrics) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.metrics = metrics
        self._lock = threading.Lock()
        self._began_s: dict[socket.socket, float] = {}
        """Connections that are answered, the longest open first."""
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library calls it
        """Answer it in a thread; of too many connections the oldest must go, as a scrape takes no time."""
        with self._lock:
            while len(self._began_s) >= _CONNECTIONS_MAX:
                self._hang_up(next(iter(self._began_s)))
            self._began_s[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Hang up on who is not done in time: each byte begins the handler's own timeout anew."""
        with self._lock:
            too_old_s = time.monotonic() - _SECONDS_TO_ASK
            for request in [one for one, began_s in self._began_s.items() if began_s < too_old_s]:
                self._hang_up(request)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as the library calls it
        """Close it: it is answered, or its reader is gone."""
        with self._lock:
            self._began_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library calls it
        """A reader that went away is no fault; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def _hang_up(self, request: socket.socket) -> None:
        """End what its thread waits for, which then closes it."""
        del self._began_s[request]
        with suppress(OSError):  # it may be gone already
            request.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        # HTTPServer's asks a name server for this host's name, which may take long.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS_TO_ASK
    """Whoever connects and says nothing is let go."""

    def do_GET(self) -> None:
        """Answer /metrics; nothing else is here."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "metrics are at /metrics")
            return
        body = self.server.metrics.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A scrape every few seconds is no news."""


def _numbers(column: pa.ChunkedArray) -> IntArray:
    """As 64-bit integers, -1 where there is nothing."""
    return (
        np.asarray(column.fill_null(-1)).astype(np.int64)
        if column.null_count
        else np.asarray(column).astype(np.int64)
    )


def _head(name: str, kind: str, meaning: str, *, unit: str = "") -> list[str]:
    name = f"iotrace_{name}"
    lines = [f"# TYPE {name} {kind}", f"# HELP {name} {meaning}"]
    return [lines[0], f"# UNIT {name} {unit}", lines[1]] if unit else lines


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
