"""The answer of `describe`: what and when, how busy, how slow, whose and whether to trust it; then the tables."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from iotrace.analyze.present import (
    Answer,
    Bytes,
    Cell,
    Count,
    Duration,
    Instant,
    Number,
    Offset,
    Rate,
    Section,
    Sentence,
    Share,
)
from iotrace.analyze.present.answer import Column, columns, notes_section, section
from iotrace.analyze.present.trust import disqualified, findings_section, trust
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_figure,
    format_moment,
    format_share,
)
from iotrace.analyze.validity import Finding
from iotrace.schemas import Quality, counted
from iotrace.schemas.text import beginning, shortened
from iotrace.schemas.vocabulary import UNATTRIBUTED, layers_above, listed

from .description import WITHHELD, Description, Flow, Latency, Workload, grade
from .results import Row, result_tables

_ROWS_MAX: Final = 40
_SHOWN: Final = 5
_DRIVES_SHOWN: Final = 20
_TITLE_CHARACTERS: Final = 34
"""Of the title, so that it stands in one line with date and length."""
_MOUNT_CHARACTERS_MAX: Final = 12
"""A drive letter says more than the name of a device; a long path says less."""
_SPARKS: Final = " ▁▂▃▄▅▆▇█"
_SIZE_CLASSES: Final = tuple(4096 << doublings for doublings in range(9))
_READ_AND_WRITE: Final = ("read", "write")


def describe_answer(
    found: Description, name: str, quality: Quality, findings: Sequence[Finding], clocks: Sequence[str] = ()
) -> Answer:
    """The whole answer on a recording called ``name``; ``clocks`` are sentences on how its sources were aligned."""
    return Answer(
        opening=[
            *disqualified({name: findings}),
            *opening(found),
            *trust(quality, findings),
        ],
        sections=[
            *description_sections(found),
            *notes_section([*found.notes, *clocks]),
            *findings_section(name, quality, findings),
        ],
    )


def description_sections(found: Description) -> list[Section]:
    """The tables, load and latency first; without I/Os what counters and results of tests say."""
    results = results_sections(found.results)
    if not found.workloads:
        return [*results, *_drives(found), *_waits(found), *_markers(found)]
    parts: tuple[Iterable[Section], ...] = (
        _load(found), _latency(found), results, _shape(found), _sizes(found), _busiest(found), _places(found),
        _drives(found), _in_flight(found), _working_set(found), _hot_spots(found), _waits(found), _markers(found),
    )  # fmt: skip
    return [one for part in parts for one in part]


def results_sections(rows: Sequence[Row]) -> list[Section]:
    """What was run by another tool: a table for tests of storage, and one for tests of a database."""
    found = result_tables(rows)
    if found is None:
        return []
    heading = f"Results of {found.tools}"
    legends = [Sentence(legend) for legend in found.legends]
    storage = columns(*found.storage_columns, text=2)
    return [
        *section(heading, storage, found.storage, sentences=legends),
        *section(
            heading,
            columns(*found.database_columns),
            found.database,
            sentences=legends if not found.storage else (),
        ),
    ]


def opening(found: Description, title_characters: int = _TITLE_CHARACTERS) -> list[Sentence]:
    """What was recorded and when, how busy and how slow it was, and whose I/O it was."""
    said = [Sentence(_what(found, beginning(found.title, title_characters)), "answer")]
    said += [Sentence(f"not the same time: {words}", "doubt") for words in found.shared_time]
    total = found.total
    if total is not None and total.ios_per_s:
        said += [
            Sentence(words)
            for words in (_busy(found, total), _slow(found, total), _whose(found, total))
            if words
        ]
    elif not found.results:
        said += [Sentence(words) for words in _counted(found.drives)]
    return said


def _counted(drives: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How busy and how slow the busiest drive or file was by its counters, which is all that some nights left."""
    each = [one for one in drives if one["instance"] != "_Total"]
    known = [one for one in each if _rate(one)]
    if known:
        yield from _most(max(known, key=_rate))
    if each and all(one["ios_per_s"] is None for one in each):
        yield from _not_counted(each, has_load=bool(known))


def _rate(drive: dict[str, Any]) -> float:
    """Reads and writes together, or those of the two that are known."""
    parts = [drive[f"{op}_ios_per_s"] or 0 for op in _READ_AND_WRITE]
    return float(drive["ios_per_s"] or sum(parts))


