"""Running the command line as a user does, and small recordings to run it on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ConfigDict, TypeAdapter

from iotrace.analyze.present.program import any_answer
from iotrace.cli.main import run
from iotrace.schemas import Clock, Recording

from ..recordings import write_recording


@dataclass
class Result:
    status: int
    out: str
    err: str


@cache
def _published() -> TypeAdapter[object]:
    return any_answer(ConfigDict(extra="forbid", strict=True))


def check_answer(text: str) -> None:
    """Raises pydantic's error where an answer for programs is not as ``schemas/answers.schema.json`` says."""
    _published().validate_json(text)


@pytest.fixture
def iotrace(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Call with arguments; gives exit status, stdout and stderr."""

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        if captured.out.startswith('{\n "schema": '):
            check_answer(captured.out)
        return Result(status, captured.out, captured.err)

    return call


def make_recording(
    path: Path, *, reads_per_second: float = 400, seconds: float = 2, writes: bool = False
) -> Recording:
    """8 KiB random I/O with Poisson arrivals over 8 MiB of one disk."""
    random = np.random.default_rng(7)
    count = int(reads_per_second * seconds)
    issued_ns = np.sort(random.uniform(0, seconds * 1e9, count)).astype(np.int64)
    op = (random.random(count) < 0.5) if writes else np.zeros(count, bool)
    return write_recording(
        path,
        {
            "op": pa.array(op.astype(np.uint8)),
            "issued_ns": issued_ns,
            "completed_ns": issued_ns + random.integers(200_000, 900_000, count),
            "offset_bytes": random.integers(0, 1024, count) * 8192,
            "device_id": 0,
        },
        tables={"devices": {"device_id": [0], "name": ["disk 0"], "kind": ["disk"], "mount": ["E:"]}},
        title="A small server",
        clock=Clock(1_790_000_000_000_000_000, 100, "QPC"),
        window_end_ns=int(seconds * 1e9),
    )


@pytest.fixture
def reads(tmp_path: Path) -> Recording:
    return make_recording(tmp_path / "reads.iotrace")
