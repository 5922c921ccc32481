"""The counters of a SQL Server migration assessment (``…PerformanceAggregated_Counters.csv``), as they are.

The collector of Azure's SKU recommendation writes, for an instance, its databases and files, the mean, most, variance
and number of some samples under codes such as FRL. What the codes and their units are is published nowhere, so no
value gets a metric: each is kept under its code. Times are the collecting host's.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from iotrace.capture.formats.counters_trace import Counters, Reading, Sample, plain, real
from iotrace.capture.formats.text_blocks import TextBlocks

_COLUMNS: Final = (
    "ServerName", "DatabaseName", "DatabaseFileName", "FileType", "TimeDataCollected", "CounterName",
    "AggregatorType", "Value",
)  # fmt: skip
_HEADER: Final = ",".join(_COLUMNS)
_AGGREGATES: Final = {"mean": "mean", "max": "most", "variance": "variance", "occurence": "samples"}


def _recognises(head: bytes, _path: Path) -> bool:
    first = head[:1024].partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").strip()
    return first.replace(b'"', b"") == _HEADER.encode()


def _samples(reading: Reading) -> Iterator[Sample]:
    blocks = TextBlocks(reading.path, reading.name, reading.progress)
    sense = plain("1", None)
    for block in blocks.blocks():
        for row in csv.reader(block.decode("utf-8", "replace").splitlines()):
            if len(row) == len(_COLUMNS) and row[-1] == _COLUMNS[-1]:
                continue
            sample = _sample(row, reading) if len(row) == len(_COLUMNS) else None
            if sample is None:
                reading.left_out += 1
                continue
            server, instance, at_ns, counter, value = sample
            yield Sample(at_ns, 0, instance, counter, value, sense, server)
    reading.cut = blocks.cut_tail


def _sample(row: list[str], reading: Reading) -> tuple[str, str | None, int, str, float] | None:
    server, database, file, _, moment, code, aggregate, text = (cell.strip() for cell in row)
    at_ns, value = reading.times.utc_ns(moment), real(text)
    if at_ns is None or value is None or not code:
        return None
    counter = f"{code} ({_AGGREGATES.get(aggregate.lower(), aggregate)})"
    return server, file or database or None, at_ns, counter, value


FORMAT: Final = Counters(
    "sql-assessment",
    "SQL Server migration assessment",
    "migration assessment, seconds",
    10**9,
    _samples,
    (
        "the meaning of its codes (FRL, FNR, …) is published nowhere: values are kept under them, without a metric",
        "means, variances and maxima over an interval that the file does not state, not single I/Os",
    ),
    "record counters with perfmon or logman and import those",
    "Windows",
).format(_recognises)
