"""DiskSpd's text output (``-Rtext``, the default), versions 2.0 to 2.2: one run for each timespan.

Layout as its ResultParser prints it. Columns of the tables are found by their names: which there are depends on ``-L``
and ``-D``. The text does not tell its version; the folder of the program may, else the layout says since when it is so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from iotrace.schemas.units import SECOND_NS

from .diskspd_xml import OPS, TOOL, finish, started_utc_ns, version_in_path, with_rate
from .run import (
    SERVICE,
    Figure,
    OpResult,
    Run,
    added,
    nanoseconds,
    real,
    small,
    whole,
)
from .trace import CutOff, lines_of, read_text, result_format

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(TiB|GiB|MiB|KiB|[KMGT]B?|B)?", re.IGNORECASE)
_SHIFT: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SECTION: Final = re.compile(r"^(Total|Read|Write) IO\s*$")
_TIMESPAN: Final = re.compile(r"^\s+timespan:\s+(\d+)\s*$")
_RESULTS: Final = re.compile(r"^Results for timespan (\d+):")
_NINES: Final = re.compile(r"(\d)-nines")
_NTH: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
_COLUMNS: Final = {
    "bytes": "bytes",
    "i/os": "ios",
    "i/o per s": "iops",
    "avglat": "mean",
    "iopsstddev": "iops_stddev",
    "latstddev": "stddev",
}
_NO_TARGET: Final = ("total:", "total latency distribution:")


@dataclass(slots=True)
class _Target:
    path: str
    block_bytes: int | None = None
    requests: int | None = None
    threads: int | None = None
    access: str | None = None
    rate_iops: int | None = None
    rate_bytes_per_ms: int | None = None


@dataclass(slots=True)
class _Span:
    """What ``Input parameters`` say of one timespan."""

    warmup_s: int = 0
    interval_ms: int | None = None
    pool_threads: int | None = None
    pool_requests: int | None = None
    targets: list[_Target] = field(default_factory=list)


def _recognises(text: str) -> bool:
    if "Input parameters:" in text and "timespan:" in text and "warm up time:" in text:
        return True
    return "actual test time:" in text and any(_RESULTS.match(line.lstrip()) for line in lines_of(text))


def parse(path: Path, name: str) -> list[Run]:
    """One run for each timespan that has results."""
    lines = _dedented(lines_of(read_text(path, name)))
    spans, facts = _parameters(lines)
    runs: list[Run] = []
    pieces = list(_results(lines))
    for number, piece in pieces:
        span = spans.get(number) or _by_command(facts.get("command line", ""))
        test = Path(name).stem + (f" timespan {number}" if len(pieces) > 1 else "")
        run = _run(span, facts, piece, number, test)
        if run is None:
            raise CutOff(runs)
        runs.append(run)
    if not pieces or len(pieces) < len(spans):
        raise CutOff(runs)
    return runs


def _dedented(lines: list[str]) -> list[str]:
    """Lines without the blanks that all have before them that hold more, as where they were pasted into a ticket."""
    mark = next((line for line in lines if _RESULTS.match(line.lstrip())), "")
    margin = mark[: len(mark) - len(mark.lstrip())]
    return [line.removeprefix(margin) for line in lines] if margin else lines


def _by_command(command: str) -> _Span:
    """A timespan of which only the command is told: a file cut at its head, without ``Input parameters``."""
    options = {word[:2]: word[2:] for word in command.split()[1:] if word[:1] in "-/" and len(word) > 1}
    options = {f"-{key[1:]}": value for key, value in options.items()}
    paths = [word for word in command.split()[1:] if word[:1] not in "-/"]
    access = "random" if "-r" in options else "sequential"
    per_file = small(options.get("-t", "1"))
    pool = small(options.get("-F", ""))
    requests = small(options.get("-o", "2"))  # DiskSpd's own number where none is named
    size = _bytes(options.get("-b", "64K"))
    span = _Span(
        warmup_s=small(options.get("-W", "5")) or 0,
        pool_threads=pool,
        pool_requests=requests if pool else None,
    )
    span.targets = [_Target(path, size, requests, per_file, access) for path in paths]
    return span


def _parameters(lines: list[str]) -> tuple[dict[int, _Span], dict[str, str]]:
    spans: dict[int, _Span] = {}
    facts: dict[str, str] = {}
    current: _Span | None = None
    for line in lines:
        if _RESULTS.match(line):
            break
        if found := _TIMESPAN.match(line):
            current = spans.setdefault(int(found[1][:6]), _Span())
            continue
        key, colon, value = line.strip().partition(":")
        if colon:
            facts.setdefault(key.lower(), value.strip())
        if current is not None:
            _parameter(current, line.strip(), key.lower(), value.strip())
        if line.startswith("System information"):
            current = None
    return spans, facts


def _parameter(span: _Span, text: str, key: str, value: str) -> None:
    target = span.targets[-1] if span.targets else None
    if key == "path":
        span.targets.append(_Target(value.removeprefix("template target ").strip("'")))
    elif key == "warm up time":
        span.warmup_s = small(value.rstrip("s")) or 0
    elif found := re.fullmatch(r"gathering IOPS at intervals of (\d+)ms", text):
        span.interval_ms = small(found[1])
    elif found := re.fullmatch(r"thread pool with (\d+) threads", text):
        span.pool_threads = small(found[1])
    elif key.startswith("number of outstanding i/o operations"):
        if target is None:
            span.pool_requests = small(value)
        else:
            target.requests = small(value)
    elif target is not None:
        _target_parameter(target, text, key, value)


def _target_parameter(target: _Target, text: str, key: str, value: str) -> None:
    if key == "block size":
        target.block_bytes = _bytes(value)
    elif key == "threads per file":
        target.threads = small(value)
    elif text.startswith("using random I/O"):
        target.access = "random"
    elif text.startswith("using mixed random/sequential I/O"):
        target.access = "mixed"
    elif re.match(r"using (interlocked )?sequential I/O", text):
        target.access = "sequential"
    elif found := re.fullmatch(r"throughput rate-limited to (\d+) (IOPS|B/ms)", text):
        if found[2] == "IOPS":
            target.rate_iops = small(found[1])
        else:
            target.rate_bytes_per_ms = small(found[1])


def _bytes(text: str) -> int | None:
    found = _SIZE.fullmatch(text)
    number = real(found[1]) if found else None
    if found is None or number is None:
        return None
    return whole(round(number * (1 << _SHIFT[(found[2] or "").lower()[:1]])))


def _results(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of each timespan's results."""
    starts = [
        (int(found[1][:6]), place) for place, line in enumerate(lines) if (found := _RESULTS.match(line))
    ]
    ends = [*(place for _, place in starts[1:]), len(lines)]
    for (number, start), end in zip(starts, ends, strict=False):
        yield number, lines[start:end]


