"""Writes a plan as a folder, whole or not at all, and over nothing but an earlier plan that is as it was written.

What a plan records by name stands here: counters, Extended Events, waits (documentation of the objects and events). So
does how foreign words become literals of the languages a plan is written in, so that none of them is ever read as code.
Control characters are refused long before (`options`); the functions that quote take any other text.
"""

import hashlib
import json
import math
import re
import secrets
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import jinja2

from iotrace.capture.formats.windows.dmv_columns import (
    FILE_STATS_QUERY,
    FILE_STATS_QUERY_2012,
    IO_WAITS,
    WAIT_STATS_QUERY,
)
from iotrace.schemas import IotraceError, distribution
from iotrace.schemas.durable import create_folder, sync_tree
from iotrace.schemas.partials import Partial
from iotrace.schemas.replacing import (
    FolderKind,
    Written,
    check_folder,
    move_into_place,
    read_index,
    seal_folder,
    unchanged,
)

from .options import BASELINE_SECONDS, MINUTES_AFTER_END, XEL_FILE_MIB, Budget, PlanOptions, budget_of

RECORD: Final = "plan.json"
"""The file that says what a plan was written for, and the checksum of every other file."""

_KIND: Final = "iotrace capture plan"

RESERVE_MIB: Final = 2048
_XE_MEMORY_MIB: Final = 64
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SCRIPTS: Final = (
    "common.ps1",
    "counters.ps1",
    "facts.ps1",
    "removing.ps1",
    "sql.ps1",
)
_RUN: Final = ("stop.ps1", "watch.ps1", "collect.ps1", "uninstall.ps1", "start.ps1")
"""Scripts that are run. Each holds the checksums of what it runs, so those come first; start.ps1 those of all files."""
_OWN_FOLDER: Final = "# {{ own folder }}\n"
"""Where in such a script the check of its folder goes."""
_SESSION_SQL: Final = (
    "create-session.sql",
    "start-session.sql",
    "stop-session.sql",
    "drop-session.sql",
    "session-losses.sql",
)
# Windows PowerShell ends a single-quoted string at any of these, not at the ASCII apostrophe alone.
_POWERSHELL_QUOTES: Final = re.compile(r"['\u2018\u2019\u201A\u201B]")
_BACKTICKS: Final = re.compile("`+")
_DISK: Final = (
    "Disk Reads/sec",
    "Disk Writes/sec",
    "Disk Read Bytes/sec",
    "Disk Write Bytes/sec",
    "Avg. Disk sec/Read",
    "Avg. Disk sec/Write",
    "Avg. Disk Bytes/Read",
    "Avg. Disk Bytes/Write",
    "Current Disk Queue Length",
    "Avg. Disk Queue Length",
    "Split IO/Sec",
    "% Idle Time",
)

HOST_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "PhysicalDisk(*)": _DISK,
    # Volumes mounted in folders appear here as instances.
    "LogicalDisk(*)": (*_DISK, "Free Megabytes"),
    "Processor(_Total)": ("% Processor Time", "% Privileged Time"),
    "System": ("Processor Queue Length", "Context Switches/sec"),
    "Memory": ("Available MBytes", "Pages/sec"),
}

SQL_COUNTERS: Final[dict[str, tuple[str, ...]]] = {
    "Process(sqlservr*)": (
        "IO Read Operations/sec",
        "IO Write Operations/sec",
        "IO Read Bytes/sec",
        "IO Write Bytes/sec",
    ),
    "SQLServer:Buffer Manager": (
        "Page reads/sec",
        "Page writes/sec",
        "Readahead pages/sec",
        "Checkpoint pages/sec",
        "Background writer pages/sec",
        "Lazy writes/sec",
        "Free list stalls/sec",
        "Page life expectancy",
        "Buffer cache hit ratio",
    ),
    "SQLServer:Databases(*)": (
        "Log Flushes/sec",
        "Log Bytes Flushed/sec",
        "Log Flush Waits/sec",
        "Log Flush Wait Time",
        "Backup/Restore Throughput/sec",
        "Transactions/sec",
    ),
    "SQLServer:SQL Statistics": ("Batch Requests/sec",),
}
"""Objects of the default instance; a named one has ``MSSQL$NAME:`` in place of ``SQLServer:``."""

