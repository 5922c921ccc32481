"""The one builder of small recordings: rows as a test writes them down, and what they leave out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter
from iotrace.schemas.run import run_of

Rows = pa.Table | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A table, columns by name (one value stands for a whole column), or a list of rows."""

IO_DEFAULTS: Final = {"layer": "block", "op": "read", "size_bytes": 8192}
SDA: Final = {"device_id": [0], "name": ["sda"], "kind": ["disk"]}


def write_recording(
    path: Path,
    io: Rows = (),
    *,
    tables: Mapping[str, Rows] | None = None,
    defaults: Mapping[str, Any] = IO_DEFAULTS,
    kind: str = "captured",
    title: str = "test",
    clock: Clock | None = None,
    overwrite: bool = False,
    **manifest: Any,
) -> Recording:
    """Write a recording whose table io is ``io``, completed by ``defaults``, and which has ``tables`` besides.

    What else its manifest says is given by name; ``replay`` may be the dictionary that JSON has.
    """
    if isinstance(manifest.get("replay"), dict):
        manifest["replay"] = run_of(manifest["replay"])
    with RecordingWriter(path, overwrite=overwrite) as writer:
        ios = _completed(table_of(io), defaults)
        if ios.num_rows:
            writer.append("io", ios)
        for name, rows in (tables or {}).items():
            writer.append(name, table_of(rows))
        return writer.commit(Manifest(kind, title, clock or Clock(0, 1.0, "test"), **manifest))


def table_of(rows: Rows) -> pa.Table:
    """``rows`` as a table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, Mapping):
        length = max((len(column) for column in rows.values() if not _is_scalar(column)), default=1)
        return pa.table({
            name: pa.array([column] * length) if _is_scalar(column) else column for name, column in rows.items()
        })  # fmt: skip
    names = sorted({name for row in rows for name in row})
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _is_scalar(column: Any) -> bool:
    return column is None or isinstance(column, str | int | float | np.generic)


def _completed(table: pa.Table, defaults: Mapping[str, Any]) -> pa.Table:
    for name, value in defaults.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.array([value] * table.num_rows))
        elif table[name].null_count:
            position = table.column_names.index(name)
            table = table.set_column(position, name, pc.fill_null(table[name], value))
    return table
