"""Exports appear whole or not at all, and replace nothing unasked."""

import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from iotrace.schemas import IotraceError
from iotrace.schemas.writer import move_into_place, sync_tree

MARK = "export.json"
"""The file by which a folder is known to be an export."""


@contextmanager
def new_folder(path: Path, *, overwrite: bool, files: Collection[str]) -> Iterator[Path]:
    """A folder to write to; it becomes ``path`` when all went well, and is removed otherwise.

    ``files`` are the names an export may have. Raises `IotraceError` if ``path`` is taken, unless by an earlier export,
    in which nothing else was put since, and ``overwrite`` is set.
    """
    _check_parent(path)
    _check_folder(path, overwrite=overwrite, files=files)
    partial = _partial(path)
    with _writing(path):
        try:
            partial.mkdir()
            yield partial
            sync_tree(partial)
            _check_folder(path, overwrite=overwrite, files=files)
            move_into_place(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A file to write; it becomes ``path`` when all went well, and is removed otherwise.

    Raises `IotraceError` if ``path`` is taken, unless by a plain file and ``overwrite`` is set.
    """
    _check_parent(path)
    _check_file(path, overwrite=overwrite)
    partial = _partial(path)
    with _writing(path):
        try:
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            _check_file(path, overwrite=overwrite)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _check_folder(path: Path, *, overwrite: bool, files: Collection[str]) -> None:
    if not path.exists() and not path.is_symlink():
        return
    ours = path.is_dir() and not path.is_symlink() and (path / MARK).is_file()
    if not overwrite:
        hint = "choose another name, or pass --overwrite" if ours else "choose another name"
        raise IotraceError(f"'{path}' exists already", hint=hint)
    if not ours:
        raise IotraceError(f"'{path}' is no export and is not overwritten", hint="choose another name")
    # Results of a run, or the files it made, may lie there by now.
    others = sorted(entry.name for entry in path.iterdir() if entry.name not in files)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise IotraceError(
            f"'{path}' holds '{others[0]}'{more}, which no export wrote, and is not overwritten",
            hint="move that away, or choose another name",
        )


def _check_file(path: Path, *, overwrite: bool) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise IotraceError(f"'{path}' is not a plain file and is not replaced", hint="choose another name")
    if path.exists() and not overwrite:
        raise IotraceError(f"'{path}' exists already", hint="choose another name, or pass --overwrite")


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