FILE_EVENTS: Final = (
    {"name": "file_read_completed", "what": "read"},
    {"name": "file_write_completed", "what": "write"},
)
RARE_EVENTS: Final = (
    "database_file_size_change",
    "long_io_detected",
    "backup_restore_progress_trace",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan in memory: its files by their paths within the folder."""

    name: str
    options: PlanOptions
    budget: Budget
    files: dict[str, bytes]

    @property
    def run_for(self) -> str:
        """How long the counter log runs, as logman takes it: it outlives the rest, whose end it is to show."""
        minutes = self.options.minutes + math.ceil(BASELINE_SECONDS / 60) + MINUTES_AFTER_END
        return f"{minutes // 60:02}:{minutes % 60:02}:00"


def write_plan(
    options: PlanOptions, output: Path | str, *, overwrite: bool = False, name: str | None = None
) -> Plan:
    """Write the scripts for ``options`` into the new folder ``output``.

    ``name`` is what everything on the host will be called; by default one that nobody else uses. Raises
    `IotraceError` if ``output`` exists: only an earlier plan in which nothing was added or changed is ever replaced,
    and only with ``overwrite``. Nothing is left behind when writing fails.
    """
    target = Path(output)
    check_folder(target, _PLAN, overwrite=overwrite)
    plan = make_plan(options, name or f"iotrace_{secrets.token_hex(3)}")
    try:
        create_folder(target.parent, exist_ok=True)
        with Partial.folder(target, private=False) as partial:
            for path, content in plan.files.items():
                file = partial.path / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            seal_folder(partial.path)
            # What will run with a DBA's rights is for nobody else to change, whatever the umask.
            for written in (partial.path, *partial.path.rglob("*")):
                written.chmod(written.stat().st_mode & ~0o022)
            sync_tree(partial.path)
            check_folder(target, _PLAN, overwrite=overwrite)
            move_into_place(partial.path, target, _PLAN)
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{output}': {problem.strerror}",
            hint="choose a folder you may write to with --output",
        ) from problem
    return plan


def make_plan(options: PlanOptions, name: str) -> Plan:
    """The files of a plan, without writing them."""
    plan = Plan(name, options, budget_of(options), {})
    with_sql = options.instance is not None
    texts = {script: _text("scripts", script) for script in _SCRIPTS}
    texts |= {"settings.ps1": _rendered(plan, "settings.ps1"), "README.md": _rendered(plan, "README.md")}
    texts["counters.txt"] = "\n".join(counter_paths(of_sql_server=with_sql)) + "\n"
    if options.kernel_flags or "device" in options.layers:
        texts["kernel.wprp"] = _rendered(plan, "kernel.wprp")
    if with_sql:
        texts |= {f"sql/{query}": _rendered(plan, query) for query in ("check.sql", "facts.sql")}
        texts |= {
            "sql/file-stats.sql": FILE_STATS_QUERY,
            "sql/file-stats-2012.sql": FILE_STATS_QUERY_2012,
            "sql/wait-stats.sql": WAIT_STATS_QUERY,
        }
    if "sql" in options.layers:
        texts |= {f"sql/{query}": _rendered(plan, query) for query in _SESSION_SQL}
    plan.files.update({path: _encoded(path, text) for path, text in texts.items()})
    for script in _RUN:
        digests = {
            path: sha256(content) for path, content in sorted(plan.files.items()) if path != "README.md"
        }
        check = _rendered(plan, "own-folder.ps1", written=digests)
        plan.files[script] = _encoded(script, _text("scripts", script).replace(_OWN_FOLDER, check))
    plan.files[RECORD] = _record(plan)
    return plan


def _encoded(path: str, text: str) -> bytes:
    """As Windows tools take it: CR LF; a byte order mark, without which Windows PowerShell reads the ANSI code page."""
    content = text.replace("\n", "\r\n").encode()
    return _BYTE_ORDER_MARK + content if path.endswith((".ps1", ".sql")) else content


def sha256(content: bytes) -> str:
    """The checksum of a file of a plan."""
    return hashlib.sha256(content).hexdigest()


def _record(plan: Plan) -> bytes:
    facts: dict[str, Any] = {
        "kind": _KIND,
        "name": plan.name,
        "iotrace": distribution.version(),
        "options": asdict(plan.options),
        "sha256": {path: sha256(content) for path, content in sorted(plan.files.items())},
    }
    return (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode()


def _written_in(folder: Path) -> Written | None:
    try:
        recorded = json.loads(read_index(folder / RECORD) or b"")
        if recorded["kind"] != _KIND:
            return None
        return unchanged(
            folder, {RECORD: None} | {str(name): str(told) for name, told in recorded["sha256"].items()}
        )
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


_PLAN: Final = FolderKind("a plan", _written_in)


def _rendered(plan: Plan, name: str, *, written: dict[str, str] | None = None) -> str:
    return _ENVIRONMENT.from_string(_text("templates", f"{name}.j2")).render(
        plan=plan,
        written=written or {},
        options=plan.options,
        budget=plan.budget,
        baseline_seconds=BASELINE_SECONDS,
        minutes_after_end=MINUTES_AFTER_END,
        reserve_mib=RESERVE_MIB,
        xe_memory_mib=_XE_MEMORY_MIB,
        xel_file_mib=XEL_FILE_MIB,
        xel_files=plan.budget.limit_mib("sql") // XEL_FILE_MIB,
        file_events=FILE_EVENTS,
        rare_events=RARE_EVENTS,
        wait_types=IO_WAITS,
    )


def _text(folder: str, name: str) -> str:
    return resources.files(__package__).joinpath(folder, name).read_text("utf-8")


def _environment() -> jinja2.Environment:
    # Nothing is HTML here: every foreign word goes through the filter of the language it lands in.
    environment = jinja2.Environment(  # noqa: S701
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {
        "powershell": powershell,
        "tsql": tsql,
        "tsql_identifier": tsql_identifier,
        "cmd": cmd,
        "markdown": markdown,
    }
    return environment


def powershell(text: str) -> str:
    """A single-quoted PowerShell string: nothing in it is expanded, every kind of single quote is doubled."""
    return "'" + _POWERSHELL_QUOTES.sub(lambda found: found.group() * 2, text) + "'"


def tsql(text: str) -> str:
    """A Unicode string literal of T-SQL."""
    return "N'" + text.replace("'", "''") + "'"


def tsql_identifier(name: str) -> str:
    """A delimited identifier of T-SQL."""
    return "[" + name.replace("]", "]]") + "]"


def cmd(text: str) -> str:
    """One argument as typed at a cmd prompt, for programs that split their command line as Microsoft's C library does.

    Everything stands between double quotes, where cmd takes ``& | < > ^ ( )`` literally. A quote is doubled, which both
    cmd and the library read as one quote inside. Backslashes before a quote are doubled, as the library wants it.
    A percent sign is taken out of the quotes and escaped, so that no variable name can form around it.
    """
    quoted = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + found[2] * 2, text)
    return '"' + quoted.replace("%", '"^%"') + '"'


def markdown(text: str) -> str:
    """Text as inline code of Markdown, whatever backticks it holds."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def counter_paths(*, of_sql_server: bool) -> list[str]:
    """Paths of the counter log, in English, for the default instance."""
    objects = HOST_COUNTERS | (SQL_COUNTERS if of_sql_server else {})
    return [f"\\{name}\\{counter}" for name, counters in objects.items() for counter in counters]


_ENVIRONMENT: Final = _environment()
