"""What results of several ops or jobs add up to, and what of a load is known: never more than is told."""

import pytest

from iotrace.capture.results import fio_json
from iotrace.capture.results.run import OpResult, Run, merged


def test_a_sum_of_which_a_part_is_not_known_is_not_known() -> None:
    parts = [OpResult("read", ios=10, bytes=None, iops=5.0), OpResult("write", ios=20, bytes=40, iops=None)]
    total = merged(parts, "total")
    assert (total.ios, total.bytes, total.iops) == (30, None, None)


def test_a_part_that_did_nothing_takes_nothing_from_the_sum() -> None:
    parts = [OpResult("read", ios=10, bytes=80, iops=5.0), OpResult("write", ios=0)]
    total = merged(parts, "total")
    assert (total.ios, total.bytes, total.iops) == (10, 80, 5.0)


def test_a_flush_moves_no_bytes() -> None:
    run = Run("test", "fio", size_bytes=8192, ops=[OpResult("write", ios=1), OpResult("flush", ios=1)])
    assert [(row["op"], row["size_bytes"]) for row in run.rows(0, 0)] == [("write", 8192), ("flush", None)]


@pytest.mark.parametrize(
    ("options", "outstanding"),
    [
        ({"ioengine": "libaio", "iodepth": "32"}, 32),
        ({"ioengine": "psync", "iodepth": "32"}, 1),
        ({"iodepth": "32"}, None),  # Linux's engine holds 1 of them then, Windows' 32
        ({}, 1),
    ],
)
def test_what_is_outstanding_depends_on_the_engine(options: dict[str, str], outstanding: int | None) -> None:
    run = Run("test", "fio")
    fio_json.load(run, [(options, 1)])
    assert run.outstanding == outstanding
    assert bool(run.notes) is (outstanding is None)
