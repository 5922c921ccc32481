"""What compare says of a storage held against itself, and against one that takes 1.3 times as long. Linux, root.

    .venv/bin/python tests/bench/bench_verdict.py [--rounds 20] [--seconds 3] [--delay-ms 4] [--pacing auto]
        [--folder DIR [--only measure|judge]]

The storage is a file of a FUSE file system that takes the same time for every read and write (tests/cli/slow_file.py),
with a loop device over it. A round records fio (Poisson, half reads, 8 KiB) on it, then plays the recording twice,
watched: on the same device, and on one that is 1.3 times as slow. Printed: how often compare said what, by operation.
It ought to say "no difference" of the first and "slower" of the second in at least 19 of 20 rounds. With --folder
rounds add up over several calls, and measuring and judging can be done apart.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from bench_round_trip import fio, loop_over
from fio_peer import has_fio

from iotrace.analyze.compare.recordings import compare
from iotrace.cli.watching import note_watched, watched
from iotrace.replay import ReplayOptions, replay
from iotrace.replay.targets import holders
from iotrace.schemas import Recording
from iotrace.schemas.sweep import watched_path

SIZE_BYTES = 1 << 30
SLOWER = 1.3
LOAD = ["--rw=randrw", "--rwmixread=50", "--bs=8k", "--iodepth=32", "--rate_process=poisson", "--norandommap",
        "--rate_iops=200,200"]  # fmt: skip


@contextmanager
def slow_device(path: Path, delay_s: float) -> Iterator[str]:
    """A loop device whose every I/O takes so long."""
    path.parent.mkdir(exist_ok=True)
    program = Path(__file__).parents[1] / "cli" / "slow_file.py"
    with subprocess.Popen([sys.executable, program, path, str(SIZE_BYTES), str(delay_s)]) as server:
        try:
            while not path.exists() and server.poll() is None:
                time.sleep(0.05)
            with loop_over(path) as device:
                yield device
        finally:
            server.terminate()


def measure_round(folder: Path, devices: dict[str, str], words: argparse.Namespace) -> None:
    same = devices["same"]
    with watched([same], folder / "source.iotrace"):
        fio(same, [LOAD], words.seconds)
    source = Recording.open(folder / "source.iotrace")
    for name, device in devices.items():
        output = folder / f"{name}.iotrace"
        options = ReplayOptions(
            targets=(device,), destroy_data=(device,), allow_writes=True, addresses="identity", layer="block",
            pacing=words.pacing,
        )  # fmt: skip
        with watched([device], watched_path(output)):
            played = replay(source, output, options)
        note_watched(Recording.open(watched_path(output)), played)
    (folder / "measured").touch()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--delay-ms", type=float, default=4.0)
    parser.add_argument("--pacing", default="auto")
    parser.add_argument("--folder", type=Path, help="where the recordings stay; a temporary folder otherwise")
    parser.add_argument("--only", choices=("measure", "judge"))
    words = parser.parse_args()
    if not has_fio():
        sys.exit("fio is not installed")
    with ExitStack() as stack:
        folder = words.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="iotrace-verdict-"))
        )
        folder.mkdir(exist_ok=True)
        if words.only != "judge":
            delay_s = words.delay_ms / 1e3
            devices = {
                name: stack.enter_context(slow_device(folder / name / "disk", delay_s * factor))
                for name, factor in (("same", 1.0), ("slower", SLOWER))
            }
            # iotrace writes to no FUSE, for it cannot see what else uses what lies below. Nothing lies below this one.
            stack.enter_context(patch.object(holders, "unseen_use_of_file", return_value=None))
            for _ in range(words.rounds):
                one = folder / f"round-{len(list(folder.glob('round-*'))):03}"
                one.mkdir()
                measure_round(one, devices, words)
        if words.only != "measure":
            judge(folder)


def judge(folder: Path) -> None:
    """Count what compare says, of all rounds that were measured to their end."""
    rounds = sorted(one.parent for one in folder.glob("round-*/measured"))
    for name in ("same", "slower"):
        said: dict[str, Counter[str]] = {}
        for one in rounds:
            seen = Recording.open(watched_path(one / f"{name}.iotrace"))
            for verdict in compare(Recording.open(one / "source.iotrace"), seen).verdicts:
                said.setdefault(verdict.op, Counter())[verdict.direction] += 1
        wanted = "no difference" if name == "same" else "slower"
        for op, counts in said.items():
            told = ", ".join(f"{word} {count}" for word, count in counts.most_common())
            print(
                f"{name} storage, {op}s: {counts[wanted]} of {len(rounds)} rounds '{wanted}' ({told})",
                flush=True,
            )


if __name__ == "__main__":
    main()
