"""Plans without an engine: what a replay would be told to play, as one table."""

from typing import Any

import pyarrow as pa

from iotrace.replay.options import ReplayOptions
from iotrace.replay.plan.assignment import assign, folder_target
from iotrace.replay.plan.scale import needs_streams
from iotrace.replay.plan.schedule import Schedule, schedule
from iotrace.replay.plan.selection import select
from iotrace.replay.plan.source import Source, space_names
from iotrace.replay.plan.survey import survey
from iotrace.replay.targets.block_device import DeviceFacts
from iotrace.replay.targets.target import Target
from iotrace.schemas import Recording


def target(name: str, size_bytes: int, block_bytes: int) -> Target:
    """A target that nobody opens."""
    facts = DeviceFacts("", block_bytes, None, None, None, None, partition=False)
    return Target(name, "disk", -1, size_bytes, True, True, None, 0, facts, None, block_bytes)


def plan_of(
    recording: Recording, *, target_bytes: int = 1 << 50, block_bytes: int = 512, **options: Any
) -> tuple[Schedule, pa.Table]:
    """The schedule, run dry, and all of its rows."""
    asked = ReplayOptions(**({"targets": ("t",)} | options))
    asked.check()
    source = Source.open(recording, select(recording, asked), file_by_file=folder_target(asked) is not None)
    found = survey(source, count_streams=needs_streams(asked))
    names = space_names(source)
    assignment = assign(source, found, names, asked)
    targets = [target(name, target_bytes, block_bytes) for name in assignment.names]
    plan, _ = schedule(source, found, names, assignment, targets, asked)
    return plan, pa.Table.from_batches(plan.batches(), plan.schema)
