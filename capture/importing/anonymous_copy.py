"""An anonymous copy of a recording that exists already."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from iotrace.schemas import IotraceError, Manifest, Recording, RecordingWriter
from iotrace.schemas.writer import refuse_over_source

from .anonymizing import Anonymizer

_ROWS: Final = 1 << 18


def is_recording(path: Path) -> bool:
    """Whether ``path`` is a folder that has a recording's tables."""
    return (path / "manifest.json").is_file() and (
        (path / "io.parquet").is_file() or any(path.glob("*/part-*.parquet"))
    )


def copy_anonymously(
    path: Path,
    output: Path | str,
    anonymizer: Anonymizer,
    *,
    overwrite: bool = False,
    title: str | None = None,
) -> Recording:
    """Write the recording at ``path`` once more to ``output``, without names and free text; ``path`` stays as it is.

    Raises `IotraceError` for what is no captured or imported recording, is damaged, or cannot be written.
    """
    source = Recording.open(path)
    told = source.manifest
    if told.replay is not None:
        raise IotraceError(
            f"'{path}' is a replay, whose settings name targets and files",
            hint="make an anonymous copy of the recording that was played, and replay that",
        )
    refuse_over_source(Path(output), [path])
    with RecordingWriter(output, overwrite=overwrite) as writer:
        for name in source.table_names():
            for file in source.parquet_paths(name):
                with source.reading(name):
                    for batch in pq.ParquetFile(file).iter_batches(batch_size=_ROWS):
                        writer.append(name, anonymizer.batch(name, batch))
        sources = [replace(one, alignment=one.alignment and replace(one.alignment)) for one in told.sources]
        quality = replace(told.quality)
        anonymizer.sources(sources, quality)
        if quality.ended != "normally":
            quality.ended = "early; the words for it are left out"
        manifest = Manifest(
            kind=told.kind,
            title=title or "anonymous copy",
            clock=replace(told.clock),
            window_start_ns=told.window_start_ns,
            window_end_ns=told.window_end_ns,
            host=anonymizer.host(told.host),
            sources=sources,
            quality=quality.judge(writer.rows("io")),
        )
        return writer.commit(manifest)
