"""Which I/Os of a recording are played: one layer, a stretch of time, and what the user filters by.

One layer only, or each I/O would be played once per layer that saw it. The block layer is what the operating system
asked of its disks, cache and merging above it done; it is the default where present.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.replay.options import ReplayOptions
from iotrace.schemas import IotraceError, Layer, Op, Recording, Role
from iotrace.schemas.vocabulary import UNATTRIBUTED, load_layer

from .rows import DISCARD, WRITE, Rows

SIZE_BYTES_MAX = 256 << 20
"""The largest single I/O the engine carries; longer ones are skipped and counted."""
OFFSET_BYTES_MAX = 1 << 55


def choose_layer(recording: Recording, layer: str | None) -> str:
    """The layer to play: ``layer`` if the recording has it, or the first it has of block, device, filesystem, sql."""
    with recording.reading("io"):
        present = _layers(recording)
    if layer is not None:
        if layer not in list(Layer):
            raise IotraceError(f"there is no layer '{layer}'", hint=f"layers are {', '.join(Layer)}")
        if layer not in present:
            raise IotraceError(
                f"'{recording.path}' has no I/O of the layer '{layer}'",
                hint=f"it has {', '.join(sorted(present)) or 'no I/O at all'}",
            )
        return layer
    if found := load_layer(present):
        return found
    raise IotraceError(
        f"'{recording.path}' holds no I/O to replay", hint="see iotrace describe for what it holds"
    )


def _layers(recording: Recording) -> set[str]:
    present: set[str] = set()
    for path in recording.parquet_paths("io"):
        file = pq.ParquetFile(path)
        column = file.schema_arrow.get_field_index("layer")
        for number in range(file.num_row_groups):
            # Where the footer says that a row group holds a single layer, it need not be read.
            group = file.metadata.row_group(number)
            told = group.column(column).statistics if column >= 0 else None
            if told is not None and told.has_min_max and told.min == told.max:
                present.add(str(told.min))
            elif group.num_rows:
                layers = pc.unique(file.read_row_group(number, columns=["layer"])["layer"])
                present |= set(layers.to_pylist())
    return present


@dataclass(frozen=True, slots=True)
class Selection:
    """The I/Os wanted. Empty filters let everything pass; ids are keys of the recording's tables."""

    layer: str
    window_ns: tuple[int, int] | None = None
    ops: frozenset[int] | None = None
    file_ids: npt.NDArray[np.int32] | None = None
    """Rising; -1 stands for I/O whose file is unknown."""
    process_ids: npt.NDArray[np.int32] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Which words of the user are behind a filter, by the filter's name."""

    def apply(self, rows: Rows, skipped: dict[str, int]) -> Rows:
        """The rows to play. What is left out is added to ``skipped`` by reason; the window's outside is not."""
        checks: list[tuple[str, npt.NDArray[np.bool_]]] = []
        if self.file_ids is not None:
            checks.append((self.reasons.get("files", "other files"), np.isin(rows.file_id, self.file_ids)))
        if self.process_ids is not None:
            checks.append(
                (self.reasons.get("processes", "other processes"), np.isin(rows.process_id, self.process_ids))
            )
        checks.append(("discards", rows.op != DISCARD))
        if self.ops is not None:
            checks.append((self.reasons.get("ops", "other ops"), np.isin(rows.op, list(self.ops))))
        moves = rows.op <= WRITE
        stays = None if moves.all() else ~moves
        transfers = (
            ("offset unknown", rows.offset_bytes >= 0),
            ("no length", rows.size_bytes > 0),
            ("over 256 MiB", rows.size_bytes <= SIZE_BYTES_MAX),
        )
        checks += [(reason, passes if stays is None else passes | stays) for reason, passes in transfers]
        checks.append(("offset beyond any disk", rows.offset_bytes <= OFFSET_BYTES_MAX))
        wanted: npt.NDArray[np.bool_] | None = None
        for reason, passes in checks:
            if passes.all():
                continue
            wanted = np.ones(len(rows), np.bool_) if wanted is None else wanted
            left_out = int(np.count_nonzero(wanted & ~passes))
            if left_out:
                skipped[reason] = skipped.get(reason, 0) + left_out
                wanted &= passes
        return rows if wanted is None else rows[wanted]