def _most(busiest: dict[str, Any]) -> Iterator[str]:
    logged = [op for op in _READ_AND_WRITE if busiest[f"{op}_ios_per_s"] is not None]
    alone = None if busiest["ios_per_s"] is not None else logged[0]
    bytes_per_s = sum(
        busiest[figure] or 0
        for op, figure in (("read", "read_bytes_per_s"), ("write", "written_bytes_per_s"))
        if alone in {None, op}
    )
    moved = f", {format_figure(bytes_per_s / 1e6)} MB/s" if bytes_per_s else ""
    peak = busiest["peak_ios_per_s"]
    most = f"; {format_figure(peak)} in the busiest interval" if peak else ""
    name = shortened(str(busiest["instance"] or "unknown"), 40)
    what = f"{alone}s" if alone else "I/Os"
    yield f"Load: most on {name}, {format_figure(_rate(busiest))} {what}/s{moved}{most}"
    taken = [
        f"{op}s {grade(latency)}, {format_duration_ns(latency)}"
        for op in _READ_AND_WRITE
        if (latency := busiest[f"{op}_latency_mean_ns"])
    ]
    if taken:
        yield f"Latency there: {'; '.join(taken)}; counters know means only, no percentiles"


def _not_counted(drives: Sequence[dict[str, Any]], *, has_load: bool) -> Iterator[str]:
    """What was logged of drives whose rate was not, and which counters of perfmon say the rest."""
    queued = [one for one in drives if one["queue_length_mean"] is not None]
    if queued and not has_load:
        longest = max(queued, key=lambda one: float(one["queue_length_mean"]))
        name = shortened(str(longest["instance"] or "unknown"), 40)
        yield f"Load: {longest['queue_length_mean']:.2f} I/Os in flight on {name} on average"
    if {one["object"] for one in drives} - {"PhysicalDisk", "LogicalDisk"}:
        return
    counters = {
        "read_ios_per_s": "Disk Reads/sec",
        "write_ios_per_s": "Disk Writes/sec",
        "read_latency_mean_ns": "Avg. Disk sec/Read",
        "write_latency_mean_ns": "Avg. Disk sec/Write",
    }
    missing = [counter for figure, counter in counters.items() if all(one[figure] is None for one in drives)]
    if missing:
        yield f"Not logged: {listed(missing)}; 'iotrace capture plan' writes a set that logs them"


def _what(found: Description, title: str) -> str:
    if (results := result_tables(found.results)) is not None and found.total is None:
        runs = len(results.legends)
        return (
            f"{title} holds results of {runs} run{'' if runs == 1 else 's'} of {results.tools}, and no I/Os"
        )
    when = format_moment(found.start_utc_ns) or "at no known date"
    when = f"{when}, {format_duration_ns(found.window_ns)}"
    if found.total is None or not found.total.ios_per_s:
        return f"{title} holds no reads or writes{_held_instead(found)}: {when}"
    return f"{title}: {found.kind} {when}"


def _held_instead(found: Description) -> str:
    waits = sum(row["wait_count"] for row in found.waits)
    events = sum(row["marker_count"] for row in found.markers)
    held = ["counters"] if found.counters else []
    held += [counted(count, word) for count, word in ((waits, "wait"), (events, "event")) if count]
    return f", only {listed(held)}" if held else ""


def _busy(found: Description, total: Workload) -> str:
    fullest = next(
        (row for row in found.busiest if row["window_ns"] == 10**9 and row["ranked_by"] == "io_count"), None
    )
    peak = f"; busiest second {format_count(fullest['io_count'])} I/Os" if fullest else ""
    return (
        f"Load: {format_figure(total.ios_per_s)} I/Os/s of {format_bytes(total.bytes_per_transfer)}, "
        f"{100 * (total.read_share_of_ios or 0):.0f} % reads, {format_figure(total.bytes_per_s / 1e6)} MB/s{peak}"
    )


def _slow(found: Description, total: Workload) -> str:
    taken = {
        op: latency
        for op, flow in (("reads", total.read), ("writes", total.write))
        if (latency := flow.latency.get(found.headline_metric)) is not None and latency.mean_ns is not None
    }
    grades = {latency.grade for latency in taken.values()}
    one_word = f"{grades.pop()}; " if len(grades) == 1 else ""
    said = [
        f"{op}{'' if one_word else f' {latency.grade},'} {_took(latency)}" for op, latency in taken.items()
    ]
    layer = found.workload_layer
    # Of what lies above, which SQL Server waits for as well, it does not tell.
    at = (
        f" at the {layer} layer" if layer and layers_above(layer, [one.layer for one in found.layers]) else ""
    )
    return f"Latency{at}: {one_word}{'; '.join(said) or 'the recording holds none'}"


