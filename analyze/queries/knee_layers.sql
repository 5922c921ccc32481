-- At which layers does the recording show whole reads and writes, and how many of them did a replay plan?
--
-- layer [text]: where the clock stands
-- io_count [I/Os]: completed reads and writes
-- planned_count [I/Os]: those that carry an intended time
WITH

finished AS (
  SELECT
    layer,
    intended_ns
  FROM io
  WHERE completed_ns IS NOT NULL AND op IN ('read', 'write')
)

SELECT
  layer,
  count(*) AS io_count,
  count(intended_ns) AS planned_count
FROM finished
GROUP BY layer
ORDER BY layer