def select(recording: Recording, options: ReplayOptions) -> Selection:
    """Look up what the filters of ``options`` mean in ``recording``.

    Raises `IotraceError` for a layer that is not there and a filter that nothing answers to.
    """
    layer = choose_layer(recording, options.layer)
    ops = None
    reasons: dict[str, str] = {}
    if options.reads_only or options.ops:
        words = ["read"] if options.reads_only else list(options.ops)
        known = [str(op) for op in Op if op is not Op.DISCARD]
        for word in words:
            if word not in known:
                raise IotraceError(f"there is no op '{word}'", hint=f"ops are {', '.join(known)}")
        ops = frozenset(list(Op).index(Op(word)) for word in words)
        reasons["ops"] = "not reads" if words == ["read"] else f"not {' or '.join(words)}"
    file_ids = None
    if options.roles or options.files:
        file_ids, reasons["files"] = _files(recording, options.roles, options.files)
    process_ids = None
    if options.processes:
        process_ids = _processes(recording, options.processes)
        reasons["processes"] = f"not of {' or '.join(options.processes)}"
    return Selection(layer, options.window_ns, ops, file_ids, process_ids, reasons)


def _files(
    recording: Recording, roles: Sequence[str], patterns: Sequence[str]
) -> tuple[npt.NDArray[np.int32], str]:
    known_roles = [*map(str, Role), UNATTRIBUTED]
    for role in roles:
        if role not in known_roles:
            raise IotraceError(f"there is no role '{role}'", hint=f"roles are {', '.join(known_roles)}")
    table = recording.read("files", ["file_id", "path", "role"])
    found = [
        (int(file_id), str(path), str(role))
        for file_id, path, role in zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    ]
    by_role = {file_id: path for file_id, path, role in found if not roles or role in roles} | (
        {NO_FILE: ""} if UNATTRIBUTED in roles and not patterns else {}
    )
    if roles and not by_role:
        present = sorted({role for _, _, role in found}) or ["none: its files are unknown"]
        raise IotraceError(
            f"'{recording.path}' has no file of the role {' or '.join(roles)}",
            hint=f"it has: {', '.join(present)}",
        )
    chosen = [file_id for file_id, path in by_role.items() if not patterns or _matches(path, patterns)]
    if not chosen:
        raise IotraceError(
            f"no file of '{recording.path}' matches {' or '.join(map(repr, patterns))}",
            hint="patterns are such as '*.ldf' or 'D:\\data\\*'; iotrace describe lists the files",
        )
    return np.array(sorted(chosen), np.int32), f"not of {' or '.join([*roles, *patterns])}"


NO_FILE = -1


def _processes(recording: Recording, patterns: Sequence[str]) -> npt.NDArray[np.int32]:
    table = recording.read("processes", ["process_id", "os_process_id", "name"])
    columns = (table[name].to_pylist() for name in table.column_names)
    found = [(int(key), str(number), str(name or "")) for key, number, name in zip(*columns, strict=True)]
    chosen = [key for key, number, name in found if number in patterns or _matches(name, patterns)]
    if not chosen:
        names = sorted({name for _, _, name in found if name})
        raise IotraceError(
            f"no process of '{recording.path}' is called {' or '.join(map(repr, patterns))}",
            hint=f"it has: {', '.join(names[:12]) or 'none known'}{', …' if len(names) > 12 else ''}",
        )
    return np.array(sorted(chosen), np.int32)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    """Case and the kind of slash do not matter; a pattern without a slash means the last part of a path."""
    whole = text.lower().replace("\\", "/")
    last = whole.rsplit("/", 1)[-1]
    lowered = (pattern.lower().replace("\\", "/") for pattern in patterns)
    return any(fnmatchcase(whole if "/" in pattern else last, pattern) for pattern in lowered)


def log_files(recording: Recording) -> npt.NDArray[np.int32]:
    """Keys of the files that are transaction logs, rising."""
    files = recording.read("files", ["file_id", "role"])
    logs = pa.array([role for role in Role if role.is_log], pa.string())
    is_log = pc.is_in(files["role"].cast(pa.string()), value_set=logs)
    return np.sort(files.filter(is_log)["file_id"].to_numpy().astype(np.int32))
