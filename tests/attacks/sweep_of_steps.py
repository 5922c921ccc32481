"""A program that writes a sweep of planted steps and says each time what is done; ``--no-sync``: without forcing it."""

import os
import sys
from pathlib import Path

import pyarrow as pa

from iotrace.schemas import Clock, Manifest, SweepWriter
from iotrace.schemas.writer import RecordingWriter

STEPS = 10


def main() -> None:
    if "--no-sync" in sys.argv:
        os.fsync = lambda _handle: None
    with SweepWriter(Path(sys.argv[1]), title="planted", source_uuid=None) as sweep:
        for number in range(STEPS):
            with RecordingWriter(sweep.step_path(float(number))) as writer:
                writer.append("io", pa.table({
                    "layer": ["block"] * 1000,
                    "op": ["read"] * 1000,
                    "issued_ns": range(1000),
                    "completed_ns": range(1000, 2000),
                    "size_bytes": [8192] * 1000,
                }))  # fmt: skip
                manifest = Manifest("captured", "planted", Clock(0, 1.0, "planted"), window_end_ns=2000)
                recording = writer.commit(manifest)
            sweep.add(float(number), recording)
            print("done", flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    main()
