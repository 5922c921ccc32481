"""Gives damaged recordings to every command that takes one, and prints what came of it.

    python commands_on.py WHOLE SHARE SHARES [COMMAND…]
    python commands_on.py --corpus SHARE SHARES [COMMAND…]

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

HUNG_S = 300
"""A machine at work elsewhere may hold a command up for minutes."""


def main() -> None:
    whole, share, shares = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    recordings = of_the_corpus() if whole == "--corpus" else of(Path(whole))
    for name, make in islice(recordings, share, None, shares):
        told = {}
        for command in sys.argv[4:] or commands.ON_A_RECORDING:
            with tempfile.TemporaryDirectory() as room:
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
            copy = copy_of(whole, room / whole.name, damage)
            return copy.with_name(copy.name.removesuffix(UNFINISHED_SUFFIX))

        yield name, make


def of_the_corpus() -> Iterator[tuple[str, object]]:
    for path in sorted(corpus.STORED.glob("*/*")):

        def make(room: Path, path=path) -> Path:
            commands.status("import", path, "--output", room / "r.iotrace")
            return room / "r.iotrace"  # which is not there if that was refused

        if path.is_file():
            yield str(path.relative_to(corpus.STORED)), make


if __name__ == "__main__":
    main()
