# ruff: noqa: S608 - the names in the queries are constants of this project, never words of a file
"""Which snapshots of a file follow one another: after the clock was set back, and where one is of something else."""

from collections.abc import Iterable, Sequence

import duckdb

from .dmv_columns import START_COLUMN


def _any(comparisons: Iterable[str]) -> str:
    return " OR ".join(f"coalesce({one}, false)" for one in comparisons)


def _all(comparisons: Iterable[str]) -> str:
    return " AND ".join(f"coalesce({one}, true)" for one in comparisons)


def number_eras(connection: duckdb.DuckDBPyConnection, key: str, totals: Sequence[str]) -> None:
    """Set the column ``era`` of ``seen``, which holds the whole file: how often the clock was set back before a line.

    A file need not be in order of time: the newest snapshot may come first, and files may be appended to one another.
    Where the time goes back there, the totals do too. Where the totals go on rising while the time goes back, and to a
    time within the lines above, the clock was set. One line that goes back with its totals shows that order means
    nothing in this file.
    """
    connection.execute(f"""
        CREATE OR REPLACE TABLE steps AS
        WITH moves AS (
          SELECT server_name, line, at_utc_ns, lag(at_utc_ns) OVER one AS before_utc_ns,
            {_any(f"{name} < lag({name}) OVER one" for name in totals)} AS fell,
            {_any(f"{name} > lag({name}) OVER one" for name in totals)} AS rose
          FROM seen WINDOW one AS (PARTITION BY {key} ORDER BY line)
        ), back AS (
          SELECT server_name, at_utc_ns, min(line) AS line, bool_or(rose) AND NOT bool_or(fell) AS rises
          FROM moves WHERE at_utc_ns < before_utc_ns GROUP BY server_name, at_utc_ns
        ), starts AS (
          SELECT line, min(at_utc_ns) OVER (PARTITION BY server_name ORDER BY line) AS first_utc_ns FROM seen
        )
        SELECT server_name, line FROM (
          SELECT back.server_name, back.line, rises AND back.at_utc_ns > starts.first_utc_ns AS is_step
          FROM back JOIN starts ON starts.line = back.line
        ) QUALIFY bool_and(is_step) OVER (PARTITION BY server_name);
        UPDATE seen SET era = (
          SELECT count(*) FROM steps
          WHERE steps.server_name IS NOT DISTINCT FROM seen.server_name AND steps.line <= seen.line
        ) WHERE (SELECT count(*) FROM steps) > 0;
    """)


def take_out_passing(connection: duckdb.DuckDBPyConnection, key: str, totals: Sequence[str]) -> None:
    """Move lines of ``settled`` to ``passing`` whose totals do not fit between the snapshots on both sides.

    A row of zeros, or one snapshot of another server: totals fall and are back in the next snapshot, or leap and fall
    back. That of a restart does not come back at once, and a restart is one of all files: if the totals of any file of
    the snapshot stay low, nothing of it is taken out. ``last`` and ``seen`` are the lines before and after.
    """
    before = [f"lag({name}) OVER one" for name in totals]
    after = [f"lead({name}) OVER one" for name in totals]
    same_start = _all(f"{START_COLUMN} = {side}({START_COLUMN}) OVER one" for side in ("lag", "lead"))
    same_name = _all(
        f"lower({name}) = lower({side}({name}) OVER one)"
        for name in ("physical_name", "database_name")
        for side in ("lag", "lead")
        if "database_id" in key
    )
    comes_back = _all(
        f"{later} >= {earlier}"
        for later, earlier in [
            *zip(after, before, strict=True),
            *([("lead(sample_ms) OVER one", "lag(sample_ms) OVER one")] if "database_id" in key else []),
        ]
    )
    fell = _any(f"{name} < {earlier}" for name, earlier in zip(totals, before, strict=True))
    falls = _any(f"{later} < {name}" for name, later in zip(totals, after, strict=True))
    leapt = _any(f"{name} > {earlier}" for name, earlier in zip(totals, before, strict=True))
    connection.execute("CREATE OR REPLACE TABLE passing AS SELECT * FROM settled LIMIT 0")
    for moved in (fell, f"({falls}) AND ({leapt}) AND NOT ({fell})"):
        connection.execute(f"""
            CREATE OR REPLACE TABLE odd AS
            WITH lines AS (
              SELECT *, true AS is_new FROM settled
              UNION ALL BY NAME SELECT *, false AS is_new FROM last
              UNION ALL BY NAME SELECT *, false AS is_new FROM seen
            ), judged AS (
              SELECT server_name, at_utc_ns, era, line, is_new, {moved} AS moved,
                ({comes_back}) AND ({same_start}) AND ({same_name or "true"})
                  AND lag(at_utc_ns) OVER one IS NOT NULL AND lead(at_utc_ns) OVER one IS NOT NULL AS comes_back
              FROM lines WINDOW one AS (PARTITION BY {key} ORDER BY era, at_utc_ns, line)
            )
            SELECT line FROM judged WHERE moved AND is_new
            QUALIFY bool_and(comes_back) OVER (PARTITION BY server_name, era, at_utc_ns);
            INSERT INTO passing SELECT * FROM settled WHERE line IN (SELECT line FROM odd);
            DELETE FROM settled WHERE line IN (SELECT line FROM odd);
        """)
