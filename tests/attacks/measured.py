"""A program run to its end within limits, and what it took: its own memory, whoever started it."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = """
import json, os, resource, sys, threading, subprocess
limits, command = json.loads(sys.argv[1]), sys.argv[2:]
for name, most in limits["at_most"].items():
    resource.setrlimit(getattr(resource, name), (most, most))
child = subprocess.Popen(command)
watch = threading.Timer(limits["wait_s"], child.kill)
watch.start()
_, status, used = os.wait4(child.pid, 0)
watch.cancel()
child.returncode = os.waitstatus_to_exitcode(status)
figures = [child.returncode, used.ru_maxrss << 10, used.ru_utime + used.ru_stime]
with open(limits["figures"], "w") as file:
    json.dump(figures, file)
"""
"""Linux counts a program's peak from the size of the one that it was forked from, and a run of tests may be large by
then: this one between them is small."""


@dataclass(frozen=True)
class Measured:
    status: int
    out: bytes | None
    err: str
    peak_bytes: int
    cpu_s: float


def run(command, *, wait_s=900, at_most=None, stdout=subprocess.PIPE, **options) -> Measured:
    """Run ``command``; it is killed after ``wait_s`` seconds. ``at_most`` has limits by their names in `resource`."""
    with tempfile.TemporaryDirectory() as room:
        figures = Path(room) / "figures"
        limits = json.dumps({"wait_s": wait_s, "at_most": at_most or {}, "figures": str(figures)})
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, limits, *map(str, command)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=True,
            **options,
        )
        status, peak_bytes, cpu_s = json.loads(figures.read_text())
    return Measured(status, done.stdout, done.stderr.decode("utf-8", "replace"), peak_bytes, cpu_s)
