"""Arrow schemas of the tables of a recording, and the cast that brings a batch into them.

Times are int64 nanoseconds since the recording's start (which may be exceeded backwards: an I/O already in flight
when recording began has a negative ``issued_ns``). Units are the last word of every name.
"""

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from .vocabulary import DeviceKind, IoFlags, Kind, Layer, Op, Role

FORMAT_VERSION: Final = 1

_WORDS: Final[dict[str, list[str]]] = {
    "layer": list(Layer),
    "op": list(Op),
    "role": list(Role),
    "device_kind": list(DeviceKind),
}
_WORD = pa.dictionary(pa.int8(), pa.string())


def _field(name: str, type_: pa.DataType, meaning: str, *, null: bool = False, words: str = "") -> pa.Field:
    metadata = {"meaning": meaning} | ({"words": words} if words else {})
    return pa.field(name, type_, nullable=null, metadata=metadata)


IO: Final = pa.schema(
    [
        _field("layer", _WORD, "the layer whose clock this row shows", words="layer"),
        _field("op", _WORD, "what was asked of the storage", words="op"),
        _field("intended_ns", pa.int64(), "when a replay meant to issue it", null=True),
        _field("issued_ns", pa.int64(), "start of this layer's clock"),
        _field(
            "completed_ns", pa.int64(), "end of this layer's clock; null if the source has none", null=True
        ),
        _field("offset_bytes", pa.uint64(), "on the device (block, device) or in the file", null=True),
        _field("size_bytes", pa.uint32(), "bytes asked for; 0 for a flush"),
        _field("device_id", pa.int32(), "row of devices", null=True),
        _field("file_id", pa.int32(), "row of files", null=True),
        _field("process_id", pa.int32(), "row of processes; not the operating system's number", null=True),
        _field("thread_id", pa.int32(), "the operating system's thread number", null=True),
        _field("flags", pa.uint32(), "bits of io_flags"),
        _field("error", pa.int32(), "0, or the operating system's error number"),
        _field("copy", pa.uint16(), "which superposed copy of the workload a replay took it from"),
    ]
)

DEVICES: Final = pa.schema(
    [
        _field("device_id", pa.int32(), "key"),
        _field("name", pa.string(), "as the source names it: sda, 8:0, disk 0, a replay target's path"),
        _field("kind", _WORD, "disk, partition or file", words="device_kind"),
        _field("parent_device_id", pa.int32(), "the disk a partition lies on", null=True),
        _field("start_bytes", pa.uint64(), "where on its disk a partition starts", null=True),
        _field("size_bytes", pa.uint64(), "capacity", null=True),
        _field("logical_block_bytes", pa.uint32(), "smallest unit of transfer", null=True),
        _field("physical_block_bytes", pa.uint32(), "unit the medium writes", null=True),
        _field("mount", pa.string(), "drive letter or mount point", null=True),
        _field("filesystem", pa.string(), "NTFS, xfs, …", null=True),
        _field("model", pa.string(), "vendor's name for it", null=True),
        _field("write_cache", pa.bool_(), "whether a volatile write cache is on", null=True),
    ]
)

FILES: Final = pa.schema(
    [
        _field("file_id", pa.int32(), "key"),
        _field("path", pa.string(), "path as the recorded system shows it"),
        _field("role", _WORD, "what it is to the database", words="role"),
        _field("database", pa.string(), "database it belongs to", null=True),
        _field("device_id", pa.int32(), "row of devices", null=True),
        _field("size_bytes", pa.uint64(), "size at the end of the recording", null=True),
    ]
)

PROCESSES: Final = pa.schema(
    [
        _field("process_id", pa.int32(), "key; numbers that the system used twice get two rows"),
        _field("os_process_id", pa.int64(), "the operating system's number"),
        _field("name", pa.string(), "image name without path", null=True),
        _field("command_line", pa.string(), "always null: command lines hold passwords", null=True),
        _field("os_parent_process_id", pa.int64(), "the parent's operating system number", null=True),
        _field("started_ns", pa.int64(), "null if it ran before the recording", null=True),
        _field("ended_ns", pa.int64(), "null if it outlived the recording", null=True),
    ]
)