def _took(latency: Latency) -> str:
    p99 = latency.quantiles_ns.get("p99")
    tail = f", p99 {format_duration_ns(p99)}" if p99 is not None else ""
    return f"{format_duration_ns(latency.mean_ns)}{tail}"


def _whose(found: Description, total: Workload) -> str:
    """The device that most of the time in I/O was spent on, where there are several; else the process and the file."""
    devices = [one for one in found.workloads if not one.is_total and one.role is None]
    if len(devices) < 2 or not total.queue_length_mean:
        return _whose_on_one_device(found, total)
    most = max(devices, key=lambda one: one.queue_length_mean)
    roles = [one for one in found.workloads if one.device_id == most.device_id and one.role is not None]
    role = f" ({roles[0].role})" if len(roles) == 1 and roles[0].role != UNATTRIBUTED else ""
    time = format_share(most.queue_length_mean / total.queue_length_mean)
    ios = format_share(most.ios_per_s / total.ios_per_s)
    return f"Whose: {shortened(_device(most), 24)}{role} has {time} of the time in I/O and {ios} of the I/Os"


def _whose_on_one_device(found: Description, total: Workload) -> str:
    every = total.read.io_count + total.write.io_count
    said: list[str] = []
    for name, rows in (("name", found.top_processes), ("path", found.top_files)):
        known = [row for row in rows if row[name]]
        if known and len(rows) > 1 and every:
            most = max(known, key=lambda row: row["read_count"] + row["write_count"])
            share = format_share((most["read_count"] + most["write_count"]) / every)
            said.append(f"{shortened(str(most[name]), 20)} has {share}{'' if said else ' of the I/Os'}")
    return f"Whose: {'; '.join(said)}" if said else ""


def _device(one: Workload) -> str:
    """A device as people know it: by where it is mounted, if that is short, else by its own name."""
    is_short = one.mount is not None and len(one.mount) <= _MOUNT_CHARACTERS_MAX
    return (one.mount if is_short else None) or one.device or "unknown device"


def _named(loads: Iterable[Workload]) -> list[tuple[str, Workload]]:
    """Name the rows, and leave out those that only repeat another: the one role of a device, the one device of all."""
    roles: dict[int | None, list[Workload]] = defaultdict(list)
    devices: list[Workload] = []
    rows: list[tuple[str, Workload]] = []
    for load in loads:
        if load.is_total:
            rows.append(("all", load))
        elif load.role is None:
            devices.append(load)
        else:
            roles[load.device_id].append(load)
    if len(devices) == 1:
        rows.clear()
    for device in devices:
        where = _device(device)
        parts = roles[device.device_id]
        if len(parts) == 1 and parts[0].role != UNATTRIBUTED:
            rows.append((f"{where} {parts[0].role}", device))
        else:
            rows.append((where, device))
            rows += [(f"  {part.role}", part) for part in parts if len(parts) > 1]
    return rows


def _load(found: Description) -> Iterator[Section]:
    heads = (
        Column("", is_text=True), Column("reads", "/s"), Column("writes", "/s"), Column("read", "mean"),
        Column("write", "mean"), Column("read", "MB/s"), Column("write", "MB/s"), Column("queue"),
        Column("KiB", "/I/O"), Column("I/Os", "/s", detail=True), Column("MB/s", detail=True),
    )  # fmt: skip
    rows = [
        (
            name,
            Number(load.read.ios_per_s),
            Number(load.write.ios_per_s),
            _mean(load.read, found.headline_metric),
            _mean(load.write, found.headline_metric),
            Number(load.read.bytes_per_s / 1e6, 1),
            Number(load.write.bytes_per_s / 1e6, 1),
            Number(load.queue_length_mean if _has_latency(load) else None, 2),
            Number(None if load.bytes_per_transfer is None else load.bytes_per_transfer / 1024, 1),
            Number(load.ios_per_s),
            Number(load.bytes_per_s / 1e6, 1),
        )
        for name, load in _named(found.workloads)
    ]
    metric = "" if found.headline_metric == "service" else f", and mean {found.headline_metric}"
    yield from section(
        f"Load, counted once, at the {found.workload_layer} layer{metric}", heads, rows, shown=_ROWS_MAX
    )


