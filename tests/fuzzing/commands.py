"""Command lines as a user types them, run in this process: what would end in status 70 is raised here."""

import io
import shlex
import tempfile
import zlib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import typer.main

from iotrace.cli.main import run

typer.main.get_command = cache(typer.main.get_command)
"""Typer makes the tree of all commands anew for every command line, which takes longer than most of them."""

UNEXPECTED = 70
STATUSES = {0, 1, 2}

PLAYED = "--target {out}.bin --busiest 1s"
ON_A_RECORDING = [
    "inspect {}",
    "describe {}",
    "describe {} --json",
    "validate {}",
    "validate {} --json",
    "query {} 'SELECT op, count(*), min(issued_ns), max(size_bytes) FROM io GROUP BY op'",
    "query {} 'FROM counters' --json",
    "incident {}",
    "incident {} --json",
    "incident {} --cut 1 --output {out}.iotrace",
    "report {} --output {out}.html",
    "report {} --output {out}.md",
    "report {} --output {out}.xlsx",
    "compare {} {}",
    "compare {} {} --json",
    "knee {}",
    "knee {} --slo 'p99<15ms' --json",
    "export {} --to csv --output {out}.csv",
    "export {} --to parquet --output {out}.parquet",
    "export {} --to fio --output {out}",
    "export {} --to diskspd --output {out}",
    "import {} --output {out}.iotrace",
    "import {} --anonymize --output {out}.iotrace",
    "capture snapshot {} --output {out}.iotrace",
    "capture recover {}",
    "size {} --catalogue google --busiest 1s",
    "model fit {} --output {out}.toml",
    "replay {} --target model:azure/P10 --output {out}.iotrace --busiest 1s --scale 50x",
    f"replay {{}} --output {{out}}.iotrace {PLAYED} --scale 50x",
    f"replay {{}} --output {{out}}.iotrace {PLAYED} --scale 50x --mode think --addresses fold --file-size 1M --loop 2",
    f"sweep {{}} --output {{out}}.iotrace {PLAYED} --scales 1x,2x --steps 2 --step-seconds 0.5",
]
"""Every command that takes a recording: ``{}`` is its path, ``{out}`` a name that is free."""

QUICK = [command for command in ON_A_RECORDING if "--target" not in command]
"""Those that play nothing."""


def status(*words):
    """The exit status of one command line; what it prints goes nowhere."""
    words = [str(word) for word in words]
    with redirect_stdout(_nowhere()), redirect_stderr(_nowhere()):
        found = run(words)
        if found == UNEXPECTED:
            run([*words, "--debug"])
    assert found in STATUSES, f"{words}: status {found}"
    return found


def _nowhere():
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace")


def on_a_recording(command, recording, room):
    """The same of one of `ON_A_RECORDING`; what it writes below ``room`` is removed."""
    with tempfile.TemporaryDirectory(dir=room) as folder:
        out = str(Path(folder) / "out")
        return status(
            *(word.replace("{out}", out).replace("{}", str(recording)) for word in shlex.split(command))
        )


def one_for(data):
    """One of `QUICK`, for the same bytes always the same."""
    return QUICK[zlib.crc32(data) % len(QUICK)]