def _run(span: _Span, facts: dict[str, str], lines: list[str], number: int, test: str) -> Run | None:
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines[:12])}
    seconds = real(told.get("actual test time", "").rstrip("s"))
    totals = dict(_totals(lines, span, seconds))
    tables = list(_percentiles(lines))
    needs_percentiles = any(one.latency_ns_mean is not None for one in totals.values())
    if seconds is None or set(totals) != set(OPS) or (needs_percentiles and not _is_whole(tables)):
        return None
    run = Run(
        test,
        TOOL,
        target=", ".join(target.path for target in span.targets) or None,
        # Timespans run one after the other; only the first one's moment is told.
        started_utc_ns=started_utc_ns(facts.get("start time"), span.warmup_s) if number == 1 else None,
        duration_ns=round(seconds * SECOND_NS),
        threads=small(told.get("thread count")),
        command=facts.get("command line"),
        ops=[totals[op] for op in OPS],
    )
    _load(run, span)
    for target, table in tables:
        _take_percentiles(run, totals, target, table)
    usage = next((line for line in lines if line.lstrip().startswith("avg.|")), None)
    if usage is not None:
        for counter, cell in zip(("usage", "user", "kernel", "idle"), usage.split("|")[1:], strict=False):
            if (share := real(cell.strip().rstrip("%"))) is not None:
                run.figures.append(Figure("Processor", f"{counter} mean", share, "%"))
    return finish(run, version_in_path(run.command) or _version_by_layout(facts, lines))


def _totals(lines: list[str], span: _Span, seconds: float | None) -> Iterator[tuple[str, OpResult]]:
    """``total`` of the tables Total IO, Read IO and Write IO."""
    op, columns = "", [""]
    for line in lines:
        if found := _SECTION.match(line):
            op, columns = found[1].lower(), []
        elif op and line.startswith("thread") and "|" in line:
            columns = [_COLUMNS.get(cell.strip().lower(), "") for cell in line.split("|")]
        elif op and columns and line.startswith("total:"):
            cells = line.replace("total:", "total |", 1).split("|")
            told = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name}
            yield op, _total(op, told, span, seconds)
            op = ""


