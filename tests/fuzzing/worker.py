"""One reader against damaged bytes, in a process of its own that may die of them.

    python tests/fuzzing/worker.py fuzz FORMAT FOLDER GROWN SECONDS SEED
    python tests/fuzzing/worker.py replay FILE…
    python tests/fuzzing/worker.py damage ROUNDS SEED FOLDER FILE…

``fuzz`` damages the inputs of `corpus` and of GROWN, goes on from each that reaches a new line of `capture`, keeps
those in GROWN, and leaves the input at work in FOLDER/current: if this process dies or raises, that is the finding.
``replay`` reads files of folders named after their format and prints each name before it does. ``damage`` cuts, flips
and repeats bytes of whole traces behind their first 1024: only one in ten may be refused for it.
"""

import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

# Arrow's own allocator and the C library's reserve address space by the gigabyte, which would hide what readers take.
os.environ |= {"ARROW_DEFAULT_MEMORY_POOL": "system"}

import corpus
import doors
import planted
import reading
from mutation import mutate

import iotrace.capture
from iotrace.capture.formats.registry import OURS

ENTRIES = {entry.name: entry for entry in (*(one.load() for one in OURS), *doors.DOORS, *planted.FORMATS)}
ROOM = str(Path(iotrace.capture.__file__).parent)
COMMANDS_EVERY = 32
"""One input of so many, and each that reaches something new, is given to the command line too, which takes longer."""


class Coverage:
    """Lines of `capture` that were reached, by Python's own tracing."""

    def __init__(self):
        self._lines = set()
        self._ours = {}
        self.is_new = False

    def __enter__(self):
        self.is_new = False
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def __len__(self):
        return len(self._lines)

    def _call(self, frame, _event, _argument):
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(ROOM)
        return self._line if ours else None

    def _line(self, frame, event, _argument):
        if event == "line":
            place = (frame.f_code, frame.f_lineno)
            if place not in self._lines:
                self._lines.add(place)
                self.is_new = True
        return self._line


def fuzz(entry, folder, grown, seconds, seed):
    chance = random.Random(seed)
    path, written = folder / "current", folder / "next"
    pool = corpus.inputs(entry.name)
    coverage = Coverage()
    counts = {"runs": 0, "read": 0, "entered": 0, "kept": 0}

    def run(data):
        # By rename: whoever is killed here leaves an input that was at work, whole.
        written.write_bytes(data)
        written.replace(path)
        with coverage:
            rows = reading.read(entry, path, data)
        if counts["runs"] % 16 == 0:
            reading.recognise(path, data)
        if coverage.is_new or counts["runs"] % COMMANDS_EVERY == 0:
            reading.enter_commands(entry, path, data)
            counts["entered"] += 1
        counts["runs"] += 1
        counts["read"] += rows is not None
        return rows

    reading.limit_memory()
    reading.CPU_S *= 3  # every line is watched
    for data in pool:
        run(data)
    for kept in sorted(grown.iterdir()):
        data = kept.read_bytes()
        run(data)
        if coverage.is_new:
            pool.append(data)
        else:
            kept.unlink()
    end = time.process_time() + seconds
    while time.process_time() < end:
        # The newest lead furthest.
        start = pool[-1 - int(len(pool) * chance.random() ** 2)]
        data = mutate(start, pool, chance, entry.name)
        if not data:
            continue
        run(data)
        if coverage.is_new:
            pool.append(data)
            (grown / hashlib.sha1(data).hexdigest()).write_bytes(data)
            counts["kept"] += 1
    path.unlink()
    print(json.dumps(counts | {"lines": len(coverage)}))


def replay(paths):
    reading.limit_memory()
    for path in paths:
        print(path, flush=True)
        data = path.read_bytes()
        reading.recognise(path, data)
        reading.read(ENTRIES[path.parent.name], path, data)
        reading.enter_commands(ENTRIES[path.parent.name], path, data)


def damaged(data, chance):
    """``data`` cut, with bytes flipped, or with a stretch repeated; the first bytes, by which it is known, stay."""
    data = bytearray(data)
    at = chance.randrange(min(1024, len(data) // 2), len(data))
    match chance.randrange(3):
        case 0:
            del data[at:]
        case 1:
            for _ in range(chance.choice([1, 10, 100])):
                data[chance.randrange(min(1024, len(data) // 2), len(data))] ^= 1 << chance.randrange(8)
        case 2:
            length = chance.choice([1, 13, 512, 8192, 65_536])
            data[at:at] = data[at : at + length] * chance.choice([1, 1, 8])
    return bytes(data)


def damage(rounds, seed, folder, paths):
    reading.limit_memory()
    chance = random.Random(seed)
    for path in paths:
        whole = path.read_bytes()
        (name,) = reading.recognise(path, whole)[:1]
        kept = 0
        for turn in range(rounds):
            current = folder / f"{name}-{turn}"
            data = damaged(whole, chance)
            current.write_bytes(data)
            print(path.name, current, flush=True)
            kept += reading.read(ENTRIES[name], current, data) is not None
            current.unlink()
        assert kept >= rounds * 9 // 10, f"{path}: {rounds - kept} of {rounds} were refused whole"


if __name__ == "__main__":
    if sys.argv[1] == "damage":
        rounds, seed, folder, *paths = sys.argv[2:]
        damage(int(rounds), int(seed), Path(folder), [Path(name) for name in paths])
    elif sys.argv[1] == "fuzz":
        name, folder, grown, seconds, seed = sys.argv[2:]
        fuzz(ENTRIES[name], Path(folder), Path(grown), float(seconds), int(seed))
    else:
        replay([Path(name) for name in sys.argv[2:]])
