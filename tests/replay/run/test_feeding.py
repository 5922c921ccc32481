"""Plans flow to the engine, and results back, without piling up."""

from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa

from iotrace.replay.run.play import Plan, _Pump


class Hungry:
    """An engine that plays whatever it is fed at once and always wants more."""

    def __init__(self) -> None:
        self.finished: deque[pa.RecordBatch] = deque()
        self.held_most = 0

    def wanted(self) -> int:
        return 1

    def offer(self, batch: pa.RecordBatch) -> None:
        self.finished.append(batch)
        self.held_most = max(self.held_most, len(self.finished))

    def take(self) -> pa.RecordBatch | None:
        return self.finished.popleft() if self.finished else None

    def end_plan(self) -> None:
        """Nothing more comes."""


def test_results_do_not_pile_up_while_a_long_plan_is_fed() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            yield pa.record_batch({"intended_ns": [number]})

    engine, handed_on = Hungry(), []
    plan = Plan(batches(), read_bytes_max=0, write_bytes_max=0, planned_ns=100, planned_ios=100)
    pump = _Pump(cast("Any", engine), plan, lambda batch: handed_on.append(batch["intended_ns"][0].as_py()))
    pump.feed()
    pump.drain()
    assert engine.held_most <= 2
    assert handed_on == list(range(100))
