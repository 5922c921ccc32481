"""A model fitted from characterize against sweep steps it never saw: a file, a loop device, a throttled one (root).

Each is characterized with reads and writes of 8 and 64 KiB, 1 to 64 in flight; then a bursty workload of the same mix
is swept on it. The model predicts p50 and p99 of response at every step after the first, from the characterization
alone and with that first step, a replay at 1x, beside it; and so do two simpler ways: the same as at 1x, and M/G/1 with
the service of 1x. Usage: bench_model_fit.py FOLDER; what was measured there is not measured again.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from bench_virtual_replay import iotrace, loop_device, record, throttled

from iotrace.replay.virtual.fit import QUANTILES, fit, to_toml
from iotrace.replay.virtual.predict import predict
from iotrace.replay.virtual.service import Run, run_of
from iotrace.schemas import Recording, Sweep

SECOND = 1_000_000_000
RATE = 400
LENGTH_S = 12
CAP = {"read_iops": 1500, "write_iops": 700}
SCALES = {
    "file": "1x,2x,4x,8x,12x,16x,24x",
    "loop": "1x,2x,4x,8x,12x,16x,24x",
    "throttled": "1x,2x,3x,4x,5x,6x,7x",
}


def workload(folder: Path) -> Recording:
    """Bursts (gaps with a coefficient of variation of 2), seven reads to three writes, a fifth of them large."""
    if (folder / "w.iotrace").exists():
        return Recording.open(folder / "w.iotrace")
    random = np.random.default_rng(19)
    count = RATE * LENGTH_S * 2
    at = np.cumsum(random.gamma(0.25, SECOND / RATE / 0.25, count))
    size = random.choice([8192, 65536], count, p=[0.8, 0.2])
    return record(folder / "w.iotrace", at, size, 0.3, random)


@contextmanager
def storage(name: str, folder: Path) -> Iterator[tuple[str, list[object]]]:
    """The target's path, and what permits to write to it."""
    if name == "file":
        yield str(folder / "file.bin"), []
        return
    with loop_device(folder) as device:
        cap = throttled(device, CAP) if name == "throttled" else nullcontext()
        with cap:
            yield device, ["--allow-writes", "--destroy-data", device]


def measure(name: str, folder: Path) -> None:
    """Characterize one target and sweep the workload over it."""
    source = workload(folder)
    with storage(name, folder) as (target, permission):
        size = ["--file-size", "256M"] if name == "file" else []
        iotrace(
            "characterize", "--target", target, *permission, *size, "--op", "mix", "--mix", "70:30", "--size", "8K,64K",
            "--outstanding", "1..64", "--seconds", 3, "--warm-up", 1, "--no-write-through", "-o",
            folder / f"{name}-characterized",
        )  # fmt: skip
        iotrace(
            "sweep", source.path, "--target", target, *permission, "--scales", SCALES[name], "--step-seconds", 5,
            "--max-in-flight", 16384, "-o", folder / f"{name}-sweep.iotrace",
        )  # fmt: skip


def of_mg1(first: Run, step: Run) -> dict[str, float]:
    """Quantiles in ns of one server that takes the service times of 1x, first come, first served, Poisson arrivals."""
    random = np.random.default_rng(1)
    count = len(step.op)
    service = random.choice(first.service_ns, count)
    gaps = random.exponential(step.seconds * 1e9 / count, count)
    # Lindley's recursion, unrolled: waiting is the walk of service less gaps above its lowest point so far.
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    took = walk - np.minimum.accumulate(walk) + service
    return {name: float(np.quantile(took, share)) for name, share in QUANTILES.items()}


def evaluate(name: str, folder: Path) -> list[dict[str, object]]:
    """One row for each quantile of each step."""
    parts = sorted((folder / f"{name}-characterized").glob("*.iotrace"))
    loops = [one for part in parts for one in Sweep.open(part).recordings()]
    sweep = Sweep.open(folder / f"{name}-sweep.iotrace")
    models = {"model": fit(loops, name=name), "with_1x": fit([*loops, sweep.recordings()[0]], name=name)}
    for way, model in models.items():
        (folder / f"{name}-{way}.toml").write_text(to_toml(model))
    runs = [run_of(one) for one in sweep.recordings()]
    rows: list[dict[str, object]] = []
    for step, run in list(zip(sweep.steps, runs, strict=True))[1:]:
        predictions = {way: predict(model, run) for way, model in models.items()}
        simple = {
            "same": {key: float(np.quantile(runs[0].service_ns, share)) for key, share in QUANTILES.items()}
        }
        simple["mg1"] = of_mg1(runs[0], run)
        for key, share in QUANTILES.items():
            row: dict[str, object] = {"on": name, "scale": step.scale, "quantile": key}
            row["measured_ms"] = round(float(np.quantile(run.service_ns, share)) / 1e6, 3)
            for way, said in predictions.items():
                known = getattr(said, f"response_ns_{key}")
                if known is None:
                    row[f"{way}_refused"] = said.refused
                    continue
                row[f"{way}_ms"] = [round(one / 1e6, 3) for one in (known.value, known.low, known.high)]
                row[f"{way}_within"] = known.low / 1e6 <= row["measured_ms"] <= known.high / 1e6
            for way, found in simple.items():
                row[f"{way}_ms"] = round(found[key] / 1e6, 3)
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def error(rows: list[dict[str, object]], way: str) -> float:
    """Median of the sizes of relative errors, as a factor less 1: half as much is as wrong as twice as much."""
    logs = []
    for row in rows:
        said = row.get(f"{way}_ms")
        if said is not None:
            logs.append(abs(np.log((said[0] if isinstance(said, list) else said) / row["measured_ms"])))
    return float(np.exp(np.median(logs)) - 1) if logs else float("nan")


def main(folder: Path) -> None:
    """Measure what is missing, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    every: list[dict[str, object]] = []
    for name in SCALES:
        if not (folder / f"{name}-sweep.iotrace" / "sweep.json").exists():
            measure(name, folder)
        every += evaluate(name, folder)
    print("| on | quantile | predicted | held | model | held with 1x | with 1x | same as 1x | M/G/1 |")
    for name in SCALES:
        for quantile in QUANTILES:
            rows = [row for row in every if (row["on"], row["quantile"]) == (name, quantile)]
            told = [row for row in rows if "model_within" in row]
            held = [sum(bool(row.get(f"{way}_within")) for row in told) for way in ("model", "with_1x")]
            errors = [f"{error(told, way):.0%}" for way in ("model", "with_1x", "same", "mg1")]
            cells = [len(told), held[0], errors[0], held[1], *errors[1:]]
            print(f"| {name} | {quantile} | {' | '.join(map(str, cells))} |")
    for way in ("model", "with_1x"):
        told = [row for row in every if f"{way}_within" in row]
        print(f"{way}: {sum(bool(row[f'{way}_within']) for row in told)} of {len(told)} intervals hold")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
