"""The log of runs, for whoever is asked a week later what was done: what was typed, what was said, how it ended."""

import difflib
import logging
import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

from iotrace.schemas import IotraceError, distribution

from .console import LOGGER, note, warn
from .options import ANONYMIZE_KEY

_HIDDEN: Final = "HIDDEN"
_IN_ADDRESS: Final = re.compile(r"\b([a-z][a-z0-9+.-]*://)[^/@:\s]*(:[^@\s]*)?@", re.IGNORECASE)
_ALIKE: Final = 0.75
_BEGINNING: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \d+ [A-Z]+ ")
_TIME: Final = b"0000-00-00T00:00:00Z "
"""How every line begins, with each digit a 0."""
_NAMED_BY: Final = "IOTRACE_LOG or the settings name it: iotrace config"


@contextmanager
def logged(name: str | None, arguments: Sequence[str]) -> Iterator[list[int]]:
    """Keep a log of the run in the file ``name``, if there is one; the block puts its exit status into the list.

    Raises `IotraceError` if nothing can be written there, or if the file is something else than such a log.
    """
    status: list[int] = []
    if name is None:
        yield status
        return
    path = _path(name)
    try:
        handler = _LogFile(open(path, "a+", encoding="utf-8", opener=_open_log))  # noqa: SIM115 - an opener of its own
    except OSError as problem:
        raise IotraceError(
            f"the log '{path}' cannot be written: {problem.strerror}", hint=_NAMED_BY
        ) from problem
    form = logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    form.converter = time.gmtime
    handler.setFormatter(form)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    began = time.monotonic()
    note(f"iotrace {distribution.version()}: {shlex.join(without_secrets(arguments))}")
    try:
        yield status
    finally:
        ended = f"status {status[0]}" if status else "ended by itself"
        note(f"{ended} after {time.monotonic() - began:.1f} s")
        LOGGER.removeHandler(handler)
        handler.close_file()
        if handler.problem is not None:
            warn(f"the log '{path}' is not complete: {handler.problem.strerror or handler.problem}")


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """``arguments`` without what an option that takes a secret is given, also where its name is mistyped.

    Nor with the key that an address may hold: ``s3://KEY:SECRET@bucket/fleet``.
    """
    shown: list[str] = []
    hides_next = False
    for argument in (_IN_ADDRESS.sub(rf"\1{_HIDDEN}@", word) for word in arguments):
        if hides_next:
            shown.append(_HIDDEN)
            hides_next = False
            continue
        name, equals, _ = argument.partition("=")
        if not _takes_secret(name, with_value=bool(equals)):
            shown.append(argument)
            continue
        shown.append(f"{name}={_HIDDEN}" if equals else name)
        hides_next = not equals
    return shown


def _takes_secret(name: str, *, with_value: bool) -> bool:
    if name == "--anonymize" and not with_value:  # which takes no value: the next word is something else
        return False
    is_option = name.startswith(("-", "–", "—"))  # noqa: RUF001 - dashes as a text processor makes them
    return is_option and difflib.SequenceMatcher(None, name.lower(), ANONYMIZE_KEY).ratio() >= _ALIKE


def _path(name: str) -> Path:
    if "\0" in name:
        raise IotraceError(f"the log '{name}' cannot be written: no name holds a zero byte", hint=_NAMED_BY)
    try:
        return Path(name).expanduser()
    except RuntimeError as problem:
        raise IotraceError(
            f"the log '{name}' cannot be written: there is no home folder of '{Path(name).parts[0]}'",
            hint=f"give the whole path; {_NAMED_BY}",
        ) from problem


def _open_log(path: str, flags: int) -> int:
    """For `open`: nothing is waited for, and nothing that is no log of iotrace's is written to."""
    with suppress(FileNotFoundError):
        _refuse_other_kinds(path, Path(path).stat())  # opening a device may do something
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    file = os.open(path, flags, 0o600)  # names in it may be nobody else's business
    try:
        found = os.fstat(file)
        _refuse_other_kinds(path, found)
        if stat.S_ISREG(found.st_mode):
            _refuse_where_answers_go(path, found)
            _refuse_other_contents(path, os.read(file, 64))
    except BaseException:
        os.close(file)
        raise
    return file


def _refuse_other_kinds(path: str, found: os.stat_result) -> None:
    """Raise `IotraceError` for what is neither a plain file nor the device that swallows everything."""
    if stat.S_ISREG(found.st_mode) or (
        stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev
    ):
        return
    kinds = {
        stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe (FIFO)", stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    }  # fmt: skip
    kind = kinds.get(stat.S_IFMT(found.st_mode), "no plain file")
    raise IotraceError(
        f"the log '{path}' is {kind}, and a log is a plain file",
        hint=f"name a file, or {os.devnull} to keep no log; {_NAMED_BY}",
    )


def _refuse_where_answers_go(path: str, found: os.stat_result) -> None:
    """Raise `IotraceError` for the file that stdout or stderr is sent to: the one would overwrite the other."""
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(stream)):
                raise IotraceError(
                    f"the log '{path}' is the file that the answer or the messages go to",
                    hint=f"name another file for the log; {_NAMED_BY}",
                )


def _refuse_other_contents(path: str, head: bytes) -> None:
    """Raise `IotraceError` for a file that begins as no log does; one that a full disk cut off early may be short."""
    if _BEGINNING.match(head) or (len(head) < len(_TIME) and _TIME.startswith(re.sub(rb"\d", b"0", head))):
        return
    raise IotraceError(
        f"'{path}' holds something else than a log of iotrace, so no log is added to it",
        hint=f"name a new file for the log; {_NAMED_BY}",
    )


class _LogFile(logging.StreamHandler[TextIO]):
    """A log that does without what its disk does not take: the work goes on."""

    problem: OSError | None = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging's
        found = sys.exception()
        if isinstance(found, OSError):
            self.problem = self.problem or found
        else:
            super().handleError(record)

    def close_file(self) -> None:
        """What could not be written is tried once more, and left."""
        try:
            self.stream.close()
        except OSError as problem:
            self.problem = self.problem or problem