WAITS: Final = pa.schema(
    [
        _field("at_ns", pa.int64(), "end of the wait"),
        _field("wait_type", pa.string(), "as SQL Server names it"),
        _field("duration_ns", pa.int64(), "whole wait"),
        _field("signal_ns", pa.int64(), "the part spent waiting for a processor", null=True),
        _field("session", pa.int32(), "session id", null=True),
        _field("database", pa.string(), "database name", null=True),
    ]
)

COUNTERS: Final = pa.schema(
    [
        _field("at_ns", pa.int64(), "end of the interval the value stands for"),
        _field("interval_ns", pa.int64(), "length of that interval; null for an instant", null=True),
        _field("source", pa.string(), "host or file the counter came from"),
        _field("object", pa.string(), "counter object: PhysicalDisk, diskstats, …"),
        _field("instance", pa.string(), "instance within the object", null=True),
        _field("counter", pa.string(), "counter name"),
        _field("value", pa.float64(), "cooked value"),
        _field("unit", pa.string(), "unit of the value", null=True),
        _field("layer", pa.string(), "layer it speaks of, array included; null where it has none", null=True),
        _field("metric", pa.string(), "common name across sources: read_latency_ns, iops, …", null=True),
    ]
)

MARKERS: Final = pa.schema(
    [
        _field("at_ns", pa.int64(), "when it began"),
        _field("duration_ns", pa.int64(), "how long it lasted; null for an instant", null=True),
        _field("kind", pa.string(), "checkpoint, backup, log_flush, autogrow, note"),
        _field("text", pa.string(), "details in the source's words", null=True),
    ]
)

_QUANTILE = pa.struct([pa.field("quantile", pa.float64()), pa.field("latency_ns", pa.int64())])
_BIN = pa.struct([pa.field("latency_ns", pa.int64()), pa.field("ios", pa.int64())])

RESULTS: Final = pa.schema(
    [
        _field("run", pa.int32(), "one run of a test: all its rows have this number"),
        _field("test", pa.string(), "the tool's or the user's name for the run: job, access specification, file"),
        _field("tool", pa.string(), "what ran it: diskspd, fio, hammerdb, sqlio, iometer, vdbench"),
        _field("tool_version", pa.string(), "as the tool prints it", null=True),
        _field("target", pa.string(), "what was tested: files, devices, or the database's kind", null=True),
        _field("started_ns", pa.int64(), "start of the measured time; null if not known", null=True),
        _field("duration_ns", pa.int64(), "length of the measured time, warm-up left out", null=True),
        _field("threads", pa.int32(), "workers in all", null=True),
        _field("outstanding", pa.int32(), "I/Os that a closed loop keeps in flight, in all", null=True),
        _field("virtual_users", pa.int32(), "sessions that run transactions", null=True),
        _field("offered_iops", pa.float64(), "rate asked for, all ops; null where it was unlimited", null=True),
        _field("op", pa.string(), "read, write, flush, discard; total; or a transaction's name"),
        _field("size_bytes", pa.uint64(), "bytes of one I/O where all have the same", null=True),
        _field("access", pa.string(), "random, sequential or mixed", null=True),
        _field("ios", pa.int64(), "I/Os completed", null=True),
        _field("bytes", pa.int64(), "bytes transferred", null=True),
        _field("iops", pa.float64(), "I/Os completed per second", null=True),
        _field("iops_stddev", pa.float64(), "of the rates of its intervals", null=True),
        _field("iops_intervals", pa.int32(), "how many intervals that is", null=True),
        _field("bytes_per_second", pa.float64(), "bytes transferred per second", null=True),
        _field("transactions", pa.int64(), "transactions completed", null=True),
        _field("transactions_per_minute", pa.float64(), "TPM, as the tool counts for that database", null=True),
        _field("new_orders_per_minute", pa.float64(), "NOPM", null=True),
        _field("errors", pa.int64(), "I/Os or transactions that failed", null=True),
        _field(
            "latency_clock",
            pa.string(),
            "what latencies run from and to: service (issue to completion), total (with the time to submit), "
            "transaction; null where there are none",
            null=True,
        ),
        _field("latency_ns_mean", pa.float64(), "mean latency", null=True),
        _field("latency_ns_min", pa.int64(), "least latency", null=True),
        _field("latency_ns_max", pa.int64(), "greatest latency", null=True),
        _field("latency_ns_stddev", pa.float64(), "its standard deviation", null=True),
        _field("quantiles", pa.list_(_QUANTILE), "as the tool gives them, ascending; quantile 0.99 is p99", null=True),
        _field("histogram", pa.list_(_BIN), "the tool's bins: fio's by their middle, Iometer's by the end", null=True),
        _field("command", pa.string(), "command line or settings in the tool's words", null=True),
    ]
)  # fmt: skip
"""What another tool's test measured: one row for each op of each run.

Every run of I/O has one row with op ``total``: as the tool printed it, else counts and rates added up over its ops; it
then has quantiles only where one op did all I/O or the tool gives its histogram. A run of transactions has its NOPM and
TPM in ``total`` and a row for each transaction that was profiled. Of ``outstanding``, ``virtual_users`` and
``offered_iops`` what is set says what the load was. Figures that have no column here are rows of ``counters``.
"""