def _has_latency(load: Workload) -> bool:
    """Whether anything is known of how long its I/Os took; what it has none of has no queue, known or not."""
    measured = [one.io_count for flow in (load.read, load.write) for one in flow.latency.values()]
    return bool(load.queue_length_mean or any(measured) or not load.ios_per_s)


def _mean(flow: Flow, metric: str) -> Duration:
    latency = flow.latency.get(metric)
    return Duration(None if latency is None else latency.mean_ns)


def _latency(found: Description) -> Iterator[Section]:
    rows: list[tuple[Cell, ...]] = [
        (
            entry.layer,
            f"{entry.op} {entry.metric}" if entry.metric != "service" else entry.op,
            Count(entry.latency.io_count),
            Duration(entry.latency.mean_ns),
            *(Duration(entry.latency.quantiles_ns[name]) for name in ("p50", "p95", "p99", "p99_9")),
            entry.latency.grade or "",
            Duration(entry.latency.quantiles_ns["p90"]),
            Duration(entry.latency.max_ns),
        )
        for entry in found.layer_latencies
        if entry.latency.io_count
    ]
    heads = ("layer", "op", "I/Os", "mean", "p50", "p95", "p99", "p99.9", "grade", "+p90", "+max")
    withheld = any(str(cell) == DASH for row in rows for cell in row)
    notes = [WITHHELD] if withheld else []
    yield from section("Latency by layer", columns(*heads, text=2), rows, notes=notes)


def _shape(found: Description) -> Iterator[Section]:
    heads = (
        Column("", is_text=True), Column("reads", "% I/O"), Column("reads", "% B"), Column("seq.", "r %"),
        Column("seq.", "w %"), Column("gaps", "CV"), Column("peak", "10ms"), Column("peak", "1s"), Column("touched"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            _percent(load.read_share_of_ios),
            _percent(load.read_share_of_bytes),
            _percent(load.read.sequential_share),
            _percent(load.write.sequential_share),
            Number(load.interarrival_cv, 2),
            *(_times(load.peak_to_mean[width]) for width in ("10ms", "1s")),
            Bytes(load.working_set_bytes),
        )
        for name, load in _named(found.workloads)
    ]
    legend = (
        "seq.: begins where one of the last 16 I/Os of its file ended. gaps CV: 1 is random arrivals, more is bursty; "
        "peak: the fullest such stretch over the mean"
    )
    yield from section("Mix, order and bursts", heads, rows, shown=_ROWS_MAX, notes=[legend])


def _times(ratio: float | None) -> str:
    return DASH if ratio is None else f"{ratio:,.0f}x"


def _percent(share: float | None) -> str:
    """A percentage where the head of the column says so."""
    return DASH if share is None else f"{share * 100:.0f}" if share in (0, 1) else f"{share * 100:.1f}"


