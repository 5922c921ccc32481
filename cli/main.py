"""The command line put together, and what happens when something goes wrong."""

import errno
import io
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any, TextIO

import typer
from typer._click import Context
from typer._click.exceptions import ClickException, MissingParameter, NoArgsIsHelpError
from typer.core import TyperGroup
from typer.main import get_command

from iotrace.schemas import IotraceError, distribution, stopping
from iotrace.schemas.errors import NEEDS_MEMORY
from iotrace.schemas.plain_files import has_working_folder, without_working_folder
from iotrace.schemas.text import shortened

from . import (
    analyze,
    capture,
    capture_linux,
    capture_plan,
    ceiling,
    characterize,
    console,
    demo,
    export,
    fleet,
    incident,
    inspect,
    model,
    query,
    replay,
    run_log,
    settings,
    size,
    sweep,
    validate,
    view,
)
from .console import fail, say
from .extras import extra_with, install
from .options import INTERRUPTED


class _Stoppable(TyperGroup):
    def invoke(self, ctx: Context) -> Any:  # noqa: ANN401 - as typer's
        """Say that the user's request ended a command; typer itself would end it without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            with stopping.deferred():  # a terminal that closes asks more than once
                say("stopped; nothing was left half-written")
            return INTERRUPTED


app = typer.Typer(
    name="iotrace",
    cls=_Stoppable,
    help="Record a server's disk I/O, replay it harder on other storage, and find the point where it breaks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (
    demo,
    capture,
    inspect,
    capture_linux,
    capture_plan,
    analyze,
    incident,
    query,
    replay,
    sweep,
    characterize,
    ceiling,
    model,
    size,
    fleet,
    export,
    view,
    validate,
    settings,
):
    group.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"iotrace {distribution.version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback when something goes wrong.")
    ] = False,
) -> None:
    """Options that every command takes; `main` acts on --debug, wherever it stands."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the answer is no, 2 wrong use or bad input, 130 interrupted."""
    _write_any_sign()
    status = run(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _write_no_more(sys.stdout)
    except OSError as problem:
        status = _tell(problem)
    try:
        sys.stderr.flush()
    except OSError:
        _write_no_more(sys.stderr)
    sys.exit(status)


def _write_no_more(stream: TextIO) -> None:
    """What is left to be written would fail again, and in Python's words, when the program ends."""
    # Whoever runs a command within a process of his own may keep its output in memory.
    with suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _write_any_sign() -> None:
    """Windows gives a file or pipe a code page without µ or ≤: nothing is to fail for want of a sign."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty() or "PYTHONIOENCODING" in os.environ:
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="replace")


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    debug = "--debug" in arguments
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError as problem:
        return _tell(problem)  # Arrow and DuckDB open no file of such a name: before anything is done for it
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        found = settings.chosen()
        console.use_colors(settings.named(found, "color") != "never")
        with (
            run_log.logged(settings.named(found, "log"), arguments) as status,
            stopping.interrupting(besides=signal.SIGINT),
        ):
            status.append(_run(arguments, found, debug=debug))
            return status[0]
    except IotraceError as problem:
        if debug:
            raise
        return _tell(problem)


def _run(arguments: list[str], found: list[settings.Chosen], *, debug: bool) -> int:
    settings.say_defaults(found, arguments)
    defaults = settings.defaults(found)
    try:
        return int(app(arguments, prog_name="iotrace", standalone_mode=False, default_map=defaults) or 0)
    except NoArgsIsHelpError as nothing:
        typer.echo(nothing.format_message())
        return 0
    except ClickException as problem:
        words = problem.format_message().rstrip(".")
        if isinstance(problem, MissingParameter) and (what := getattr(problem.param, "help", "")):
            words += f": {what[:1].lower()}{what[1:].rstrip('.')}"
        fail(words, f"{_command(arguments)} --help lists what it takes")
        return 2
    except BrokenPipeError:
        # The reader went away (head, a closed pager): that ends the work without a word.
        _write_no_more(sys.stdout)
        return 0
    except Exception as problem:
        if debug:
            raise
        return _tell(problem)


def _command(arguments: list[str]) -> str:
    """The command that ``arguments`` name: not every complaint of the parser knows which it was."""
    words = "iotrace"
    found: Any = get_command(app)
    for argument in arguments:
        found = getattr(found, "commands", {}).get(argument)
        if found is None:
            break
        words += f" {argument}"
    return words


def _tell(problem: Exception) -> int:
    """Say what went wrong in the user's words, and give the exit status."""
    match problem:
        case IotraceError():
            fail(problem.message, problem.hint)
        case MemoryError() | OSError(errno=errno.ENOMEM):
            fail("there is not enough memory", NEEDS_MEMORY)
        case Exception() if (
            type(problem).__name__ == "OutOfMemoryException"
        ):  # DuckDB's, which need not be loaded
            fail("there is not enough memory", NEEDS_MEMORY)
        case RuntimeError() if str(problem) == "can't start new thread":
            fail("no thread can be started: there is not enough memory, or there are too many", NEEDS_MEMORY)
        case FileNotFoundError(filename=None) if not has_working_folder():
            return _tell(without_working_folder())
        case OSError():
            _fail_as_the_system_says(problem)
        case ModuleNotFoundError() if extra := extra_with(problem.name or ""):
            package = (problem.name or "").partition(".")[0]
            fail(f"this needs {package}, which is not installed", install(extra))
        case UnicodeEncodeError():
            fail("a name on the command line is not text (UTF-8)", "rename that file")
        case _:
            fail(
                f"iotrace itself went wrong: {type(problem).__name__}: {problem}",
                "run it again with --debug and report what it prints",
            )
            return 70
    return 2


def _fail_as_the_system_says(problem: OSError) -> None:
    """For what nothing nearer to the user's words has answered: a disk that is full, a name too long."""
    where = f"'{shortened(str(problem.filename))}'" if problem.filename is not None else "the answer"
    match problem.errno:
        case errno.ENOSPC | errno.EDQUOT:
            hint = "free some room there"
        case errno.EFBIG:
            hint = "raise the limit on the size of files (ulimit -f unlimited)"
        case errno.ENAMETOOLONG:
            hint = "use a shorter name"
        case _:
            hint = "check the path, its permissions and the disk; --debug shows where it happened"
    if problem.filename is None:
        _write_no_more(sys.stdout)
    verb = "is not to be used" if problem.filename is not None else "cannot be written"
    fail(f"{where} {verb}: {problem.strerror or problem}", hint)


if __name__ == "__main__":
    main()
