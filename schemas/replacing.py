"""What ``--overwrite`` may replace: what iotrace wrote, as it wrote it, and nothing that was put there since.

A folder has an index that says which files iotrace wrote: their checksums, or for a table of a recording the number of
its rows. Of the index, and of the tables, an extended attribute of the folder tells size and checksum (`seal_folder`).
A file carries a seal, the checksum of its content: in an extended attribute (on NTFS in a stream beside the
data), and text that can hold a comment in its last line too, where it survives any copy. What has been changed,
added or exchanged since, and what nothing is known of, is not replaced.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .durable import sync_file, sync_folder
from .errors import IotraceError
from .partials import (
    LEFT_NAME,
    MARK,
    Claim,
    Partial,
    beside,
    exchange,
    is_claimed_elsewhere,
    is_unfinished,
    left_behind,
    mounted_as,
    remove_given_names,
    remove_if_left,
    rename_to_free,
    taken_over,
)
from .plain_files import read_plain
from .stopping import deferred

SEAL: Final = "user.iotrace.output"
_STREAM: Final = "iotrace.output"
_LAST_LINE: Final = re.compile(rb"<!-- written by iotrace, sha256 ([0-9a-f]{64}) -->\n\Z")
_LAST_LINE_BYTES: Final = len("<!-- written by iotrace, sha256  -->\n") + 64
INDEX_BYTES_MAX: Final = 16 << 20
_END_BYTES: Final = 1 << 20
"""A file is known by its size and so much of its end, where Parquet says what is in it: a table may have many GB."""

Written = Mapping[str, str | None]
"""What iotrace wrote, by its path within a folder: the checksum it had, or None where it was looked at already.

Folders, where they may be empty, end in a slash.
"""


def sealed_text(text: str) -> str:
    """``text``, which may end in an HTML comment, with its seal as the last line."""
    return f"{text}<!-- written by iotrace, sha256 {hashlib.sha256(text.encode()).hexdigest()} -->\n"


def sums_of(folder: Path) -> dict[str, str]:
    """The checksums of all files below ``folder``, for its index."""
    files = sorted(file for file in folder.rglob("*") if not file.is_dir())
    return {file.relative_to(folder).as_posix(): _sum_of(file) for file in files}


def seal_folder(folder: Path) -> None:
    """Note what the files at the top of a finished folder are, and the parts of its tables, so that a change shows.

    A folder without this note, such as most copies, is judged by its index alone.
    """
    if os.name != "nt":
        with suppress(OSError):
            names = {_sealed_as(path.relative_to(folder).as_posix()) for path in _at_top(folder)}
            _note(folder, json.dumps({name: _brief_sum(folder, name) for name in sorted(names)}))


def unseal_folder(folder: Path) -> None:
    """Forget the note: a file of the folder is about to change."""
    if hasattr(os, "removexattr"):
        with suppress(OSError):
            os.removexattr(folder, SEAL)


def unchanged(folder: Path, written: Written) -> Written:
    """``written`` without the files that have changed since `seal_folder`."""
    try:
        noted = json.loads(_noted(folder) or "{}")
        changed = {name for name, told in noted.items() if _brief_sum(folder, name) != told}
    except (ValueError, AttributeError, OSError):
        return written
    return {name: told for name, told in written.items() if _sealed_as(name) not in changed}


def _at_top(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.iterdir() if not path.is_dir())
    yield from folder.glob("*/part-*.parquet")


def _sealed_as(name: str) -> str:
    """All parts of a table are one."""
    table, _, part = name.partition("/")
    return f"{table}/" if part.endswith(".parquet") and "/" not in part else name


def _brief_sum(folder: Path, name: str) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.glob(f"{name}part-*.parquet")) if name.endswith("/") else [folder / name]:
        if not path.is_file() or path.is_symlink():
            continue
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size_bytes - _END_BYTES))
            found.update(f"{path.name} {size_bytes} ".encode() + file.read(_END_BYTES))
    return found.hexdigest()[:32]


def read_index(path: Path) -> bytes | None:
    """The content of a folder's index; None where there is not a regular file of a sensible size."""
    try:
        content = None if path.is_symlink() else read_plain(path, INDEX_BYTES_MAX)
    except OSError:
        return None
    return content if content is not None and len(content) <= INDEX_BYTES_MAX else None


