"""The command line put together, and what happens when something goes wrong."""

import os
import sys
from importlib import metadata
from typing import Annotated

import typer
from typer._click.exceptions import ClickException, UsageError

from iotrace.schemas import IotraceError

from . import (
    analyze,
    capture,
    capture_linux,
    capture_plan,
    ceiling,
    characterize,
    demo,
    export,
    incident,
    query,
    replay,
    sweep,
    validate,
)
from .console import fail, say

app = typer.Typer(
    name="iotrace",
    help="Record a server's disk I/O, replay it harder on other storage, and find the point where it breaks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (
    demo,
    capture,
    capture_linux,
    capture_plan,
    analyze,
    incident,
    query,
    replay,
    sweep,
    characterize,
    ceiling,
    export,
    validate,
):
    group.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"iotrace {metadata.version('iotrace')}")
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
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        return int(app(arguments, prog_name="iotrace", standalone_mode=False) or 0)
    except IotraceError as problem:
        if debug:
            raise
        fail(problem.message, problem.hint)
        return 2
    except ClickException as problem:
        command = problem.ctx.command_path if isinstance(problem, UsageError) and problem.ctx else "iotrace"
        fail(problem.format_message().rstrip("."), f"{command} --help lists what it takes")
        return 2
    except KeyboardInterrupt:
        say("stopped; nothing was left half-written")
        return 130
    except BrokenPipeError:
        # The reader went away (head, a closed pager): that ends the work without a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as problem:
        if debug:
            raise
        fail(
            f"iotrace itself went wrong: {type(problem).__name__}: {problem}",
            "run it again with --debug and report what it prints",
        )
        return 70


if __name__ == "__main__":
    main()
