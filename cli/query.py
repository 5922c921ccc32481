"""The query command: a user's own SELECT over a recording's tables, or a question of the library."""

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from iotrace.analyze import library, query
from iotrace.analyze.fleet import Unread, read_each, refuse_missing
from iotrace.analyze.units import DASH
from iotrace.replay.export import defused
from iotrace.schemas import IotraceError, Recording, Sweep, SweepStep
from iotrace.schemas.stored import Place, brought
from iotrace.schemas.text import printable, shortened

from . import cluster, console
from .amounts import parse_seconds
from .cluster import Certificates, Scheduler
from .options import COUNT_MAX, Json

_ROWS_SHOWN: Final = 40
TIMEOUT: Final = "10m"
"""Of a query, unless told otherwise."""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("query")(query_command)


def query_command(
    recording: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECORDING",
            help="A recording, NAME.iotrace; or many: a folder, or a pattern in quotes.",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="One SELECT, or a query of the library.", show_default=False),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE…", help="Parameters of a library query.", show_default=False),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the queries of the library.")] = False,
    step: Annotated[
        str | None,
        typer.Option(
            "--step", metavar="2x", help="Which step to query, if RECORDING is a sweep.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, max=COUNT_MAX, help="Rows to print; 0 for all.")
    ] = _ROWS_SHOWN,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="Stop after this long: 30s, 1h.")
    ] = TIMEOUT,
    csv_: Annotated[bool, typer.Option("--csv", help="Print all rows as CSV.")] = False,
    scheduler: Scheduler = None,
    certificates: Certificates = None,
    json: Json = False,
) -> None:
    """Query a recording in SQL, or by a query of the library.

    Each table is a view named after its file: io, devices, files, processes, waits, counters, markers. A query
    cannot change anything, nor read anything but the recording. --json and --csv print all rows. For a folder of
    recordings, each table has the rows of all hosts and a column host; the table hosts says when each began. A
    library query then runs on each recording, several at once.

    Example: iotrace query prod.iotrace "SELECT op, count(*) FROM io WHERE layer = 'block' GROUP BY op"
    """
    if list_:
        _print_library(json=json)
        return
    if json and csv_:
        raise IotraceError("--json and --csv cannot both be", hint="choose one")
    if recording is None or question is None:
        raise IotraceError(
            "query needs a recording and a question",
            hint='for example iotrace query prod.iotrace "SELECT * FROM devices", or iotrace query --list',
        )
    seconds = parse_seconds(timeout)
    named = cluster.named([recording], scheduler, certificates)
    cluster.refuse_for_one(named, scheduler)
    if not _is_name(question) and parameters:
        raise IotraceError(
            f"'{parameters[0]}' does not belong to a SELECT",
            hint="put the whole SELECT in quotes; only queries of the library take NAME=VALUE",
        )
    words = _words(parameters or [])
    with (
        _answer(named, question, words, step, seconds, scheduler, certificates) as batches,
        query.within_memory(),
    ):
        with console.working("asking"):
            first = next(batches, None)
        if first is None:
            return
        answer = chain([first], batches)
        if json:
            _write_json(answer)
        elif csv_:
            _write_csv(first.schema, answer)
        else:
            _print_rows(first.schema, _rows(answer), limit)


@contextmanager
def _answer(
    places: list[Place],
    question: str,
    words: dict[str, str],
    step: str | None,
    seconds: float,
    scheduler: str | None,
    certificates: Path | None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    if len(places) > 1 and _is_name(question):
        yield _batches(_ask_each(places, question, words, seconds, scheduler, certificates))
    elif len(places) > 1 and scheduler is not None:
        with cluster.executor(scheduler, certificates) as pool:
            assert pool is not None
            seen = cluster.as_workers_see(places, pool)
            yield _batches(pool.submit(query.select_all, seen, question, seconds).result())
    else:
        with ExitStack() as stack:
            paths = [stack.enter_context(brought(place)) for place in places]
            opened = [Recording.open(one) for one in paths] if len(paths) > 1 else [_open(paths[0], step)]
            console.warn_of_model(opened)
            connection = stack.enter_context(
                query.opened_fleet(opened, [str(place) for place in places])
                if len(places) > 1
                else query.opened(opened[0])
            )
            batches = (
                query.ask(connection, opened[0], question, words)
                if _is_name(question)
                else query.select(connection, question)
            )
            yield query.limited(connection, batches, seconds, console.end)


def _ask_each(
    places: list[Place],
    question: str,
    words: dict[str, str],
    seconds: float,
    scheduler: str | None,
    certificates: Path | None,
) -> pa.Table:
    if scheduler is None:
        refuse_missing(places)
    with cluster.executor(scheduler, certificates) as pool, console.counting("asking", len(places)) as done:
        asked = partial(query.ask_host, question, words, seconds)
        found = read_each(asked, cluster.as_workers_see(places, pool), done, pool)
    for one in found:
        if isinstance(one, Unread):
            raise IotraceError(one.problem, hint="leave that recording out, or ask again")
    return query.of_hosts([one for one in found if isinstance(one, query.HostRows)])


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(query.BATCH_ROWS) or [pa.RecordBatch.from_pylist([], schema=table.schema)])