TABLES: Final[dict[str, pa.Schema]] = {
    "io": IO,
    "devices": DEVICES,
    "files": FILES,
    "processes": PROCESSES,
    "waits": WAITS,
    "counters": COUNTERS,
    "markers": MARKERS,
    "results": RESULTS,
}

OPTIONAL_TABLES: Final = frozenset({"results"})
"""Tables that a recording has only where it has rows for them."""
KEYS: Final = {"devices": "device_id", "files": "file_id", "processes": "process_id"}
"""Tables whose rows others name, and the column that they name them by."""
REFERENCES: Final = {key: table for table, key in KEYS.items()} | {"parent_device_id": "devices"}
"""Columns that name a row of another table."""
TIME_COLUMNS: Final = frozenset(
    {"intended_ns", "issued_ns", "completed_ns", "started_ns", "ended_ns", "at_ns"}
)
"""Columns that are moments on the recording's clock."""
MOMENT_NS_MAX: Final = 1 << 62
"""146 years from the start of a recording: no moment of it lies as far, and twice as much is still a whole number."""

KEY_MAX: Final = (1 << 24) - 1
"""Rows that others name are numbered from 0: answers keep a place for each number up to the greatest."""

_ZERO_WHEN_ABSENT: Final = frozenset({"flags", "error", "copy"})
_NEVER_KEPT: Final = frozenset({"command_line"})
"""Columns that earlier versions wrote and that no recording gets any more, whatever is brought for them."""


