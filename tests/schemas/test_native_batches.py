"""What native code takes for a record batch (schemas/arrow)."""

import pyarrow as pa
import pytest

from iotrace.replay._engine import Shape

COLUMNS = {
    "at_ns": pa.array([0, 10, 20], pa.int64()),
    "op": pa.array([0, 0, 0], pa.uint8()),
    "is_log": pa.array([0, 0, 0], pa.uint8()),
    "space": pa.array([1, 1, 1], pa.int64()),
    "file_id": pa.array([1, 1, 1], pa.int32()),
    "offset_bytes": pa.array([0, 4096, 8192], pa.int64()),
    "size_bytes": pa.array([4096, 4096, 512], pa.int64()),
}


def test_a_slice_is_taken_from_where_it_begins():
    whole, rest = Shape(), Shape()
    whole.add(pa.record_batch(COLUMNS).slice(1))
    rest.add(_rebuilt())
    assert whole.counts() == rest.counts()


@pytest.mark.parametrize(
    ("thing", "told"),
    [
        ([1, 2], "expected a record batch, got <class 'list'>"),
        (pa.array([1, 2]), "expected a record batch, got an array"),
        (pa.array([{"at_ns": 1}, None]), "expected a record batch, got an array"),
    ],
)
def test_what_is_no_batch_is_refused(thing, told):
    with pytest.raises(TypeError, match=told):
        Shape().add(thing)


def _rebuilt():
    """The same rows in memory of their own."""
    return pa.record_batch(
        {name: pa.array(column.to_pylist()[1:], column.type) for name, column in COLUMNS.items()}
    )
