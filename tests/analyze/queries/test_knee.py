"""Each query that a knee is found from: a trace of a replay, the question, and the answer worked out by hand."""

import pytest

from iotrace.analyze import library
from iotrace.schemas import IoFlags


@pytest.fixture
def ask(make_recording):
    """Two plain I/Os, one that the replay held back, one that failed, one that never ended, a flush; one device row."""
    data, log = (
        {"op": "read", "file_id": 0, "flags": 0},
        {"op": "write", "file_id": 1, "flags": 0, "size_bytes": 4096},
    )
    recording = make_recording(
        [
            {"intended_ns": 0, "issued_ns": 100, "completed_ns": 1100, **data},
            {"intended_ns": 500, "issued_ns": 500, "completed_ns": 2500, **log},
            {
                **data,
                "intended_ns": 1000,
                "issued_ns": 1900,
                "completed_ns": 2900,
                "flags": int(IoFlags.DELAYED),
            },
            {"intended_ns": 1200, "issued_ns": 1200, "completed_ns": 1300, "error": 5, **data},
            {"intended_ns": 1500, "issued_ns": 1500, "completed_ns": None, **data},
            {
                "intended_ns": 1600,
                "issued_ns": 1600,
                "completed_ns": 1700,
                "op": "flush",
                "size_bytes": 0,
                "flags": 0,
            },
            {"intended_ns": None, "issued_ns": 200, "completed_ns": 1000, "layer": "device", **data},
        ],
        kind="replayed",
    )

    def answer(name, **parameters):
        with library.opened(recording) as connection:
            rows = library.run(connection, name, **parameters).to_pylist()
        return [tuple(row.values()) for row in rows]

    return answer


def test_knee_layers(ask):
    # layer, completed reads and writes, planned ones
    assert ask("knee_layers") == [("block", 4, 4), ("device", 1, 0)]


def test_fifths(ask):
    # The last that was wanted is one that never ended, at 1500: a fifth is 301 ns. Fifth, I/Os, mean response.
    assert ask("fifths", layer="block") == [(0, 1, 1100.0), (1, 1, 2000.0), (3, 1, 1900.0)]


def test_knee_flow(ask):
    # slot, operation, device, file, whether it took over 1,500 ns, wanted, completed, bytes completed
    assert ask("knee_flow", layer="block", start_ns=0, slot_ns=1000, slow_ns=1500) == [
        (0, "read", None, 0, False, 1, 0, 0), (0, "write", None, 1, True, 1, 0, 0),
        (1, "read", None, 0, False, 0, 1, 8192), (1, "read", None, 0, True, 1, 0, 0),
        (2, "read", None, 0, True, 0, 1, 8192), (2, "write", None, 1, True, 0, 1, 4096),
    ]  # fmt: skip


def test_knee_service(ask):
    assert ask("knee_service", layer="block") == [(1000, 2), (2000, 1)]


def test_knee_response(ask):
    assert ask("knee_response", layer="block", start_ns=0, block_ns=1000) == [
        (0, "data", "read", 1100, 1),
        (0, "log", "write", 2000, 1),
        (1, "data", "read", 1900, 1),
        (1, "unattributed", "flush", 100, 1),
    ]


def test_knee_load(ask):
    assert ask("knee_load", layer="block") == [
        # I/Os, errors, bytes, delayed; first wanted, p99 wanted, p99 completed, last wanted
        (3, 1, 20480, 1, 0, 1000, 2900, 1000,
         # response, service, in flight until the last was wanted, lateness p99 of those not held back
         5000.0, 4000.0, 1000.0 + 500 + 0, 100),
    ]  # fmt: skip


def test_knee_layer_latency(ask):
    """Of 2,800 ns with anything under way at the block layer 1,500 ns had one and 1,300 ns two."""
    block, device = ask("knee_layer_latency", start_ns=0, end_ns=10_000)
    assert block == ("block", 4, (1000 + 2000 + 1000 + 100) / 4, pytest.approx((1500 + 2 * 1300) / 2800), 2)
    assert device == ("device", 1, 800, 1, 1)
