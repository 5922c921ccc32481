# ruff: noqa: S608 - the names in the queries are constants of this project, never words of a file
"""Lines of a snapshot file of which nothing can be made: whose they are, how many, why, and what is lost with them.

Totals bridge a gap: if a file has good lines before and after those left out, its I/Os are all counted, and only a peak
between them is not seen. Before the first good line and after the last one nothing is known, so these lines are lost.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import duckdb

from iotrace.schemas import counted
from iotrace.schemas.text import shortened

from .dmv_columns import CAPTURE_COLUMN

_NAMED: Final = 3
_EXAMPLE_CHARACTERS: Final = 48
NO_TIME: Final = "no time: "
"""How a cell begins that cannot be read as a time. It must not look like one in UTC."""
TIME_COMES_TWICE: Final = "either time: "
"""How the time of a line begins that can be either of two."""
CAME_BACK: Final = "came back"

_KINDS: Final = {
    "rounded": "a spreadsheet rounded their totals",
    "missing": "a total is missing",
    "negative": "a total is below zero",
    "time": "their time cannot be read",
    "twice": "their local time comes twice as the clocks go back, and the order of the lines does not tell which it is",
    CAME_BACK: "their totals do not fit between those before and after, so they are of something else",
    "other": "a cell is no whole number",
}


class Unread:
    """A table of such lines, beside one of the spans of lines that were good. ``key`` are columns that tell a file."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, key: str, types: str, shown: Mapping[str, str]
    ) -> None:
        """``shown`` are the file's own names of columns."""
        self._connection, self._key, self._shown = connection, key, shown
        self._plain_key = [name.strip() for name in key.split(",")]
        connection.execute(f"""
            CREATE TABLE unread (line BIGINT, {types}, instance VARCHAR, kind VARCHAR, told VARCHAR);
            CREATE TABLE span ({types}, first_line BIGINT, last_line BIGINT, lines BIGINT);
        """)

    def add(self, parsed: str, needed: list[str], instance: str, is_bad: str, is_line: str) -> None:
        """Take those lines of ``piece`` that ``is_line``, and that ``is_bad`` says of what was ``parsed`` of them.

        The first column that is bad is told, with its word; of the ``needed`` ones those without a value are.
        """
        words = " ".join(f"WHEN {name} IS NULL THEN '{name} ' || raw_{name}" for name in needed)
        raw = ", ".join(f"trim(piece.{name}, ' \"') AS raw_{name}" for name in [CAPTURE_COLUMN, *needed])
        self._connection.execute(f"""
            INSERT INTO unread
            SELECT line, {self._key}, {instance}, CASE
                WHEN starts_with(told, '{CAPTURE_COLUMN} {TIME_COMES_TWICE}') THEN 'twice'
                WHEN starts_with(told, '{CAPTURE_COLUMN} ') THEN 'time'
                WHEN regexp_matches(word, '^\\d+([.,]\\d+)?[eE]\\+?\\d+$') THEN 'rounded'
                WHEN word = '' OR upper(word) = 'NULL' THEN 'missing'
                WHEN regexp_matches(word, '^-\\s*\\d') THEN 'negative'
                ELSE 'other' END, told
            FROM (
              SELECT *, regexp_replace(told, '^\\S+ ?', '') AS word FROM (
                SELECT *, CASE
                  WHEN NOT coalesce(at_utc_ns > 0, false) THEN '{CAPTURE_COLUMN} ' || raw_{CAPTURE_COLUMN}
                  {words} END AS told
                FROM (SELECT line, {parsed}, {raw} FROM piece WHERE {is_line}) WHERE {is_bad}
              )
            )
        """)

    def good(self, table: str) -> None:
        """Remember from which line to which ``table`` has each file."""
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE span AS
            SELECT {self._key}, min(first_line) AS first_line, max(last_line) AS last_line,
              CAST(sum(lines) AS BIGINT) AS lines
            FROM (
              SELECT * FROM span UNION ALL
              SELECT {self._key}, min(line), max(line), count(*) FROM {table} GROUP BY ALL
            ) GROUP BY {self._key}
        """)

    def _judged(self) -> str:
        same = " AND ".join(f"span.{name} IS NOT DISTINCT FROM unread.{name}" for name in self._plain_key)
        return f"""
            SELECT unread.*, coalesce(span.lines, 0) AS good_lines,
              NOT coalesce(unread.line BETWEEN span.first_line AND span.last_line, false) AS is_lost
            FROM unread LEFT JOIN span ON {same}
        """

    def lost(self) -> int:
        """How many lines are missing before, after or instead of good ones of the same file."""
        ((count,),) = self._connection.execute(
            f"SELECT count(*) FROM ({self._judged()}) WHERE is_lost"
        ).fetchall()
        return int(count)

    def sentences(self) -> Iterator[str]:
        """Whose lines are left out and why, those with most of them first."""
        rows = self._connection.execute(f"""
            SELECT *, lines_left_out + good_lines AS lines FROM (
              SELECT instance, kind, count(*) AS left_out, arg_min(told, line) AS told,
                count(*) FILTER (is_lost) AS lost, max(good_lines) AS good_lines,
                sum(count(*)) OVER (PARTITION BY instance) AS lines_left_out
              FROM (SELECT * REPLACE (coalesce(instance, 'files without a name') AS instance) FROM ({self._judged()}))
              GROUP BY instance, kind
            ) ORDER BY lost DESC, left_out DESC, instance, kind
        """)
        names = [column[0] for column in rows.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
        for row in found[:_NAMED]:
            kind = row["kind"]
            column, _, word = row["told"].partition(" ")
            word = word.removeprefix(NO_TIME).removeprefix(TIME_COMES_TWICE)
            example = shortened(f"{self._shown.get(column, column)} {word}".strip(), _EXAMPLE_CHARACTERS)
            yield (
                f"{row['left_out']:,} of {counted(int(row['lines']), 'line')} of {row['instance']}: {_KINDS[kind]}"
                f"{f' ({example})' if example else ''}"
            )
        if rest := found[_NAMED:]:
            yield f"{counted(sum(row['left_out'] for row in rest), 'line')} more, in other files or for other reasons"
