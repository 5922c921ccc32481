"""Gives damaged recordings to every command that takes one, and prints what came of it.

    python commands_on.py WHOLE SHARE SHARES [COMMAND…]
    python commands_on.py --corpus SHARE SHARES [COMMAND…]
    python commands_on.py --undamaged WHOLE [COMMAND…]

Every ``SHARES``-th damage of the recording WHOLE, from the ``SHARE``-th on; or of what the fuzzers' corpus becomes when
it is imported. A line of JSON for each: its name, and each command's exit status, or the exception that nothing
expected. A command that hangs is killed, and this process with it.
"""

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "fuzzing"), str(Path(__file__).parent)]

import commands  # noqa: E402
import corpus  # noqa: E402
from damaged_recordings import copy_of, damages  # noqa: E402

from iotrace.schemas.recording import UNFINISHED_SUFFIX  # noqa: E402

MEMORY = Path("/dev/shm")
"""Most of the time went into copies on a disk and their removal. What plays needs one: memory is no target."""

HUNG_S = 300
"""A machine at work elsewhere may hold a command up for minutes."""


def main() -> None:
    if sys.argv[1] == "--undamaged":
        whole, chosen = Path(sys.argv[2]), sys.argv[3:]
        recordings = iter(
            [("undamaged", lambda room: named(copy_of(whole, room / whole.name, lambda _: None)))]
        )
    else:
        whole, share, shares, *chosen = sys.argv[1:]
        every = of_the_corpus() if whole == "--corpus" else of(Path(whole))
        recordings = islice(every, int(share), None, int(shares))
    for name, make in recordings:
        told = {}
        for command in chosen or commands.ON_A_RECORDING:
            in_memory = MEMORY.is_dir() and commands.PLAYED not in command
            with tempfile.TemporaryDirectory(dir=MEMORY if in_memory else None) as room:
                signal.alarm(HUNG_S)
                told[command] = outcome(command, make, Path(room))
                signal.alarm(0)
        print(json.dumps({"damage": name, "statuses": told}), flush=True)


def outcome(command, make, room) -> int | str:
    try:
        recording = make(room)
        return commands.on_a_recording(command, recording, room)
    except Exception as problem:  # noqa: BLE001 - all that is unexpected is looked for
        return f"{type(problem).__name__}: {problem}"[:300]


def of(whole: Path) -> Iterator[tuple[str, object]]:
    for name, damage in damages(whole):

        def make(room: Path, damage=damage) -> Path:
            return named(copy_of(whole, room / whole.name, damage))

        yield name, make


def named(copy: Path) -> Path:
    """As a user names it: what is unfinished by the name that it will have."""
    return copy.with_name(copy.name.removesuffix(UNFINISHED_SUFFIX))


def of_the_corpus() -> Iterator[tuple[str, object]]:
    for path in sorted(corpus.STORED.glob("*/*")):

        def make(room: Path, path=path) -> Path:
            commands.status("import", path, "--output", room / "r.iotrace")
            return room / "r.iotrace"  # which is not there if that was refused

        if path.is_file():
            yield str(path.relative_to(corpus.STORED)), make


if __name__ == "__main__":
    main()
