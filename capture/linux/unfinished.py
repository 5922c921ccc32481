"""Recordings that are still being made, and those that were cut off."""

from contextlib import suppress
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from iotrace.schemas import GrowingRecording, IotraceError, Manifest, Recording
from iotrace.schemas.growing import is_growing, unfinished_folder
from iotrace.schemas.recording import UNFINISHED_SUFFIX, parquet_paths_in

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
        return _commit(growing, manifest)


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
    rows, last_ns = 0, manifest.window_end_ns
    for path in parquet_paths_in(growing.folder, "io"):
        completed = pq.read_table(path, columns=["completed_ns"])["completed_ns"]
        rows += len(completed)
        last_ns = max(last_ns, pc.max(completed).as_py() or 0)
    # Rows reach the disk before the manifest that counts them.
    manifest.window_end_ns = last_ns
    manifest.quality.judge(rows)
    return growing.commit(manifest)
