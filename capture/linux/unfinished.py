"""Recordings that are still being made, and those that were cut off."""

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import TABLES, GrowingRecording, IotraceError, Manifest, Recording, counted
from iotrace.schemas.durable import replacing
from iotrace.schemas.growing import is_growing, unfinished_folder
from iotrace.schemas.recording import UNFINISHED_SUFFIX, parquet_paths_in
from iotrace.schemas.tables import KEYS
from iotrace.schemas.writer import ROW_GROUP_ROWS, parquet_writer

from .tracefs import find_tracefs, remove_leftovers


def recover(path: Path | str, *, overwrite: bool = False) -> Recording:
    """Make a recording of what a recorder that was killed had saved for ``path``. Raises `IotraceError`."""
    path = Path(str(path).removesuffix(UNFINISHED_SUFFIX))
    folder = unfinished_folder(path)
    if not folder.is_dir():
        raise IotraceError(
            f"nothing of '{path}' is left to recover",
            hint="a recording that was cut off leaves a folder NAME.iotrace.unfinished",
        )
    with suppress(IotraceError):
        remove_leftovers(find_tracefs() / "instances")
    with GrowingRecording.resume(path, folder, overwrite=overwrite) as growing:
        manifest = growing.manifest()
        growing.finish()
        if path.exists() and not _holds_anything(folder):
            raise IotraceError(
                f"what was saved for '{path}' holds no I/O, no counters and no waits: the recording of that name stays",
                hint=f"delete '{folder}'; or rename it, to OTHER{UNFINISHED_SUFFIX}, and recover OTHER",
            )
        return _commit(growing, manifest)


def _holds_anything(folder: Path) -> bool:
    paths = (path for table in ("io", "counters", "waits") for path in parquet_paths_in(folder, table))
    return any(pq.read_metadata(path).num_rows for path in paths)


def snapshot(path: Path | str, output: Path | str, *, overwrite: bool = False) -> Recording:
    """Make a recording of what the one being made at ``path`` holds so far, while it goes on. Raises `IotraceError`."""
    path = Path(str(path).removesuffix(UNFINISHED_SUFFIX))
    folder = unfinished_folder(path)
    if not folder.is_dir():
        raise IotraceError(
            f"'{path}' is not being recorded",
            hint=f"it is whole: copy it, or use it as it is ({path})"
            if path.is_dir()
            else "give the name that iotrace capture linux was given with -o",
        )
    if not is_growing(folder):
        raise IotraceError(
            f"'{path}' is no longer being recorded: it was cut off",
            hint=f"iotrace capture recover {path} makes a recording of what it saved",
        )
    with GrowingRecording.snapshot(output, folder, overwrite=overwrite) as growing:
        try:
            manifest = growing.manifest()
            manifest.quality.ended = "normally"
            manifest.quality.notes.append(f"a snapshot of '{path.name}' while it was being recorded")
            manifest.uuid = Manifest(manifest.kind, manifest.title, manifest.clock).uuid
            return _commit(growing, manifest)
        except BaseException:
            growing.discard()
            raise


def _commit(growing: GrowingRecording, manifest: Manifest) -> Recording:
    growing.finish()
    rows, last_ns = 0, None
    for path in parquet_paths_in(growing.folder, "io"):
        times = pq.read_table(path, columns=["issued_ns", "completed_ns"])
        rows += len(times)
        seen = [pc.max(times[name]).as_py() for name in times.column_names]
        last_ns = max((at for at in (last_ns, *seen) if at is not None), default=None)
    lost = manifest.rows.get("io", 0) - rows
    if lost > 0:
        # Rates would be too low if the window went on where rows do not.
        manifest.window_end_ns = max(manifest.window_start_ns, last_ns or 0)
        manifest.quality.notes.append(
            f"the last {counted(lost, 'row')} of io had not reached the disk and are lost: the window ends before them"
        )
    else:
        # Rows reach the disk before the manifest that counts them.
        manifest.window_end_ns = max(manifest.window_end_ns, last_ns or 0)
    if growing.damaged:
        manifest.quality.notes.append(f"left out, as damaged: {', '.join(growing.damaged)}")
    for table, key in KEYS.items():
        if missing := _forget_unknown(growing.folder, key, table):
            manifest.quality.notes.append(
                f"what is known of {counted(missing, 'row')} of {table} had not reached the disk: {key} is empty there"
            )
    manifest.quality.judge(rows)
    return growing.commit(manifest)


def _forget_unknown(folder: Path, key: str, table: str) -> int:
    """Empty ``key`` of I/Os whose row of ``table`` is lost; how many rows of it those are."""
    known = [pq.read_table(path, columns=[key])[key] for path in parquet_paths_in(folder, table)]
    values = pa.chunked_array(known, TABLES[table].field(key).type).combine_chunks()
    missing: set[int] = set()
    for path in parquet_paths_in(folder, "io"):
        used = pc.unique(pq.read_table(path, columns=[key])[key]).drop_null()
        unknown = used.filter(pc.invert(pc.is_in(used, value_set=values)))
        if not len(unknown):
            continue
        missing.update(unknown.to_pylist())
        io = pq.read_table(path)
        kept = pc.if_else(pc.is_in(io[key], value_set=values), io[key], None)
        io = io.set_column(io.schema.get_field_index(key), io.schema.field(key), kept)
        with replacing(path, private=True) as new, parquet_writer(new, io.schema) as writer:
            writer.write_table(io, row_group_size=ROW_GROUP_ROWS)
    return len(missing)
