"""What is in a file, whether it is whole, and what an import would keep of it, without importing it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from iotrace.capture.formats import registry
from iotrace.capture.formats.format import Certainty, LocalTimes, Trace, naming, unreported
from iotrace.capture.formats.windows import volumes
from iotrace.schemas import IotraceError, Op, Quality, conform

from .inputs import Gathering, Group, unpacking_room


@dataclass(slots=True)
class LayerContents:
    """The I/Os that one layer saw."""

    ops: dict[str, int] = field(default_factory=dict)
    """I/Os by op."""
    devices: dict[str, int] = field(default_factory=dict)
    """I/Os by where they went, most first: a drive letter or mount point if the trace tells it, else the device."""
    with_file: int = 0
    """I/Os whose file the trace names."""
    playable: int = 0
    """Reads and writes with an offset and a length, which a replay needs."""


@dataclass(slots=True)
class Contents:
    """What an import of one trace would keep."""

    start_utc_ns: int
    """Before 1971 where the trace names no date."""
    end_utc_ns: int
    layers: dict[str, LayerContents]
    rows: dict[str, int]
    """Rows by table."""
    quality: Quality
    needs_timezone: bool = False
    """Whether its times are local, in a zone that only the user knows; they are taken as UTC here."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One trace. ``facts`` are the format's own; None where it has none."""

    name: str
    format: str
    bytes: int
    facts: dict[str, Any] | None
    problem: str | None = None
    """Why it cannot be read; None if it can."""
    contents: Contents | None = None
    """What an import would keep of it; None where it is no trace of its own, and where it cannot be read."""
    what: str = ""
    """What the file is, in people's words."""
    certainty: Certainty = Certainty.LIKELY
    """How surely that is known."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """All traces at one path, and words on what lay beside them and is none."""

    traces: list[Inspection]
    notes: list[str]


def inspect_path(path: Path | str) -> Inspected:
    """The traces at ``path``: one, or those in a folder or zip. Raises `IotraceError` for what is no trace at all."""
    with unpacking_room(None) as room:
        gathering = Gathering(room)
        traces = list(_traces(gathering, Path(path), str(path)))
        return Inspected(traces, gathering.notes())


def _traces(gathering: Gathering, path: Path, name: str) -> Iterator[Inspection]:
    for group in gathering.groups(path, name):
        with naming(group.name):
            what, certainty = registry.told_of(group.format.name)
            yield replace(_inspect(group), what=what, certainty=certainty)
        for file in group.files:
            file.forget()


def _inspect(group: Group) -> Inspection:
    paths = [file.path(lambda _done, _total: None) for file in group.files]
    size = sum(file.bytes() for file in group.files)
    chosen, name = group.format, group.name
    try:
        facts: dict[str, Any] | None
        if chosen.family is not None:
            facts = chosen.family.inspect(paths, [file.name for file in group.files])
        else:
            facts = chosen.inspect(paths[0], name) if chosen.inspect else None
        if chosen is volumes.FORMAT:
            return Inspection(name, chosen.name, size, facts)
        if chosen.family is not None:
            trace = chosen.family.read(paths, [file.name for file in group.files], unreported)
        else:
            trace = chosen.read(paths[0], name, unreported)
        contents = contents_of(trace)
    except IotraceError as problem:
        return Inspection(name, chosen.name, size, None, problem.message)
    return Inspection(name, chosen.name, size, facts, contents=contents)


def contents_of(trace: Trace) -> Contents:
    """Read ``trace`` to its end and count what is in it. Raises `IotraceError` as an import does."""
    needs_timezone = _needs_timezone(trace)
    rows: Counter[str] = Counter()
    layers: dict[str, LayerContents] = {}
    by_device: dict[str, Counter[int | None]] = {}
    devices: list[dict[str, Any]] = []
    for table_name, batch in trace.batches():
        rows[table_name] += len(batch)
        if table_name == "devices":
            devices += conform(batch, "devices").to_pylist()
        elif table_name == "io" and len(batch):
            for layer, found, ios in _counted(conform(batch, "io")):
                into = layers.setdefault(layer, LayerContents())
                into.ops[found["op"]] = into.ops.get(found["op"], 0) + ios
                into.with_file += found["with_file_sum"]
                into.playable += found["playable_sum"]
                by_device.setdefault(layer, Counter())[found["device_id"]] += ios
    outcome = trace.outcome()
    names = _names(devices)
    for layer, counts in by_device.items():
        for device_id, ios in counts.most_common():
            if device_id is not None:
                name = names.get(device_id, f"device {device_id}")
                layers[layer].devices[name] = layers[layer].devices.get(name, 0) + ios
    start_utc_ns = trace.clock.start_utc_ns
    return Contents(
        start_utc_ns + outcome.window_start_ns,
        start_utc_ns + outcome.window_end_ns,
        layers,
        {name: count for name, count in rows.items() if count},
        outcome.quality.judge(rows["io"], outcome.events),
        needs_timezone,
    )


def _needs_timezone(trace: Trace) -> bool:
    if not isinstance(trace, LocalTimes):
        return False
    try:
        trace.settle_zone(None)
    except IotraceError:
        trace.settle_zone("UTC")
        return True
    return False


def _counted(io: pa.Table) -> Iterable[tuple[str, dict[str, Any], int]]:
    op = io["op"].cast(pa.string())
    transfers = pc.or_(pc.equal(op, str(Op.READ)), pc.equal(op, str(Op.WRITE)))
    has_place = pc.and_(pc.is_valid(io["offset_bytes"]), pc.greater(io["size_bytes"], 0))
    columns = {
        "layer": io["layer"].cast(pa.string()),
        "op": op,
        "device_id": io["device_id"],
        "with_file": pc.is_valid(io["file_id"]).cast(pa.int64()),
        "playable": pc.and_(transfers, has_place).cast(pa.int64()),
    }
    grouped = (
        pa.table(columns)
        .group_by(["layer", "op", "device_id"])
        .aggregate([([], "count_all"), ("with_file", "sum"), ("playable", "sum")])
    )
    for row in grouped.to_pylist():
        yield row["layer"], row, row["count_all"]


def _names(devices: Iterable[dict[str, Any]]) -> dict[int, str]:
    """What people call each device: where it is mounted, or what is mounted from its partitions."""
    rows = list(devices)
    parts: dict[int | None, list[str]] = {}
    for row in rows:
        if row["mount"]:
            parts.setdefault(row["parent_device_id"], []).append(row["mount"])
    names = {}
    for row in rows:
        mounts = [row["mount"]] if row["mount"] else parts.get(row["device_id"], [])
        names[row["device_id"]] = ", ".join(dict.fromkeys(mounts)) or row["name"]
    return names
