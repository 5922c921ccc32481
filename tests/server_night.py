"""A kernel trace and a counter log of the same I/Os of one server, planted, for a job of the README."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np

_FIXTURES = Path(__file__).parent / "fixtures"
_SECONDS = 120
_READS_PER_S, _WRITES_PER_S = 70, 30
_TICKS_PER_S = 10_000_000
_LEAD_S = 30
"""The counter log begins earlier and ends later."""
_RATE, _AVERAGE_TIMER = 0x10410500, 0x30020400


def _built_by(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_of_a_night", _FIXTURES / name / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_pair(etl_path: Path, blg_path: Path) -> None:
    """Two minutes of random reads (1.5 ms) and writes (0.8 ms) of one data file, and their counters every 5 s."""
    etl, perfmon = _built_by("etl"), _built_by("perfmon")
    random = np.random.default_rng(5)
    count = _SECONDS * (_READS_PER_S + _WRITES_PER_S)
    done = np.sort(random.integers(0, _SECONDS * _TICKS_PER_S, count))
    is_read = random.random(count) < _READS_PER_S / (_READS_PER_S + _WRITES_PER_S)
    took = (random.lognormal(0, 0.3, count) * np.where(is_read, 15_000, 8_000)).astype(int)
    offsets = random.integers(0, 1 << 20, count) * 8192

    def event(place: int) -> bytes:
        kind = etl.READ if is_read[place] else etl.WRITE
        payload = etl.transfer(
            offset=int(offsets[place]), size=8192, key=0xABC, irp=place + 1, response=int(took[place])
        )
        written: bytes = etl.perfinfo(kind, etl.T0 + int(done[place]), payload)
        return written

    end = etl.T0 + _SECONDS * _TICKS_PER_S
    named = etl.perfinfo(etl.FILE_RUNDOWN, end, etl.name(0xABC, r"D:\sales.mdf"))
    drive = [
        etl.system(etl.PHYSICAL_DISK, etl.T0, etl.physical_disk(0)),
        etl.system(etl.LOGICAL_DISK, etl.T0, etl.logical_disk(0, 1, 0, 1 << 40, "D:")),
    ]
    events = [event(place) for place in range(count)] + [named]
    pieces = [events[first : first + 500] for first in range(0, len(events), 500)]
    start = perfmon.START_UTC + _LEAD_S * _TICKS_PER_S
    etl_path.write_bytes(
        etl.log(
            *pieces, extra=drive, start=start, end=start + _SECONDS * _TICKS_PER_S, frequency=_TICKS_PER_S
        )
    )

    entries, totals = [], []
    for chosen, word in ((is_read, "Read"), (~is_read, "Write")):
        for counter, kind in ((f"Avg. Disk sec/{word}", _AVERAGE_TIMER), (f"Disk {word}s/sec", _RATE)):
            entries.append(perfmon.entry(kind, "LogicalDisk", counter, instance="D:"))
            totals.append((chosen, kind))
    blocks = []
    for at_s in range(0, _SECONDS + 2 * _LEAD_S + 1, 5):
        until = (at_s - _LEAD_S) * _TICKS_PER_S
        row = []
        for chosen, kind in totals:
            ended = chosen & (done < until)
            if kind == _AVERAGE_TIMER:
                row.append(perfmon.single(int(took[ended].sum()), int(ended.sum())))
            else:
                row.append(perfmon.single(int(ended.sum()), at_s * _TICKS_PER_S))
        blocks.append(row)
    blg_path.write_bytes(perfmon.samples_log(entries, blocks, step=5 * _TICKS_PER_S))