@contextmanager
def new_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A file to write; it becomes ``path``, sealed, when all went well, and is removed otherwise.

    Raises `IotraceError` if ``path`` is taken, see `check_file`, or cannot be written.
    """
    check_file(path, overwrite=overwrite)
    try:
        with Partial.file(path) as partial:
            yield partial.path
            _note(partial.path, _sum_of(partial.path))
            check_file(path, overwrite=overwrite)
            sync_file(partial.path)
            _move_file_into_place(partial.path, path)
            sync_folder(path.parent)
    except FileExistsError as problem:
        raise _just_changed(path) from problem
    except OSError as problem:
        raise IotraceError(
            f"cannot write '{path}': {problem.strerror or problem}",
            hint="raise the limit on the size of files (ulimit -f unlimited)"
            if problem.errno == errno.EFBIG
            else "free some room there, or choose a folder you may write to with -o",
        ) from problem


def _move_file_into_place(partial: Path, path: Path) -> None:
    """Leaves what was replaced as ``partial``, if anything."""
    if _found(path) is None:
        rename_to_free(partial, path)
        return
    with _claimed(path) as claim:
        if not exchange(partial, path):
            partial.replace(path)
            return
        try:
            check_file(partial, overwrite=True)
        except IotraceError as problem:
            exchange(partial, path)
            claim.unmark()
            raise _just_changed(path) from problem


@contextmanager
def _claimed(path: Path) -> Iterator[Claim]:
    claim = Claim(path)
    try:
        yield claim
    finally:
        claim.release()


def _just_changed(path: Path) -> IotraceError:
    return IotraceError(f"'{path}' has just been changed", hint="choose another name")


def check_file(path: Path, *, overwrite: bool) -> None:
    """Raise `IotraceError` unless ``path`` is free, or a file as iotrace wrote it and ``overwrite`` is set."""
    folder = path.parent
    if not folder.is_dir():
        raise IotraceError(
            f"cannot write '{path}': '{folder}' is not a folder", hint="create it, or choose another -o"
        )
    found = _found(path)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        raise IotraceError(f"'{path}' is a folder", hint="name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise IotraceError(f"'{path}' is not a plain file and is not replaced", hint="choose another name")
    ours = _is_sealed(path, found.st_size)
    if not overwrite:
        raise _exists(path, ours=ours)
    if not ours:
        raise IotraceError(
            f"'{path}' is not as iotrace wrote it, or not by iotrace, and is not overwritten",
            hint="choose another name, or delete it if nobody needs it",
        )


@dataclass(frozen=True, slots=True)
class FolderKind:
    """A kind of folder that iotrace writes: ``name`` with its article."""

    name: str
    written_in: Callable[[Path], Written | None]
    """What iotrace wrote in a folder; None if it is not of this kind."""


def check_folder(path: Path, kind: FolderKind, *, overwrite: bool) -> None:
    """Raise `IotraceError` unless ``path`` is free, or all that is in it iotrace wrote and ``overwrite`` is set.

    What a killed command had begun to replace there is first put in order.
    """
    refuse_nameless(path)
    _finish_replacing(path, kind)
    found = _found(path)
    if found is None:
        return
    if is_claimed_elsewhere(path):
        raise IotraceError(
            f"'{path}' is being written just now", hint="wait for its end, or choose another name"
        )
    written = kind.written_in(path) if stat.S_ISDIR(found.st_mode) else None
    if not overwrite:
        raise _exists(path, ours=written is not None)
    if written is None:
        raise IotraceError(f"'{path}' is not {kind.name} and is not overwritten", hint="choose another name")
    try:
        _remove_left_within(path, written, mounted_as(path))
        others = list(_others(path, written, mounted_as(path)))
    except OSError as problem:
        raise IotraceError(
            f"what is in '{path}' cannot be looked at, and it is not overwritten: {problem.strerror}",
            hint="choose another name",
        ) from problem
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise IotraceError(
            f"'{path}' holds '{others[0]}'{more}, which is not as iotrace wrote it or not by iotrace, and is not "
            "overwritten",
            hint="move that away, or choose another name",
        )


class Earlier:
    """What iotrace wrote before at a name that something new has now; hidden beside it until `settle`."""

    def __init__(
        self, path: Path, kind: FolderKind, aside: Path | None = None, claim: Claim | None = None
    ) -> None:
        """Use `put_in_place`."""
        self._path, self._kind, self._aside, self._claim = path, kind, aside, claim
        self._new: Claim | None = None

    def wait_for(self, new: Claim) -> None:
        """Where the process is killed before `settle`, what has the name now is not finished, and is not kept."""
        self._new = new

    def settle(self, *, replaced: bool) -> None:
        """Remove it; or, if nothing came of the new, remove that and put it back.

        What iotrace did not write stays in any case, be it in a folder with a hidden name.
        """
        with deferred():
            self._settle(replaced=replaced)

    def _settle(self, *, replaced: bool) -> None:
        if replaced:
            if self._new is not None:
                self._new.unmark()
            if self._aside is not None:
                remove_written(self._aside, self._kind)
        else:
            remove_written(self._path, self._kind)
            if self._aside is not None:
                if _found(self._path) is not None:
                    # In sight, for whoever put something into it.
                    self._path.rename(self._path.with_name(f"{self._path.name}.left-{secrets.token_hex(4)}"))
                self._aside.rename(self._path)
        self.let_go()

    def let_go(self) -> None:
        """It is in its place again, or gone."""
        for claim in (self._claim, self._new):
            if claim is not None:
                claim.unmark()
                claim.release()
        self._aside = self._claim = self._new = None


def put_in_place(partial: Path, path: Path, kind: FolderKind) -> Earlier:
    """Give ``partial`` the name ``path``; what stood there is out of the way then, and not yet removed.

    Where the file system can exchange two names ``path`` stands for one of the two at any moment. Elsewhere for none
    between two renames: if the process is killed there, the next command puts the earlier one back.

    Raises ``OSError``, and `IotraceError` where something that is not of ``kind`` was put there at the last moment.
    """
    if _found(path) is None:
        rename_to_free(partial, path)
        return Earlier(path, kind)
    aside = beside(path, "old")
    earlier = Earlier(path, kind, aside, Claim(path))
    if exchange(partial, path):
        partial.rename(aside)
        try:
            check_folder(aside, kind, overwrite=True)
        except IotraceError as problem:
            exchange(aside, path)
            aside.rename(partial)
            earlier.let_go()
            raise IotraceError(f"'{path}' has just been changed", hint=problem.hint) from problem
        return earlier
    path.rename(aside)
    try:
        check_folder(aside, kind, overwrite=True)
        partial.rename(path)
    except IotraceError as problem:
        earlier.settle(replaced=False)
        raise IotraceError(f"'{path}' has just been changed", hint=problem.hint) from problem
    except OSError:
        earlier.settle(replaced=False)
        raise
    return earlier


def grow_in_place(room: Partial, path: Path, kind: FolderKind) -> Earlier:
    """Like `put_in_place`, for what is not finished yet.

    If the process is killed before it settles this, the next command puts what stood there back.
    """
    assert room.claim is not None
    if _found(path) is not None:
        room.claim.mark_unfinished()
    earlier = put_in_place(room.path, path, kind)
    if not is_unfinished(path):
        room.claim.unmark()
    # The lock stays: nobody else is to replace what is being written.
    earlier.wait_for(room.claim)
    room.claim = None
    return earlier


def move_into_place(partial: Path, path: Path, kind: FolderKind) -> None:
    """Like `put_in_place`; what stood there is removed once the new name is on the disk."""
    earlier = put_in_place(partial, path, kind)
    sync_folder(path.parent)
    earlier.settle(replaced=True)


def _finish_replacing(path: Path, kind: FolderKind) -> None:
    """Do what a killed command would have done at its end with what it replaced, or was to replace it with."""
    for aside in left_behind(path):
        with taken_over(aside) as is_ours, taken_over(path) as is_left:
            if is_ours and is_unfinished(aside):
                remove_given_names(aside)
                continue
            if not is_ours or (written := _written_at(aside, kind)) is None:
                continue
            if _found(path) is None:
                keeps = LEFT_NAME.fullmatch(aside.name) is not None
            elif is_unfinished(path):
                if not is_left:  # whoever writes it lives
                    continue
                keeps = False
                remove_given_names(path, in_sight=True)
            elif (now := _written_at(path, kind)) is None:
                continue
            else:
                keeps = _has_results(now) or not _has_results(written)
            with suppress(OSError):
                Earlier(path, kind, aside).settle(replaced=keeps)
                os.removexattr(aside if keeps else path, MARK)


def _remove_left_within(folder: Path, written: Written, mounted: tuple[int, str], within: str = "") -> None:
    """Remove what a killed command was writing in a folder that it had begun; raises ``OSError``."""
    for entry in list(os.scandir(folder)):
        path, name = Path(entry.path), within + entry.name
        if LEFT_NAME.fullmatch(entry.name):
            remove_if_left(path)
            with suppress(OSError):  # killed before it could mark what is empty still
                path.rmdir()
        elif (
            entry.is_dir(follow_symlinks=False)
            and _leads_to_written(name, written)
            and mounted_as(path) == mounted
        ):
            _remove_left_within(path, written, mounted, name + "/")


def _written_at(folder: Path, kind: FolderKind) -> Written | None:
    found = _found(folder)
    return kind.written_in(folder) if found is not None and stat.S_ISDIR(found.st_mode) else None


def _has_results(written: Written) -> bool:
    """Whether there is more than indexes."""
    return any(not name.endswith((".json", "/")) for name in written)


def remove_written(folder: Path, kind: FolderKind) -> None:
    """Remove what iotrace wrote in ``folder``, as it wrote it, and the folder if that was all; errors are no matter."""
    with suppress(OSError):
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and (written := kind.written_in(folder)) is not None:
            _remove_written(folder, written, mounted_as(folder))


def _remove_written(folder: Path, written: Written, mounted: tuple[int, str], within: str = "") -> None:
    """Remove what iotrace wrote, and ``folder`` if that was all.

    Only what lies there is looked at: an index may name anything.
    """
    for entry in list(os.scandir(folder)):
        name = within + entry.name
        found = Path(entry.path).lstat()
        if stat.S_ISDIR(found.st_mode):
            if _leads_to_written(name, written) and mounted_as(Path(entry.path)) == mounted:
                _remove_written(Path(entry.path), written, mounted, name + "/")
        elif stat.S_ISREG(found.st_mode) and name in written:
            Path(entry.path).unlink()
    with suppress(OSError):
        folder.rmdir()


def _leads_to_written(name: str, written: Written) -> bool:
    return any(known.startswith(name + "/") for known in written)


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise IotraceError(
            f"cannot look at '{path}': {problem.strerror}", hint="choose another name with -o"
        ) from problem


def refuse_nameless(path: Path) -> None:
    """Raise `IotraceError` for a path that ends in no name."""
    if not path.name:  # as of "." and "/"
        raise IotraceError(f"'{path}' is no name for a result", hint="name one: -o result.iotrace")


def _exists(path: Path, *, ours: bool) -> IotraceError:
    hint = "choose another name, or pass --overwrite" if ours else "choose another name"
    return IotraceError(f"'{path}' exists already", hint=hint)


def _others(folder: Path, written: Written, mounted: tuple[int, str], within: str = "") -> Iterator[str]:
    """Paths of what is below ``folder`` and not as it was written; a folder of strangers is one of them."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        name = within + entry.name
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            # What is mounted there is somebody's own.
            if _leads_to_written(name, written) and mounted_as(Path(entry.path)) == mounted:
                yield from _others(Path(entry.path), written, mounted, name + "/")
            else:
                yield name + "/"
        elif (
            not stat.S_ISREG(found.st_mode)
            or name not in written
            or ((expected := written[name]) is not None and _sum_of(Path(entry.path)) != expected)
        ):
            yield name


def _is_sealed(path: Path, size_bytes: int) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(max(0, size_bytes - _LAST_LINE_BYTES))
            if line := _LAST_LINE.search(file.read()):
                file.seek(0)
                above = hashlib.sha256()
                left = size_bytes - _LAST_LINE_BYTES
                while left > 0 and (piece := file.read(min(left, 1 << 20))):
                    above.update(piece)
                    left -= len(piece)
                return above.hexdigest() == line[1].decode()
        noted = _noted(path)
        return noted is not None and noted == _sum_of(path)
    except OSError:
        return False


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note(path: Path, text: str) -> None:
    """Where the file system keeps no such notes the file is never replaced."""
    with suppress(OSError):
        if os.name == "nt":
            Path(f"{path}:{_STREAM}").write_text(text, "ascii")
        elif hasattr(os, "setxattr"):
            os.setxattr(path, SEAL, text.encode())


def _noted(path: Path) -> str | None:
    try:
        if os.name == "nt":
            return Path(f"{path}:{_STREAM}").read_text("ascii")
        return os.getxattr(path, SEAL, follow_symlinks=False).decode("ascii", "replace")
    except (OSError, AttributeError, UnicodeDecodeError):
        return None
