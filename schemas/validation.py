"""Is a recording whole, and does it mean what its schema says?"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .errors import UNREADABLE, IotraceError
from .recording import Recording, misfit_values
from .tables import KEYS, OPTIONAL_TABLES, TABLES, has_damaged_text
from .vocabulary import counted


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something wrong with a recording. ``level`` is error (not to be used) or warning."""

    level: str
    where: str
    what: str


def validate(path: str | Path) -> list[Flaw]:
    """Check every file of the recording at ``path``; an empty list means it is whole.

    Reads each table once, a row group at a time. Raises `IotraceError` if there is no recording to check.
    """
    recording = Recording.open(path, as_it_is=True)
    findings: list[Flaw] = []
    for name in TABLES:
        if (
            name in OPTIONAL_TABLES
            and name not in recording.table_names()
            and not recording.manifest.rows.get(name)
        ):
            continue
        try:
            paths = recording.parquet_paths(name)
        except IotraceError:
            findings.append(Flaw("error", name, "table is missing"))
            continue
        rows = 0
        for file in paths:
            count, problems = _check_file(file, name, recording)
            rows += count
            findings += problems
        expected = recording.manifest.rows.get(name)
        if expected is not None and expected != rows:
            findings.append(
                Flaw("error", name, f"has {counted(rows, 'row')}, the manifest says {expected:,}")
            )
    findings += _check_references(recording, findings)
    if recording.manifest.window_end_ns < recording.manifest.window_start_ns:
        findings.append(Flaw("error", "manifest", "window ends before it starts"))
    return findings


def _check_file(file: Path, name: str, recording: Recording) -> tuple[int, list[Flaw]]:
    where = file.relative_to(recording.path).as_posix()
    try:
        parquet = pq.ParquetFile(file)
        schema = parquet.schema_arrow
        findings = [
            Flaw("error", where, f"column {field.name} is {_type_name(schema, field.name)}, not {field.type}")
            for field in TABLES[name]
            if field.name not in schema.names or schema.field(field.name).type != field.type
        ]
        if not findings and (wrong := misfit_values(file, parquet.metadata, name)):
            findings.append(Flaw("error", where, wrong))
        rows = 0
        for batch in parquet.iter_batches(batch_size=1 << 18):
            rows += batch.num_rows
            if name == "io" and not findings:
                findings += _check_io(batch, where)
            findings += _check_text(batch, where, findings)
    except UNREADABLE as problem:
        return 0, [Flaw("error", where, f"cannot be read: {str(problem).splitlines()[0][:200]}")]
    return rows, findings


def _type_name(schema: pa.Schema, name: str) -> str:
    return str(schema.field(name).type) if name in schema.names else "missing"


def _check_io(batch: pa.RecordBatch, where: str) -> list[Flaw]:
    backwards = pc.sum(pc.less(batch["completed_ns"], batch["issued_ns"])).as_py() or 0
    if not backwards:
        return []
    return [Flaw("error", where, f"{counted(backwards, 'I/O')} completed before being issued")]


def _check_text(batch: pa.RecordBatch, where: str, known: list[Flaw]) -> list[Flaw]:
    found = [
        Flaw("error", where, f"{field.name} holds text that is no UTF-8")
        for field in batch.schema
        if field.type == pa.string() and has_damaged_text(batch[field.name])
    ]
    return [finding for finding in found if finding not in known]


def _check_references(recording: Recording, findings: list[Flaw]) -> list[Flaw]:
    """Every id an I/O names must have its row."""
    if any(finding.level == "error" for finding in findings):
        return []
    problems = []
    for name, key in KEYS.items():
        known = recording.read(name, [key])[key]
        if len(pc.unique(known)) != len(known):
            problems.append(Flaw("error", name, f"{key} is not unique"))
        dangling = 0
        for path in recording.parquet_paths("io"):
            for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 18, columns=[key]):
                used = pc.unique(batch[key]).drop_null()
                dangling += pc.sum(pc.invert(pc.is_in(used, value_set=known.combine_chunks()))).as_py() or 0
        if dangling:
            problems.append(
                Flaw("error", "io", f"{key} names {counted(dangling, 'row')} that {name} does not have")
            )
    return problems