def _total(op: str, told: dict[str, str], span: _Span, seconds: float | None) -> OpResult:
    one = OpResult(
        op, ios=whole(told.get("ios")), bytes=whole(told.get("bytes")), iops=real(told.get("iops"))
    )
    one.iops_stddev = real(told.get("iops_stddev"))
    if one.iops_stddev is not None and span.interval_ms and seconds:
        one.iops_intervals = small(int(seconds * 1000 // span.interval_ms))
    if one.ios:
        one.latency_clock = SERVICE
        one.latency_ns_mean = _float_ns(told.get("mean"))
        one.latency_ns_stddev = _float_ns(told.get("stddev"))
    return with_rate(one, seconds)


def _float_ns(text: str | None) -> float | None:
    number = nanoseconds(real(text))
    return None if number is None else float(number)


def _percentiles(lines: list[str]) -> Iterator[tuple[str | None, list[list[str]]]]:
    """Each table of percentiles: whose (None: of all targets), and its rows."""
    for place, line in enumerate(lines):
        if not line.strip().startswith("%-ile"):
            continue
        title = lines[place - 1].strip() if place else ""
        target = title.removeprefix("Latency distribution:").strip()
        rows = []
        for row in lines[place + 2 :]:
            cells = [cell.strip() for cell in row.split("|")]
            if len(cells) != 4:
                break
            rows.append(cells)
        yield (None if title.lower() in _NO_TARGET else target), rows


def _is_whole(tables: list[tuple[str | None, list[list[str]]]]) -> bool:
    # The last row of a cut file may be a number cut in two.
    return any(target is None and rows and rows[-1][0] == "max" for target, rows in tables)


def _take_percentiles(
    run: Run, totals: dict[str, OpResult], target: str | None, rows: list[list[str]]
) -> None:
    for label, *cells in rows:
        for op, cell in zip(OPS, cells, strict=True):
            latency_ns = nanoseconds(real(cell))
            if latency_ns is None:
                continue
            quantile = _quantile(label)
            if target is not None:
                words = f"{op} latency {label}"
                run.figures.append(Figure("DiskSpd target", words, latency_ns, "ns", target))
            elif label == "min":
                totals[op].latency_ns_min = latency_ns
            elif label == "max":
                totals[op].latency_ns_max = latency_ns
            elif quantile is not None:
                totals[op].quantiles.append((quantile, latency_ns))


def _quantile(label: str) -> float | None:
    if found := _NINES.fullmatch(label):
        return float("0." + "9" * int(found[1])) if int(found[1]) else None
    found = _NTH.fullmatch(label)
    return int(found[1]) / 100 if found else None


def _load(run: Run, span: _Span) -> None:
    """What the load was: threads, I/Os outstanding, rates asked for."""
    targets = span.targets
    accesses = {target.access for target in targets}
    run.access = accesses.pop() if len(accesses) == 1 else "mixed" if accesses else None
    sizes = {target.block_bytes for target in targets}
    run.size_bytes = sizes.pop() if len(sizes) == 1 else None
    if span.pool_threads is not None:
        each = span.pool_requests or added(target.requests for target in targets)
        run.outstanding = None if each is None else small(span.pool_threads * each)
        threads_of = [span.pool_threads for _ in targets]
    else:
        products = [(target.requests, target.threads) for target in targets]
        run.outstanding = small(added(None if r is None or t is None else r * t for r, t in products))
        threads_of = [target.threads or 0 for target in targets]
        named = sum(threads_of)
        if run.threads is not None and targets and run.threads != named:
            requests = {target.requests for target in targets}
            each = requests.pop() if len(requests) == 1 else None
            run.outstanding = None if each is None else small(run.threads * each)
            run.notes.append(
                f"{run.threads:,} threads ran, but the parameters that are shown name {named:,}: what is outstanding "
                "is reckoned from those that ran"
            )
    rates = [_rate(target, threads) for target, threads in zip(targets, threads_of, strict=True)]
    if rates and all(rate is not None for rate in rates):
        run.offered_iops = sum(rate for rate in rates if rate is not None)


def _rate(target: _Target, threads: int) -> float | None:
    """I/Os per second that a target is limited to; ``-g`` counts for each thread."""
    if target.rate_iops:
        return float(target.rate_iops * threads)
    if target.rate_bytes_per_ms and target.block_bytes:
        return target.rate_bytes_per_ms * 1000 * threads / target.block_bytes
    return None


def _version_by_layout(facts: dict[str, str], lines: list[str]) -> str:
    if "core count" in facts or "node count" in facts:
        return "2.2 by its layout"
    if any(line.startswith("Total latency distribution:") for line in lines):
        return "2.1 by its layout"
    return "2.0.21 by its layout" if "computer name" in facts else "before 2.0.21"


FORMAT: Final = result_format("diskspd-text", TOOL, _recognises, parse)
