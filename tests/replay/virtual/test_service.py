"""Caps told from runs: what a damaged trace may ask of memory."""

import tracemalloc

import numpy as np

from iotrace.replay.virtual.service import Run, caps


def test_a_few_ios_over_a_lifetime_take_no_memory_by_the_second():
    count = 400
    issued_ns = np.linspace(0, 6e18, count).astype(np.int64)  # 190 years
    run = Run(
        "r", np.zeros(count, np.uint8), np.full(count, 8192), np.zeros(count, np.int64), issued_ns,
        issued_ns + 1_000_000, np.ones(count, np.int64),
    )  # fmt: skip
    tracemalloc.start()
    assert caps([run, run]) == ()
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 1 << 20
