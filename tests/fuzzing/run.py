"""Every reader against damaged bytes, each for a while: make fuzz [SECONDS_EACH=60] [TARGET=etl].

Native readers under libFuzzer, guided by coverage; every format of `capture.recognition.FORMATS` as an import reads it,
and what stands before the formats (`doors`), under the mutator beside this file. What a run finds is left in
build/fuzz/findings; what libFuzzer learns stays in build/fuzz/corpus for the next run. Prints a line for each target;
exit status 1 if there was a finding.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import corpus
import doors

from iotrace.capture.recognition import FORMATS

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "build" / "fuzz"
FINDINGS = ROOM / "findings"
CRATE = ROOT / "capture" / "readers" / "fuzz"
WORKER = Path(__file__).parent / "worker.py"

MEMORY_KIB = 2 << 20
INPUT_S_MAX = 10
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


def run_native(binary, name, seconds, seed):
    """Returns how many inputs were run, and the finding's file or None, with the end of what was said."""
    grown = ROOM / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    prefix = FINDINGS / f"native-{name}-"
    command = [
        *(
            binary,
            f"-max_total_time={seconds}",
            f"-timeout={INPUT_S_MAX}",
            f"-rss_limit_mb={MEMORY_KIB >> 10}",
        ),
        *(
            f"-max_len={INPUT_BYTES_MAX}",
            f"-artifact_prefix={prefix}",
            "-print_final_stats=1",
            f"-seed={seed}",
        ),
        *(grown, corpus.STORED / name),
    ]
    before = set(FINDINGS.glob("*"))
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v "$0" && exec "$@"', str(MEMORY_KIB), *map(str, command)],
        env=os.environ | {"IOTRACE_FUZZ_TARGET": name}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
        text=True, errors="replace", timeout=2 * seconds + 300,
    )  # fmt: skip
    runs = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    new = sorted(set(FINDINGS.glob(f"{prefix.name}*")) - before)
    problem = done.stderr[-3000:] if done.returncode else ""
    return int(runs[1]) if runs else 0, new[0] if new else None, problem


def run_format(name, seconds, seed):
    """As `run_native`."""
    folder = ROOM / "work" / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, WORKER, "fuzz", name, folder, str(seconds), str(seed)]
    try:
        done = subprocess.run(
            command, env=os.environ | {"MALLOC_ARENA_MAX": "2"}, capture_output=True, check=False, text=True,
            errors="replace", timeout=2 * seconds + 300,
        )  # fmt: skip
        status, problem = done.returncode, done.stderr[-3000:]
    except subprocess.TimeoutExpired:
        done, status, problem = None, 1, "it hung without using the processor"
    if not status:
        return json.loads(done.stdout)["runs"], None, ""
    current = folder / "current"
    if not current.exists():
        return 0, None, problem
    kept = FINDINGS / f"{name}-{hashlib.sha1(current.read_bytes()).hexdigest()[:10]}"
    shutil.copy(current, kept)
    return (
        0,
        kept,
        f"{problem}\nthe reader ended with status {status} (-27: too long, -6: aborted, -11: crashed)",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", default="", help="only this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    natives, formats = native_names(), [entry.name for entry in (*FORMATS, *doors.DOORS)]
    known = sorted({*natives, *formats})
    if options.target and options.target not in known:
        sys.exit(f"error: no target '{options.target}'\n\nhint: there are {', '.join(known)}")
    FINDINGS.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in natives if options.target in {"", name}]
    binary = build_native() if wanted else None
    work = [
        ("native", name, lambda name=name: run_native(binary, name, options.seconds, options.seed))
        for name in wanted
    ]
    work += [
        ("format", name, lambda name=name: run_format(name, options.seconds, options.seed))
        for name in formats
        if options.target in {"", name}
    ]
    bad = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for kind, name, running in [(kind, name, pool.submit(run)) for kind, name, run in work]:
            runs, finding, problem = running.result()
            print(
                f"{kind} {name:16}{runs:>12,} inputs  {'FINDING' if problem else 'nothing found'}", flush=True
            )
            if problem:
                bad += 1
                print(f"{problem}\ninput: {finding or 'none: it failed before any'}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
