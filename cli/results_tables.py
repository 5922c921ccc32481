"""Results of other tools' tests on the screen."""

from collections.abc import Sequence

from iotrace.analyze.describe.results import Row, result_tables

from . import console


def print_results(rows: Sequence[Row]) -> None:
    """What was run, and a table for tests of storage and one for tests of a database, where there are any."""
    found = result_tables(rows)
    if found is None:
        return
    console.heading(f"Results of {found.tools}")
    for legend in found.legends:
        console.paragraph(legend)
    if found.storage:
        console.table(found.storage_columns, found.storage, left=2)
    if found.database:
        console.table(found.database_columns, found.database)