def _sizes(found: Description) -> Iterator[Section]:
    """A row for each class of sizes, a column for each role and operation."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(_SIZE_CLASSES) + 1))
    for entry in found.sizes:
        if entry.op in _READ_AND_WRITE:
            counts[entry.role, entry.op][sum(entry.size_bytes > bound for bound in _SIZE_CLASSES)] += (
                entry.io_count
            )
    streams = sorted(counts)
    heads = [Column(op if role == UNATTRIBUTED else f"{role} {op}") for role, op in streams]
    labels = [f"≤ {format_bytes(bound).replace('.0', '')}" for bound in _SIZE_CLASSES] + ["larger"]
    rows = [
        (
            label,
            *(Share(counts[one][place] / sum(counts[one])) if counts[one][place] else "" for one in streams),
        )
        for place, label in enumerate(labels)
        if any(counts[one][place] for one in streams)
    ]
    yield from section("I/O sizes, share of I/Os", [Column("", is_text=True), *heads], rows)


def _busiest(found: Description) -> Iterator[Section]:
    ranked = {"io_count": "by I/Os", "size_bytes": "by bytes"}
    start_utc_ns = found.start_utc_ns - found.window_start_ns
    rows = [
        (
            f"{row['window_ns'] / 1e9:.0f} s {ranked[row['ranked_by']]}",
            Instant(start_utc_ns + row["from_ns"]),
            Offset(row["from_ns"] - found.window_start_ns),
            Rate(row["io_count"] * 1e9 / row["window_ns"]),
            Rate(row["size_bytes"] * 1e9 / row["window_ns"], "B"),
            Duration(row["latency_mean_ns"]),
            Share(row["read_count"] / row["io_count"]),
            Count(row["io_count"]),
            Bytes(row["size_bytes"]),
        )
        for row in found.busiest
        if row["io_count"]
    ]
    heads = ("", "from", "after", "I/Os", "bytes", "mean latency", "+reads", "+count", "+moved")
    yield from section("Busiest stretches", columns(*heads), rows)


def _places(found: Description) -> Iterator[Section]:
    """Databases, files and processes with the most I/O."""

    def moved(row: dict[str, Any]) -> tuple[Cell, ...]:
        return (
            Count(row["read_count"]),
            Bytes(row["read_bytes"]),
            Count(row["write_count"]),
            Bytes(row["written_bytes"]),
        )

    def means(row: dict[str, Any]) -> tuple[Cell, ...]:
        return tuple(Duration(row[f"{op}_latency_mean_ns"]) for op in _READ_AND_WRITE)

    counts = ("reads", "read", "writes", "written")
    yield from section(
        "Top databases",
        columns("", *counts, "read mean", "write mean", "+files"),
        [
            (row["database"] or "no database known", *moved(row), *means(row), Count(row["file_count"]))
            for row in found.top_databases
        ],
        shown=_SHOWN,
    )
    yield from section(
        "Top files",
        columns("", *counts, "read mean", "write mean", "+role"),
        [
            (row["path"] or "files not known", *moved(row), *means(row), str(row["role"]).replace("_", " "))
            for row in found.top_files
        ],
        shown=_SHOWN,
    )
    yield from section(
        "Top processes",
        columns("", "id", *counts),
        [
            (
                row["name"] or "not known",
                "" if row["os_process_id"] is None else str(row["os_process_id"]),
                *moved(row),
            )
            for row in found.top_processes
        ],
        shown=_SHOWN,
    )


def _drives(found: Description) -> Iterator[Section]:
    """The table that perfmon's users know, from counters; nothing where none speak of drives or files."""
    has_sources = len({entry["source"] for entry in found.drives}) > 1
    grouped: dict[str, list[dict[str, Any]]] = {}
    for entry in found.drives:
        source = f" of {shortened(str(entry['source']), 40)}" if has_sources else ""
        layer = f", {entry['layer']} layer" if entry["layer"] else ""
        heading = f"Counters: {shortened(str(entry['object']), 40)}{source}{layer}, means over time"
        grouped.setdefault(heading, []).append(entry)
    heads = (
        Column("", is_text=True), Column("reads", "/s"), Column("writes", "/s"), Column("read", "mean"),
        Column("write", "mean"), Column("read", "MB/s"), Column("write", "MB/s"), Column("queue"),
        Column("KiB", "/read"), Column("KiB", "/write"), Column("peak", "I/Os/s", detail=True),
        Column("worst", "read", detail=True), Column("worst", "write", detail=True),
    )  # fmt: skip
    for heading, entries in grouped.items():
        # The busiest first; what is the sum of the others comes last.
        entries.sort(key=lambda entry: (entry["instance"] == "_Total", -(entry["ios_per_s"] or 0)))
        graded = [
            (f"{shortened(entry['instance'] or 'unknown', 26)} {op}s", grade(entry[f"{op}_latency_mean_ns"]))
            for entry in entries[:_DRIVES_SHOWN]
            for op in _READ_AND_WRITE
            if entry[f"{op}_latency_mean_ns"] and entry["instance"] != "_Total"
        ]
        words = {word for _, word in graded}
        told = [f"all {word}" for word in words] if len(words) == 1 else [" ".join(one) for one in graded[:8]]
        notes = [f"grades of the means: {', '.join(told)}"] if told else []
        rows = [_drive(entry) for entry in entries]
        counted = [place for place in range(len(heads)) if any(str(row[place]) != DASH for row in rows)]
        yield from section(
            heading,
            [heads[place] for place in counted],
            [[row[place] for place in counted] for row in rows],
            shown=_DRIVES_SHOWN,
            notes=notes,
        )


