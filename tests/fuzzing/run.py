"""Every reader against damaged bytes, each for a while: make fuzz [SECONDS_EACH=60] [TARGET=etl].

Native readers under libFuzzer, guided by coverage; every format of `capture.formats.registry` as an import reads
it, and what stands before the formats (`doors`), under the mutator beside this file. What a run finds is left in
build/fuzz/findings; inputs that led further stay in build/fuzz/corpus for the next run. Prints a line for each
target; exit status 1 if there was a finding. Every run is entered in build/fuzz/account.csv as it ends; ``--account``
adds it to the table in docs/experiments/damaged-files.md, which is all the fuzzing there has been. What was fuzzed
least comes first, each time with another seed: to continue a run that was interrupted, start it again.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import corpus
import doors

from iotrace.capture.formats.registry import OURS

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "build" / "fuzz"
FINDINGS = ROOM / "findings"
CRATE = ROOT / "capture" / "readers" / "fuzz"
ACCOUNT = ROOM / "account.csv"
TABLE = ROOT / "docs" / "experiments" / "damaged-files.md"
ROW = re.compile(r"^(\s*)\| ([a-z0-9-]+) \| (native|format) \| ([\d,.]+) \| ([\d,]+) \| ([\d,]*) \|$")
SUM = re.compile(r"^\s*\| all of these \| \|.*$")
WORKER = Path(__file__).parent / "worker.py"

MEMORY_KIB = 2 << 20
INPUT_CPU_S_MAX = 10
HUNG_S = 600
"""Of processor time beyond a run's own, or asleep without any: what waits for a processor is not hung."""
WATCHED_EVERY_S = 0.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
INPUT_BYTES_MAX = 1 << 18


def native_names():
    """Targets of the crate's table, from its source: it is compiled only for the fuzzer."""
    source = (CRATE.parent / "src" / "fuzzing.rs").read_text(encoding="utf-8")
    return re.findall(r'^    \("([a-z0-9-]+)", \|data\|', source, re.MULTILINE)


