-- How long were the waits in each stretch of time, for the types of wait that cost most?
--
-- wait_type [text]: as SQL Server names it, the one that cost most first
-- slot [index]: stretch of time in which waits ended
-- waited_ns [ns]: how long these waits were, added up
--
-- $start_ns [ns]: where slot 0 begins
-- $end_ns [ns]: what ends from here on does not count
-- $slot_ns [ns]: length of a slot
-- $types_max [types]: how many types to tell of
WITH

inside AS (
  SELECT
    *,
    (at_ns - $start_ns) // $slot_ns AS slot
  FROM waits
  WHERE at_ns >= $start_ns AND at_ns < $end_ns
),

costliest AS (
  SELECT
    wait_type,
    sum(duration_ns) AS total_ns
  FROM inside
  GROUP BY wait_type
  ORDER BY total_ns DESC, wait_type
  LIMIT $types_max
)

SELECT
  inside.wait_type,
  inside.slot,
  sum(inside.duration_ns)::DOUBLE AS waited_ns
FROM inside
INNER JOIN costliest USING (wait_type)
GROUP BY ALL
ORDER BY max(costliest.total_ns) DESC, inside.wait_type, inside.slot
