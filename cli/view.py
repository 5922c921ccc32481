"""The command that shows a report in a browser, from the recording itself."""

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer

from iotrace.analyze.report.serve import served
from iotrace.replay import parse_scale

from . import console
from .analyze import open_input
from .options import Need, Slo


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("view")(view_command)


def view_command(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="X…", help="Recordings and sweeps.", show_default=False)
    ],
    need: Need = None,
    slo: Slo = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, metavar="N", help="Port to listen on.", show_default="a free one"
        ),
    ] = 0,
) -> None:
    """Open the report in a browser and zoom to single I/Os.

    Serves it on this machine only.

    Listens on 127.0.0.1 until you stop it with Ctrl-C. Anyone who has the address can read the recordings.

    Example: iotrace view prod.iotrace
    """
    needed = parse_scale(need) if need is not None else None
    opened = [open_input(one) for one in inputs]
    with ExitStack() as stack:
        with console.working("reading"):
            server, address = stack.enter_context(served(opened, slo=slo, need=needed, port=port))
        console.paragraph("Open this in a browser on this machine; Ctrl-C ends it:")
        # Never wrapped: half an address opens nothing.
        console.data.print(address, soft_wrap=True, highlight=False)
        # That is how it is meant to end.
        with suppress(KeyboardInterrupt):
            server.serve_forever()