def build_native():
    """The instrumented binary; exits with a plain word where it cannot be made."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        sys.exit(
            "error: libFuzzer is C++ and there is no C++ compiler\n\nhint: install one (g++ or clang), or set CXX"
        )
    host = re.search(r"^host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True), re.MULTILINE)[1]
    target = ROOM / "target"
    # From its folder, whose .cargo/config.toml has the flags.
    built = subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "--target", host, "--target-dir", target],
        cwd=CRATE,
        check=False,
    )
    if built.returncode:
        sys.exit(
            "error: the native readers could not be built for the fuzzer\n\nhint: see what the compiler says above"
        )
    return target / host / "release" / "readers"


@dataclass
class Outcome:
    """What a run of one target came to."""

    runs: int
    cpu_s: float
    finding: Path | None = None
    problem: str = ""


class Ended:
    """A program run to its end: ``status``, ``out``, ``err`` and the processor time it took.

    It is sent ``asked`` (a signal) after ``cpu_s`` of processor time, and is killed if it then goes on, or sleeps.
    """

    def __init__(self, command, cpu_s, environment, asked=None):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(command, env=os.environ | environment, stdout=out, stderr=err)
            ended = threading.Event()
            watch = threading.Thread(target=_watch, args=(child.pid, cpu_s, asked, ended))
            watch.start()
            # Not reaped yet, so that the watch cannot meet another process of the same number.
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            ended.set()
            watch.join()
            _, status, used = os.wait4(child.pid, 0)
            self.status = child.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = used.ru_utime + used.ru_stime
            self.out, self.err = (_text(file) for file in (out, err))


def _watch(process_id, cpu_s, asked, ended):
    before_ticks, asleep_s = -1, 0
    while not ended.wait(WATCHED_EVERY_S):
        state, *fields = Path(f"/proc/{process_id}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks = int(fields[10]) + int(fields[11])  # utime and stime, fields 14 and 15 of proc(5)
        asleep_s = asleep_s + WATCHED_EVERY_S if state in "SD" and ticks == before_ticks else 0
        before_ticks = ticks
        if ticks > (cpu_s + HUNG_S) * TICKS_PER_S or asleep_s > HUNG_S:
            os.kill(process_id, signal.SIGKILL)
        elif asked and ticks > cpu_s * TICKS_PER_S:
            os.kill(process_id, asked)
            asked = None


def _text(file):
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def run_native(binary, name, seconds, seed):
    grown = ROOM / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    prefix = FINDINGS / f"native-{name}."  # which no longer name begins with
    limited = ["sh", "-c", 'ulimit -v "$0" && exec "$@"', str(MEMORY_KIB), str(binary)]
    options = [
        f"-timeout={HUNG_S}",
        f"-report_slow_units={INPUT_CPU_S_MAX}",
        f"-rss_limit_mb={MEMORY_KIB >> 10}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={prefix}",
        "-print_final_stats=1",
        f"-seed={seed}",
    ]
    chosen = {"IOTRACE_FUZZ_TARGET": name}
    before = set(FINDINGS.glob("*"))
    # libFuzzer's own limits are of time that passes: what it calls slow is asked again, and SIGUSR1 ends it.
    done = Ended(
        [*limited, *options, str(grown), str(corpus.STORED / name)], seconds, chosen, asked=signal.SIGUSR1
    )
    runs = re.search(r"number_of_executed_units:\s*(\d+)", done.err)
    found = Outcome(int(runs[1]) if runs else 0, done.cpu_s, problem=done.err[-3000:] if done.status else "")
    for path in sorted(set(FINDINGS.glob(f"{prefix.name}*")) - before):
        if "slow-unit-" in path.name or "timeout-" in path.name:
            alone = Ended([*limited, str(path)], INPUT_CPU_S_MAX, chosen)
            if alone.cpu_s < INPUT_CPU_S_MAX and not alone.status:
                path.unlink()
                if "timeout-" in path.name:
                    found.problem = ""
                continue
            found.problem = found.problem or f"one input took {alone.cpu_s:.0f} s of processor time"
        found.finding = path
    return found


def run_format(name, seconds, seed):
    folder = ROOM / "work" / name
    folder.mkdir(parents=True, exist_ok=True)
    grown = ROOM / "corpus" / f"format-{name}"
    grown.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, WORKER, "fuzz", name, folder, grown, str(seconds), str(seed)]
    done = Ended(command, seconds, {"MALLOC_ARENA_MAX": "2"})
    if not done.status:
        return Outcome(json.loads(done.out)["runs"], done.cpu_s)
    current = folder / "current"
    if not current.exists():
        return Outcome(0, done.cpu_s, problem=done.err[-3000:])
    kept = FINDINGS / f"{name}-{hashlib.sha1(current.read_bytes()).hexdigest()[:10]}"
    shutil.copy(current, kept)
    how = f"the reader ended with status {done.status} (-27: too long, -9: hung, -6: aborted, -11: crashed)"
    return Outcome(0, done.cpu_s, kept, f"{done.err[-3000:]}\n{how}")


def note(kind, name, outcome):
    """Enter a run in the account."""
    # One write, whole: two runs may end at once.
    with ACCOUNT.open("a", encoding="utf-8") as file:
        file.write(f"{kind},{name},{round(outcome.cpu_s)},{outcome.runs},{int(bool(outcome.problem))}\n")


def accounted():
    """What the table says of each target, and what the runs since then came to."""
    sums = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            _, name, kind, *figures = row.groups()
            minutes, inputs, findings = (float(text.replace(",", "") or 0) for text in figures)
            sums[name, kind] = Counter(cpu_s=minutes * 60, inputs=int(inputs), findings=int(findings))
    if ACCOUNT.exists():
        with ACCOUNT.open(newline="", encoding="utf-8") as file:
            for kind, name, *figures in csv.reader(file):
                sums.setdefault((name, kind), Counter()).update(
                    dict(zip(("cpu_s", "inputs", "findings"), map(int, figures), strict=True))
                )
    return sums


def add_to_the_table():
    """Put `accounted` into the table in docs/experiments/damaged-files.md, and begin a new account."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [at for at, line in enumerate(lines) if ROW.match(line)]
    last = rows[-1] + 1
    if rows != list(range(rows[0], last)) or not SUM.match(lines[last]):
        sys.exit(f"error: the table of fuzzing in {TABLE} is not as it was written")
    margin = ROW.match(lines[rows[0]])[1]
    sums = accounted()
    total = sum(sums.values(), Counter())
    lines[rows[0] : last + 1] = [
        f"{margin}| {name} | {kind} | {sum_['cpu_s'] / 60:,.1f} | {sum_['inputs']:,} | {sum_['findings'] or ''} |"
        for (name, kind), sum_ in sorted(sums.items())
    ] + [
        f"{margin}| all of these | | {total['cpu_s'] / 60:,.1f} | {total['inputs']:,} | {total['findings']} |"
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ACCOUNT.unlink(missing_ok=True)
    print(f"{total['cpu_s'] / 3600:.2f} hours of processor time over {len(sums)} targets")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="of processor time, for each target")
    parser.add_argument("--target", default="", help="only this one")
    parser.add_argument("--seed", type=int, help="default: the time")
    parser.add_argument("--rounds", type=int, default=1, help="how often all targets have their turn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--account", action="store_true", help=f"add all runs to the table in {TABLE}; run nothing"
    )
    options = parser.parse_args()
    if options.account:
        add_to_the_table()
        return
    seed = options.seed if options.seed is not None else int(time.time())
    natives, formats = native_names(), [entry.name for entry in (*OURS, *doors.DOORS)]
    known = sorted({*natives, *formats})
    if options.target and options.target not in known:
        sys.exit(f"error: no target '{options.target}'\n\nhint: there are {', '.join(known)}")
    FINDINGS.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in natives if options.target in {"", name}]
    binary = build_native() if wanted else None
    work = [("native", name, partial(run_native, binary, name)) for name in wanted]
    work += [("format", name, partial(run_format, name)) for name in formats if options.target in {"", name}]
    bad = 0
    for turn in range(options.rounds):
        sums = accounted()
        work.sort(key=lambda one: sums.get((one[1], one[0]), Counter())["cpu_s"])
        with ThreadPoolExecutor(options.jobs) as pool:
            running = [
                pool.submit(run_and_note, kind, name, run, options.seconds, seed + turn)
                for kind, name, run in work
            ]
            bad += sum(one.result() for one in running)
    sys.exit(1 if bad else 0)


def run_and_note(kind, name, run, seconds, seed):
    """Run one target, enter it in the account and say what came; whether there was a finding."""
    outcome = run(seconds, seed)
    note(kind, name, outcome)
    said = "FINDING" if outcome.problem else "nothing found"
    line = f"{kind} {name:16}{outcome.runs:>12,} inputs {outcome.cpu_s:8,.0f} s of CPU  {said}"
    if outcome.problem:
        line += f"\n{outcome.problem}\ninput: {outcome.finding or 'none: it failed before any'}"
    print(line, flush=True)
    return bool(outcome.problem)


if __name__ == "__main__":
    main()
