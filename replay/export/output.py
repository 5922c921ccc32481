"""Export folders appear whole or not at all, and replace nothing but an earlier export as it was written."""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from iotrace.schemas import IotraceError
from iotrace.schemas.durable import sync_tree
from iotrace.schemas.replacing import FolderKind, Written, check_folder, move_into_place, read_index, sums_of

MARK: Final = "export.json"
"""The file by which a folder is known to be an export: its facts, and the checksum of every other file."""


@contextmanager
def new_folder(path: Path, facts: dict[str, Any], *, overwrite: bool) -> Iterator[Path]:
    """A folder to write to; with ``facts``, it becomes ``path`` when all went well, and is removed otherwise.

    The checksums of what was written are added to ``facts``.

    Raises `IotraceError` if ``path`` is taken, unless by an earlier export in which nothing was added or changed since,
    and ``overwrite`` is set.
    """
    if not path.parent.is_dir():
        raise IotraceError(
            f"'{path.parent}' is no folder to write to", hint="create it, or choose another -o"
        )
    check_folder(path, _EXPORT, overwrite=overwrite)
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir()
        yield partial
        facts["sha256"] = sums_of(partial)
        text = json.dumps(facts, indent=1) + "\n"
        (partial / MARK).write_text(text, "utf-8", newline="\n")
        sync_tree(partial)
        check_folder(path, _EXPORT, overwrite=overwrite)
        move_into_place(partial, path, _EXPORT)
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{path}': {problem.strerror or problem}",
            hint="free some room there, or choose another -o",
        ) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _written_in(folder: Path) -> Written | None:
    try:
        sums = json.loads(read_index(folder / MARK) or b"")["sha256"]
        return {MARK: None} | {str(name): str(told) for name, told in sums.items()}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


_EXPORT: Final = FolderKind("an export", _written_in)