def _waits(found: Description) -> Iterable[Section]:
    """What SQL Server waited for; beside I/Os few look for it here."""
    rows = [
        (
            str(row["wait_type"]),
            Count(row["wait_count"]),
            Duration(row["waited_sum_ns"]),
            Duration(row["waited_sum_ns"] / row["wait_count"]),
            Duration(row["waited_max_ns"]),
            Duration(row["signal_sum_ns"]),
        )
        for row in found.waits
    ]
    heads = columns("", "waits", "in all", "mean", "longest", "+for a processor")
    return section("Waits", heads, rows, shown=_SHOWN, detail=bool(found.workloads))


def _markers(found: Description) -> Iterable[Section]:
    """Checkpoints, backups and other events."""
    rows = [
        (
            str(row["kind"]).replace("_", " "),
            Count(row["marker_count"]),
            Offset(row["first_at_ns"]),
            Offset(row["last_at_ns"]),
            Duration(row["lasted_max_ns"]),
        )
        for row in found.markers
    ]
    heads = columns("", "events", "first", "last", "longest")
    return section("Events", heads, rows, shown=_SHOWN, detail=bool(found.workloads))


def _drive(entry: dict[str, Any]) -> tuple[Cell, ...]:
    def number(name: str, divisor: float, decimals: int) -> Number:
        return Number(None if entry[name] is None else entry[name] / divisor, decimals)

    return (
        entry["instance"] or "unknown",
        *(number(f"{op}_ios_per_s", 1, 0) for op in _READ_AND_WRITE),
        *(Duration(entry[f"{op}_latency_mean_ns"] or None) for op in _READ_AND_WRITE),
        number("read_bytes_per_s", 1e6, 1),
        number("written_bytes_per_s", 1e6, 1),
        number("queue_length_mean", 1, 2),
        *(number(f"{op}_size_bytes", 1024, 1) for op in _READ_AND_WRITE),
        Number(entry["peak_ios_per_s"]),
        *(Duration(entry[f"{op}_latency_max_ns"] or None) for op in _READ_AND_WRITE),
    )


def _in_flight(found: Description) -> Iterator[Section]:
    rows = [
        (
            "all" if entry.is_total else entry.device or "unknown device",
            Number(entry.mean, 2),
            Count(entry.peak),
            Rate(entry.arrivals_per_s),
            Duration(entry.latency_mean_ns),
            Number(entry.littles_law, 2),
            Share(entry.difference_share),
        )
        for entry in found.in_flight
    ]
    heads = columns("", "mean", "peak", "arrivals", "latency", "Little", "differs")
    if all(entry.latency_mean_ns is None for entry in found.in_flight):
        return
    heading = "In flight, checked against Little's law (arrivals x latency)"
    yield from section(heading, heads, rows, detail=True)


def _working_set(found: Description) -> Iterator[Section]:
    rows = [
        (
            Offset(entry.from_ns - found.window_start_ns),
            Duration(entry.until_ns - entry.from_ns),
            Count(entry.io_count),
            Bytes(entry.touched_bytes),
            Bytes(entry.new_bytes),
            Share(entry.hottest_share),
        )
        for entry in found.touched_slices
        if entry.io_count
    ]
    heads = columns("after", "for", "I/Os", "touched", "for the first time", "in busiest 1 %", text=0)
    yield from section("Working set over time", heads, rows, detail=True)


def _hot_spots(found: Description) -> Iterator[Section]:
    rows = [
        (
            spot.path or spot.device or "place not known",
            Bytes(spot.offset_bytes),
            Bytes(spot.size_bytes),
            Share(spot.share),
            _sparks(spot.io_count_by_slice),
            Count(spot.io_count),
        )
        for spot in found.hot_spots
    ]
    heads = columns("", "from", "length", "of I/Os", "over time", "+count")
    notes = []
    if found.busiest_hundredth_share is not None:
        block = format_bytes(found.block_bytes).replace(".0", "")
        notes.append(
            f"{format_share(found.busiest_hundredth_share)} of the I/Os began in the busiest 1 % of the blocks "
            f"({block} each)"
        )
    yield from section(
        "Hot spots, and when they were hot", heads, rows, shown=_SHOWN, notes=notes, detail=True
    )


def _sparks(counts: list[int]) -> str:
    most = max(counts, default=0) or 1
    return "".join(_SPARKS[-(-count * (len(_SPARKS) - 1) // most)] for count in counts)
