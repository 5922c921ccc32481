"""The kernel's own text of a tracing instance, as `perf script` prints the same block events."""

import re

_LINE = re.compile(r" *(.+)-(\d+) +(\[\d+\]) \S+ +(\d+\.\d+): (block_.*)")


def perf_lines(trace: str) -> str:
    found = [_LINE.fullmatch(line) for line in trace.splitlines() if not line.startswith("#")]
    assert all(found)
    return "".join(
        f"{match[1]} {match[2]} {match[3]} {match[4]}: block:{match[5]}\n" for match in found if match
    )
