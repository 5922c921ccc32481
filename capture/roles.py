"""What a file is to the database, guessed from its path alone."""

import re
from typing import Final

from iotrace.schemas import Role

_DATA: Final = frozenset({"mdf", "ndf", "hkckp", "ibd"})
_LOG: Final = frozenset({"ldf"})
_BACKUP: Final = frozenset({"bak", "trn", "dif"})
_SYSTEM_FILES: Final = frozenset({"pagefile.sys", "swapfile.sys", "hiberfil.sys", "swapfile", "swap.img"})
_SYSTEM_FOLDERS: Final = frozenset({"windows", "system volume information", "$recycle.bin", "$extend"})
# Names that SQL Server gives the files of its own databases; they do not follow from the database's name.
_KNOWN_STEMS: Final = {
    "master": "master",
    "mastlog": "master",
    "model": "model",
    "modellog": "model",
    "msdbdata": "msdb",
    "msdblog": "msdb",
    "mssqlsystemresource": "mssqlsystemresource",
    "tempdb": "tempdb",
    "templog": "tempdb",
    "tempdev": "tempdb",
}
_SUFFIX: Final = re.compile(r"([ _.-]?(log|data|dat|primary|prim)|[ _-](data|log)?\d{1,3})$", re.IGNORECASE)
TEMPDB_ID: Final = 2
"""Its ``database_id`` on every instance (sys.databases)."""
_TEMPDB: Final = re.compile(r"temp(db|dev|log)", re.IGNORECASE)
# A tablespace's files lie in PG_<version>_<catalogue>/<database>, which its link in pg_tblspc leads to.
_POSTGRES_RELATION: Final = re.compile(
    r"/(base/(?P<database>\d+)|global|(pg_tblspc/.*|PG_\d+_\d+)/(?P<in_tablespace>\d+))/(\d+|pg_filenode\.map)"
)
_POSTGRES_TEMPORARY: Final = re.compile(r"/pgsql_tmp/pgsql_tmp\d|/base/\d+/t\d+_\d+")
_IN_ROOT: Final = re.compile(r"(\\Device\\[^\\]*|.:)\\\$", re.DOTALL)
_POSTGRES_STATUS: Final = re.compile(
    r"/(pg_xact|pg_clog|pg_multixact/(members|offsets)|pg_subtrans|pg_commit_ts)/[0-9A-F]+$|/global/pg_control$"
)


def classify(path: str) -> tuple[Role, str | None]:
    """Role and database of the file at ``path`` (Windows, kernel or POSIX form).

    A guess from names: SQL Server's usual extensions, tempdb by its file names, PostgreSQL by its folders (its
    databases have only numbers there), and what belongs to the operating system. The database is the file's stem
    without a trailing ``_log``, ``_data`` or number, and None where nothing suggests one.
    """
    parts = [part for part in re.split(r"[\\/]", path) if part]
    if not parts:
        return Role.OTHER, None
    file_name = parts[-1].lower()
    stem, _, extension = parts[-1].rpartition(".")
    extension = extension.lower().partition(":")[0]  # an alternate stream of the file
    if extension in _DATA | _LOG and stem:
        is_log = extension in _LOG
        if _TEMPDB.match(stem):
            return (Role.TEMPDB_LOG if is_log else Role.TEMPDB_DATA), "tempdb"
        return (Role.LOG if is_log else Role.DATA), _database(stem)
    if extension in _BACKUP and stem:
        return Role.BACKUP, None
    if (role := _postgres(path)) is not None:
        return role
    if file_name in _SYSTEM_FILES or _is_system([part.lower() for part in parts]):
        return Role.SYSTEM, None
    return Role.OTHER, None


def is_metadata(path: str) -> bool:
    """Whether a Windows path is one of the file system's own files: ``$Mft`` and the like in the root of a volume.

    The reader of .etl has the same rule (``readers/src/etl/paths.rs``).
    """
    found = _IN_ROOT.match(path)
    return found is not None and not path[found.end() - 1 :].lower().startswith("$recycle.bin")


def _database(stem: str) -> str:
    known = _KNOWN_STEMS.get(stem.lower())
    return known if known is not None else _SUFFIX.sub("", stem) or stem


def _postgres(path: str) -> tuple[Role, str | None] | None:
    text = path.replace("\\", "/")
    if "/pg_wal/" in text or "/pg_xlog/" in text:
        return Role.LOG, None
    if _POSTGRES_TEMPORARY.search(text):
        return Role.TEMPDB_DATA, None
    if _POSTGRES_STATUS.search(text):
        return Role.DATA, None
    if found := _POSTGRES_RELATION.search(text):
        return Role.DATA, found["database"] or found["in_tablespace"]
    return None


def _is_system(parts: list[str]) -> bool:
    """Files of the file system itself (``$Mft`` and the like in a volume's root) and of Windows."""
    if parts[0] == "device":
        parts = parts[2:]
    elif parts[0].endswith(":"):
        parts = parts[1:]
    return bool(parts) and (parts[0] in _SYSTEM_FOLDERS or (parts[0].startswith("$") and len(parts) <= 2))
