-- How long do reads and writes take at each layer, and how many are in flight there?
--
-- layer [text]: where the clock stands
-- io_count [I/Os]: completed reads and writes that began in the window
-- latency_ns_mean [ns]: mean of completed minus issued
-- in_flight_mean [I/Os in flight]: under way at a time, averaged over time
-- in_flight_p95 [I/Os in flight]: under way at a time, at most, for 95 % of the time
--
-- $start_ns [ns]: start of the window
-- $end_ns [ns]: end of the window
WITH

finished AS (
  SELECT
    layer,
    issued_ns,
    completed_ns
  FROM io
  WHERE
    completed_ns IS NOT NULL
    AND op IN ('read', 'write')
    AND issued_ns BETWEEN $start_ns AND $end_ns
),

edges AS (
  SELECT
    layer,
    issued_ns AS at_ns,
    1 AS change
  FROM finished
  UNION ALL
  SELECT
    layer,
    completed_ns AS at_ns,
    -1 AS change
  FROM finished
),

changes AS (
  SELECT
    layer,
    at_ns,
    sum(change) AS change
  FROM edges
  GROUP BY ALL
),

levels AS (
  SELECT
    layer,
    sum(change) OVER (PARTITION BY layer ORDER BY at_ns) AS in_flight,
    lead(at_ns) OVER (PARTITION BY layer ORDER BY at_ns) - at_ns AS lasted_ns
  FROM changes
),

at_level AS (
  SELECT
    layer,
    in_flight,
    sum(lasted_ns)::DOUBLE AS lasted_ns
  FROM levels
  WHERE lasted_ns > 0
  GROUP BY ALL
),

shares AS (
  SELECT
    layer,
    in_flight,
    lasted_ns,
    sum(lasted_ns) OVER (PARTITION BY layer ORDER BY in_flight)
    / sum(lasted_ns) OVER (PARTITION BY layer) AS share_at_or_below
  FROM at_level
),

depth AS (
  SELECT
    layer,
    sum(in_flight * lasted_ns) / sum(lasted_ns) AS in_flight_mean,
    min(in_flight) FILTER (WHERE share_at_or_below >= 0.95) AS in_flight_p95
  FROM shares
  GROUP BY layer
),

latency AS (
  SELECT
    layer,
    count(*) AS io_count,
    avg(completed_ns - issued_ns) AS latency_ns_mean
  FROM finished
  GROUP BY layer
)

SELECT
  latency.layer,
  latency.io_count,
  latency.latency_ns_mean,
  coalesce(depth.in_flight_mean, 0)::DOUBLE AS in_flight_mean,
  coalesce(depth.in_flight_p95, 0)::BIGINT AS in_flight_p95
FROM latency
LEFT JOIN depth USING (layer)
ORDER BY latency.layer
