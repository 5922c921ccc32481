-- Which stretch of the given length held the most reads and writes?
--
-- start_ns [ns]: when it begins, on a whole second since the recording's start
-- io_count [I/Os]: how many were issued in it
--
-- $layer [text]: the layer to count at
-- $seconds_after [s]: whole seconds of the stretch after its first
WITH

per_second AS (
  SELECT
    issued_ns // 1000000000 AS second,
    count(*) AS io_count
  FROM io
  WHERE layer = $layer AND op IN ('read', 'write') AND issued_ns >= 0
  GROUP BY ALL
),

-- A stretch starts best at a second with I/Os, so only those need to be tried.
per_stretch AS (
  SELECT
    second,
    sum(io_count) OVER (
      ORDER BY second
      RANGE BETWEEN CURRENT ROW AND $seconds_after FOLLOWING
    ) AS io_count
  FROM per_second
)

SELECT
  second * 1000000000 AS start_ns,
  io_count::BIGINT AS io_count
FROM per_stretch
ORDER BY io_count DESC, start_ns ASC
LIMIT 1
