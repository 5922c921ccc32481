-- How many reads and writes were due in each fifth of the load, and how long did they take?
--
-- fifth [number]: 0 to 4, counted from when the first was wanted to when the last was
-- io_count [I/Os]: those wanted in it; failed and unfinished ones are left out
-- response_ns_mean [ns]: mean of completed - wanted
--
-- The span ends where arrivals end, not where the last I/O completed: what overloaded storage has left by then would
-- empty the last fifth.
--
-- $layer [text]: the layer to measure at
WITH

wanted AS (
  SELECT
    coalesce(intended_ns, issued_ns) AS wanted_ns,
    completed_ns,
    error
  FROM io
  WHERE layer = $layer AND op IN ('read', 'write')
),

span AS (
  SELECT
    min(wanted_ns) AS start_ns,
    (max(wanted_ns) - min(wanted_ns)) // 5 + 1 AS fifth_ns
  FROM wanted
)

SELECT
  (wanted.wanted_ns - span.start_ns) // span.fifth_ns AS fifth,
  count(*) AS io_count,
  avg(greatest(wanted.completed_ns - wanted.wanted_ns, 0)) AS response_ns_mean
FROM wanted
CROSS JOIN span
WHERE wanted.completed_ns IS NOT NULL AND wanted.error = 0
GROUP BY ALL
ORDER BY fifth
