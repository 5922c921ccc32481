"""Exports appear whole or not at all, and replace nothing unasked."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iotrace.schemas import IotraceError
from iotrace.schemas.writer import move_into_place, sync_tree

MARK = "export.json"
"""The file by which a folder is known to be an export."""


@contextmanager
def new_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder to write to; it becomes ``path`` when all went well, and is removed otherwise.

    Raises `IotraceError` if ``path`` is taken, unless by an earlier export and ``overwrite`` is set.
    """
    _check_parent(path)
    if path.exists() or path.is_symlink():
        ours = path.is_dir() and not path.is_symlink() and (path / MARK).is_file()
        if not overwrite:
            hint = "choose another name, or pass --overwrite" if ours else "choose another name"
            raise IotraceError(f"'{path}' exists already", hint=hint)
        if not ours:
            raise IotraceError(f"'{path}' is no export and is not overwritten", hint="choose another name")
    partial = _partial(path)
    with _writing(path):
        try:
            partial.mkdir()
            yield partial
            sync_tree(partial)
            move_into_place(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A file to write; it becomes ``path`` when all went well, and is removed otherwise.

    Raises `IotraceError` if ``path`` is taken, unless by a plain file and ``overwrite`` is set.
    """
    _check_parent(path)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise IotraceError(f"'{path}' is not a plain file and is not replaced", hint="choose another name")
    if path.exists() and not overwrite:
        raise IotraceError(f"'{path}' exists already", hint="choose another name, or pass --overwrite")
    partial = _partial(path)
    with _writing(path):
        try:
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise IotraceError(
            f"'{path.parent}' is no folder to write to", hint="create it, or choose another -o"
        )


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{path}': {problem.strerror or problem}",
            hint="free some room there, or choose another -o",
        ) from problem
