"""What holds for every reader on any bytes, and the bounds within which it has to.

`read` asks of a format (or of a door before all of them) what an import or an inspection asks, and checks what comes.
`limit_memory` and `bounded` limit this process's memory and the processor time of one input; who exceeds either dies,
and its parent sees it.
"""

import os
import resource
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

import commands
import pyarrow.compute as pc
from corpus import STORED
from doors import DOORS

from iotrace.capture.formats.format import HEAD_BYTES
from iotrace.capture.formats.registry import OURS
from iotrace.schemas import IotraceError, conform
from iotrace.schemas.tables import TABLES

NAME = "the user's word"
MEMORY_BYTES = 1 << 30
"""Beyond what the process has at its start. Blocks of 16 MiB and their tables take most of what readers need."""
CPU_S = float(os.environ.get("IOTRACE_FUZZ_CPU_S", "10"))
CPU_S_PER_MIB = 10
ROWS_PER_BYTE = 4
"""Counters in a log of whole objects: the densest there is."""
_OWN_NAMES = {"fio-log": "per_clat.1.log"}
"""What a file is called among those beside it, where its name matters."""


def limit_memory():
    """Let no allocation take this process further than `MEMORY_BYTES` from where it stands."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    now = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))


@contextmanager
def bounded(size_bytes):
    """Kill this process (SIGPROF) if what is inside takes processor time out of proportion."""
    signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_S_PER_MIB * size_bytes / (1 << 20))
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def read(entry, path, data):
    """Rows that came; None where the format does not recognise ``data``, or refuses it with a clear word."""
    if entry in DOORS:
        with bounded(len(data)):
            return entry.enter(data, path.parent, _check_words)
    if not entry.recognises(data[:HEAD_BYTES], path):
        return None
    paths, names = _with_family(entry, path)
    with bounded(len(data)):
        refused = _inspected(entry, paths, names)
        try:
            if len(paths) == 1:
                trace = entry.read(path, NAME, lambda *_: None)
            else:
                trace = entry.family.read(paths, names, lambda *_: None)
            rows = sum(_checked(table, batch, len(data)) for table, batch in trace.batches())
            outcome = trace.outcome()
        except IotraceError as problem:
            _check_words(problem)
            return None
    assert not refused, f"inspect refuses what read takes: {refused}"
    assert rows <= ROWS_PER_BYTE * len(data), f"{rows} rows from {len(data)} bytes"
    assert outcome.window_start_ns <= outcome.window_end_ns
    assert outcome.events >= 0
    outcome.quality.judge(rows)
    return rows


def enter_commands(entry, path, data):
    """What a user would type for a file of ``data``, and for what comes of it. `Door`s do so themselves."""
    if entry in DOORS:
        return
    with bounded(len(data)), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        named = Path(folder) / _OWN_NAMES.get(entry.name, "trace")
        named.write_bytes(data)
        recording = Path(folder) / "out.iotrace"
        commands.status("inspect", named)
        if commands.status("import", named, "--output", recording) == 0:
            commands.on_a_recording(commands.one_for(data), recording, folder)


def recognise(path, data):
    """Whatever the bytes, every format answers whether they are its own."""
    head = data[:HEAD_BYTES]
    with bounded(len(data)):
        return [entry.name for entry in OURS if entry.load().recognises(head, path)]


def _with_family(entry, path):
    """The file and those that belong beside it, and what the user calls them."""
    beside = sorted((STORED / entry.name / "beside").glob("*"))
    if not beside:
        return [path], [NAME]
    own = _OWN_NAMES.get(entry.name, "io.arrows")
    return [path, *beside], [f"{NAME}/{own}", *(f"{NAME}/{other.name}" for other in beside)]


def _inspected(entry, paths, names):
    """None, or with which words `inspect` refuses."""
    if entry.inspect is None:
        return None
    try:
        if len(paths) == 1:
            entry.inspect(paths[0], NAME)
        else:
            entry.family.inspect(paths, names)
    except IotraceError as problem:
        _check_words(problem)
        return problem.message
    return None


def _check_words(problem, word=NAME):
    assert word in problem.message, f"does not name the file: {problem.message}"
    assert problem.hint, f"no hint: {problem.message}"
    assert "defect" not in problem.message, problem.message


def _checked(table, batch, size_bytes):
    """Rows of a batch, if they are what the recording takes and no time is impossible."""
    rows = conform(batch, table) if table in TABLES else batch
    if table == "io" and len(rows):
        shortest_ns = pc.min(pc.subtract(rows.column("completed_ns"), rows.column("issued_ns"))).as_py()
        assert shortest_ns is None or shortest_ns >= 0, f"an I/O of {shortest_ns} ns"
    return len(rows)