def conform(data: pa.Table | pa.RecordBatch, table_name: str) -> pa.Table:
    """Bring ``data`` into the schema of ``table_name``.

    Columns may come in any order; absent nullable ones become null, absent ``flags``, ``error`` and ``copy`` become 0.
    What may not be kept becomes null, too. Word columns may hold strings or integer positions in the word list.
    Integers are narrowed only if every value fits. Raises ``ValueError`` for an unknown or missing column, a value that
    does not fit, an unknown word, or a null where none may be.
    """
    schema = TABLES[table_name]
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    unknown = set(table.column_names) - set(schema.names)
    if unknown:
        raise ValueError(f"{table_name} has no column {', '.join(sorted(unknown))}")
    columns = [_conform_column(table, field, table_name) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def misfit(schema: pa.Schema, table_name: str) -> str | None:
    """What keeps a file with ``schema`` from being read as the table ``table_name``; None if nothing does.

    Whole numbers may be wider or narrower, and words plain text.
    """
    for field in TABLES.get(table_name, ()):
        if field.name not in schema.names:
            return f"it has no column {field.name}"
        found = schema.field(field.name).type
        if found != field.type and (_kind(found) is None or _kind(found) != _kind(field.type)):
            return f"its column {field.name} is {str(found)[:60]}, not {field.type}"
    return None


def _kind(type_: pa.DataType) -> str | None:
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return "text"
    if pa.types.is_dictionary(type_):
        return None
    return "whole number" if pa.types.is_integer(type_) else "number" if pa.types.is_floating(type_) else None


def _conform_column(table: pa.Table, field: pa.Field, table_name: str) -> pa.ChunkedArray:
    if field.name not in table.column_names or field.name in _NEVER_KEPT:
        if field.name in _ZERO_WHEN_ABSENT:
            return pa.chunked_array([pa.repeat(pa.scalar(0, field.type), table.num_rows)])
        if not field.nullable:
            raise ValueError(f"{table_name}.{field.name} is missing")
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    column = table.column(field.name)
    if not field.nullable and column.null_count:
        raise ValueError(f"{table_name}.{field.name} has {column.null_count} nulls")
    if field.type == _WORD:
        return _to_words(column, field, table_name)
    try:
        column = column.cast(field.type)
    except pa.ArrowInvalid as problem:
        raise ValueError(f"{table_name}.{field.name}: {problem}") from problem
    return whole_text(column) if field.type == pa.string() else column


def refuse_unknown_words(table: pa.Table, table_name: str) -> None:
    """Raise ``ValueError`` if a column of words of the table ``table_name`` holds another."""
    for field in TABLES.get(table_name, ()):
        if field.type == _WORD and field.name in table.column_names:
            _to_words(table.column(field.name), field, table_name)


def whole_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column with what is no UTF-8 in it replaced: careless programs write names as they come."""
    if not has_damaged_text(column):
        return column
    raw = column.cast(pa.binary()).to_pylist()
    return pa.chunked_array(
        [pa.array([None if text is None else text.decode("utf-8", "replace") for text in raw], pa.string())]
    )


def has_damaged_text(column: pa.ChunkedArray) -> bool:
    """Whether a text column holds bytes that are no UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _to_words(column: pa.ChunkedArray, field: pa.Field, table_name: str) -> pa.ChunkedArray:
    words = pa.array(_WORDS[field.metadata[b"words"].decode()], pa.string())
    if pa.types.is_integer(column.type):
        positions = column
        bounds = pc.min_max(positions)
        if _value_or_zero(bounds["min"]) < 0 or _value_or_zero(bounds["max"]) >= len(words):
            raise ValueError(f"{table_name}.{field.name} has a position outside its {len(words)} words")
    else:
        plain = column.cast(pa.string())
        positions = pc.index_in(plain, value_set=words)
        strangers = pc.filter(plain, pc.and_(pc.is_null(positions), pc.is_valid(plain)))
        if len(strangers):
            raise ValueError(f"{table_name}.{field.name} cannot be {strangers[0].as_py()!r}")
    chunks = [pa.DictionaryArray.from_arrays(chunk.cast(pa.int8()), words) for chunk in positions.chunks]
    return pa.chunked_array(chunks, type=_WORD)


def _value_or_zero(scalar: pa.Scalar) -> int:
    """Value of an integer scalar, 0 when it is null (the bound of an empty column)."""
    value = scalar.as_py()
    return 0 if value is None else int(value)


def language_neutral() -> dict[str, Any]:
    """The format as plain data, for code in other languages: written to ``recording.json``."""
    return {
        "format_version": FORMAT_VERSION,
        "words": {name: [str(word) for word in words] for name, words in _WORDS.items()}
        | {"kind": [str(word) for word in Kind]},
        "optional_tables": sorted(OPTIONAL_TABLES),
        "io_flags": {str(flag.name).lower(): flag.value for flag in IoFlags},
        "tables": {
            name: [
                {
                    "name": field.name,
                    "type": "word" if field.type == _WORD else str(field.type),
                    **({"words": field.metadata[b"words"].decode()} if b"words" in field.metadata else {}),
                    "nullable": field.nullable,
                    "meaning": field.metadata[b"meaning"].decode(),
                }
                for field in schema
            ]
            for name, schema in TABLES.items()
        },
    }


def language_neutral_text() -> str:
    """`language_neutral` as the exact bytes of ``recording.json``."""
    return json.dumps(language_neutral(), indent=1, ensure_ascii=False) + "\n"