def _open(path: Path, step: str | None) -> Recording:
    if not (path / "sweep.json").is_file():
        if step is not None:
            raise IotraceError(
                f"'{path}' is not a sweep and has no step '{step}'", hint="leave --step out for a recording"
            )
        return Recording.open(path)
    sweep = Sweep.open(path)
    names = [f"{one.scale:g}" for one in sweep.steps]
    if step is None:
        raise IotraceError(
            f"'{path}' is a sweep, and a query reads one of its steps",
            hint=f"name one with --step: {', '.join(names) or 'it has none'}",
        )
    chosen = next((one for one in sweep.steps if _is_step(one, step)), None)
    if chosen is None:
        raise IotraceError(
            f"'{path}' has no step '{step}'", hint=f"its steps are {', '.join(names) or 'none yet'}"
        )
    return Recording.open(sweep.path / chosen.folder)


def _is_step(step: SweepStep, wanted: str) -> bool:
    return wanted.removesuffix("x") == f"{step.scale:g}" or wanted in (step.folder, Path(step.folder).name)


def _is_name(question: str) -> bool:
    """One word is a query of the library: no SELECT is that short."""
    return question.strip().isidentifier()


def _words(parameters: Sequence[str]) -> dict[str, str]:
    words = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals or not name:
            raise IotraceError(f"'{parameter}' is not NAME=VALUE", hint="for example layer=block")
        words[name] = value
    return words


def _print_library(*, json: bool) -> None:
    queries = library.list_queries()
    if json:
        console.print_json(
            [
                {
                    "name": entry.name,
                    "question": entry.question,
                    "columns": [_facts(column) for column in entry.columns],
                    "parameters": [
                        _facts(parameter) | {"has_default": parameter.name in query.defaults()}
                        for parameter in entry.parameters
                    ],
                }
                for entry in queries
            ]
        )
        return
    rows = []
    for entry in queries:
        needed = [f"{one.name}=…" for one in entry.parameters if one.name not in query.defaults()]
        rows.append([entry.name, entry.question + (f" ({', '.join(needed)})" if needed else "")])
    console.table(["query", "question it answers"], rows, left=2)
    console.paragraph(
        "iotrace query RECORDING NAME runs a query; --list --json shows its parameters (NAME=VALUE) and its columns",
        style="dim",
    )


def _facts(column: library.Column) -> dict[str, str]:
    return {"name": column.name, "unit": column.unit, "meaning": column.meaning}


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    for batch in batches:
        yield from zip(*(_plain(column) for column in batch.columns), strict=True)


def _plain(column: pa.Array) -> list[Any]:
    """Values as Python has them; DuckDB's sums of integers come as decimals."""
    values = query.python_values(column)
    if not pa.types.is_decimal(column.type):
        return values
    return [_number(value) if isinstance(value, Decimal) else value for value in values]


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _write_json(batches: Iterable[pa.RecordBatch]) -> None:
    between = "["
    for batch in batches:
        columns = [_plain(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            row = dict(zip(batch.schema.names, values, strict=True))
            sys.stdout.write(f"{between}\n {console.json_text(row)}")
            between = ","
    sys.stdout.write("\n]\n" if between == "," else "[]\n")


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """No text is a formula to a spreadsheet, nor drives a terminal; JSON has it as it is."""
    show = printable if console.data.is_terminal else str
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([defused(show(name)) for name in schema.names])
    for row in _rows(batches):
        writer.writerow([defused(show(value)) if isinstance(value, str) else value for value in row])


def _print_rows(schema: pa.Schema, rows: Iterator[Sequence[Any]], limit: int) -> None:
    shown = [[_cell(value) for value in row] for row in (islice(rows, limit) if limit else rows)]
    has_more = limit > 0 and next(rows, None) is not None
    heads = [shortened(printable(name)) for name in schema.names]
    if console.data.is_terminal and _width(heads, shown) > console.data.width:
        _print_below_one_another(heads, shown)
    else:
        _print_beside_one_another(schema, heads, shown)
    if has_more:
        console.paragraph(
            f"these are the first {limit:,} rows; --limit 0, --csv or --json give all",
            style="dim",
        )
    elif not shown:
        console.paragraph("no rows", style="dim")


def _width(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    columns = zip(heads, *rows, strict=True)
    return sum(max(Text(cell).cell_len for cell in column) + 2 for column in columns) - 2


def _print_beside_one_another(schema: pa.Schema, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    grid = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for head, field in zip(heads, schema, strict=True):
        is_text = not (
            pa.types.is_integer(field.type)
            or pa.types.is_floating(field.type)
            or pa.types.is_decimal(field.type)
        )
        grid.add_column(Text(head), justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console.print_whole(grid, _width(heads, rows))


def _print_below_one_another(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows too wide for the screen: a line for each value, as no figure may be cut."""
    name_width = max(Text(head).cell_len for head in heads)
    for number, row in enumerate(rows, 1):
        console.data.print(Text(f"row {number:,}", style="dim"))
        for head, cell in zip(heads, row, strict=True):
            name = Text(head)
            name.pad_right(name_width - name.cell_len + 2)
            console.data.print(name.append(cell))


def _cell(value: Any) -> str:  # noqa: ANN401 - whatever DuckDB answers
    if value is None:
        return DASH
    if isinstance(value, float):
        return f"{value:,.0f}".replace(",", "") if abs(value) >= 1e6 else f"{value:.6g}"
    return printable(shortened(str(value)))
